// Barrier packets: dependencies on host signals and between queues, AND and OR, and what overlaps without the barrier bit.
#include "hsa_check.h"

static uint32_t* words;
static uint32_t** kernarg;

// True when a signal is not 0 for a tenth of a second. What is to complete is waited for without a limit of our own.
static bool stays(hsa_signal_t signal) {
    for (int i = 0; i < 100; ++i) {
        if (hsa_signal_load_scacquire(signal) == 0) return false;
        usleep(1000);
    }
    return true;
}

int main(void) {
    start();
    load();
    hsa_queue_t* first = queue_of(64, NULL, NULL);
    hsa_queue_t* second = queue_of(64, NULL, NULL);
    words = allocate(host, 64 * sizeof(uint32_t));
    kernarg = allocate(kernarg_pool, sizeof(void*));
    *kernarg = words;

    // A kernel behind a barrier that waits for the host.
    hsa_signal_t gate = signal_of(1), done = signal_of(1);
    barrier(first, HSA_PACKET_TYPE_BARRIER_AND, &gate, 1, NO_SIGNAL);
    dispatch(first, kernel("increment"), 1, kernarg, done);
    EXPECT(stays(done) && words[0] == 0, "a kernel ran before its barrier was satisfied");
    hsa_signal_store_screlease(gate, 0);
    wait_for_signal(done);
    EXPECT(words[0] == 1, "the kernel behind the barrier did not run");

    // A barrier on another queue's kernel, whose completion signal the GPU itself decrements.
    hsa_signal_t other = signal_of(1);
    hsa_signal_store_relaxed(done, 1);
    barrier(second, HSA_PACKET_TYPE_BARRIER_AND, &other, 1, NO_SIGNAL);
    dispatch(second, kernel("tally"), 1, kernarg, done);
    barrier(first, HSA_PACKET_TYPE_BARRIER_AND, NULL, 0, NO_SIGNAL);
    dispatch(first, kernel("increment"), 1, kernarg, other);
    wait_for_signal(done);
    EXPECT(words[0] == 3, "the second queue did not wait for the first: %u", words[0]);

    // One of several is enough for OR, and not for AND.
    hsa_signal_t pair[2] = {signal_of(1), signal_of(1)};
    hsa_signal_t any = signal_of(1), all = signal_of(1);
    barrier(first, HSA_PACKET_TYPE_BARRIER_OR, pair, 2, any);
    barrier(second, HSA_PACKET_TYPE_BARRIER_AND, pair, 2, all);
    EXPECT(stays(any), "an OR barrier completed with no signal at zero");
    hsa_signal_store_screlease(pair[1], 0);
    wait_for_signal(any);
    EXPECT(stays(all), "an AND barrier completed with one signal above zero");
    hsa_signal_store_screlease(pair[0], 0);
    wait_for_signal(all);

    // Without the barrier bit a short kernel overtakes a long one; with it, it waits.
    for (int bit = 0; bit < 2; ++bit) {
        uint32_t* flag = allocate(host, sizeof(uint32_t));
        void* flag_kernarg = kernarg_of(flag);
        hsa_signal_t long_done = signal_of(1), short_done = signal_of(1);
        dispatch(first, kernel("wait_for"), 1, flag_kernarg, long_done);
        hsa_kernel_dispatch_packet_t packet = packet_of(kernel("increment"), 1, kernarg, short_done);
        submit(first, &packet, header_of(HSA_PACKET_TYPE_KERNEL_DISPATCH, bit));
        if (bit) {
            EXPECT(stays(short_done), "a kernel with the barrier bit overtook another");
        } else {
            wait_for_signal(short_done);
        }
        *(volatile uint32_t*)flag = 1;
        wait_for_signal(long_done);
        wait_for_signal(short_done);
    }
    printf("PASS\n");
    CHECK(hsa_queue_destroy(first));
    CHECK(hsa_queue_destroy(second));
    CHECK(hsa_shut_down());
    return 0;
}
