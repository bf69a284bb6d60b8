//! A folder of code objects, or a file: what is in it, kept up to date.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::cache::{Indexing, Problem};
use crate::candidate::{Candidate, Stamp};
use crate::index::{self, Block, Builder, Carried, FileRow, TooLarge};
use crate::scan;
use crate::trust::Trust;
use crate::walk::Walk;

/// One of the places where code objects are.
#[derive(Debug)]
pub(crate) struct Root {
    path: PathBuf,
    trust: Trust,
    /// The index as it was made or read, and what was read since; each much smaller than the one before it.
    blocks: Vec<Block>,
    folders: Vec<PathBuf>,
    /// What could not be looked at; what is wrong with files is in the blocks.
    problems: Vec<Problem>,
}

/// The changes of an update.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// Names of kernels.
    pub(crate) names: Vec<String>,
}

/// True when a file of the index is as it was when it was read.
fn is_fresh(row: &FileRow<'_>, path: &Path, stamp: &Stamp) -> bool {
    row.path == path && row.settled && row.stamp == *stamp
}

impl Root {
    /// Reads a folder. Files that the index has are not read again.
    pub(crate) fn open(
        path: PathBuf,
        index_folder: Option<&Path>,
        trust: Trust,
        indexing: &mut Indexing,
        each: &mut dyn FnMut(usize, usize),
    ) -> Root {
        let walk = Walk::of(&path, trust);
        indexing.files += walk.files.len();
        let mut problem = |reason: String| indexing.problems.push(Problem { path: path.clone(), reason });
        let kept = index_folder.map(|folder| index::load(folder, &path, trust)).transpose();
        let kept = kept.unwrap_or_else(|damage| {
            problem(format!("its index is made again: {damage}"));
            None
        });
        let kept = kept.flatten();
        let mut root = Root { path, trust, blocks: Vec::new(), folders: walk.folders, problems: walk.problems };
        match kept {
            Some(block) if is_complete(&block, &walk.files) => root.blocks.push(block),
            kept => root.index(kept.as_ref(), &walk.files, index_folder, indexing, each),
        }
        root
    }

    /// Makes the index from what there was of it and from files, and keeps it.
    fn index(
        &mut self,
        kept: Option<&Block>,
        files: &[(PathBuf, Stamp)],
        index_folder: Option<&Path>,
        indexing: &mut Indexing,
        each: &mut dyn FnMut(usize, usize),
    ) {
        let mut builder = Builder::new(&self.path);
        let carried = kept.map(Carried::new);
        let mut next = 0;
        for (number, (path, stamp)) in files.iter().enumerate() {
            each(number, files.len());
            // Both are sorted by path.
            let rows = kept.into_iter().flat_map(|block| (next..block.len()).map_while(|n| block.file(n)));
            next += rows.take_while(|row| row.path.as_os_str() < path.as_os_str()).count();
            let row = kept.and_then(|block| block.file(next)).filter(|row| is_fresh(row, path, stamp));
            if let (Some(_), Some(carried)) = (row, &carried) {
                builder.carry(carried, next);
                continue;
            }
            indexing.files_read += 1;
            match scan::add(&mut builder, path, *stamp) {
                Ok(bytes) => indexing.bytes_read += bytes,
                Err(error) => self.problems.push(Problem { path: path.clone(), reason: error.to_string() }),
            }
        }
        each(files.len(), files.len());
        self.finished(builder);
        if let (Some(folder), Some(block)) = (index_folder, self.blocks.last())
            && let Err(error) = index::save(folder, &self.path, block)
        {
            let reason = format!("its index cannot be kept in {}: {error}", folder.display());
            indexing.problems.push(Problem { path: self.path.clone(), reason });
        }
    }

