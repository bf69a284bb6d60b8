// Modules: a code object from a file and from memory, kernels by name, arguments as a block, variables, run-time compilation.
#include <hip/hip_ext.h>
#include <hip/hiprtc.h>

#include <fstream>
#include <iterator>

#include "check.h"

const int N = 256;

static std::vector<unsigned> counted(unsigned plus) {
    std::vector<unsigned> v(N);
    for (unsigned i = 0; i < N; ++i) v[i] = i + plus;
    return v;
}

// The kernels `increment`, `write_to` and `use_lds` of kernels.hip, 64 work-items in a workgroup.
static void run(const char* what, hipModule_t module) {
    hipFunction_t increment, write_to, use_lds, missing;
    CHECK(hipModuleGetFunction(&write_to, module, "write_to"));
    CHECK(hipModuleGetFunction(&increment, module, "increment"));
    CHECK(hipModuleGetFunction(&use_lds, module, "use_lds"));
    EXPECT(hipModuleGetFunction(&missing, module, "missing") == hipErrorNotFound, "%s: a kernel was found that is not there", what);
    (void)hipGetLastError();
    Array<unsigned> words(N);
    unsigned* address = words;
    void* arguments[] = {&address};
    CHECK(hipModuleLaunchKernel(write_to, N / 64, 1, 1, 64, 1, 1, 0, 0, arguments, nullptr));
    // The same argument as a block of bytes.
    size_t size = sizeof address;
    void* block[] = {HIP_LAUNCH_PARAM_BUFFER_POINTER, &address, HIP_LAUNCH_PARAM_BUFFER_SIZE, &size, HIP_LAUNCH_PARAM_END};
    CHECK(hipModuleLaunchKernel(increment, N / 64, 1, 1, 64, 1, 1, 0, 0, nullptr, block));
    expect_same(what, words.host(), counted(1));
    // A grid in work-items, with events around it.
    hipEvent_t start, stop;
    CHECK(hipEventCreate(&start));
    CHECK(hipEventCreate(&stop));
    CHECK(hipExtModuleLaunchKernel(increment, N, 1, 1, 64, 1, 1, 0, 0, arguments, nullptr, start, stop, 0));
    CHECK(hipEventSynchronize(stop));
    float ms;
    CHECK(hipEventElapsedTime(&ms, start, stop));
    EXPECT(ms > 0, "%s: a kernel took %g ms", what, ms);
    expect_same(what, words.host(), counted(2));
    CHECK(hipModuleLaunchKernel(use_lds, N / 64, 1, 1, 64, 1, 1, 256, 0, arguments, nullptr));
    std::vector<unsigned> reversed(N);
    for (int i = 0; i < N; ++i) reversed[i] = 63 - i % 64;
    expect_same(what, words.host(), reversed);
    for (hipEvent_t e : {start, stop}) CHECK(hipEventDestroy(e));
}

static const char* SOURCE = R"(
__device__ float factor = 2.0f;
extern "C" __global__ void scale(float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = sqrtf(x[i]) * factor;
}
)";

static void check_compiled() {
    hiprtcProgram program;
    EXPECT(hiprtcCreateProgram(&program, SOURCE, "scale.hip", 0, nullptr, nullptr) == HIPRTC_SUCCESS, "no program");
    hipDeviceProp_t properties;
    CHECK(hipGetDeviceProperties(&properties, 0));
    std::string arch = std::string("--gpu-architecture=") + properties.gcnArchName;
    const char* options[] = {arch.c_str()};
    hiprtcResult result = hiprtcCompileProgram(program, 1, options);
    size_t size;
    hiprtcGetProgramLogSize(program, &size);
    std::vector<char> log(size + 1);
    hiprtcGetProgramLog(program, log.data());
    EXPECT(result == HIPRTC_SUCCESS, "%s: %s", hiprtcGetErrorString(result), log.data());
    EXPECT(hiprtcGetCodeSize(program, &size) == HIPRTC_SUCCESS, "no code");
    std::vector<char> code(size);
    EXPECT(hiprtcGetCode(program, code.data()) == HIPRTC_SUCCESS, "no code");
    hiprtcDestroyProgram(&program);
    hipModule_t module;
    hipFunction_t scale;
    CHECK(hipModuleLoadData(&module, code.data()));
    CHECK(hipModuleGetFunction(&scale, module, "scale"));
    float* factor;
    CHECK(hipModuleGetGlobal((hipDeviceptr_t*)&factor, &size, module, "factor"));
    EXPECT(size == sizeof(float), "a float of %zu bytes", size);
    float three = 3.0f;
    CHECK(hipMemcpy(factor, &three, sizeof three, hipMemcpyHostToDevice));
    std::vector<float> x(N), expected(N);
    for (int i = 0; i < N; ++i) x[i] = float(i * i), expected[i] = 3.0f * i;
    Array<float> dx(x);
    float* address = dx;
    int n = N;
    void* arguments[] = {&address, &n};
    CHECK(hipModuleLaunchKernel(scale, N / 64, 1, 1, 64, 1, 1, 0, 0, arguments, nullptr));
    expect_same("a kernel compiled at run time", dx.host(), expected);
    CHECK(hipModuleUnload(module));
}

int main() {
    const char* path = std::getenv("TEST_KERNELS");
    EXPECT(path, "TEST_KERNELS names no code object");
    hipModule_t module;
    // Loaded again at the addresses of what was unloaded, three times over.
    for (int n = 0; n < 3; ++n) {
        CHECK(hipModuleLoad(&module, path));
        run("a module from a file", module);
        CHECK(hipModuleUnload(module));
    }
    std::ifstream file(path, std::ios::binary);
    std::vector<char> image((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    CHECK(hipModuleLoadData(&module, image.data()));
    run("a module from memory", module);
    CHECK(hipModuleUnload(module));
    EXPECT(hipModuleLoad(&module, "/missing.hsaco") != hipSuccess, "a missing file was loaded");
    (void)hipGetLastError();
    check_compiled();
    std::printf("PASS\n");
    return 0;
}
