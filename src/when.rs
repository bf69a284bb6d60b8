//! When dispatches are recorded: keeps track of the conditions that `LOGDUR_WHEN` has, and of what `omniprobe attach` has turned on.
//!
//! # Threads
//! Threads that begin and end ranges or create queues; a thread of its own for files and times, if there are such conditions. One at a time
//! changes conditions: a look that was overtaken by another one would undo it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use logdur_intercept::Interceptor;
use logdur_intercept::ports::{CountDispatch, Follow};
use logdur_intercept::window::Window;
use logdur_journal::markers::Passage;
use logdur_journal::names::is_named;
use logdur_settings::{Span, Trigger, When};
use logdur_system::lock;
use logdur_system::text::one_line;
use regex::Regex;

use crate::kernels::Kernels;
use crate::ports::Switch;

/// How often is looked for a file.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A condition and its state.
struct Condition {
    trigger: Trigger,
    /// Kernels with such names count.
    named: Option<Regex>,
    /// Whether a kernel has one, by its number.
    known: HashMap<u32, bool>,
    is_met: bool,
    /// It was met at some time.
    was_met: bool,
    /// How many ranges of its name are open.
    open: u64,
    /// How many have begun, one in another one not counted; or how many dispatches of its kernels.
    begun: u64,
}

impl Condition {
    fn set(&mut self, is_met: bool, window: &Window) {
        if self.is_met != is_met {
            self.is_met = is_met;
            self.was_met |= is_met;
            window.changes(is_met);
        }
    }
}

/// The conditions of a process.
pub(crate) struct Conditions {
    /// The variable that has them.
    name: &'static str,
    window: &'static Window,
    kernels: &'static Kernels,
    numbers: Span,
    conditions: Mutex<Vec<Condition>>,
    /// Held by a look: a file system may take long, and threads that launch kernels wait for the conditions.
    looking: Mutex<()>,
    /// Whether a client has turned rows on, in a process that can be controlled.
    turned_on: Mutex<bool>,
    loaded: Instant,
    /// The folder of the process when the library was loaded: a path of a file may begin there.
    folder: PathBuf,
    started: AtomicBool,
}

impl Conditions {
    /// Those of the settings; `None` if dispatches are always recorded. A window that `is_switched` is closed until a client turns rows on.
    /// A line for each that can never be met.
    pub(crate) fn new(
        name: &'static str,
        When(triggers): &When,
        is_switched: bool,
        kernels: &'static Kernels,
    ) -> (Option<Conditions>, Vec<String>) {
        if triggers.is_empty() && !is_switched {
            return (None, Vec::new());
        }
        let is_number = |trigger: &&Trigger| matches!(trigger, Trigger::Dispatches(_) | Trigger::Count(_));
        let spans = triggers.iter().filter_map(|trigger| match trigger {
            Trigger::Dispatches(span) => Some(*span),
            _ => None,
        });
        let numbers = spans.fold(Span::ALL, |a, b| Span { first: a.first.max(b.first), last: a.last.min(b.last) });
        let counts = triggers.iter().filter_map(|trigger| match trigger {
            Trigger::Count(count) => Some(*count),
            _ => None,
        });
        let mut wrong = Vec::new();
        let mut condition = |trigger: &Trigger| Condition {
            trigger: trigger.clone(),
            named: match trigger {
                Trigger::Kernel(text, _) => Regex::new(text).map_err(|error| wrong.push((text.clone(), error))).ok(),
                _ => None,
            },
            known: HashMap::new(),
            is_met: false,
            was_met: false,
            open: 0,
            begun: 0,
        };
        let conditions: Vec<Condition> =
            triggers.iter().filter(|trigger| !is_number(trigger)).map(&mut condition).collect();
        let said = |(text, error): (String, regex::Error)| {
            let error = one_line(&error.to_string());
            format!("{name}: kernel:{text}: expected a regular expression, nothing is recorded: {error}")
        };
        let unmet = conditions.len() as u32 + u32::from(is_switched);
        let window =
            Box::leak(Box::new(Window::new(numbers.first..=numbers.last, counts.min().unwrap_or(u64::MAX), unmet)));
        let folder = std::env::current_dir().unwrap_or_default();
        let conditions = Conditions {
            name,
            window,
            kernels,
            numbers,
            conditions: Mutex::new(conditions),
            looking: Mutex::default(),
            turned_on: Mutex::new(false),
            loaded: Instant::now(),
            folder,
            started: AtomicBool::new(false),
        };
        (Some(conditions), wrong.into_iter().map(said).collect())
    }

