// Two buffers in the GPU's memory: kernels that are captured work in the first, and a story happens to the second between them.
// Prints where the second is, and the words that it has then.
// With "reached", a kernel writes the second one before.
//   untouched STORY [reached]
#include "hsa_check.h"

#include <sys/wait.h>

enum { WORDS = 1 << 18 };

static unsigned *first, *second, *words;
static hsa_queue_t *queue, *other, *third;

static void copy_later(void* to, const void* from, int count, const hsa_signal_t* on, hsa_signal_t done) {
    CHECK(hsa_amd_memory_async_copy(to, gpu, from, gpu, WORDS * sizeof *words, (unsigned)count, on, done));
}

static void copy(void* to, const void* from) {
    hsa_signal_t done = signal_of(1);
    copy_later(to, from, 0, NULL, done);
    wait_for_signal(done);
    CHECK(hsa_signal_destroy(done));
}

static unsigned* buffer(void) { return allocate(vram, WORDS * sizeof *words); }

static void set(unsigned from) {
    for (unsigned i = 0; i < WORDS; i++) words[i] = i * 2654435761u + from;
}

static void run(hsa_queue_t* on, const char* name, void* where, unsigned workgroups) {
    hsa_signal_t done = signal_of(1);
    dispatch(on, kernel(name), workgroups, kernarg_of(where), done);
    wait_for_signal(done);
    CHECK(hsa_signal_destroy(done));
}

static void captured(void) { run(queue, "increment", first, WORDS / 64); }

// Two kernels that end together: a capture of the first one holds the second one until it gives up.
static void meet(void) {
    hsa_signal_t done = signal_of(2);
    dispatch(other, kernel("meet"), 1, kernarg_of(second), done);
    dispatch(third, kernel("meet"), 1, kernarg_of(second), done);
    wait_for_signal(done);
}

// What another process does with memory of this one's.
static void neighbour(int in, int out) {
    hsa_amd_ipc_memory_t handle;
    EXPECT(read(in, &handle, sizeof handle) == sizeof handle, "read");
    start();
    void* memory;
    CHECK(hsa_amd_ipc_memory_attach(&handle, WORDS * sizeof *words, 1, &gpu, &memory));
    words = allocate(host, WORDS * sizeof *words);
    set(9);
    char go;
    EXPECT(write(out, "", 1) == 1 && read(in, &go, 1) == 1, "pipe");
    copy(memory, words);
    EXPECT(write(out, "", 1) == 1, "write");
    exit(0);
}

int main(int argc, char** argv) {
    EXPECT(argc == 2 || argc == 3, "usage: untouched STORY [reached]");
    const char* story = argv[1];
#define IS(name) (strcmp(story, name) == 0)
    int there[2], back[2];
    char said;
    if (IS("process")) {
        EXPECT(pipe(there) == 0 && pipe(back) == 0, "pipe");
        if (fork() == 0) {
            close(there[1]);
            unsetenv("HSA_TOOLS_LIB");
            neighbour(there[0], back[1]);
        }
        close(back[1]);
    }
    start();
    load();
    queue = queue_of(64, NULL, NULL), other = queue_of(64, NULL, NULL), third = queue_of(64, NULL, NULL);
    words = allocate(host, WORDS * sizeof *words);
    first = buffer(), second = buffer();
    set(1);
    copy(first, words), copy(second, words);
    if (argc == 3) run(queue, "write_to", second, WORDS / 64);
    const unsigned together[2] = {0, 2};
    if (IS("failed")) {
        memcpy(words, together, sizeof together);
        copy(second, words);
    }
    if (IS("process")) {
        hsa_amd_ipc_memory_t handle;
        CHECK(hsa_amd_ipc_memory_create(second, WORDS * sizeof *words, &handle));
        EXPECT(write(there[1], &handle, sizeof handle) == sizeof handle && read(back[0], &said, 1) == 1, "pipe");
    }
    hsa_signal_t go = signal_of(1), done = signal_of(1);
    // Nobody sets the signal of the last one.
    if (IS("waiting kernel") || IS("signal that never comes")) {
        barrier(other, HSA_PACKET_TYPE_BARRIER_AND, &go, 1, NO_SIGNAL);
        dispatch(other, kernel("write_to"), WORDS / 64, kernarg_of(second), done);
    }
    unsigned* source = allocate(host, WORDS * sizeof *words);
    for (unsigned i = 0; i < WORDS; i++) source[i] = i * 7 + 5;
    if (IS("waiting copy")) copy_later(second, source, 1, &go, done);

    captured();
    if (IS("barrier")) drain(other), drain(queue);
    if (IS("kernel")) run(queue, "write_to", second, WORDS / 64);
    if (IS("other queue")) run(other, "write_to", second, WORDS / 64);
    if (IS("queue that goes")) {
        hsa_queue_t* brief = queue_of(64, NULL, NULL);
        run(brief, "write_to", second, WORDS / 64);
        CHECK(hsa_queue_destroy(brief));
    }
    if (IS("copy")) copy(second, source);
    if (IS("memory copy")) CHECK(hsa_memory_copy(second, source, WORDS * sizeof *words));
    if (IS("fill")) CHECK(hsa_amd_memory_fill(second, 0x01020304, WORDS));
    if (IS("host"))
        for (unsigned i = 0; i < WORDS; i++) ((volatile unsigned*)second)[i] = i + 3;
    if (IS("waiting kernel") || IS("waiting copy")) {
        hsa_signal_store_screlease(go, 0);
        wait_for_signal(done);
    }
    if (IS("allocated again")) {
        // Nothing writes it: it has what new memory has.
        const unsigned* before = second;
        CHECK(hsa_amd_memory_pool_free(second));
        second = buffer();
        EXPECT(second == before, "it is elsewhere: %p and %p", (void*)second, (const void*)before);
    }
    if (IS("failed")) meet();
    if (IS("process")) {
        EXPECT(write(there[1], "", 1) == 1 && read(back[0], &said, 1) == 1, "pipe");
        wait(NULL);
    }
    captured();

    copy(words, second);
    printf("%p %u %u %u\n", (void*)second, words[0], words[1], words[WORDS - 1]);
    printf("PASS\n");
    CHECK(hsa_shut_down());
    return 0;
}
