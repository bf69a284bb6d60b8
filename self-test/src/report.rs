//! What the checks found, all together: which held, and what the library will therefore do.

use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::Check;
use crate::finding::Findings;

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// All that was asked is as the library needs it.
    Held,
    /// Something is not.
    Failed,
    /// It was not run, or has nothing to say here.
    NotRun,
}

impl Verdict {
    /// Its word in the report.
    pub const fn word(self) -> &'static str {
        match self {
            Verdict::Held => "held",
            Verdict::Failed => "FAILED",
            Verdict::NotRun => "not run",
        }
    }
}

/// How dispatches of applications will be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Library {
    /// In the rings of the application's own queues.
    InPlace,
    /// Through the runtime's intercept queues.
    Fallback,
    /// Not at all.
    Off,
}

impl Library {
    /// Its word in the report.
    pub const fn word(self) -> &'static str {
        match self {
            Library::InPlace => "in place",
            Library::Fallback => "fallback",
            Library::Off => "off",
        }
    }
}

/// What a part answered.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Found(Findings),
    /// Its process failed.
    Failed(String),
}

impl Answer {
    pub(crate) fn broken(&self) -> Vec<String> {
        match self {
            Answer::Found(findings) => findings.broken.clone(),
            Answer::Failed(reason) => vec![reason.clone()],
        }
    }
}

/// A check and what came of it.
#[derive(Clone, Debug, Serialize)]
pub struct Result {
    /// Its number.
    pub number: u32,
    /// Its name.
    pub name: &'static str,
    /// What was asked.
    pub question: &'static str,
    /// How it ended.
    pub verdict: Verdict,
    /// What does not hold, or why it was not run.
    pub reasons: Vec<String>,
    /// How long it took.
    pub seconds: f64,
    /// Figures by part and name.
    pub figures: Map<String, Value>,
}

/// Everything.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// The checks, in the order in which they ran.
    pub checks: Vec<Result>,
}

impl Report {
    /// True if a check was run, and held.
    pub fn holds(&self, name: &str) -> bool {
        self.checks.iter().any(|check| check.name == name && check.verdict == Verdict::Held)
    }

    fn failed(&self, name: &str) -> bool {
        self.checks.iter().any(|check| check.name == name && check.verdict == Verdict::Failed)
    }

    fn figure(&self, check: &str, part: &str, name: &str) -> Option<&Value> {
        self.checks.iter().find(|c| c.name == check)?.figures.get(part)?.get(name)
    }

    pub(crate) fn not_run(&mut self, check: &Check, need: &str) {
        self.checks.push(Result {
            number: check.number,
            name: check.name,
            question: check.question,
            verdict: Verdict::NotRun,
            reasons: vec![format!("it needs the check {need}, which did not hold")],
            seconds: 0.0,
            figures: Map::new(),
        });
    }

