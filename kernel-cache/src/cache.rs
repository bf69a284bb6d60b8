//! The cache: kernels of folders of code objects, found by name.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use amdgpu_code_object::container::CodeLocation;
use amdgpu_code_object::{CodeObject, Target, Unreadable};
use logdur_system::lock;

use crate::candidate::{Candidate, Stamp};
use crate::decision::{Choice, Decision, Pick, Sources};
use crate::error::Unavailable;
use crate::file::Opened;
use crate::hash::Hash;
use crate::index::hashes::{self, Hashes};
use crate::interface::{Common, Interface};
use crate::root::{Changes, Root};
use crate::swap::{fit, fit_clone};
use crate::triton;
use crate::trust::Trust;
use crate::variables::{Analysis, Modules};

/// The kernels of folders of code objects, by name.
#[derive(Debug, Default)]
pub struct Cache {
    roots: Vec<Root>,
    trust: Trust,
    problems: Vec<Problem>,
    indexing: Indexing,
    hashes: Mutex<HashMap<Contents, Hash>>,
    /// Hashes that another process computed.
    kept: Hashes,
    /// Of code objects that have variables.
    analyses: Mutex<HashMap<Contents, Arc<Analysis>>>,
}

/// Some contents: a place of a file as it was.
type Contents = (PathBuf, Stamp, CodeLocation);

/// Files that could not be read, and why. All others are in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file or folder.
    pub path: PathBuf,
    /// The expected value and the found one.
    pub reason: String,
}

/// The cost of opening the cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Indexing {
    /// Files that there are.
    pub files: usize,
    /// Files that were read, because the index did not have them as they are.
    pub files_read: usize,
    /// Bytes of them that were read.
    pub bytes_read: u64,
    /// Indexes that were not taken, or could not be kept, by root: they only cost time.
    pub problems: Vec<Problem>,
}

impl Cache {
    /// Finds what is in folders and below, or in single files. The index of each root is kept in `index_folder`: it makes
    /// the next start fast. A folder that cannot be written only costs time.
    /// Folders and files that are not trusted are problems.
    pub fn open(roots: &[PathBuf], index_folder: Option<&Path>, trust: Trust) -> Cache {
        Cache::open_with(roots, index_folder, trust, &mut |_, _| {})
    }

    /// The same, for callers that show progress: `each` is called with the number of files whose contents are known and that of all
    /// files of a folder, while files are read.
    pub fn open_with(
        roots: &[PathBuf],
        index_folder: Option<&Path>,
        trust: Trust,
        each: &mut dyn FnMut(usize, usize),
    ) -> Cache {
        let mut cache = Cache { trust, ..Cache::default() };
        for root in roots {
            // Of a path that cannot be made absolute, the walk says what is wrong with it.
            let path = std::path::absolute(root).unwrap_or_else(|_| root.clone());
            if cache.roots.iter().all(|known| known.path() != path) {
                cache.roots.push(Root::open(path, index_folder, trust, &mut cache.indexing, each));
            }
        }
        cache.collect_problems();
        cache
    }

    fn collect_problems(&mut self) {
        self.problems = self.roots.iter().flat_map(Root::problems).collect();
    }

    /// The files and folders that could not be read.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// The cost of [`open`](Cache::open).
    pub fn indexing(&self) -> &Indexing {
        &self.indexing
    }

    /// The roots that no kernel is in, and the first thing in each that could not be read or is not used.
    pub fn empty_roots(&self) -> impl Iterator<Item = (&Path, Option<&Problem>)> {
        let empty = self.roots.iter().filter(|root| root.candidates().next().is_none()).map(Root::path);
        empty.map(|root| (root, self.problems.iter().find(|problem| problem.path.starts_with(root))))
    }

    /// The folders that were searched, in which files may appear.
    pub fn folders(&self) -> impl Iterator<Item = &Path> {
        self.roots.iter().flat_map(Root::folders)
    }

    /// Every kernel, sorted by file, place and name.
    pub fn kernels(&self) -> Vec<Candidate> {
        sorted(self.roots.iter().flat_map(Root::candidates).collect())
    }

    /// The kernels of a name, for every target, sorted by file and place.
    pub fn candidates(&self, name: &str) -> Vec<Candidate> {
        sorted(self.roots.iter().flat_map(|root| root.candidates_named(name)).collect())
    }

    /// True if there is a kernel of a name.
    pub fn has(&self, name: &str) -> bool {
        self.roots.iter().any(|root| root.candidates_named(name).next().is_some())
    }

