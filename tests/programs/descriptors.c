// Closes every descriptor from 3 on that is no device of the GPU, and opens files of its own in their place.
//   descriptors N FOLDER
// Dispatches N times before and after. Each of its own files has the line "mine", unless somebody else writes to it.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "hsa_check.h"

#define FILES 1100

// Files on disk, pipes and sockets; the emulated devices are files in memory, which have no links.
static int is_no_device(int fd) {
    struct stat about;
    if (fstat(fd, &about)) return 0;
    if (S_ISFIFO(about.st_mode) || S_ISSOCK(about.st_mode)) return 1;
    return S_ISREG(about.st_mode) && about.st_nlink > 0;
}

int main(int argc, char** argv) {
    EXPECT(argc == 3, "usage: descriptors N FOLDER");
    const int count = atoi(argv[1]);
    start();
    load();
    hsa_queue_t* queue = queue_of(1024, NULL, NULL);
    uint32_t* words = allocate(host, 64 * sizeof(uint32_t));
    uint32_t** kernarg = allocate(kernarg_pool, sizeof(void*));
    *kernarg = words;
    const uint64_t increment = kernel("increment");
    for (int i = 0; i < count; ++i) dispatch(queue, increment, 1, kernarg, NO_SIGNAL);
    drain(queue);

    for (int fd = 3; fd < 2 * FILES; ++fd)
        if (is_no_device(fd)) close(fd);
    int opened = 0;
    for (; opened < FILES; ++opened) {
        char path[4096];
        snprintf(path, sizeof path, "%s/own.%d", argv[2], opened);
        const int own = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
        if (own < 0) break;
        EXPECT(write(own, "mine\n", 5) == 5, "%s cannot be written", path);
    }
    EXPECT(opened > 900, "only %d files could be opened", opened);
    for (int i = 0; i < count; ++i) dispatch(queue, increment, 1, kernarg, NO_SIGNAL);
    drain(queue);
    EXPECT(words[0] == 2u * count, "%u instead of %d", words[0], 2 * count);
    CHECK(hsa_queue_destroy(queue));
    CHECK(hsa_shut_down());
    printf("PASS\n");
    return 0;
}
