// Kernels that work in the GPU's memory, which no copy of the program's touches.
//   in_vram COUNT
#include "hsa_check.h"

int main(int argc, char** argv) {
    const int count = argc > 1 ? atoi(argv[1]) : 3;
    start();
    load();
    hsa_queue_t* queue = queue_of(64, NULL, NULL);
    void* kernarg = kernarg_of(allocate(vram, 4096));
    for (int n = 0; n < count; n++) {
        hsa_signal_t done = signal_of(1);
        dispatch(queue, kernel("increment"), 1, kernarg, done);
        wait_for_signal(done);
        CHECK(hsa_signal_destroy(done));
    }
    printf("PASS\n");
    CHECK(hsa_shut_down());
    return 0;
}