    pub(crate) fn add(&mut self, check: &Check, answers: Vec<(&'static str, Answer)>, took: Duration) {
        let reasons: Vec<String> = answers.iter().flat_map(|(_, answer)| answer.broken()).collect();
        let mut verdict = if reasons.is_empty() { Verdict::Held } else { Verdict::Failed };
        let (mut figures, mut nothing) = (Map::new(), Vec::new());
        for (part, answer) in answers {
            let Answer::Found(findings) = answer else { continue };
            nothing.extend(findings.not_applicable);
            figures.insert(part.to_owned(), Value::Object(findings.figures));
        }
        if verdict == Verdict::Held && !nothing.is_empty() {
            verdict = Verdict::NotRun;
        }
        self.checks.push(Result {
            number: check.number,
            name: check.name,
            question: check.question,
            verdict,
            reasons: if reasons.is_empty() { nothing } else { reasons },
            seconds: (took.as_secs_f64() * 1000.0).round() / 1000.0,
            figures,
        });
    }

    /// What the library will do here, and why where that is not the default.
    pub fn library(&self) -> (Library, Vec<String>) {
        let seen = self.figure("rows", "empty", "way").and_then(Value::as_str);
        if let Some(check) = ["identity", "loading"].into_iter().find(|check| !self.holds(check)) {
            return (Library::Off, vec![format!("the check {check} did not hold")]);
        }
        let unsafe_in_place = ["hold", "read-index"].into_iter().find(|check| self.failed(check));
        match (seen, unsafe_in_place) {
            (Some("off"), _) => (Library::Off, vec!["no dispatch was seen".to_owned()]),
            (_, Some(check)) => (
                Library::Fallback,
                vec![format!(
                    "the check {check} failed, so packets must not be held in place: set LOGDUR_QUEUE_MODE=intercept"
                )],
            ),
            (Some("fallback"), None) => (Library::Fallback, vec!["queues are not watched in place".to_owned()]),
            (_, None) => {
                let partly = ["order", "rows", "latch", "clocks"].into_iter().find(|check| self.failed(check));
                (
                    Library::InPlace,
                    partly
                        .map(|check| format!("the check {check} failed: do not trust times here"))
                        .into_iter()
                        .collect(),
                )
            }
        }
    }

    /// True when no check failed.
    pub fn is_clean(&self) -> bool {
        self.checks.iter().all(|check| check.verdict != Verdict::Failed)
    }

    /// The report as one JSON object. `about` is added to it.
    pub fn json(&self, about: Map<String, Value>) -> Value {
        let (library, why) = self.library();
        let mut all = about;
        all.insert("format".to_owned(), 1.into());
        all.insert("checks".to_owned(), serde_json::to_value(&self.checks).unwrap_or(Value::Null));
        all.insert("library".to_owned(), library.word().into());
        all.insert("library_reasons".to_owned(), why.into());
        Value::Object(all)
    }

    /// The report for people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        for check in &self.checks {
            let _ =
                writeln!(text, "{:>2} {:<10} {:<7} {}", check.number, check.name, check.verdict.word(), check.question);
            for reason in &check.reasons {
                let _ = writeln!(text, "{:>21} {reason}", "-");
            }
            for (part, figures) in &check.figures {
                let figures: Vec<String> =
                    figures.as_object().into_iter().flatten().map(|(name, value)| shown(name, value)).collect();
                if !figures.is_empty() {
                    let _ = writeln!(text, "{:>21} {part}: {}", "", figures.join(", "));
                }
            }
        }
        let (library, why) = self.library();
        let _ = writeln!(text, "library: {}", library.word());
        for reason in why {
            let _ = writeln!(text, "         {reason}");
        }
        text
    }
}

fn shown(name: &str, value: &Value) -> String {
    match value {
        Value::String(text) => format!("{name}={text}"),
        other => format!("{name}={other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CHECKS;

    fn report(broken: &[&str], way: &str) -> Report {
        let mut report = Report::default();
        for check in CHECKS {
            let mut findings = Findings::default();
            if broken.contains(&check.name) {
                findings.broken.push("it is broken".to_owned());
            }
            findings.figure("way", way);
            report.add(check, vec![("empty", Answer::Found(findings))], Duration::from_millis(1));
        }
        report
    }

    #[test]
    fn what_the_library_does_follows_from_the_checks() {
        for (broken, way, expected) in [
            ([].as_slice(), "in place", Library::InPlace),
            (&["clocks"], "in place", Library::InPlace),
            (&["hold"], "in place", Library::Fallback),
            (&[], "fallback", Library::Fallback),
            (&["rows"], "off", Library::Off),
            (&["loading"], "in place", Library::Off),
        ] {
            let report = report(broken, way);
            assert_eq!(report.library().0, expected, "{broken:?} {way}");
            assert_eq!(report.is_clean(), broken.is_empty());
            assert_eq!(report.json(Map::new())["library"], expected.word());
            assert!(report.text().contains(&format!("library: {}\n", expected.word())));
        }
    }

    #[test]
    fn a_process_that_failed_is_a_reason() {
        let mut report = Report::default();
        report.add(&CHECKS[0], vec![("agents", Answer::Failed("ended by signal 11".to_owned()))], Duration::ZERO);
        assert_eq!((report.checks[0].verdict, report.checks[0].reasons.len()), (Verdict::Failed, 1));
        assert!(!report.holds("identity"));
    }
}
