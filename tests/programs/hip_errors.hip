// What goes wrong in HIP programs, one mode at a time: each does good work first, then the bad thing, and says what HIP
// returned. Modes that hardware ends with an abort print nothing after "going wrong".
//   hip_errors null|wild|freed|freed_small|beyond|unmapped|unmapped_copy|unaligned|illegal|symbol|lds|workgroup|grid|arch
#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "check.h"

__global__ void add_one(unsigned* words) { words[blockIdx.x * blockDim.x + threadIdx.x] += 1; }
__global__ void store_at(unsigned* where, unsigned value) { where[threadIdx.x] = value; }
__global__ void load_from(const unsigned* where, unsigned* out) { out[threadIdx.x] = where[threadIdx.x]; }
__global__ void count_at(unsigned* where) { atomicAdd(where, 1u); }
__global__ void no_instruction() { asm volatile(".long 0xffffffff"); }
__global__ void use_shared(unsigned* out) {
    extern __shared__ unsigned words[];
    words[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = words[blockDim.x - 1 - threadIdx.x];
}

static void say(const char* what, hipError_t status) {
    std::printf("%s: %s\n", what, hipGetErrorName(status));
    std::fflush(stdout);
}

int main(int argc, char** argv) {
    EXPECT(argc == 2, "expected one mode");
    const char* mode = argv[1];
    unsigned* words;
    CHECK(hipMalloc(&words, 256 * sizeof(unsigned)));
    CHECK(hipMemset(words, 0, 256 * sizeof(unsigned)));
    for (int i = 0; i < 3; ++i) add_one<<<4, 64>>>(words);
    std::vector<unsigned> back(256);
    CHECK(hipMemcpy(back.data(), words, 256 * sizeof(unsigned), hipMemcpyDeviceToHost));
    for (unsigned word : back) EXPECT(word == 3, "good work gave %u", word);
    std::printf("going wrong\n");
    std::fflush(stdout);

    if (!std::strcmp(mode, "null")) {
        store_at<<<1, 64>>>(nullptr, 1);
    } else if (!std::strcmp(mode, "wild")) {
        load_from<<<1, 64>>>(reinterpret_cast<unsigned*>(0x123456789000), words);
    } else if (!std::strcmp(mode, "freed")) {
        // Large enough not to be a piece of a block that the runtime keeps.
        unsigned* large;
        CHECK(hipMalloc(&large, 16 << 20));
        store_at<<<1, 64>>>(large, 1);
        CHECK(hipDeviceSynchronize());
        CHECK(hipFree(large));
        store_at<<<1, 64>>>(large, 2);
    } else if (!std::strcmp(mode, "freed_small")) {
        // A piece of such a block: still there for the GPU, unless the runtime is told to have no such blocks.
        unsigned* small;
        CHECK(hipMalloc(&small, 256));
        store_at<<<1, 64>>>(small, 1);
        CHECK(hipDeviceSynchronize());
        CHECK(hipFree(small));
        store_at<<<1, 64>>>(small, 2);
    } else if (!std::strcmp(mode, "unmapped") || !std::strcmp(mode, "unmapped_copy")) {
        // Memory of the host's that is registered, and unmapped while it still is.
        const size_t size = 1 << 20;
        void* host = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        EXPECT(host != MAP_FAILED, "no memory");
        CHECK(hipHostRegister(host, size, hipHostRegisterDefault));
        void* where;
        CHECK(hipHostGetDevicePointer(&where, host, 0));
        store_at<<<1, 64>>>(static_cast<unsigned*>(where), 5);
        CHECK(hipDeviceSynchronize());
        EXPECT(static_cast<unsigned*>(host)[63] == 5, "registered memory has not been written");
        EXPECT(munmap(host, size) == 0, "munmap failed");
        if (std::strlen(mode) == 8)
            store_at<<<1, 64>>>(static_cast<unsigned*>(where) + 64, 6);
        else
            CHECK(hipMemcpyAsync(words, where, 256, hipMemcpyDeviceToDevice, nullptr));
    } else if (!std::strcmp(mode, "beyond")) {
        unsigned* large;
        CHECK(hipMalloc(&large, 16 << 20));
        load_from<<<1, 64>>>(large + (16 << 20) / sizeof(unsigned) - 32, words);
    } else if (!std::strcmp(mode, "unaligned")) {
        count_at<<<1, 64>>>(reinterpret_cast<unsigned*>(reinterpret_cast<std::uintptr_t>(words) + 2));
    } else if (!std::strcmp(mode, "illegal")) {
        no_instruction<<<1, 64>>>();
    } else if (!std::strcmp(mode, "symbol") || !std::strcmp(mode, "arch")) {
        // TEST_KERNELS names a code object for the processor that the mode needs.
        hipModule_t module;
        hipError_t loaded = hipModuleLoad(&module, std::getenv("TEST_KERNELS"));
        say("hipModuleLoad", loaded);
        if (loaded == hipSuccess) {
            hipFunction_t function;
            say("increment", hipModuleGetFunction(&function, module, "increment"));
            say("no_such_kernel", hipModuleGetFunction(&function, module, "no_such_kernel"));
        }
    } else if (!std::strcmp(mode, "lds")) {
        use_shared<<<1, 64, 1 << 17>>>(words);
        say("launch", hipGetLastError());
    } else if (!std::strcmp(mode, "workgroup")) {
        add_one<<<1, 2048>>>(words);
        say("launch", hipGetLastError());
    } else if (!std::strcmp(mode, "grid")) {
        add_one<<<0, 64>>>(words);
        say("launch", hipGetLastError());
        add_one<<<dim3(1, 1, 1), dim3(0, 1, 1)>>>(words);
        say("launch", hipGetLastError());
    } else {
        EXPECT(false, "no mode %s", mode);
    }
    say("hipDeviceSynchronize", hipDeviceSynchronize());
    std::printf("PASS\n");
    return 0;
}
