// What a dispatch costs those who make it. Prints numbers on one line.
//   rate held THREADS BATCH ROUNDS   a queue that is held by a barrier packet while producers fill it:
//                                    ns of thread time for a packet (median of the rounds), and the 99th percentile of a
//                                    batch's, for a packet
//   rate latency COUNT               ns from a doorbell to the end of the wait on the kernel's own signal, median
//   rate memory COUNT                resident KiB before and after so many dispatches
//   rate threads COUNT               ns of processor time of the library's reaper and its log thread for a dispatch
#include "hsa_check.h"
#include "threads.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>

enum { SLOTS = 16384, HELD = 12288 };

static hsa_queue_t* queue;
static uint64_t object;

static double ns_of(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

static int by_value(const void* a, const void* b) {
    double x = *(const double*)a, y = *(const double*)b;
    return (x > y) - (x < y);
}

static double at_share(double* values, size_t count, double share) {
    qsort(values, count, sizeof *values, by_value);
    return values[(size_t)((count - 1) * share)];
}

// Gives so many dispatches to the queue, reserved and rung for together.
static void give(uint32_t batch, const hsa_kernel_dispatch_packet_t* packet) {
    const uint64_t first = hsa_queue_add_write_index_screlease(queue, batch);
    while (first + batch - hsa_queue_load_read_index_scacquire(queue) > queue->size) sched_yield();
    const uint16_t header = header_of(HSA_PACKET_TYPE_KERNEL_DISPATCH, true);
    for (uint32_t i = 0; i < batch; ++i) fill(queue, first + i, packet, header);
    hsa_signal_store_screlease(queue->doorbell_signal, (hsa_signal_value_t)(first + batch - 1));
}

struct producer {
    uint32_t batch, batches;
    pthread_barrier_t* begin;
    double total, *each;
};

static void* produce(void* data) {
    struct producer* p = data;
    const hsa_kernel_dispatch_packet_t packet = packet_of(object, 1, NULL, NO_SIGNAL);
    pthread_barrier_wait(p->begin);
    // Time of the thread: whoever else uses the processor is not counted.
    const double start = ns_of(CLOCK_THREAD_CPUTIME_ID);
    for (uint32_t i = 0; i < p->batches; ++i) {
        const double before = p->each ? ns_of(CLOCK_MONOTONIC) : 0;
        give(p->batch, &packet);
        if (p->each) p->each[i] = (ns_of(CLOCK_MONOTONIC) - before) / p->batch;
    }
    p->total = ns_of(CLOCK_THREAD_CPUTIME_ID) - start;
    return NULL;
}

// Nanoseconds of thread time for a packet; `each` gets every batch's if it is wanted.
static double hold(uint32_t count, uint32_t batch, double* each) {
    hsa_signal_t gate = signal_of(1), done = signal_of(1);
    barrier(queue, HSA_PACKET_TYPE_BARRIER_AND, &gate, 1, NO_SIGNAL);
    pthread_barrier_t begin;
    pthread_barrier_init(&begin, NULL, count);
    pthread_t threads[64];
    struct producer producers[64];
    const uint32_t batches = HELD / count / batch;
    for (uint32_t i = 0; i < count; ++i) {
        producers[i] = (struct producer){batch, batches, &begin, 0, each ? each + i * batches : NULL};
        EXPECT(!pthread_create(threads + i, NULL, produce, producers + i), "no thread %u", i);
    }
    double total = 0;
    for (uint32_t i = 0; i < count; ++i) {
        pthread_join(threads[i], NULL);
        total += producers[i].total;
    }
    hsa_signal_store_screlease(gate, 0);
    barrier(queue, HSA_PACKET_TYPE_BARRIER_AND, NULL, 0, done);
    wait_for_signal(done);
    CHECK(hsa_signal_destroy(gate));
    CHECK(hsa_signal_destroy(done));
    return total / ((double)count * batches * batch);
}

static void held(uint32_t threads, uint32_t batch, uint32_t rounds) {
    const size_t samples = HELD / threads / batch * threads;
    double *each = calloc(samples, sizeof *each), *means = calloc(rounds, sizeof *means);
    double *tails = calloc(rounds, sizeof *tails);
    hold(threads, batch, NULL);
    for (uint32_t i = 0; i < rounds; ++i) {
        means[i] = hold(threads, batch, NULL);
        hold(threads, batch, each);
        tails[i] = at_share(each, samples, 0.99);
    }
    printf("%.1f %.1f\n", at_share(means, rounds, 0.5), at_share(tails, rounds, 0.5));
}

static void latency(uint32_t count) {
    double* each = calloc(count, sizeof *each);
    hsa_signal_t done = signal_of(1);
    for (uint32_t i = 0; i < count; ++i) {
        hsa_signal_store_relaxed(done, 1);
        const double start = ns_of(CLOCK_MONOTONIC);
        dispatch(queue, object, 1, NULL, done);
        while (hsa_signal_wait_scacquire(done, HSA_SIGNAL_CONDITION_LT, 1, UINT64_MAX, HSA_WAIT_STATE_ACTIVE) >= 1) {
        }
        each[i] = ns_of(CLOCK_MONOTONIC) - start;
    }
    CHECK(hsa_signal_destroy(done));
    printf("%.1f\n", at_share(each, count, 0.5));
}

static void run(uint32_t count) {
    const hsa_kernel_dispatch_packet_t packet = packet_of(object, 1, NULL, NO_SIGNAL);
    for (uint32_t i = 0; i < count; ++i) give(1, &packet);
    drain(queue);
}

static void memory(uint32_t count) {
    run(1000);
    const long before = resident();
    run(count);
    printf("%ld %ld\n", before, resident());
}

static void threads(uint32_t count) {
    run(count);
    const double log = idle_time_of("logdur-log"), reaper = schedstat_of("logdur-reaper", NS_RUN);
    printf("%.1f %.1f\n", reaper / count, log / count);
}

int main(int argc, char** argv) {
    EXPECT(argc >= 3, "usage: rate held|latency|memory|threads NUMBER...");
    const uint32_t number = (uint32_t)atoi(argv[2]);
    start();
    load();
    object = kernel("empty");
    queue = queue_of(SLOTS, NULL, NULL);
    if (!strcmp(argv[1], "held")) {
        EXPECT(argc == 5 && number <= 64, "usage: rate held THREADS BATCH ROUNDS");
        held(number, (uint32_t)atoi(argv[3]), (uint32_t)atoi(argv[4]));
    } else if (!strcmp(argv[1], "latency")) {
        latency(number);
    } else if (!strcmp(argv[1], "memory")) {
        memory(number);
    } else {
        threads(number);
    }
    CHECK(hsa_queue_destroy(queue));
    CHECK(hsa_shut_down());
    return 0;
}
