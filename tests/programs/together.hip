// Code that comes when kernels of the program have run already: a module from a file, one that is compiled at run time, HIP's
// own kernels for memory. Each kernel of the program's is launched four times, on every device if "gpus" is said.
//   together [module] [compiled] [own] [gpus]
// With -DOTHER kernels compute the same by other code: only code that takes another's place is compiled so.
#include <hip/hiprtc.h>

#include <cstring>

#include "check.h"

constexpr int N = 256, TIMES = 4;

#ifdef OTHER
#define OTHERWISE asm volatile("s_nop 7")
#else
#define OTHERWISE (void)0
#endif

extern "C" __global__ void first(unsigned* words, unsigned by) {
    OTHERWISE;
    words[blockIdx.x * blockDim.x + threadIdx.x] += by;
}

#define LATE                                              \
    extern "C" __global__ void late(float* x, int n) {    \
        int i = blockIdx.x * blockDim.x + threadIdx.x;    \
        OTHERWISE;                                        \
        if (i < n) x[i] = x[i] * 2.0f + 1.0f;             \
    }
LATE

#define TEXT_OF(...) #__VA_ARGS__
#define TEXT(of) TEXT_OF(of)

static void of_the_program() {
    Array<unsigned> words(std::vector<unsigned>(N, 5));
    for (int n = 0; n < TIMES; ++n) first<<<N / 64, 64>>>(words, n);
    expect_same("first", words.host(), std::vector<unsigned>(N, 5 + TIMES * (TIMES - 1) / 2));
}

// The kernel `increment` of kernels.hip.
static void module_from_file(const char* path) {
    hipModule_t module;
    CHECK(hipModuleLoad(&module, path));
    hipFunction_t increment;
    CHECK(hipModuleGetFunction(&increment, module, "increment"));
    Array<unsigned> words(std::vector<unsigned>(N, 7));
    unsigned* address = words;
    void* arguments[] = {&address};
    for (int n = 0; n < TIMES; ++n) CHECK(hipModuleLaunchKernel(increment, N / 64, 1, 1, 64, 1, 1, 0, 0, arguments, nullptr));
    expect_same("increment", words.host(), std::vector<unsigned>(N, 7 + TIMES));
    CHECK(hipModuleUnload(module));
}

static void compiled_at_run_time(int device) {
    hiprtcProgram program;
    EXPECT(hiprtcCreateProgram(&program, TEXT(LATE), "late.hip", 0, nullptr, nullptr) == HIPRTC_SUCCESS, "no program");
    hipDeviceProp_t properties;
    CHECK(hipGetDeviceProperties(&properties, device));
    std::string arch = std::string("--gpu-architecture=") + properties.gcnArchName;
    const char* options[] = {arch.c_str()};
    EXPECT(hiprtcCompileProgram(program, 1, options) == HIPRTC_SUCCESS, "late.hip is not compiled");
    size_t size;
    EXPECT(hiprtcGetCodeSize(program, &size) == HIPRTC_SUCCESS, "no code");
    std::vector<char> code(size);
    EXPECT(hiprtcGetCode(program, code.data()) == HIPRTC_SUCCESS, "no code");
    hiprtcDestroyProgram(&program);
    hipModule_t module;
    hipFunction_t late;
    CHECK(hipModuleLoadData(&module, code.data()));
    CHECK(hipModuleGetFunction(&late, module, "late"));
    Array<float> x(std::vector<float>(N, 1.0f));
    float* address = x;
    int n = N;
    void* arguments[] = {&address, &n};
    for (int n = 0; n < TIMES; ++n) CHECK(hipModuleLaunchKernel(late, N / 64, 1, 1, 64, 1, 1, 0, 0, arguments, nullptr));
    expect_same("late", x.host(), std::vector<float>(N, 31.0f));
    CHECK(hipModuleUnload(module));
}

static void own_kernels_of_hip() {
    Array<unsigned> from(std::vector<unsigned>(N, 0)), to(std::vector<unsigned>(N, 0));
    CHECK(hipMemset(from, 0x11, N * sizeof(unsigned)));
    CHECK(hipMemsetD32((hipDeviceptr_t)(unsigned*)from, 0x22222222, N / 2));
    CHECK(hipMemcpyDtoD((hipDeviceptr_t)(unsigned*)to, (hipDeviceptr_t)(unsigned*)from, N * sizeof(unsigned)));
    std::vector<unsigned> expected(N, 0x11111111);
    for (int i = 0; i < N / 2; ++i) expected[i] = 0x22222222;
    expect_same("copied", to.host(), expected);
}

int main(int argc, char** argv) {
    auto is_asked = [&](const char* what) {
        for (int n = 1; n < argc; ++n) {
            if (!std::strcmp(argv[n], what)) return true;
        }
        return false;
    };
    int devices = 1;
    if (is_asked("gpus")) CHECK(hipGetDeviceCount(&devices));
    const char* path = std::getenv("TEST_KERNELS");
    EXPECT(path, "TEST_KERNELS names no code object");
    for (int device = 0; device < devices; ++device) {
        CHECK(hipSetDevice(device));
        of_the_program();
        // Twice: the second time at the addresses of the first, perhaps.
        if (is_asked("module")) module_from_file(path), module_from_file(path);
        if (is_asked("compiled")) compiled_at_run_time(device);
        if (is_asked("own")) own_kernels_of_hip();
        of_the_program();
    }
    std::printf("PASS\n");
    return 0;
}
