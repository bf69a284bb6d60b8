// A queue whose packets a kernel writes, as graphs that are scheduled by the GPU.
//   resident after|before|around COUNT
//     after   the host reserves the slots, and rings the doorbell when they are written
//     before  it rings the doorbell first
//     around  the kernel adds to the queue's own write index, and the host writes the doorbell itself
#include "hsa_check.h"

int main(int argc, char** argv) {
    EXPECT(argc == 3, "usage: resident after|before|around COUNT");
    const char* mode = argv[1];
    const uint64_t count = strtoul(argv[2], NULL, 10);
    start();
    load();
    hsa_queue_t* writer = queue_of(64, NULL, NULL);
    hsa_queue_t* queue = queue_of(64, NULL, NULL);
    EXPECT(count <= 32, "more packets than the ring has room for");
    uint32_t* word = allocate(host, 4096);
    char* kernargs = allocate(kernarg_pool, 4096);
    *(uint32_t**)kernargs = word;
    hsa_kernel_dispatch_packet_t* packets = allocate(host, 64 * count);
    for (uint64_t n = 0; n < count; n++) {
        packets[n] = packet_of(kernel("tally"), 1, kernargs, NO_SIGNAL);
        packets[n].header = header_of(HSA_PACKET_TYPE_KERNEL_DISPATCH, true);
    }
    struct {
        const void* from;
        void* slots;
        uint64_t count;
        volatile uint64_t* index;
    } arguments = {packets, queue->base_address, count, NULL};
    const bool around = !strcmp(mode, "around");
    if (around) arguments.index = &((amd_queue_t*)queue)->write_dispatch_id;
    memcpy(kernargs + 256, &arguments, sizeof arguments);
    if (!around) {
        const uint64_t first = hsa_queue_add_write_index_screlease(queue, count);
        EXPECT(first == 0, "the first packet has number %lu", first);
    }
    if (!strcmp(mode, "before")) hsa_signal_store_screlease(queue->doorbell_signal, (hsa_signal_value_t)count - 1);
    hsa_signal_t done = signal_of(1);
    dispatch(writer, kernel("write_packets"), 1, kernargs + 256, done);
    wait_for_signal(done);
    if (!strcmp(mode, "after")) hsa_signal_store_screlease(queue->doorbell_signal, (hsa_signal_value_t)count - 1);
    if (around) {
        const amd_signal_t* doorbell = (const amd_signal_t*)queue->doorbell_signal.handle;
        __atomic_store_n(doorbell->hardware_doorbell_ptr, count - 1, __ATOMIC_RELEASE);
    }
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) < count) usleep(100);
    usleep(10000);
    EXPECT(*word == count, "%u of %lu packets were executed", *word, count);
    CHECK(hsa_queue_destroy(queue));
    CHECK(hsa_queue_destroy(writer));
    printf("PASS\n");
    CHECK(hsa_shut_down());
    return 0;
}
