// Closes every descriptor of a log, of diagnostics, of a capture, of what watches a cache and of sockets, and opens files of its own in
// their place, as in every other free one.
//   descriptors N FOLDER [COMMAND]
// Dispatches N times before and after. In between, runs the command with the number of this process behind it. Each of its own files has the line "mine", unless somebody else writes to it.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "hsa_check.h"

#define FILES 1100

// Other descriptors are the runtime's, or those of the driver.
static int is_of_library(int fd) {
    static const char* const endings[] = {".csv", ".ldcap", ".log", "inotify"};
    char name[64], path[4096];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    const ssize_t length = readlink(name, path, sizeof path - 1);
    if (length <= 0) return 0;
    path[length] = 0;
    if (strstr(path, "kfdemu")) return 0;
    if (!strncmp(path, "socket:", 7)) return 1;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; ++i) {
        const size_t ending = strlen(endings[i]);
        if ((size_t)length > ending && !strcmp(path + length - ending, endings[i])) return 1;
    }
    return 0;
}

int main(int argc, char** argv) {
    EXPECT(argc == 3 || argc == 4, "usage: descriptors N FOLDER [COMMAND]");
    const int count = atoi(argv[1]);
    start();
    load();
    hsa_queue_t* queue = queue_of(1024, NULL, NULL);
    uint32_t* words = allocate(host, 64 * sizeof(uint32_t));
    void* kernarg = kernarg_of(words);
    const uint64_t increment = kernel("increment");
    for (int i = 0; i < count; ++i) dispatch(queue, increment, 1, kernarg, NO_SIGNAL);
    drain(queue);

    int closed = 0;
    for (int fd = 3; fd < 2 * FILES; ++fd) closed += is_of_library(fd) && !close(fd);
    printf("%d closed\n", closed);
    int opened = 0;
    for (; opened < FILES; ++opened) {
        char path[4096];
        snprintf(path, sizeof path, "%s/own.%d", argv[2], opened);
        const int own = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
        if (own < 0) break;
        EXPECT(write(own, "mine\n", 5) == 5, "%s cannot be written", path);
    }
    EXPECT(opened > 900, "only %d files could be opened", opened);
    if (argc == 4) {
        char command[4096];
        snprintf(command, sizeof command, "%s %d", argv[3], (int)getpid());
        EXPECT(system(command) == 0, "%s failed", command);
    }
    for (int i = 0; i < count; ++i) dispatch(queue, increment, 1, kernarg, NO_SIGNAL);
    drain(queue);
    EXPECT(words[0] == 2u * count, "%u instead of %d", words[0], 2 * count);
    CHECK(hsa_queue_destroy(queue));
    CHECK(hsa_shut_down());
    printf("PASS\n");
    return 0;
}
