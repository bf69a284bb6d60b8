// Producers of every habit. Each packet is a kernel that adds one to a word of its own: a packet that is lost or executed
// twice is seen by the program itself.
//   producers [NAME=VALUE ...]
//     threads=1 packets=1000 (of each thread) slots=64 batch=1
//     index=add|cas|store     how indices are reserved: before there is room (add), after (cas, store); every variant of
//                             the runtime's functions in turn
//     fill=forward|backward|holes
//                             the order of a batch; holes: every other slot is left to a second thread
//     ring=each|early|late|twice|reverse|never
//                             each packet; before it is written; once a batch; several times, values too low among them;
//                             a batch's doorbells in reverse; odd threads never, and the main thread now and then
//     signal=none|own|shared|mixed
//     end=return|segv|exit    what the first thread does that is done, while others go on: a signal that ends the process; forks, and
//                             then an orderly end
//     count=FILE              the doorbells that have been rung, eight bytes
#include "hsa_check.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>

static struct {
    const char *index, *fill, *ring, *signal, *end, *count;
    uint32_t threads, packets, slots, batch;
} plan = {"add", "forward", "each", "none", "return", NULL, 1, 1000, 64, 1};

static hsa_queue_t* queue;
static uint64_t object;
static uint32_t* words;
static char* kernargs;
static hsa_signal_t* signals;
static hsa_signal_t shared;
static uint8_t* reserved;
static uint32_t finished;
static uint64_t rung_here;
static uint64_t* rung = &rung_here;
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

static bool is(const char* value, const char* expected) { return !strcmp(value, expected); }

// What a second thread is to fill: index + 1 and packet, 0 when taken.
struct mailbox {
    uint64_t index;
    uint32_t packet;
    bool rings, closed;
};

static void wait_for_room(uint64_t last, uint32_t variant) {
    for (;;) {
        uint64_t read = variant % 2 ? hsa_queue_load_read_index_relaxed(queue) : hsa_queue_load_read_index_scacquire(queue);
        if ((int64_t)(last - read) < (int64_t)queue->size) return;
        sched_yield();
    }
}

static uint64_t add_index(uint32_t count, uint32_t variant) {
    switch (variant % 4) {
        case 0: return hsa_queue_add_write_index_screlease(queue, count);
        case 1: return hsa_queue_add_write_index_relaxed(queue, count);
        case 2: return hsa_queue_add_write_index_scacquire(queue, count);
        default: return hsa_queue_add_write_index_scacq_screl(queue, count);
    }
}

static uint64_t cas_index(uint64_t expected, uint64_t value, uint32_t variant) {
    switch (variant % 4) {
        case 0: return hsa_queue_cas_write_index_screlease(queue, expected, value);
        case 1: return hsa_queue_cas_write_index_relaxed(queue, expected, value);
        case 2: return hsa_queue_cas_write_index_scacquire(queue, expected, value);
        default: return hsa_queue_cas_write_index_scacq_screl(queue, expected, value);
    }
}

static uint64_t load_index(uint32_t variant) {
    return variant % 2 ? hsa_queue_load_write_index_relaxed(queue) : hsa_queue_load_write_index_scacquire(queue);
}

// Reserves slots and waits until they are free, the one before the other.
static uint64_t reserve_batch(uint32_t count, uint32_t variant) {
    uint64_t first;
    if (is(plan.index, "add")) {
        first = add_index(count, variant);
        EXPECT(load_index(variant) >= first + count, "the write index is behind what was reserved");
        wait_for_room(first + count - 1, variant);
    } else if (is(plan.index, "cas")) {
        for (;;) {
            first = load_index(variant);
            wait_for_room(first + count - 1, variant);
            uint64_t before = cas_index(first, first + count, variant);
            if (before == first) break;
            EXPECT(before > first, "a failed exchange returned %lu of %lu", before, first);
        }
    } else {
        pthread_mutex_lock(&turn);
        first = load_index(variant);
        wait_for_room(first + count - 1, variant);
        if (variant % 2) {
            hsa_queue_store_write_index_relaxed(queue, first + count);
        } else {
            hsa_queue_store_write_index_screlease(queue, first + count);
        }
        EXPECT(load_index(variant) == first + count, "the write index is not what was stored");
        pthread_mutex_unlock(&turn);
    }
    for (uint32_t i = 0; i < count; ++i) {
        EXPECT(first + i < (uint64_t)plan.threads * plan.packets, "index %lu is too high", first + i);
        EXPECT(!__atomic_exchange_n(&reserved[first + i], 1, __ATOMIC_RELAXED), "index %lu was given twice", first + i);
    }
    return first;
}

