//! `omniprobe report LOG|CAPTURE|FOLDER|FILE... -o FILE.html`: one page with totals, a timeline, plots, captures, searches and
//! verifications.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use logdur_capture::CAPTURE_MAGIC;
use logdur_report::page::Page;
use logdur_system::output::{Output, Readers};
use omniprobe_exit::Exit;
use serde_json::Value;

use super::info;
use crate::captured;
use crate::input::{self, Which, Wholeness};
use crate::output::{file, tell};

/// The journal in the folder of a search.
const JOURNAL: &str = "trials.jsonl";

/// What goes into the page, and where it goes.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Logs, in CSV or JSON; captures; folders of `omniprobe tune`; output of `omniprobe verify --json`. `-` is a log on the
    /// standard input.
    #[arg(required = true, value_name = "LOG|CAPTURE|DIR|FILE")]
    inputs: Vec<PathBuf>,
    #[command(flatten)]
    which: Which,
    /// The page. An existing file is replaced.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

/// Writes the page.
///
/// # Errors
/// When a file cannot be read or written, or is none of the kinds.
pub(crate) fn run(options: &Options) -> Result<Exit> {
    let inputs = input::logs(&options.inputs)?;
    let journals: Vec<PathBuf> = inputs.iter().map(|input| input.path.join(JOURNAL)).collect();
    let read: Vec<&Path> = input::paths(&inputs).into_iter().chain(journals.iter().map(PathBuf::as_path)).collect();
    let output = Output::begin(&options.output, Readers::Those, &read)?;
    let mut page = Page::default();
    let (mut others, mut status, mut whole) = (0, Exit::Success, Wholeness::default());
    for input in inputs.clone() {
        let path = &input.path;
        let name = file(path);
        if path.is_dir() {
            let journal = path.join(JOURNAL);
            let expected = || format!("{name}: expected the folder of a search, which has {JOURNAL}");
            let text = fs::read_to_string(&journal).with_context(expected)?;
            others += 1;
            page.add_search(&name, &text).with_context(|| file(&journal))?;
        } else if is_capture(path)? {
            let reader = captured::open(path)?;
            others += 1;
            let (described, ended) = info::described(&reader);
            page.add_capture(&name, &described);
            status = if status == Exit::Success { ended } else { status };
        } else if let Some(objects) = verification(path)? {
            others += 1;
            page.add_verification(&name, &objects);
        } else {
            whole.read(&options.which.of(input)?, |name, log| page.read_log(name, log))?;
        }
    }
    let path = file(&options.output);
    let context = || path.clone();
    let mut to = BufWriter::new(output.file());
    let rows = page.write(&mut to).with_context(context)?;
    to.flush().with_context(context)?;
    drop(to);
    if rows == 0 && others == 0 {
        return Ok(whole.status(input::nothing(&inputs)));
    }
    output.finish()?;
    tell(format_args!("{path}: {rows} rows"));
    Ok(whole.status(status))
}

/// False for what can be read only once, as a pipe, or the standard input: it is a log.
fn is_file(path: &Path) -> bool {
    path.metadata().map_or(path != Path::new("-"), |data| data.is_file())
}

/// True if the file begins as captures do.
fn is_capture(path: &Path) -> Result<bool> {
    if !is_file(path) {
        return Ok(false);
    }
    let mut begin = Vec::new();
    let read = File::open(path).and_then(|file| file.take(CAPTURE_MAGIC.len() as u64).read_to_end(&mut begin));
    read.with_context(|| file(path))?;
    // One damaged byte makes it no other file.
    let changed = CAPTURE_MAGIC.iter().zip(&begin).filter(|(expected, found)| expected != found).count();
    Ok(begin.len() == CAPTURE_MAGIC.len() && changed <= 1)
}

/// The objects that `verify --json` printed; `None` for another file.
fn verification(path: &Path) -> Result<Option<Vec<Value>>> {
    if !is_file(path) {
        return Ok(None);
    }
    let name = file(path);
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
