//! The end of a runtime under the interception, over a toy runtime: it ends in a bounded time, and gives back what it took.

#[allow(dead_code, reason = "the tests of features need more of it")]
mod toy;

use std::sync::atomic::Ordering;

use logdur_journal::flag;
use toy::{ToyQueue, intercepted, signal, state};

#[test]
fn a_runtime_ends_while_the_gpu_hangs_and_later_packets_pass_as_they_are() {
    let (interceptor, _) = intercepted();
    let queue = ToyQueue::new();
    let app = signal(1);
    queue.dispatch(0x5000, 0);
    queue.dispatch(0x6000, app);
    let hung = queue.take();
    assert_eq!(hung.len(), 2);
    interceptor.leave_runtime();
    // A row says of each that its end was not seen.
    let mut at = *queue.watched.logged.lock().unwrap();
    for _ in 0..2 {
        let record = at.record().unwrap();
        assert_eq!(
            (record.state(), record.flags() & flag::INCOMPLETE),
            (logdur_journal::State::Done, flag::INCOMPLETE)
        );
        at.advance();
    }
    // The application's signal is its own: no thread of ours decrements it any more.
    queue.complete(&hung[1]);
    assert_eq!(state(app), (0, 1000, 1010));
    assert!(queue.watched.gone.load(Ordering::Acquire));
    assert!(interceptor.destroy_signals() <= 1, "but for the one that the GPU still has, all signals are destroyed");
    queue.write(0x7000, 0);
    let passed = queue.take();
    assert_eq!((passed.len(), passed[0].completion_signal()), (1, 0), "the packet is as the application wrote it");
}
