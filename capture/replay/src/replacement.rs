//! Chooses the kernel of a file that replaces the captured one, by the rules of the kernel cache.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use amdgpu_code_object::Target;
use logdur_captured::{CapturedDispatch, Code, with_causes};
use logdur_kernel_cache::{
    Cache, Candidate, Choice, Decision, Hash, Module, Modules, Prefix, Refusal, Swap, Trust, fit_code, index_folder,
};

use crate::error::{ReplayError, Result};

/// Where a kernel that takes the place of another is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replacement {
    /// In the capture: the kernel that ran.
    Captured,
    /// In the capture: the application's own kernel, also where another ran in its place.
    Original,
    /// In folders, as `LOGDUR_KERNEL_CACHE` does. What is not there is not replaced.
    Cache(Vec<PathBuf>),
    /// In a file.
    File {
        /// The kernels that are replaced.
        of: Which,
        /// The file: a code object, a bundle, a program.
        path: PathBuf,
        /// The hash of the code object that was checked, if one was: the file may have another one since.
        checked: Option<String>,
    },
}

/// The kernels that a file is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    /// All.
    All,
    /// Those of a name, or of a code object whose hash begins so.
    Named(String),
}

impl FromStr for Replacement {
    type Err = String;

    /// `PATH` or `all=PATH`, `HASH=PATH`, `NAME=PATH`, `captured` or `original`. No name or hash has a slash.
    fn from_str(text: &str) -> std::result::Result<Replacement, String> {
        match text.split_once('=').filter(|(of, _)| !of.contains('/')) {
            None if !text.is_empty() => Ok(Replacement::of_all(Path::new(text))),
            Some((of, path)) if !of.is_empty() && !path.is_empty() => {
                let of = if of == "all" { Which::All } else { Which::Named(of.to_owned()) };
                Ok(Replacement::File { of, path: path.into(), checked: None })
            }
            _ => Err(format!("expected PATH, HASH=PATH, NAME=PATH, captured or original, found {text:?}")),
        }
    }
}

impl fmt::Display for Replacement {
    /// As an option gives it. Folders have an option of their own.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Replacement::Captured => f.write_str("captured"),
            Replacement::Original => f.write_str("original"),
            Replacement::Cache(folders) => f.write_str(&roots_shown(folders)),
            Replacement::File { of: Which::All, path, .. } => write!(f, "all={}", path.display()),
            Replacement::File { of: Which::Named(name), path, .. } => write!(f, "{name}={}", path.display()),
        }
    }
}

impl Replacement {
    /// A file for all kernels, or one of the words `captured` and `original`. A file of such a name is `./captured`.
    pub fn of_all(path: &Path) -> Replacement {
        match path.to_str() {
            Some("captured") => Replacement::Captured,
            Some("original") => Replacement::Original,
            _ => Replacement::File { of: Which::All, path: path.to_owned(), checked: None },
        }
    }

    /// True when a kernel of this name, of a code object of these bytes, is one that is replaced.
    pub fn is_for(&self, kernel: &str, code_object: &[u8]) -> bool {
        match self {
            Replacement::Captured | Replacement::Original => true,
            Replacement::Cache(_) | Replacement::File { of: Which::All, .. } => true,
            Replacement::File { of: Which::Named(name), .. } => {
                name == kernel || name.parse::<Prefix>().is_ok_and(|prefix| prefix.matches(&Hash::of(code_object)))
            }
        }
    }
}

/// A kernel that runs in the captured one's place.
#[derive(Debug)]
pub(crate) struct Other {
    /// Its code.
    pub(crate) code: Arc<Code>,
    /// What changes in the packet.
    pub(crate) swap: Swap,
    /// Where it came from.
    pub(crate) place: String,
}

/// The kernel that runs in the place of the application's; `None` when that runs itself. `isa` is the agent's.
///
/// # Errors
/// When the kernel of a file may not take its place: every reason. [`ReplayError::Lacking`] when no file has one of its name. When it
/// cannot be read, or several fit.
pub(crate) fn other(captured: &CapturedDispatch<'_>, replacements: &[Replacement], isa: &str) -> Result<Option<Other>> {
    let original = &captured.original;
    let module = Module::of(&original.bytes).ok();
    let others: Vec<&Module> = captured.others.iter().map(|(module, _)| module).collect();
    let modules = Modules { own: module.as_ref(), others: &others };
    let (mut asked, mut lacking) = (false, Vec::new());
    for replacement in replacements {
        if !replacement.is_for(&original.kernel.name, &original.bytes) {
            continue;
        }
        let roots = match replacement {
            Replacement::Captured => {
                asked = false;
                break;
            }
            Replacement::Original => return Ok(None),
            Replacement::Cache(folders) => folders.clone(),
            Replacement::File { path, .. } => vec![path.clone()],
        };
        asked = true;
        match of_files(replacement, &roots, original, modules, isa)? {
            Searched::Fits(other) => return Ok(Some(*other)),
            Searched::Same => {}
            Searched::Lacking(_) if matches!(replacement, Replacement::Cache(_)) => {}
            Searched::Lacking(what) => lacking.push(what),
        }
    }
    if !lacking.is_empty() {
        return Err(ReplayError::Lacking { kernel: original.kernel.name.clone(), searched: lacking });
    }
    match &captured.ran_instead {
        // What the application's process swapped is swapped again, unless something else was asked for.
        Some(ran) if !asked => {
            let refused = |refusals: Vec<Refusal>| ReplayError::Refused {
                kernel: original.kernel.name.clone(),
                refusals: refusals.iter().map(ToString::to_string).collect(),
            };
            let swap = fit_code(&original.interface, &ran.interface, &ran.bytes, modules).map_err(refused)?;
            Ok(Some(Other { code: Arc::new(ran.clone()), swap, place: "the capture".to_owned() }))
        }
        _ => Ok(None),
    }
}

