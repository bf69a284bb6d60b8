// Queues that come by functions which a tool of the tests adds behind the runtime's table, as later runtimes have them.
//   late_queues created|only|counted|used COUNT
//     created  by a function that makes queues as hsa_queue_create does
//     only     the same, and the process has no other queue
//     counted  by hsa_amd_counted_queue_acquire
//     used     as created, but with a packet in it that nobody has seen
#include <dlfcn.h>

#include "hsa_check.h"

static void* entry(const char* name) {
    void* library = dlopen(getenv("TEST_LATER"), RTLD_NOW);
    void* function = library ? dlsym(library, name) : NULL;
    EXPECT(function, "no %s", name);
    return function;
}

int main(int argc, char** argv) {
    const char* mode = argc > 1 ? argv[1] : "created";
    const int count = argc > 2 ? atoi(argv[2]) : 20;
    start();
    load();
    hsa_queue_t* queue = NULL;
    if (!strcmp(mode, "counted")) {
        hsa_status_t (*acquire)(hsa_agent_t, hsa_queue_type32_t, int, void*, void*, uint64_t, hsa_queue_t**) = entry("later_acquire");
        CHECK(acquire(gpu, HSA_QUEUE_TYPE_MULTI, 0, NULL, NULL, 0, &queue));
    } else {
        hsa_status_t (*create)(hsa_agent_t, uint32_t, bool, hsa_queue_t**) = entry("later_create");
        CHECK(create(gpu, 64, !strcmp(mode, "used"), &queue));
    }
    unsigned* words = allocate(host, 64 * sizeof *words);
    void** kernarg = allocate(kernarg_pool, 4096);
    *kernarg = words;
    for (int n = 0; n < count; n++) {
        hsa_signal_t done = signal_of(1);
        dispatch(queue, kernel("increment"), 1, kernarg, done);
        wait_for_signal(done);
        CHECK(hsa_signal_destroy(done));
    }
    for (unsigned i = 0; i < 64; i++) EXPECT(words[i] == (unsigned)count, "word %u is %u", i, words[i]);
    if (!strcmp(mode, "counted")) {
        hsa_status_t (*release)(hsa_queue_t*) = entry("later_release");
        CHECK(release(queue));
    } else {
        CHECK(hsa_queue_destroy(queue));
    }
    if (!strcmp(mode, "only")) {
        printf("PASS\n");
        return 0;
    }
    // Another one at the same address, maybe.
    queue = queue_of(64, NULL, NULL);
    hsa_signal_t done = signal_of(1);
    dispatch(queue, kernel("increment"), 1, kernarg, done);
    wait_for_signal(done);
    printf("PASS\n");
}
