// A kernel of seconds on a signal that another dispatch shares, so that one of the library's stands in for it. Says how
// much processor time the threads of the library used meanwhile.
//   long_kernel MILLISECONDS
#include "hsa_check.h"
#include <dirent.h>

// Milliseconds of processor time of the threads whose names begin like this.
static long time_of(const char* name) {
    long ticks = 0;
    DIR* tasks = opendir("/proc/self/task");
    EXPECT(tasks, "no threads");
    for (struct dirent* task; (task = readdir(tasks));) {
        char path[300], text[512] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/stat", task->d_name);
        int file = open(path, O_RDONLY);
        if (file < 0) continue;
        EXPECT(read(file, text, sizeof text - 1) >= 0, "%s cannot be read", path);
        close(file);
        const char *begin = strchr(text, '('), *end = strrchr(text, ')');
        if (!begin || !end || strncmp(begin + 1, name, strlen(name))) continue;
        unsigned long user = 0, system = 0;
        EXPECT(sscanf(end + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system) == 2, "%s: %s", path, text);
        ticks += (long)(user + system);
    }
    closedir(tasks);
    return ticks * 1000 / sysconf(_SC_CLK_TCK);
}

int main(int argc, char** argv) {
    EXPECT(argc == 2, "usage: long_kernel MILLISECONDS");
    start();
    load();
    hsa_queue_t* queue = queue_of(64, NULL, NULL);
    uint32_t* words = allocate(host, 64 * sizeof(uint32_t));
    uint32_t** kernarg = allocate(kernarg_pool, 2 * sizeof(void*));
    *kernarg = words;
    // Two on one signal: the second waits for a count that the host makes.
    words[1] = 2;
    hsa_signal_t done = signal_of(2);
    dispatch(queue, kernel("meet"), 1, kernarg, done);
    dispatch(queue, kernel("empty"), 1, NULL, done);
    const long before = time_of("logdur-reaper");
    usleep(1000 * atoi(argv[1]));
    const long used = time_of("logdur-reaper") - before;
    EXPECT(hsa_signal_load_relaxed(done) == 2, "a kernel that waits has ended");
    __atomic_add_fetch(&words[0], 1, __ATOMIC_SEQ_CST);
    wait_for_signal(done);
    printf("used %ld ms\nPASS\n", used);
    CHECK(hsa_queue_destroy(queue));
    CHECK(hsa_shut_down());
    return 0;
}