    /// The window in which they are met.
    pub(crate) fn window(&self) -> &'static Window {
        self.window
    }

    /// True if whether they are met depends on dispatches alone: on numbers and kernels.
    pub(crate) fn depend_on_dispatches(&self) -> bool {
        lock(&self.conditions).iter().all(|condition| condition.named.is_some())
    }

    /// True if dispatches of some kernels count.
    pub(crate) fn count_kernels(&self) -> bool {
        lock(&self.conditions).iter().any(|condition| condition.named.is_some())
    }

    /// Changes the conditions on a kernel that is dispatched: they get the number of the dispatch, from 1.
    fn of_kernel(&self, kernel: u32, change: impl Fn(&mut Condition, Span, &Window)) {
        for condition in lock(&self.conditions).iter_mut() {
            let (Trigger::Kernel(_, numbers), Some(regex)) = (&condition.trigger, &condition.named) else { continue };
            let numbers = *numbers;
            let is_named = || self.kernels.by_number(kernel).is_some_and(|known| is_named(&known.kernel.symbol, regex));
            if *condition.known.entry(kernel).or_insert_with(is_named) {
                change(condition, numbers, self.window);
            }
        }
    }

    /// True if a range or the profiler's functions are among them.
    pub(crate) fn need_markers(&self) -> bool {
        lock(&self.conditions).iter().any(|condition| condition.trigger.needs_markers())
    }

    /// A range has begun or ended, or the application has called for the profiler.
    pub(crate) fn passed(&self, passage: Passage, name: &str) {
        let mut conditions = lock(&self.conditions);
        for condition in conditions.iter_mut() {
            match (&condition.trigger, passage) {
                (Trigger::Range(wanted, numbers), Passage::Begins) if wanted == name => {
                    condition.open += 1;
                    if condition.open == 1 {
                        condition.begun += 1;
                        let is_met = numbers.has(condition.begun);
                        condition.set(is_met, self.window);
                    }
                }
                // One that began before it was looked for has not been counted.
                (Trigger::Range(wanted, _), Passage::Ends) if wanted == name && condition.open > 0 => {
                    condition.open -= 1;
                    if condition.open == 0 {
                        condition.set(false, self.window);
                    }
                }
                (Trigger::Range(wanted, _), Passage::Missed) if wanted == name => condition.begun += 1,
                (Trigger::Profiler, Passage::Resumes) => condition.set(true, self.window),
                (Trigger::Profiler, Passage::Pauses) => condition.set(false, self.window),
                _ => {}
            }
        }
    }

    /// Looks at the time and at files; how long no other look is needed, `None` for ever.
    fn look(&self) -> Option<Duration> {
        let _one_at_a_time = lock(&self.looking);
        let path = |condition: &Condition| match &condition.trigger {
            Trigger::File(path) => Some(self.folder.join(path)),
            _ => None,
        };
        let paths: Vec<Option<PathBuf>> = lock(&self.conditions).iter().map(path).collect();
        let are_there: Vec<bool> = paths.iter().map(|path| path.as_ref().is_some_and(|path| path.exists())).collect();
        let mut conditions = lock(&self.conditions);
        let since = self.loaded.elapsed();
        let mut next: Option<Duration> = None;
        let mut in_time = |time: Duration| next = Some(next.map_or(time, |next: Duration| next.min(time)));
        for (condition, is_there) in conditions.iter_mut().zip(are_there) {
            match &condition.trigger {
                Trigger::Seconds(from, to) => {
                    let edges = [Some(*from), *to].into_iter().flatten();
                    edges.filter(|edge| since < *edge).for_each(|edge| in_time(edge - since));
                    let is_met = since >= *from && to.is_none_or(|to| since < to);
                    condition.set(is_met, self.window);
                }
                Trigger::File(_) => {
                    condition.set(is_there, self.window);
                    in_time(LOOK_EVERY);
                }
                Trigger::Dispatches(_)
                | Trigger::Count(_)
                | Trigger::Kernel(..)
                | Trigger::Range(..)
                | Trigger::Profiler
                | Trigger::Signal => {}
            }
        }
        next
    }

    fn run(&self) {
        while let Some(pause) = self.look() {
            std::thread::sleep(pause);
        }
    }

    /// What was asked for and did not happen in a process with so many dispatches, copies and markers, of which so many were outside: a
    /// line for each condition that was never met, or one if they never were at the same time.
    pub(crate) fn unmet(&self, seen: u64, outside: u64, has_markers: bool) -> Vec<String> {
        let conditions = lock(&self.conditions);
        if conditions.is_empty() && self.numbers == Span::ALL {
            return Vec::new();
        }
        let unmet = conditions.iter().filter(|condition| !condition.was_met);
        let why = |condition: &Condition| match &condition.trigger {
            trigger if trigger.needs_markers() && !has_markers => {
                "liblogdur_markers.so is not in the process (LD_PRELOAD), which sees ranges".to_owned()
            }
            Trigger::Range(name, _) => match condition.begun {
                0 => format!("no range {name} has begun"),
                1 => format!("one range {name} has begun"),
                begun => format!("{begun} ranges {name} have begun"),
            },
            Trigger::Profiler => "roctxProfilerResume was not called".to_owned(),
            Trigger::Seconds(..) => {
                format!("the process ended after {:.1} seconds", self.loaded.elapsed().as_secs_f64())
            }
            Trigger::File(path) => format!("{} was not there", self.shown(path)),
            Trigger::Signal => "only `omniprobe --when` takes signals".to_owned(),
            Trigger::Kernel(regex, _) => match condition.begun {
                0 => format!("no kernel with a name like {regex} was dispatched"),
                1 => format!("one kernel with a name like {regex} was dispatched"),
                begun => format!("{begun} kernels with a name like {regex} were dispatched"),
            },
            Trigger::Dispatches(_) | Trigger::Count(_) => String::new(),
        };
        let line = |condition: &Condition| format!("{}: {}: {}", self.name, condition.trigger, why(condition));
        let too_few = (self.numbers.first >= seen)
            .then(|| format!("{}: dispatches:{}: there were {seen}, with numbers from 0", self.name, self.numbers));
        let lines: Vec<String> = unmet.map(line).chain(too_few).collect();
        if lines.is_empty() && outside == seen && seen > 0 {
            return vec![format!("{}: all {seen} dispatches were outside", self.name)];
        }
        lines
    }

    fn shown(&self, path: &Path) -> String {
        self.folder.join(path).display().to_string()
    }
}

