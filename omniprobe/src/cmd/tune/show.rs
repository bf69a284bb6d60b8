//! Prints results of a search, for people and for programs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use logdur_replay::stats::Summary;
use logdur_replay::tune::{Best, ConfiguredDispatch, Keep, Outcome, Searched, Shard, Sizes, Trial};
use omniprobe_exit::Exit;
use serde_json::{Value, json};

use crate::output::{demangled, file};
use crate::results::{ONE_PATTERN, compared, compared_json};

/// How many configurations are shown.
const SHOWN: usize = 10;

/// What is said of times that are not those of hardware.
const EMULATED: &str = "times of an emulated GPU: they say nothing about hardware";

/// What two that are measured in turns are called.
const NAMES: [&str; 2] = ["the captured one", "this one"];

/// What a search found.
pub(super) struct SearchResult<'a> {
    /// The kernel's symbol.
    pub(super) kernel: &'a str,
    /// What the application dispatched.
    pub(super) sizes: Sizes,
    pub(super) keep: Keep,
    pub(super) searched: &'a Searched,
    /// Which part of the search it is; `None` for all of it.
    pub(super) shard: Option<Shard>,
    /// How many choices were the same as others.
    pub(super) same: usize,
    /// What code was compiled from, and is something else since a search began that was gone on with.
    pub(super) changed: &'a [PathBuf],
    /// Why it says less than it could that configurations compute what the application got.
    pub(super) qualified: Vec<String>,
    pub(super) emulated: bool,
    pub(super) place: ConfiguredDispatch,
    /// Where all of it is.
    pub(super) table: &'a Path,
}

impl SearchResult<'_> {
    /// Success when the captured configuration was measured; else what came of that.
    pub(super) fn exit(&self) -> Exit {
        self.searched
            .trials
            .first()
            .and_then(|trial| trial.outcome.as_ref())
            .map_or(Exit::Usage, crate::exit::of_outcome)
    }

    /// Lines for people.
    pub(super) fn text(&self) -> Vec<String> {
        let mut all = vec![
            format!("dispatch {}: {}, {}", self.place.dispatch, demangled(self.kernel), shape(Some(self.sizes))),
            format!("  grid when only the workgroup changes: {}", self.keep),
            format!("  {}", self.counted()),
        ];
        let changed = |path: &PathBuf| format!("  changed since the search began: {}", file(path));
        all.extend(self.changed.iter().map(changed));
        all.extend(self.qualified.iter().map(|text| format!("  qualified: {text}")));
        all.push(format!("  {ONE_PATTERN}"));
        if self.emulated {
            all.push(format!("  {EMULATED}"));
        }
        all.extend(self.ranked().into_iter().take(SHOWN).map(|(trial, summary)| row(trial, summary)));
        let failed =
            self.searched.trials.first().and_then(|trial| trial.outcome.as_ref()).filter(|o| o.times().is_none());
        if let Some(failed) = failed {
            all.push(format!("the captured configuration: {failed}; nothing to compare with"));
        }
        all.extend(self.best().map(|(best, trial)| self.verdict(best, trial)).into_iter().flatten());
        if let Some(shard) = self.shard {
            all.push(format!("part {shard} of a search: --merge puts the parts together"));
        }
        all.push(format!("all of them: {}", file(self.table)));
        all
    }

    /// An object for programs.
    pub(super) fn json(&self) -> Value {
        let trials: Vec<Value> =
            self.ranked().into_iter().take(SHOWN).map(|(trial, summary)| trial_json(trial, summary)).collect();
        let best = self.best().map(|(best, trial)| {
            let ratio = best.ratio.map(|r| json!({ "value": r.value, "low": r.low, "high": r.high }));
            json!({
                "config": best.number, "ratio": ratio,
                "paired_rerun": best.turns.as_ref().map(|turns| compared_json(turns, self.emulated, NAMES)),
                "replay": self.place.replay(&trial.config),
                "analyze": self.place.analyze(&trial.config),
                "application": self.place.application(&trial.config),
            })
        });
        json!({
            "dispatch": self.place.dispatch,
            "kernel": self.kernel,
            "demangled": demangled(self.kernel),
            "status": self.exit() as u8,
            "qualified": self.qualified,
            "one_pattern": true,
            "changed": self.changed,
            "emulated": self.emulated,
            "note": self.emulated.then_some(EMULATED),
            "grid": self.sizes.grid,
            "workgroup": self.sizes.workgroup,
            "keep": self.keep.to_string(),
            "shard": self.shard.map(|shard| shard.to_string()),
            "configurations": self.searched.trials.len(),
            "same": self.same,
            "results": self.results(),
            "captured": self.searched.trials.first().and_then(|trial| trial.outcome.as_ref()).map(Outcome::to_string),
            "best": best,
            "trials": trials,
            "table": self.table.display().to_string(),
        })
    }

    fn best(&self) -> Option<(Best, &Trial)> {
        let best = self.searched.best?;
        Some((best, self.searched.trials.get(best.number)?))
    }

    /// What was measured: first what was not given up, by median.
    fn ranked(&self) -> Vec<(&Trial, &Summary)> {
        let mut measured: Vec<_> =
            self.searched.trials.iter().filter_map(|trial| Some((trial, trial.summary()?))).collect();
        let key = |(trial, summary): &(&Trial, &Summary)| (trial.given_up.is_some(), summary.median_ns);
        measured.sort_by(|a, b| {
            let (a, b) = (key(a), key(b));
            a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
        });
        measured
    }

    fn results(&self) -> BTreeMap<&'static str, usize> {
        let mut results = BTreeMap::new();
        for trial in &self.searched.trials {
            *results.entry(trial.outcome.as_ref().map_or("not-run", Outcome::word)).or_default() += 1;
        }
        results
    }

    fn counted(&self) -> String {
        let results: Vec<String> = self.results().iter().map(|(word, count)| format!("{count} {word}")).collect();
        let given_up = self.searched.trials.iter().filter(|trial| trial.given_up.is_some()).count();
        let more = [(given_up, "dropped early"), (self.same, "left out as duplicates")];
        let more: String =
            more.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("; {count} {what}")).collect();
        format!("{} configurations: {}{more}", self.searched.trials.len(), results.join(", "))
    }

    fn verdict(&self, best: Best, trial: &Trial) -> Vec<String> {
        // Of an emulated device nothing is the best.
        let word = if self.emulated { "smallest median" } else { "best" };
        let captured = if best.number == 0 { ", the captured one" } else { "" };
        let mut all = vec![format!("{word}: configuration {}{captured}", best.number)];
        if let Some(ratio) = best.ratio.filter(|_| best.number != 0) {
            let shown = ratio.low <= 1.0 && 1.0 <= ratio.high;
            let doubt = if shown && !self.emulated { ": no difference shown" } else { "" };
            all.push(format!(
                "  ratio to the captured configuration's median: {:.3}, 95 % between {:.3} and {:.3}{doubt}",
                ratio.value, ratio.low, ratio.high
            ));
        }
        if let Some(turns) = &best.turns {
            let text = compared(turns, self.emulated, NAMES);
            all.push(format!("  paired rerun with the captured configuration: {text}"));
        }
        all.push(format!("  {}", self.place.replay(&trial.config)));
        all.push(format!("  {}", self.place.analyze(&trial.config)));
        let application = self.place.application(&trial.config);
        if !application.is_empty() && trial.config.geometry.is_other() {
            all.push("  in the application, which must dispatch this geometry itself:".to_owned());
        }
        all.extend(application.into_iter().map(|command| format!("  {command}")));
        all
    }
}

