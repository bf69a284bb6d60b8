//! Different kernels of one name in an application: those of two libraries, or of one source that was compiled with other constants.
//!
//! A replacement computes what one of them computes. Which one it was made for is not known.

use std::collections::HashMap;
use std::str::FromStr;

use amdgpu_code_object::{CodeObject, Image, Kernel};

use crate::decision::Choice;
use crate::hash::{Hash, Prefix};
use crate::interface::{Common, Interface};
use crate::likeness::{KernelCode, Likeness, best, constants};
use crate::swap::fit;

/// Of more kernels of one name, the first are forgotten.
const MOST: usize = 64;

/// Which of different kernels of one name are replaced: `LOGDUR_KERNEL_CACHE_ORIGINAL`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Each.
    All,
    /// Those of code objects with these hashes.
    Hashes(Vec<Prefix>),
}

impl FromStr for Wanted {
    type Err = String;

    /// `all`, or hashes' first digits with commas in between.
    fn from_str(text: &str) -> Result<Wanted, String> {
        if text == "all" {
            return Ok(Wanted::All);
        }
        let hashes: Result<Vec<Prefix>, String> = text.split(',').map(|part| part.trim().parse()).collect();
        Ok(Wanted::Hashes(hashes.map_err(|reason| format!("{reason}; or all"))?))
    }
}

/// A kernel of the application that another one fits.
#[derive(Clone, Copy, Debug)]
pub struct Loaded<'a> {
    /// The agent that it was loaded for.
    pub agent: u64,
    /// The kernel, with the agent's target.
    pub interface: &'a Interface,
    /// The hash of its code object.
    pub object: &'a Hash,
}

/// The different kernels of each name that the application has loaded, also those that it has unloaded since.
#[derive(Debug, Default)]
pub struct Twins {
    /// By agent and name.
    seen: HashMap<(u64, String), Vec<Twin>>,
    /// The code object of the cache that was looked at last.
    candidate: Option<Opened>,
}

/// A kernel, in each code object that has it.
#[derive(Debug)]
struct Twin {
    likeness: Likeness,
    objects: Vec<Hash>,
}

/// A code object of the cache.
#[derive(Debug)]
struct Opened {
    hash: Hash,
    kernels: HashMap<String, Likeness>,
}

impl Twin {
    fn is(&self, likeness: &Likeness, object: &Hash) -> bool {
        self.objects.contains(object) || self.likeness.is_same(likeness)
    }
}

impl Twins {
    /// The application has loaded a kernel. `read` returns its instructions, which only different kernels of one name need.
    pub fn loaded(&mut self, agent: u64, mut likeness: Likeness, object: Hash, read: impl FnOnce() -> Option<Vec<u8>>) {
        let seen = self.seen.entry((agent, likeness.interface.name.clone())).or_default();
        let known = seen.iter().position(|twin| twin.is(&likeness, &object));
        if known.is_none() && seen.len() >= MOST {
            seen.remove(0);
        }
        let several = seen.len() + usize::from(known.is_none()) > 1;
        let has_constants = known.and_then(|n| seen.get(n)).is_some_and(|twin| twin.likeness.constants.is_some());
        if several && !has_constants {
            likeness.constants = read().and_then(|code| constants(&likeness.interface, &code));
        }
        match known.and_then(|n| seen.get_mut(n)) {
            Some(twin) => {
                if likeness.constants.is_some() {
                    twin.likeness.constants = likeness.constants;
                }
                if !twin.objects.contains(&object) {
                    twin.objects.push(object);
                }
            }
            None => seen.push(Twin { likeness, objects: vec![object] }),
        }
    }

    /// True if there are several kernels of a name.
    pub fn are_there(&self, agent: u64, name: &str) -> bool {
        self.seen.get(&(agent, name.to_owned())).is_some_and(|seen| seen.len() > 1)
    }

