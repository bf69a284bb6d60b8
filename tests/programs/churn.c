// Queues and signals that come and go while other threads launch.
//   churn ROUNDS drained|running|ringing
//     drained  each queue is drained before it is destroyed
//     running  its last packets are in flight
//     ringing  and other threads still ring its doorbell until just before
#include "hsa_check.h"

#include <pthread.h>
#include <sched.h>

enum { OTHERS = 2, PACKETS = 4 };

static uint64_t tally;
static uint32_t stop;
static uint32_t* shared_words;
static uint32_t launched[OTHERS];

// Launches on a queue of its own until told to stop.
static void* launch(void* data) {
    const uintptr_t me = (uintptr_t)data;
    hsa_queue_t* queue = queue_of(256, NULL, NULL);
    uint32_t** kernarg = allocate(kernarg_pool, sizeof(void*));
    *kernarg = shared_words + 16 * me;
    while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
        hsa_signal_t done = signal_of(1);
        for (int i = 0; i < 7; ++i) dispatch(queue, tally, 1, kernarg, NO_SIGNAL);
        dispatch(queue, tally, 1, kernarg, done);
        wait_for_signal(done);
        CHECK(hsa_signal_destroy(done));
        launched[me] += 8;
    }
    drain(queue);
    CHECK(hsa_queue_destroy(queue));
    return NULL;
}

struct ringer {
    hsa_queue_t* queue;
    uint32_t go;
};

// Rings a doorbell again and again: an old value, which is no news.
static void* ring(void* data) {
    struct ringer* ringer = data;
    while (__atomic_load_n(&ringer->go, __ATOMIC_ACQUIRE)) hsa_signal_store_screlease(ringer->queue->doorbell_signal, 2 * PACKETS);
    return NULL;
}

int main(int argc, char** argv) {
    EXPECT(argc == 3, "usage: churn ROUNDS drained|running|ringing");
    const int rounds = atoi(argv[1]);
    const bool drained = !strcmp(argv[2], "drained"), ringing = !strcmp(argv[2], "ringing");
    start();
    load();
    tally = kernel("tally");
    shared_words = allocate(host, 4096);
    uint32_t* words = allocate(host, (size_t)rounds * sizeof(uint32_t));
    char* kernargs = allocate(kernarg_pool, (size_t)rounds * 16);
    pthread_t threads[OTHERS];
    for (uintptr_t i = 0; i < OTHERS; ++i) EXPECT(!pthread_create(&threads[i], NULL, launch, (void*)i), "no thread");
    for (int i = 0; i < rounds; ++i) {
        hsa_queue_t* queue = queue_of(64, NULL, NULL);
        *(uint32_t**)(kernargs + 16 * i) = words + i;
        struct ringer ringer = {queue, 1};
        pthread_t thread;
        for (int k = 0; k < PACKETS; ++k) dispatch(queue, tally, 1, kernargs + 16 * i, NO_SIGNAL);
        // The last of them again, to be in flight when the queue goes.
        if (!drained) drain(queue);
        for (int k = 0; !drained && k < PACKETS; ++k) dispatch(queue, tally, 1, kernargs + 16 * i, NO_SIGNAL);
        if (ringing) EXPECT(!pthread_create(&thread, NULL, ring, &ringer), "no thread");
        if (drained) {
            drain(queue);
            EXPECT(words[i] == PACKETS, "round %d: %u packets were executed", i, words[i]);
        }
        if (ringing) {
            __atomic_store_n(&ringer.go, 0, __ATOMIC_RELEASE);
            pthread_join(thread, NULL);
        }
        CHECK(hsa_queue_destroy(queue));
        EXPECT(words[i] <= (drained ? 1 : 2) * PACKETS, "round %d: %u packets were executed", i, words[i]);
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
    uint32_t others = 0;
    for (int i = 0; i < OTHERS; ++i) {
        pthread_join(threads[i], NULL);
        EXPECT(shared_words[16 * i] == launched[i], "thread %d: %u of %u", i, shared_words[16 * i], launched[i]);
        others += launched[i];
    }
    printf("dispatches %u\nPASS\n", others + (uint32_t)rounds * PACKETS * (drained ? 1 : 2));
    CHECK(hsa_shut_down());
    return 0;
}
