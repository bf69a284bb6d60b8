//! `omniprobe report LOG|CAPTURE|FOLDER|FILE... -o FILE.html`: one page with totals, a timeline, plots, captures, searches and
//! verifications.

use std::fs::{self, File, Permissions};
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use logdur_capture::CAPTURE_MAGIC;
use logdur_replay::Exit;
use logdur_report::page::Page;
use serde_json::Value;

use super::input;
use super::{captured, info};

/// The journal in the folder of a search.
const JOURNAL: &str = "trials.jsonl";

/// What goes into the page, and where it goes.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Logs, in CSV or JSON; captures; folders of `omniprobe tune`; output of `omniprobe verify --json`. `-` is a log on the
    /// standard input.
    #[arg(required = true, value_name = "LOG|CAPTURE|DIR|FILE")]
    inputs: Vec<PathBuf>,
    /// The page. An existing file is replaced.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

/// Writes the page.
///
/// # Errors
/// When a file cannot be read or written, or is none of the kinds.
pub(crate) fn run(options: &Options) -> Result<Exit> {
    let mut page = Page::default();
    for input in input::logs(&options.inputs)? {
        let path = &input.path;
        let name = super::file(path);
        if path.is_dir() {
            let journal = path.join(JOURNAL);
            let expected = || format!("{name}: expected the folder of a search, which has {JOURNAL}");
            let text = fs::read_to_string(&journal).with_context(expected)?;
            page.add_search(&name, &text).with_context(|| super::file(&journal))?;
        } else if is_capture(path)? {
            let reader = captured::open(path)?;
            page.add_capture(&name, &info::described(&reader));
        } else if let Some(objects) = verification(path)? {
            page.add_verification(&name, &objects);
        } else {
            input::read(&input, |name, log| page.read_log(name, log))?;
        }
    }
    let path = super::file(&options.output);
    let context = || path.clone();
    let folder = options.output.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // The file is whole, or what it was before.
    let permissions = Permissions::from_mode(0o666);
    let file = tempfile::Builder::new().permissions(permissions).tempfile_in(folder).with_context(context)?;
    let mut to = BufWriter::new(file.as_file());
    let rows = page.write(&mut to).with_context(context)?;
    to.flush().with_context(context)?;
    drop(to);
    file.persist(&options.output).map_err(|error| error.error).with_context(context)?;
    super::tell(format_args!("{path}: {rows} rows"));
    Ok(Exit::Success)
}

/// True if the file begins as captures do.
fn is_capture(path: &Path) -> Result<bool> {
    if path == Path::new("-") {
        return Ok(false);
    }
    let mut begin = Vec::new();
    let read = File::open(path).and_then(|file| file.take(CAPTURE_MAGIC.len() as u64).read_to_end(&mut begin));
    read.with_context(|| super::file(path))?;
    Ok(begin == CAPTURE_MAGIC)
}

/// The objects that `verify --json` printed; `None` for another file.
fn verification(path: &Path) -> Result<Option<Vec<Value>>> {
    if path == Path::new("-") {
        return Ok(None);
    }
    let name = super::file(path);
    let mut lines = BufReader::new(File::open(path).with_context(|| name.clone())?);
    let begin = lines.fill_buf().with_context(|| name.clone())?;
    if begin.first() != Some(&b'{') {
        return Ok(None);
    }
    let mut objects = Vec::new();
    for line in lines.lines() {
        let object: Value = serde_json::from_str(&line.with_context(|| name.clone())?).unwrap_or_default();
        let is_verified = object["dispatch"].is_u64() && object["result"].is_string();
        if !is_verified && objects.is_empty() {
            return Ok(None);
        }
        objects.extend(Some(object).filter(|_| is_verified));
    }
    Ok(Some(objects))
}
