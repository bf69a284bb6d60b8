// What hardware does to programs that expect too much of it.
//   unkind vram|userptr|stale|profiling|destroyed
#include "hsa_check.h"

int main(int argc, char** argv) {
    EXPECT(argc == 2, "usage: unkind vram|userptr|stale|profiling|destroyed");
    const char* mode = argv[1];
    start();
    load();
    hsa_queue_t* queue = queue_of(64, NULL, NULL);
    uint32_t** kernarg = allocate(kernarg_pool, sizeof(void*));

    if (!strcmp(mode, "vram")) {
        // Memory of the device that nobody asked to see from the host.
        volatile uint32_t* memory = allocate(vram, 4096);
        printf("about to read\n");
        fflush(stdout);
        printf("read %u\n", memory[0]);
    } else if (!strcmp(mode, "userptr")) {
        // A page of the host that is registered: the GPU reaches it at the address that it is told.
        uint32_t* page = aligned_alloc(4096, 4096);
        memset(page, 0, 4096);
        void* for_gpu = NULL;
        CHECK(hsa_amd_memory_lock(page, 4096, &gpu, 1, &for_gpu));
        *kernarg = for_gpu;
        dispatch(queue, kernel("increment"), 1, kernarg, NO_SIGNAL);
        drain(queue);
        EXPECT(page[0] == 1 && page[63] == 1 && page[64] == 0, "registered memory has %u %u %u", page[0], page[63], page[64]);
        CHECK(hsa_amd_memory_unlock(page));
    } else if (!strcmp(mode, "stale")) {
        // A ring that has gone round once has old packets in it, their headers invalid. Whoever makes one valid again and
        // rings too far has it executed, whatever the write index says.
        uint32_t* words = allocate(host, 64 * sizeof(uint32_t));
        *kernarg = words;
        for (int i = 0; i < 64; ++i) dispatch(queue, kernel("increment"), 1, kernarg, NO_SIGNAL);
        drain(queue);
        EXPECT(words[0] == 64, "%u of 64 kernels ran", words[0]);
        uint64_t next = hsa_queue_load_write_index_relaxed(queue);
        uint32_t* slot = (uint32_t*)((char*)queue->base_address + 64 * (next & (queue->size - 1)));
        __atomic_store_n((uint16_t*)slot, header_of(HSA_PACKET_TYPE_KERNEL_DISPATCH, true), __ATOMIC_RELEASE);
        hsa_signal_store_screlease(queue->doorbell_signal, (hsa_signal_value_t)next);
        for (int i = 0; i < 1000 && *(volatile uint32_t*)words == 64; ++i) usleep(1000);
        EXPECT(words[0] == 65, "a stale packet was not executed: %u", words[0]);
    } else if (!strcmp(mode, "profiling")) {
        // Asked for after the first packet, times come too late.
        hsa_signal_t done = signal_of(1);
        dispatch(queue, kernel("empty"), 1, NULL, done);
        wait_for_signal(done);
        CHECK(hsa_amd_profiling_set_profiler_enabled(queue, 1));
        hsa_signal_store_relaxed(done, 1);
        dispatch(queue, kernel("empty"), 1, NULL, done);
        wait_for_signal(done);
        uint64_t start_ticks, end_ticks;
        ticks_of(done, &start_ticks, &end_ticks);
        printf("ticks %lu %lu\n", start_ticks, end_ticks);
    } else if (!strcmp(mode, "destroyed")) {
        // When a queue is gone its kernel does not run any more, and the memory that it wrote is the application's again.
        enum { GROUPS = 4, ROUNDS = 5 };
        volatile uint32_t* words = allocate(host, GROUPS * sizeof(uint32_t));
        *kernarg = (uint32_t*)words;
        for (int round = 0; round < ROUNDS; ++round) {
            hsa_queue_t* other = queue_of(64, NULL, NULL);
            memset((void*)words, 0, GROUPS * sizeof(uint32_t));
            dispatch(other, kernel("count_on"), GROUPS, kernarg, NO_SIGNAL);
            for (int i = 0; i < GROUPS; ++i)
                while (!words[i]) usleep(100);
            CHECK(hsa_queue_destroy(other));
            uint32_t left[GROUPS];
            memcpy(left, (void*)words, sizeof left);
            usleep(10000);
            EXPECT(!memcmp(left, (void*)words, sizeof left), "round %d: a kernel of a queue that is gone wrote", round);
        }
    } else {
        EXPECT(false, "no mode %s", mode);
    }
    printf("PASS\n");
    CHECK(hsa_queue_destroy(queue));
    CHECK(hsa_shut_down());
    return 0;
}
