//! The code object of a file, and the kernel in it, that a command line means.

use std::collections::BTreeSet;
use std::path::Path;

use amdgpu_code_object::Target;
use logdur_kernel_cache::{Cache, Candidate, Trust};

use crate::error::{ListingError, Result};

/// A code object of a file, and a kernel in it.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// The code object.
    pub bytes: Vec<u8>,
    /// Where it is, for people.
    pub place: String,
    /// The kernel's name, mangled where the language does that.
    pub kernel: String,
}

/// Which kernel is meant.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted<'w> {
    /// Its name, mangled, demangled, that without arguments, or that without the template's.
    pub kernel: Option<&'w str>,
    /// The processor or the target ID that its code is for.
    pub target: Option<&'w str>,
    /// True when any kernel of the code object will do.
    pub any: bool,
}

/// Finds the one kernel of a file that is meant: of a code object, a bundle, a program or library. `names` gives a symbol's names,
/// from the symbol itself and the demangled one to the shortest.
///
/// # Errors
/// When the file cannot be read, has none that is meant, or several: which there are.
pub fn choose(path: &Path, wanted: Wanted<'_>, names: &dyn Fn(&str) -> Vec<String>) -> Result<Chosen> {
    let shown = path.display().to_string();
    path.metadata().map_err(|source| ListingError::File { path: shown.clone(), source })?;
    let usage = |expected: String, found: String| ListingError::Usage { what: shown.clone(), expected, found };
    let cache = Cache::open(&[path.to_owned()], None, Trust::Everybody);
    let all = cache.kernels();
    if all.is_empty() {
        let found = cache.problems().first().map_or_else(|| "none".to_owned(), |problem| problem.reason.clone());
        return Err(usage("code objects with kernels".to_owned(), found));
    }
    let listed = |kernels: &[Candidate]| {
        let demangled: BTreeSet<String> =
            kernels.iter().filter_map(|k| names(&k.interface.name).into_iter().take(2).next_back()).collect();
        demangled.iter().map(|name| format!("\n  {name}")).collect::<String>()
    };
    let mut found = all.clone();
    if let Some(kernel) = wanted.kernel {
        // The place of the name in the list says how near it is; the nearest that there are.
        let near = |k: &Candidate| names(&k.interface.name).iter().position(|name| name == kernel);
        let nearest = all.iter().filter_map(near).min();
        found.retain(|k| nearest.is_some() && near(k) == nearest);
        if found.is_empty() {
            return Err(usage(format!("a kernel {kernel}"), format!("others:{}", listed(&all))));
        }
    }
    found = of_target(found, wanted.target)?;
    let names: BTreeSet<&str> = found.iter().map(|k| &*k.interface.name).collect();
    if names.len() > 1 && !wanted.any {
        let expected = "the name of one of its kernels".to_owned();
        return Err(usage(expected, format!("{} that may be meant:{}", names.len(), listed(&found))));
    }
    let targets: BTreeSet<String> = found.iter().map(|k| k.interface.target.to_string()).collect();
    if targets.len() > 1 {
        return Err(ListingError::Usage {
            what: "--target".to_owned(),
            expected: format!("one of {}", targets.into_iter().collect::<Vec<_>>().join(", ")),
            found: wanted.target.unwrap_or("none").to_owned(),
        });
    }
    one(&cache, &found, &shown)
}

/// The kernels for a target.
fn of_target(mut found: Vec<Candidate>, wanted: Option<&str>) -> Result<Vec<Candidate>> {
    let Some(wanted) = wanted else { return Ok(found) };
    let targets: BTreeSet<String> = found.iter().map(|k| k.interface.target.to_string()).collect();
    let is = |target: &Target| target.processor == wanted || target.to_string() == wanted;
    found.retain(|k| is(&k.interface.target));
    if found.is_empty() {
        return Err(ListingError::Usage {
            what: "--target".to_owned(),
            expected: format!("one of {}", targets.into_iter().collect::<Vec<_>>().join(", ")),
            found: wanted.to_owned(),
        });
    }
    Ok(found)
}

/// The code object that the kernels are in, if it is one: it may be there several times.
fn one(cache: &Cache, found: &[Candidate], path: &str) -> Result<Chosen> {
    let unavailable = |source| ListingError::Unavailable { path: path.to_owned(), source };
    let usage = |expected: &str, found: String| ListingError::Usage {
        what: path.to_owned(),
        expected: expected.to_owned(),
        found,
    };
    let mut places = Vec::new();
    for kernel in found {
        let hash = cache.hash(kernel).map_err(unavailable)?;
        if places.iter().all(|(other, _)| *other != hash) {
            places.push((hash, kernel.place.to_string()));
        }
    }
    if places.len() > 1 {
        let places: String = places.iter().map(|(hash, place)| format!("\n  {} {place}", hash.short())).collect();
        return Err(usage("one code object that has it", format!("several:{places}")));
    }
    let Some(first) = found.first() else { return Err(usage("a kernel", "none".to_owned())) };
    let bytes = cache.read(first).map_err(unavailable)?;
    let place = format!("{} ({})", first.path.display(), first.place);
    Ok(Chosen { bytes, place, kernel: first.interface.name.clone() })
}
