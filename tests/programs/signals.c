// Dispatches with every policy of completion signals, checked as an application sees them.
//   signals none|own|shared|rearm N [noshutdown]
// own, rearm: prints a line "ticks START END NS_START NS_END" of each dispatch.
#include "hsa_check.h"

static void print_times(hsa_signal_t signal) {
    uint64_t start_ticks, end_ticks;
    ticks_of(signal, &start_ticks, &end_ticks);
    hsa_amd_profiling_dispatch_time_t time;
    CHECK(hsa_amd_profiling_get_dispatch_time(gpu, signal, &time));
    printf("ticks %lu %lu %lu %lu\n", start_ticks, end_ticks, (unsigned long)time.start, (unsigned long)time.end);
}

int main(int argc, char** argv) {
    EXPECT(argc >= 3, "usage: signals none|own|shared|rearm N [noshutdown]");
    const char* mode = argv[1];
    const int count = atoi(argv[2]);
    start();
    load();
    hsa_queue_t* queue = queue_of(1024, NULL, NULL);
    CHECK(hsa_amd_profiling_set_profiler_enabled(queue, 1));
    uint32_t* words = allocate(host, 64 * sizeof(uint32_t));
    void* kernarg = kernarg_of(words);
    const uint64_t increment = kernel("increment");

    if (!strcmp(mode, "none")) {
        for (int i = 0; i < count; ++i) dispatch(queue, increment, 1, kernarg, NO_SIGNAL);
        drain(queue);
    } else if (!strcmp(mode, "own")) {
        // A signal of its own for each dispatch, all in flight together.
        hsa_signal_t* done = malloc(count * sizeof *done);
        for (int i = 0; i < count; ++i) dispatch(queue, increment, 1, kernarg, done[i] = signal_of(1));
        for (int i = 0; i < count; ++i) {
            wait_for_signal(done[i]);
            EXPECT(hsa_signal_load_relaxed(done[i]) == 0, "signal %d is %ld", i, hsa_signal_load_relaxed(done[i]));
            print_times(done[i]);
            CHECK(hsa_signal_destroy(done[i]));
        }
    } else if (!strcmp(mode, "rearm")) {
        // One signal, waited for and armed again.
        hsa_signal_t done = signal_of(1);
        for (int i = 0; i < count; ++i) {
            hsa_signal_store_relaxed(done, 1);
            dispatch(queue, increment, 1, kernarg, done);
            wait_for_signal(done);
            print_times(done);
        }
        CHECK(hsa_signal_destroy(done));
    } else if (!strcmp(mode, "shared")) {
        // One signal for groups of four.
        for (int i = 0; i < count; i += 4) {
            hsa_signal_t done = signal_of(4);
            for (int k = 0; k < 4; ++k) dispatch(queue, increment, 1, kernarg, done);
            wait_for_signal(done);
            EXPECT(hsa_signal_load_relaxed(done) == 0, "signal of group %d is %ld", i / 4, hsa_signal_load_relaxed(done));
            uint64_t start_ticks, end_ticks;
            ticks_of(done, &start_ticks, &end_ticks);
            EXPECT(start_ticks && end_ticks > start_ticks, "group %d has times %lu %lu", i / 4, start_ticks, end_ticks);
            CHECK(hsa_signal_destroy(done));
        }
    } else {
        EXPECT(false, "no mode %s", mode);
    }
    for (int i = 0; i < 64; ++i) EXPECT(words[i] == (uint32_t)count, "word %d is %u", i, words[i]);
    printf("PASS\n");
    if (argc > 3) return 0;
    CHECK(hsa_queue_destroy(queue));
    CHECK(hsa_shut_down());
    return 0;
}
