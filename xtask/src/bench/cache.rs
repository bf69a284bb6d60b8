//! `cargo xtask bench cache`: what it takes to know the kernels of the development corpora, with an index and without,
//! beside reading as many bytes of the same files.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use super::{Variant, table, variant};
use crate::{corpora, shell};

/// What opens a folder and says what it took.
const PROGRAM: &str = "open_cache";
/// Repeats of each variant, interleaved.
const REPEATS: usize = 5;
/// Bytes that a plain read asks for at once.
const CHUNK: usize = 128 << 10;

/// Names of the variants.
const COLD: &str = "no index";
const WARM: &str = "index";
const PLAIN: &str = "plain read";

const VARIANTS: [Variant; 3] = [variant(PLAIN, |_| {}), variant(COLD, |_| {}), variant(WARM, |_| {})];

pub(super) fn run() -> Result<()> {
    let mut build = Command::new(shell::cargo());
    shell::run(build.args([
        "build",
        "--quiet",
        "--release",
        "--package",
        "logdur-kernel-cache",
        "--example",
        PROGRAM,
    ]))?;
    for (name, folder) in corpora::folders()? {
        let index = shell::cache().join("bench-index");
        fs::remove_dir_all(&index).ok();
        let first = open(&index, &folder)?;
        let title = format!(
            "{name}: {} kernels in {} files, {:.1} MB read of {:.1} MB, {} problems",
            first.kernels,
            first.files,
            first.bytes as f64 / 1e6,
            size(&folder)? as f64 / 1e6,
            first.problems
        );
        table(&title, ["ms"], &VARIANTS, REPEATS, |variant| match variant.name {
            PLAIN => {
                let began = Instant::now();
                plain(&folder, first.bytes)?;
                Ok([began.elapsed().as_secs_f64() * 1e3])
            }
            COLD => {
                fs::remove_dir_all(&index).with_context(|| index.display().to_string())?;
                Ok([open(&index, &folder)?.seconds * 1e3])
            }
            _ => Ok([open(&index, &folder)?.seconds * 1e3]),
        })?;
    }
    Ok(())
}

/// What the program says that opening a folder took.
struct Opened {
    seconds: f64,
    files: u64,
    bytes: u64,
    kernels: u64,
    problems: u64,
}

fn open(index: &Path, folder: &Path) -> Result<Opened> {
    let program = shell::root().join("target/release/examples").join(PROGRAM);
    let text = shell::output(Command::new(program).arg(index).arg(folder))?;
    let words: Vec<&str> = text.split_whitespace().collect();
    let &[seconds, files, bytes, kernels, problems] = &words[..] else {
        bail!("expected five numbers, found {text:?}")
    };
    let number = |word: &str| word.parse::<u64>().with_context(|| format!("in {text:?}"));
    Ok(Opened {
        seconds: seconds.parse()?,
        files: number(files)?,
        bytes: number(bytes)?,
        kernels: number(kernels)?,
        problems: number(problems)?,
    })
}

fn size(folder: &Path) -> Result<u64> {
    let files = corpora::below(folder)?;
    files.iter().map(|file| Ok(fs::metadata(file)?.len())).sum()
}

/// Reads so many bytes of the files of a folder.
fn plain(folder: &Path, mut bytes: u64) -> Result<()> {
    let files: Vec<PathBuf> = corpora::below(folder)?;
    let mut buffer = vec![0; CHUNK];
    for path in files {
        let mut file = File::open(&path).with_context(|| path.display().to_string())?;
        while bytes > 0 {
            let read = file.read(&mut buffer)?;
            bytes = bytes.saturating_sub(read as u64);
            if read == 0 {
                break;
            }
        }
    }
    Ok(())
}
