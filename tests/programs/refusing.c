// Loaded before everything: what the library asks the system for is refused, by the kind in the variable REFUSED; the
// application and its runtime get everything. Mappings are those of files: without memory nothing works.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>

static int refused(const char* kind, const void* caller) {
    Dl_info from;
    const char* wanted = getenv("REFUSED");
    return wanted && strstr(wanted, kind) && dladdr(caller, &from) && from.dli_fname
        && strstr(from.dli_fname, "liblogdur");
}

#define CALLER __builtin_return_address(0)
#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define VISIBLE __attribute__((visibility("default")))

VISIBLE int pthread_create(pthread_t* thread, const pthread_attr_t* about, void* (*body)(void*), void* argument) {
    return refused("threads", CALLER) ? EAGAIN : NEXT(pthread_create)(thread, about, body, argument);
}

VISIBLE void* mmap(void* at, size_t size, int protection, int flags, int fd, off_t offset) {
    if (fd < 0 || !refused("mappings", CALLER)) return NEXT(mmap)(at, size, protection, flags, fd, offset);
    errno = ENOMEM;
    return MAP_FAILED;
}

VISIBLE void* mmap64(void* at, size_t size, int protection, int flags, int fd, off64_t offset) {
    if (fd < 0 || !refused("mappings", CALLER)) return NEXT(mmap64)(at, size, protection, flags, fd, offset);
    errno = ENOMEM;
    return MAP_FAILED;
}

VISIBLE int posix_fallocate64(int fd, off64_t from, off64_t size) {
    return refused("room", CALLER) ? ENOSPC : NEXT(posix_fallocate64)(fd, from, size);
}

VISIBLE int posix_fallocate(int fd, off_t from, off_t size) {
    return refused("room", CALLER) ? ENOSPC : NEXT(posix_fallocate)(fd, from, size);
}

VISIBLE int inotify_init1(int flags) {
    if (!refused("watches", CALLER)) return NEXT(inotify_init1)(flags);
    errno = EMFILE;
    return -1;
}

static int refuses_file(const char* path, const void* caller) {
    return refused("files", caller) || (!strncmp(path, "/proc", 5) && refused("process", caller));
}

VISIBLE int open64(const char* path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    const mode_t mode = va_arg(more, mode_t);
    va_end(more);
    if (!refuses_file(path, CALLER)) return NEXT(open64)(path, flags, mode);
    errno = EMFILE;
    return -1;
}

VISIBLE int open(const char* path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    const mode_t mode = va_arg(more, mode_t);
    va_end(more);
    if (!refuses_file(path, CALLER)) return NEXT(open)(path, flags, mode);
    errno = EMFILE;
    return -1;
}
