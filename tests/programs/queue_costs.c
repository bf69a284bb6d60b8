// Prints what queues cost: the median nanoseconds to create and to destroy one, and the resident kilobytes of the process
// with one idle queue: of all, of what was written, of the emulator's library, of the emulator's memory files.
//   queue_costs N
#include "hsa_check.h"

#include <time.h>

enum { MOST = 1000 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

static int compare(const void* a, const void* b) {
    const double x = *(const double*)a, y = *(const double*)b;
    return (x > y) - (x < y);
}

static void resident(long* all, long* written, long* library, long* files) {
    FILE* maps = fopen("/proc/self/smaps", "r");
    EXPECT(maps, "no /proc/self/smaps");
    char line[512];
    long* of_name = NULL;
    *all = *written = *library = *files = 0;
    while (fgets(line, sizeof line, maps)) {
        long kilobytes;
        if (sscanf(line, "Rss: %ld kB", &kilobytes) == 1) {
            *all += kilobytes;
            if (of_name) *of_name += kilobytes;
        } else if (sscanf(line, "Private_Dirty: %ld kB", &kilobytes) == 1 || sscanf(line, "Shared_Dirty: %ld kB", &kilobytes) == 1) {
            *written += kilobytes;
        } else if (line[0] >= '0' && line[0] <= 'f' && strchr(line, '-') && !strstr(line, " kB")) {
            of_name = strstr(line, "memfd:kfdemu") ? files : strstr(line, "libkfdemu") ? library : NULL;
        }
    }
    fclose(maps);
}

int main(int argc, char** argv) {
    const int count = argc > 1 ? atoi(argv[1]) : 100;
    EXPECT(count > 0 && count <= MOST, "usage: queue_costs N, at most %d", MOST);
    static double created[MOST], destroyed[MOST];
    start();
    // The first queues set up what others share.
    hsa_queue_t* idle = queue_of(256, NULL, NULL);
    drain(idle);
    long all, written, library, files;
    resident(&all, &written, &library, &files);
    for (int i = 0; i < count; ++i) {
        const double before = now();
        hsa_queue_t* queue = queue_of(256, NULL, NULL);
        const double between = now();
        CHECK(hsa_queue_destroy(queue));
        created[i] = between - before;
        destroyed[i] = now() - between;
    }
    qsort(created, count, sizeof(double), compare);
    qsort(destroyed, count, sizeof(double), compare);
    printf("%.0f %.0f %ld %ld %ld %ld\n", created[count / 2], destroyed[count / 2], all, written, library, files);
    CHECK(hsa_queue_destroy(idle));
    CHECK(hsa_shut_down());
    return 0;
}
