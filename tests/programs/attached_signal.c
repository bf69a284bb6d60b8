// A signal of another process: a child makes it and waits; the parent's kernel, and then its host, complete it.
#include "hsa_check.h"
#include "two_processes.h"

enum { FIRST = 3 };

static void wait_until(hsa_signal_t signal, hsa_signal_value_t value) {
    while (hsa_signal_wait_scacquire(signal, HSA_SIGNAL_CONDITION_EQ, value, UINT64_MAX, HSA_WAIT_STATE_BLOCKED) != value) {}
}

// Gives a signal away; the other process makes FIRST of it 2, by a kernel, and then 7, by its host.
static void owner(int to, int from) {
    start();
    hsa_signal_t signal;
    CHECK(hsa_amd_signal_create(FIRST, 0, NULL, HSA_AMD_SIGNAL_IPC, &signal));
    hsa_amd_ipc_signal_t handle;
    CHECK(hsa_amd_ipc_signal_create(signal, &handle));
    give(to, &handle, sizeof handle);
    wait_until(signal, FIRST - 1);
    give(to, "", 1);
    wait_until(signal, 7);
    hsa_signal_store_screlease(signal, 9);
    char done;
    take(from, &done, 1);
    CHECK(hsa_signal_destroy(signal));
    CHECK(hsa_shut_down());
    exit(0);
}

int main(void) {
    const struct child child = child_of(owner);
    hsa_amd_ipc_signal_t handle;
    take(child.from, &handle, sizeof handle);

    start();
    load();
    hsa_signal_t signal;
    CHECK(hsa_amd_ipc_signal_attach(&handle, &signal));
    EXPECT(hsa_signal_load_relaxed(signal) == FIRST, "the signal is %ld", (long)hsa_signal_load_relaxed(signal));
    hsa_queue_t* queue = queue_of(64, NULL, NULL);
    unsigned* words = allocate(host, 4096);
    dispatch(queue, kernel("increment"), 1, kernarg_of(words), signal);
    char done;
    take(child.from, &done, 1);
    EXPECT(words[0] == 1, "the signal came before the kernel's results");
    hsa_signal_store_screlease(signal, 7);
    wait_until(signal, 9);
    CHECK(hsa_signal_destroy(signal));
    give(child.to, "", 1);
    expect_end(child);
    CHECK(hsa_queue_destroy(queue));
    printf("PASS\n");
}
