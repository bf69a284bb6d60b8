use super::*;

/// Pages of a `T` that are in memory.
fn resident<T>(memory: *const T) -> usize {
    let mut pages = vec![0_u8; size_of::<T>().div_ceil(pages::PAGE)];
    // SAFETY: the memory is a mapping of so many pages, of which each gets a byte.
    let failed = unsafe { libc::mincore(memory.cast_mut().cast(), size_of::<T>(), pages.as_mut_ptr()) };
    assert_eq!(failed, 0);
    pages.iter().filter(|page| **page & 1 != 0).count()
}

#[test]
fn the_memory_of_blocks_that_a_burst_has_taken_goes_back_to_the_system_but_for_those_that_are_kept_ready() {
    let blocks = Blocks::new(Box::leak(Box::new(Records::private())), u64::MAX).unwrap();
    for round in 0..3 {
        let taken: Vec<BlockRef> = (0..READY + 100).map(|_| blocks.take().unwrap()).collect();
        assert!(blocks.are_many_since(0) && !blocks.are_many_since(blocks.taken()));
        for block in &taken {
            assert_eq!(block.used().count(), 0, "round {round}");
            for slot in 0..BLOCK_RECORDS {
                let record = RecordRef { block: *block, slot };
                record.set_state(State::InFlight);
                record.times().end.store(1, Ordering::Relaxed);
                record.app_signal().end_before.store(1, Ordering::Relaxed);
            }
        }
        taken.into_iter().for_each(|block| blocks.give_back(block));
        blocks.rest();
        let (free, resting) = (lock(&blocks.pool), lock(&blocks.resting));
        // The same blocks in each round.
        assert_eq!((free.len(), resting.len()), (READY, 100), "round {round}");
        for block in resting.iter() {
            assert_eq!((resident(block.0.as_ptr()), resident(block.own().records)), (1, 0));
        }
        assert!(free.iter().all(|block| resident(block.own().records) == 10));
    }
}
