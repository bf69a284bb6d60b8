//! Choices become configurations: sizes are computed, code is compiled, and the kernels' limits are asked, before anything
//! runs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use logdur_captured::with_causes;

use super::compile::{Compiled, Compiling, Job};
use super::space::{Choice, Origin, Space};
use super::subject::{Kernel, Subject};
use super::{Config, Journal, Outcome, Sizes, Sources};
use crate::error::{ReplayError, Result};
use crate::geometry::Geometry;

/// Configurations.
#[derive(Debug)]
pub struct Prepared {
    /// Each, and what came of it where that is known before it runs. The first is the captured one.
    pub configs: Vec<(Config, Option<Outcome>)>,
    /// How many choices were the same as others, and are not among them.
    pub same: usize,
}

/// Makes configurations of a space's choices. `counted` is told how many jobs there are for the compiler, and `compiled` is called after each,
/// from any thread.
///
/// # Errors
/// When the folder for code cannot be made.
pub fn prepare(
    subject: &Subject<'_>,
    space: &Space,
    choices: Vec<Choice<'_>>,
    compiling: &Compiling,
    journal: &Journal,
    counted: &dyn Fn(usize),
    compiled: &(dyn Fn() + Sync),
) -> Result<Prepared> {
    let drafts: Vec<Draft<'_>> = choices.into_iter().map(|choice| Draft::of(subject, space, choice)).collect();
    // What failed to compile before a search was killed is not compiled again.
    let wanted = drafts.iter().filter_map(|draft| draft.sizes.as_ref().ok().and(draft.job.as_ref()));
    let jobs: BTreeSet<Job> = wanted.filter(|job| journal.failed(job).is_none()).cloned().collect();
    let mut code = Compiled::new();
    if !jobs.is_empty() {
        counted(jobs.len());
        let folder = |source| ReplayError::File { path: compiling.folder.display().to_string(), source };
        code = compiling.all(&jobs, compiled).map_err(folder)?;
    }
    let mut prepared = Prepared { configs: vec![(captured(subject), None)], same: 0 };
    let mut kernels = Kernels { subject, journal, code, known: BTreeMap::new() };
    let mut seen = BTreeMap::from([((subject.sizes, None), 0)]);
    for draft in drafts {
        let (mut config, outcome) = kernels.config(space, draft);
        let same = config.sizes.filter(|_| outcome.is_none()).map(|sizes| (sizes, config.code.clone()));
        let first = same.as_ref().and_then(|same| seen.get(same)).and_then(|first| prepared.configs.get_mut(*first));
        if let Some((first, _)) = first {
            // The captured configuration has no values of its own.
            if first.values.is_empty() {
                first.values = config.values;
            }
            prepared.same += 1;
            continue;
        }
        config.number = prepared.configs.len();
        seen.extend(same.map(|same| (same, config.number)));
        prepared.configs.push((config, outcome));
    }
    Ok(prepared)
}

/// What the code of choices is compiled from.
pub fn sources(subject: &Subject<'_>, space: &Space, choices: &[Choice<'_>]) -> Sources {
    // One that cannot be computed is told of when it is prepared.
    let jobs: BTreeSet<Job> = choices.iter().filter_map(|choice| job(subject, space, choice).ok().flatten()).collect();
    Sources::of(&jobs)
}

/// What has to be compiled for a choice.
fn job(subject: &Subject<'_>, space: &Space, choice: &Choice<'_>) -> std::result::Result<Option<Job>, String> {
    match (&choice.code, &space.compile) {
        (Origin::Compiled, Some(template)) => template.job(&|name| value(subject, choice, name)).map(Some),
        _ => Ok(None),
    }
}

/// The value of a name: a parameter's, or the captured dispatch's.
fn value(subject: &Subject<'_>, choice: &Choice<'_>, name: &str) -> Option<String> {
    let given = choice.values.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned());
    given.or_else(|| subject.value(name))
}

fn captured(subject: &Subject<'_>) -> Config {
    Config {
        number: 0,
        values: Vec::new(),
        geometry: Geometry::default(),
        sizes: Some(subject.sizes),
        code: None,
        code_hash: None,
        command: None,
    }
}

