// Starts the runtime, runs one kernel, shuts the runtime down; many times in one process. Another user of the runtime
// comes and goes before the kernel is launched.
#include "hsa_check.h"

int main(int argc, char** argv) {
    const int rounds = argc > 1 ? atoi(argv[1]) : 10;
    for (int i = 0; i < rounds; ++i) {
        start();
        load();
        hsa_queue_t* queue = queue_of(64, NULL, NULL);
        uint32_t* words = allocate(host, 64 * sizeof(uint32_t));
        void* kernarg = kernarg_of(words);
        CHECK(hsa_init());
        CHECK(hsa_shut_down());
        dispatch(queue, kernel("increment"), 1, kernarg, NO_SIGNAL);
        drain(queue);
        EXPECT(words[0] == 1, "round %d: %u", i, words[0]);
        CHECK(hsa_executable_destroy(executable));
        CHECK(hsa_queue_destroy(queue));
        CHECK(hsa_shut_down());
        EXPECT(hsa_shut_down() == HSA_STATUS_ERROR_NOT_INITIALIZED, "round %d: shut down twice", i);
    }
    printf("PASS\n");
    return 0;
}
