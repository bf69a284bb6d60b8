//! The log of the library as JSON: what the checks ask of it.

use serde_json::Value;

use crate::finding::CheckError;

/// A log.
#[derive(Debug, Default)]
pub(crate) struct Log {
    /// Rows of dispatches.
    pub(crate) rows: Vec<Row>,
    pub(crate) notices: Vec<String>,
}

/// What is asked of a row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    /// When its doorbell was rung, in nanoseconds of the system's clock.
    pub(crate) dispatch: u64,
    /// When it ran; `None` for a row without times.
    pub(crate) ran: Option<(u64, u64)>,
    pub(crate) flags: Vec<String>,
}

impl Log {
    /// Reads a log.
    ///
    /// # Errors
    /// When a line is no JSON object.
    pub(crate) fn parse(text: &str) -> Result<Log, CheckError> {
        let mut log = Log::default();
        for line in text.lines() {
            let wrong = || CheckError::Log { expected: "a JSON object", found: line.chars().take(80).collect() };
            let value: Value = serde_json::from_str(line).map_err(|_| wrong())?;
            if let Some(notice) = value["notice"].as_str() {
                log.notices.push(notice.to_owned());
            } else if value.get("kernel").is_some() {
                let flags = value["flags"].as_array().into_iter().flatten();
                log.rows.push(Row {
                    dispatch: value["dispatch"].as_u64().ok_or_else(wrong)?,
                    ran: value["startNs"].as_u64().zip(value["endNs"].as_u64()),
                    flags: flags.filter_map(|flag| flag.as_str().map(str::to_owned)).collect(),
                });
            }
        }
        Ok(log)
    }

    /// True when a notice has this text in it.
    pub(crate) fn has_notice(&self, text: &str) -> bool {
        self.notices.iter().any(|notice| notice.contains(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_with_and_without_times_and_notices_are_told_apart() {
        let log = Log::parse(concat!(
            r#"{"agent":0,"name":"gfx90a"}"#,
            "\n",
            r#"{"kernel":"k","dispatch":5,"startNs":7,"endNs":9,"flags":[]}"#,
            "\n",
            r#"{"kernel":"k","dispatch":5,"startNs":null,"endNs":null,"flags":["no-times"]}"#,
            "\n",
            r#"{"notice":"queue 1: its packets are written around"}"#,
        ))
        .unwrap();
        assert_eq!(log.rows[0], Row { dispatch: 5, ran: Some((7, 9)), flags: vec![] });
        assert_eq!((log.rows[1].ran, log.rows[1].flags.as_slice()), (None, ["no-times".to_owned()].as_slice()));
        assert!(log.has_notice("written around"));
        assert!(Log::parse("kernel,dispatch").is_err());
    }
}
