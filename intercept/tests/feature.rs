//! A toy feature on every port, over a toy runtime: what the interception promises, without HSA's.

mod toy;

use std::sync::atomic::Ordering;

use toy::{CHANGED, HELD, ToyQueue, WITH_RESOURCE, intercepted, signal, state};

#[test]
fn a_dispatch_that_a_feature_changes_runs_the_other_kernel_and_has_its_times() {
    let queue = ToyQueue::new();
    queue.dispatch(CHANGED[0], 0);
    queue.dispatch(0x5000, 0);
    assert_eq!(queue.run(), [CHANGED[1], 0x5000]);
    assert_eq!(queue.times(2), [(1000, 1010), (1020, 1030)]);
    let (_, toy) = intercepted();
    assert!(toy.queues.load(Ordering::Relaxed) > 0);
    // The reaper reports changes after it has written the times.
    while toy.changes.load(Ordering::Relaxed) == 0 {
        std::thread::yield_now();
    }
}

#[test]
fn what_a_feature_lends_to_a_dispatch_is_named_with_its_record_before_the_dispatch_runs() {
    let queue = ToyQueue::new();
    queue.dispatch(WITH_RESOURCE, 0);
    let (_, toy) = intercepted();
    let resources = toy.resources.lock().unwrap().clone();
    assert!(resources.len() == 1 && resources[0].1.is_some(), "{resources:?}");
    assert_eq!(queue.run(), [WITH_RESOURCE]);
    assert_eq!(queue.times(1).len(), 1);
}

#[test]
fn a_queue_that_a_feature_holds_publishes_what_is_before_and_goes_on_in_order_when_it_is_released() {
    let queue = ToyQueue::new();
    for kernel in [0x5000, HELD, 0x6000] {
        queue.write(kernel, 0);
    }
    queue.dispatch(0x7000, 0);
    assert_eq!((queue.run(), queue.run()), (vec![0x5000], vec![]));
    queue.release();
    assert_eq!(queue.run(), [HELD, 0x6000, 0x7000]);
    assert_eq!(queue.times(4).len(), 4);
}

#[test]
fn nothing_is_published_before_its_packet_is_written_and_more_than_a_ring_passes_in_order() {
    let queue = ToyQueue::new();
    let kernels: Vec<u64> = (0..100).map(|n| 0x10000 + n).collect();
    let mut ran = Vec::new();
    for chunk in kernels.chunks(16) {
        chunk.iter().for_each(|&kernel| _ = queue.dispatch(kernel, 0));
        ran.extend(queue.run());
    }
    assert_eq!(ran, kernels);
    let times = queue.times(kernels.len());
    assert!(times.windows(2).all(|w| w[0].1 < w[1].0), "{times:?}");
}

#[test]
fn an_applications_signal_is_decremented_once_for_each_dispatch_that_shares_it_and_has_the_last_times() {
    let queue = ToyQueue::new();
    let app = signal(3);
    for _ in 0..3 {
        queue.dispatch(0x5000, app);
    }
    let packets = queue.take();
    assert_eq!(packets.iter().filter(|p| p.completion_signal() == app).count(), 1, "the first keeps its signal");
    packets.iter().for_each(|packet| queue.complete(packet));
    assert_eq!(queue.times(3), [(1000, 1010), (1020, 1030), (1040, 1050)]);
    while state(app).0 != 0 {
        std::thread::yield_now();
    }
    assert_eq!(state(app), (0, 1040, 1050));
}
