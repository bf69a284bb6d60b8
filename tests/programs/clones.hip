// Kernels that the compiler's pass clones: OBJECT FOLDER. Runs each kernel of the code object and its clone on the same memory. They
// must compute the same. What the clone sent is written to a file of the kernel's name in the folder.
#include <fstream>
#include <string>

#include "messages.h"

const int N = 2048, SUMS = 64, ITEMS = 96, GROUPS = 3;
// Of a workgroup: an array that only the launch knows the size of.
extern __shared__ int dynamic[];

extern "C" {

__global__ void k_divergent(const int* in, int* out, int*, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, value = in[i];
    if (i % 3 == 1)
        for (int k = 0; k < i % 5; ++k) value += in[(value * 7 + i + k & 0xffff) % n];
    else if (i % 7 == 0)
        value = in[0];
    out[i] = value;
}

__global__ void k_lds(const int* in, int* out, int*, int n) {
    __shared__ int words[ITEMS];
    int i = threadIdx.x, all = blockIdx.x * ITEMS + i;
    words[i] = in[all];
    dynamic[i] = n + i;
    __syncthreads();
    if (i % 4 != 0) out[all] = words[ITEMS - 1 - i] + dynamic[(i + 5) % ITEMS];
}

__global__ void k_atomics(const int* in, int* out, int* sum, int) {
    __shared__ int bins[8];
    int i = threadIdx.x, all = blockIdx.x * ITEMS + i;
    if (i < 8) bins[i] = 0;
    __syncthreads();
    atomicAdd(&bins[in[all] & 7], 1);
    atomicMax(sum + i % 5, in[all]);
    if (i % 2 != 0) atomicCAS(out + all, 0, i);
    __syncthreads();
    if (i < 8) atomicAdd(reinterpret_cast<unsigned long long*>(sum + 16) + i, bins[i]);
}

__global__ void k_wide(const int* in, int* out, int*, int) {
    int i = blockIdx.x * ITEMS + threadIdx.x;
    int4 four = reinterpret_cast<const int4*>(in)[i % (N / 4)];
    double two = reinterpret_cast<const double*>(in)[i];
    short half = reinterpret_cast<const short*>(in)[2 * i + 1];
    signed char byte = reinterpret_cast<const signed char*>(in)[4 * i + 3];
    if (i % 2 == 0) reinterpret_cast<long long*>(out)[i] = (long long)(two * 0) + four.x + four.z;
    reinterpret_cast<short*>(out + 1024)[i] = half;
    reinterpret_cast<signed char*>(out + 1536)[i] = byte;
}

struct Block {
    int words[40];
};
__global__ void k_copies(const int* in, int* out, int*, int n) {
    int i = blockIdx.x * ITEMS + threadIdx.x;
    if (i < N / 80) reinterpret_cast<Block*>(out)[i] = reinterpret_cast<const Block*>(in)[i];
    if (i < 10) __builtin_memset(out + N / 2 + 50 * i, 3, (i + n % 2) * 16);
}

__global__ void k_grid(const int*, int* out, int* sum, int) {
    int i = (blockIdx.y * gridDim.x + blockIdx.x) * blockDim.x * blockDim.y + threadIdx.y * blockDim.x + threadIdx.x;
    out[i] = gridDim.x * 1000 + blockDim.y;
    if (i == 0) sum[0] = gridDim.y;
}

// Indexed by data: in scratch.
__global__ void k_scratch(const int* in, int* out, int*, int) {
    int i = blockIdx.x * ITEMS + threadIdx.x, items[16];
    for (int k = 0; k < 16; ++k) items[k] = in[(i + k * 13) % N];
    out[i] = items[in[i] & 15] + items[in[i + 1] & 15];
}
}

__device__ __attribute__((noinline)) int called(const int* in, int* out, int i) {
    if (i % 3 == 0) out[i] = in[i + 1];
    return in[2 * i];
}
__global__ void k_calling(const int* in, int* out, int*, int) {
    int i = blockIdx.x * ITEMS + threadIdx.x;
    if (i % 2 == 0) out[i + 1000] = called(in, out, i);
}

struct Launch {
    std::string name;
    dim3 grid, block;
};

int main(int count, char** arguments) {
    EXPECT(count == 3, "expected OBJECT FOLDER");
    hipModule_t object;
    CHECK(hipModuleLoad(&object, arguments[1]));
    std::vector<int> values(N);
    for (int i = 0; i < N; ++i) values[i] = i * 7919 % 1000;
    Array<int> in(values), out(N), sum(SUMS);
    for (const int* array : {(const int*)in, (const int*)out, (const int*)sum})
        std::printf("array %llx %llx\n", (unsigned long long)array, (unsigned long long)(array + (array == sum ? SUMS : N)));
    const dim3 grid(GROUPS), block(ITEMS);
    const Launch launches[] = {{"k_divergent", grid, block}, {"k_lds", grid, block}, {"k_atomics", grid, block},
                               {"k_wide", grid, block}, {"k_copies", grid, block}, {"k_grid", dim3(3, 2), dim3(16, 6)},
                               {"k_scratch", grid, block}, {"_Z9k_callingPKiPiS1_i", grid, block}};
    for (const Launch& launch : launches) {
        Messages messages(5, 8192);
        int n = N;
        void* descriptor = messages.descriptor();
        const int* from = in;
        int *to = out, *sums = sum;
        void* parameters[] = {&from, &to, &sums, &n, &descriptor};
        std::vector<int> results[2], totals[2];
        for (int cloned = 0; cloned < 2; ++cloned) {
            CHECK(hipMemset(out, 0, out.bytes()));
            CHECK(hipMemset(sum, 0, sum.bytes()));
            CHECK(hipDeviceSynchronize());
            hipFunction_t kernel;
            CHECK(hipModuleGetFunction(&kernel, object, (cloned ? "__amd_crk_" + launch.name + "Pv" : launch.name).c_str()));
            const dim3 &g = launch.grid, &b = launch.block;
            CHECK(hipModuleLaunchKernel(kernel, g.x, g.y, g.z, b.x, b.y, b.z, 4 * ITEMS, nullptr, parameters, nullptr));
            results[cloned] = out.host();
            totals[cloned] = sum.host();
        }
        expect_same((launch.name + " out").c_str(), results[1], results[0]);
        expect_same((launch.name + " sum").c_str(), totals[1], totals[0]);
        auto all = messages.all();
        EXPECT(messages.errors() == 0, "errors %x", messages.errors());
        std::printf("%s: %zu messages\n", launch.name.c_str(), all.size());
        std::ofstream file(std::string(arguments[2]) + "/" + launch.name, std::ios::binary);
        file.write(reinterpret_cast<const char*>(messages.bytes().data()), messages.bytes().size());
    }
    std::puts("PASS");
}
