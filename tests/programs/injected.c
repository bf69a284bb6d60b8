// Six kernels in each of two queues, A and B, every packet with a signal of its own; what completes is told.
//   injected A B [error]
// Ends when A packets of the first queue and B of the second are complete and nothing else completes for a while; or
// when an error is reported, if one is to come.
#include <time.h>

#include "hsa_check.h"

enum { QUEUES = 2, PACKETS = 6 };

static volatile int reported;

static void on_queue_error(hsa_status_t status, hsa_queue_t* source, void* data) {
    (void)source;
    printf("queue %s error %#x\n", (const char*)data, status);
    reported = 1;
}

static hsa_status_t on_event(const hsa_amd_event_t* event, void* data) {
    (void)data;
    printf("memory fault at %#lx\n", (unsigned long)event->memory_fault.virtual_address);
    reported = 1;
    return HSA_STATUS_SUCCESS;
}

static double now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

int main(int argc, char** argv) {
    EXPECT(argc == 3 || (argc == 4 && !strcmp(argv[3], "error")), "usage: injected A B [error]");
    const bool error = argc == 4;
    int expected = atoi(argv[1]) + atoi(argv[2]);
    start();
    load();
    CHECK(hsa_amd_register_system_event_handler(on_event, NULL));
    static char* names[QUEUES] = {"A", "B"};
    hsa_queue_t* queues[QUEUES];
    uint32_t* words[QUEUES];
    hsa_signal_t done[QUEUES][PACKETS];
    for (int q = 0; q < QUEUES; ++q) {
        queues[q] = queue_of(64, on_queue_error, names[q]);
        CHECK(hsa_amd_profiling_set_profiler_enabled(queues[q], 1));
        words[q] = allocate(host, 64 * (q + 1) * sizeof(uint32_t));
        uint32_t** kernarg = allocate(kernarg_pool, sizeof(void*));
        *kernarg = words[q];
        // As many workgroups as the queue's place says, so that a trace tells the two from each other.
        for (int p = 0; p < PACKETS; ++p) {
            done[q][p] = signal_of(1);
            dispatch(queues[q], kernel("increment"), q + 1, kernarg, done[q][p]);
        }
    }
    bool seen[QUEUES][PACKETS] = {{false}};
    int complete = 0;
    double last = now_ms();
    while (!reported && now_ms() - last < (error || complete < expected ? 30000 : 200)) {
        for (int q = 0; q < QUEUES; ++q) {
            for (int p = 0; p < PACKETS; ++p) {
                if (seen[q][p] || hsa_signal_load_scacquire(done[q][p]) > 0) continue;
                seen[q][p] = true;
                ++complete;
                last = now_ms();
            }
        }
        usleep(500);
    }
    for (int q = 0; q < QUEUES; ++q) {
        for (int p = 0; p < PACKETS; ++p) {
            uint64_t first, end;
            ticks_of(done[q][p], &first, &end);
            if (hsa_signal_load_scacquire(done[q][p]) <= 0) printf("%s%d complete %lu %lu\n", names[q], p, first, end);
        }
        printf("%s ran %u\n", names[q], *(volatile uint32_t*)words[q]);
    }
    printf("PASS\n");
    fflush(stdout);
    // A queue that stands still cannot be destroyed in an orderly way.
    _exit(0);
}
