// Batches of copies, by the function which a tool of the tests adds behind the runtime's table, as later runtimes have it. A
// thread fills an array again and again, both halves in one batch, while kernels run. Another batch, which waits for every
// other kernel, copies what it has computed to the host and what the next one works on to the GPU.
//   batch_copies COUNT
#include <dlfcn.h>
#include <pthread.h>

#include "copy_operation.h"
#include "hsa_check.h"

static hsa_status_t (*batch_copy)(const struct copy_operation*, uint32_t, uint32_t, const hsa_signal_t*);
static hsa_status_t (*pool_allocate)(hsa_amd_memory_pool_t, size_t, uint32_t, void**);

static void* entry(const char* name) {
    void* library = dlopen(getenv("TEST_LATER"), RTLD_NOW);
    void* function = library ? dlsym(library, name) : NULL;
    EXPECT(function, "no %s", name);
    return function;
}

// The tools that came after the table see these calls, but not those of the exported functions.
static void* allocate_seen(hsa_amd_memory_pool_t pool, size_t size) {
    void* memory = NULL;
    CHECK(pool_allocate(pool, size, 0, &memory));
    if (pool.handle != vram.handle) CHECK(hsa_amd_agents_allow_access(1, &gpu, NULL, memory));
    return memory;
}

static struct copy_operation operation_of(void* to, hsa_agent_t to_agent, void* from, hsa_agent_t from_agent, size_t size) {
    struct copy_operation operation = {0};
    operation.completion = signal_of(1);
    operation.from = from, operation.from_agent = from_agent;
    operation.to = to, operation.to_agent = to_agent;
    operation.size = size;
    return operation;
}

static void finish(const struct copy_operation* operations, int count) {
    for (int n = 0; n < count; n++) {
        wait_for_signal(operations[n].completion);
        CHECK(hsa_signal_destroy(operations[n].completion));
    }
}

enum { WORDS = 1 << 16 };

static unsigned *filled, *pattern;
static volatile bool stop;

static void* fill_array(void* unused) {
    for (unsigned round = 1; !stop; round++) {
        for (int i = 0; i < WORDS; i++) pattern[i] = round;
        struct copy_operation halves[2];
        for (int n = 0; n < 2; n++) {
            const size_t half = WORDS / 2;
            halves[n] = operation_of(filled + n * half, gpu, pattern + n * half, cpu, half * sizeof *pattern);
        }
        CHECK(batch_copy(halves, 2, 0, NULL));
        finish(halves, 2);
    }
    return unused;
}

int main(int argc, char** argv) {
    const int count = argc > 1 ? atoi(argv[1]) : 3;
    start();
    load();
    batch_copy = entry("later_batch_copy");
    pool_allocate = entry("later_pool_allocate");
    filled = allocate_seen(vram, WORDS * sizeof *filled);
    // Its pages may be written while memory is captured, so that they are not in the capture.
    pattern = allocate(host, WORDS * sizeof *pattern);
    pthread_t thread;
    pthread_create(&thread, NULL, fill_array, NULL);
    hsa_queue_t* queue = queue_of(64, NULL, NULL);
    enum { BYTES = 64 * sizeof(unsigned) };
    unsigned* words[2] = {allocate_seen(vram, BYTES), allocate_seen(vram, BYTES)};
    unsigned *results = allocate(host, BYTES), *inputs = allocate(host, BYTES);
    struct copy_operation input = operation_of(words[0], gpu, inputs, cpu, BYTES);
    CHECK(batch_copy(&input, 1, 0, NULL));
    finish(&input, 1);
    void* kernarg[2] = {kernarg_of(words[0]), kernarg_of(words[1])};
    for (int n = 0; n < count; n++) {
        for (unsigned i = 0; i < 64; i++) inputs[i] = 1000 * (n + 1) + i;
        hsa_signal_t done = signal_of(1);
        unsigned *now = words[n % 2], *next = words[(n + 1) % 2];
        struct copy_operation both[2] = {operation_of(results, cpu, now, gpu, BYTES), operation_of(next, gpu, inputs, cpu, BYTES)};
        dispatch(queue, kernel("increment"), 1, kernarg[n % 2], done);
        // While a kernel is held for a capture, copies that wait for it are in the way of all others of their engines.
        if (n % 2) wait_for_signal(done);
        CHECK(batch_copy(both, 2, 1, &done));
        finish(both, 2);
        const unsigned base = n ? 1000 * n : 0;
        for (unsigned i = 0; i < 64; i++) {
            const unsigned expected = (n ? base + i : 0) + 1;
            EXPECT(results[i] == expected, "dispatch %d: word %u is %u, not %u", n, i, results[i], expected);
        }
        CHECK(hsa_signal_destroy(done));
    }
    stop = true;
    pthread_join(thread, NULL);
    printf("PASS\n");
    CHECK(hsa_shut_down());
    return 0;
}
