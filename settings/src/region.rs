//! Which stretch of an application is captured as a whole: the triggers of [`Interceptor::capture_region`](crate::Interceptor::capture_region).

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use crate::{Interceptor, Trigger, Value, When};

/// What is between the two triggers.
const TO: &[u8] = b"..";

/// How regions look.
const FORMS: &str = "expected TRIGGER or TRIGGER..TRIGGER, with triggers like dispatches:N-M, kernel:REGEX, kernel:REGEX@N-M, seconds:A-B, range:NAME, range:NAME@N-M, profiler or file:PATH";

/// Variables that choose single dispatches, how much of them is captured and what is idle then: a region has all of its dispatches, one
/// at a time, and reads what they reach.
pub const OF_SINGLE_DISPATCHES: [&str; 8] = [
    Interceptor::capture_kernels,
    Interceptor::capture_exclude,
    Interceptor::capture_dispatches,
    Interceptor::capture_grid,
    Interceptor::capture_device,
    Interceptor::capture_scope,
    Interceptor::capture_after,
    Interceptor::capture_quiesce,
];

/// A stretch of an application, by the dispatches with which it begins and ends.
#[derive(Clone, Debug, PartialEq)]
pub struct Region {
    /// It begins with the first dispatch in the moment of which these are met.
    pub begins: When,
    /// It ends with the first later dispatch in the moment of which these are met. Without them, it has the dispatches from the first one
    /// on for as long as `begins` are met.
    pub ends: Option<When>,
}

/// Triggers that can choose a dispatch: how many were recorded, and signals, do not.
fn triggers(text: &[u8]) -> Option<When> {
    let when = When::read(text, Trigger::of_dispatch)?;
    let chooses = |trigger: &Trigger| !matches!(trigger, Trigger::Count(_) | Trigger::Signal);
    (!when.0.is_empty() && when.0.iter().all(chooses)).then_some(when)
}

impl Region {
    /// The text that it is read from.
    pub fn text(&self) -> OsString {
        let mut text = self.begins.text().into_vec();
        if let Some(ends) = &self.ends {
            text.extend(TO);
            text.extend(ends.text().into_vec());
        }
        OsString::from_vec(text)
    }

    /// The triggers of both ends.
    pub fn triggers_mut(&mut self) -> impl Iterator<Item = &mut Trigger> {
        self.begins.0.iter_mut().chain(self.ends.iter_mut().flat_map(|ends| &mut ends.0))
    }

    /// The triggers of both ends.
    pub fn triggers(&self) -> impl Iterator<Item = &Trigger> {
        self.begins.0.iter().chain(self.ends.iter().flat_map(|ends| &ends.0))
    }

    fn read(text: &[u8]) -> Option<Region> {
        // Names, paths and expressions may have dots, too: what is on both sides of the right ones are triggers.
        let both = text.windows(TO.len()).enumerate().filter(|(_, window)| *window == TO).find_map(|(at, _)| {
            let (begins, ends) = (triggers(&text[..at])?, triggers(&text[at + TO.len()..])?);
            Some(Region { begins, ends: Some(ends) })
        });
        both.or_else(|| Some(Region { begins: triggers(text)?, ends: None }))
    }
}

impl Value for Option<Region> {
    fn parse(text: &OsStr) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(None);
        }
        Region::read(text.as_bytes()).map(Some).ok_or_else(|| FORMS.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_read_and_written_and_dots_in_names_are_no_ends() {
        let read = |text: &str| Option::<Region>::parse(OsStr::new(text)).unwrap().unwrap();
        let when = |text: &str| When::read(text.as_bytes(), Trigger::of_dispatch).unwrap();
        for (text, begins, ends) in [
            ("dispatches:10..dispatches:20", "dispatches:10", Some("dispatches:20")),
            ("kernel:a.*@3..kernel:b@1", "kernel:a.*@3", Some("kernel:b@1")),
            ("kernel:a..b@3", "kernel:a..b@3", None),
            ("kernel:a..b@3..kernel:c..d@1-2", "kernel:a..b@3", Some("kernel:c..d@1-2")),
            ("kernel:^a.*b$..kernel:c", "kernel:^a.*b$", Some("kernel:c")),
            ("kernel:a::b", "kernel:a::b", None),
            ("range:step", "range:step", None),
            ("range:a..range:b", "range:a", Some("range:b")),
            ("range:a..b", "range:a..b", None),
            ("file:/x/../y,profiler..seconds:1-2", "file:/x/../y,profiler", Some("seconds:1-2")),
        ] {
            let region = read(text);
            assert_eq!(region, Region { begins: when(begins), ends: ends.map(when) }, "{text}");
            assert_eq!(region.text(), text);
        }
        assert_eq!(read("dispatch:1..dispatch:2-3").text(), "dispatches:1..dispatches:2-3");
        assert_eq!(read("file:a..file:b").triggers().count(), 2);
        assert_eq!(Option::<Region>::parse(OsStr::new("")), Ok(None));
    }

    #[test]
    fn what_chooses_no_dispatch_is_no_region_and_the_forms_are_told() {
        for text in [
            "x",
            "..",
            "dispatches:1..",
            "..dispatches:1",
            "count:3",
            "dispatches:1..count:3",
            "signal",
            "1..2",
            "kernel:",
        ] {
            assert_eq!(Option::<Region>::parse(OsStr::new(text)), Err(FORMS.to_owned()), "{text}");
        }
        for text in ["kernel:a@x", "kernel:a..kernel:", "kernel:a..dispatch", "kernel:a@3-1..kernel:b"] {
            assert_eq!(Option::<Region>::parse(OsStr::new(text)), Err(FORMS.to_owned()), "{text}");
        }
    }
}
