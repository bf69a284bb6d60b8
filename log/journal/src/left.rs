//! Where files of records are, and which of them processes have left.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// How the names of these files begin and end; the process id is between them.
pub(crate) const NAME: (&str, &str) = ("logdur.", ".records");

/// The folders in which a process makes its file, in the order in which it tries them, unless a folder is named.
pub fn default_folders() -> Vec<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|p| p.is_absolute());
    runtime.into_iter().chain(["/dev/shm".into(), std::env::temp_dir()]).collect()
}

/// The paths in a folder that are named as files of records, sorted. Whose they are, and what is in them, is not looked at.
///
/// # Errors
/// When the folder cannot be read.
pub fn in_folder(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if name.to_str().is_some_and(is_name) {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

fn is_name(name: &str) -> bool {
    let number = name.strip_prefix(NAME.0).and_then(|rest| rest.strip_suffix(NAME.1));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    number.is_some_and(|number| match number.split_once('.') {
        Some((pid, repeat)) => is_number(pid) && is_number(repeat),
        None => is_number(number),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_a_process_gives_are_found() {
        let folder = std::env::temp_dir().join(format!("logdur-left-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let ours = ["logdur.17.2.records", "logdur.17.records"];
        for name in ours.iter().chain(&["logdur..records", "logdur.17.log", "logdur.1x.records", "a.logdur.17.records"])
        {
            fs::write(folder.join(name), "").unwrap();
        }
        let found = in_folder(&folder).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found, ours.map(|name| folder.join(name)));
    }
}
