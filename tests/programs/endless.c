// Dispatches until it is killed, or ends without any destructor.
//   endless kill N        for ever, N dispatches at a time, on two queues
//   endless _exit|abort|segv N    N dispatches; the end comes while the last of them may run
//   endless exec N        N dispatches, then the same program in the same process: endless again N
#include "hsa_check.h"

#include <signal.h>

int main(int argc, char** argv) {
    EXPECT(argc == 3, "usage: endless kill|_exit|abort|segv|exec|again N");
    const char* mode = argv[1];
    const int count = atoi(argv[2]);
    start();
    load();
    hsa_queue_t* queues[2] = {queue_of(256, NULL, NULL), queue_of(256, NULL, NULL)};
    uint32_t* words = allocate(host, 64 * sizeof(uint32_t));
    void* kernarg = kernarg_of(words);
    const uint64_t increment = kernel("increment");
    uint32_t number = 0;
    do {
        for (int i = 0; i < count; ++i) {
            hsa_signal_t done = NO_SIGNAL;
            // The first one, too: a capture of it is whole then.
            if (i % 8 == 7 || number == 0) done = signal_of(1);
            // No two dispatches are alike: each asks for another amount of LDS.
            hsa_kernel_dispatch_packet_t packet = packet_of(increment, 1, kernarg, done);
            packet.group_segment_size = number++ % 60000;
            submit(queues[i & 1], &packet, header_of(HSA_PACKET_TYPE_KERNEL_DISPATCH, true));
            if (done.handle) {
                wait_for_signal(done);
                CHECK(hsa_signal_destroy(done));
            }
        }
    } while (!strcmp(mode, "kill"));
    printf("PASS\n");
    fflush(stdout);
    if (!strcmp(mode, "_exit")) _exit(0);
    if (!strcmp(mode, "abort")) abort();
    if (!strcmp(mode, "segv")) raise(SIGSEGV);
    if (!strcmp(mode, "exec")) execl("/proc/self/exe", argv[0], "again", argv[2], NULL);
    drain(queues[0]);
    drain(queues[1]);
    return 0;
}
