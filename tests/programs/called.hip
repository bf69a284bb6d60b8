// Kernels that call functions of other code objects, by pointers that the application takes from there: called WAY CALLER CALLEE [CALLEE].
// Compiled for the device alone, CALLEE says for what: 0 is the kernel, 4 one that calls nothing, the others have a function. WAY:
//   plain  the kernel calls the callee
//   gone   the callee is unloaded after that
//   again  the callee is unloaded, another is loaded, and the kernel calls that, until one is at the address of the last
//   chain  the first callee calls the second, and has variables and constants of its own
//   own    the function is in the kernel's code object
#include "check.h"

#if !defined(CALLEE)
using Modules = std::vector<hipModule_t>;

static hipModule_t loaded(const char* path) {
    hipModule_t module;
    CHECK(hipModuleLoad(&module, path));
    return module;
}

template <typename T> static T* variable(hipModule_t module, const char* name) {
    hipDeviceptr_t address;
    size_t bytes;
    CHECK(hipModuleGetGlobal(&address, &bytes, module, name));
    return (T*)address;
}

static void* function_of(hipModule_t module) {
    void* function;
    CHECK(hipMemcpy(&function, variable<void*>(module, "function"), sizeof function, hipMemcpyDeviceToHost));
    return function;
}

static void apply(hipModule_t caller, void* function, int expected) {
    hipFunction_t kernel;
    CHECK(hipModuleGetFunction(&kernel, caller, "apply"));
    Array<int> numbers(64);
    CHECK(hipMemset((int*)numbers, 1, numbers.bytes()));
    int* address = numbers;
    void* arguments[] = {&address, &function};
    CHECK(hipModuleLaunchKernel(kernel, 1, 1, 1, 64, 1, 1, 0, nullptr, arguments, nullptr));
    expect_same("apply", numbers.host(), std::vector<int>(64, expected));
}

int main(int, char** words) {
    const std::string way = words[1];
    const int x = 0x01010101;
    hipModule_t caller = loaded(words[2]);
    if (way == "own") {
        apply(caller, function_of(caller), x - 2);
        std::printf("PASS\n");
        return 0;
    }
    hipModule_t callee = loaded(words[3]);
    void* function = function_of(callee);
    if (way == "chain") {
        hipModule_t next = loaded(words[4]);
        void* last = function_of(next);
        CHECK(hipMemcpy(variable<void*>(callee, "next"), &last, sizeof last, hipMemcpyHostToDevice));
        apply(caller, function, 3 * x + 7 + 64 % 7 * 100);
        int calls;
        CHECK(hipMemcpy(&calls, variable<int>(callee, "calls"), sizeof calls, hipMemcpyDeviceToHost));
        expect_same("calls", std::vector<int>{calls}, std::vector<int>{64});
    } else {
        apply(caller, function, 3 * x + 7);
    }
    if (way == "gone") {
        CHECK(hipModuleUnload(callee));
    }
    void* last = nullptr;
    // Other memory may take the addresses.
    for (int tries = 0; way == "again" && last != function && tries < 8; tries++) {
        last = function;
        CHECK(hipModuleUnload(callee));
        callee = loaded(words[3 + (tries + 1) % 2]);
        function = function_of(callee);
        apply(caller, function, tries % 2 ? 3 * x + 7 : 5 * x + 1);
    }
    if (way == "again") {
        std::printf("%s\n", last == function ? "the same address" : "other addresses");
    }
    std::printf("PASS\n");
    return 0;
}
#elif CALLEE == 0
extern "C" __global__ void apply(int* numbers, int (*function)(int)) { numbers[threadIdx.x] = function(numbers[threadIdx.x]); }
static __device__ int less_2(int x) { return x - 2; }
extern "C" __device__ int (*function)(int) = less_2;
#elif CALLEE == 1
static __device__ int thrice_and_7(int x) { return 3 * x + 7; }
extern "C" __device__ int (*function)(int) = thrice_and_7;
#elif CALLEE == 2
static __device__ int times_5_and_1(int x) { return 5 * x + 1; }
extern "C" __device__ int (*function)(int) = times_5_and_1;
#elif CALLEE == 4
extern "C" __global__ void apply(int* numbers, int (*)(int)) { numbers[threadIdx.x] = 3 * numbers[threadIdx.x] + 7; }
#else
extern "C" __device__ int (*next)(int) = nullptr;
extern "C" __device__ int calls = 0;
extern "C" __constant__ int added[7] = {0, 100, 200, 300, 400, 500, 600};
static __device__ int counted(int x) {
    atomicAdd(&calls, 1);
    return next(x) + added[blockDim.x % 7];
}
extern "C" __device__ int (*function)(int) = counted;
#endif
