//! Running other programs, and where things are.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// Between the attempts of a command that fetches from the network.
const PAUSES: [Duration; 2] = [Duration::from_secs(5), Duration::from_secs(30)];

/// The root of the checkout.
pub fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_path_buf()
}

/// Where downloads and unpacked packages are kept between runs.
pub fn cache() -> PathBuf {
    root().join("target").join("xtask")
}

/// Waits until no other process works on something, and says so. The work is done when the file is dropped.
///
/// # Errors
/// When the lock cannot be made.
pub fn alone(lock: &Path, what: &str) -> Result<File> {
    let failed = || format!("locking {}", lock.display());
    if let Some(folder) = lock.parent() {
        fs::create_dir_all(folder).with_context(failed)?;
    }
    let file = File::create(lock).with_context(failed)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            eprintln!("{what}: another process makes it; waiting for {}", lock.display());
            file.lock().with_context(failed)?;
        }
        Err(TryLockError::Error(error)) => return Err(error).with_context(failed),
    }
    Ok(file)
}

/// Where `cargo xtask` puts what it builds: optimised, since the emulated GPU is slow otherwise.
pub fn built(name: &str) -> PathBuf {
    root().join("target").join("release").join(name)
}

/// The cargo that runs us.
pub fn cargo() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".into())
}

/// A command as one would type it.
pub fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

/// Runs a command, its output going where ours goes.
///
/// # Errors
/// When it cannot be started or does not succeed.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("could not start {command:?}"))?;
    if status.success() { Ok(()) } else { bail!("{command:?} failed: {status}") }
}

/// Runs a command and returns what it printed on stdout; its stderr is shown only when it fails.
///
/// # Errors
/// When it cannot be started or does not succeed.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("could not start {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?} failed: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// As [`output`], for a command that fetches from the network: it is tried again, since servers and proxies fail now and then.
///
/// # Errors
/// When it cannot be started, or has not succeeded once.
pub fn fetched(command: &mut Command) -> Result<String> {
    for pause in PAUSES {
        match output(command) {
            Ok(text) => return Ok(text),
            Err(error) => eprintln!("trying again in {} s: {error:#}", pause.as_secs()),
        }
        std::thread::sleep(pause);
    }
    output(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_second_waits_for_the_first() {
        let folder = std::env::temp_dir().join(format!("logdur-lock-{}", std::process::id()));
        let lock = folder.join("deeper/lock");
        let first = alone(&lock, "first").unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let second = std::thread::spawn({
            let lock = lock.clone();
            move || {
                let _second = alone(&lock, "second").unwrap();
                tell.send("second").unwrap();
            }
        });
        assert!(told.recv_timeout(std::time::Duration::from_millis(100)).is_err());
        drop(first);
        assert_eq!(told.recv(), Ok("second"));
        second.join().unwrap();
        fs::remove_dir_all(folder).unwrap();
    }
}
