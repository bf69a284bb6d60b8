// Dispatches, and ends without shutting down the runtime. Each allocation from the process's heap of the thread that ends it is a
// line on standard error: the libraries whose code is being run, the innermost first.
//   late_memory N
#define _GNU_SOURCE
#include "hsa_check.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <stdatomic.h>

void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

// The thread that ends the process.
static atomic_ulong ending;
static __thread bool is_telling;

static void tell(void) {
    void* frames[64];
    char line[4096] = "late:";
    size_t used = strlen(line);
    if (atomic_load(&ending) != pthread_self() || is_telling) return;
    is_telling = true;
    const int count = backtrace(frames, 64);
    for (int i = 0; i < count; ++i) {
        Dl_info info;
        const char* name = dladdr(frames[i], &info) && info.dli_fname ? info.dli_fname : "?";
        const char* slash = strrchr(name, '/');
        used += (size_t)snprintf(line + used, sizeof line - used, " %s", slash ? slash + 1 : name);
        if (info.dli_sname) used += (size_t)snprintf(line + used, sizeof line - used, ":%s", info.dli_sname);
        if (used > sizeof line - 300) break;
    }
    line[used++] = '\n';
    if (write(2, line, used) < 0) abort();
    is_telling = false;
}

void* malloc(size_t bytes) { return tell(), __libc_malloc(bytes); }
void* calloc(size_t count, size_t bytes) { return tell(), __libc_calloc(count, bytes); }
void* realloc(void* old, size_t bytes) { return tell(), __libc_realloc(old, bytes); }
void* memalign(size_t alignment, size_t bytes) { return tell(), __libc_memalign(alignment, bytes); }
void* aligned_alloc(size_t alignment, size_t bytes) { return tell(), __libc_memalign(alignment, bytes); }
int posix_memalign(void** to, size_t alignment, size_t bytes) {
    tell();
    *to = __libc_memalign(alignment, bytes);
    return *to ? 0 : 12;
}

void* volatile kept;
static void allocates(void) { kept = malloc(100); }

int main(int argc, char** argv) {
    EXPECT(argc == 2, "usage: late_memory N");
    const int count = atoi(argv[1]);
    void* frames[4];
    backtrace(frames, 4);
    // It is registered before the library is loaded, so that it runs late.
    atexit(allocates);
    start();
    load();
    hsa_queue_t* queue = queue_of(1024, NULL, NULL);
    uint32_t* words = allocate(host, 64 * sizeof(uint32_t));
    void* kernarg = kernarg_of(words);
    const uint64_t increment = kernel("increment");
    for (int i = 0; i < count; ++i) dispatch(queue, increment, 1, kernarg, NO_SIGNAL);
    drain(queue);
    EXPECT(words[0] == (uint32_t)count, "%u kernels ran", words[0]);
    printf("PASS\n");
    fflush(stdout);
    atomic_store(&ending, pthread_self());
    return 0;
}
