// Dispatches of an empty kernel, with a pause after each.
//   paced DISPATCHES MILLISECONDS
#include "hsa_check.h"

int main(int argc, char** argv) {
    EXPECT(argc == 3, "usage: paced DISPATCHES MILLISECONDS");
    start();
    load();
    hsa_queue_t* queue = queue_of(64, NULL, NULL);
    const uint64_t empty = kernel("empty");
    for (int i = 0; i < atoi(argv[1]); ++i) {
        dispatch(queue, empty, 1, NULL, NO_SIGNAL);
        drain(queue);
        usleep(1000 * atoi(argv[2]));
    }
    CHECK(hsa_queue_destroy(queue));
    CHECK(hsa_shut_down());
    printf("PASS\n");
    return 0;
}
