// Many threads and many kinds of packets that complete on one signal.
//   shared_signal lone|rush|rounds|fresh|mixed THREADS QUEUES COUNT blocked|active
//     rush    each thread gives its COUNT dispatches, to one queue after the other, then waits for the signal
//     lone    the same, but only the last dispatch of each thread has a signal
//     rounds  COUNT times: each thread gives one dispatch, and waits for the signal that all of them decrement
//     fresh   the same with a new signal for each round, which is destroyed right after the wait
//     mixed   the same with barrier packets and copies that decrement the signal, too
// Each dispatch adds one to a word, so the program itself sees a lost one. Prints, for each dispatch, the ns that passed and
// the ns of processor time of the process.
#include "hsa_check.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>

enum { MOST = 128, SLOTS = 4096, COPIED = 256 };

static struct {
    bool lone, rush, fresh, mixed;
    uint32_t threads, queues, count;
    hsa_wait_state_t state;
} plan;

static hsa_queue_t* queues[MOST];
static uint64_t object;
static void *kernarg, *copied;
static uint32_t* word;
static hsa_signal_t shared;
static pthread_barrier_t round_begins, round_ends;

static double ns_of(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

// How much a thread decrements the signal in a round.
static uint32_t of_a_round(uint32_t thread) { return plan.mixed && thread % 2 ? 2 : 1; }

static void wait_for_all(void) {
    while (hsa_signal_wait_scacquire(shared, HSA_SIGNAL_CONDITION_LT, 1, UINT64_MAX, plan.state) >= 1) {
    }
}

static void give(uint32_t thread) {
    hsa_queue_t* queue = queues[thread % plan.queues];
    dispatch(queue, object, 1, kernarg, shared);
    if (of_a_round(thread) == 1) return;
    if (thread % 4 == 1) {
        barrier(queue, HSA_PACKET_TYPE_BARRIER_AND, NULL, 0, shared);
    } else {
        char* memory = (char*)copied + 2 * COPIED * thread;
        CHECK(hsa_amd_memory_async_copy(memory, cpu, memory + COPIED, cpu, COPIED, 0, NULL, shared));
    }
}

static void* work(void* data) {
    const uint32_t thread = (uint32_t)(uintptr_t)data;
    pthread_barrier_wait(&round_begins);
    if (plan.rush) {
        for (uint32_t i = 0; i < plan.count; ++i) {
            const bool tells = !plan.lone || i + 1 == plan.count;
            dispatch(queues[(thread + i) % plan.queues], object, 1, kernarg, tells ? shared : NO_SIGNAL);
        }
        wait_for_all();
        return NULL;
    }
    for (uint32_t i = 0; i < plan.count; ++i) {
        give(thread);
        wait_for_all();
        // The runtime may still be between its last look at the signal and its return in other threads.
        pthread_barrier_wait(&round_ends);
        if (!thread) {
            const hsa_signal_value_t value = hsa_signal_load_scacquire(shared);
            EXPECT(value == 0, "after round %u the signal is %ld", i, value);
            uint64_t begin, end;
            ticks_of(shared, &begin, &end);
            // A copy and a dispatch may write their times at the same moment: the start of one, the end of the other.
            EXPECT(begin && end && (plan.mixed || begin < end), "after round %u the signal has times %lu and %lu", i, begin, end);
            hsa_signal_value_t next = 0;
            for (uint32_t k = 0; k < plan.threads; ++k) next += of_a_round(k);
            if (plan.fresh) {
                CHECK(hsa_signal_destroy(shared));
                shared = signal_of(next);
            } else {
                hsa_signal_store_relaxed(shared, next);
            }
        }
        pthread_barrier_wait(&round_begins);
    }
    return NULL;
}

int main(int argc, char** argv) {
    EXPECT(argc == 6, "usage: shared_signal lone|rush|rounds|fresh|mixed THREADS QUEUES COUNT blocked|active");
    plan.lone = !strcmp(argv[1], "lone");
    plan.rush = plan.lone || !strcmp(argv[1], "rush");
    plan.fresh = !strcmp(argv[1], "fresh");
    plan.mixed = !strcmp(argv[1], "mixed");
    plan.threads = (uint32_t)atoi(argv[2]);
    plan.queues = (uint32_t)atoi(argv[3]);
    plan.count = (uint32_t)atoi(argv[4]);
    plan.state = strcmp(argv[5], "active") ? HSA_WAIT_STATE_BLOCKED : HSA_WAIT_STATE_ACTIVE;
    EXPECT(plan.threads && plan.threads <= MOST && plan.queues && plan.queues <= MOST, "at most %d threads, queues", MOST);
    start();
    load();
    object = kernel("tally");
    word = allocate(host, sizeof *word);
    kernarg = kernarg_of(word);
    copied = allocate(host, 2 * COPIED * MOST);
    for (uint32_t i = 0; i < plan.queues; ++i) {
        queues[i] = queue_of(SLOTS, NULL, NULL);
        CHECK(hsa_amd_profiling_set_profiler_enabled(queues[i], 1));
    }
    hsa_signal_value_t first = 0;
    for (uint32_t i = 0; i < plan.threads; ++i) first += plan.rush && !plan.lone ? plan.count : of_a_round(i);
    shared = signal_of(first);
    pthread_barrier_init(&round_begins, NULL, plan.threads + plan.rush);
    pthread_barrier_init(&round_ends, NULL, plan.threads);
    pthread_t threads[MOST];
    double passed = -ns_of(CLOCK_MONOTONIC), used = -ns_of(CLOCK_PROCESS_CPUTIME_ID);
    for (uintptr_t i = 0; i < plan.threads; ++i) {
        EXPECT(!pthread_create(threads + i, NULL, work, (void*)i), "no thread %lu", i);
    }
    if (plan.rush) pthread_barrier_wait(&round_begins);
    for (uint32_t i = 0; i < plan.threads; ++i) pthread_join(threads[i], NULL);
    if (plan.lone) {
        // Others' last dispatches say nothing about those before them in other queues.
        for (uint32_t i = 0; i < plan.queues; ++i) drain(queues[i]);
    }
    passed += ns_of(CLOCK_MONOTONIC);
    used += ns_of(CLOCK_PROCESS_CPUTIME_ID);
    const uint32_t total = plan.threads * plan.count, counted = __atomic_load_n(word, __ATOMIC_ACQUIRE);
    EXPECT(counted == total, "%u of %u dispatches", counted, total);
    CHECK(hsa_signal_destroy(shared));
    printf("%.1f %.1f\nPASS\n", passed / total, used / total);
    for (uint32_t i = 0; i < plan.queues; ++i) CHECK(hsa_queue_destroy(queues[i]));
    CHECK(hsa_shut_down());
    return 0;
}
