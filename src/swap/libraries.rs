//! Which libraries are searched for instrumented clones: the file of `LOGDUR_LIBRARY_FILTER`.
//!
//! The file is JSON: `{"include": […], "include_with_deps": […], "exclude": […]}`, each a list of patterns of paths. Included
//! files are searched besides the application's code and the cache; with their dependencies, if that is said. Excluded files are
//! not searched, and kernels that were loaded from them are not instrumented.

use std::collections::BTreeSet;
use std::env;
use std::ffi::{CStr, CString, OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use object::elf::{self, FileHeader64};
use object::read::elf::{Dyn, FileHeader, SectionHeader};
use object::{Endianness, FileKind, ReadCache, ReadRef};
use regex::Regex;
use serde_json::Value;

/// Where the loader looks last. Source: `ld.so(8)`, and Debian's multiarch folders.
const STANDARD: &[&str] =
    &["/lib", "/usr/lib", "/lib64", "/usr/lib64", "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu"];

/// The largest filter that is read, in bytes.
const LARGEST: u64 = 1 << 20;
/// The most files that a filter includes.
const MOST: usize = 4096;

/// What the file says.
#[derive(Debug, Default)]
pub(super) struct LibraryFilter {
    /// Files that are searched, too.
    pub(super) include: Vec<PathBuf>,
    /// What is left out, and why.
    pub(super) problems: Vec<String>,
    exclude: Vec<Regex>,
}

/// Why there is no filter.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unread {
    /// The file.
    #[error("{0}")]
    File(#[from] std::io::Error),
    /// Its size.
    #[error("expected at most {LARGEST} bytes, found more")]
    Large,
    /// Its text.
    #[error("expected JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// What is in it.
    #[error("expected a list of paths in {0:?}")]
    NoPaths(&'static str),
    /// A pattern that is too large.
    #[error("{0}")]
    Pattern(#[from] regex::Error),
}

impl LibraryFilter {
    /// Reads a file.
    ///
    /// # Errors
    /// When it is no filter.
    pub(super) fn read(path: &Path) -> Result<LibraryFilter, Unread> {
        let mut text = Vec::new();
        opened(path)?.take(LARGEST + 1).read_to_end(&mut text)?;
        if text.len() as u64 > LARGEST {
            return Err(Unread::Large);
        }
        let json: Value = serde_json::from_slice(&text)?;
        let list = |key: &'static str| -> Result<Vec<String>, Unread> {
            let Some(value) = json.get(key) else { return Ok(Vec::new()) };
            let texts = value.as_array().and_then(|all| all.iter().map(|one| Some(one.as_str()?.to_owned())).collect());
            texts.ok_or(Unread::NoPaths(key))
        };
        let exclude: Vec<Regex> = list("exclude")?.iter().map(|text| pattern(text)).collect::<Result<_, _>>()?;
        let mut filter = LibraryFilter { include: Vec::new(), problems: Vec::new(), exclude };
        let mut found = BTreeSet::new();
        for (key, with_dependencies) in [("include", false), ("include_with_deps", true)] {
            for file in list(key)?.iter().flat_map(|text| expanded(text)) {
                if let Err(error) = add(file.clone(), with_dependencies, &mut found) {
                    filter.problems.push(format!("{}: {error}", file.display()));
                }
            }
        }
        filter.include = found.into_iter().filter(|file| !filter.excludes(file)).collect();
        Ok(filter)
    }

    /// True for a file that is not searched.
    pub(super) fn excludes(&self, file: &Path) -> bool {
        let text = file.to_string_lossy();
        self.exclude.iter().any(|pattern| pattern.is_match(&text))
    }

    /// True when files are excluded.
    pub(super) fn excludes_any(&self) -> bool {
        !self.exclude.is_empty()
    }
}

/// A pattern that matches whole paths: `*` and `?` stand for what has no slash, `**` for anything.
fn pattern(text: &str) -> Result<Regex, regex::Error> {
    let mut regex = String::from("^");
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let (part, length) = match c {
            '*' if rest.starts_with("**") => (".*".to_owned(), 2),
            '*' => ("[^/]*".to_owned(), 1),
            '?' => ("[^/]".to_owned(), 1),
            c => (regex::escape(c.encode_utf8(&mut [0; 4])), c.len_utf8()),
        };
        regex += &part;
        rest = rest.get(length..).unwrap_or_default();
    }
    Regex::new(&(regex + "$"))
}

/// The files that a pattern of the shell stands for; `~` is the user's folder.
fn expanded(text: &str) -> Vec<PathBuf> {
    let Ok(text) = CString::new(text) else { return Vec::new() };
    // SAFETY: zeros are a value of the structure.
    let mut found: libc::glob_t = unsafe { std::mem::zeroed() };
    // SAFETY: the pattern ends with 0, and the structure is written whole.
    let status = unsafe { libc::glob(text.as_ptr(), libc::GLOB_TILDE, None, &mut found) };
    let paths = (0..if status == 0 { found.gl_pathc } else { 0 }).map(|n| {
        // SAFETY: there are so many paths.
        let place = unsafe { found.gl_pathv.add(n) };
        // SAFETY: as above.
        let path = unsafe { place.read() };
        // SAFETY: each ends with 0, and lives until it is freed below.
        let path = unsafe { CStr::from_ptr(path) };
        PathBuf::from(OsStr::from_bytes(path.to_bytes()))
    });
    let paths = paths.collect();
    // SAFETY: the structure is that of the call above, or zeros.
    unsafe { libc::globfree(&mut found) };
    paths
}

/// Opens a regular file. Opening a pipe could wait for ever, and a device has no end.
fn opened(path: &Path) -> io::Result<File> {
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "expected a file, found a folder, a pipe or a device"))
}

