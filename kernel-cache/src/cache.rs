//! Folders of code objects.

use std::path::{Path, PathBuf};

use amdgpu_code_object::Target;

use crate::decision::{Candidate, Decision, Pick};
use crate::error::Error;
use crate::hash::Hash;
use crate::interface::Interface;

/// The kernels of folders of code objects, by name.
#[derive(Debug, Default)]
pub struct Cache {
    problems: Vec<Problem>,
}

/// What could not be read, and why. Everything else is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file or folder.
    pub path: PathBuf,
    /// What was expected and what was found.
    pub reason: String,
}

impl Cache {
    /// Finds what is in folders and below, or in single files. The index of each root is kept in `index_folder`: it makes
    /// the next start fast. A folder that cannot be written only costs time.
    pub fn open(roots: &[PathBuf], index_folder: Option<&Path>) -> Cache {
        let _ = (roots, index_folder);
        Cache::default()
    }

    /// What could not be read.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// The kernels of a name, for every target, sorted by file and place.
    pub fn candidates(&self, name: &str) -> Vec<Candidate> {
        let _ = name;
        Vec::new()
    }

    /// What is done about a kernel of a code object that runs. `agent` is the target ID of the agent that it was loaded
    /// for, where that is known: it says what the settings are that the code is right for both ways.
    pub fn decide(
        &self,
        original: &Interface,
        running: &Hash,
        agent: Option<&Target>,
        pick: Option<&Pick>,
    ) -> Decision {
        let _ = (original, running, agent, pick);
        Decision::Nothing
    }

    /// The code object's bytes. They are what the index says, or it is an error.
    ///
    /// # Errors
    /// When the file cannot be read, or was changed.
    pub fn read(&self, candidate: &Candidate) -> Result<Vec<u8>, Error> {
        Err(Error::Changed { path: candidate.path.clone() })
    }

    /// Looks at a file or folder again after it was written, renamed or removed; what is below a folder too. Names of the
    /// kernels whose candidates changed. What is in no root changes nothing.
    pub fn update(&mut self, path: &Path) -> Vec<String> {
        let _ = path;
        Vec::new()
    }

    /// The folders that were looked into, in which files may appear.
    pub fn folders(&self) -> impl Iterator<Item = &Path> {
        std::iter::empty()
    }
}
