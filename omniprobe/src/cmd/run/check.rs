//! Checks options before the application starts: later, the library could only report errors in its log.

use std::ffi::{CString, OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use anyhow::{Context, Result, bail};
use logdur_capture::{FileStorage, PRIVATE};
use logdur_journal::appended;
use logdur_journal::lines::Lines;
use logdur_settings::{Emulator, Format, Interceptor, LogLocation, OF_SINGLE_DISPATCHES, Trigger};
use logdur_system::path::Target;
use logdur_system::text::one_line;
use regex::Regex;

use super::options::{self, RunOptions};
use crate::cmd::log;
use crate::environment::Environment;
use crate::input;
use crate::{foreign, headings, help};

/// Checks the values of options, and that a capture can be written. `force` allows a capture in the place of a file.
///
/// # Errors
/// What is wrong, with the variable or the file.
pub(crate) fn check(environment: &Environment, force: bool) -> Result<()> {
    let (settings, problems) = Interceptor::from(|name| environment.get(name).map(OsStr::to_owned));
    if let Some(problem) = problems.first() {
        bail!("{}: {}", option_of(problem.name), problem.reason.trim_end_matches("; it is ignored"));
    }
    for (name, text) in expressions(&settings) {
        if let Some(problem) = text.as_ref().and_then(|text| no_expression(text)) {
            bail!("{}: {problem}", option_of(name));
        }
    }
    let of_when = settings.when.0.iter().map(|trigger| (Interceptor::when, trigger));
    let region = settings.capture_region.iter().flat_map(|region| region.triggers());
    for (name, trigger) in of_when.chain(region.map(|trigger| (Interceptor::capture_region, trigger))) {
        if let Trigger::Kernel(text, _) = trigger
            && let Some(problem) = no_expression(text)
        {
            bail!("{}: {trigger}: {problem}", option_of(name));
        }
    }
    let of_single =
        || OF_SINGLE_DISPATCHES.into_iter().find(|name| environment.get(name).is_some_and(|value| !value.is_empty()));
    if let (Some(_), Some(name)) = (&settings.capture_region, of_single()) {
        let region = option_of(Interceptor::capture_region);
        bail!("{}: expected a capture of single dispatches, found {region}, which takes all of them", option_of(name));
    }
    if environment.get(Interceptor::log_location).is_some()
        && let LogLocation::File(path) = &settings.log_location
    {
        if path.is_dir() {
            bail!("{} {}: expected a file, found a folder", option_of(Interceptor::log_location), path.display());
        }
        has_folder(&option_of(Interceptor::log_location), path)?;
        let named = || format!("{} {}", option_of(Interceptor::log_location), path.display());
        appended::may_be_log(path, Lines::of(log::format(settings.log_format))).with_context(named)?;
    }
    can_have_records(&settings)?;
    settings.capture.as_deref().map_or(Ok(()), |path| can_capture(path, force))
}

/// Checks that a log in records has a place of its own.
fn can_have_records(settings: &Interceptor) -> Result<()> {
    let is_open_already = match &settings.log_location {
        LogLocation::Console => true,
        LogLocation::File(path) => matches!(Target::of(path), Ok(Target::Descriptor(_))),
        LogLocation::Nowhere => false,
    };
    if settings.log_format == Format::Records && is_open_already {
        bail!(
            "{} records: expected a file or a named pipe of its own, as -l FILE names it, found what is open already",
            option_of(Interceptor::log_format)
        );
    }
    Ok(())
}

/// The option that sets a variable, as it was typed or as its help says; the variable if there is none.
pub(super) fn option_of(variable: &str) -> String {
    let typed: Vec<OsString> = std::env::args_os().skip(1).take_while(|word| word != "--").collect();
    option_among(&typed, variable)
}

/// The same, of these words.
fn option_among(typed: &[OsString], variable: &str) -> String {
    let command = help::command();
    let of_variable = |arg: &&clap::Arg| options::option_for(variable) == Some(arg.get_id().as_str());
    let Some(arg) = command.get_arguments().find(of_variable) else { return variable.to_owned() };
    let names = arg.get_long().into_iter().chain(arg.get_all_aliases().unwrap_or_default());
    let long = names.map(|name| format!("--{name}"));
    let mut forms: Vec<String> = long.chain(arg.get_short().map(|short| format!("-{short}"))).collect();
    let is_typed = |form: &String| {
        typed.iter().filter_map(|word| word.to_str()).any(|word| {
            let value = word.strip_prefix(form.as_str());
            value.is_some_and(|value| value.is_empty() || value.starts_with('=') || !form.starts_with("--"))
        })
    };
    let at = forms.iter().position(is_typed).unwrap_or(0);
    forms.swap_remove(at)
}

/// A hint for each word behind the application's name that is an option of ours: the application gets it.
pub(crate) fn behind_the_application(app: &[OsString]) -> Vec<String> {
    let command = help::command();
    let options = command.get_arguments().filter(|arg| arg.get_help_heading() != Some(headings::GENERAL));
    let known: Vec<&str> = options.filter_map(clap::Arg::get_long).filter(|long| *long != "help").collect();
    let words = app.iter().skip(1).filter_map(|word| word.to_str()?.strip_prefix("--"));
    let ours = words.filter(|word| known.contains(&word.split('=').next().unwrap_or_default()));
    let hint =
        |word| format!("--{word} stands behind the application's name, so it is the application's: ours go before it");
    ours.map(hint).collect()
}

/// Checks that the folder of a file is there, unless each process has its own, and that this user may write there.
///
/// # Errors
/// When it is not: which folder, of which option.
pub(crate) fn has_folder(option: &str, file: &Path) -> Result<()> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if input::has_marks(folder) {
        return Ok(());
    }
    if !folder.is_dir() {
        bail!("{option} {}: expected a folder {}, found none", file.display(), folder.display());
    }
    let written = if file.exists() { file } else { folder };
    writable(written).with_context(|| format!("{option} {}: writing to {}", file.display(), written.display()))
}

