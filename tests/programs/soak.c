// An application that runs for long: queues come and go, code is loaded and unloaded, threads dispatch in every way.
//   soak SECONDS
// Before it ends it makes the file TEST_SOAK_ENDS, if the environment has that, and waits until the file is removed.
// Each dispatch adds one to a word. Prints a line "at SECONDS resident KIB descriptors N threads N" at least each second,
// and at the end "dispatches N".
#include "hsa_check.h"
#include "threads.h"

#include <dirent.h>
#include <pthread.h>
#include <time.h>

enum { THREADS = 4, DISPATCHES = 100, SLOTS = 1024, COPIED = 4096 };

static hsa_queue_t* queue;
static uint64_t object;
static void* kernarg;
static hsa_signal_t shared;
static unsigned round_number;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

// How many entries a folder of /proc/self has.
static int entries(const char* path) {
    DIR* folder = opendir(path);
    EXPECT(folder, "%s cannot be read", path);
    int count = 0;
    while (readdir(folder)) ++count;
    closedir(folder);
    return count - 2;
}

static void* produce(void* data) {
    (void)data;
    hsa_signal_t own = signal_of(0);
    for (int i = 0; i < DISPATCHES; ++i) {
        hsa_signal_t done = NO_SIGNAL;
        if (round_number % 3 == 1) {
            wait_for_signal(own);
            hsa_signal_store_relaxed(own, 1);
            done = own;
        } else if (round_number % 3 == 2) {
            done = shared;
        }
        dispatch(queue, object, 1, kernarg, done);
    }
    wait_for_signal(own);
    CHECK(hsa_signal_destroy(own));
    return NULL;
}

// Loads the code once more, and unloads what was loaded before.
static void reload(void) {
    hsa_executable_t before = executable;
    load();
    object = kernel("tally");
    CHECK(hsa_executable_destroy(before));
}

int main(int argc, char** argv) {
    EXPECT(argc == 2, "usage: soak SECONDS");
    start();
    load();
    object = kernel("tally");
    uint32_t* word = allocate(host, sizeof *word);
    kernarg = kernarg_of(word);
    char* copied = allocate(host, 2 * COPIED);
    const double begin = now(), end = begin + atof(argv[1]);
    double told = 0;
    for (; now() < end; ++round_number) {
        queue = queue_of(SLOTS, NULL, NULL);
        shared = signal_of(THREADS * DISPATCHES);
        pthread_t threads[THREADS];
        for (int i = 0; i < THREADS; ++i) EXPECT(!pthread_create(threads + i, NULL, produce, NULL), "no thread %d", i);
        for (int i = 0; i < THREADS; ++i) pthread_join(threads[i], NULL);
        if (round_number % 3 == 2) wait_for_signal(shared);
        drain(queue);
        CHECK(hsa_signal_destroy(shared));
        hsa_signal_t done = signal_of(1);
        CHECK(hsa_amd_memory_async_copy(copied, cpu, copied + COPIED, cpu, COPIED, 0, NULL, done));
        wait_for_signal(done);
        CHECK(hsa_signal_destroy(done));
        CHECK(hsa_queue_destroy(queue));
        if (round_number % 4 == 3) reload();
        if (now() - told > 1 || now() >= end) {
            told = now();
            printf("at %.1f resident %ld descriptors %d threads %d\n", told - begin, resident(), entries("/proc/self/fd"),
                   entries("/proc/self/task"));
            fflush(stdout);
        }
        usleep(5000);
    }
    // The log is rotated no more when this file is gone: what the library writes at the end stays.
    const char* ends = getenv("TEST_SOAK_ENDS");
    if (ends) {
        const int file = open(ends, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
        EXPECT(file >= 0, "%s cannot be made", ends);
        close(file);
        while (!access(ends, F_OK)) usleep(10000);
    }
    const uint32_t total = round_number * THREADS * DISPATCHES, counted = __atomic_load_n(word, __ATOMIC_ACQUIRE);
    EXPECT(counted == total, "%u of %u dispatches", counted, total);
    printf("dispatches %u\nPASS\n", total);
    CHECK(hsa_shut_down());
    return 0;
}
