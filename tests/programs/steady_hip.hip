// A HIP program in its stride: rounds of 10,000 launches, the last between `calls_begin` and `calls_end` of
// `count_calls.c`.
#include <dlfcn.h>

#include "check.h"

__global__ void empty() {}

int main() {
    auto begin = reinterpret_cast<void (*)()>(dlsym(RTLD_DEFAULT, "calls_begin"));
    auto end = reinterpret_cast<void (*)()>(dlsym(RTLD_DEFAULT, "calls_end"));
    EXPECT(begin && end, "count_calls is not preloaded");
    hipStream_t stream;
    CHECK(hipStreamCreate(&stream));
    for (int round = 0; round < 4; ++round) {
        if (round == 3) begin();
        for (int i = 0; i < 10000; ++i) empty<<<1, 64, 0, stream>>>();
        if (round == 3) end();
        CHECK(hipGetLastError());
        CHECK(hipStreamSynchronize(stream));
    }
    std::printf("PASS\n");
    return 0;
}