static void ring(uint64_t index, uint32_t variant) {
    hsa_signal_value_t value = (hsa_signal_value_t)index;
    switch (variant % 4) {
        case 0: hsa_signal_store_screlease(queue->doorbell_signal, value); break;
        case 1: hsa_signal_store_relaxed(queue->doorbell_signal, value); break;
        case 2: hsa_signal_silent_store_screlease(queue->doorbell_signal, value); break;
        default: hsa_signal_silent_store_relaxed(queue->doorbell_signal, value); break;
    }
    __atomic_add_fetch(rung, 1, __ATOMIC_RELAXED);
}

static hsa_signal_t signal_for(uint32_t packet) {
    if (is(plan.signal, "own") || (is(plan.signal, "mixed") && packet % 3 == 0)) return signals[packet];
    if (is(plan.signal, "shared") || (is(plan.signal, "mixed") && packet % 3 == 1)) return shared;
    return NO_SIGNAL;
}

static void fill_slot(uint64_t index, uint32_t packet) {
    hsa_kernel_dispatch_packet_t body = packet_of(object, 1, kernargs + 16 * packet, signal_for(packet));
    fill(queue, index, &body, header_of(HSA_PACKET_TYPE_KERNEL_DISPATCH, packet % 3 == 0));
}

static void* second_thread(void* data) {
    struct mailbox* box = data;
    for (;;) {
        uint64_t index = __atomic_load_n(&box->index, __ATOMIC_ACQUIRE);
        if (!index) {
            if (__atomic_load_n(&box->closed, __ATOMIC_ACQUIRE)) return NULL;
            sched_yield();
            continue;
        }
        fill_slot(index - 1, box->packet);
        if (box->rings) ring(index - 1, (uint32_t)index);
        __atomic_store_n(&box->index, 0, __ATOMIC_RELEASE);
    }
}

static void leave_to_second(struct mailbox* box, uint64_t index, uint32_t packet) {
    while (__atomic_load_n(&box->index, __ATOMIC_ACQUIRE)) sched_yield();
    box->packet = packet;
    __atomic_store_n(&box->index, index + 1, __ATOMIC_RELEASE);
}

static void* produce(void* data) {
    const uint32_t me = (uint32_t)(uintptr_t)data;
    const bool silent = is(plan.ring, "never") && me % 2;
    const bool holes = is(plan.fill, "holes"), backward = is(plan.fill, "backward");
    struct mailbox box = {.rings = !is(plan.ring, "early") && !silent};
    pthread_t second;
    if (holes) EXPECT(!pthread_create(&second, NULL, second_thread, &box), "no second thread");
    for (uint32_t done = 0; done < plan.packets;) {
        const uint32_t count = plan.packets - done < plan.batch ? plan.packets - done : plan.batch;
        const uint32_t packet = me * plan.packets + done;
        const uint64_t first = reserve_batch(count, packet);
        if (is(plan.ring, "early")) ring(first + count - 1, packet);
        for (uint32_t i = 0; i < count; ++i) {
            const uint32_t at = backward ? count - 1 - i : i;
            // The last of a batch is never left to the other: what is rung last is there.
            if (holes && at % 2 == 0 && at + 1 < count) continue;
            fill_slot(first + at, packet + at);
            if (silent) continue;
            if (is(plan.ring, "each") || is(plan.ring, "never")) ring(first + at, packet + at);
            if (is(plan.ring, "twice")) {
                ring(first, packet);
                ring(first + at, packet + at);
                ring(first + at, packet);
                ring(first + at / 2, packet);
            }
        }
        if (is(plan.ring, "late") && !silent) ring(first + count - 1, packet);
        if (is(plan.ring, "reverse")) {
            for (uint32_t i = count; i-- > 0;) ring(first + i, packet + i);
        }
        if (holes) {
            for (uint32_t at = 0; at + 1 < count; at += 2) leave_to_second(&box, first + at, packet + at);
        }
        done += count;
    }
    if (holes) {
        // Not before the last slot is filled: the other looks for an index first, and then whether that was all.
        while (__atomic_load_n(&box.index, __ATOMIC_ACQUIRE)) sched_yield();
        __atomic_store_n(&box.closed, true, __ATOMIC_RELEASE);
        pthread_join(second, NULL);
    }
    const bool first = __atomic_add_fetch(&finished, 1, __ATOMIC_ACQ_REL) == 1;
    if (first && is(plan.end, "segv")) raise(SIGSEGV);
    if (first && is(plan.end, "exit")) {
        for (int i = 0; i < 4; ++i) {
            if (fork() == 0) _exit(0);
        }
        exit(0);
    }
    return NULL;
}

