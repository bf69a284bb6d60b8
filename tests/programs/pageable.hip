// Memory of the process that no call announces: kernels use what malloc, mmap and the stack gave, where faults are retried.
// Managed memory works with or without.
//   pageable all|managed|gone|half
//     gone   managed memory that is freed before the last kernel
//     half   managed memory whose second half is unmapped before the last kernel
#include <sys/mman.h>

#include <string>

#include "check.h"

__global__ void twice(int* words) { words[threadIdx.x] *= 2; }

static void run(const char* name, int* words) {
    for (int i = 0; i < 256; ++i) words[i] = i;
    twice<<<1, 256>>>(words);
    CHECK(hipDeviceSynchronize());
    for (int i = 0; i < 256; ++i) EXPECT(words[i] == 2 * i, "%s: word %d is %d", name, i, words[i]);
    std::printf("%s\n", name);
    std::fflush(stdout);
}

int main(int argc, char** argv) {
    const std::string mode = argc > 1 ? argv[1] : "";
    int* managed;
    CHECK(hipMallocManaged(&managed, 1 << 20));
    run("managed", managed);
    CHECK(hipMemPrefetchAsync(managed, 4096, 0, nullptr));
    CHECK(hipDeviceSynchronize());
    run("advised", managed + 2048);
    if (mode == "all") {
        run("malloc", static_cast<int*>(std::malloc(256 * sizeof(int))));
        void* mapped = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        EXPECT(mapped != MAP_FAILED, "no memory");
        run("mmap", static_cast<int*>(mapped));
        int stack[256];
        run("stack", stack);
    } else if (mode == "gone") {
        CHECK(hipFree(managed));
        Array<int> last(256);
        twice<<<1, 256>>>(last);
        CHECK(hipDeviceSynchronize());
    }
    if (mode == "half") {
        // Reserved, so that nothing else is mapped there.
        void* half = mmap(managed + (1 << 17), 1 << 19, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        EXPECT(half == managed + (1 << 17), "the second half cannot be unmapped");
        run("half", managed);
    }
    std::printf("PASS\n");
    return 0;
}
