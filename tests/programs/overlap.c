// Kernels that end only if they run at the same time.
//   overlap queue|queues|behind N [signal]
//     queue   N packets of one queue without the barrier bit
//     queues  one packet in each of N queues, with the barrier bit
//     behind  N short kernels without the barrier bit behind one that runs until all of them are done
#include "hsa_check.h"

int main(int argc, char** argv) {
    EXPECT(argc >= 3, "usage: overlap queue|queues|behind N [signal]");
    const char* mode = argv[1];
    const int count = atoi(argv[2]);
    const bool with_signal = argc > 3, in_queues = !strcmp(mode, "queues");
    start();
    load();
    hsa_queue_t* queues[16];
    const int made = in_queues ? count : 1;
    EXPECT(made <= 16, "%d queues", made);
    for (int i = 0; i < made; ++i) queues[i] = queue_of(64, NULL, NULL);
    uint32_t* words = allocate(host, 64 * sizeof(uint32_t));
    uint32_t** kernarg = allocate(kernarg_pool, 2 * sizeof(void*));
    *kernarg = words;
    words[1] = (uint32_t)count;
    hsa_signal_t done = with_signal ? signal_of(count) : NO_SIGNAL;
    if (!strcmp(mode, "behind")) {
        // The long kernel waits for a count that only the short ones reach.
        words[1] = (uint32_t)count + 1;
        dispatch(queues[0], kernel("meet"), 1, kernarg, NO_SIGNAL);
    }
    hsa_kernel_dispatch_packet_t packet =
        packet_of(kernel(!strcmp(mode, "behind") ? "tally" : "meet"), 1, kernarg, done);
    for (int i = 0; i < count; ++i) {
        submit(queues[in_queues ? i : 0], &packet, header_of(HSA_PACKET_TYPE_KERNEL_DISPATCH, in_queues));
    }
    for (int i = 0; i < made; ++i) drain(queues[i]);
    EXPECT(words[0] == words[1], "%u of %u kernels ran", words[0], words[1]);
    if (with_signal) wait_for_signal(done);
    printf("PASS\n");
    for (int i = 0; i < made; ++i) CHECK(hsa_queue_destroy(queues[i]));
    CHECK(hsa_shut_down());
    return 0;
}
