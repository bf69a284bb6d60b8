//! The source files that the compile commands name: a search that continues after one has changed says so.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use logdur_kernel_cache::Hash;
use serde::{Deserialize, Serialize};

use super::compile::Job;

/// Files that commands name, and the hash of each. What those include is not among them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Sources(BTreeMap<PathBuf, String>);

impl Sources {
    /// Of commands: their words that are files.
    pub fn of<'a>(jobs: impl IntoIterator<Item = &'a Job>) -> Sources {
        let separates = |c: char| c.is_whitespace() || "'\"=;&|()<>".contains(c);
        let mut words = BTreeMap::new();
        for job in jobs {
            let text = job.to_string();
            for word in text.split(separates).filter(|word| !word.is_empty()) {
                words.entry(PathBuf::from(word)).or_insert_with_key(|path| hash(path));
            }
        }
        Sources(words.into_iter().filter_map(|(path, hash)| Some((path, hash?))).collect())
    }

    /// Those that are others now, or gone.
    pub fn changed(&self, now: &Sources) -> Vec<PathBuf> {
        self.0.iter().filter(|(path, hash)| now.0.get(*path) != Some(hash)).map(|(path, _)| path.clone()).collect()
    }
}

/// The hash of a file; `None` for what is none, or cannot be read.
fn hash(path: &Path) -> Option<String> {
    if !path.is_file() {
        return None;
    }
    fs::read(path).ok().map(|bytes| Hash::of(&bytes).to_string())
}
