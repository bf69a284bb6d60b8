// Overwrites the variable by which tools are loaded, as PyTorch does, and dispatches a kernel.
#include "hsa_check.h"

int main(void) {
    EXPECT(!setenv("HSA_TOOLS_LIB", "/opt/rocm/lib/librocprofiler-sdk-tool.so", 1), "the variable cannot be set");
    start();
    load();
    hsa_queue_t* queue = queue_of(64, NULL, NULL);
    hsa_signal_t done = signal_of(1);
    dispatch(queue, kernel("increment"), 1, kernarg_of(allocate(host, 4096)), done);
    wait_for_signal(done);
    CHECK(hsa_signal_destroy(done));
    printf("PASS\n");
    CHECK(hsa_shut_down());
    return 0;
}
