// Queues that are made by hsa_amd_queue_create, several in one call, as HIP of ROCm 10 makes its own. A tool of the tests has the
// function, as later runtimes have it.
//   described_queues COUNT    dispatches COUNT kernels on each compute queue
#include <dlfcn.h>

#include "hsa_check.h"
#include "queue_description.h"

enum { QUEUES = 6 };

static hsa_status_t (*create)(hsa_agent_t, queue_description*, uint32_t);

int main(int argc, char** argv) {
    const int count = argc > 1 ? atoi(argv[1]) : 20;
    start();
    load();
    void* library = dlopen(getenv("TEST_LATER"), RTLD_NOW);
    *(void**)&create = library ? dlsym(library, "hsa_amd_queue_create") : NULL;
    EXPECT(create, "no hsa_amd_queue_create");
    EXPECT(create(gpu, NULL, 3) == HSA_STATUS_ERROR_INVALID_ARGUMENT, "no descriptions");

    queue_description d[QUEUES];
    memset(d, 0, sizeof d);
    for (int i = 0; i < QUEUES; i++) {
        d[i].version = 1;
        d[i].size = 64 * 64;
        d[i].priority = i % 3 == 0 ? HSA_AMD_QUEUE_PRIORITY_HIGH : HSA_AMD_QUEUE_PRIORITY_NORMAL;
        d[i].private_segment_size = UINT32_MAX;
        // Whatever was there.
        d[i].queue = (hsa_queue_t*)8;
    }
    const uint32_t mask[] = {0xf};
    d[0].cu_mask = mask;
    d[0].cu_mask_count = 32;
    // One that fails, a copy engine's, and one of an engine that the runtime does not know.
    d[1].size = 100;
    d[3].engine = SDMA;
    d[3].private_segment_size = 0;
    d[4].engine = AIE;
    EXPECT(create(gpu, d, QUEUES) == HSA_STATUS_ERROR_INVALID_ARGUMENT, "the first error is returned");
    EXPECT(!d[1].queue && !d[4].queue && d[3].queue, "%p %p %p", d[1].queue, d[4].queue, d[3].queue);
    // The mask is what the runtime makes of it for any queue.
    uint32_t found[1] = {0}, expected[1] = {0};
    hsa_queue_t* other = queue_of(64, NULL, NULL);
    hsa_amd_queue_cu_set_mask(other, 32, mask);
    CHECK(hsa_amd_queue_cu_get_mask(other, 32, expected));
    CHECK(hsa_amd_queue_cu_get_mask(d[0].queue, 32, found));
    EXPECT(found[0] == expected[0], "mask %x, not %x", found[0], expected[0]);
    CHECK(hsa_queue_destroy(other));
    // The application writes the packets of a copy engine's queue, and its index.
    hsa_queue_store_write_index_screlease(d[3].queue, 8192);
    const uint64_t index = ((amd_queue_t*)d[3].queue)->write_dispatch_id;
    EXPECT(index == 8192, "the index of the copy engine's queue is %llu", (unsigned long long)index);

    unsigned* words = allocate(host, 64 * sizeof *words);
    void* kernarg = kernarg_of(words);
    const int compute[] = {0, 2, 5};
    for (int n = 0; n < count; n++) {
        for (int i = 0; i < 3; i++) {
            hsa_signal_t done = signal_of(1);
            dispatch(d[compute[i]].queue, kernel("increment"), 1, kernarg, done);
            wait_for_signal(done);
            CHECK(hsa_signal_destroy(done));
        }
    }
    for (unsigned i = 0; i < 64; i++) EXPECT(words[i] == 3u * count, "word %u is %u", i, words[i]);
    for (int i = 0; i < 3; i++) CHECK(hsa_queue_destroy(d[compute[i]].queue));
    printf("PASS\n");
    CHECK(hsa_shut_down());
    return 0;
}
