//! Code that is compiled for a configuration: a command with parameters in it, run by the shell.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use logdur_capture::PRIVATE;
use logdur_kernel_cache::Hash;
use logdur_system::group::run_in_group;
use logdur_system::lock;
use logdur_system::text::sh_word;

use super::expression::is_name;
use super::parameter::OUT;

/// How many of the last lines that a compiler said are kept, and of how many bytes at most.
const LINES: usize = 12;
const BYTES: usize = 4096;

/// A command for `sh -c` with parameters in it.
///
/// `{NAME}` is the parameter's value as one word of the shell, quoted where it has to be; `{NAME*}` are its words, each
/// quoted. Neither may stand between quotes. `{out}` is the file that is to be written, and has to be there. Other braces,
/// and `${NAME}`, are the shell's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template(Vec<TemplatePart>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum TemplatePart {
    Text(String),
    /// One word.
    Value(String),
    /// Its words.
    Words(String),
}

impl FromStr for Template {
    type Err = String;

    fn from_str(text: &str) -> Result<Template, String> {
        let mut pieces = Vec::new();
        let (mut literal, mut rest) = (String::new(), text);
        while let Some((before, after)) = rest.split_once('{') {
            literal += before;
            let named = after.split_once('}').map(|(inner, behind)| (inner, inner.trim_end_matches('*'), behind));
            match named.filter(|(inner, name, _)| is_name(name) && inner.len() - name.len() <= 1) {
                Some((inner, name, behind)) if !literal.ends_with('$') => {
                    pieces.push(TemplatePart::Text(std::mem::take(&mut literal)));
                    let name = name.to_owned();
                    pieces.push(if inner.ends_with('*') {
                        TemplatePart::Words(name)
                    } else {
                        TemplatePart::Value(name)
                    });
                    rest = behind;
                }
                _ => {
                    literal.push('{');
                    rest = after;
                }
            }
        }
        pieces.push(TemplatePart::Text(literal + rest));
        let mut quotes = Quotes::default();
        for piece in &pieces {
            match piece {
                TemplatePart::Text(text) => quotes.pass(text),
                TemplatePart::Value(name) | TemplatePart::Words(name) if quotes.are_open() => {
                    return Err(format!(
                        "expected {{{name}}} outside of quotes, since its value is quoted where it has to be, found it inside: {text:?}"
                    ));
                }
                TemplatePart::Value(_) | TemplatePart::Words(_) => {}
            }
        }
        let template = Template(pieces);
        if template.names().any(|name| name == OUT) {
            Ok(template)
        } else {
            Err(format!("expected a command with {{{OUT}}}, found {text:?}"))
        }
    }
}

impl Template {
    /// The names in it, `out` among them.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|piece| match piece {
            TemplatePart::Text(_) => None,
            TemplatePart::Value(name) | TemplatePart::Words(name) => Some(name.as_str()),
        })
    }

    /// The job, with the values of names.
    ///
    /// # Errors
    /// When a name has no value.
    pub fn job(&self, of: &dyn Fn(&str) -> Option<String>) -> Result<Job, String> {
        let value = |name: &str| of(name).ok_or_else(|| format!("expected a value of {{{name}}}, found none"));
        let (mut parts, mut part) = (Vec::new(), String::new());
        for piece in &self.0 {
            match piece {
                TemplatePart::Text(text) => part += text,
                TemplatePart::Value(name) | TemplatePart::Words(name) if name == OUT => {
                    parts.push(std::mem::take(&mut part))
                }
                TemplatePart::Value(name) => part += &sh_word(&value(name)?),
                TemplatePart::Words(name) => {
                    let words: Vec<String> = value(name)?.split_whitespace().map(sh_word).collect();
                    part += &words.join(" ");
                }
            }
        }
        parts.push(part);
        Ok(Job(parts))
    }
}

/// Which quotes of a shell's command are open at a place (POSIX shell, 2.2).
#[derive(Default)]
struct Quotes {
    /// What is open, from the outside to the inside: a quote, or the parenthesis of a substitution.
    open: Vec<char>,
    /// The last character was a backslash that quotes the next.
    escaped: bool,
    /// The last character was a dollar sign that a substitution may begin with.
    dollar: bool,
}

impl Quotes {
    /// Goes over a part of the command.
    fn pass(&mut self, text: &str) {
        for letter in text.chars() {
            let (escaped, dollar) = (std::mem::take(&mut self.escaped), std::mem::take(&mut self.dollar));
            if escaped {
                continue;
            }
            match (self.open.last(), letter) {
                (Some('\''), '\'') | (Some('"'), '"') | (Some('`'), '`') | (Some('('), ')') => _ = self.open.pop(),
                (Some('\''), _) => {}
                (_, '\\') => self.escaped = true,
                (_, '$') => self.dollar = true,
                (_, '(') if dollar || self.open.last() == Some(&'(') => self.open.push('('),
                (_, '"' | '`') => self.open.push(letter),
                (Some('"'), _) => {}
                (_, '\'') => self.open.push(letter),
                _ => {}
            }
        }
    }

