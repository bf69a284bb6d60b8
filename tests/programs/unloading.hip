// One thread loads a module, launches its kernel and unloads it, again and again, while another one launches a kernel of the
// program. TEST_ROUNDS says how often; TEST_KERNELS names the module.
// With -DOTHER the program's kernel computes the same by other code: only code that takes its place is compiled so.
#include <atomic>
#include <thread>

#include "check.h"

constexpr int N = 256, LAUNCHES = 4;

__device__ unsigned launched;

extern "C" __global__ void first(unsigned* words, unsigned by) {
#ifdef OTHER
    asm volatile("s_nop 7");
#endif
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    words[i] += by;
    if (i == 0) atomicAdd(&launched, 1);
}

// The kernel `increment` of the module.
static void load_and_unload(const char* path, unsigned* words, hipStream_t stream) {
    hipModule_t module;
    CHECK(hipModuleLoad(&module, path));
    hipFunction_t increment;
    CHECK(hipModuleGetFunction(&increment, module, "increment"));
    void* arguments[] = {&words};
    for (int n = 0; n < LAUNCHES; ++n) CHECK(hipModuleLaunchKernel(increment, N / 64, 1, 1, 64, 1, 1, 0, stream, arguments, nullptr));
    CHECK(hipStreamSynchronize(stream));
    CHECK(hipModuleUnload(module));
}

int main() {
    const char* path = std::getenv("TEST_KERNELS");
    const char* rounds_text = std::getenv("TEST_ROUNDS");
    EXPECT(path && rounds_text, "TEST_KERNELS and TEST_ROUNDS are not set");
    int rounds = std::atoi(rounds_text);
    Array<unsigned> of_program(N), of_module(N);
    std::atomic<bool> ended{false};
    unsigned launches = 0;
    std::thread other([&] {
        hipStream_t stream;
        CHECK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
        // At least once, and until no more modules come.
        do {
            first<<<N / 64, 64, 0, stream>>>(of_program, 3);
            CHECK(hipGetLastError());
            if (++launches % 16 == 0) CHECK(hipStreamSynchronize(stream));
        } while (!ended);
        CHECK(hipStreamSynchronize(stream));
    });
    hipStream_t stream;
    CHECK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
    for (int n = 0; n < rounds; ++n) load_and_unload(path, of_module, stream);
    ended = true;
    other.join();
    expect_same("increment", of_module.host(), std::vector<unsigned>(N, LAUNCHES * rounds));
    expect_same("first", of_program.host(), std::vector<unsigned>(N, 3 * launches));
    unsigned counted = 0;
    CHECK(hipMemcpyFromSymbol(&counted, launched, sizeof counted));
    EXPECT(counted == launches, "%u launches counted of %u", counted, launches);
    std::printf("PASS\n");
}
