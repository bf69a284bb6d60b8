// The application's own signals, looked at from every side. Prints "done START END" with the raw ticks that the application
// reads for each of its kernels.
//   app_signals values|shared|behind|reuse|destroy|copies|ipc|times N
#include "hsa_check.h"

#include <sched.h>

static hsa_queue_t* queues[2];
static uint32_t* words;
static uint32_t** kernarg;

// Prints the times of the last kernel, after a look that the runtime translates the same ticks.
static void print_times(hsa_signal_t signal) {
    uint64_t start_ticks, end_ticks;
    ticks_of(signal, &start_ticks, &end_ticks);
    EXPECT(start_ticks && end_ticks > start_ticks, "times %lu %lu", start_ticks, end_ticks);
    hsa_amd_profiling_dispatch_time_t time;
    CHECK(hsa_amd_profiling_get_dispatch_time(gpu, signal, &time));
    EXPECT(time.end > time.start, "a kernel from %lu to %lu", (unsigned long)time.start, (unsigned long)time.end);
    printf("done %lu %lu\n", start_ticks, end_ticks);
}

static void wait_for_value(hsa_signal_t signal, hsa_signal_value_t value) {
    while (hsa_signal_wait_scacquire(signal, HSA_SIGNAL_CONDITION_EQ, value, UINT64_MAX, HSA_WAIT_STATE_ACTIVE) != value) {
    }
}

// One signal for kernels that the host ends one by one: the value after each is one less, and the times are those of the
// kernel that has just ended.
static void shared(int count, hsa_signal_value_t initial, int used_queues) {
    hsa_signal_t signal = signal_of(initial);
    uint32_t* flags = allocate(host, (size_t)count * sizeof(uint32_t));
    uint32_t** kernargs = allocate(kernarg_pool, (size_t)count * 16);
    const uint64_t wait_for = kernel("wait_for");
    for (int i = 0; i < count; ++i) {
        kernargs[2 * i] = flags + i;
        dispatch(queues[i % used_queues], wait_for, 1, kernargs + 2 * i, signal);
    }
    for (int i = 0; i < count; ++i) {
        EXPECT(hsa_signal_load_scacquire(signal) == initial - i, "the value is %ld before kernel %d of %ld", hsa_signal_load_scacquire(signal), i, initial);
        *(volatile uint32_t*)(flags + i) = 1;
        wait_for_value(signal, initial - i - 1);
        print_times(signal);
    }
    CHECK(hsa_signal_destroy(signal));
}