    /// True when what comes next is inside of quotes, or behind a backslash. Inside of a substitution quotes begin anew.
    fn are_open(&self) -> bool {
        self.escaped || self.open.last().is_some_and(|open| *open != '(' && *open != '`')
    }
}

/// A command that lacks only its output: what is before, between and behind the places where that is named.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Job(Vec<String>);

impl Job {
    /// The command that writes a file.
    pub fn command(&self, out: &Path) -> String {
        self.0.join(&sh_word(&out.to_string_lossy()))
    }
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(&format!("{{{OUT}}}")))
    }
}

/// Of each job, the code object, or why there is none.
pub(super) type Compiled = BTreeMap<Job, Result<PathBuf, String>>;

/// How code is compiled.
#[derive(Clone, Debug)]
pub struct Compiling {
    /// The folder for what is compiled: `HASH.hsaco`, by the hash of its command, and `HASH.log`, what the compiler said.
    pub folder: PathBuf,
    /// How many at once.
    pub jobs: usize,
    /// How long one may take.
    pub limit: Duration,
    /// True when what is there already is taken.
    pub keep: bool,
}

impl Compiling {
    /// Compiles: of each job, the code object, or why there is none. `done` is called after each, from any thread.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub(super) fn all(&self, jobs: &BTreeSet<Job>, done: &(dyn Fn() + Sync)) -> io::Result<Compiled> {
        fs::create_dir_all(&self.folder)?;
        let waiting = Mutex::new(jobs.iter());
        let compiled = Mutex::new(BTreeMap::new());
        let work = || {
            loop {
                let next = lock(&waiting).next();
                let Some(job) = next else { break };
                let result = self.one(job);
                lock(&compiled).insert(job.clone(), result);
                done();
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..self.jobs.clamp(1, jobs.len().max(1)) {
                scope.spawn(work);
            }
        });
        Ok(compiled.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    fn one(&self, job: &Job) -> Result<PathBuf, String> {
        let name = Hash::of(job.to_string().as_bytes()).short();
        let path = self.folder.join(format!("{name}.hsaco"));
        if self.keep && path.is_file() {
            return Ok(path);
        }
        // Only what is whole has the name that counts.
        let part = self.folder.join(format!("{name}.part.hsaco"));
        let log = self.folder.join(format!("{name}.log"));
        let said = |what: &str, error: io::Error| format!("{what}: {error}");
        for old in [&part, &path] {
            match fs::remove_file(old) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(said(&old.display().to_string(), error));
                }
                _ => {}
            }
        }
        let status = self.run(&job.command(&part), &log).map_err(|error| said("running the compiler", error))?;
        match status {
            None => Err(format!("the compiler did not end within {} s{}", self.limit.as_secs_f64(), last_lines(&log))),
            Some(status) if !status.success() => Err(format!("{status}{}", last_lines(&log))),
            Some(_) if !part.is_file() => {
                Err(format!("expected the file {{{OUT}}} from the compiler, found none{}", last_lines(&log)))
            }
            Some(_) => {
                fs::rename(&part, &path).map_err(|error| said(&path.display().to_string(), error))?;
                Ok(path)
            }
        }
    }

    /// Runs a command in a process group of its own; `None` when it took too long, and nothing of the group is left.
    fn run(&self, command: &str, log: &Path) -> io::Result<Option<ExitStatus>> {
        // Compilers print the command line.
        let file = new_file(log)?;
        run_in_group(Command::new("sh").args(["-c", command]), file, self.limit)
    }
}

/// A new file that its owner alone may read, in the place of what is there: a link is not followed.
fn new_file(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => OpenOptions::new().append(true).create_new(true).mode(PRIVATE).open(path),
    }
}

