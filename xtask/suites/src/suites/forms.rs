//! How the tests of a suite are listed, and how a test's output is judged: one function of each kind for every form that
//! tests come in.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use xtask::corpora::below;
use xtask::shell;

use super::emulated;
use super::place::InstalledSuite;
use super::{hashcat, openmp, rocblas};

/// One test of a suite: a process that is started for it.
#[derive(Clone, Debug)]
pub(crate) struct Test {
    /// Unique in its suite.
    pub(crate) name: String,
    /// What it is a test of. A sample takes one of each before it takes two of any.
    pub(crate) group: String,
    /// The program and its arguments.
    pub(crate) words: Vec<String>,
    /// The folder that it is started in.
    pub(crate) folder: PathBuf,
    /// A folder with kernels that take the places of all of its own.
    pub(crate) cache: Option<PathBuf>,
}

/// What the output of a test's process says. One process can run many small tests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Judged {
    pub(crate) passed: u64,
    pub(crate) skipped: u64,
    /// One reason for each that failed.
    pub(crate) failed: Vec<String>,
}

impl Judged {
    pub(super) fn one_failed(reason: impl Into<String>) -> Judged {
        Judged { failed: vec![reason.into()], ..Judged::default() }
    }
}

/// A form that tests come in.
pub(crate) struct Form {
    pub(crate) list: fn(&InstalledSuite, &Programs) -> Result<Vec<Test>>,
    /// Reads what a process printed. How it ended is looked at by the caller.
    pub(crate) judge: fn(&str) -> Judged,
}

