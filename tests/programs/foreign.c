// A producer that knows what is behind the runtime's functions: it writes the queue's write index and the doorbell itself.
//   foreign always|after|between|doorbell|private|none
//     after    from the middle on
//     doorbell only the doorbell: HIP's DEBUG_CLR_DIRECT_DOORBELL
//     private  neither, but slots are reserved by a counter of its own, which is stored by the runtime's function
//     between  in turn with a producer that uses the runtime's functions, each waiting for the other
//     none     no kernel at all, only a barrier packet by the runtime's functions
#include "hsa_check.h"

#include <sched.h>

enum { PACKETS = 300 };

static void ring_around(hsa_queue_t* queue, uint64_t index) {
    const amd_signal_t* doorbell = (const amd_signal_t*)queue->doorbell_signal.handle;
    EXPECT(doorbell->kind == AMD_SIGNAL_KIND_DOORBELL, "a doorbell of kind %ld", (long)doorbell->kind);
    __atomic_store_n(doorbell->hardware_doorbell_ptr, index, __ATOMIC_RELEASE);
}

// Gives a packet to the GPU without the runtime.
static void submit_around(hsa_queue_t* queue, const hsa_kernel_dispatch_packet_t* packet) {
    amd_queue_t* amd = (amd_queue_t*)queue;
    volatile uint64_t* written = &amd->write_dispatch_id;
    const volatile uint64_t* read = &amd->read_dispatch_id;
    const uint64_t index = __atomic_fetch_add(written, 1, __ATOMIC_ACQ_REL);
    while (index - __atomic_load_n(read, __ATOMIC_ACQUIRE) >= queue->size) sched_yield();
    fill(queue, index, packet, header_of(HSA_PACKET_TYPE_KERNEL_DISPATCH, true));
    ring_around(queue, index);
}

// Reserves a slot as the runtime's function does not.
static void submit_private(hsa_queue_t* queue, const hsa_kernel_dispatch_packet_t* packet, uint64_t index) {
    while (index - hsa_queue_load_read_index_scacquire(queue) >= queue->size) sched_yield();
    fill(queue, index, packet, header_of(HSA_PACKET_TYPE_KERNEL_DISPATCH, true));
    hsa_queue_store_write_index_screlease(queue, index + 1);
    hsa_signal_store_screlease(queue->doorbell_signal, (hsa_signal_value_t)index);
}

int main(int argc, char** argv) {
    EXPECT(argc == 2, "usage: foreign always|after|between|doorbell|private|none");
    const int packets = !strcmp(argv[1], "none") ? 0 : PACKETS;
    const bool between = !strcmp(argv[1], "between"), after = !strcmp(argv[1], "after");
    start();
    load();
    hsa_queue_t* queue = queue_of(64, NULL, NULL);
    const uint64_t tally = kernel("tally");
    uint32_t* words = allocate(host, PACKETS * sizeof(uint32_t));
    char* kernargs = allocate(kernarg_pool, PACKETS * 16);
    for (int i = 0; i < packets; ++i) {
        *(uint32_t**)(kernargs + 16 * i) = words + i;
        hsa_kernel_dispatch_packet_t packet = packet_of(tally, 1, kernargs + 16 * i, NO_SIGNAL);
        if (!strcmp(argv[1], "doorbell")) {
            const uint64_t index = reserve(queue);
            fill(queue, index, &packet, header_of(HSA_PACKET_TYPE_KERNEL_DISPATCH, true));
            ring_around(queue, index);
        } else if (!strcmp(argv[1], "private")) {
            submit_private(queue, &packet, i);
        } else if (between ? i / 10 % 2 == 0 : after && i < PACKETS / 2) {
            submit(queue, &packet, header_of(HSA_PACKET_TYPE_KERNEL_DISPATCH, true));
        } else {
            submit_around(queue, &packet);
        }
        // The two producers agree on whose turn it is, and that what the other has given away is done.
        if (i % 10 == 9) while (__atomic_load_n(words + i, __ATOMIC_ACQUIRE) == 0) sched_yield();
    }
    drain(queue);
    for (int i = 0; i < packets; ++i) EXPECT(words[i] == 1, "packet %d was executed %u times", i, words[i]);
    EXPECT(hsa_queue_load_write_index_relaxed(queue) == (uint64_t)packets + 1, "the write index is %lu", hsa_queue_load_write_index_relaxed(queue));
    printf("PASS\n");
    CHECK(hsa_queue_destroy(queue));
    CHECK(hsa_shut_down());
    return 0;
}