/// What a compiler said last, after a colon; nothing when it said nothing.
fn last_lines(log: &Path) -> String {
    let bytes = fs::read(log).unwrap_or_default();
    let tail = bytes.get(bytes.len().saturating_sub(BYTES)..).unwrap_or_default();
    let text = String::from_utf8_lossy(tail);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = lines.get(lines.len().saturating_sub(LINES)..).unwrap_or_default();
    if last.is_empty() { String::new() } else { format!(": {}", last.join("\n")) }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn job(template: &str, values: &[(&str, &str)]) -> Result<Job, String> {
        let of = |name: &str| values.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned());
        template.parse::<Template>()?.job(&of)
    }

    fn compiling(folder: &Path) -> Compiling {
        Compiling { folder: folder.join("code"), jobs: 2, limit: Duration::from_secs(60), keep: false }
    }

    fn one(compiling: &Compiling, job: &Job) -> Result<PathBuf, String> {
        compiling.all(&BTreeSet::from([job.clone()]), &|| ()).unwrap().remove(job).unwrap()
    }

    #[test]
    fn values_become_words_of_the_shell_as_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let hostile = "a b=c; echo \"$HOME\" 'x' `id` \\ *";
        let printed = job(
            "printf '%s\\n' {value} -D{value} {words*} ${HOME:+home} > {out}",
            &[("value", hostile), ("words", "-O3  -g")],
        );
        let path = one(&compiling(folder.path()), &printed.unwrap()).unwrap();
        let text = fs::read_to_string(path).unwrap();
        let expected = [hostile, &format!("-D{hostile}"), "-O3", "-g", "home"].map(str::to_owned);
        assert_eq!(text.lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_parameter_between_quotes_is_refused_and_one_in_a_substitution_is_not() {
        for inside in [
            "cc -DN='{n}' -o {out}",
            "cc \"-DN={n}\" -o {out}",
            "cc -DN=\"it's {n*}\" -o {out}",
            "cc -DN={n} -o '{out}'",
            "cc -DN=\\{n} -o {out}",
            "cc $(echo '{n}') -o {out}",
        ] {
            let error = inside.parse::<Template>().expect_err(inside);
            assert!(error.contains("outside of quotes") && error.ends_with(&format!("{inside:?}")), "{error}");
        }
        for outside in [
            "cc -DS='a b' -DN={n} \"it's\" -o {out}",
            "cc -DN=it\\'s{n} -o {out}",
            "cc \"$(echo {n})\" -o {out}",
            "cc '$(' {n} -o {out}",
            "f() (cc -DN=$((2 * {n})) -o {out}); f",
        ] {
            outside.parse::<Template>().expect(outside);
        }
    }

    #[test]
    fn a_template_names_its_parameters_and_needs_an_output() {
        let names = |text: &str| text.parse::<Template>().unwrap().names().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(names("cc -DT={tile} {flags*} ${CC} {1} { a; } -o {out}"), ["tile", "flags", "out"]);
        assert_eq!("cc {tile}".parse::<Template>().unwrap_err(), "expected a command with {out}, found \"cc {tile}\"");
        assert_eq!(job("cc {tile} {out}", &[]).unwrap_err(), "expected a value of {tile}, found none");
        assert_eq!(job("cc {t} -o {out}", &[("t", "")]).unwrap().command(Path::new("a b")), "cc '' -o 'a b'");
    }

    #[test]
    fn what_a_compiler_fails_with_is_told_and_leaves_no_code() {
        let folder = tempfile::tempdir().unwrap();
        let compiling = compiling(folder.path());
        let failed = |text: &str| one(&compiling, &job(text, &[]).unwrap()).unwrap_err();
        assert_eq!(
            failed("echo half > {out}; echo first; echo 'x.c:1: error' >&2; exit 3"),
            "exit status: 3: first\nx.c:1: error"
        );
        assert_eq!(failed(": {out}"), "expected the file {out} from the compiler, found none");
        assert!(failed("for i in $(seq 99); do echo $i; done; exit 1 {out}").ends_with("98\n99"));
        let code = fs::read_dir(&compiling.folder).unwrap().filter(|entry| {
            let name = entry.as_ref().unwrap().file_name().into_string().unwrap();
            name.ends_with(".hsaco") && !name.ends_with(".part.hsaco")
        });
        assert_eq!(code.count(), 0);
    }

    #[test]
    fn a_compiler_that_does_not_end_is_killed_with_its_children() {
        let folder = tempfile::tempdir().unwrap();
        let compiling = Compiling { limit: Duration::from_millis(300), ..compiling(folder.path()) };
        let children = folder.path().join("children");
        let text = format!("sleep 1000 & echo $! > {}; wait; : {{out}}", children.display());
        let error = one(&compiling, &job(&text, &[]).unwrap()).unwrap_err();
        assert_eq!(error, "the compiler did not end within 0.3 s");
        let child = fs::read_to_string(children).unwrap();
        // It goes when it is scheduled next, and may then be a zombie until its parent waits for it.
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let stat = fs::read_to_string(format!("/proc/{}/stat", child.trim())).unwrap_or_default();
            if stat.is_empty() || stat.contains(") Z ") || stat.contains(") X ") {
                break;
            }
            assert!(Instant::now() < deadline, "{stat}");
            std::thread::yield_now();
        }
    }

    #[test]
    fn equal_commands_are_run_once_and_what_is_there_is_taken_only_when_that_is_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let mut compiling = compiling(folder.path());
        let count = folder.path().join("count");
        let text = format!("echo {{x}} >> {}; echo {{x}} > {{out}}", count.display());
        let jobs: BTreeSet<Job> = ["1", "2", "1"].iter().map(|x| job(&text, &[("x", x)]).unwrap()).collect();
        let runs = || fs::read_to_string(&count).unwrap().lines().count();
        assert_eq!(compiling.all(&jobs, &|| ()).unwrap().len(), 2);
        assert_eq!(runs(), 2);
        compiling.keep = true;
        assert!(compiling.all(&jobs, &|| ()).unwrap().values().all(Result::is_ok));
        assert_eq!(runs(), 2);
        compiling.keep = false;
        compiling.all(&jobs, &|| ()).unwrap();
        assert_eq!(runs(), 4);
    }
}
