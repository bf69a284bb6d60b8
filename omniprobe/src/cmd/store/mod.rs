//! `omniprobe store`: contents of captures in a folder that captures share.

mod collect;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use clap::{Args, Subcommand};
use logdur_capture::{Contents, FileStorage, Options as Writing, PRIVATE, Reader, Store, StorePath};
use logdur_captured::CapturedError;
use logdur_system::output::{Output, Readers};
use omniprobe_exit::Exit;

use super::Example;
use crate::captured::StoreArgs;
use crate::kind::{self, Kind};
use crate::output::{file, lines};
use crate::progress;

/// What is done with contents.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    #[command(subcommand)]
    command: StoreCommand,
}

#[derive(Subcommand, Clone, Debug)]
enum StoreCommand {
    /// Write a capture that needs no store.
    Embed(EmbedOptions),
    /// Write a capture whose contents are in a store.
    Reference(ReferenceOptions),
    /// Write a capture that says where its store is now.
    Remap(RemapOptions),
    /// Say which files of a store no capture needs, or remove them.
    Gc(collect::Options),
}

/// The examples of these.
pub(super) const EXAMPLES: &[Example] = &[
    ("embed", "Make a capture that can be sent to others", "omniprobe store embed app.ldcap -o alone.ldcap"),
    (
        "reference",
        "Put the contents of a capture into a store",
        "omniprobe store reference app.ldcap chunks -o small.ldcap",
    ),
    ("remap", "Say that a store was moved", "omniprobe store remap /scratch=/archive app.ldcap -o moved.ldcap"),
    ("gc", "Remove what no capture of a folder needs", "omniprobe store gc chunks captures --remove"),
];

/// What is read and written.
#[derive(Args, Clone, Debug)]
struct CopyOptions {
    /// The capture.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The capture that is written.
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    #[command(flatten)]
    store: StoreArgs,
}

#[derive(Args, Clone, Debug)]
struct EmbedOptions {
    #[command(flatten)]
    copy: CopyOptions,
}

#[derive(Args, Clone, Debug)]
struct ReferenceOptions {
    #[command(flatten)]
    copy: CopyOptions,
    /// The store, which is made if it is not there.
    #[arg(value_name = "STORE")]
    to: PathBuf,
}

#[derive(Args, Clone, Debug)]
struct RemapOptions {
    /// How the path of the store begins, and with what instead. Each content that the capture needs has to be there.
    #[arg(value_name = "OLD=NEW", value_parser = remapping)]
    paths: (PathBuf, PathBuf),
    #[command(flatten)]
    copy: CopyOptions,
}

fn remapping(text: &str) -> Result<(PathBuf, PathBuf), String> {
    match text.split_once('=') {
        Some((old, new)) if !old.is_empty() && !new.is_empty() => Ok((old.into(), new.into())),
        _ => Err(format!("expected two paths like /scratch=/archive, found {text:?}")),
    }
}

/// Runs the command.
///
/// # Errors
/// When a capture or a store cannot be read, or the output cannot be written.
pub(crate) fn run(options: &Options) -> Result<Exit> {
    match &options.command {
        StoreCommand::Embed(options) => {
            let copy = &options.copy;
            copy.write(&copy.store.open(&copy.file)?, &Contents::Embedded, &mut |_| Ok(String::new()))
        }
        StoreCommand::Reference(options) => {
            let (copy, reader) = (&options.copy, options.copy.store.open(&options.copy.file)?);
            let store = Arc::new(Store::create(&options.to, PRIVATE).map_err(CapturedError::from)?);
            let path = StorePath::of(&store, &copy.output);
            let contents = Contents::Shared(Arc::clone(&store), path);
            copy.write(&reader, &contents, &mut |_| {
                Ok(format!(", {} bytes new in the store {}", store.written_bytes(), file(&options.to)))
            })
        }
        StoreCommand::Remap(options) => remap(options),
        StoreCommand::Gc(options) => collect::run(options),
    }
}

fn remap(options: &RemapOptions) -> Result<Exit> {
    let (copy, (old, new)) = (&options.copy, &options.paths);
    let reader = copy.store.open(&copy.file)?;
    let Some(path) = reader.records().stores.last() else {
        return Err(refused(&copy.file, "a capture that names a store", "one that has its contents itself".to_owned()));
    };
    let Some(path) = path.remapped(old, new, &copy.output) else {
        let expected = format!("a store whose path begins with {}", old.display());
        return Err(refused(&copy.file, &expected, path.absolute.clone()));
    };
    copy.write(&reader, &Contents::Renamed(path), &mut |output| {
        // Read as from nowhere, it has the new path alone.
        let written = Reader::new(output.file().try_clone()?).map_err(CapturedError::from)?;
        match written.check().findings.as_slice() {
            [] => Ok(String::new()),
            [first, ..] => Err(CapturedError::Capture(logdur_capture::CaptureError::Damaged {
                offset: first.offset,
                expected: format!("each content of the capture in {}", new.display()),
                found: first.to_string(),
            })
            .into()),
        }
    })
}

fn refused(path: &Path, expected: &str, found: String) -> anyhow::Error {
    CapturedError::Usage { what: file(path), expected: expected.to_owned(), found }.into()
}

impl CopyOptions {
    /// Writes the copy, lets it be looked at before it gets its name, and says what it is.
    fn write(
        &self,
        reader: &Reader,
        contents: &Contents,
        look: &mut dyn FnMut(&Output) -> Result<String>,
    ) -> Result<Exit> {
        let output = Output::begin(&self.output, Readers::Owner, &[&self.file]).map_err(CapturedError::from)?;
        let bar = progress::bar("{bytes} of {total_bytes}", reader.bytes())?;
        let storage = FileStorage::of(output.file().try_clone()?);
        let named =
            |error| anyhow::Error::from(CapturedError::from(error)).context(kind::named(&self.file, Kind::Capture));
        let written = reader.rewrite(storage, contents, &Writing::default(), &mut |done| bar.set_position(done));
        let storage = written.map_err(named)?;
        bar.finish_and_clear();
        let said = look(&output)?;
        let bytes = storage.file().metadata()?.len();
        output.finish()?;
        lines([format!("{}: {} dispatches, {bytes} bytes{said}", file(&self.output), reader.dispatches().len())])?;
        Ok(crate::captured::damage(reader).unwrap_or(Exit::Success))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_was_moved_has_two_sides() {
        assert_eq!(remapping("/a=/b"), Ok(("/a".into(), "/b".into())));
        for wrong in ["", "/a", "=/b", "/a="] {
            assert!(remapping(wrong).is_err(), "{wrong}");
        }
    }
}