/// Adds a file, and the libraries that it needs, found as the loader finds them, if these are wanted.
///
/// # Errors
/// When it is no file, or cannot be read, or there are too many.
fn add(file: PathBuf, with_dependencies: bool, found: &mut BTreeSet<PathBuf>) -> io::Result<()> {
    let mut left = vec![file];
    while let Some(file) = left.pop() {
        let opened = opened(&file)?;
        if found.len() == MOST {
            return Err(io::Error::other(format!("expected at most {MOST} files in all, found more")));
        }
        if !found.insert(file.clone()) || !with_dependencies {
            continue;
        }
        let Dynamic { needed, paths } = Dynamic::of(&ReadCache::new(opened)).unwrap_or_default();
        let folder = file.parent().unwrap_or(Path::new("/"));
        let own = paths.iter().map(|path| from_origin(path, folder));
        let variable = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
        let folders: Vec<PathBuf> =
            own.chain(env::split_paths(&variable)).chain(STANDARD.iter().map(PathBuf::from)).collect();
        let place = |name: &OsString| folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file());
        left.extend(needed.iter().filter_map(place));
    }
    Ok(())
}

/// A folder of a library's list; `$ORIGIN` is the library's own.
fn from_origin(path: &OsStr, origin: &Path) -> PathBuf {
    let text = path.to_string_lossy();
    let origin = origin.to_string_lossy();
    PathBuf::from(text.replace("${ORIGIN}", &origin).replace("$ORIGIN", &origin))
}

/// What a library says of others.
#[derive(Default)]
struct Dynamic {
    needed: Vec<OsString>,
    /// `DT_RPATH` and `DT_RUNPATH`.
    paths: Vec<OsString>,
}

