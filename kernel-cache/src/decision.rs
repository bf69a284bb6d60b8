//! Decides which of the kernels of a name runs.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use amdgpu_code_object::container::CodeLocation;

use crate::candidate::Candidate;
use crate::error::Unavailable;
use crate::hash::{Hash, Prefix};
use crate::interface::Interface;
use crate::rules::{Fact, Reason, Refusal};
use crate::swap::{Swap, unreadable};
use crate::target;
use crate::triton;
use crate::variables::{Analysis, Modules};

/// One of several candidates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The candidate.
    pub candidate: Candidate,
    /// Of its code object.
    pub hash: Hash,
}

/// The decision about a kernel. Lists are sorted by file and place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// No file has a kernel of this name.
    Nothing,
    /// This one takes its place.
    Swap {
        /// The kernel that runs.
        choice: Box<Choice>,
        /// What changes in the packet.
        swap: Swap,
    },
    /// None that there is fits. Those for other processors are listed only when there are no others.
    Refused(Vec<(Candidate, Vec<Refusal>)>),
    /// The application's own code object is among those that fit, and no other is chosen: it keeps running.
    Running(Vec<Choice>),
    /// Several that differ fit, and none is chosen.
    Several(Vec<Choice>),
}

/// What is in candidates' files.
pub(crate) trait Sources {
    /// Of a candidate's code object.
    ///
    /// # Errors
    /// When its file cannot be read, or was changed.
    fn hash(&self, candidate: &Candidate) -> Result<Hash, Unavailable>;

    /// What its kernels refer to.
    ///
    /// # Errors
    /// As for [`hash`](Sources::hash).
    fn analysis(&self, candidate: &Candidate) -> Result<Arc<Analysis>, Unavailable>;
}

/// Whether a kernel may take the place of another.
pub(crate) type Fits = fn(&Interface, &Interface) -> Result<Swap, Vec<Refusal>>;

/// The key that distinguishes candidates of a kernel.
struct Fit {
    choice: Choice,
    swap: Swap,
}

impl Decision {
    /// For a kernel whose target is the agent's, and the candidates for its place. `fit` compares two kernels.
    pub(crate) fn of(
        fit: Fits,
        original: &Interface,
        running: &Hash,
        pick: Option<&Pick>,
        candidates: Vec<Candidate>,
        sources: &dyn Sources,
        modules: Modules<'_>,
    ) -> Decision {
        if candidates.is_empty() {
            return Decision::Nothing;
        }
        let runs = |c: &Candidate| target::runs_on(&c.interface.target.processor, &original.target.processor);
        let (here, elsewhere): (Vec<_>, Vec<_>) = candidates.into_iter().partition(runs);
        let here = if here.is_empty() { elsewhere } else { here };
        let (mut fitting, mut refused) = (Vec::new(), Vec::new());
        for candidate in here {
            let fits = fit(original, &candidate.interface).and_then(|mut swap| {
                swap.limits.launch = triton::launch(&candidate).map_err(|refusal| vec![refusal])?;
                let analysis = || sources.analysis(&candidate).map_err(|error| unreadable(&error));
                swap.bound(&candidate.interface, modules, analysis).map_err(|refusal| vec![refusal])
            });
            match fits {
                Ok(swap) => fitting.push((candidate, swap)),
                Err(refusals) => refused.push((candidate, refusals)),
            }
        }
        let mut fits: Vec<Fit> = Vec::new();
        for (candidate, swap) in closest(fitting) {
            match sources.hash(&candidate) {
                Ok(hash) => add(&mut fits, Fit { choice: Choice { candidate, hash }, swap }),
                Err(error) => refused.push((candidate, vec![unreadable(&error)])),
            }
        }
        if fits.is_empty() {
            return Decision::Refused(refused);
        }
        Decision::among(fits, running, pick)
    }

    /// What is left of a decision about a kernel that Triton launches: another that Triton has compiled for other numbers of warps
    /// would be refused for each of its packets. A kernel of which Triton says nothing may be launched in any way.
    #[must_use]
    pub fn as_launched(self, original: &Candidate) -> Decision {
        let Ok(Some(own)) = triton::launch(original) else { return self };
        let refusal = |choice: &Choice| {
            let other = triton::launch(&choice.candidate).ok()??;
            (other.work_items != own.work_items).then(|| Refusal {
                reason: Reason::PacketWarps,
                expected: Fact::Number(other.work_items.into()),
                found: Fact::Number(own.work_items.into()),
            })
        };
        let choices: Vec<&Choice> = match &self {
            Decision::Swap { choice, .. } => vec![choice],
            Decision::Several(choices) => choices.iter().collect(),
            Decision::Nothing | Decision::Refused(_) | Decision::Running(_) => return self,
        };
        let refused: Option<Vec<_>> =
            choices.into_iter().map(|choice| Some((choice.candidate.clone(), vec![refusal(choice)?]))).collect();
        refused.map_or(self, Decision::Refused)
    }

