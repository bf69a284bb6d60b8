// Each call that loads code, makes queues or moves memory, on a thread with a small stack that is painted before: how many bytes of it
// the call uses.
//   small_stacks
// One line for each call: its name and the bytes.
#include "hsa_check.h"

#include <pthread.h>
#include <sys/mman.h>

enum { STACK = 256 << 10, PAINT = 0x5a };

static char *stack, *here;
static void (*body)(void);

static void* on_thread(void* data) {
    (void)data;
    // Below this frame, what the thread itself needs at its start is left out.
    here = __builtin_frame_address(0);
    memset(stack, PAINT, (size_t)(here - stack) - 512);
    body();
    return NULL;
}

// The bytes between the deepest byte that was touched and the frame of the thread's function.
static long used_by(void (*function)(void)) {
    body = function;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, stack, STACK);
    pthread_t thread;
    EXPECT(pthread_create(&thread, &attributes, on_thread, NULL) == 0, "a thread");
    EXPECT(pthread_join(thread, NULL) == 0, "its end");
    long clean = 0;
    while (clean < STACK && stack[clean] == PAINT) clean++;
    return here - stack - clean;
}

static hsa_queue_t* queue;
static uint32_t *words, *others;
static void* kernarg;
static hsa_signal_t done;

static void init(void) { start(); }

static void create(void) {
    CHECK(hsa_queue_create(gpu, 64, HSA_QUEUE_TYPE_SINGLE, NULL, NULL, UINT32_MAX, UINT32_MAX, &queue));
}

static void allocate_both(void) {
    words = allocate(host, 4096);
    others = allocate(vram, 4096);
    kernarg = kernarg_of(words);
    done = signal_of(1);
}

static void launch(void) {
    dispatch(queue, kernel("increment"), 1, kernarg, done);
    wait_for_signal(done);
}

static void copy(void) {
    hsa_signal_store_relaxed(done, 1);
    CHECK(hsa_amd_memory_async_copy(words, cpu, others, gpu, 4096, 0, NULL, done));
    wait_for_signal(done);
}

static void free_both(void) {
    CHECK(hsa_amd_memory_pool_free(others));
    CHECK(hsa_signal_destroy(done));
}

static void destroy_queue(void) { CHECK(hsa_queue_destroy(queue)); }
static void destroy_code(void) { CHECK(hsa_executable_destroy(executable)); }
static void shut_down(void) { CHECK(hsa_shut_down()); }

static const struct {
    const char* name;
    void (*function)(void);
} CALLS[] = {
    {"init", init},         {"load", load},     {"create", create},      {"allocate", allocate_both}, {"launch", launch},
    {"copy", copy},         {"free", free_both}, {"destroy", destroy_queue}, {"unload", destroy_code},  {"shut_down", shut_down},
};

int main(void) {
    stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    EXPECT(stack != MAP_FAILED, "memory for a stack");
    for (size_t n = 0; n < sizeof CALLS / sizeof *CALLS; n++) printf("%s %ld\n", CALLS[n].name, used_by(CALLS[n].function));
    printf("PASS\n");
    return 0;
}
