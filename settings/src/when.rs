//! When dispatches are recorded: the triggers of [`Interceptor::when`](crate::Interceptor::when).

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::Duration;

use crate::Value;

/// Numbers from a first to a last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first one.
    pub first: u64,
    /// The last one; the greatest number if there is none.
    pub last: u64,
}

impl Span {
    /// All numbers.
    pub const ALL: Span = Span { first: 0, last: u64::MAX };

    /// Reads `N`, `N-M` or `N+`.
    fn read(text: &str) -> Option<Span> {
        let number = |text: &str| text.parse::<u64>().ok();
        let span = match (text.strip_suffix('+'), text.split_once('-')) {
            (Some(first), _) => Span { first: number(first)?, last: u64::MAX },
            (None, Some((first, last))) => Span { first: number(first)?, last: number(last)? },
            (None, None) => Span { first: number(text)?, last: number(text)? },
        };
        Some(span).filter(|span| span.first <= span.last)
    }

    /// True for a number of these.
    pub const fn has(self, number: u64) -> bool {
        self.first <= number && number <= self.last
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.first, self.last) {
            (first, u64::MAX) => write!(f, "{first}+"),
            (first, last) if first == last => write!(f, "{first}"),
            (first, last) => write!(f, "{first}-{last}"),
        }
    }
}

/// A condition on the moment of a dispatch.
#[derive(Clone, Debug, PartialEq)]
pub enum Trigger {
    /// Its number, as the column `id` has it.
    Dispatches(Span),
    /// How long ago the library was loaded: from a moment, to another one if there is one.
    Seconds(Duration, Option<Duration>),
    /// Of kernels whose names match a regular expression, the dispatch with the first of these numbers, from 1, has come, and the one
    /// behind the last has not. With [`Span::ALL`], it is a dispatch of such a kernel.
    Kernel(String, Span),
    /// Fewer dispatches than this were recorded.
    Count(u64),
    /// A range of ROCTx with this name is open, and its number among those of the process, from 1, is one of these.
    Range(String, Span),
    /// The application has called `roctxProfilerResume`, and not `roctxProfilerPause` since.
    Profiler,
    /// There is a file with this path.
    File(PathBuf),
    /// `omniprobe` has got an odd number of signals SIGUSR2: it makes a [`Trigger::File`] of this.
    Signal,
}

impl Trigger {
    /// True for what the library of markers sees.
    pub const fn needs_markers(&self) -> bool {
        matches!(self, Trigger::Range(..) | Trigger::Profiler)
    }
}

/// How triggers look.
const FORMS: &str = "expected dispatches:N-M, kernel:REGEX@N-M, count:N, seconds:A-B, range:NAME, range:NAME@N-M, profiler, file:PATH or signal, with commas between triggers";

impl Trigger {
    /// Reads a condition, of which kernels may stand without numbers: this very dispatch is one of them. Wrong numbers, and another
    /// trigger behind two dots, are no part of a name.
    pub(crate) fn of_dispatch(text: &[u8]) -> Option<Trigger> {
        let is_name = |name: &&str| !name.is_empty() && !name.contains('@') && !name.contains("..");
        let of_kernel = || {
            let name = str::from_utf8(text.strip_prefix(b"kernel:")?).ok().filter(is_name)?;
            Some(Trigger::Kernel(name.to_owned(), Span::ALL))
        };
        Trigger::read(text).or_else(of_kernel)
    }

