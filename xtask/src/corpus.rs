//! `cargo xtask corpus [NAME|FILE|FOLDER ...]`: the share of the kernels of real code objects whose every instruction the
//! emulator's tables have. Names are those of the development corpora, which are fetched or compiled into the cache.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use amdgpu_isa::{Arch, Decoder};
use anyhow::{Context, Result, bail};

use crate::debian::Suite;
use crate::shell::{self, root};
use crate::{demo, setup};

mod kernels;
mod objects;

/// A development corpus: its name, what is in it, and what brings its files.
struct Corpus {
    name: &'static str,
    what: &'static str,
    files: fn() -> Result<Vec<PathBuf>>,
}

const CORPORA: &[Corpus] = &[
    Corpus { name: "hip", what: "the HIP programs of tests/programs", files: hip },
    Corpus { name: "triton", what: "the Triton kernels of tests/programs/triton", files: triton },
    Corpus { name: "bitsandbytes", what: "the ROCm libraries of bitsandbytes 0.50.2 (PyPI)", files: bitsandbytes },
    Corpus { name: "rocblas", what: "rocBLAS (Debian trixie's librocblas0)", files: rocblas },
];

/// The processors that our own kernels are compiled for here.
const ARCHS: &[&str] = &["gfx906", "gfx90a"];
const BITSANDBYTES: &str = "bitsandbytes==0.50.2";
const ROCBLAS: (&str, &str) = ("trixie", "librocblas0");
/// Of what is missing, so many lines are printed for a processor.
const LISTED: usize = 30;

pub(crate) fn run(args: &[String]) -> Result<()> {
    if args.is_empty() {
        let names = CORPORA.iter().map(|c| format!("\n  {:<13} {}", c.name, c.what)).collect::<String>();
        bail!("expected files, folders, all or names of corpora:{names}");
    }
    println!(
        "{:<13} {:<7} {:>8} {:>8} {:>13} {:>9} {:>7}",
        "corpus", "", "objects", "kernels", "instructions", "complete", "share"
    );
    for arg in args {
        let named: Vec<&Corpus> = CORPORA.iter().filter(|c| arg == "all" || arg == c.name).collect();
        for corpus in &named {
            print(corpus.name, &count(&(corpus.files)().with_context(|| format!("corpus {}", corpus.name))?)?)?;
        }
        if named.is_empty() {
            let path = Path::new(arg);
            print(arg.rsplit('/').next().unwrap_or(arg), &count(&below(path)?)?)?;
        }
    }
    Ok(())
}

/// What was found for one processor.
#[derive(Default)]
struct Tally {
    objects: usize,
    kernels: usize,
    instructions: u64,
    complete: usize,
    /// Reasons of refusals: how many kernels have one, and words that were refused.
    missing: HashMap<String, (usize, [u32; 2])>,
}

/// Counts in all code objects of files, each once however often it is there.
fn count(files: &[PathBuf]) -> Result<BTreeMap<Arch, Tally>> {
    let decoders = Arch::ALL.map(|arch| (arch, Decoder::new(arch)));
    let (mut tallies, mut seen) = (BTreeMap::<Arch, Tally>::new(), HashSet::new());
    for path in files {
        let at = || path.display().to_string();
        let bytes = fs::read(path).with_context(at)?;
        let mut found = |object: &[u8]| {
            let mut hash = DefaultHasher::new();
            object.hash(&mut hash);
            if !seen.insert(hash.finish()) {
                return Ok(());
            }
            let file = objects::Elf::parse(object)?;
            let Some(arch) = kernels::arch(&file) else { return Ok(()) };
            let (_, decoder) = decoders.iter().find(|(a, _)| *a == arch).context("a decoder for each processor")?;
            let tally = tallies.entry(arch).or_default();
            tally.objects += 1;
            for kernel in kernels::read(&file, decoder)? {
                tally.kernels += 1;
                tally.instructions += kernel.instructions;
                tally.complete += usize::from(kernel.refused.is_empty());
                for (why, words) in kernel.refused {
                    tally.missing.entry(why).or_insert((0, words)).0 += 1;
                }
            }
            Ok(())
        };
        objects::each(&bytes, &mut found).with_context(at)?;
    }
    Ok(tallies)
}

