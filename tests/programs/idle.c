// Dispatches, and then does nothing for a while: prints how often each of the library's threads has run meanwhile.
//   idle DISPATCHES
#include "hsa_check.h"

#include <dirent.h>

// How often threads whose names begin like this were given a processor, or -1 if there is none.
static long runs_of(const char* prefix) {
    long total = -1;
    DIR* tasks = opendir("/proc/self/task");
    EXPECT(tasks, "/proc/self/task cannot be read");
    for (struct dirent* task; (task = readdir(tasks));) {
        char path[320], name[64] = "";
        long runs = 0;
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
        FILE* file = fopen(path, "r");
        if (!file) continue;
        const bool named = fscanf(file, "%63s", name) == 1 && !strncmp(name, prefix, strlen(prefix));
        fclose(file);
        snprintf(path, sizeof path, "/proc/self/task/%s/schedstat", task->d_name);
        if (!named || !(file = fopen(path, "r"))) continue;
        if (fscanf(file, "%*u %*u %ld", &runs) == 1) total = (total < 0 ? 0 : total) + runs;
        fclose(file);
    }
    closedir(tasks);
    return total;
}

int main(int argc, char** argv) {
    EXPECT(argc == 2, "usage: idle DISPATCHES");
    start();
    load();
    hsa_queue_t* queue = queue_of(1024, NULL, NULL);
    const uint64_t empty = kernel("empty");
    for (int i = 0; i < atoi(argv[1]); ++i) dispatch(queue, empty, 1, NULL, NO_SIGNAL);
    drain(queue);
    // Until they have come to rest: nothing has run for a tenth of a second.
    long before = runs_of("logdur-"), now;
    for (int tries = 0; tries < 100; ++tries, before = now) {
        usleep(100000);
        now = runs_of("logdur-");
        if (now == before) break;
    }
    usleep(500000);
    printf("runs %ld\nPASS\n", before < 0 ? -1 : runs_of("logdur-") - before);
    CHECK(hsa_queue_destroy(queue));
    CHECK(hsa_shut_down());
    return 0;
}