/// What some files have for a kernel.
enum Searched {
    /// One that fits.
    Fits(Box<Other>),
    /// The code that runs anyway.
    Same,
    /// None of its name: what they have.
    Lacking(String),
}

/// The kernel of some files that fits.
fn of_files(
    replacement: &Replacement,
    roots: &[PathBuf],
    original: &Code,
    modules: Modules<'_>,
    isa: &str,
) -> Result<Searched> {
    let cache = Cache::open(roots, index_folder().as_deref(), Trust::Everybody);
    if let Some(problem) = cache.problems().first() {
        return Err(ReplayError::Usage {
            what: problem.path.display().to_string(),
            expected: "code objects".to_owned(),
            found: problem.reason.clone(),
        });
    }
    let agent = isa.rsplit("--").next().and_then(|id| Target::parse(id).ok());
    let refused = |refusals| ReplayError::Refused { kernel: original.kernel.name.clone(), refusals };
    match cache.decide(&original.interface, &Hash::of(&original.bytes), modules, agent.as_ref(), None) {
        Decision::Swap { choice, swap } => {
            is_checked(replacement, choice.hash)?;
            Ok(Searched::Fits(Box::new(chosen(&cache, original, *choice, swap)?)))
        }
        Decision::Nothing => {
            Ok(Searched::Lacking(format!("{}: no kernel of this name, {}", roots_shown(roots), kernels_shown(&cache))))
        }
        // The same code.
        Decision::Running(_) => is_checked(replacement, Hash::of(&original.bytes)).map(|()| Searched::Same),
        Decision::Refused(candidates) => {
            let one = |(candidate, refusals): &(Candidate, Vec<Refusal>)| {
                let reasons: Vec<String> = refusals.iter().map(ToString::to_string).collect();
                format!("{} ({}): {}", candidate.path.display(), candidate.place, reasons.join(", "))
            };
            Err(refused(candidates.iter().map(one).collect()))
        }
        Decision::Several(choices) => Err(ReplayError::Usage {
            what: format!("the code for {}", original.kernel.name),
            expected: "one that fits".to_owned(),
            found: choices.iter().map(shown).collect::<Vec<_>>().join(", "),
        }),
    }
}

/// An error if a file has changed since its code object was checked.
fn is_checked(replacement: &Replacement, found: Hash) -> Result<()> {
    match replacement {
        Replacement::File { path, checked: Some(checked), .. } if *checked != found.to_string() => {
            Err(ReplayError::Usage {
                what: path.display().to_string(),
                expected: format!("the code object that was checked, {checked}"),
                found: found.to_string(),
            })
        }
        _ => Ok(()),
    }
}

fn roots_shown(roots: &[PathBuf]) -> String {
    roots.iter().map(|root| root.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// What a cache has in the place of a kernel that it lacks: the first names, in one line.
fn kernels_shown(cache: &Cache) -> String {
    const SHOWN: usize = 5;
    let names: BTreeSet<String> = cache.kernels().into_iter().map(|kernel| kernel.interface.name).collect();
    let first: Vec<&str> = names.iter().take(SHOWN).map(String::as_str).collect();
    match names.len().saturating_sub(SHOWN) {
        _ if first.is_empty() => "and no code object".to_owned(),
        0 => format!("but {}", first.join(", ")),
        others => format!("but {} and {others} others", first.join(", ")),
    }
}

fn shown(choice: &Choice) -> String {
    format!("{} {} ({})", choice.hash.short(), choice.candidate.path.display(), choice.candidate.place)
}

fn chosen(cache: &Cache, original: &Code, choice: Choice, swap: Swap) -> Result<Other> {
    let place = format!("{} ({})", choice.candidate.path.display(), choice.candidate.place);
    let unreadable = |error: &dyn std::error::Error| ReplayError::Usage {
        what: place.clone(),
        expected: "a code object".to_owned(),
        found: with_causes(error),
    };
    let bytes = cache.read_chosen(&choice).map_err(|error| unreadable(&error))?;
    let code = Code::parse(|| place.clone(), bytes, &original.kernel.name)?;
    Ok(Other { code: Arc::new(code), swap, place })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replacement_says_which_kernels_it_is_for() {
        let of = |text: &str| match text.parse::<Replacement>() {
            Ok(Replacement::File { of, path, .. }) => Ok((of, path)),
            Ok(other) => Err(format!("{other:?}")),
            Err(error) => Err(error),
        };
        assert_eq!(of("all=a.hsaco"), Ok((Which::All, "a.hsaco".into())));
        assert_eq!(of("saxpy=x=y"), Ok((Which::Named("saxpy".to_owned()), "x=y".into())));
        assert_eq!(of("a.hsaco"), of("all=a.hsaco"));
        assert_eq!(of("./n=64/a.hsaco"), Ok((Which::All, "./n=64/a.hsaco".into())));
        for wrong in ["", "=a.hsaco", "saxpy="] {
            let expected = format!("expected PATH, HASH=PATH, NAME=PATH, captured or original, found {wrong:?}");
            assert_eq!(of(wrong), Err(expected));
        }
        assert_eq!(of("captured"), Err("Captured".to_owned()));
        assert_eq!(of("original=a.hsaco"), Ok((Which::Named("original".to_owned()), "a.hsaco".into())));
        assert_eq!(Replacement::of_all(Path::new("original")), Replacement::Original);
        let file = Replacement::of_all(Path::new("./captured"));
        assert_eq!(file, Replacement::File { of: Which::All, path: "./captured".into(), checked: None });
    }
}