/// Whether this user may write to a file, or make files in a folder. Nothing is opened: a pipe would wait for its reader.
fn writable(path: &Path) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the path ends with a zero.
    match unsafe { libc::access(path.as_ptr(), libc::W_OK) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Names of variables that begin with this are of the tests of this project.
const TESTS: &str = "LOGDUR_TEST_";

/// What an application's user may not expect of the environment: a line for each. Options take the place of variables.
pub(crate) fn unexpected(environment: &Environment) -> Vec<String> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let mut lines: Vec<String> = names.filter_map(|name| misspelt(&name)).collect();
    lines.extend(misunderstood(|name| std::env::var_os(name).filter(|_| environment.get(name).is_none())));
    lines.extend(other_tool(&std::env::var(TOOLS).unwrap_or_default()));
    lines
}

fn misspelt(name: &str) -> Option<String> {
    let known = || Interceptor::VARIABLES.iter().chain(Emulator::VARIABLES).map(|variable| variable.name);
    let is_ours = name.starts_with("LOGDUR_") && !name.starts_with(TESTS) || name.starts_with("KFDEMU_");
    if !is_ours || known().any(|known| known == name) {
        return None;
    }
    let instead = match foreign::near(name, known()) {
        Some(near) => format!("there is {near}"),
        None => "no variable has this name".to_owned(),
    };
    Some(format!("{name} is set, and has no effect: {instead}"))
}

/// Values of variables that the libraries will not take.
fn misunderstood(get: impl Fn(&str) -> Option<OsString>) -> Vec<String> {
    let (settings, mut problems) = Interceptor::from(&get);
    problems.extend(Emulator::from(&get).1);
    let mut lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    for (name, text) in expressions(&settings) {
        if let Some(problem) = text.as_ref().and_then(|text| no_expression(text)) {
            lines.push(format!("{name}: {problem}; it is ignored"));
        }
    }
    lines
}

