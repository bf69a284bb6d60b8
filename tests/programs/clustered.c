// Dispatches in the format that gfx1250 takes: workgroups in clusters. Source of the layout: hsa_ext_amd.h, since step 0x0D.
//   clustered COUNT
#include "hsa_check.h"

typedef struct {
    uint16_t header;
    uint8_t amd_format, setup;
    uint16_t workgroup_size[3], reserved;
    uint32_t cluster_count_x;
    uint16_t cluster_count_y, cluster_count_z;
    uint8_t cluster_size[3], hint;
    uint32_t private_segment_size, group_segment_size;
    uint64_t kernel_object;
    void* kernarg_address;
    hsa_signal_t dependency, completion_signal;
} extended_dispatch_t;

_Static_assert(sizeof(extended_dispatch_t) == 64, "a packet has 64 bytes");

int main(int argc, char** argv) {
    const int count = argc > 1 ? atoi(argv[1]) : 4;
    // Three clusters of two workgroups.
    enum { WORDS = 3 * 2 * 64 };
    start();
    load();
    hsa_queue_t* queue = queue_of(64, NULL, NULL);
    uint32_t* words = allocate(host, WORDS * sizeof *words);
    extended_dispatch_t packet = {.amd_format = 3, .setup = 1, .workgroup_size = {64, 1, 1}, .cluster_count_x = 3,
                                  .cluster_count_y = 1, .cluster_count_z = 1, .cluster_size = {2, 1, 1},
                                  .kernel_object = kernel("increment"), .kernarg_address = kernarg_of(words)};
    hsa_signal_t gate = signal_of(1);
    packet.dependency = gate;
    for (int n = 0; n < count; ++n) {
        // With a signal of its own, and without one.
        packet.completion_signal = n % 2 ? signal_of(1) : NO_SIGNAL;
        submit(queue, &packet, header_of(HSA_PACKET_TYPE_VENDOR_SPECIFIC, true));
    }
    hsa_signal_store_screlease(gate, 0);
    drain(queue);
    for (int i = 0; i < WORDS; ++i) EXPECT(words[i] == (uint32_t)count, "word %d is %u", i, words[i]);
    printf("PASS\n");
    CHECK(hsa_queue_destroy(queue));
    CHECK(hsa_shut_down());
    return 0;
}
