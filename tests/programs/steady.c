// A producer in its stride: rounds of 10,000 dispatches, as many of them in flight as the GPU lets be, the last round
// between `calls_begin` and `calls_end` of `count_calls.c`.
//   steady none|own|shared
#include "hsa_check.h"

#include <dlfcn.h>
#include <sched.h>

enum { ROUNDS = 4, DISPATCHES = 10000, SIGNALS = 256 };

int main(int argc, char** argv) {
    EXPECT(argc == 2, "usage: steady none|own|shared");
    const bool own = !strcmp(argv[1], "own"), shared = !strcmp(argv[1], "shared");
    void (*begin)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "calls_begin");
    void (*end)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "calls_end");
    EXPECT(begin && end, "count_calls is not preloaded");
    start();
    load();
    // The ring is never full: the producer itself has nothing to wait for.
    hsa_queue_t* queue = queue_of(16384, NULL, NULL);
    const uint64_t empty = kernel("empty");
    hsa_signal_t signals[SIGNALS], one = signal_of(1 << 20);
    for (int i = 0; i < SIGNALS; ++i) signals[i] = signal_of(0);
    for (int i = 0; i < ROUNDS * DISPATCHES; ++i) {
        if (i % DISPATCHES == 0) drain(queue);
        if (i == (ROUNDS - 1) * DISPATCHES) begin();
        hsa_signal_t done = shared ? one : NO_SIGNAL;
        if (own) {
            done = signals[i % SIGNALS];
            while (hsa_signal_load_scacquire(done) > 0) {
            }
            hsa_signal_store_relaxed(done, 1);
        }
        dispatch(queue, empty, 1, NULL, done);
    }
    end();
    drain(queue);
    printf("PASS\n");
    for (int i = 0; i < SIGNALS; ++i) CHECK(hsa_signal_destroy(signals[i]));
    CHECK(hsa_signal_destroy(one));
    CHECK(hsa_queue_destroy(queue));
    CHECK(hsa_shut_down());
    return 0;
}
