// Dispatches of every kind, in stages that somebody else tells to go on: after "stage" on the standard output, a byte is read
// from the standard input. Meanwhile kernels are in flight, then complete with their rows still to be written.
//   overwritten STAGES
#include "hsa_check.h"

enum { SHARED = 6, PLAIN = 700 };

// Says that a stage is reached, and waits for a byte.
static void stage(void) {
    printf("stage\n");
    fflush(stdout);
    char byte;
    EXPECT(read(0, &byte, 1) == 1, "nobody answers");
}

int main(int argc, char** argv) {
    EXPECT(argc == 2, "usage: overwritten STAGES");
    const int stages = atoi(argv[1]);
    start();
    load();
    hsa_queue_t* queue = queue_of(1024, NULL, NULL);
    CHECK(hsa_amd_profiling_set_profiler_enabled(queue, 1));
    uint32_t* words = allocate(host, 64 * sizeof(uint32_t));
    void* kernarg = kernarg_of(words);
    uint32_t* flag = allocate(host, sizeof(uint32_t));
    void* of_flag = kernarg_of(flag);
    const uint64_t increment = kernel("increment"), wait_for = kernel("wait_for");
    uint32_t expected = 0;
    for (int i = 0; i < stages; ++i) {
        // One signal for several dispatches, one of a dispatch, one of a barrier; and dispatches without any.
        hsa_signal_t shared = signal_of(SHARED), own = signal_of(1), behind = signal_of(1);
        *(volatile uint32_t*)flag = 0;
        dispatch(queue, wait_for, 1, of_flag, shared);
        for (int j = 1; j < SHARED; ++j) dispatch(queue, increment, 1, kernarg, shared);
        for (int j = 0; j < PLAIN; ++j) dispatch(queue, increment, 1, kernarg, NO_SIGNAL);
        dispatch(queue, increment, 1, kernarg, own);
        barrier(queue, HSA_PACKET_TYPE_BARRIER_AND, NULL, 0, behind);
        expected += SHARED - 1 + PLAIN + 1;
        stage();
        EXPECT(hsa_signal_load_scacquire(shared) == SHARED, "the value is %ld", (long)hsa_signal_load_scacquire(shared));
        *(volatile uint32_t*)flag = 1;
        wait_for_signal(behind);
        EXPECT(hsa_signal_load_scacquire(own) == 0, "the value is %ld", (long)hsa_signal_load_scacquire(own));
        EXPECT(hsa_signal_load_scacquire(shared) == 0, "the value is %ld", (long)hsa_signal_load_scacquire(shared));
        for (int j = 0; j < 64; ++j) EXPECT(words[j] == expected, "word %d is %u, not %u", j, words[j], expected);
        uint64_t begin, end;
        ticks_of(own, &begin, &end);
        EXPECT(begin && end > begin, "times %lu %lu", begin, end);
        ticks_of(shared, &begin, &end);
        EXPECT(begin && end > begin, "times %lu %lu", begin, end);
        stage();
        CHECK(hsa_signal_destroy(shared));
        CHECK(hsa_signal_destroy(own));
        CHECK(hsa_signal_destroy(behind));
    }
    CHECK(hsa_queue_destroy(queue));
    CHECK(hsa_shut_down());
    printf("PASS\n");
    return 0;
}