/// Which programs of a place have the tests.
pub(crate) enum Programs {
    /// Every program of a folder.
    Of(&'static str),
    /// One program with each of these arguments, of which the text before the first space is the group. Of a program made
    /// with GoogleTest they are the cases that are wanted, none for all; of `rocblas-test` the folder
    /// with its file of cases, of hashcat that with its kernels.
    With(&'static str, &'static [&'static str]),
    /// Each script or source of a folder of this repository.
    Ours(&'static str),
}

impl Programs {
    /// Every program's path.
    pub(super) fn all(&self, place: &InstalledSuite) -> Result<Vec<PathBuf>> {
        match self {
            Programs::Of(folder) => {
                let mut files = below(&place.folder.join(folder))?;
                files.retain(|file| is_program(file));
                Ok(files)
            }
            Programs::With(program, _) => Ok(vec![place.folder.join(program)]),
            Programs::Ours(folder) => below(&shell::root().join(folder)),
        }
    }
}

/// True for a program that the loader of the place can start: packages have scripts beside their tests, too.
fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    let begins_as_elf = || {
        let mut magic = [0; 4];
        File::open(file).and_then(|mut file| file.read_exact(&mut magic)).is_ok() && magic == *b"\x7fELF"
    };
    let is_executable = file.metadata().is_ok_and(|data| data.permissions().mode() & 0o111 != 0);
    let is_library = file.file_name().is_some_and(|name| name.to_string_lossy().contains(".so"));
    is_executable && !is_library && begins_as_elf()
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Programs made with GoogleTest: each case is a test.
pub(crate) const GOOGLE: Form = Form { list: list_google, judge: judge_google };

fn list_google(place: &InstalledSuite, of_suite: &Programs) -> Result<Vec<Test>> {
    let mut tests = Vec::new();
    let programs = of_suite.all(place)?;
    for program in &programs {
        let folder = program.parent().context("a program is in a folder")?.to_owned();
        let mut words = place.words(program);
        let mut listing = words.clone();
        listing.push("--gtest_list_tests".to_owned());
        let text = emulated::listing(&listing, &folder)?;
        let of = file_name(program);
        let mut cases = google_cases(&text);
        if let Programs::With(_, chosen) = of_suite
            && !chosen.is_empty()
        {
            if let Some(missing) = chosen.iter().find(|case| !cases.iter().any(|c| c == *case)) {
                bail!("{of} has no case {missing}");
            }
            cases.retain(|case| chosen.contains(&case.as_str()));
        }
        for case in cases {
            let filter = format!("--gtest_filter={case}");
            words.push(filter);
            let name = format!("{of} {case}");
            // Where one program has all tests, a suite of it is what a program is elsewhere.
            let suite = case.split('.').next().unwrap_or_default();
            let group = if programs.len() == 1 { suite.to_owned() } else { of.clone() };
            tests.push(Test { name, group, words: words.clone(), folder: folder.clone(), cache: None });
            words.pop();
        }
    }
    Ok(tests)
}

/// Programs made with GoogleTest that read their cases from a file: those of small sizes that have no wrong arguments.
pub(crate) const GOOGLE_WITH_DATA: Form = Form { list: list_google_with_data, judge: judge_google };

fn list_google_with_data(place: &InstalledSuite, programs: &Programs) -> Result<Vec<Test>> {
    let Programs::With(program, [data]) = programs else { bail!("expected a program and its file of cases") };
    let mut words = place.words(Path::new(program));
    words.extend(["--data".to_owned(), place.folder.join(data).display().to_string()]);
    let mut listing = words.clone();
    listing.push("--gtest_list_tests".to_owned());
    let cases = google_cases(&emulated::listing(&listing, &place.folder)?);
    let wanted = cases.into_iter().filter(|case| case.contains("/quick_") && !case.contains("bad_arg"));
    let test = |case: String| {
        let group = case.split('.').next().unwrap_or_default().to_owned();
        let mut words = words.clone();
        words.push(format!("--gtest_filter={case}"));
        Test { name: case, group, words, folder: place.folder.clone(), cache: None }
    };
    Ok(wanted.map(test).collect())
}

/// The cases that `--gtest_list_tests` names: a line of a suite, which ends with a dot, then indented lines. Comments
/// begin with `#`. Disabled ones are left out.
fn google_cases(text: &str) -> Vec<String> {
    let mut suite = None;
    let mut cases = Vec::new();
    for line in text.lines() {
        let word = line.split("  # ").next().unwrap_or_default().trim_end();
        if let Some(case) = word.strip_prefix("  ") {
            let Some(suite) = suite else { continue };
            let name = format!("{suite}{case}");
            if !name.contains("DISABLED_") {
                cases.push(name);
            }
        } else {
            suite = (word.ends_with('.') && !word.contains(' ')).then_some(word);
        }
    }
    cases
}

fn judge_google(text: &str) -> Judged {
    let count = |mark: &str| -> u64 {
        let lines = text.lines().filter_map(|line| line.trim_start().strip_prefix(mark));
        lines.filter_map(|rest| rest.split_whitespace().next()?.parse().ok()).next_back().unwrap_or(0)
    };
    let skipped = count("[  SKIPPED ]");
    let failed = count("[  FAILED  ]");
    // GoogleTest counts skipped ones apart.
    let passed = count("[  PASSED  ]");
    let reason = || {
        let mut lines = text.lines().skip_while(|line| !line.contains(": Failure")).skip(1);
        let words: Vec<&str> = lines.by_ref().take(3).map(str::trim).collect();
        if words.is_empty() { "no failure is printed".to_owned() } else { words.join(" ") }
    };
    Judged { passed, skipped, failed: (0..failed).map(|_| reason()).collect() }
}

/// `rocblas-test`, made with GoogleTest: a process for some cases of each function.
pub(crate) const ROCBLAS_TEST: Form = Form { list: rocblas::list, judge: judge_google };

/// hashcat: a process for each kind of hash.
pub(crate) const HASHCAT: Form = Form { list: hashcat::list, judge: hashcat::judge };

/// `rocblas-bench` and its like: a table of results with norms of errors.
pub(crate) const NORMS: Form = Form { list: list_lines, judge: judge_norms };

fn list_lines(place: &InstalledSuite, programs: &Programs) -> Result<Vec<Test>> {
    let Programs::With(program, lines) = programs else { bail!("expected a program with arguments") };
    let test = |line: &&str| {
        let mut words = place.words(Path::new(program));
        words.extend(line.split_whitespace().map(str::to_owned));
        let group = line.split(' ').take(2).collect::<Vec<_>>().join(" ");
        Test { name: (*line).to_owned(), group, words, folder: place.folder.clone(), cache: None }
    };
    Ok(lines.iter().map(test).collect())
}

/// An error relative to the norm of the result that no type's rounding explains: f16 has 11 bits.
const NORM: f64 = 1e-2;

fn judge_norms(text: &str) -> Judged {
    // The names of the columns and their values are two lines with as many commas.
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').map(str::trim).collect()).collect();
    for pair in lines.windows(2) {
        let errors: Vec<(&str, &str)> = pair[0]
            .iter()
            .zip(&pair[1])
            .filter(|(name, _)| name.starts_with("norm_error"))
            .map(|(name, value)| (*name, *value))
            .collect();
        if errors.is_empty() || pair[0].len() != pair[1].len() {
            continue;
        }
        let is_wrong = |value: &str| !value.parse::<f64>().is_ok_and(|v| v.is_finite() && v <= NORM);
        return match errors.iter().find(|(_, value)| is_wrong(value)) {
            Some((name, value)) => Judged::one_failed(format!("{name} is {value}, expected at most {NORM}")),
            None => Judged { passed: 1, ..Judged::default() },
        };
    }
    Judged::one_failed("no norm of an error is printed")
}

/// Thrust's own framework: each program is a test, which counts its cases.
pub(crate) const THRUST: Form = Form { list: list_thrust, judge: judge_thrust };

fn list_thrust(place: &InstalledSuite, programs: &Programs) -> Result<Vec<Test>> {
    let mut tests = list_programs(place, programs)?;
    // The default sizes take minutes.
    tests.iter_mut().for_each(|test| test.words.push("--sizes=small".to_owned()));
    Ok(tests)
}

fn judge_thrust(text: &str) -> Judged {
    let Some(totals) = text.lines().rev().find_map(|line| line.strip_prefix("Totals: ")) else {
        return Judged::default();
    };
    let count = |what: &str| -> u64 {
        let mut parts = totals.trim_end_matches('.').split(", ").map(|part| part.trim_start_matches("and "));
        parts.find_map(|part| part.strip_suffix(what)?.trim().parse().ok()).unwrap_or(0)
    };
    let wrong = count(" failures") + count(" errors");
    let reason = || text.lines().find(|line| line.starts_with("[")).unwrap_or("no failure is printed").to_owned();
    Judged {
        passed: count(" passes"),
        skipped: count(" known failures"),
        failed: (0..wrong).map(|_| reason()).collect(),
    }
}

/// ggml's `test-backend-ops`: a process for each operator, which runs and compares all its cases.
pub(crate) const GGML: Form = Form { list: list_ggml, judge: judge_ggml };

/// The name that ggml gives the first GPU of ROCm.
const GGML_DEVICE: &str = "ROCm0";

fn list_ggml(place: &InstalledSuite, programs: &Programs) -> Result<Vec<Test>> {
    let Programs::With(program, _) = programs else { bail!("expected a program") };
    // ggml loads its backends from the folder that it is started in.
    let backends = place.folder.join("lib/ggml");
    let backend = below(&backends)?.into_iter().find(|f| file_name(f).contains("ggml-hip")).context("no backend")?;
    let folder = backend.parent().context("a library is in a folder")?.to_owned();
    let mut words = place.words(Path::new(program));
    words.push("--list-ops".to_owned());
    let text = emulated::listing(&words, &folder)?;
    words.pop();
    let is_operator = |line: &&str| {
        !line.is_empty() && line.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
    };
    let operators = text.lines().map(str::trim).filter(is_operator);
    let test = |operator: &str| {
        let mut words = words.clone();
        words.extend(["test", "-b", GGML_DEVICE, "-o", operator].map(str::to_owned));
        Test { name: operator.to_owned(), group: operator.to_owned(), words, folder: folder.clone(), cache: None }
    };
    Ok(operators.map(test).collect())
}

fn judge_ggml(text: &str) -> Judged {
    let mut judged = Judged::default();
    for line in text.lines() {
        let line = plain(line);
        // An operator that only reinterprets memory has nothing to run.
        judged.skipped += u64::from(line.trim() == "0/0 tests passed");
        let Some((case, result)) = line.rsplit_once(": ") else { continue };
        let case = case.trim();
        if !case.contains('(') {
            continue;
        }
        if result.starts_with("not supported") {
            judged.skipped += 1;
        } else if result.ends_with("OK") {
            judged.passed += 1;
        } else if result.ends_with("FAIL") {
            judged.failed.push(format!("{case}: {result}"));
        }
    }
    judged
}

/// A line without the sequences that colour it.
fn plain(line: &str) -> String {
    let mut parts = line.split('\x1b');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once('m').map_or(part, |(_, rest)| rest))
}

/// CLBlast's tests: each program compares with a BLAS on the processor and counts.
pub(crate) const CLBLAST: Form = Form { list: list_programs, judge: judge_clblast };

/// clFFT's client: it transforms ones, or back to ones, and compares exactly.
pub(crate) const CLFFT_CLIENT: Form = Form { list: list_lines, judge: judge_clfft };

fn judge_clfft(text: &str) -> Judged {
    if text.contains("*****PASS*****") {
        return Judged { passed: 1, ..Judged::default() };
    }
    let is_reason = |line: &&str| line.contains("fatal error: ") || line.contains("*****FAIL*****");
    Judged::one_failed(text.lines().find(is_reason).unwrap_or("it says neither PASS nor FAIL").trim())
}

fn list_programs(place: &InstalledSuite, programs: &Programs) -> Result<Vec<Test>> {
    let test = |program: PathBuf| {
        let name = file_name(&program);
        Test { group: name.clone(), name, words: place.words(&program), folder: place.folder.clone(), cache: None }
    };
    Ok(programs.all(place)?.into_iter().map(test).collect())
}

fn judge_clblast(text: &str) -> Judged {
    let mut judged = Judged::default();
    // A kernel that could not be compiled has no results.
    let reason = text.lines().find(|line| line.contains("fatal error: ")).unwrap_or("wrong results").to_owned();
    for line in text.lines() {
        let line = plain(line);
        let Some((count, what)) = line.trim().split_once(" test(s) ") else { continue };
        let count: u64 = count.trim_start_matches("*").trim().parse().unwrap_or(0);
        match what.trim().trim_end_matches('.') {
            "passed" => judged.passed += count,
            "skipped" => judged.skipped += count,
            "failed" => judged.failed.extend((0..count).map(|_| reason.clone())),
            _ => {}
        }
    }
    judged
}

/// OpenMP programs of this repository in C, compiled with LLVM's compiler: each checks its own results.
pub(crate) const OPENMP: Form = Form { list: openmp::list, judge: judge_failures };

/// A program that says only what is wrong.
fn judge_failures(text: &str) -> Judged {
    let failed: Vec<String> = text.lines().filter(|line| line.starts_with("FAIL")).map(str::to_owned).collect();
    Judged { passed: u64::from(failed.is_empty()), skipped: 0, failed }
}

/// Scripts of this repository for Python: each prints a line that begins with `passed`, `skipped` or `failed` for each
/// thing that it compares.
pub(crate) const SCRIPTS: Form = Form { list: list_scripts, judge: judge_scripts };

fn list_scripts(place: &InstalledSuite, programs: &Programs) -> Result<Vec<Test>> {
    let mut tests = Vec::new();
    for script in programs.all(place)? {
        if script.extension().is_none_or(|e| e != "py") {
            continue;
        }
        let mut words = place.words(&place.python());
        words.extend(["-B".to_owned(), script.display().to_string()]);
        // Without an argument it prints the names of what it can do.
        let names = emulated::listing(&words, &place.folder)?;
        for name in names.lines() {
            let mut words = words.clone();
            words.push(name.to_owned());
            let group = name.split(' ').next().unwrap_or_default().to_owned();
            tests.push(Test { name: name.to_owned(), group, words, folder: place.folder.clone(), cache: None });
        }
    }
    Ok(tests)
}

fn judge_scripts(text: &str) -> Judged {
    let mut judged = Judged::default();
    for line in text.lines() {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "passed" => judged.passed += 1,
            "skipped" => judged.skipped += 1,
            "failed" => judged.failed.push(rest.to_owned()),
            _ => {}
        }
    }
    judged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_client_of_clfft_says_is_judged() {
        assert_eq!(judge_clfft("\t\tInternal Client Test *****PASS*****\n").passed, 1);
        let failed = |text| judge_clfft(text).failed;
        assert_eq!(failed("\t\tInternal Client Test *****FAIL*****"), ["Internal Client Test *****FAIL*****"]);
        assert_eq!(failed("fatal error: no header\nTerminating"), ["fatal error: no header"]);
        assert_eq!(failed(""), ["it says neither PASS nor FAIL"]);
    }

    #[test]
    fn cases_are_read_from_what_googletest_lists() {
        let text = "Running main() from gtest_main.cc\nPlain.\n  one\n  DISABLED_two\nTyped/0.  # TypeParam = int\n  \
                    three/0  # GetParam() = 4\n";
        assert_eq!(google_cases(text), ["Plain.one", "Typed/0.three/0"]);
    }

    #[test]
    fn a_case_of_googletest_that_fails_has_its_reason() {
        let text = "[ RUN      ] A.b\n/x/y.cpp:3: Failure\nExpected equality of these values:\n  a\n    Which is: 1\n\
                    [  FAILED  ] A.b (0 ms)\n[  PASSED  ] 0 tests.\n[  FAILED  ] 1 test, listed below:\n";
        let reason = "Expected equality of these values: a Which is: 1".to_owned();
        assert_eq!(judge_google(text), Judged { passed: 0, skipped: 0, failed: vec![reason] });
        let skipped = "[  PASSED  ] 0 tests.\n[  SKIPPED ] 1 test, listed below:\n";
        assert_eq!(judge_google(skipped), Judged { passed: 0, skipped: 1, failed: vec![] });
    }

    #[test]
    fn cases_of_thrust_are_counted_by_what_became_of_them() {
        let text = |totals: &str| format!("Running 12 unit tests.\n..F.\nTotals: {totals}\nTime:  0 minutes\n");
        let passed = judge_thrust(&text("0 failures, 1 known failures, 0 errors, and 12 passes."));
        assert_eq!(passed, Judged { passed: 12, skipped: 1, failed: vec![] });
        assert_eq!(judge_thrust(&text("2 failures, 0 known failures, 1 errors, and 9 passes.")).failed.len(), 3);
        assert_eq!(judge_thrust("Running 12 unit tests.\n"), Judged::default());
    }

    #[test]
    fn a_norm_that_is_no_number_or_too_large_is_a_failure() {
        let text = |norm: &str| format!("transA,M,us,CPU-us,norm_error_1\nN,64,100,20,{norm}\n");
        assert_eq!(judge_norms(&text("1e-7")).passed, 1);
        assert_eq!(judge_norms(&text("nan")).failed.len(), 1);
        assert_eq!(judge_norms(&text("0.5")).failed.len(), 1);
        assert_eq!(judge_norms("rocblas error").failed.len(), 1);
    }

    #[test]
    fn cases_of_ggml_are_counted_one_by_one() {
        let text = "  ADD(type=f32,ne=[1,1]): \x1b[1;32mOK\x1b[0m\n  ADD(type=bf16): not supported [ROCm0] \n  \
                    ADD(type=f16): [ADD] NaN at index 0 \x1b[1;31mFAIL\x1b[0m\n  1/2 tests passed\n";
        let judged = judge_ggml(text);
        assert_eq!((judged.passed, judged.skipped), (1, 1));
        assert_eq!(judged.failed, ["ADD(type=f16): [ADD] NaN at index 0 FAIL"]);
        let none = judge_ggml("  0/0 tests passed\n  Backend ROCm0: \x1b[1;32mOK\x1b[0m\n2/2 backends passed\nOK\n");
        assert_eq!(none, Judged { skipped: 1, ..Judged::default() });
    }
}