static void read_plan(int argc, char** argv) {
    const struct {
        const char* name;
        const char** text;
        uint32_t* number;
    } options[] = {
        {"threads", NULL, &plan.threads}, {"packets", NULL, &plan.packets}, {"slots", NULL, &plan.slots},
        {"batch", NULL, &plan.batch},     {"index", &plan.index, NULL},     {"fill", &plan.fill, NULL},
        {"ring", &plan.ring, NULL},       {"signal", &plan.signal, NULL},
        {"end", &plan.end, NULL},         {"count", &plan.count, NULL},
    };
    for (int i = 1; i < argc; ++i) {
        char* value = strchr(argv[i], '=');
        EXPECT(value, "expected NAME=VALUE, found %s", argv[i]);
        *value++ = 0;
        bool known = false;
        for (size_t k = 0; k < sizeof options / sizeof *options; ++k) {
            if (!is(options[k].name, argv[i])) continue;
            known = true;
            if (options[k].text) *options[k].text = value;
            if (options[k].number) *options[k].number = (uint32_t)atoi(value);
        }
        EXPECT(known, "no option %s", argv[i]);
    }
}

int main(int argc, char** argv) {
    read_plan(argc, argv);
    const uint32_t total = plan.threads * plan.packets;
    if (plan.count) {
        const int file = open(plan.count, O_RDWR | O_CREAT, 0600);
        EXPECT(file >= 0 && !ftruncate(file, sizeof *rung), "no file %s", plan.count);
        rung = mmap(NULL, sizeof *rung, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        EXPECT(rung != MAP_FAILED, "the file is not mapped");
    }
    start();
    load();
    queue = queue_of(plan.slots, NULL, NULL);
    EXPECT(queue->size == plan.slots && plan.batch <= plan.slots, "a queue of %u slots", queue->size);
    object = kernel("tally");
    words = allocate(host, total * sizeof(uint32_t));
    kernargs = allocate(kernarg_pool, total * 16ul);
    reserved = calloc(total, 1);
    signals = calloc(total, sizeof *signals);
    for (uint32_t i = 0; i < total; ++i) {
        *(uint32_t**)(kernargs + 16 * i) = words + i;
        if (is(plan.signal, "own") || (is(plan.signal, "mixed") && i % 3 == 0)) signals[i] = signal_of(1);
    }
    hsa_signal_value_t shares = 0;
    for (uint32_t i = 0; i < total; ++i) shares += is(plan.signal, "shared") || (is(plan.signal, "mixed") && i % 3 == 1);
    shared = signal_of(shares);

    pthread_t* threads = calloc(plan.threads, sizeof *threads);
    for (uintptr_t i = 0; i < plan.threads; ++i) {
        EXPECT(!pthread_create(&threads[i], NULL, produce, (void*)i), "no thread %lu", i);
    }
    // Packets of silent producers are covered by a later doorbell, the last of which follows the last packet.
    for (bool all = !is(plan.ring, "never"); !all;) {
        all = __atomic_load_n(&finished, __ATOMIC_ACQUIRE) == plan.threads;
        uint64_t written = load_index(0);
        if (written) ring(written - 1, 0);
        usleep(200);
    }
    for (uint32_t i = 0; i < plan.threads; ++i) pthread_join(threads[i], NULL);
    EXPECT(load_index(0) == total, "the write index is %lu of %u", load_index(0), total);
    drain(queue);
    for (uint32_t i = 0; i < total; ++i) {
        uint32_t times = __atomic_load_n(&words[i], __ATOMIC_ACQUIRE);
        EXPECT(times == 1, "packet %u was executed %u times", i, times);
        if (!signals[i].handle) continue;
        wait_for_signal(signals[i]);
        EXPECT(hsa_signal_load_relaxed(signals[i]) == 0, "signal %u is %ld", i, hsa_signal_load_relaxed(signals[i]));
        CHECK(hsa_signal_destroy(signals[i]));
    }
    wait_for_signal(shared);
    usleep(1000);
    EXPECT(hsa_signal_load_relaxed(shared) == 0, "the shared signal is %ld", hsa_signal_load_relaxed(shared));
    CHECK(hsa_signal_destroy(shared));
    // The barrier packet of the drain is one more; its slot is released after its signal is decremented.
    while (hsa_queue_load_read_index_scacquire(queue) <= total) sched_yield();
    EXPECT(hsa_queue_load_read_index_scacquire(queue) == total + 1ul, "the read index is beyond %u", total + 1);
    printf("PASS\n");
    CHECK(hsa_queue_destroy(queue));
    CHECK(hsa_shut_down());
    return 0;
}
