//! Rows that the log lacks at the end of the process: those that the records keep, and those that are lost.

use logdur_intercept::Interceptor;
use logdur_intercept::queue::Queue;
use logdur_journal::State;
use logdur_journal::flag;
use logdur_settings::HelloLine;
use logdur_system::lock;
use logdur_system::text::{one_line, shell_word};

use super::Log;

/// Dispatches whose rows are not in the log.
#[derive(Default)]
struct MissingRows {
    /// Those with records in the file.
    kept: usize,
    /// Those with records in memory that ends with the process.
    private: usize,
}

impl Log {
    /// Writes as the last line of the log what it lacks, if there is room for that. True if that is nothing but lines on a log that
    /// others have deleted.
    pub(super) fn say_what_is_missing(&self, interceptor: &Interceptor) -> bool {
        let mut writer = lock(&self.writer);
        let MissingRows { kept, private } = MissingRows::of(interceptor);
        if kept + private == 0 && writer.lost_its_file() {
            return true;
        }
        let records = interceptor.records.path().filter(|_| kept > 0);
        let (Some(records), Some(reason)) = (records, writer.reason()) else { return false };
        let log = writer.sink.path().map_or(String::new(), |log| format!(" -l {}", shell_word(log)));
        let records = shell_word(records);
        let text = format!("{kept} rows are missing here ({reason}): `omniprobe log {records}{log}` writes them");
        ::log::error!("{text}");
        writer.write_last(&one_line(&text));
        false
    }

    /// Says how many rows are lost, because neither the log nor a file of records has them: to `omniprobe`, else on the
    /// standard error that the process was started with. There it also says what was off, if the log does not. Waits for nothing.
    pub(crate) fn tell_losses(&self, interceptor: &Interceptor) {
        self.say(HelloLine::Ended);
        let losses = self.losses(interceptor);
        if let Some(losses) = &losses {
            ::log::error!("{losses}");
        }
        if self.handshake.is_some() {
            losses.iter().for_each(|losses| self.tell(losses));
            return;
        }
        let writer = lock(&self.writer);
        let is_told = !writer.sink.is_nowhere() && writer.reason().is_none();
        drop(writer);
        let off = std::mem::take(&mut *lock(&self.off));
        let said: Vec<String> = losses.into_iter().chain(off.into_iter().filter(|_| !is_told)).collect();
        if let Some(stderr) = self.stderr.as_ref().filter(|_| !said.is_empty()) {
            stderr.say(&format!("logdur: {}\n", one_line(&said.join("; "))));
        }
    }

    fn losses(&self, interceptor: &Interceptor) -> Option<String> {
        let writer = lock(&self.writer);
        let MissingRows { private, .. } = MissingRows::of(interceptor);
        // What was given up is counted in the file of records, if there is one.
        let records = interceptor.records;
        let given_up = if records.path().is_none() || records.is_gone() { writer.dropped() } else { 0 };
        let lost = private as u64 + given_up;
        let reason = writer.reason().filter(|_| lost > 0)?;
        let place = writer.sink.path().map_or(String::new(), |path| format!("the log {}: ", path.display()));
        let no_file = lock(&self.no_file);
        let no_file =
            no_file.as_ref().map_or(String::new(), |why| format!("; they could not be kept in a file: {why}"));
        Some(format!("{lost} rows are lost: {place}{reason}{no_file}"))
    }
}

impl MissingRows {
    fn of(interceptor: &Interceptor) -> MissingRows {
        let mut missing = MissingRows::default();
        interceptor.queues.all().iter().for_each(|queue| missing.add(queue));
        if interceptor.records.is_gone() {
            missing.private += std::mem::take(&mut missing.kept);
        }
        missing
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
