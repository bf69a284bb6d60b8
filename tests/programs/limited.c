// Dispatches N times under a limit of the size of files, which is set when the runtime has been started.
//   limited N BYTES
#include <sys/resource.h>

#include "hsa_check.h"

int main(int argc, char** argv) {
    EXPECT(argc == 3, "usage: limited N BYTES");
    const int count = atoi(argv[1]);
    start();
    load();
    hsa_queue_t* queue = queue_of(1024, NULL, NULL);
    uint32_t* words = allocate(host, 64 * sizeof(uint32_t));
    void* kernarg = kernarg_of(words);
    const uint64_t increment = kernel("increment");
    const struct rlimit limit = {atol(argv[2]), atol(argv[2])};
    EXPECT(!setrlimit(RLIMIT_FSIZE, &limit), "the limit cannot be set");
    for (int i = 0; i < count; ++i) dispatch(queue, increment, 1, kernarg, NO_SIGNAL);
    drain(queue);
    EXPECT(words[0] == (uint32_t)count, "%u instead of %d", words[0], count);
    CHECK(hsa_queue_destroy(queue));
    CHECK(hsa_shut_down());
    printf("PASS\n");
    return 0;
}