fn shape(sizes: Option<Sizes>) -> String {
    let by = |[x, y, z]: [u32; 3]| format!("{x}x{y}x{z}");
    sizes.map_or_else(String::new, |sizes| format!("grid {} by {}", by(sizes.grid), by(sizes.workgroup)))
}

fn row(trial: &Trial, s: &Summary) -> String {
    let config = &trial.config;
    let mut line = format!(
        "  {:>5}: median {} ns, MAD {}, 95 % {} to {}, {} runs; {}",
        config.number,
        s.median_ns,
        s.mad_ns,
        s.low_ns,
        s.high_ns,
        s.runs,
        shape(config.sizes)
    );
    if config.number == 0 {
        line += ", captured";
    }
    config.values.iter().for_each(|(name, value)| line += &format!(", {name}={value}"));
    if let Some(path) = &config.code {
        line += &format!(", {}", file(path));
    }
    if s.bimodal {
        line += ", bimodal";
    }
    if let Some(round) = trial.given_up {
        line += &format!(", dropped after round {round}");
    }
    line
}

fn trial_json(trial: &Trial, summary: &Summary) -> Value {
    let config = &trial.config;
    let values: BTreeMap<&str, &str> = config.values.iter().map(|(name, value)| (&**name, &**value)).collect();
    json!({
        "config": config.number,
        "values": values,
        "grid": config.sizes.map(|s| s.grid),
        "workgroup": config.sizes.map(|s| s.workgroup),
        "code": config.code.as_ref().map(|path| path.display().to_string()),
        "code_hash": config.code_hash,
        "command": config.command,
        "given_up": trial.given_up,
        "summary": summary,
    })
}

#[cfg(test)]
mod tests {
    use logdur_replay::Geometry;
    use logdur_replay::stats::Pairs;
    use logdur_replay::tune::Config;