fn print(name: &str, tallies: &BTreeMap<Arch, Tally>) -> Result<()> {
    if tallies.is_empty() {
        println!("{name:<13} no code object of a processor that the tables know");
    }
    for (arch, tally) in tallies {
        let Tally { objects, kernels, instructions, complete, .. } = tally;
        let share = 100.0 * *complete as f64 / (*kernels).max(1) as f64;
        println!(
            "{name:<13} {arch:<7} {objects:>8} {kernels:>8} {instructions:>13} {complete:>9} {share:>6.2}%",
            arch = arch.name()
        );
        let mut missing: Vec<_> = tally.missing.iter().collect();
        missing.sort_by_key(|(why, (kernels, _))| (std::cmp::Reverse(*kernels), (*why).clone()));
        for (why, (kernels, words)) in missing.iter().take(LISTED) {
            let [first, second] = words;
            println!("    {kernels:>6} kernels: {why} ({first:08x} {second:08x}: {})", llvm(*arch, *words)?);
        }
        if missing.len() > LISTED {
            println!("    and {} more reasons", missing.len() - LISTED);
        }
    }
    Ok(())
}

/// What LLVM takes the words for.
fn llvm(arch: Arch, words: [u32; 2]) -> Result<String> {
    let mut command = Command::new("llvm-mc-19");
    command.args(["--disassemble", "--triple=amdgcn-amd-amdhsa"]).arg(format!("--mcpu={arch}"));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let bytes: Vec<String> = words.iter().flat_map(|w| w.to_le_bytes()).map(|b| format!("{b:#x}")).collect();
    child.stdin.take().context("a pipe")?.write_all(bytes.join(",").as_bytes())?;
    let text = String::from_utf8(child.wait_with_output()?.stdout)?;
    let line = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('.'));
    Ok(line
        .map_or_else(|| "nothing that LLVM knows".to_owned(), |l| l.split_whitespace().collect::<Vec<_>>().join(" ")))
}

/// A file, or all files below a folder.
fn below(path: &Path) -> Result<Vec<PathBuf>> {
    let at = || path.display().to_string();
    if !fs::metadata(path).with_context(at)?.is_dir() {
        return Ok(vec![path.to_path_buf()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path).with_context(at)? {
        let entry = entry.with_context(at)?;
        // Links would count twice, or go round.
        if !entry.file_type()?.is_symlink() {
            files.extend(below(&entry.path())?);
        }
    }
    files.sort();
    Ok(files)
}

fn folder(name: &str) -> PathBuf {
    shell::cache().join("corpora").join(name)
}

/// A folder that is filled once: complete, or not there.
fn filled(name: &str, fill: impl FnOnce(&Path) -> Result<()>) -> Result<Vec<PathBuf>> {
    let folder = folder(name);
    if !folder.is_dir() {
        let partial = folder.with_extension("partial");
        fs::remove_dir_all(&partial).ok();
        fs::create_dir_all(&partial).with_context(|| format!("creating {}", partial.display()))?;
        fill(&partial)?;
        fs::rename(&partial, &folder)?;
    }
    below(&folder)
}

fn hip() -> Result<Vec<PathBuf>> {
    let rocm = setup::rocm()?;
    let mut sources = below(&root().join("tests/programs"))?;
    sources.retain(|s| s.extension().is_some_and(|e| e == "hip"));
    sources.iter().map(|source| demo::compile(&rocm, source)).collect()
}

fn triton() -> Result<Vec<PathBuf>> {
    let python = setup::triton()?;
    let mut files = Vec::new();
    for arch in ARCHS {
        // Compiled each time: a second or two where Triton's own cache has them.
        let folder = folder("triton").join(arch);
        let mut command = Command::new(&python);
        command.arg("-B").arg(root().join("tests/programs/triton/prepare.py")).arg(&folder).arg(arch);
        shell::output(command.env("TRITON_CACHE_DIR", shell::cache().join("triton-cache")))?;
        files.extend(below(&folder)?);
    }
    Ok(files)
}

fn bitsandbytes() -> Result<Vec<PathBuf>> {
    filled(&BITSANDBYTES.replace("==", "-"), |folder| {
        let python = setup::triton()?;
        let pip = ["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--dest"];
        shell::output(Command::new(&python).args(pip).arg(folder).arg(BITSANDBYTES))?;
        for wheel in below(folder)? {
            shell::output(Command::new(&python).args(["-m", "zipfile", "-e"]).arg(&wheel).arg(folder))?;
            fs::remove_file(wheel)?;
        }
        Ok(())
    })
}

fn rocblas() -> Result<Vec<PathBuf>> {
    let (suite, name) = ROCBLAS;
    filled(&format!("{name}-{suite}"), |folder| {
        println!("fetching {name} of {suite} (170 MB, once)");
        let suite = Suite::open(suite)?;
        let mut packages = suite.closure(name)?;
        packages.retain(|p| p.name == name);
        // Its kernels for other families are ten times as large.
        suite.unpack_only(&packages, folder, &["*.so.*", "*gfx9*"])
    })
}
