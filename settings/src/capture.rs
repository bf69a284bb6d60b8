//! What is captured: types of the `LOGDUR_CAPTURE_*` variables.

use std::ffi::OsStr;

use crate::Value;
use crate::value::words;

/// Which dispatches of each kernel and geometry are captured, counted from 1.
#[derive(Clone, Debug, PartialEq)]
pub enum Occurrences {
    /// Those in these ranges, both ends included.
    Ranges(Vec<(u64, u64)>),
    /// Every so-many-th, the first among them.
    Every(u64),
    /// A random share, from 0 to 1.
    Random(f64),
}

impl Occurrences {
    /// The first one only.
    pub fn first() -> Occurrences {
        Occurrences::Ranges(vec![(1, 1)])
    }
}

impl Value for Occurrences {
    fn parse(text: &OsStr) -> Result<Self, String> {
        let expected = || "expected numbers and ranges like 1,3-7, every:N, or random:P%".to_owned();
        let text = text.to_str().ok_or_else(expected)?;
        if let Some(every) = text.strip_prefix("every:") {
            return every.parse().ok().filter(|&n| n > 0).map(Occurrences::Every).ok_or_else(expected);
        }
        if let Some(share) = text.strip_prefix("random:") {
            let percent = share.strip_suffix('%').and_then(|p| p.parse::<f64>().ok());
            let share = percent.filter(|p| (0.0..=100.0).contains(p)).map(|p| p / 100.0);
            return share.map(Occurrences::Random).ok_or_else(expected);
        }
        let range = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let ends = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            Some(ends).filter(|(first, last)| 0 < *first && first <= last)
        };
        text.split(',').map(range).collect::<Option<_>>().map(Occurrences::Ranges).ok_or_else(expected)
    }
}

/// Work-items of a grid in x, y and z; dimensions that are not given are 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid(pub [u32; 3]);

impl Value for Option<Grid> {
    fn parse(text: &OsStr) -> Result<Self, String> {
        let expected = || "expected work-items like 4096, 64x64 or 64x64x2".to_owned();
        let text = text.to_str().ok_or_else(expected)?;
        if text.is_empty() {
            return Ok(None);
        }
        let sizes: Vec<u32> =
            text.split('x').map(|n| n.parse().ok().filter(|&n| n > 0)).collect::<Option<_>>().ok_or_else(expected)?;
        let mut grid = [1; 3];
        if sizes.len() > grid.len() {
            return Err(expected());
        }
        grid.iter_mut().zip(sizes).for_each(|(to, size)| *to = size);
        Ok(Some(Grid(grid)))
    }
}

/// Who may read and write a file: the bits of `chmod`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileMode(pub u32);

impl Value for FileMode {
    fn parse(text: &OsStr) -> Result<Self, String> {
        let expected = || "expected an octal mode from 0 to 777, like 600 or 640".to_owned();
        let text = text.to_str().filter(|text| text.bytes().all(|b| b.is_ascii_digit())).ok_or_else(expected)?;
        u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777).map(FileMode).ok_or_else(expected)
    }
}

words! {
    /// How much of memory is captured.
    CaptureScope {
        /// The kernel arguments only.
        Kernarg = "kernarg",
        /// What arguments point to.
        Args = "args",
        /// What may be reached from arguments through memory.
        Reachable = "reachable",
        /// Everything.
        All = "all",
    }
}

words! {
    /// How chunks of memory are compressed.
    Compress {
        /// Where it is worth it.
        Auto = "auto",
        /// Not at all.
        None = "none",
        /// By LZ4.
        Lz4 = "lz4",
        /// By zstd.
        Zstd = "zstd",
    }
}

words! {
    /// What a capture says of the process.
    CaptureTell {
        /// Neither its program, its command line nor its environment.
        None = "none",
        /// Program and command line.
        Command = "command",
        /// Variables that runtimes and tools read, too.
        Environment = "environment",
    }
}

words! {
    /// What has to be at rest when memory is read.
    Quiesce {
        /// The dispatch's own queue.
        Queue = "queue",
        /// Every queue of its GPU.
        Device = "device",
        /// Every queue.
        Process = "process",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn occurrences_are_ranges_steps_or_shares() {
        let parse = |text: &str| Occurrences::parse(OsStr::new(text)).ok();
        assert_eq!(parse("1"), Some(Occurrences::first()));
        assert_eq!(parse("1,3-7"), Some(Occurrences::Ranges(vec![(1, 1), (3, 7)])));
        assert_eq!(
            (parse("every:100"), parse("random:1%")),
            (Some(Occurrences::Every(100)), Some(Occurrences::Random(0.01)))
        );
        for text in ["", "0", "7-3", "every:0", "random:101%", "random:1", "all"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn modes_of_files_are_octal_numbers() {
        let parse = |text: &str| FileMode::parse(OsStr::new(text)).ok().map(|mode| mode.0);
        assert_eq!([parse("600"), parse("0640"), parse("0")], [Some(0o600), Some(0o640), Some(0)]);
        for text in ["", "1777", "6a0", "-600", "+600", "0o600", "689", "u=rw"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn grids_have_up_to_three_dimensions() {
        let parse = |text: &str| Option::<Grid>::parse(OsStr::new(text));
        assert_eq!((parse("64"), parse("64x2x3")), (Ok(Some(Grid([64, 1, 1]))), Ok(Some(Grid([64, 2, 3])))));
        assert!(parse("0").is_err() && parse("1x2x3x4").is_err() && parse("x").is_err());
    }
}
