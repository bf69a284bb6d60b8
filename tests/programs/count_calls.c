// Counts what one thread asks of the allocator and of the kernel between two calls, `calls_begin` and `calls_end`; the
// second prints it. To be preloaded.
//
// System calls are caught by "syscall user dispatch" (Linux 5.11): each becomes a SIGSYS of the thread that makes it,
// whose handler counts it and makes it.
#define _GNU_SOURCE
#include <link.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/ucontext.h>
#include <time.h>
#include <unistd.h>

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#endif
#define EXPORTED __attribute__((visibility("default")))
#define OF_THREAD static __thread __attribute__((tls_model("initial-exec")))

OF_THREAD bool counting;
// 1: system calls of this thread become signals.
OF_THREAD volatile char selector;
OF_THREAD struct {
    unsigned long allocations, frees, bytes, library, wakes, others, numbers[8];
    struct timespec start;
} counts;

// Where the library under test is mapped.
static uintptr_t library_start, library_end;

extern void* __libc_malloc(size_t);
extern void* __libc_calloc(size_t, size_t);
extern void* __libc_realloc(void*, size_t);
extern void* __libc_memalign(size_t, size_t);
extern void __libc_free(void*);

static void note(bool allocates, size_t bytes, void* caller) {
    if (!counting) return;
    counts.allocations += allocates;
    counts.frees += !allocates;
    counts.bytes += bytes;
    counts.library += (uintptr_t)caller >= library_start && (uintptr_t)caller < library_end;
}

#define CALLER __builtin_return_address(0)

EXPORTED void* malloc(size_t size) { return note(true, size, CALLER), __libc_malloc(size); }
EXPORTED void* calloc(size_t n, size_t size) { return note(true, n * size, CALLER), __libc_calloc(n, size); }
EXPORTED void* realloc(void* old, size_t size) { return note(true, size, CALLER), __libc_realloc(old, size); }
EXPORTED void* memalign(size_t align, size_t size) { return note(true, size, CALLER), __libc_memalign(align, size); }
EXPORTED void* aligned_alloc(size_t align, size_t size) { return note(true, size, CALLER), __libc_memalign(align, size); }
EXPORTED void free(void* memory) { note(false, 0, CALLER), __libc_free(memory); }
EXPORTED int posix_memalign(void** memory, size_t align, size_t size) {
    note(true, size, CALLER);
    *memory = __libc_memalign(align, size);
    return *memory ? 0 : 12;
}

static int find_library(struct dl_phdr_info* info, size_t size, void* data) {
    (void)size, (void)data;
    if (!strstr(info->dlpi_name, "liblogdur")) return 0;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const ElfW(Phdr)* segment = &info->dlpi_phdr[i];
        if (segment->p_type != PT_LOAD) continue;
        uintptr_t start = info->dlpi_addr + segment->p_vaddr;
        if (!library_start || start < library_start) library_start = start;
        if (start + segment->p_memsz > library_end) library_end = start + segment->p_memsz;
    }
    return 1;
}

// The one place from which system calls always pass: the return from the handler.
__asm__(".text\n.globl calls_return\n.hidden calls_return\n.hidden calls_return_end\n.globl calls_return_end\n"
        "calls_return:\n mov $15, %eax\n syscall\n nop\n nop\ncalls_return_end:\n");
extern char calls_return[], calls_return_end[];

static void on_call(int signal, siginfo_t* info, void* data) {
    (void)signal, (void)info;
    selector = 0;
    greg_t* r = ((ucontext_t*)data)->uc_mcontext.gregs;
    const long number = r[REG_RAX];
    const bool wakes = number == SYS_futex && ((r[REG_RSI] & 0x7f) == 1 || (r[REG_RSI] & 0x7f) == 10);
    // Whoever waits for room in a ring yields: how often says nothing.
    const bool other = !wakes && number != SYS_sched_yield;
    if (other && counts.others < 8) counts.numbers[counts.others] = (unsigned long)number;
    counts.wakes += wakes;
    counts.others += other;
    register long r10 __asm__("r10") = r[REG_R10];
    register long r8 __asm__("r8") = r[REG_R8];
    register long r9 __asm__("r9") = r[REG_R9];
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(r[REG_RDI]), "S"(r[REG_RSI]), "d"(r[REG_RDX]), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    r[REG_RAX] = result;
    selector = 1;
}

EXPORTED void calls_begin(void) {
    library_start = library_end = 0;
    dl_iterate_phdr(find_library, NULL);
    // The kernel's own structure, since the C library would bring its own way back from the handler.
    struct {
        void (*handler)(int, siginfo_t*, void*);
        unsigned long flags;
        char* restorer;
        unsigned long mask;
    } action = {on_call, SA_SIGINFO | SA_NODEFER | 0x04000000, calls_return, 0};
    if (syscall(SYS_rt_sigaction, SIGSYS, &action, NULL, 8) ||
        prctl(PR_SET_SYSCALL_USER_DISPATCH, 1, calls_return, calls_return_end - calls_return, &selector)) {
        printf("calls unavailable\n");
        return;
    }
    memset(&counts, 0, sizeof counts);
    clock_gettime(CLOCK_MONOTONIC, &counts.start);
    counting = true;
    selector = 1;
}

EXPORTED void calls_end(void) {
    selector = 0;
    counting = false;
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    prctl(PR_SET_SYSCALL_USER_DISPATCH, 0, 0, 0, 0);
    printf("calls allocations=%lu frees=%lu bytes=%lu library=%lu wakes=%lu others=%lu ms=%lu numbers=", counts.allocations,
           counts.frees, counts.bytes, counts.library, counts.wakes, counts.others,
           (unsigned long)((end.tv_sec - counts.start.tv_sec) * 1000 + (end.tv_nsec - counts.start.tv_nsec) / 1000000));
    for (unsigned long i = 0; i < 8 && i < counts.others; ++i) printf("%lu,", counts.numbers[i]);
    printf("\n");
}
