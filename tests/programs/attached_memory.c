// Memory of another process: a child gives it away, and the parent's kernel works in it.
#include "hsa_check.h"

#include <sys/wait.h>

// A page: no other length than the allocation's is taken.
enum { WORDS = 1024 };

static void copy(void* to, const void* from, size_t bytes) {
    hsa_signal_t done = signal_of(1);
    CHECK(hsa_amd_memory_async_copy(to, gpu, from, gpu, bytes, 0, NULL, done));
    wait_for_signal(done);
    CHECK(hsa_signal_destroy(done));
}

// Whole messages only.
static void give(int pipe, const void* bytes, size_t size) { EXPECT(write(pipe, bytes, size) == (ssize_t)size, "write"); }
static void take(int pipe, void* bytes, size_t size) { EXPECT(read(pipe, bytes, size) == (ssize_t)size, "read"); }

// Gives words away, and looks at them when the other is done with them.
static void owner(int to, int from) {
    start();
    unsigned* words = allocate(host, WORDS * sizeof *words);
    for (unsigned i = 0; i < WORDS; i++) words[i] = 7 * i + 1;
    unsigned* memory = allocate(vram, WORDS * sizeof *words);
    copy(memory, words, WORDS * sizeof *words);
    hsa_amd_ipc_memory_t handle;
    CHECK(hsa_amd_ipc_memory_create(memory, WORDS * sizeof *words, &handle));
    give(to, &handle, sizeof handle);
    char done;
    take(from, &done, 1);
    copy(words, memory, WORDS * sizeof *words);
    for (unsigned i = 0; i < WORDS; i++) EXPECT(words[i] == 7 * i + 2, "word %u is %u", i, words[i]);
    CHECK(hsa_shut_down());
    exit(0);
}

int main(void) {
    int there[2], back[2];
    EXPECT(pipe(there) == 0 && pipe(back) == 0, "pipe");
    const pid_t child = fork();
    EXPECT(child >= 0, "fork");
    if (child == 0) {
        // A parent that is gone is not waited for. What the child does is not looked at.
        close(back[1]);
        unsetenv("HSA_TOOLS_LIB");
        owner(there[1], back[0]);
    }
    // A child that is gone is not waited for.
    close(there[1]);
    hsa_amd_ipc_memory_t handle;
    take(there[0], &handle, sizeof handle);

    start();
    load();
    void* memory = NULL;
    CHECK(hsa_amd_ipc_memory_attach(&handle, WORDS * sizeof(unsigned), 1, &gpu, &memory));
    hsa_queue_t* queue = queue_of(64, NULL, NULL);
    void** kernarg = allocate(kernarg_pool, 4096);
    *kernarg = memory;
    hsa_signal_t done = signal_of(1);
    dispatch(queue, kernel("increment"), WORDS / 64, kernarg, done);
    wait_for_signal(done);
    CHECK(hsa_amd_ipc_memory_detach(memory));
    give(back[1], "", 1);
    int status;
    EXPECT(waitpid(child, &status, 0) == child && status == 0, "the child ended with %#x", status);
    printf("PASS\n");
}