/// A choice with its expressions computed.
struct Draft<'s> {
    choice: Choice<'s>,
    /// The workgroup, and the grid where one was given.
    sizes: std::result::Result<([u32; 3], Option<[u32; 3]>), String>,
    job: Option<Job>,
}

impl<'s> Draft<'s> {
    fn of(subject: &Subject<'_>, space: &Space, choice: Choice<'s>) -> Draft<'s> {
        let of = |name: &str| value(subject, &choice, name);
        let sizes = || {
            let workgroup = choice.workgroup.map(|shape| shape.size(&of).map_err(|e| format!("--workgroup {e}")));
            let grid = choice.grid.map(|shape| shape.size(&of).map_err(|e| format!("--grid {e}")));
            let workgroup = workgroup.transpose()?.unwrap_or(subject.sizes.workgroup);
            Ok((workgroup, grid.transpose()?, job(subject, space, &choice)?))
        };
        let (sizes, job) = match sizes() {
            Ok((workgroup, grid, job)) => (Ok((workgroup, grid)), job),
            Err(error) => (Err(error), None),
        };
        Draft { choice, sizes, job }
    }
}

/// Kernels of files, each looked at once.
struct Kernels<'a, 'c> {
    subject: &'a Subject<'c>,
    journal: &'a Journal,
    code: Compiled,
    known: BTreeMap<PathBuf, std::result::Result<Kernel, Outcome>>,
}

impl Kernels<'_, '_> {
    /// A configuration without its number, and what came of it where that is known.
    fn config(&mut self, space: &Space, draft: Draft<'_>) -> (Config, Option<Outcome>) {
        let values = draft.choice.values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let mut config = Config {
            values: values.collect(),
            sizes: None,
            command: draft.job.as_ref().map(ToString::to_string),
            ..captured(self.subject)
        };
        let outcome = self.complete(&mut config, space, &draft).err();
        (config, outcome)
    }

    fn complete(&mut self, config: &mut Config, space: &Space, draft: &Draft<'_>) -> std::result::Result<(), Outcome> {
        let invalid = |text: String| Outcome::Invalid { text };
        let (workgroup, grid) = draft.sizes.clone().map_err(invalid)?;
        let captured = self.subject.sizes;
        let unchanged = (workgroup == captured.workgroup).then_some(captured.grid);
        let sizes = |kernel: &Kernel| {
            let kept = || space.keep.grid(captured, workgroup, kernel.is_uniform());
            let grid = grid.or(unchanged).map_or_else(kept, Ok).map_err(invalid)?;
            Ok(Sizes { grid, workgroup })
        };
        // Of what has no kernel, too, it is told what it would have been.
        config.sizes = Some(sizes(&self.subject.kernel())?);
        let kernel = self.kernel(config, draft)?;
        let sizes = sizes(&kernel)?;
        config.sizes = Some(sizes);
        config.code_hash.clone_from(&kernel.hash);
        config.geometry = self.subject.geometry(sizes, &kernel).map_err(|error| invalid(with_causes(&error)))?;
        Ok(())
    }

    fn kernel(&mut self, config: &mut Config, draft: &Draft<'_>) -> std::result::Result<Kernel, Outcome> {
        let path = match (&draft.choice.code, &draft.job) {
            (Origin::File(path), _) => path.clone(),
            (Origin::Compiled, Some(job)) => match (self.code.get(job), self.journal.failed(job)) {
                (Some(Ok(path)), _) => path.clone(),
                (Some(Err(text)), _) => return Err(Outcome::CompileFailed { text: text.clone() }),
                (None, Some(failed)) => return Err(failed.clone()),
                (None, None) => return Err(Outcome::CompileFailed { text: "it was not compiled".to_owned() }),
            },
            _ => return Ok(self.subject.kernel()),
        };
        let subject = self.subject;
        let kernel = self.known.entry(path.clone()).or_insert_with(|| subject.replaced(&path)).clone()?;
        // The captured code in another file is the captured code.
        config.code = kernel.hash.is_some().then_some(path);
        Ok(kernel)
    }
}
