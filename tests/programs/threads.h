// What the kernel counts for this process and its threads.
#pragma once

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// Numbers of /proc/PID/task/TID/schedstat.
enum { NS_RUN, NS_WAITED, RUNS };

// The sum of a number over the threads whose names begin with a prefix; -1 if there is no such thread.
static inline long schedstat_of(const char* prefix, int number) {
    long total = -1;
    DIR* tasks = opendir("/proc/self/task");
    EXPECT(tasks, "/proc/self/task cannot be read");
    for (struct dirent* task; (task = readdir(tasks));) {
        char path[320], name[64] = "";
        long numbers[3];
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
        FILE* file = fopen(path, "r");
        if (!file) continue;
        const bool named = fscanf(file, "%63s", name) == 1 && !strncmp(name, prefix, strlen(prefix));
        fclose(file);
        snprintf(path, sizeof path, "/proc/self/task/%s/schedstat", task->d_name);
        if (!named || !(file = fopen(path, "r"))) continue;
        if (fscanf(file, "%ld %ld %ld", numbers, numbers + 1, numbers + 2) == 3) {
            total = (total < 0 ? 0 : total) + numbers[number];
        }
        fclose(file);
    }
    closedir(tasks);
    return total;
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
