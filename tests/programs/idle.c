// Dispatches, and then does nothing for a while: prints how often each of the library's threads has run meanwhile, and the policies
// by which the threads of the library and this one are scheduled, that of the reaper also while this thread waits for it.
//   idle DISPATCHES
#include <sched.h>

#include "hsa_check.h"
#include "threads.h"

static void print_policy(const char* thread, void* name) {
    printf("policy of %s: %d\n", (const char*)name, sched_getscheduler(atoi(thread)));
}

// The same of a thread that is to have the ordinary policy soon: on a busy machine it may not run at once.
static void print_ordinary_policy(const char* thread, void* name) {
    for (int tries = 0; tries < 200 && sched_getscheduler(atoi(thread)) != SCHED_OTHER; ++tries) usleep(50000);
    print_policy(thread, name);
}

int main(int argc, char** argv) {
    EXPECT(argc == 2, "usage: idle DISPATCHES");
    start();
    load();
    hsa_queue_t* queue = queue_of(1024, NULL, NULL);
    const uint64_t empty = kernel("empty");
    for (int i = 0; i < atoi(argv[1]); ++i) dispatch(queue, empty, 1, NULL, NO_SIGNAL);
    drain(queue);
    // Until they have come to rest: nothing has run for a tenth of a second.
    long before = schedstat_of("logdur-", RUNS), now;
    for (int tries = 0; tries < 100; ++tries, before = now) {
        usleep(100000);
        now = schedstat_of("logdur-", RUNS);
        if (now == before) break;
    }
    usleep(500000);
    printf("runs %ld\n", before < 0 ? -1 : schedstat_of("logdur-", RUNS) - before);
    printf("policy of the application: %d\n", sched_getscheduler(0));
    each_thread("logdur-log", print_policy, (void*)"the log");
    each_thread("logdur-reaper", print_policy, (void*)"the reaper");
    // The second dispatch on a signal has one of the library in its packet: the reaper tells of its end.
    hsa_signal_t gate = signal_of(1), done = signal_of(2);
    barrier(queue, HSA_PACKET_TYPE_BARRIER_AND, &gate, 1, NO_SIGNAL);
    for (int i = 0; i < 2; ++i) dispatch(queue, empty, 1, NULL, done);
    each_thread("logdur-reaper", print_ordinary_policy, (void*)"the reaper that is waited for");
    hsa_signal_store_screlease(gate, 0);
    wait_for_signal(done);
    CHECK(hsa_signal_destroy(gate));
    CHECK(hsa_signal_destroy(done));
    puts("PASS");
    CHECK(hsa_queue_destroy(queue));
    CHECK(hsa_shut_down());
    return 0;
}