int main(int argc, char** argv) {
    EXPECT(argc == 3, "usage: app_signals values|shared|behind|reuse|destroy|copies|ipc|times N");
    const char* mode = argv[1];
    const int count = atoi(argv[2]);
    start();
    load();
    for (int i = 0; i < 2; ++i) {
        queues[i] = queue_of(256, NULL, NULL);
        CHECK(hsa_amd_profiling_set_profiler_enabled(queues[i], 1));
    }
    hsa_queue_t* queue = queues[0];
    words = allocate(host, 64 * sizeof(uint32_t));
    kernarg = allocate(kernarg_pool, sizeof(void*));
    *kernarg = words;
    const uint64_t increment = kernel("increment");
    uint32_t expected = (uint32_t)count;

    if (!strcmp(mode, "values")) {
        const hsa_signal_value_t values[] = {1, 2, 0, -1, -1000, 1000000, INT64_MAX, INT64_MIN + 8};
        for (int i = 0; i < count; ++i) {
            shared(1 + i % 3, values[i % 8], 1);
            hsa_signal_t signal = signal_of(values[i % 8]);
            dispatch(queue, increment, 1, kernarg, signal);
            wait_for_value(signal, values[i % 8] - 1);
            print_times(signal);
            CHECK(hsa_signal_destroy(signal));
        }
    } else if (!strcmp(mode, "shared")) {
        expected = 0;
        shared(count, count, 1);
        shared(count, 1000, 2);
        shared(count, -5, 2);
    } else if (!strcmp(mode, "behind")) {
        // Kernels that share a signal, and a packet behind them with another: who sees the second has seen the first.
        expected = 4 * (uint32_t)count;
        for (int i = 0; i < count; ++i) {
            hsa_signal_t signal = signal_of(4), last = signal_of(1);
            for (int k = 0; k < 4; ++k) dispatch(queue, increment, 1, kernarg, signal);
            barrier(queue, HSA_PACKET_TYPE_BARRIER_AND, NULL, 0, last);
            while (hsa_signal_load_scacquire(last)) sched_yield();
            EXPECT(hsa_signal_load_relaxed(signal) == 0, "round %d: the signal is %ld", i, hsa_signal_load_relaxed(signal));
            CHECK(hsa_signal_destroy(signal));
            CHECK(hsa_signal_destroy(last));
        }
    } else if (!strcmp(mode, "reuse")) {
        // Armed again as soon as it is seen, in every way that a value can be set, on both queues.
        hsa_signal_t signal = signal_of(1);
        for (int i = 0; i < count; ++i) {
            switch (i % 6) {
                case 0: hsa_signal_store_relaxed(signal, 1); break;
                case 1: hsa_signal_store_screlease(signal, 1); break;
                case 2: hsa_signal_silent_store_relaxed(signal, 1); break;
                case 3: hsa_signal_add_relaxed(signal, 1 - hsa_signal_load_relaxed(signal)); break;
                case 4: hsa_signal_exchange_relaxed(signal, 1); break;
                default: hsa_signal_cas_scacq_screl(signal, 0, 1); break;
            }
            dispatch(queues[i % 5 == 0], increment, 1, kernarg, signal);
            wait_for_signal(signal);
            print_times(signal);
        }
        CHECK(hsa_signal_destroy(signal));
    } else if (!strcmp(mode, "destroy")) {
        // Destroyed as soon as it is seen; the runtime gives the same memory to the next.
        for (int i = 0; i < count; ++i) {
            hsa_signal_t signal;
            CHECK(hsa_amd_signal_create(1, 0, NULL, i % 2 ? HSA_AMD_SIGNAL_AMD_GPU_ONLY : 0, &signal));
            dispatch(queue, increment, 1, kernarg, signal);
            while (hsa_signal_load_scacquire(signal)) sched_yield();
            print_times(signal);
            CHECK(hsa_signal_destroy(signal));
        }
    } else if (!strcmp(mode, "copies")) {
        // In turn for a kernel, a copy, and a barrier packet.
        void* from = allocate(host, 4096);
        void* to = allocate(host, 4096);
        memset(from, 7, 4096);
        hsa_signal_t signal = signal_of(1);
        for (int i = 0; i < count; ++i) {
            hsa_signal_store_relaxed(signal, 1);
            dispatch(queue, increment, 1, kernarg, signal);
            wait_for_signal(signal);
            print_times(signal);
            hsa_signal_store_relaxed(signal, 1);
            CHECK(hsa_amd_memory_async_copy(to, gpu, from, gpu, 4096, 0, NULL, signal));
            wait_for_signal(signal);
            hsa_signal_store_relaxed(signal, 1);
            barrier(queue, i % 2 ? HSA_PACKET_TYPE_BARRIER_OR : HSA_PACKET_TYPE_BARRIER_AND, NULL, 0, signal);
            wait_for_signal(signal);
        }
        EXPECT(!memcmp(from, to, 4096), "the copy differs");
        CHECK(hsa_signal_destroy(signal));
    } else if (!strcmp(mode, "ipc")) {
        // A signal that other processes may wait for.
        hsa_signal_t signal;
        hsa_status_t status = hsa_amd_signal_create(1, 0, NULL, HSA_AMD_SIGNAL_IPC, &signal);
        if (status != HSA_STATUS_SUCCESS) {
            printf("no IPC signals: %#x\nPASS\n", status);
            return 0;
        }
        for (int i = 0; i < count; ++i) {
            hsa_signal_store_relaxed(signal, 1);
            dispatch(queue, increment, 1, kernarg, signal);
            wait_for_signal(signal);
            EXPECT(hsa_signal_load_relaxed(signal) == 0, "the signal is %ld", hsa_signal_load_relaxed(signal));
            print_times(signal);
        }
        CHECK(hsa_signal_destroy(signal));
    } else if (!strcmp(mode, "times")) {
        // Looked at by a poll without the runtime, the moment that the value changes.
        hsa_signal_t signal = signal_of(0);
        volatile amd_signal_t* memory = (volatile amd_signal_t*)signal.handle;
        uint64_t last = 0;
        for (int i = 0; i < count; ++i) {
            hsa_signal_store_screlease(signal, 1);
            dispatch(queue, increment, 1, kernarg, signal);
            while (__atomic_load_n(&memory->value, __ATOMIC_ACQUIRE)) sched_yield();
            uint64_t start_ticks = memory->start_ts, end_ticks = memory->end_ts;
            EXPECT(start_ticks > last && end_ticks > start_ticks, "kernel %d: times %lu %lu", i, start_ticks, end_ticks);
            last = end_ticks;
            printf("done %lu %lu\n", start_ticks, end_ticks);
        }
        CHECK(hsa_signal_destroy(signal));
    } else {
        EXPECT(false, "no mode %s", mode);
    }
    for (int i = 0; i < 2; ++i) drain(queues[i]);
    EXPECT(words[0] == expected && words[63] == expected, "%u of %u kernels ran", words[0], expected);
    printf("PASS\n");
    for (int i = 0; i < 2; ++i) CHECK(hsa_queue_destroy(queues[i]));
    CHECK(hsa_shut_down());
    return 0;
}
