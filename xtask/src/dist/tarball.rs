//! `logdur-VERSION-x86_64.tar.zst`: an installation that can be unpacked anywhere, and `install.sh`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::build::Built;
use super::old_system::Root;
use super::{VERSION, tree};
use crate::{demo, setup, shell};

/// The same bytes from the same files, on every machine and at any time.
const REPRODUCIBLE: &[&str] =
    &["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mode=u=rwX,go=rX", "--format=gnu"];

/// A folder with a blank: no path is written without quotes.
const PREFIX: &str = "/opt/log dur";

fn name() -> String {
    format!("logdur-{VERSION}-x86_64")
}

/// Packs the archive.
///
/// # Errors
/// When a file cannot be made.
pub(crate) fn make(built: &Built) -> Result<Vec<PathBuf>> {
    let folder = super::folder().join("unpacked").join(name());
    fs::remove_dir_all(&folder).ok();
    fs::create_dir_all(folder.parent().context("the folder has a parent")?)?;
    fs::rename(tree::make(built)?, &folder)?;
    let packaging = shell::root().join("packaging");
    tree::put(&packaging.join("install.sh"), &folder.join("install.sh"), 0o755)?;
    tree::put(&packaging.join("uninstall"), &folder.join("share/logdur/uninstall"), 0o755)?;
    let archive = super::folder().join(format!("{}.tar.zst", name()));
    let mut tar = Command::new("tar");
    tar.args(REPRODUCIBLE).arg(format!("--mtime=@{}", super::epoch()?)).args(["--use-compress-program", "zstd -12"]);
    shell::output(tar.arg("-cf").arg(&archive).arg("-C").arg(super::folder().join("unpacked")).arg(name()))?;
    println!("{}: {} bytes", archive.display(), archive.metadata()?.len());
    Ok(vec![archive])
}

/// Installs the archive in an old system and removes it; uses what it has for builds and for shells on this machine.
///
/// # Errors
/// What does not work.
pub(crate) fn try_out(_: &Built, archives: &[PathBuf]) -> Result<()> {
    let [archive] = archives else { bail!("expected one archive, found {}", archives.len()) };
    if Root::is_possible() {
        in_an_old_system(archive)?;
    }
    let folder = super::folder().join("relocated");
    fs::remove_dir_all(&folder).ok();
    fs::create_dir_all(&folder)?;
    shell::output(Command::new("tar").arg("-xf").arg(archive).arg("-C").arg(&folder))?;
    let root = folder.join(name());
    runs(&root)?;
    builds(&root)?;
    modules(&root)
}

fn in_an_old_system(archive: &Path) -> Result<()> {
    let root = Root::fresh("archive")?;
    root.put(archive, "/root")?;
    let before = root.sh("find / -xdev | sort")?;
    root.sh(&format!("cd /root && tar --use-compress-program=unzstd -xf {}.tar.zst", name()))?;
    root.sh(&format!("/root/{}/install.sh --prefix '{PREFIX}' && rm -r /root/{}", name(), name()))?;
    let again = root.sh(&format!("'{PREFIX}/bin/omniprobe' --version"))?;
    if again.trim() != format!("omniprobe {VERSION}") {
        bail!("expected omniprobe {VERSION}, found {again}");
    }
    // An installation may be moved. The command line finds its libraries all the same.
    let line = "mv '/opt/log dur' /srv/logdur && /srv/logdur/bin/omniprobe --emulate gfx90a -e -- true";
    let variables = root.sh(line)?;
    for library in ["/srv/logdur/lib/liblogdur.so", "/srv/logdur/lib/libkfdemu.so"] {
        if !variables.contains(library) {
            bail!("expected {library} in the variables of the application, found\n{variables}");
        }
    }
    // Only an empty folder can be removed so.
    root.sh("/srv/logdur/share/logdur/uninstall && rmdir /srv/logdur")?;
    let after = root.sh("rmdir /opt 2>/dev/null; mkdir /opt; find / -xdev | sort")?;
    if before != after {
        bail!("expected that uninstall leaves nothing, found before\n{before}\nafter\n{after}");
    }
    Ok(())
}

/// A HIP program runs with the unpacked archive, on the machine's own ROCm.
fn runs(root: &Path) -> Result<()> {
    let rocm = setup::rocm()?;
    let program = demo::compile(&rocm, &shell::root().join("docs/example/pipeline.hip"))?;
    let mut command = Command::new(root.join("bin/omniprobe"));
    command.args(["--emulate", "gfx90a"]);
    if let Some(root) = &rocm.root {
        command.arg("--rocm").arg(root);
    }
    let rows = shell::output(command.arg("--").arg(program))?;
    let of_kernels = rows.lines().filter(|line| line.starts_with('"')).count();
    if of_kernels != 36 {
        bail!("expected 36 rows of pipeline.hip, found {of_kernels} in\n{rows}");
    }
    Ok(())
}

/// CMake and pkg-config find the headers and the library, and a program is compiled with them.
fn builds(root: &Path) -> Result<()> {
    setup::builders()?;
    let folder = super::folder().join("cmake");
    fs::remove_dir_all(&folder).ok();
    let source = shell::root().join("tests/packaging");
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(&source).arg("-B").arg(&folder).arg(format!("-DCMAKE_PREFIX_PATH={}", root.display()));
    configure.arg(format!("-DEXPECTED_VERSION={VERSION}"));
    shell::output(&mut configure)?;
    shell::output(Command::new("cmake").arg("--build").arg(&folder))?;
    let pkg_config = |words: &[&str]| {
        let mut command = Command::new("pkg-config");
        shell::output(command.env("PKG_CONFIG_PATH", root.join("lib/pkgconfig")).args(words).arg("logdur"))
    };
    let library = PathBuf::from(pkg_config(&["--variable=library"])?.trim());
    if !library.is_file() || pkg_config(&["--modversion"])?.trim() != VERSION {
        bail!("pkg-config: expected the library and version {VERSION}, found {}", library.display());
    }
    let mut compiler = Command::new("cc");
    let flags = pkg_config(&["--cflags"])?;
    compiler.args(flags.split_whitespace()).args(["-fsyntax-only", "-Wall", "-Werror"]);
    shell::output(compiler.arg(source.join("uses_headers.c"))).map(drop)
}

/// The environment module is loaded, and changes what it should.
fn modules(root: &Path) -> Result<()> {
    setup::modules()?;
    let line = "eval \"$(modulecmd bash load logdur)\" && omniprobe --version && test -f \"$LOGDUR_ROOT/lib/liblogdur.so\" && \
                man --where omniprobe";
    let mut command = Command::new("bash");
    let found = shell::output(command.args(["-e", "-c", line]).env("MODULEPATH", root.join("share/modulefiles")))?;
    if !found.contains(&format!("omniprobe {VERSION}")) || !found.contains(&root.display().to_string()) {
        bail!("expected omniprobe {VERSION} and its page in {}, found\n{found}", root.display());
    }
    Ok(())
}