    fn read(text: &[u8]) -> Option<Trigger> {
        let colon = text.iter().position(|&byte| byte == b':');
        let (kind, of) = colon.map_or((text, None), |at| (&text[..at], Some(&text[at + 1..])));
        let of = of.filter(|of| !of.is_empty());
        match (kind, of) {
            (b"profiler", None) if colon.is_none() => Some(Trigger::Profiler),
            (b"signal", None) if colon.is_none() => Some(Trigger::Signal),
            (b"file", Some(path)) => Some(Trigger::File(OsString::from_vec(path.to_vec()).into())),
            (_, of) => {
                let of = str::from_utf8(of?).ok()?;
                match kind {
                    b"dispatches" | b"dispatch" => Span::read(of).map(Trigger::Dispatches),
                    b"kernel" => numbered(of).map(|(name, numbers)| Trigger::Kernel(name.to_owned(), numbers)),
                    b"count" => of.parse().ok().filter(|count| *count > 0).map(Trigger::Count),
                    b"seconds" => seconds(of),
                    b"range" => Some(range(of)),
                    _ => None,
                }
            }
        }
    }
}

/// The latest moment in seconds: an `f64` still tells its nanoseconds.
const MOST_SECONDS: f64 = 1e6;

/// `A-B` or `A+`, in seconds.
fn seconds(text: &str) -> Option<Trigger> {
    let known = |seconds: &f64| *seconds <= MOST_SECONDS;
    let read = |text: &str| Duration::try_from_secs_f64(text.parse().ok().filter(known)?).ok();
    if let Some(from) = text.strip_suffix('+') {
        return Some(Trigger::Seconds(read(from)?, None));
    }
    let (from, to) = text.split_once('-')?;
    let (from, to) = (read(from)?, read(to)?);
    (from < to).then_some(Trigger::Seconds(from, Some(to)))
}

/// A name, which may have an `@` itself, and the numbers behind its last one.
fn numbered(text: &str) -> Option<(&str, Span)> {
    let (name, numbers) = text.rsplit_once('@')?;
    Some((name, Span::read(numbers)?)).filter(|(name, _)| !name.is_empty())
}

fn range(text: &str) -> Trigger {
    let (name, numbers) = numbered(text).unwrap_or((text, Span::ALL));
    Trigger::Range(name.to_owned(), numbers)
}

impl fmt::Display for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trigger::Dispatches(span) => write!(f, "dispatches:{span}"),
            Trigger::Kernel(regex, Span::ALL) if numbered(regex).is_none() => write!(f, "kernel:{regex}"),
            Trigger::Kernel(regex, numbers) => write!(f, "kernel:{regex}@{numbers}"),
            Trigger::Count(count) => write!(f, "count:{count}"),
            Trigger::Seconds(from, None) => write!(f, "seconds:{}+", from.as_secs_f64()),
            Trigger::Seconds(from, Some(to)) => write!(f, "seconds:{}-{}", from.as_secs_f64(), to.as_secs_f64()),
            // A name may end like numbers.
            Trigger::Range(name, Span::ALL) if range(name) == *self => write!(f, "range:{name}"),
            Trigger::Range(name, numbers) => write!(f, "range:{name}@{numbers}"),
            Trigger::Profiler => f.write_str("profiler"),
            Trigger::File(path) => write!(f, "file:{}", path.display()),
            Trigger::Signal => f.write_str("signal"),
        }
    }
}

/// All triggers that have to be met; none means always.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct When(pub Vec<Trigger>);

impl When {
    /// Reads triggers, each as `one` does.
    pub(crate) fn read(text: &[u8], one: fn(&[u8]) -> Option<Trigger>) -> Option<When> {
        parts(text).iter().map(|part| one(part)).collect::<Option<_>>().map(When)
    }

    /// The text that it is read from.
    pub fn text(&self) -> OsString {
        let text = |trigger: &Trigger| match trigger {
            Trigger::File(path) => [b"file:".as_slice(), path.as_os_str().as_bytes()].concat(),
            other => other.to_string().into_bytes(),
        };
        let escaped = self.0.iter().map(text).map(|bytes| {
            let escape = |&byte: &u8| matches!(byte, b',' | b'\\').then_some(b'\\').into_iter().chain([byte]);
            bytes.iter().flat_map(escape).collect::<Vec<u8>>()
        });
        OsString::from_vec(escaped.collect::<Vec<_>>().join(&b','))
    }
}