    /// Whether a kernel that fits takes the place of one, if there are others of the name that it fits: what is to be said of the doubt.
    /// `bytes` returns the code object of the chosen one.
    ///
    /// # Errors
    /// Why it does not.
    pub fn decide(
        &mut self,
        original: Loaded<'_>,
        choice: &Choice,
        wanted: Option<&Wanted>,
        bytes: impl FnOnce() -> Option<Vec<u8>>,
    ) -> Result<Option<String>, String> {
        let Twins { seen, candidate } = self;
        let Loaded { agent, interface, object } = original;
        let seen = seen.get(&(agent, interface.name.clone())).map(Vec::as_slice).unwrap_or_default();
        let fits = |other: &Interface| fit(&other.on(Some(&interface.target)), &choice.candidate.interface).is_ok();
        let rivals: Vec<&Twin> = seen.iter().filter(|twin| fits(&twin.likeness.interface)).collect();
        let Some(own) = rivals.iter().position(|twin| twin.objects.contains(object)) else { return Ok(None) };
        if rivals.len() < 2 {
            return Ok(None);
        }
        let short = |twin: &&Twin| twin.objects.first().map(Hash::short).unwrap_or_default();
        let all = rivals.iter().map(short).collect::<Vec<_>>().join(", ");
        let doubt = format!("the application has {} different kernels of this name (code objects {all})", rivals.len());
        match wanted {
            Some(Wanted::All) => return Ok(Some(doubt)),
            Some(Wanted::Hashes(prefixes)) => {
                let is_wanted = prefixes.iter().any(|prefix| prefix.matches(object));
                let left = || format!("{doubt}, and others than {} were chosen", object.short());
                return if is_wanted { Ok(Some(doubt)) } else { Err(left()) };
            }
            None => {}
        }
        if let Some(same) = rivals.iter().find(|twin| twin.objects.contains(&choice.hash)) {
            return Err(format!("{doubt}, and the replacement is that of {}", short(same)));
        }
        if candidate.as_ref().is_none_or(|opened| opened.hash != choice.hash) {
            *candidate = bytes().map(|bytes| Opened::of(choice.hash, &bytes));
        }
        let kernels = candidate.as_ref().map(|opened| &opened.kernels);
        let originals: Vec<Likeness> = rivals.iter().map(|twin| twin.likeness.clone()).collect();
        match kernels.and_then(|kernels| kernels.get(&choice.candidate.interface.name)).map(|c| best(&originals, c)) {
            Some(Some(n)) if n == own => Ok(Some(format!("{doubt}; this one agrees best with it"))),
            Some(Some(n)) => {
                let other = rivals.get(n).map(short).unwrap_or_default();
                Err(format!("{doubt}, and the replacement agrees best with that of {other}"))
            }
            Some(None) | None => Err(format!("{doubt}, and the replacement agrees with several alike")),
        }
    }
}

impl Opened {
    fn of(hash: Hash, bytes: &[u8]) -> Opened {
        let kernels = likenesses(bytes).into_iter().map(|kernel| (kernel.interface.name.clone(), kernel));
        Opened { hash, kernels: kernels.collect() }
    }
}

/// What the kernels of a code object are compared by; none if it is damaged.
pub fn likenesses(bytes: &[u8]) -> Vec<Likeness> {
    let parsed = Image::parse(bytes).and_then(|image| Ok((CodeObject::of(&image)?, image)));
    let Ok((object, image)) = &parsed else { return Vec::new() };
    let common = Common::of(object);
    let of_one = |(kernel, code): (&Kernel, Option<KernelCode>)| {
        let interface = common.interface(object, kernel);
        let instructions = code.and_then(|code| bytes.get(code.offset as usize..)?.get(..code.size as usize));
        let constants = instructions.and_then(|code| constants(&interface, code));
        Likeness { interface, code, constants }
    };
    object.kernels.iter().zip(KernelCode::of(object, image)).map(of_one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn originals_are_chosen_all_or_by_the_beginnings_of_hashes() {
        assert_eq!("all".parse(), Ok(Wanted::All));
        let Ok(Wanted::Hashes(hashes)) = "af1349b9,0123".parse() else { panic!("two hashes") };
        assert_eq!(hashes.iter().map(ToString::to_string).collect::<Vec<_>>(), ["af1349b9", "0123"]);
        let expected = r#"expected 4 to 64 hexadecimal digits, found "newest"; or all"#;
        assert_eq!("newest".parse::<Wanted>(), Err(expected.to_owned()));
    }
}