impl Switch for Conditions {
    fn turn(&self, is_on: bool) {
        let mut before = lock(&self.turned_on);
        if std::mem::replace(&mut *before, is_on) != is_on {
            self.window.changes(is_on);
        }
    }
}

impl CountDispatch for Conditions {
    fn comes(&self, kernel: u32) {
        self.of_kernel(kernel, |condition, numbers, window| {
            condition.begun += 1;
            condition.set(numbers.has(condition.begun), window);
        });
    }

    fn has_come(&self, kernel: u32) {
        self.of_kernel(kernel, |condition, numbers, window| {
            if condition.begun >= numbers.last || numbers == Span::ALL {
                condition.set(false, window);
            }
        });
    }
}

impl Follow for Conditions {
    fn queue_begins(&'static self, interceptor: &'static Interceptor) {
        // Before the first dispatch.
        if self.look().is_some() && !self.started.swap(true, Ordering::AcqRel) {
            interceptor.spawn("logdur-when", "its times and files are not looked at any more", move || self.run());
        }
    }

    fn records_changed(&self, _: &Interceptor) {}
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use logdur_intercept::address_map::AddressMap;
    use logdur_journal::{Kernel, Records};
    use logdur_settings::{Interceptor as Settings, Value};

    use super::*;

    fn made(text: &str, is_switched: bool) -> (Option<Conditions>, Vec<String>) {
        let leaked = Box::leak(Box::new(Kernels::new(
            Box::leak(Box::new(Records::private())),
            Box::leak(Box::new(AddressMap::new())),
        )));
        for name in ["first", "second"] {
            leaked.named(Kernel { symbol: name.to_owned(), ..Kernel::default() });
        }
        Conditions::new(Settings::when, &When::parse(OsStr::new(text)).unwrap(), is_switched, leaked)
    }

    fn conditions(text: &str) -> Conditions {
        made(text, false).0.unwrap()
    }

    #[test]
    fn without_triggers_there_is_no_window() {
        assert!(made("", false).0.is_none());
    }

    #[test]
    fn a_range_opens_the_window_in_its_iterations_and_one_within_it_does_not_count() {
        let all = conditions("range:step@2-3");
        let is_open = |all: &Conditions| all.window().has(0);
        for number in 1..5 {
            all.passed(Passage::Begins, "step");
            assert_eq!(is_open(&all), (2..=3).contains(&number), "{number}");
            all.passed(Passage::Begins, "step");
            all.passed(Passage::Begins, "other");
            all.passed(Passage::Ends, "step");
            assert_eq!(is_open(&all), (2..=3).contains(&number), "{number}");
            all.passed(Passage::Ends, "step");
            assert!(!is_open(&all), "{number}");
        }
        // An end without a beginning changes nothing.
        all.passed(Passage::Ends, "step");
        assert!(!is_open(&all) && all.unmet(9, 8, true).is_empty());
    }

