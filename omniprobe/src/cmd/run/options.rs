//! Options of a run. An option that sets a variable of the library says so in its row, and nowhere else: its help, its manual page, its
//! value in the application and the messages about it follow from the row.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use clap::builder::PossibleValuesParser;
use logdur_settings::{
    CaptureScope, CaptureTell, Compress, Format, HandlerFormat, Interceptor, Names, Quiesce, Trigger, Value, Variable,
    Workgroups,
};

use crate::cmd::trace;
use crate::environment::{Environment, PlaceOptions};
use crate::find;
use crate::headings;

use super::when;

/// An option that sets a variable: its field, and the variable.
type Sets = (&'static str, &'static str);

/// Makes the struct of options for clap. `=> VARIABLE` is the variable that an option sets: to its value, or `by` a function of all
/// options.
macro_rules! options {
    ($(#[$meta:meta])* $vis:vis struct $name:ident {
        $($(#[$attr:meta])* $field:ident: $type:ty $(=> $table:ident::$variable:ident $(by $by:ident)?)?,)*
    }) => {
        $(#[$meta])*
        $vis struct $name {
            $($(#[$attr])* pub(crate) $field: $type,)*
        }

        impl $name {
            /// The options that set variables.
            const SETS: &[Sets] = &[$($((stringify!($field), $table::$variable),)?)*];

            /// The variables that these options can set, with the values of those that are given.
            fn variables(&self) -> Result<Vec<(&'static str, Option<OsString>)>> {
                Ok(vec![$($(($table::$variable, options!(@value self $field $($by)?)),)?)*])
            }
        }
    };
    (@value $self:ident $field:ident) => { $self.$field.text() };
    (@value $self:ident $field:ident $by:ident) => { $by($self)? };
}

options! {
    /// logduration's options, and ours.
    #[derive(Args, Clone, Debug, Default)]
    pub(crate) struct RunOptions {
        /// Where rows go: console (standard output), a file (%p is the process id, %r the rank, %h the host), /dev/null.
        #[arg(short, long, value_name = "WHERE", alias = "output-file", help_heading = headings::LOG)]
        log_location: Option<OsString> => Interceptor::log_location,
        /// How rows are written. rocpd is rocprofiler-sdk's database, which omniprobe makes at the end, for each name that -l gives.
        #[arg(short = 't', long, value_name = "FORMAT", value_parser = formats(), help_heading = headings::LOG)]
        log_format: Option<String> => Interceptor::log_format by log_format,
        /// Which names of kernels rows have: demangled, as compilers mangle them, or both, the mangled ones in the column `symbol`.
        #[arg(long, value_name = "WHICH", value_parser = Names::WORDS, help_heading = headings::LOG)]
        names: Option<String> => Interceptor::names,
        /// Tell launches of kernels with a matching name apart by where in the application they are: `omniprobe summary --by site` adds them
        /// up.
        #[arg(long, value_name = "kernel=REGEX", help_heading = headings::LOG)]
        stacks: Option<OsString> => Interceptor::stacks,
        /// The same as -t csv-safe: an apostrophe goes before text that a spreadsheet would take for a formula.
        #[arg(long, conflicts_with = "log_format", help_heading = headings::LOG)]
        csv_safe: bool,
        /// At the end, print totals per kernel on standard error. Without -l, the rows are not kept.
        #[arg(long, alias = "summary", help_heading = headings::LOG)]
        stats: bool,
        /// At the end, write a timeline: NAME.pftrace for ui.perfetto.dev, NAME.json for Chrome. Without -l, the rows are not kept.
        #[arg(long, value_name = "FILE", value_parser = trace::output, help_heading = headings::LOG)]
        trace: Option<PathBuf>,
        /// Log only kernels with a matching name: mangled, demangled, or without arguments.
        #[arg(long, value_name = "REGEX", alias = "kernel-include-regex", help_heading = headings::LOG)]
        log_filter: Option<String> => Interceptor::log_filter,
        /// Log no kernel with a matching name, of those that --log-filter wants.
        #[arg(long, value_name = "REGEX", alias = "kernel-exclude-regex", help_heading = headings::LOG)]
        log_exclude: Option<String> => Interceptor::log_exclude,
        /// Log only dispatches to these GPUs: their numbers in the column `agent` of the log, which HIP_VISIBLE_DEVICES does not change.
        #[arg(long, value_name = "0,2-3", help_heading = headings::LOG)]
        log_devices: Option<String> => Interceptor::log_devices,
        /// Log, capture and instrument only while all of these are so: dispatches:N-M, kernel:REGEX@N-M, count:N, seconds:A-B, range:NAME or range:NAME@N-M of ROCTx, profiler
        /// (roctxProfilerResume), file:PATH, signal (SIGUSR2 to omniprobe begins and ends it).
        #[arg(long, value_name = "TRIGGER[,TRIGGER...]", help_heading = headings::LOG)]
        when: Option<String> => Interceptor::when,
        /// Start with everything off, and let `omniprobe attach` and `omniprobe top` turn rows on, and these features: capture, instrument, swap.
        #[arg(long, value_name = "FEATURE[,FEATURE...]", num_args = 0..=1, require_equals = true, default_missing_value = "", help_heading = headings::LOG)]
        attachable: Option<String> => Interceptor::start by start,
        /// Log and capture in these ranks of a parallel job only, like 0,8-15.
        #[arg(long, value_name = "RANKS", help_heading = headings::LOG)]
        ranks: Option<String> => Interceptor::ranks,
        /// Log copies, too.
        #[arg(long, alias = "memory-copy-trace", help_heading = headings::LOG)]
        copies: bool => Interceptor::copies,
        /// Log ranges and marks of ROCTx (roctxRangePush, roctxMark), too: the application calls the library's functions.
        #[arg(long, alias = "marker-trace", help_heading = headings::LOG)]
        markers: bool,
        /// rocprofv3's option: kernels are always logged.
        #[arg(long, hide = true)]
        kernel_trace: bool,
        /// Run kernels of the code objects in this folder in place of kernels with the same name and arguments. Repeat it for more
        /// folders.
        #[arg(short, long, value_name = "DIR", help_heading = headings::SWAP)]
        cache_location: Vec<PathBuf> => Interceptor::kernel_cache by caches,
        /// Swap or instrument only kernels with a matching name: mangled, demangled, or without arguments.
        #[arg(short, long, value_name = "REGEX", help_heading = headings::SWAP)]
        kernels: Option<String> => Interceptor::filter,
        /// Swap or instrument no kernel with a matching name, of those that -k wants.
        #[arg(long, value_name = "REGEX", help_heading = headings::SWAP)]
        kernels_exclude: Option<String> => Interceptor::filter_exclude,
        /// When to swap: always; in alternation with the original, N dispatches each; for the first N dispatches. The last two compare
        /// both kernels.
        #[arg(long, value_name = "swap|alternate[:N]|off-after:N", help_heading = headings::SWAP)]
        cache_mode: Option<String> => Interceptor::kernel_cache_mode,
        /// Which of several kernels that fit: the newest file's, or that of a code object's hash.
        #[arg(long, value_name = "newest|HASH[,HASH]", help_heading = headings::SWAP)]
        cache_pick: Option<String> => Interceptor::kernel_cache_pick,
        /// Which of different kernels of one name in the application is swapped: each, or that of a code object's hash.
        #[arg(long, value_name = "all|HASH[,HASH]", help_heading = headings::SWAP)]
        cache_original: Option<String> => Interceptor::kernel_cache_original,
        /// Use folders and files, too, that belong to other users or that others may write.
        #[arg(long, help_heading = headings::SWAP)]
        cache_trust: bool => Interceptor::kernel_cache_trust,
        #[command(flatten)]
        capture: CaptureOptions,
        #[command(flatten)]
        place: PlaceOptions,
        /// Print the variables that would be set, and run nothing.
        #[arg(short, long, overrides_with = "no_env_dump", help_heading = headings::GENERAL)]
        env_dump: bool,
        /// Run the application (the default).
        #[arg(long, help_heading = headings::GENERAL)]
        no_env_dump: bool,
        /// Print the variables that are set, on stderr.
        #[arg(short, long, help_heading = headings::GENERAL)]
        verbose: bool,
        /// Run instrumented clones of kernels, which send messages to analyzers. The application's code and the folders of -c have
        /// them; nothing is swapped then.
        #[arg(short, long, overrides_with = "no_instrumented", help_heading = headings::INSTRUMENTED)]
        instrumented: bool => Interceptor::instrumented by instrumented,
        /// Do not run instrumented clones (the default).
        #[arg(long, help_heading = headings::INSTRUMENTED)]
        no_instrumented: bool,
        /// Which dispatches are instrumented: all, a random one of each kernel, the first N of each kernel, a random share, or the N-th
        /// to M-th.
        #[arg(short, long, value_name = "all|random|N|N%|N-M", help_heading = headings::INSTRUMENTED)]
        dispatches: Option<String> => Interceptor::dispatches,
        /// Analyzers get only messages of workgroups with these numbers: N, or N to M without M.
        #[arg(long, value_name = "N|N:M", help_heading = headings::INSTRUMENTED)]
        filter_x: Option<String> => Interceptor::workgroups by workgroups,
        /// The same in Y.
        #[arg(long, value_name = "N|N:M", help_heading = headings::INSTRUMENTED)]
        filter_y: Option<String>,
        /// The same in Z.
        #[arg(long, value_name = "N|N:M", help_heading = headings::INSTRUMENTED)]
        filter_z: Option<String>,
        /// The compiler has it.
        #[arg(long, value_name = "SCOPE", hide = true)]
        instrumentation_scope: Option<OsString>,
        /// The compiler has it.
        #[arg(long, value_name = "FILE", hide = true)]
        instrumentation_scope_file: Option<OsString>,
        /// Analyzers of the messages, by name, or libraries of handlers, by path. Repeat it for more, or separate them by commas.
        /// Without -i, with --emulate: exact analyses by the same names, or by the words of `omniprobe analyze`, of a dispatch of each
        /// kernel and geometry, or of those of -d.
        #[arg(short, long, value_name = "NAME|LIBRARY", num_args = 1.., value_delimiter = ',', help_heading = headings::INSTRUMENTED)]
        analyzers: Vec<OsString> => Interceptor::handlers by handlers,
        /// An option of the analyzers.
        #[arg(long, value_name = "KEY=VALUE", requires = "analyzers", help_heading = headings::INSTRUMENTED)]
        analyzer_option: Vec<String> => Interceptor::handler_options by handler_options,
        /// Where analyzers write: console, a file (%p is the process id), /dev/null.
        #[arg(long, value_name = "WHERE", help_heading = headings::INSTRUMENTED)]
        analyzer_output: Option<OsString> => Interceptor::handler_output,
        /// How analyzers write.
        #[arg(long, value_name = "FORMAT", value_parser = HandlerFormat::WORDS, help_heading = headings::INSTRUMENTED)]
        analyzer_format: Option<String> => Interceptor::handler_format,
        /// A JSON file with libraries that are searched for clones, and with those that are not.
        #[arg(long, value_name = "FILE", help_heading = headings::INSTRUMENTED)]
        library_filter: Option<PathBuf> => Interceptor::library_filter by library_filter,
        /// Most memory for messages.
        #[arg(long, value_name = "BYTES", help_heading = headings::INSTRUMENTED)]
        instrument_buffers: Option<OsString> => Interceptor::instrument_buffers,
    }
}

options! {
    /// What is captured. The library reads the values; what it cannot is a notice in the log.
    #[derive(Args, Clone, Debug, Default)]
    #[command(next_help_heading = headings::CAPTURE)]
    pub(crate) struct CaptureOptions {
        /// Capture dispatches, with memory before and after them, into a file (%p is the process id, %r the rank, %h the host) or a new
        /// file of a folder.
        #[arg(long, value_name = "FILE|DIR")]
        capture: Option<OsString> => Interceptor::capture,
        /// Replace an existing capture. Processes of one job still number their files.
        #[arg(long, requires = "capture")]
        force: bool,
        /// Capture only kernels with a matching name: mangled, demangled, or without arguments.
        #[arg(long, value_name = "REGEX", requires = "capture")]
        capture_kernels: Option<OsString> => Interceptor::capture_kernels,
        /// Capture no kernel with a matching name, of those that --capture-kernels wants.
        #[arg(long, value_name = "REGEX", requires = "capture")]
        capture_exclude: Option<OsString> => Interceptor::capture_exclude,
        /// Which dispatches of each kernel and geometry.
        #[arg(long, value_name = "1,3-7|every:N|random:P%", requires = "capture")]
        capture_dispatches: Option<OsString> => Interceptor::capture_dispatches,
        /// Capture only dispatches of this grid, in work-items.
        #[arg(long, value_name = "X[xY[xZ]]", requires = "capture")]
        capture_grid: Option<OsString> => Interceptor::capture_grid,
        /// Capture only dispatches to this GPU: its number in the column `agent` of the log, which HIP_VISIBLE_DEVICES does not change.
        #[arg(long, value_name = "N", requires = "capture")]
        capture_device: Option<OsString> => Interceptor::capture_device,
        /// Capture a stretch of the application as a whole: from the first dispatch that A selects to the first later one that B selects, as
        /// --when does, both included. Its dispatches run one at a time.
        #[arg(long, value_name = "A..B|A", requires = "capture")]
        capture_region: Option<OsString> => Interceptor::capture_region,
        /// In a region, capture all memory that it has reached after each N steps: a replay can begin there.
        #[arg(long, value_name = "N", requires = "capture_region")]
        capture_checkpoints: Option<OsString> => Interceptor::capture_checkpoints,
        /// In a region, whether a hash of what each dispatch has changed is kept: verify names the first dispatch that differs.
        #[arg(long, value_name = "0|1", requires = "capture_region", num_args = 0..=1, require_equals = true, default_missing_value = "1", value_parser = ["0", "1"])]
        region_hashes: Option<String> => Interceptor::region_hashes,
        /// How much memory: none, what arguments point to, what can be reached from there, all.
        #[arg(long, value_name = "SCOPE", requires = "capture", value_parser = CaptureScope::WORDS)]
        capture_scope: Option<String> => Interceptor::capture_scope,
        /// Whether memory is also captured after the kernel, for comparisons.
        #[arg(long, value_name = "0|1", requires = "capture", value_parser = ["0", "1"])]
        capture_after: Option<String> => Interceptor::capture_after,
        /// Stop capturing when the file has this size.
        #[arg(long, value_name = "BYTES", requires = "capture")]
        capture_max_bytes: Option<OsString> => Interceptor::capture_max_bytes,
        /// Stop capturing when it has taken this many seconds in total.
        #[arg(long, value_name = "N", requires = "capture")]
        capture_max_seconds: Option<OsString> => Interceptor::capture_max_seconds,
        /// Hold no dispatch for more than this many seconds; what takes longer is not captured.
        #[arg(long, value_name = "N", requires = "capture")]
        capture_max_hold: Option<OsString> => Interceptor::capture_max_hold,
        /// Give up a capture after this many seconds without progress, if work that is held may be waited for.
        #[arg(long, value_name = "N", requires = "capture")]
        capture_max_stall: Option<OsString> => Interceptor::capture_max_stall,
        /// End the application with SIGTERM after this many captured dispatches.
        #[arg(long, value_name = "N", requires = "capture")]
        capture_quit: Option<OsString> => Interceptor::capture_quit,
        /// How memory is compressed in the file.
        #[arg(long, value_name = "HOW", requires = "capture", value_parser = Compress::WORDS)]
        capture_compress: Option<String> => Interceptor::capture_compress,
        /// Put contents of memory and code into this folder, which captures of a job share, and not into the file.
        #[arg(long, value_name = "DIR", requires = "capture")]
        capture_store: Option<OsString> => Interceptor::capture_store,
        /// What must be idle while memory is read.
        #[arg(long, value_name = "WHAT", requires = "capture", value_parser = Quiesce::WORDS)]
        capture_quiesce: Option<String> => Interceptor::capture_quiesce,
        /// Permissions of the file, an octal mode.
        #[arg(long, value_name = "MODE", requires = "capture")]
        capture_mode: Option<OsString> => Interceptor::capture_mode,
        /// What the file says about the process.
        #[arg(long, value_name = "WHAT", requires = "capture", value_parser = CaptureTell::WORDS)]
        capture_tell: Option<String> => Interceptor::capture_tell,
    }
}

/// The variable by which HIP writes a GPU's memory itself for small copies, past the runtime: a region would not have them. Source:
/// ROCclr's `flags.hpp`.
const HOST_WRITES: &str = "ROC_ENABLE_LARGE_BAR";

/// The option that sets a variable of the library, as clap's name of it.
pub(crate) fn option_for(variable: &str) -> Option<&'static str> {
    let mut all = RunOptions::SETS.iter().chain(CaptureOptions::SETS);
    all.find(|(_, sets)| *sets == variable).map(|(option, _)| *option)
}

/// The command line, with the variable and its default in the help of each option that sets one.
pub(crate) fn with_variables(command: clap::Command) -> clap::Command {
    Interceptor::VARIABLES.iter().fold(command, |command, variable| match option_for(variable.name) {
        Some(option) => command.mut_arg(option, |arg| {
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            arg.help(format!("{help}. Sets {} [default: {}]", variable.name, short_default(variable)))
        }),
        None => command,
    })
}

/// The default of a variable, without the explanation behind it.
fn short_default(variable: &Variable) -> String {
    variable.default.split([':', ';']).next().unwrap_or_default().replace('`', "")
}

/// A value of an option as the library reads it.
trait Text {
    /// `None` if the option is not given.
    fn text(&self) -> Option<OsString>;
}

impl Text for Option<OsString> {
    fn text(&self) -> Option<OsString> {
        self.clone()
    }
}

impl Text for Option<String> {
    fn text(&self) -> Option<OsString> {
        self.clone().map(Into::into)
    }
}

impl Text for bool {
    fn text(&self) -> Option<OsString> {
        self.then(|| "1".into())
    }
}

impl RunOptions {
    /// True if clones run: by an option, or by the variable.
    pub(crate) fn is_instrumented(&self) -> bool {
        let by_variable = || Interceptor::from(|name| std::env::var_os(name)).0.instrumented.0;
        self.instrumented || !self.no_instrumented && by_variable()
    }

    /// What an application needs to be watched.
    ///
    /// # Errors
    /// When a library or the ROCm cannot be found, or its path cannot be passed on.
    pub(crate) fn environment(&self) -> Result<Environment> {
        let library = find::library("liblogdur.so")?;
        let mut all = Environment::default();
        all.place(&self.place, Some(&library))?;
        all.set("HSA_TOOLS_LIB", quoted(&library)?);
        // ROCr 6.1 and later ask rocprofiler-register first, and then may not look at HSA_TOOLS_LIB at all.
        all.set("HSA_TOOLS_ROCPROFILER_V1_TOOLS", "1");
        // HIP 7 could ring the doorbell itself, past every tool.
        all.set("DEBUG_CLR_DIRECT_DOORBELL", "0");
        explain_scope(self)?;
        for (variable, value) in self.variables()?.into_iter().chain(self.capture.variables()?) {
            if let Some(value) = value {
                all.set(variable, value);
            }
        }
        let by_region = when::region_of(&all).is_some_and(|region| region.triggers().any(Trigger::needs_markers));
        if self.markers || by_region || when::of(&all).0.iter().any(Trigger::needs_markers) {
            let markers = find::library("liblogdur_markers.so")?;
            let markers = all.preloadable(&markers).context("liblogdur_markers.so has to be preloaded")?;
            all.preload(&[markers]);
        }
        if all.value(Interceptor::capture_region).is_some() && all.value(HOST_WRITES).is_none() {
            all.set(HOST_WRITES, "0");
        }
        when::settle(&mut all)?;
        all.settle()?;
        Ok(all)
    }
}

/// As logduration's users write it.
fn instrumented(options: &RunOptions) -> Result<Option<OsString>> {
    Ok(options.instrumented.then(|| "true".into()))
}

/// What is on at the start of a process that can be controlled.
fn start(options: &RunOptions) -> Result<Option<OsString>> {
    let off = |features: &String| if features.is_empty() { "off".into() } else { format!("off,{features}").into() };
    Ok(options.attachable.as_ref().map(off))
}

/// The form of rows that the library does not know: they are made into it when the application has ended.
pub(crate) const ROCPD: &str = "rocpd";

/// What `-t` takes.
fn formats() -> PossibleValuesParser {
    Format::WORDS.into_iter().chain([ROCPD]).into()
}

/// The form of rows as the library writes them.
fn log_format(options: &RunOptions) -> Result<Option<OsString>> {
    let safe = options.csv_safe.then(|| Format::CsvSafe.name().into());
    let for_database = options.log_format.as_ref().filter(|format| *format == ROCPD).map(|_| Format::Csv.name().into());
    Ok(safe.or(for_database).or(options.log_format.text()))
}

/// Folders as `LOGDUR_KERNEL_CACHE` takes them, wherever the application goes.
fn caches(options: &RunOptions) -> Result<Option<OsString>> {
    let folders = &options.cache_location;
    if folders.is_empty() {
        return Ok(None);
    }
    let absolute =
        |folder: &PathBuf| folder.canonicalize().with_context(|| format!("--cache-location {}", folder.display()));
    let folders: Vec<PathBuf> = folders.iter().map(absolute).collect::<Result<_>>()?;
    let joined = std::env::join_paths(&folders).context("--cache-location: a folder's name has a colon")?;
    Ok(Some(joined))
}

/// Analyzers as `LOGDUR_HANDLERS` takes them: names as they are, libraries wherever the application goes.
/// Without clones, they are of an exact analysis, which needs nothing in the application.
fn handlers(options: &RunOptions) -> Result<Option<OsString>> {
    let analyzers = &options.analyzers;
    if analyzers.is_empty() || !options.is_instrumented() {
        return Ok(None);
    }
    let place = |analyzer: &OsString| {
        let bytes = analyzer.as_bytes();
        if !bytes.contains(&b'/') && !bytes.ends_with(b".so") {
            return Ok(analyzer.into());
        }
        Path::new(analyzer).canonicalize().with_context(|| format!("--analyzers {}", analyzer.display()))
    };
    let places: Vec<PathBuf> = analyzers.iter().map(place).collect::<Result<_>>()?;
    Ok(Some(std::env::join_paths(&places).context("--analyzers: a name has a colon")?))
}

/// A file's path, wherever the application goes.
fn library_filter(options: &RunOptions) -> Result<Option<OsString>> {
    let absolute = |file: &PathBuf| file.canonicalize().with_context(|| format!("--library-filter {}", file.display()));
    Ok(options.library_filter.as_ref().map(absolute).transpose()?.map(Into::into))
}

/// Options as `LOGDUR_HANDLER_OPTIONS` takes them.
fn handler_options(options: &RunOptions) -> Result<Option<OsString>> {
    let given = &options.analyzer_option;
    if given.is_empty() || !options.is_instrumented() {
        return Ok(None);
    }
    match given.iter().find(|option| option.contains(':') || !option.contains('=')) {
        Some(wrong) => bail!("--analyzer-option {wrong}: expected KEY=VALUE without a colon"),
        None => Ok(Some(given.join(":").into())),
    }
}

/// Which source lines send messages is chosen when a clone is compiled, so that no option can do it.
fn explain_scope(options: &RunOptions) -> Result<()> {
    let of_compiler = [
        (&options.instrumentation_scope, "--instrumentation-scope", "INSTRUMENTATION_SCOPE"),
        (&options.instrumentation_scope_file, "--instrumentation-scope-file", "INSTRUMENTATION_SCOPE_FILE"),
    ];
    for (value, option, variable) in of_compiler {
        if let Some(value) = value {
            bail!(
                "{option}: expected it where clones are compiled, found it where they run: set {variable}={} for the compiler, and \
                 compile again. Here, -k chooses kernels, and --filter-x, --filter-y and --filter-z choose workgroups",
                value.display()
            );
        }
    }
    Ok(())
}

/// Numbers of workgroups in X, Y and Z as `LOGDUR_WORKGROUPS` takes them.
fn workgroups(options: &RunOptions) -> Result<Option<OsString>> {
    let of = [&options.filter_x, &options.filter_y, &options.filter_z];
    for (text, option) in of.iter().zip(["--filter-x", "--filter-y", "--filter-z"]) {
        let Some(text) = text else { continue };
        if text.is_empty() || text.contains(',') || Workgroups::parse(text.as_ref()).is_err() {
            bail!("{option} {text}: expected N or N:M, with N less than M and M at most 65536");
        }
    }
    if of.iter().all(|text| text.is_none()) {
        return Ok(None);
    }
    Ok(Some(of.map(|text| text.as_deref().unwrap_or_default()).join(",").into()))
}

/// A path as `HSA_TOOLS_LIB` takes it: the separator there is a space, quotes and backslashes are honoured (ROCr's
/// `parse_tool_names`).
fn quoted(path: &Path) -> Result<String> {
    let text = path.to_str().with_context(|| format!("{} is not UTF-8", path.display()))?;
    if !text.contains([' ', '"', '\\']) {
        return Ok(text.to_owned());
    }
    let escaped: String =
        text.chars().flat_map(|c| [(c == '"' || c == '\\').then_some('\\'), Some(c)]).flatten().collect();
    Ok(format!("\"{escaped}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_with_spaces_and_quotes_reach_the_runtime_whole() {
        assert_eq!(quoted(Path::new("/a/b.so")).unwrap(), "/a/b.so");
        assert_eq!(quoted(Path::new("/a b/\"c\\.so")).unwrap(), r#""/a b/\"c\\.so""#);
    }

    #[test]
    fn each_variable_is_set_by_one_option_at_most_and_named_in_its_help() {
        let help = crate::help::command().render_long_help().to_string();
        let named = |name: &str| help.split(|c: char| !c.is_ascii_uppercase() && c != '_').any(|word| word == name);
        let all = || RunOptions::SETS.iter().chain(CaptureOptions::SETS);
        for variable in Interceptor::VARIABLES {
            let options = all().filter(|(_, sets)| *sets == variable.name).count();
            assert_eq!((named(variable.name), options), (options > 0, options.min(1)), "{}", variable.name);
        }
        let without = Interceptor::VARIABLES.iter().filter(|variable| option_for(variable.name).is_none());
        let expected = ["queue_mode", "records", "records_max", "log", "run", "hello"]
            .map(|name| format!("LOGDUR_{}", name.to_uppercase()));
        assert_eq!(without.map(|variable| variable.name).collect::<Vec<_>>(), expected);
    }
}