    /// Decides about a kernel of the application, whose variables are in `modules`. `agent` is the target ID of its agent, if known: it
    /// tells settings like XNACK if the code object is compiled for either.
    pub fn decide(
        &self,
        original: &Interface,
        running: &Hash,
        modules: Modules<'_>,
        agent: Option<&Target>,
        pick: Option<&Pick>,
    ) -> Decision {
        let original = original.on(agent);
        Decision::of(fit, &original, running, pick, self.candidates(&original.name), self, modules)
    }

    /// The same for the instrumented clone of a kernel. `names` are those that it may have; one of the kernel's own name is a clone
    /// if it takes one argument more. Files that are not `allowed` are left out.
    pub fn decide_clone(
        &self,
        original: &Interface,
        names: &[String],
        allowed: &dyn Fn(&Path) -> bool,
        modules: Modules<'_>,
        agent: Option<&Target>,
        pick: Option<&Pick>,
    ) -> Decision {
        let original = original.on(agent);
        let arguments = original.explicit().count() + 1;
        let is_clone = |candidate: &Candidate| {
            let differs = candidate.interface.name != original.name;
            allowed(&candidate.path) && (differs || candidate.interface.explicit().count() == arguments)
        };
        let candidates = names.iter().flat_map(|name| self.candidates(name)).filter(is_clone).collect();
        // The clone may be in the code object that runs.
        let none = Hash::of(&[]);
        let fits = |original: &Interface, clone: &Interface| fit_clone(original, clone, false);
        Decision::of(fits, &original, &none, pick, candidates, self, modules)
    }

    /// The code object's bytes. They have the kernel that the index says, or it is an error.
    ///
    /// # Errors
    /// When the file cannot be read, was changed, or the index is wrong about it.
    pub fn read(&self, candidate: &Candidate) -> Result<Vec<u8>, Unavailable> {
        let bytes = self.contents(candidate)?;
        let Candidate { path, place, interface, .. } = candidate;
        let object = CodeObject::parse(&bytes).map_err(|source| unreadable(candidate, source))?;
        let mut named = object.kernels.iter().filter(|kernel| kernel.name == interface.name).peekable();
        let found = if named.peek().is_none() { "none of this name" } else { "another" };
        let common = Common::of(&object);
        if !named.any(|kernel| common.interface(&object, kernel) == *interface) {
            let (path, place, kernel) = (path.clone(), Box::new(place.clone()), interface.name.clone());
            return Err(Unavailable::Differs { path, place, kernel, found });
        }
        Ok(bytes)
    }

    /// The bytes of a code object that was chosen: those by which it was chosen, or it is an error.
    ///
    /// # Errors
    /// As [`read`](Cache::read), and when the file's bytes are others now although it looks the same.
    pub fn read_chosen(&self, choice: &Choice) -> Result<Vec<u8>, Unavailable> {
        let bytes = self.read(&choice.candidate)?;
        if Hash::of(&bytes) == choice.hash {
            Ok(bytes)
        } else {
            Err(Unavailable::Changed { path: choice.candidate.path.clone() })
        }
    }

    /// The bytes of a candidate's code object, from the file as it was indexed.
    fn contents(&self, candidate: &Candidate) -> Result<Vec<u8>, Unavailable> {
        let Candidate { path, place, stamp, .. } = candidate;
        let failed = |source| Unavailable::File { path: path.clone(), source };
        let opened = Opened::open(path).map_err(failed)?;
        let unchanged = |now| if now == *stamp { Ok(()) } else { Err(Unavailable::Changed { path: path.clone() }) };
        unchanged(opened.stamp)?;
        if let Some(reason) = self.trust.refusal(&opened.metadata().map_err(failed)?, path) {
            return Err(Unavailable::Mistrusted { path: path.clone(), reason });
        }
        let bytes = place.read(&opened);
        unchanged(opened.stamp_now().map_err(failed)?)?;
        bytes.map_err(|source| unreadable(candidate, source))
    }

    /// The hash of a candidate's code object. It is computed once for a file as it is.
    ///
    /// # Errors
    /// When the file cannot be read, or was changed.
    pub fn hash(&self, candidate: &Candidate) -> Result<Hash, Unavailable> {
        once(&self.hashes, candidate, || {
            let kept = self.kept.get(&hashes::key(&candidate.path, &candidate.stamp, &candidate.place)).copied();
            kept.map_or_else(|| self.contents(candidate).map(|bytes| Hash::of(&bytes)), Ok)
        })
    }

