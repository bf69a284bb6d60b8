// Somebody else waits for the event of a signal that kernels complete: the driver's event, past the runtime. A tool of the tests has
// hsa_amd_signal_get_event_id, as later runtimes have it.
#include <dlfcn.h>
#include <sys/ioctl.h>

#include "hsa_check.h"

// AMDKFD_IOC_WAIT_EVENTS of linux/kfd_ioctl.h, which does not compile where drm/drm.h is missing.
struct event_data {
    uint64_t of_the_event[4], next;
    uint32_t event, padding;
};
struct wait_events {
    uint64_t events;
    uint32_t count, for_all, milliseconds, result;
};
#define WAIT_EVENTS _IOWR('K', 0x0C, struct wait_events)
enum { COMPLETE = 0 };

// Whether the event comes within so many milliseconds. An event that has come is taken by who waits for it.
static bool comes(int driver, uint32_t event, uint32_t milliseconds) {
    struct event_data data = {.event = event};
    struct wait_events wait = {.events = (uintptr_t)&data, .count = 1, .milliseconds = milliseconds};
    EXPECT(!ioctl(driver, WAIT_EVENTS, &wait), "waiting for event %u", event);
    return wait.result == COMPLETE;
}

int main(int argc, char** argv) {
    const int count = argc > 1 ? atoi(argv[1]) : 20;
    start();
    load();
    const int driver = open("/dev/kfd", O_RDWR | O_CLOEXEC);
    EXPECT(driver >= 0, "/dev/kfd cannot be opened");
    hsa_queue_t* queue = queue_of(64, NULL, NULL);
    unsigned* words = allocate(host, 4096);
    const uint64_t increment = kernel("increment");
    hsa_signal_t done = signal_of(1);
    void* library = dlopen(getenv("TEST_LATER"), RTLD_NOW);
    hsa_status_t (*event_of)(hsa_signal_t, uint32_t*) = NULL;
    *(void**)&event_of = library ? dlsym(library, "hsa_amd_signal_get_event_id") : NULL;
    EXPECT(event_of, "no hsa_amd_signal_get_event_id");
    uint32_t event = 0;
    CHECK(event_of(done, &event));
    EXPECT(event, "the signal has no event");
    for (int i = 0; i < count; ++i) {
        hsa_signal_store_screlease(done, 2);
        while (comes(driver, event, 0)) {}
        // Two kernels on one signal: its value after the first is not its last.
        for (int k = 0; k < 2; ++k) dispatch(queue, increment, 1, kernarg_of(words), done);
        while (hsa_signal_load_scacquire(done) > 0) EXPECT(comes(driver, event, 10000), "round %d: the event does not come", i);
        EXPECT(words[0] == 2 * (i + 1u), "round %d: the event came before the results", i);
    }
    CHECK(hsa_queue_destroy(queue));
    printf("PASS\n");
}