    fn among(mut fits: Vec<Fit>, running: &Hash, pick: Option<&Pick>) -> Decision {
        let chosen = match pick {
            Some(Pick::Newest) => (0..fits.len()).max_by_key(|&n| fits.get(n).map(|f| age(&f.choice.candidate))),
            Some(Pick::Hashes(prefixes)) => only(&fits, |hash| prefixes.iter().any(|p| p.matches(hash))),
            None => None,
        };
        let runs = |fit: &Fit| fit.choice.hash == *running;
        let chosen = chosen.or_else(|| if fits.iter().any(runs) { None } else { only(&fits, |_| true) });
        match chosen.filter(|&n| fits.get(n).is_some_and(|fit| !runs(fit))) {
            Some(n) => {
                let Fit { choice, swap } = fits.swap_remove(n);
                Decision::Swap { choice: Box::new(choice), swap }
            }
            None if fits.iter().any(runs) => Decision::Running(fits.into_iter().map(|fit| fit.choice).collect()),
            None => Decision::Several(fits.into_iter().map(|fit| fit.choice).collect()),
        }
    }
}

/// By which the newest is found.
fn age(candidate: &Candidate) -> (i64, &Path, u64, u64) {
    let CodeLocation { container_offset, offset, .. } = candidate.place;
    (candidate.stamp.modified, &candidate.path, container_offset, offset)
}

/// The only one whose hash has some property.
fn only(fits: &[Fit], has: impl Fn(&Hash) -> bool) -> Option<usize> {
    let mut found = fits.iter().enumerate().filter(|(_, fit)| has(&fit.choice.hash)).map(|(n, _)| n);
    found.next().filter(|_| found.next().is_none())
}

/// Of equal contents, the newest is kept.
fn add(fits: &mut Vec<Fit>, fit: Fit) {
    match fits.iter_mut().find(|known| known.choice.hash == fit.choice.hash) {
        Some(known) if age(&known.choice.candidate) < age(&fit.choice.candidate) => *known = fit,
        Some(_) => {}
        None => fits.push(fit),
    }
}

/// Of one bundle the runtime takes the code that is made most closely for the agent.
fn closest(fitting: Vec<(Candidate, Swap)>) -> Vec<(Candidate, Swap)> {
    let bundle = |c: &Candidate| (c.path.clone(), c.place.container_offset);
    let closeness = |c: &Candidate| target::closeness(&c.interface.target);
    let mut best = HashMap::new();
    for (candidate, _) in &fitting {
        let of_bundle = best.entry(bundle(candidate)).or_insert_with(|| closeness(candidate));
        *of_bundle = closeness(candidate).max(*of_bundle);
    }
    let is_best = |(c, _): &(Candidate, Swap)| best.get(&bundle(c)) == Some(&closeness(c));
    fitting.into_iter().filter(is_best).collect()
}

/// How one of several is chosen: `LOGDUR_KERNEL_CACHE_PICK`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pick {
    /// The one in the file that was changed last; of equally old ones the last by path.
    Newest,
    /// The one whose code object's hash begins with one of these. Each kernel needs one that fits.
    Hashes(Vec<Prefix>),
}

impl std::str::FromStr for Pick {
    type Err = String;

    /// `newest`, or hashes' first digits with commas in between.
    fn from_str(text: &str) -> Result<Pick, String> {
        if text == "newest" {
            return Ok(Pick::Newest);
        }
        let hashes: Result<Vec<Prefix>, String> = text.split(',').map(|part| part.trim().parse()).collect();
        Ok(Pick::Hashes(hashes.map_err(|reason| format!("{reason}; or newest"))?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_the_newest_or_the_beginnings_of_hashes() {
        assert_eq!("newest".parse(), Ok(Pick::Newest));
        let Ok(Pick::Hashes(hashes)) = "af1349b9,0123".parse() else { panic!("two hashes") };
        assert_eq!(hashes.iter().map(ToString::to_string).collect::<Vec<_>>(), ["af1349b9", "0123"]);
        let expected = r#"expected 4 to 64 hexadecimal digits, found "latest"; or newest"#;
        assert_eq!("latest".parse::<Pick>(), Err(expected.to_owned()));
    }
}
