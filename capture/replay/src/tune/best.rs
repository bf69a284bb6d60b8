//! The best configuration, how it compares with the captured one, and commands that run it.

use std::path::PathBuf;

use logdur_system::text::sh_word;

use super::{Config, Trial};
use crate::stats::{Pairs, Ratio, ratio_of_medians};

/// The best configuration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Best {
    /// Its number; 0 is the captured one.
    pub number: usize,
    /// Its median by the captured configuration's, where both have one. Both are the times that it was chosen by: of many
    /// configurations that are the same, the best looks a little better than it is.
    pub ratio: Option<Ratio>,
    /// Its times by the captured configuration's, both measured in turns afterwards.
    pub turns: Option<Pairs>,
}

impl Best {
    /// Of the trials of a search, that with the smallest median among those that were not given up; of several, the first.
    /// `None` when none was measured. What was measured was compared before.
    pub fn of(trials: &[Trial]) -> Option<Best> {
        let rivals = trials.iter().filter(|trial| trial.is_rival());
        let medians = rivals.filter_map(|trial| Some((trial, trial.summary()?.median_ns)));
        let (best, _) = medians.min_by(|(_, a), (_, b)| a.total_cmp(b))?;
        let captured = trials.first().map_or(&[][..], Trial::gpu_ns);
        Some(Best { number: best.config.number, ratio: ratio_of_medians(best.gpu_ns(), captured), turns: None })
    }
}

/// A configuration as options.
fn variant(config: &Config) -> String {
    let mut options = String::new();
    for (option, shape) in [("--grid", config.geometry.grid), ("--workgroup", config.geometry.workgroup)] {
        if let Some([x, y, z]) = shape {
            options += &format!(" {option} {x},{y},{z}");
        }
    }
    if let Some(path) = &config.code {
        options += &format!(" --hsaco {}", sh_word(&format!("all={}", path.display())));
    }
    options
}

/// Which dispatch of which capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfiguredDispatch {
    /// The capture.
    pub file: PathBuf,
    /// The dispatch; of a region, the first of the kernel.
    pub dispatch: u64,
    /// Of a region: its option, and the symbol of the kernel.
    pub region: Option<(String, String)>,
    /// Further options of every replay of it, as words: the device, what is near enough.
    pub options: Vec<String>,
}

impl ConfiguredDispatch {
    /// The command that replays a configuration.
    pub fn replay(&self, config: &Config) -> String {
        let file = sh_word(&self.file.to_string_lossy());
        let mut command = match &self.region {
            None => format!("omniprobe replay {file} --dispatch {}{}", self.dispatch, variant(config)),
            // What changes the grids of a region is the search alone.
            Some(_) if config.geometry.is_other() => {
                return "# only `omniprobe tune` changes grids of a region".to_owned();
            }
            Some((region, kernel)) => {
                let code = |path: &PathBuf| format!(" --hsaco {}", sh_word(&format!("{kernel}={}", path.display())));
                let code = config.code.as_ref().map_or_else(String::new, code);
                format!("omniprobe bench {file} {region}{code}")
            }
        };
        for option in &self.options {
            command += &format!(" {}", sh_word(option));
        }
        command
    }

    /// The command that shows the analyses of a configuration and of the captured one side by side.
    pub fn analyze(&self, config: &Config) -> String {
        let file = sh_word(&self.file.to_string_lossy());
        if let Some((region, _)) = &self.region {
            let one = format!("dispatch-{}.ldcap", self.dispatch);
            let extract = format!("omniprobe extract {file} {region} --dispatch {} -o {one}", self.dispatch);
            return format!("{extract} && omniprobe analyze {one}{} --against {one}", variant(config));
        }
        let mut command = format!("omniprobe analyze {file} --dispatch {}{}", self.dispatch, variant(config));
        command += &format!(" --against {file}");
        command
    }

    /// The commands that run the application with a configuration's code; none when that is the captured one. The
    /// application dispatches its own grids and workgroups.
    pub fn application(&self, config: &Config) -> Vec<String> {
        let copied = |path: &PathBuf| format!("mkdir -p CACHE && cp {} CACHE/", sh_word(&path.to_string_lossy()));
        let run = || "omniprobe -c CACHE -- APP".to_owned();
        config.code.iter().flat_map(|path| [copied(path), run()]).collect()
    }
}
