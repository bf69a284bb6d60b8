/* Uses the libraries as a runtime does, on a system that has none: `cargo xtask dist` runs it with an old C library.
 *
 * usage: old_system liblogdur.so, with libkfdemu.so in LD_PRELOAD */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <linux/kfd_ioctl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHECK(condition, ...)                                                                                          \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, __VA_ARGS__);                                                                              \
            fputc('\n', stderr);                                                                                       \
            return 1;                                                                                                  \
        }                                                                                                              \
    } while (0)

int main(int argc, char **argv) {
    CHECK(argc == 2, "expected the library, found %d arguments", argc - 1);

    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    CHECK(library, "%s", dlerror());
    bool (*load)(void *, uint64_t, uint64_t, const char *const *) = dlsym(library, "OnLoad");
    void (*unload)(void) = dlsym(library, "OnUnload");
    CHECK(load && unload, "%s", dlerror());
    /* A runtime without tables gets nothing replaced, and goes on. */
    CHECK(load(NULL, 0, 0, NULL), "OnLoad returned false");
    unload();

    int device = open("/dev/kfd", O_RDWR | O_CLOEXEC);
    CHECK(device >= 0, "/dev/kfd: %m");
    struct kfd_ioctl_get_version_args version = {0};
    CHECK(ioctl(device, AMDKFD_IOC_GET_VERSION, &version) == 0, "the driver's version: %m");
    struct stat about;
    CHECK(fstat(device, &about) == 0 && S_ISCHR(about.st_mode), "expected a character device by its descriptor");
    CHECK(fstatat(AT_FDCWD, "/dev/kfd", &about, 0) == 0 && S_ISCHR(about.st_mode), "expected a character device in a folder");
    /* What libraries call that were built for a newer C library, the emulated driver itself among them. */
    int (*examine)(const char *, struct stat *) = dlsym(RTLD_DEFAULT, "stat");
    CHECK(examine, "%s", dlerror());
    CHECK(examine(argv[0], &about) == 0 && S_ISREG(about.st_mode), "expected a regular file: %m");
    close(device);

    char name[64] = "";
    FILE *file = fopen("/sys/class/kfd/kfd/topology/nodes/1/name", "re");
    CHECK(file, "the name of the first GPU: %m");
    CHECK(fgets(name, sizeof name, file), "the name of the first GPU is empty");
    fclose(file);
    name[strcspn(name, "\n")] = 0;
    printf("glibc %s, driver %u.%u, GPU %s\n", gnu_get_libc_version(), version.major_version, version.minor_version, name);
    return 0;
}