impl Value for When {
    fn parse(text: &OsStr) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(When::default());
        }
        When::read(text.as_bytes(), Trigger::read).ok_or_else(|| FORMS.to_owned())
    }
}

/// What is between commas; behind a backslash, a comma or a backslash is part of a name.
fn parts(text: &[u8]) -> Vec<Vec<u8>> {
    let (mut parts, mut part) = (Vec::new(), Vec::new());
    let mut bytes = text.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        match (byte, bytes.peek()) {
            (b'\\', Some(b',' | b'\\')) => part.extend(bytes.next()),
            (b',', _) => parts.push(std::mem::take(&mut part)),
            _ => part.push(byte),
        }
    }
    parts.push(part);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn triggers_are_read_and_written() {
        let span = |first, last| Span { first, last };
        let second = Duration::from_secs(1);
        for (text, triggers) in [
            ("", vec![]),
            ("dispatches:7", vec![Trigger::Dispatches(span(7, 7))]),
            ("dispatches:7-9", vec![Trigger::Dispatches(span(7, 9))]),
            ("dispatches:7+", vec![Trigger::Dispatches(span(7, u64::MAX))]),
            ("kernel:a@b@3-5,count:9", vec![Trigger::Kernel("a@b".into(), span(3, 5)), Trigger::Count(9)]),
            ("kernel:^k.+$@2+", vec![Trigger::Kernel("^k.+$".into(), span(2, u64::MAX))]),
            ("seconds:1+", vec![Trigger::Seconds(second, None)]),
            ("seconds:0.5-1", vec![Trigger::Seconds(second / 2, Some(second))]),
            ("range:step", vec![Trigger::Range("step".into(), Span::ALL)]),
            ("range:a:b@c", vec![Trigger::Range("a:b@c".into(), Span::ALL)]),
            ("range:a@b@3-5", vec![Trigger::Range("a@b".into(), span(3, 5))]),
            ("profiler,file:/a:b", vec![Trigger::Profiler, Trigger::File("/a:b".into())]),
        ] {
            assert_eq!(When::parse(OsStr::new(text)), Ok(When(triggers.clone())), "{text}");
            assert_eq!(When(triggers).text(), text);
        }
        assert_eq!(When::parse(OsStr::new("dispatch:7")), Ok(When(vec![Trigger::Dispatches(span(7, 7))])));
        for (triggers, text) in [
            (vec![Trigger::Range("a,b".into(), Span::ALL), Trigger::Signal], r"range:a\,b,signal"),
            (vec![Trigger::File(r"/a\".into()), Trigger::Signal], r"file:/a\\,signal"),
            (vec![Trigger::Range("a@3".into(), Span::ALL)], "range:a@3@0+"),
            (vec![Trigger::Range("a".into(), span(3, 3))], "range:a@3"),
        ] {
            assert_eq!(When(triggers.clone()).text(), text);
            assert_eq!(When::parse(OsStr::new(text)), Ok(When(triggers)), "{text}");
        }
        // Another backslash is one.
        assert_eq!(When::parse(OsStr::new(r"range:a\b")), Ok(When(vec![Trigger::Range(r"a\b".into(), Span::ALL)])));
    }

    #[test]
    fn what_is_no_trigger_is_told_with_the_forms() {
        for text in [
            "x",
            "range",
            "range:",
            "dispatches:",
            "dispatches:9-7",
            "dispatches:-1",
            "seconds:5",
            "seconds:2-1",
            "seconds:nan+",
            "seconds:1e99+",
            "kernel:a",
            "kernel:@3",
            "kernel:a@x",
            "count:0",
            "count:-1",
            "profiler:1",
            "profiler:",
            "signal:",
            "file:",
            "profiler,",
            ",",
        ] {
            assert_eq!(When::parse(OsStr::new(text)), Err(FORMS.to_owned()), "{text}");
        }
    }
}
