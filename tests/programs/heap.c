// Whether the emulated driver allocates from the heap of the process that it is loaded into, on the thread that calls it.
// A kernel's driver cannot. Memory that the runtime has freed would hold other bytes than on hardware.
#define _GNU_SOURCE
#include "hsa_check.h"

#include <link.h>

void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

static char *driver, *driver_end;
static __thread bool counts;
static unsigned of_driver, of_others;

static void count(const void* caller) {
    if (!counts) return;
    if ((const char*)caller >= driver && (const char*)caller < driver_end)
        ++of_driver;
    else
        ++of_others;
}

// These come before the C library's.
void* malloc(size_t size) {
    count(__builtin_return_address(0));
    return __libc_malloc(size);
}

void* calloc(size_t count_, size_t size) {
    count(__builtin_return_address(0));
    return __libc_calloc(count_, size);
}

void* realloc(void* memory, size_t size) {
    count(__builtin_return_address(0));
    return __libc_realloc(memory, size);
}

int posix_memalign(void** memory, size_t alignment, size_t size) {
    count(__builtin_return_address(0));
    *memory = __libc_memalign(alignment, size);
    return *memory ? 0 : 12;
}

static int find_driver(struct dl_phdr_info* info, size_t size, void* data) {
    (void)size, (void)data;
    if (!strstr(info->dlpi_name, "libkfdemu.so")) return 0;
    driver = (char*)info->dlpi_addr;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        if (info->dlpi_phdr[i].p_type != PT_LOAD) continue;
        driver_end = driver + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;
    }
    return 1;
}

int main(void) {
    EXPECT(dl_iterate_phdr(find_driver, NULL) == 1, "there is no emulated driver");
    start();
    // Threads of the emulated GPU begin with the first queue. What Rust knows of threads it has from the process's heap.
    CHECK(hsa_queue_destroy(queue_of(64, NULL, NULL)));
    counts = true;
    load();
    hsa_queue_t* queue = queue_of(64, NULL, NULL);
    uint32_t** kernarg = allocate(kernarg_pool, sizeof(void*));
    *kernarg = allocate(host, 64 * sizeof(uint32_t));
    dispatch(queue, kernel("increment"), 1, kernarg, NO_SIGNAL);
    drain(queue);
    CHECK(hsa_queue_destroy(queue));
    CHECK(hsa_shut_down());
    counts = false;
    EXPECT(of_others > 0, "no allocation was seen");
    EXPECT(of_driver == 0, "%u allocations of the driver's beside %u others", of_driver, of_others);
    printf("PASS\n");
    return 0;
}
