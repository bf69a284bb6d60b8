//! The relation of each GPU's clock to the host's, which the times of rows need.

use std::sync::atomic::Ordering;

use logdur_intercept::Interceptor;
use logdur_intercept::blocks::RecordRef;
use logdur_intercept::clock::Jump;
use logdur_intercept::interceptor::SeenAgent;
use logdur_intercept::queue::Queue;
use logdur_journal::State;
use logdur_system::lock;

/// True when the times of every queue's agent can be converted.
pub(super) fn knows_clocks(interceptor: &Interceptor) -> bool {
    interceptor
        .queues
        .all()
        .iter()
        .filter(|q| q.has_packets)
        .all(|q| interceptor.agent(q.agent).is_none_or(|a| a.clock.line().is_some()))
}

/// Sees to it that the times of a queue's records can be converted while none of their rows can be made.
pub(super) fn calibrate_by_records(interceptor: &Interceptor, queue: &'static Queue) {
    let agent = interceptor.agent(queue.agent).filter(|a| queue.has_packets && a.clock.is_old());
    let Some(agent) = agent else { return };
    let mut at = *lock(&queue.logged);
    while let Some(record) = at.record().filter(|record| record.state() != State::Free) {
        if record.state() == State::Done && calibrate(interceptor, queue, agent, record) {
            return;
        }
        at.advance();
    }
}

/// Sees to it that the times of an agent can be converted; true if the record told a recent tick for that.
pub(super) fn calibrate(interceptor: &Interceptor, queue: &Queue, agent: &SeenAgent, record: RecordRef) -> bool {
    let tick = record.times().end.load(Ordering::Relaxed);
    if tick == 0 {
        return false;
    }
    match agent.clock.calibrate(interceptor.api(), agent.agent.handle, tick) {
        Err(error) => {
            let text = format!("times of agent {} are not converted: {error}", queue.agent);
            interceptor.notice_once("clock", text);
        }
        Ok(Some(Jump::Doubted(off))) => {
            let text = format!(
                "the runtime's relation of the clock of agent {} and the host's jumped by {} us: rows keep the relation of before \
                 until the runtime reads both clocks right, but event times of the application do not",
                queue.agent,
                off / 1000
            );
            interceptor.notice_once("clock-doubted", text);
        }
        Ok(Some(Jump::Believed(off))) => {
            let text = format!(
                "the clock of agent {} was set by {} us: times of rows before and after it do not compare",
                queue.agent,
                off / 1000
            );
            interceptor.notice_once("clock-believed", text);
        }
        Ok(None) => {}
    }
    true
}