    fn finished(&mut self, builder: Builder) {
        match builder.finish() {
            Ok(block) => self.blocks.push(block),
            Err(error @ TooLarge) => {
                self.problems.push(Problem { path: self.path.clone(), reason: error.to_string() });
            }
        }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// It and those below it.
    pub(crate) fn folders(&self) -> impl Iterator<Item = &Path> {
        self.folders.iter().map(PathBuf::as_path)
    }

    /// What could not be read.
    pub(crate) fn problems(&self) -> impl Iterator<Item = Problem> {
        let in_files = self.blocks.iter().flat_map(Block::problems);
        let in_files = in_files
            .flat_map(|(path, reasons)| reasons.into_iter().map(move |reason| Problem { path: path.clone(), reason }));
        self.problems.iter().cloned().chain(in_files)
    }

    /// The kernels of a name.
    pub(crate) fn candidates_named(&self, name: &str) -> impl Iterator<Item = Candidate> {
        self.blocks.iter().flat_map(move |block| block.candidates_named(name))
    }

    /// All kernels.
    pub(crate) fn candidates(&self) -> impl Iterator<Item = Candidate> {
        self.blocks.iter().flat_map(Block::candidates)
    }

    /// The names of the kernels in a file.
    pub(crate) fn names_in(&self, path: &Path) -> impl Iterator<Item = String> {
        self.blocks.iter().flat_map(|block| block.names_in(&block.below(path)))
    }

    /// Looks at a path again.
    pub(crate) fn update(&mut self, path: &Path, changes: &mut Changes) {
        // A folder above the root may have been renamed.
        let path = if self.path.starts_with(path) { self.path.clone() } else { path.to_path_buf() };
        if !path.starts_with(&self.path) {
            return;
        }
        let exists = path.symlink_metadata().is_ok() || path == self.path;
        let walk = if exists { Walk::of(&path, self.trust) } else { Walk::default() };
        self.folders.retain(|folder| !folder.starts_with(&path));
        self.folders.extend(walk.folders);
        self.problems.retain(|problem| !problem.path.starts_with(&path));
        self.problems.extend(walk.problems);
        let (files, mut known) = (walk.files, HashSet::new());
        for block in &mut self.blocks {
            let mut gone = block.below(&path);
            gone.retain(|&n| {
                let Some(row) = block.file(n) else { return true };
                let there = files.binary_search_by(|(path, _)| path.as_os_str().cmp(row.path.as_os_str()));
                let there =
                    there.ok().filter(|&n| files.get(n).is_some_and(|(path, stamp)| is_fresh(&row, path, stamp)));
                // What is as it was need not be read.
                there.map(|n| known.insert(n)).is_none()
            });
            changes.names.extend(block.retire(&gone));
        }
        if known.len() == files.len() {
            return;
        }
        let mut builder = Builder::new(&self.path);
        for (_, (path, stamp)) in files.iter().enumerate().filter(|(n, _)| !known.contains(n)) {
            // Removed since: another update will come.
            if let Err(error) = scan::add(&mut builder, path, *stamp) {
                self.problems.push(Problem { path: path.clone(), reason: error.to_string() });
            }
        }
        self.finished(builder);
        if let Some(block) = self.blocks.last() {
            changes.names.extend(block.candidates().map(|candidate| candidate.interface.name));
        }
        self.compact();
    }

    /// Makes one block of the last two while the last is not much smaller, so that there are never many.
    fn compact(&mut self) {
        while let [.., before, last] = self.blocks.as_slice() {
            if last.len() * 2 < before.len() {
                return;
            }
            let mut builder = Builder::new(&self.path);
            let both = [before, last].map(Carried::new);
            let mut files: Vec<(&Carried<'_>, usize, PathBuf)> =
                both.iter().flat_map(|carried| carried.live().map(move |(n, path)| (carried, n, path))).collect();
            files.sort_by(|a, b| a.2.as_os_str().cmp(b.2.as_os_str()));
            for (carried, n, _) in files {
                builder.carry(carried, n);
            }
            // Both have fitted before; if together they are too much, they stay apart.
            let Ok(block) = builder.finish() else { return };
            self.blocks.truncate(self.blocks.len() - 2);
            self.blocks.push(block);
        }
    }
}

/// True when an index has these files as they are, and no others.
fn is_complete(block: &Block, files: &[(PathBuf, Stamp)]) -> bool {
    let fresh =
        |(n, (path, stamp)): (usize, &(PathBuf, Stamp))| block.file(n).is_some_and(|row| is_fresh(&row, path, stamp));
    block.len() == files.len() && files.iter().enumerate().all(fresh)
}