impl Dynamic {
    /// Of a library, of which only headers and names are read; `None` for what is none.
    fn of<'a>(bytes: impl ReadRef<'a>) -> Option<Dynamic> {
        if FileKind::parse(bytes).ok()? != FileKind::Elf64 {
            return None;
        }
        let header = FileHeader64::<Endianness>::parse(bytes).ok()?;
        let endian = header.endian().ok()?;
        let sections = header.sections(endian, bytes).ok()?;
        let (entries, link) = sections.iter().find_map(|section| section.dynamic(endian, bytes).ok().flatten())?;
        let strings = sections.strings(endian, bytes, link).ok()?;
        let mut dynamic = Dynamic::default();
        for entry in entries {
            let offset = u32::try_from(entry.d_val(endian)).unwrap_or(u32::MAX);
            let text = || strings.get(offset).map(<[u8]>::to_vec).unwrap_or_default();
            match entry.d_tag(endian) {
                elf::DT_NEEDED => dynamic.needed.push(OsString::from_vec(text())),
                elf::DT_RPATH | elf::DT_RUNPATH => {
                    dynamic.paths.extend(env::split_paths(&OsString::from_vec(text())).map(PathBuf::into_os_string));
                }
                _ => {}
            }
        }
        Some(dynamic)
    }
}

/// The file that is mapped at an address of the process.
pub(super) fn file_at(address: u64) -> Option<PathBuf> {
    let maps = fs::read("/proc/self/maps").ok()?;
    maps.split(|&byte| byte == b'\n').find_map(|line| {
        let line = std::str::from_utf8(line).ok()?;
        let mut words = line.splitn(6, ' ');
        let (start, end) = words.next()?.split_once('-')?;
        let bounds = [start, end].map(|text| u64::from_str_radix(text, 16).ok());
        let path = words.last()?.trim_start();
        let is_there = bounds[0]? <= address && address < bounds[1]?;
        (is_there && path.starts_with('/')).then(|| PathBuf::from(path))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_paths_and_one_star_stays_in_its_folder() {
        let matches = |text: &str, path: &str| pattern(text).unwrap().is_match(path);
        assert!(matches("/opt/*/lib?.so", "/opt/a.b/libc.so") && matches("**/libc.so*", "/a/b/libc.so.6"));
        assert!(
            !matches("/opt/*.so", "/opt/a/b.so") && !matches("libc.so", "/lib/libc.so") && !matches("/a.c", "/abc")
        );
    }

    #[test]
    fn a_filter_includes_libraries_with_what_they_need_and_excludes_win() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("filter.json");
        let program = env::current_exe().unwrap();
        let write = |text: String| fs::write(&file, text).unwrap();
        write(format!(r#"{{"include_with_deps": ["{}"], "exclude": ["**/libm.so*"], "other": 1}}"#, program.display()));
        let filter = LibraryFilter::read(&file).unwrap();
        let has = |name: &str| filter.include.iter().any(|path| path.to_string_lossy().contains(name));
        assert!(filter.include.contains(&program) && has("/libc.so") && !has("/libm.so"), "{:?}", filter.include);
        // Devices, folders and pipes are left out with the reason, and not waited for.
        let pipe = std::ffi::CString::new(folder.path().join("pipe").as_os_str().as_bytes()).unwrap();
        // SAFETY: a C string.
        assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o600) }, 0);
        let pipe = pipe.to_str().unwrap();
        write(format!(
            r#"{{"include": ["~", "{pipe}"], "include_with_deps": ["/dev/zero", "{}"]}}"#,
            program.display()
        ));
        let filter = LibraryFilter::read(&file).unwrap();
        assert!(filter.include.contains(&program) && filter.problems.len() == 3, "{:?}", filter.problems);
        assert!(LibraryFilter::read(Path::new(pipe)).is_err() && LibraryFilter::read(Path::new("/dev/zero")).is_err());
        write(format!(r#"{{"other": "{}"}}"#, "x".repeat(2 << 20)));
        assert_eq!(LibraryFilter::read(&file).unwrap_err().to_string(), "expected at most 1048576 bytes, found more");
        write(r#"{"include": "one"}"#.to_owned());
        assert_eq!(LibraryFilter::read(&file).unwrap_err().to_string(), r#"expected a list of paths in "include""#);
    }

    #[test]
    fn code_is_in_the_file_that_is_mapped_where_it_is() {
        assert_eq!(file_at(file_at as *const () as u64), env::current_exe().ok());
        assert_eq!(file_at(1), None);
    }
}
