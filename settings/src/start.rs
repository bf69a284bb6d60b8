//! What is on when the library is loaded: the value of [`Interceptor::start`](crate::Interceptor::start).

use std::ffi::OsStr;

use crate::Value;
use crate::value::{expected_one_of, words};

words! {
    /// What can be on or off besides rows, in a process that can be controlled.
    Feature {
        /// Dispatches are captured.
        Capture = "capture",
        /// Instrumented clones run.
        Instrument = "instrument",
        /// Kernels of the cache run in place of the application's.
        Swap = "swap",
    }
}

impl Feature {
    /// All of them.
    pub const ALL: [Feature; 3] = [Feature::Capture, Feature::Instrument, Feature::Swap];

    /// The features that words name, with commas in between; none without text.
    ///
    /// # Errors
    /// What was expected and what was found.
    pub fn list(text: &str) -> Result<Vec<Feature>, String> {
        let mut features = Vec::new();
        for word in text.split(',').filter(|_| !text.is_empty()) {
            let feature = Feature::parse(OsStr::new(word))
                .map_err(|_| format!("{} for each feature, found {word:?}", expected_one_of(&Feature::WORDS)))?;
            if !features.contains(&feature) {
                features.push(feature);
            }
        }
        Ok(features)
    }
}

/// What is on when the library is loaded, in a process that can be controlled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// All that is set.
    On,
    /// Nothing. Rows and these features can be turned on.
    Off(Vec<Feature>),
}

impl Start {
    /// True if a feature can be turned on.
    pub fn has(&self, feature: Feature) -> bool {
        match self {
            Start::On => true,
            Start::Off(features) => features.contains(&feature),
        }
    }
}

impl Value for Option<Start> {
    fn parse(text: &OsStr) -> Result<Self, String> {
        let expected = || format!("expected on, off or off,FEATURE[,FEATURE] of {}", Feature::WORDS.join(", "));
        let text = text.to_str().ok_or_else(expected)?;
        match text.split_once(',') {
            None if text.is_empty() => Ok(None),
            None if text == "on" => Ok(Some(Start::On)),
            None if text == "off" => Ok(Some(Start::Off(Vec::new()))),
            Some(("off", features)) => Feature::list(features)
                .ok()
                .filter(|features| !features.is_empty())
                .map(|features| Some(Start::Off(features)))
                .ok_or_else(expected),
            _ => Err(expected()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Option<Start>, String> {
        Value::parse(OsStr::new(text))
    }

    #[test]
    fn what_is_on_at_the_start_is_read() {
        assert_eq!(parse(""), Ok(None));
        assert_eq!(parse("on"), Ok(Some(Start::On)));
        assert_eq!(parse("off"), Ok(Some(Start::Off(Vec::new()))));
        let both = Start::Off(vec![Feature::Swap, Feature::Capture]);
        assert_eq!(parse("off,swap,capture,swap"), Ok(Some(both.clone())));
        assert!(both.has(Feature::Swap) && !both.has(Feature::Instrument) && Start::On.has(Feature::Capture));
        for wrong in ["off,", "off,log", "on,capture", "capture", "off capture", ","] {
            let expected = "expected on, off or off,FEATURE[,FEATURE] of capture, instrument, swap";
            assert_eq!(parse(wrong), Err(expected.to_owned()), "{wrong}");
        }
    }
}
