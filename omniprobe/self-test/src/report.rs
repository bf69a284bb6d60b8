//! The report of all checks: which ones held, and the resulting mode of the library.

use std::fmt::Write as _;
use std::time::Duration;

use hsa::{Wanted, Way};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::finding::Findings;
use crate::{CHECKS, Check};

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
    /// What it means if the check failed.
    pub consequence: &'static str,
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
            consequence: check.consequence,
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
            consequence: check.consequence,
            verdict,
            reasons: if reasons.is_empty() { nothing } else { reasons },
            seconds: (took.as_secs_f64() * 1000.0).round() / 1000.0,
            figures,
        });
    }

    /// What the library will do here, and why where that is not the default; `None` if a check that this depends on was not
    /// selected. The decision is the library's own: [`hsa::way`].
    pub fn library(&self) -> Option<(Way, Vec<String>)> {
        const BASES: [&str; 5] = ["identity", "loading", "hold", "read-index", "rows"];
        if let Some(check) = BASES[..2].iter().find(|check| self.was_run(check) && !self.holds(check)) {
            return Some((Way::Unseen, vec![format!("the check {check} did not hold")]));
        }
        if !BASES.iter().all(|check| self.was_selected(check)) {
            return None;
        }
        let asked = |name| self.figure("identity", "queue", name);
        let refusal = asked("refused").and_then(Value::as_str);
        let works = asked("intercept_queues_work").and_then(Value::as_bool) == Some(true);
        let mut why: Vec<String> = refusal.into_iter().map(str::to_owned).collect();
        if let Some(check) = BASES[2..4].iter().find(|check| self.failed(check)) {
            let failed = format!("the check {check} failed, so packets must not be held in place");
            return Some(if hsa::way(Wanted::Intercept, refusal.is_some(), works) == Way::Intercept {
                (Way::Intercept, vec![format!("{failed}: set LOGDUR_QUEUE_MODE=intercept")])
            } else {
                let instead = "the intercept queues of this runtime are known to fail: do not load the library";
                (Way::Unseen, vec![failed, instead.to_owned()])
            });
        }
        let decided = hsa::way(Wanted::Either, refusal.is_some(), works);
        if let Some(seen) = self.figure("rows", "empty", "way").and_then(Value::as_str)
            && seen != decided.word()
        {
            why.push(format!("the check rows saw packets {seen}"));
            if seen == Way::Unseen.word() {
                return Some((Way::Unseen, why));
            }
        }
        let failed = CHECKS.iter().filter(|check| self.failed(check.name));
        why.extend(failed.map(|check| format!("the check {} failed: {}", check.name, check.consequence)));
        Some((decided, why))
    }

    fn was_selected(&self, name: &str) -> bool {
        self.checks.iter().any(|check| check.name == name)
    }

    fn was_run(&self, name: &str) -> bool {
        self.checks.iter().any(|check| check.name == name && check.verdict != Verdict::NotRun)
    }

    /// True when no check failed.
    pub fn is_clean(&self) -> bool {
        self.checks.iter().all(|check| check.verdict != Verdict::Failed)
    }

    /// The report as one JSON object. `about` is added to it.
    pub fn json(&self, about: Map<String, Value>) -> Value {
        let library = self.library();
        let word = library.as_ref().map(|(way, _)| way.word());
        let mut all = about;
        all.insert("format".to_owned(), 1.into());
        all.insert("checks".to_owned(), serde_json::to_value(&self.checks).unwrap_or(Value::Null));
        all.insert("library".to_owned(), word.into());
        all.insert("library_reasons".to_owned(), library.map(|(_, why)| why).unwrap_or_default().into());
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
            if check.verdict == Verdict::Failed {
                let _ = writeln!(text, "{:>21} so: {}", "", check.consequence);
            }
            for (part, figures) in &check.figures {
                let figures: Vec<String> =
                    figures.as_object().into_iter().flatten().map(|(name, value)| shown(name, value)).collect();
                if !figures.is_empty() {
                    let _ = writeln!(text, "{:>21} {part}: {}", "", figures.join(", "));
                }
            }
        }
        let Some((library, why)) = self.library() else {
            text.push_str("library: not decided, because not all checks were selected\n");
            return text;
        };
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

    #[test]
    fn the_documents_name_the_version_of_the_report() {
        let format = Report::default().json(Map::new())["format"].clone();
        let row = format!("| report of `doctor --self-test --json` | {format} |");
        assert!(include_str!("../../../docs/agents.md").contains(&row), "expected {row}");
    }

    /// All checks, some broken; packets were seen as `seen` says.
    fn report(broken: &[&str], refused: bool, works: bool, seen: &str) -> Report {
        let mut report = Report::default();
        for check in CHECKS {
            let mut findings = Findings::default();
            if broken.contains(&check.name) {
                findings.broken.push("it is broken".to_owned());
            }
            findings.figure("way", seen);
            findings.figure("refused", refused.then_some("its ring is elsewhere"));
            findings.figure("intercept_queues_work", works);
            let part = if check.name == "identity" { "queue" } else { "empty" };
            report.add(check, vec![(part, Answer::Found(findings))], Duration::from_millis(1));
        }
        report
    }

    #[test]
    fn what_the_library_does_follows_from_the_checks_and_its_own_decision() {
        for (broken, refused, works, seen, expected) in [
            ([].as_slice(), false, false, "in place", Way::InPlace),
            (&["clocks"], false, true, "in place", Way::InPlace),
            (&["hold"], false, true, "in place", Way::Intercept),
            (&["read-index"], false, false, "in place", Way::Unseen),
            (&[], true, true, "fallback", Way::Intercept),
            (&[], true, false, "off", Way::Unseen),
            (&["rows"], false, false, "off", Way::Unseen),
            (&["loading"], false, true, "in place", Way::Unseen),
        ] {
            let report = report(broken, refused, works, seen);
            let (way, why) = report.library().unwrap();
            assert_eq!(way, expected, "{broken:?} {refused} {works}");
            assert_eq!(why.is_empty(), broken.is_empty() && !refused, "{why:?}");
            assert_eq!(report.is_clean(), broken.is_empty());
            assert_eq!(report.json(Map::new())["library"], expected.word());
            assert!(report.text().contains(&format!("library: {}\n", expected.word())));
        }
    }

    #[test]
    fn nothing_is_said_of_the_library_when_checks_are_left_out() {
        let mut report = report(&[], false, true, "in place");
        report.checks.retain(|check| check.name != "hold");
        assert_eq!((report.library(), report.json(Map::new())["library"].clone()), (None, Value::Null));
        assert!(report.text().ends_with("not all checks were selected\n"));
    }

    #[test]
    fn a_process_that_failed_is_a_reason() {
        let mut report = Report::default();
        report.add(&CHECKS[0], vec![("agents", Answer::Failed("ended by signal 11".to_owned()))], Duration::ZERO);
        assert_eq!((report.checks[0].verdict, report.checks[0].reasons.len()), (Verdict::Failed, 1));
        assert!(!report.holds("identity"));
    }
}
