// A kernel that calls a function of another code object, by a pointer that the application takes from there: called CALLER CALLEE.
// Compiled for the device alone, with CALLEE 0 for the kernel, 1 for the function.
#include "check.h"

#if !defined(CALLEE)
int main(int, char** words) {
    hipModule_t caller, callee;
    hipFunction_t kernel;
    CHECK(hipModuleLoad(&caller, words[1]));
    CHECK(hipModuleLoad(&callee, words[2]));
    CHECK(hipModuleGetFunction(&kernel, caller, "apply"));
    hipDeviceptr_t variable;
    size_t bytes;
    void* function;
    CHECK(hipModuleGetGlobal(&variable, &bytes, callee, "function"));
    CHECK(hipMemcpyDtoH(&function, variable, sizeof function));
    Array<int> numbers(64);
    CHECK(hipMemset((int*)numbers, 1, numbers.bytes()));
    int* address = numbers;
    void* arguments[] = {&address, &function};
    CHECK(hipModuleLaunchKernel(kernel, 1, 1, 1, 64, 1, 1, 0, nullptr, arguments, nullptr));
    expect_same("apply", numbers.host(), std::vector<int>(64, 3 * 0x01010101 + 7));
    std::printf("PASS\n");
    return 0;
}
#elif CALLEE == 0
extern "C" __global__ void apply(int* numbers, int (*function)(int)) { numbers[threadIdx.x] = function(numbers[threadIdx.x]); }
#else
static __device__ int thrice_and_7(int x) { return 3 * x + 7; }
extern "C" __device__ int (*function)(int) = thrice_and_7;
#endif