    use super::*;

    const SIZES: Sizes = Sizes { grid: [1024, 1, 1], workgroup: [64, 1, 1] };

    fn trial(number: usize, outcome: Outcome) -> Trial {
        let workgroup = [64 << number, 1, 1];
        let config = Config {
            number,
            values: vec![("n".to_owned(), workgroup[0].to_string())],
            geometry: Geometry { workgroup: (number != 0).then_some(workgroup), ..Geometry::default() },
            sizes: Some(Sizes { workgroup, ..SIZES }),
            code: (number == 1).then(|| "t/code/a.hsaco".into()),
            code_hash: None,
            command: None,
        };
        Trial { config, outcome: Some(outcome), given_up: None }
    }

    fn measured(number: usize, ns: u64) -> Trial {
        trial(number, Outcome::measured((0..20).map(|i| ns + i).collect()))
    }

    fn searched<const N: usize>(trials: [Trial; N], turns: Option<Pairs>) -> Searched {
        let best = Best::of(&trials).map(|best| Best { turns, ..best });
        Searched { trials: trials.into(), best }
    }

    fn found(searched: &Searched, emulated: bool) -> SearchResult<'_> {
        let place = ConfiguredDispatch { file: "a.ldcap".into(), dispatch: 7, region: None, options: Vec::new() };
        SearchResult {
            kernel: "k",
            sizes: SIZES,
            keep: Keep::Items,
            searched,
            shard: None,
            same: 1,
            changed: &[],
            qualified: Vec::new(),
            emulated,
            place,
            table: Path::new("t/trials.csv"),
        }
    }

    #[test]
    fn the_best_is_told_with_its_ratio_and_commands_to_copy() {
        let turns = Pairs { count: 20, ratio: 0.5123, p: 1e-6 };
        let trials = [measured(0, 1000), measured(1, 500), trial(2, Outcome::Hang { seconds: 2.0 })];
        let trials = searched(trials, Some(turns));
        let text = found(&trials, false).text();
        assert_eq!(text[2], "  3 configurations: 1 hang, 2 measured; 1 left out as duplicates");
        let best = text.iter().position(|line| line == "best: configuration 1").unwrap();
        assert!(
            text[best + 1].starts_with("  ratio to the captured configuration's median: 0.505, 95 % between 0.5"),
            "{}",
            text[best + 1]
        );
        assert_eq!(
            text[best + 2],
            "  paired rerun with the captured configuration: 0.5123, the median of 20 pairs, p = 1.00e-6: this one is faster"
        );
        assert_eq!(
            text[best + 3],
            "  omniprobe replay a.ldcap --dispatch 7 --workgroup 128,1,1 --hsaco all=t/code/a.hsaco"
        );
        assert_eq!(
            text[best + 4],
            "  omniprobe analyze a.ldcap --dispatch 7 --workgroup 128,1,1 --hsaco all=t/code/a.hsaco --against a.ldcap"
        );
        assert_eq!(
            text[best + 6..best + 8],
            ["  mkdir -p CACHE && cp t/code/a.hsaco CACHE/", "  omniprobe -c CACHE -- APP"]
        );
        let json = found(&trials, false).json();
        assert_eq!(
            (&json["best"]["config"], &json["status"], &json["results"]["hang"]),
            (&json!(1), &json!(0), &json!(1))
        );
        assert_eq!(json["trials"][0]["values"]["n"], "128");
    }

    #[test]
    fn what_cannot_be_told_apart_is_said_to_be_so() {
        let text = found(&searched([measured(0, 1000), measured(1, 999)], None), false).text().join("\n");
        assert!(text.contains(": no difference shown"), "{text}");
    }

    #[test]
    fn numbers_of_an_emulated_gpu_are_not_said_to_be_better() {
        let trials = searched([measured(0, 1000), measured(1, 500)], Some(Pairs { count: 20, ratio: 0.5, p: 1e-6 }));
        let text = found(&trials, true).text().join("\n");
        assert!(text.contains(EMULATED) && text.contains("smallest median: configuration 1"), "{text}");
        assert!(["best", "fast", "slow", "better"].iter().all(|word| !text.contains(word)), "{text}");
        let json = found(&trials, true).json();
        assert_eq!((&json["emulated"], &json["note"]), (&json!(true), &json!(EMULATED)));
    }

    #[test]
    fn a_captured_configuration_that_fails_is_the_tools_end() {
        let trials = searched([trial(0, Outcome::Mismatch { text: "out[3]".to_owned() })], None);
        let found = found(&trials, false);
        assert_eq!(found.exit(), Exit::Mismatch);
        assert!(
            found.text().contains(&"the captured configuration: mismatch: out[3]; nothing to compare with".to_owned())
        );
    }
}
