// Layers of one kernel, each in a range of ROCTx, on values of its own. In which layer the kernel goes wrong is the literal of an
// instruction: a test changes it in a copy of the code object. The program itself goes wrong nowhere.
//   ranged LAUNCHES_OF_LAYER_0 LAUNCHES_OF_LAYER_1 ...
#include <string>
#include <vector>

#include "check.h"

extern "C" {
__attribute__((weak)) int roctxRangePushA(const char*);
__attribute__((weak)) int roctxRangePop();
}

constexpr unsigned WORDS = 256;

// A value that the compiler does not know, so that it is the literal of an instruction.
__device__ inline unsigned planted_layer() {
    unsigned value;
    asm volatile("s_mov_b32 %0, 0x5eed0003" : "=s"(value));
    return value;
}

extern "C" __global__ void layer_of(unsigned* words, unsigned layer) {
    unsigned value = words[threadIdx.x] * 3 + layer;
    if (layer == planted_layer() && threadIdx.x == 9) value += 1;
    words[threadIdx.x] = value;
}

int main(int argc, char** argv) {
    unsigned* words;
    CHECK(hipMalloc((void**)&words, WORDS * sizeof(unsigned)));
    std::vector<unsigned> values(WORDS);
    if (roctxRangePushA) roctxRangePushA("step");
    for (int layer = 0; layer + 1 < argc; ++layer) {
        for (unsigned i = 0; i < WORDS; ++i) values[i] = i * 7 + layer;
        CHECK(hipMemcpy(words, values.data(), WORDS * sizeof(unsigned), hipMemcpyHostToDevice));
        if (roctxRangePushA) roctxRangePushA(("layer " + std::to_string(layer)).c_str());
        for (int launch = 0; launch < std::atoi(argv[layer + 1]); ++launch) {
            layer_of<<<1, WORDS>>>(words, layer);
            CHECK(hipGetLastError());
        }
        CHECK(hipDeviceSynchronize());
        if (roctxRangePop) roctxRangePop();
        for (unsigned i = 0; i < WORDS; ++i) {
            for (int launch = 0; launch < std::atoi(argv[layer + 1]); ++launch) values[i] = values[i] * 3 + layer;
        }
        std::vector<unsigned> found(WORDS);
        CHECK(hipMemcpy(found.data(), words, WORDS * sizeof(unsigned), hipMemcpyDeviceToHost));
        if (found != values) return 1;
    }
    if (roctxRangePop) roctxRangePop();
    std::printf("PASS\n");
    return 0;
}
