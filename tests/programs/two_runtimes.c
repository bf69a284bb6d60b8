// Another HSA runtime in the process (tool_second), which starts after the one that the program uses, and ends before it.
//   two_runtimes COUNT
#include <dlfcn.h>

#include "hsa_check.h"

static void increment(hsa_queue_t* queue, void* kernarg, int count) {
    for (int n = 0; n < count; n++) {
        hsa_signal_t done = signal_of(1);
        dispatch(queue, kernel("increment"), 1, kernarg, done);
        wait_for_signal(done);
        CHECK(hsa_signal_destroy(done));
    }
}

static void call(void* library, const char* name) {
    void* function = dlsym(library, name);
    EXPECT(function, "no %s", name);
    bool (*typed)(const char*);
    memcpy(&typed, &function, sizeof typed);
    EXPECT(typed(getenv("TEST_TOOL")), "%s has no tool", name);
}

int main(int argc, char** argv) {
    const int count = argc > 1 ? atoi(argv[1]) : 20;
    start();
    load();
    hsa_queue_t* queue = queue_of(64, NULL, NULL);
    unsigned* words = allocate(host, 64 * sizeof *words);
    void* kernarg = kernarg_of(words);
    increment(queue, kernarg, count);
    void* other = dlopen(getenv("TEST_SECOND"), RTLD_NOW);
    EXPECT(other, "%s", dlerror());
    call(other, "second_start");
    increment(queue, kernarg, count);
    call(other, "second_end");
    increment(queue, kernarg, count);
    for (unsigned i = 0; i < 64; i++) EXPECT(words[i] == 3u * count, "word %u is %u", i, words[i]);
    CHECK(hsa_queue_destroy(queue));
    printf("PASS\n");
    CHECK(hsa_shut_down());
    return 0;
}
