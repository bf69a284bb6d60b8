// Memory of another process: a child gives it away, and the parent's kernel works in it.
#include "hsa_check.h"
#include "two_processes.h"

// A page: no other length than the allocation's is taken. What is freed is more than the runtime cuts out of blocks.
enum { WORDS = 1024, FREED = 1 << 20 };

static void copy(void* to, const void* from, size_t bytes) {
    hsa_signal_t done = signal_of(1);
    CHECK(hsa_amd_memory_async_copy(to, gpu, from, gpu, bytes, 0, NULL, done));
    wait_for_signal(done);
    CHECK(hsa_signal_destroy(done));
}

static void expect(const unsigned* words, unsigned count, unsigned from) {
    for (unsigned i = 0; i < count; i++) {
        EXPECT(words[i] == 7 * i + from, "word %u is %u, not %u", i, words[i], 7 * i + from);
    }
}

// Memory of the GPU with words in it, which go through memory of the host.
static unsigned* filled(unsigned* words, unsigned count, unsigned from) {
    for (unsigned i = 0; i < count; i++) words[i] = 7 * i + from;
    unsigned* memory = allocate(vram, count * sizeof *words);
    copy(memory, words, count * sizeof *words);
    return memory;
}

static void give_away(int to, void* memory, unsigned count) {
    hsa_amd_ipc_memory_t handle;
    CHECK(hsa_amd_ipc_memory_create(memory, count * sizeof(unsigned), &handle));
    give(to, &handle, sizeof handle);
}

// Gives words away, and looks at them when the other is done with them.
static void owner(int to, int from) {
    start();
    unsigned* words = allocate(host, FREED * sizeof *words);
    unsigned* freed = filled(words, FREED, 3);
    unsigned* memory = filled(words, WORDS, 1);
    give_away(to, memory, WORDS);
    give_away(to, freed, FREED);
    char done;
    take(from, &done, 1);
    // The other has it still: nobody gets its place.
    CHECK(hsa_amd_memory_pool_free(freed));
    unsigned* next = filled(words, FREED, 5);
    give(to, "", 1);
    take(from, &done, 1);
    copy(words, next, FREED * sizeof *words);
    expect(words, FREED, 5);
    copy(words, memory, WORDS * sizeof *words);
    expect(words, WORDS, 2);
    CHECK(hsa_shut_down());
    exit(0);
}

static void* attach(const hsa_amd_ipc_memory_t* handle, unsigned count) {
    void* memory = NULL;
    CHECK(hsa_amd_ipc_memory_attach(handle, count * sizeof(unsigned), 1, &gpu, &memory));
    return memory;
}

int main(void) {
    const struct child child = child_of(owner);
    hsa_amd_ipc_memory_t handle, of_freed;
    take(child.from, &handle, sizeof handle);
    take(child.from, &of_freed, sizeof of_freed);

    start();
    load();
    void* memory = attach(&handle, WORDS);
    void* freed = attach(&of_freed, FREED);
    give(child.to, "", 1);
    char done_there;
    take(child.from, &done_there, 1);
    unsigned* words = allocate(host, FREED * sizeof *words);
    copy(words, freed, FREED * sizeof *words);
    expect(words, FREED, 3);
    CHECK(hsa_amd_ipc_memory_detach(freed));

    hsa_queue_t* queue = queue_of(64, NULL, NULL);
    void** kernarg = allocate(kernarg_pool, 4096);
    *kernarg = memory;
    hsa_signal_t done = signal_of(1);
    dispatch(queue, kernel("increment"), WORDS / 64, kernarg, done);
    wait_for_signal(done);
    CHECK(hsa_amd_ipc_memory_detach(memory));
    give(child.to, "", 1);
    expect_end(child);
    printf("PASS\n");
}