/// Variables that are regular expressions.
fn expressions(settings: &Interceptor) -> [(&'static str, &Option<String>); 6] {
    [
        (Interceptor::log_filter, &settings.log_filter),
        (Interceptor::log_exclude, &settings.log_exclude),
        (Interceptor::filter, &settings.filter),
        (Interceptor::filter_exclude, &settings.filter_exclude),
        (Interceptor::capture_kernels, &settings.capture_kernels),
        (Interceptor::capture_exclude, &settings.capture_exclude),
    ]
}

/// Why a text is no regular expression.
fn no_expression(text: &str) -> Option<String> {
    let error = Regex::new(text).err()?;
    Some(format!("expected a regular expression, found {text:?}: {}", one_line(&error.to_string())))
}

/// The variable that names the runtime's tools.
const TOOLS: &str = "HSA_TOOLS_LIB";

fn other_tool(tools: &str) -> Option<String> {
    let is_other = !tools.trim().is_empty() && !tools.contains("liblogdur.so");
    is_other.then(|| format!("{TOOLS} names {tools}, which is not loaded: liblogdur.so takes its place"))
}

/// Options that have no effect without another one, neither given nor in the environment: a line for each.
pub(crate) fn without_effect(options: &RunOptions, environment: &Environment) -> Vec<String> {
    let has = |variable: &str| environment.value(variable).is_some_and(|value| !value.is_empty());
    let (swaps, instruments) = (has(Interceptor::kernel_cache), options.is_instrumented());
    let analyses = !options.analyzers.is_empty();
    let cases = [
        (
            Interceptor::filter,
            swaps || instruments || analyses,
            "-c DIR or -i; --log-filter chooses the kernels that are logged",
        ),
        (
            Interceptor::filter_exclude,
            swaps || instruments || analyses,
            "-c DIR or -i; --log-exclude chooses the kernels that are not logged",
        ),
        (Interceptor::kernel_cache_mode, swaps, "-c DIR"),
        (Interceptor::kernel_cache_pick, swaps, "-c DIR"),
        (Interceptor::kernel_cache_original, swaps, "-c DIR"),
        (Interceptor::kernel_cache_trust, swaps, "-c DIR"),
        (Interceptor::dispatches, instruments || analyses, "-i, or -a NAME with --emulate"),
        (Interceptor::handler_output, instruments || analyses, "-i, or -a NAME with --emulate"),
        (Interceptor::handler_format, instruments || analyses, "-i, or -a NAME with --emulate"),
        (Interceptor::library_filter, instruments, "-i"),
        (Interceptor::instrument_buffers, instruments, "-i"),
    ];
    let given = cases.iter().filter(|(variable, has_effect, _)| !has_effect && environment.get(variable).is_some());
    given.map(|(variable, _, needs)| format!("{} has no effect without {needs}", option_of(variable))).collect()
}

/// Checks that a capture can be made where it is asked for, and takes away the file that it replaces.
fn can_capture(path: &Path, force: bool) -> Result<()> {
    let shown = || format!("--capture {}", path.display());
    let trial = if path.is_dir() {
        path.join(trial_name())
    } else if input::has_marks(path) {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if input::has_marks(folder) {
            return Ok(());
        }
        folder.join(trial_name())
    } else {
        match path.symlink_metadata() {
            Ok(_) if !force => bail!("{}: the file exists; --force replaces it", shown()),
            Ok(data) if !data.is_file() => {
                bail!("{}: expected a file that can be replaced, found something else", shown())
            }
            Ok(_) => fs::remove_file(path).with_context(shown)?,
            Err(_) => {}
        }
        path.to_owned()
    };
    if !path.is_dir() {
        has_folder("--capture", path)?;
    }
    drop(FileStorage::create_new(&trial, PRIVATE).with_context(shown)?);
    fs::remove_file(&trial).with_context(shown)
}

/// A name that no other process uses.
fn trial_name() -> OsString {
    format!(".omniprobe-{}.trial", std::process::id()).into()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_capture_that_is_there_is_replaced_only_on_request_and_the_place_is_tried() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("a.ldcap");
        let said = |path: &Path, force| can_capture(path, force).err().map(|error| format!("{error:#}"));
        assert_eq!(said(&file, false), None);
        assert!(!file.exists(), "the trial is gone");
        fs::write(&file, b"mine").expect("it can be written");
        let exists = format!("--capture {}: the file exists; --force replaces it", file.display());
        assert_eq!(said(&file, false), Some(exists));
        assert_eq!(fs::read(&file).expect("it is there"), b"mine");
        assert_eq!((said(&file, true), file.exists()), (None, false));
        assert_eq!(said(folder.path(), false), None);
        assert_eq!(said(&folder.path().join("%p.ldcap"), false), None);
        assert_eq!(said(&folder.path().join("%p/a.ldcap"), false), None);
        for missing in ["missing/a.ldcap", "missing/%p.ldcap"] {
            let error = said(&folder.path().join(missing), true).expect("no such folder");
            assert!(error.contains("expected a folder ") && error.ends_with("/missing, found none"), "{error}");
        }
        assert_eq!(fs::read_dir(folder.path()).expect("it is there").count(), 0);
    }

    #[test]
    fn values_that_are_not_understood_stop_before_anything_starts() {
        for (name, value, expected) in [
            (Interceptor::log_filter, "(", "--log-filter: expected a regular expression"),
            (Interceptor::log_exclude, "(", "--log-exclude: expected a regular expression"),
            (Interceptor::log_devices, "2-1", "--log-devices: expected numbers of GPUs"),
            (Interceptor::capture_exclude, "(", "--capture-exclude: expected a regular expression"),
            (Interceptor::filter_exclude, "(", "--kernels-exclude: expected a regular expression"),
            (Interceptor::filter, "a[", "--kernels: expected a regular expression"),
            (Interceptor::capture_kernels, "*", "--capture-kernels: expected a regular expression"),
            (Interceptor::kernel_cache_mode, "never", "--cache-mode: expected swap"),
        ] {
            let mut environment = Environment::default();
            environment.set(name, value);
            let error = check(&environment, false).expect_err(name).to_string();
            assert!(error.starts_with(expected) && !error.contains("ignored"), "{error}");
        }
    }

    #[test]
    fn a_message_names_the_option_that_was_typed() {
        assert_eq!(option_of(Interceptor::dispatches), "--dispatches");
        assert_eq!(option_of(Interceptor::kernel_cache), "--cache-location");
        assert_eq!(option_of(Interceptor::records), Interceptor::records);
        let among = |line: &str| {
            let typed: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            option_among(&typed, Interceptor::log_location)
        };
        assert_eq!(among("-l x -k y"), "-l");
        assert_eq!(among("-lx"), "-l");
        assert_eq!(among("--output-file=x"), "--output-file");
        assert_eq!(among("--log-location x"), "--log-location");
        assert_eq!(among("--log-filter x"), "--log-location");
    }

    #[test]
    fn variables_that_nobody_will_take_are_named() {
        let said = |name: &'static str, value: &str| misunderstood(|asked| (asked == name).then(|| value.into()));
        for (name, value) in [
            (Interceptor::copies, "yes"),
            (Interceptor::log_format, "xml"),
            (Interceptor::log_filter, "("),
            (Emulator::gpus, ","),
        ] {
            let said = said(name, value);
            assert!(matches!(said.as_slice(), [one] if one.starts_with(name) && one.contains("expected")), "{said:?}");
        }
        let said = misspelt("LOGDUR_LOG_FROMAT").unwrap_or_default();
        assert_eq!(said, "LOGDUR_LOG_FROMAT is set, and has no effect: there is LOGDUR_LOG_FORMAT");
        let said = misspelt("LOGDUR_WHAT_IS_THIS").unwrap_or_default();
        assert_eq!(said, "LOGDUR_WHAT_IS_THIS is set, and has no effect: no variable has this name");
        assert_eq!((misspelt(Interceptor::copies), misspelt("PATH")), (None, None));
    }

    #[test]
    fn options_behind_the_applications_name_get_a_hint() {
        let hints = |line: &str| behind_the_application(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert_eq!(hints("./app --stats -l --emulate=gfx90a --verbose --own").len(), 2);
        assert!(hints("--stats")[..].is_empty());
    }

    #[test]
    fn a_log_whose_folder_is_not_there_stops_before_anything_starts() {
        let folder = tempfile::tempdir().expect("a folder");
        let said = |name: &str| {
            let mut environment = Environment::default();
            environment.set(Interceptor::log_location, folder.path().join(name));
            check(&environment, false).err().map(|error| error.to_string())
        };
        assert_eq!((said("a.csv"), said("%p.csv"), said("%r/a.csv")), (None, None, None));
        assert!(said("").is_some_and(|said| said.ends_with("expected a file, found a folder")));
        let expected = format!("expected a folder {}, found none", folder.path().join("no").display());
        assert!(said("no/%p.csv").is_some_and(|said| said.ends_with(&expected)));
        let locked = folder.path().join("locked");
        fs::create_dir(&locked).expect("a folder");
        fs::set_permissions(&locked, fs::Permissions::from_mode(0o555)).expect("it is ours");
        // Root may write everywhere.
        if fs::write(locked.join("trial"), "").is_err() {
            assert!(said("locked/a.csv").is_some_and(|said| said.contains("/locked/a.csv: writing to ")));
        }
        let mut environment = Environment::default();
        for location in ["/dev/null", "console", "", "a.csv"] {
            environment.set(Interceptor::log_location, location);
            assert!(check(&environment, false).is_ok(), "{location}");
        }
    }

    #[test]
    fn a_tool_of_the_environment_that_is_not_loaded_is_named() {
        let said = other_tool("/opt/other.so").unwrap_or_default();
        assert_eq!(said, "HSA_TOOLS_LIB names /opt/other.so, which is not loaded: liblogdur.so takes its place");
        assert_eq!((other_tool(""), other_tool("/a/liblogdur.so b.so")), (None, None));
    }

    #[test]
    fn an_option_that_does_nothing_without_another_one_says_which() {
        let line = |mut options: RunOptions| {
            options.kernels = Some("x".to_owned());
            let mut environment = Environment::default();
            environment.set(Interceptor::filter, "x");
            options.cache_location.iter().for_each(|folder| environment.set(Interceptor::kernel_cache, folder));
            without_effect(&options, &environment)
        };
        let needs = "--kernels has no effect without -c DIR or -i; --log-filter chooses the kernels that are logged";
        assert_eq!(line(RunOptions::default()), [needs]);
        assert!(line(RunOptions { instrumented: true, ..RunOptions::default() }).is_empty());
        assert!(line(RunOptions { cache_location: vec!["/a".into()], ..RunOptions::default() }).is_empty());
    }
}