    /// Takes the hashes that [`keep_hashes`](Cache::keep_hashes) has left in a folder. They are for lists: code that is loaded is
    /// hashed from its own bytes, so a process that loads code does not call this.
    pub fn take_hashes(&mut self, index_folder: &Path) {
        self.kept = self.roots.iter().flat_map(|root| hashes::load(index_folder, root.path(), self.trust)).collect();
    }

    /// Keeps the hashes that were computed, and those that were kept of files that are still the same.
    ///
    /// # Errors
    /// What the system says; it only costs time.
    pub fn keep_hashes(&self, index_folder: &Path) -> io::Result<()> {
        let computed = lock(&self.hashes).clone();
        let keyed = computed.iter().filter(|((_, stamp, _), _)| stamp.is_settled());
        let keyed = keyed.map(|((path, stamp, place), hash)| (hashes::key(path, stamp, place), *hash));
        let mut all: Hashes = keyed.collect();
        if all.keys().all(|key| self.kept.contains_key(key)) {
            return Ok(());
        }
        all.extend(&self.kept);
        for root in &self.roots {
            let there = root.candidates().map(|c| hashes::key(&c.path, &c.stamp, &c.place));
            let there: Hashes = there.filter_map(|key| Some((key, *all.get(&key)?))).collect();
            hashes::save(index_folder, root.path(), &there)?;
        }
        Ok(())
    }

    /// Looks at a file or folder again after it was written, renamed or removed; what is below a folder too. Sorted names of
    /// the kernels whose candidates may be others now. What is in no root changes nothing.
    pub fn update(&mut self, path: &Path) -> Vec<String> {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
        let mut changes = Changes::default();
        for root in &mut self.roots {
            root.update(&path, &mut changes);
            if path.extension().is_some_and(|extension| extension == triton::DESCRIPTION) {
                changes.names.extend(root.names_in(&path.with_extension(triton::CODE)));
            }
        }
        let is_kept = |(file, ..): &Contents| !file.starts_with(&path);
        self.hashes.get_mut().unwrap_or_else(PoisonError::into_inner).retain(|key, _| is_kept(key));
        self.analyses.get_mut().unwrap_or_else(PoisonError::into_inner).retain(|key, _| is_kept(key));
        self.collect_problems();
        let mut names = changes.names;
        names.sort_unstable();
        names.dedup();
        names
    }
}

impl Sources for Cache {
    fn hash(&self, candidate: &Candidate) -> Result<Hash, Unavailable> {
        Cache::hash(self, candidate)
    }

    fn analysis(&self, candidate: &Candidate) -> Result<Arc<Analysis>, Unavailable> {
        once(&self.analyses, candidate, || {
            let bytes = self.contents(candidate)?;
            // What is chosen by its analysis is loaded by its hash: both are of the same bytes.
            if Hash::of(&bytes) != Cache::hash(self, candidate)? {
                return Err(Unavailable::Changed { path: candidate.path.clone() });
            }
            let analysis = Analysis::of(&bytes);
            analysis.map(Arc::new).map_err(|source| unreadable(candidate, source))
        })
    }
}

/// The analysed code objects of candidates, each analysed once per version of its file.
fn once<T: Clone>(
    known: &Mutex<HashMap<Contents, T>>,
    candidate: &Candidate,
    make: impl FnOnce() -> Result<T, Unavailable>,
) -> Result<T, Unavailable> {
    let known = || lock(known);
    let key = (candidate.path.clone(), candidate.stamp, candidate.place.clone());
    if let Some(made) = known().get(&key) {
        return Ok(made.clone());
    }
    let made = make()?;
    known().insert(key, made.clone());
    Ok(made)
}

fn sorted(mut candidates: Vec<Candidate>) -> Vec<Candidate> {
    let order = |c: &Candidate| (c.place.container_offset, c.place.offset);
    candidates.sort_by(|a, b| {
        a.path.cmp(&b.path).then_with(|| order(a).cmp(&order(b))).then_with(|| a.interface.name.cmp(&b.interface.name))
    });
    // One root may be in another.
    candidates.dedup();
    candidates
}

fn unreadable(candidate: &Candidate, source: Unreadable) -> Unavailable {
    let (path, place) = (candidate.path.clone(), Box::new(candidate.place.clone()));
    Unavailable::Unreadable { path, place, source: Box::new(source) }
}
