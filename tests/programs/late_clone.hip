// A kernel, and its clone in a code object that is loaded later: late_clone KERNEL CLONE [memory], the clone's then from memory.
// Compiled for the device alone, with CLONED 0 for the kernel, 1 for a clone with the name of an overload, 2 for one with a clone's
// name.
#include "check.h"

#include <fstream>
#include <iterator>

#if !defined(CLONED)
int main(int count, char** words) {
    hipModule_t kernel, clone;
    hipFunction_t tripled;
    CHECK(hipModuleLoad(&kernel, words[1]));
    CHECK(hipModuleGetFunction(&tripled, kernel, "_Z7tripledPi"));
    std::ifstream file(words[2], std::ios::binary);
    // Never freed: handlers read them when the process ends.
    const auto& bytes = *new std::vector<char>{std::istreambuf_iterator<char>(file), {}};
    if (count > 3)
        CHECK(hipModuleLoadData(&clone, bytes.data()));
    else
        CHECK(hipModuleLoad(&clone, words[2]));
    Array<int> numbers(64);
    CHECK(hipMemset((int*)numbers, 1, numbers.bytes()));
    int* address = numbers;
    void* arguments[] = {&address};
    CHECK(hipModuleLaunchKernel(tripled, 1, 1, 1, 64, 1, 1, 0, nullptr, arguments, nullptr));
    expect_same("tripled", numbers.host(), std::vector<int>(64, 3 * 0x01010101));
    std::printf("PASS\n");
    return 0;
}
#elif CLONED == 0
__global__ void tripled(int* numbers) { numbers[threadIdx.x] *= 3; }
#elif CLONED == 1
__global__ void tripled(int* numbers, void*) { numbers[threadIdx.x] *= 3; }
#else
extern "C" __global__ void __amd_crk__Z7tripledPiPv(int* numbers, void*) { numbers[threadIdx.x] *= 3; }
#endif