    #[test]
    fn a_range_of_a_thread_keeps_the_window_open_whatever_ranges_of_others_begin_and_end() {
        let all = conditions("range:step");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        all.passed(Passage::Begins, "step");
                        assert!(all.window().has(0));
                        all.passed(Passage::Ends, "step");
                    }
                });
            }
        });
        assert!(!all.window().has(0));
    }

    #[test]
    fn dispatches_of_kernels_whose_names_match_open_the_window_from_their_first_number_to_their_last() {
        let all = conditions("kernel:^f@2-3");
        let dispatched = |kernel: u32| {
            all.comes(kernel);
            let is_inside = all.window().has(0);
            all.has_come(kernel);
            is_inside
        };
        let (first, second) = (1, 2);
        let seen = [second, first, second, first, second, first, second, first].map(dispatched);
        assert_eq!(seen, [false, false, false, true, true, true, false, false]);
        assert!(all.unmet(8, 5, true).is_empty());
        let never = conditions("kernel:sec@9");
        never.comes(second);
        assert_eq!(
            never.unmet(8, 8, true),
            ["LOGDUR_WHEN: kernel:sec@9: one kernel with a name like sec was dispatched"]
        );
        let (none, said) = made("kernel:(@1", false);
        assert!(none.is_some_and(|none| !none.window().has(0)));
        assert!(said[0].starts_with("LOGDUR_WHEN: kernel:(: expected a regular expression"), "{said:?}");
    }

    #[test]
    fn ranges_that_ended_before_are_counted() {
        let all = conditions("range:step@2");
        all.passed(Passage::Missed, "step");
        all.passed(Passage::Begins, "step");
        assert!(all.window().has(0));
    }

    #[test]
    fn all_conditions_have_to_be_met_and_each_that_never_was_is_told() {
        let all = conditions("profiler,range:a,dispatches:3-9,dispatches:5+");
        all.passed(Passage::Resumes, "");
        assert!(!all.window().has(6));
        let said = all.unmet(9, 9, true);
        assert_eq!(said, ["LOGDUR_WHEN: range:a: no range a has begun"]);
        assert!(all.unmet(9, 9, false)[0].contains("liblogdur_markers.so"), "{said:?}");
        assert_eq!(all.unmet(5, 5, true)[1], "LOGDUR_WHEN: dispatches:5-9: there were 5, with numbers from 0");
        all.passed(Passage::Begins, "a");
        assert_eq!([4, 5, 9, 10].map(|number| all.window().has(number)), [false, true, true, false]);
        all.passed(Passage::Pauses, "");
        assert!(!all.window().has(6));
        assert_eq!(all.unmet(9, 9, true), ["LOGDUR_WHEN: all 9 dispatches were outside"]);
        assert!(all.unmet(9, 8, true).is_empty());
    }

    #[test]
    fn a_window_that_is_switched_opens_when_it_is_turned_on_and_its_conditions_are_met() {
        let all = made("range:a", true).0.unwrap();
        let is_open = || all.window().has(0);
        all.passed(Passage::Begins, "a");
        assert!(!is_open());
        all.turn(true);
        all.turn(true);
        assert!(is_open());
        all.turn(false);
        assert!(!is_open());
        all.turn(true);
        all.passed(Passage::Ends, "a");
        assert!(!is_open());
        let alone = made("", true).0.unwrap();
        assert!(!alone.window().has(0));
        alone.turn(true);
        assert!(alone.window().has(0));
    }

    #[test]
    fn times_and_files_are_looked_at_until_nothing_can_change() {
        let now = conditions("seconds:0+");
        assert_eq!((now.look(), now.window().has(0)), (None, true));
        let later = conditions("seconds:1000-2000");
        assert!(later.look().is_some_and(|pause| pause > Duration::from_secs(900)) && !later.window().has(0));
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("go");
        let all = conditions(&format!("file:{}", file.display()));
        assert_eq!((all.look(), all.window().has(0)), (Some(LOOK_EVERY), false));
        std::fs::write(&file, "").unwrap();
        assert_eq!((all.look(), all.window().has(0)), (Some(LOOK_EVERY), true));
        std::fs::remove_file(&file).unwrap();
        assert_eq!((all.look(), all.window().has(0)), (Some(LOOK_EVERY), false));
    }
}
