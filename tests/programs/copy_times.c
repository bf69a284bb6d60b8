// Copies in every direction, on one signal that is used again and on signals that are destroyed at once. Prints for each copy
// "copy BYTES START END", as the runtime gives its times.
//
//   copy_times own|off N     off: the program has the runtime take no times, and prints none
#include "hsa_check.h"

enum { BYTES = 1 << 16 };

static void report(hsa_signal_t signal, size_t bytes, bool times) {
    while (hsa_signal_wait_scacquire(signal, HSA_SIGNAL_CONDITION_LT, 1, UINT64_MAX, HSA_WAIT_STATE_BLOCKED) > 0) {
    }
    EXPECT(hsa_signal_load_scacquire(signal) == 0, "the signal has the value %ld", hsa_signal_load_relaxed(signal));
    if (!times) return;
    hsa_amd_profiling_async_copy_time_t time;
    CHECK(hsa_amd_profiling_get_async_copy_time(signal, &time));
    printf("copy %zu %lu %lu\n", bytes, time.start, time.end);
}

int main(int argc, char** argv) {
    EXPECT(argc == 3, "usage: copy_times own|off N");
    bool times = !strcmp(argv[1], "own");
    start();
    CHECK(hsa_amd_profiling_async_copy_enable(times));
    char* from = allocate(host, BYTES);
    char* to = allocate(host, BYTES);
    char* there = allocate(vram, BYTES);
    char* beside = allocate(vram, BYTES);
    hsa_signal_t signal;
    CHECK(hsa_signal_create(0, 0, NULL, &signal));
    for (int i = 0; i < atoi(argv[2]); ++i) {
        size_t bytes = BYTES >> (i % 5);
        memset(from, i + 1, BYTES);
        memset(to, 0, BYTES);
        hsa_signal_store_relaxed(signal, 1);
        CHECK(hsa_amd_memory_async_copy(there, gpu, from, cpu, bytes, 0, NULL, signal));
        report(signal, bytes, times);
        hsa_signal_store_relaxed(signal, 1);
        CHECK(hsa_amd_memory_async_copy(beside, gpu, there, gpu, bytes, 0, NULL, signal));
        report(signal, bytes, times);
        hsa_signal_t other;
        CHECK(hsa_signal_create(1, 0, NULL, &other));
        CHECK(hsa_amd_memory_async_copy(to, cpu, beside, gpu, bytes, 0, NULL, other));
        report(other, bytes, times);
        CHECK(hsa_signal_destroy(other));
        EXPECT(!memcmp(from, to, bytes), "the copies differ");
        hsa_signal_store_relaxed(signal, 1);
        hsa_pitched_ptr_t source = {there, 256, 0}, destination = {to, 256, 0};
        hsa_dim3_t origin = {0, 0, 0}, range = {128, 4, 1};
        CHECK(hsa_amd_memory_async_copy_rect(&destination, &origin, &source, &origin, &range, gpu, hsaDeviceToHost, 0, NULL, signal));
        report(signal, 512, times);
    }
    CHECK(hsa_shut_down());
    printf("PASS\n");
    return 0;
}
