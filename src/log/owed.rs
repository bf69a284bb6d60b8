//! Rows that the log lacks at the end of the process: those that the records keep, and those that are lost.

use logdur_intercept::lock;
use logdur_intercept::queue::Queue;
use logdur_journal::State;
use logdur_journal::flag;
use logdur_journal::names::{one_line, shell_word};
use logdur_settings::ENDED;

use super::Log;
use crate::session::Session;

/// Dispatches whose rows are not in the log.
#[derive(Default)]
struct Owed {
    /// Those with records in the file.
    kept: usize,
    /// Those with records in memory that ends with the process.
    private: usize,
}

impl Log {
    /// Writes as the last line of the log what it lacks, if there is room for that.
    pub(super) fn say_what_is_owed(&self, session: &Session) {
        let mut writer = lock(&self.writer);
        let Owed { kept, .. } = Owed::of(session);
        let (Some(records), Some(reason)) = (session.interceptor.records.path(), writer.reason()) else { return };
        let log = writer.sink.path().map_or(String::new(), |log| format!(" -l {}", shell_word(log)));
        let records = shell_word(records);
        let text = format!("{kept} rows are missing here ({reason}): `omniprobe log {records}{log}` writes them");
        ::log::error!("{text}");
        writer.write_last(&one_line(&text));
    }

    /// Says how many rows are lost, because neither the log nor a file of records has them: to `omniprobe`, else on the
    /// standard error that the process was started with. Waits for nothing.
    pub(crate) fn tell_losses(&self, session: &Session) {
        if lock(&self.no_file).is_some() {
            self.tell(ENDED);
        }
        let writer = lock(&self.writer);
        let Owed { private, .. } = Owed::of(session);
        // What was given up is counted in the file of records, if there is one.
        let given_up = if session.interceptor.records.path().is_none() { writer.dropped() } else { 0 };
        let lost = private as u64 + given_up;
        let Some(reason) = writer.reason().filter(|_| lost > 0).map(str::to_owned) else { return };
        let place = writer.sink.path().map_or(String::new(), |path| format!("the log {}: ", path.display()));
        let no_file = lock(&self.no_file);
        let no_file =
            no_file.as_ref().map_or(String::new(), |why| format!("; they could not be kept in a file: {why}"));
        drop(writer);
        let text = format!("{lost} rows are lost: {place}{reason}{no_file}");
        ::log::error!("{text}");
        if self.hello.is_some() {
            return self.tell(&text);
        }
        if let Some(stderr) = &self.stderr {
            stderr.say(&format!("logdur: {}\n", one_line(&text)));
        }
    }
}

impl Owed {
    fn of(session: &Session) -> Owed {
        let mut owed = Owed::default();
        session.interceptor.queues.all().iter().for_each(|queue| owed.add(queue));
        owed
    }

    fn add(&mut self, queue: &Queue) {
        let mut block = Some(lock(&queue.logged).block);
        while let Some(present) = block {
            let missing = present.used().filter(|r| r.state() != State::Logged && r.flags() & flag::NO_DISPATCH == 0);
            let count = if present.get().is_in_file() { &mut self.kept } else { &mut self.private };
            *count += missing.count();
            block = present.next();
        }
    }
}
