// What the kernel counts for this process and its threads.
#pragma once

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// Numbers of /proc/PID/task/TID/schedstat.
enum { NS_RUN, NS_WAITED, RUNS };

// A file of one of this process's threads; NULL if the thread has ended.
static inline FILE* of_thread(const char* thread, const char* file) {
    char path[320];
    snprintf(path, sizeof path, "/proc/self/task/%s/%s", thread, file);
    return fopen(path, "r");
}

// Calls `see` with the number of each thread whose name begins with a prefix.
static inline void each_thread(const char* prefix, void (*see)(const char* thread, void* data), void* data) {
    DIR* tasks = opendir("/proc/self/task");
    EXPECT(tasks, "/proc/self/task cannot be read");
    for (struct dirent* task; (task = readdir(tasks));) {
        char name[64] = "";
        FILE* file = of_thread(task->d_name, "comm");
        if (!file) continue;
        const bool named = fscanf(file, "%63s", name) == 1 && !strncmp(name, prefix, strlen(prefix));
        fclose(file);
        if (named) see(task->d_name, data);
    }
    closedir(tasks);
}

struct schedstat {
    int number;
    long total;
};

static inline void add_schedstat(const char* thread, void* data) {
    struct schedstat* of = (struct schedstat*)data;
    long numbers[3];
    FILE* file = of_thread(thread, "schedstat");
    if (!file) return;
    if (fscanf(file, "%ld %ld %ld", numbers, numbers + 1, numbers + 2) == 3) {
        of->total = (of->total < 0 ? 0 : of->total) + numbers[of->number];
    }
    fclose(file);
}

// The sum of a number over the threads whose names begin with a prefix; -1 if there is no such thread.
static inline long schedstat_of(const char* prefix, int number) {
    struct schedstat of = {number, -1};
    each_thread(prefix, add_schedstat, &of);
    return of.total;
}

// Processor time in ns of a thread that works until it has nothing left to do: it has not run for a second. -1 if there is none.
static inline long idle_time_of(const char* prefix) {
    long last = -1, now = schedstat_of(prefix, NS_RUN);
    while (now != last) {
        last = now;
        sleep(1);
        now = schedstat_of(prefix, NS_RUN);
    }
    return now;
}

// Resident memory in KiB.
static inline long resident(void) {
    long pages = 0;
    FILE* file = fopen("/proc/self/statm", "r");
    EXPECT(file && fscanf(file, "%*s %ld", &pages) == 1, "/proc/self/statm cannot be read");
    fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

// The largest resident memory so far, in KiB.
static inline long peak(void) {
    long kib = -1;
    char line[128];
    FILE* file = fopen("/proc/self/status", "r");
    EXPECT(file, "/proc/self/status cannot be read");
    while (kib < 0 && fgets(line, sizeof line, file)) sscanf(line, "VmHWM: %ld", &kib);
    fclose(file);
    EXPECT(kib >= 0, "no VmHWM in /proc/self/status");
    return kib;
}
