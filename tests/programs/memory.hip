// Kinds of memory: variables of the device, pinned, registered and managed memory, what the runtime says of them.
#include <cmath>
#include <functional>

#include "check.h"

const int N = 10000;

__constant__ float coefficients[16];
__device__ int counters[64];
__device__ double initialized[4] = {1.5, -2.5, 3.25, 1e300};
static __device__ int* indirect;
__managed__ int managed_words[256];

__global__ void polynomial(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = 0;
    for (int c = 15; c >= 0; --c) sum = sum * x[i] + coefficients[c];
    y[i] = sum;
}

__global__ void count() {
    atomicAdd(&counters[threadIdx.x % 64], int(blockIdx.x) + 1);
    if (blockIdx.x == 0 && threadIdx.x < 4) initialized[threadIdx.x] *= 2;
}

__global__ void follow() { indirect[threadIdx.x] = int(threadIdx.x) * 9; }

__global__ void scale(const int* in, int* out, int factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i] * factor + 1;
}

__global__ void square_managed() { managed_words[threadIdx.x] *= managed_words[threadIdx.x]; }

static std::vector<int> each(int n, const std::function<int(int)>& f) {
    std::vector<int> r;
    for (int i = 0; i < n; ++i) r.push_back(f(i));
    return r;
}

static void check_symbols() {
    std::vector<float> c, x, expected;
    for (int i = 0; i < 16; ++i) c.push_back(float(i % 5 - 2));
    for (int i = 0; i < 256; ++i) x.push_back(float(i % 7 - 3) * 0.5f);
    CHECK(hipMemcpyToSymbol(HIP_SYMBOL(coefficients), c.data(), 8 * sizeof(float)));
    CHECK(hipMemcpyToSymbol(HIP_SYMBOL(coefficients), c.data() + 8, 8 * sizeof(float), 8 * sizeof(float)));
    for (float v : x) {
        float sum = 0;
        for (int i = 15; i >= 0; --i) sum = std::fma(sum, v, c[i]);
        expected.push_back(sum);
    }
    Array<float> dx(x), dy(256);
    polynomial<<<2, 128>>>(dx, dy, 256);
    expect_same("constant memory", dy.host(), expected);

    count<<<10, 128>>>();
    std::vector<int> counted(64);
    CHECK(hipMemcpyFromSymbol(counted.data(), HIP_SYMBOL(counters), sizeof counters));
    expect_same("variables of the device", counted, std::vector<int>(64, 110));
    std::vector<double> doubles(3);
    CHECK(hipMemcpyFromSymbol(doubles.data(), HIP_SYMBOL(initialized), 24, 8));
    expect_same("initialized variables", doubles, {-5.0, 6.5, 2e300});

    Array<int> target(64);
    int* address = target;
    void* symbol;
    size_t size;
    CHECK(hipMemcpyToSymbol(HIP_SYMBOL(indirect), &address, sizeof address));
    CHECK(hipGetSymbolAddress(&symbol, HIP_SYMBOL(indirect)));
    CHECK(hipGetSymbolSize(&size, HIP_SYMBOL(indirect)));
    EXPECT(size == sizeof(int*), "a pointer of %zu bytes", size);
    int* there;
    CHECK(hipMemcpy(&there, symbol, sizeof there, hipMemcpyDeviceToHost));
    EXPECT(there == address, "the variable holds %p, expected %p", (void*)there, (void*)address);
    follow<<<1, 64>>>();
    expect_same("a pointer in a variable", target.host(), each(64, [](int i) { return 9 * i; }));
}

static void run_scale(const char* what, int* in, int* out, int* host_in, int* host_out) {
    for (int i = 0; i < N; ++i) host_in[i] = i - 77, host_out[i] = 0;
    scale<<<(N + 255) / 256, 256>>>(in, out, 3, N);
    CHECK(hipDeviceSynchronize());
    expect_same(what, std::vector<int>(host_out, host_out + N), each(N, [](int i) { return (i - 77) * 3 + 1; }));
}

static void check_attributes(const char* what, void* pointer, hipMemoryType type, void* device, void* host) {
    hipPointerAttribute_t attributes;
    CHECK(hipPointerGetAttributes(&attributes, pointer));
#if HIP_VERSION_MAJOR >= 6
    const hipMemoryType found = attributes.type;
#else
    const hipMemoryType found = attributes.memoryType;
#endif
    EXPECT(found == type, "%s is of type %d, expected %d", what, found, type);
    EXPECT(attributes.devicePointer == device && attributes.hostPointer == host, "%s is at %p for the device and %p for the host, expected %p and %p", what,
           attributes.devicePointer, attributes.hostPointer, device, host);
    EXPECT(attributes.device == 0, "%s is of device %d", what, attributes.device);
}

static void check_host_memory() {
    int *pinned, *device, *written;
    for (unsigned flags : std::vector<unsigned>{0, hipHostMallocMapped | hipHostMallocCoherent, hipHostMallocPortable | hipHostMallocNonCoherent}) {
        CHECK(hipHostMalloc((void**)&pinned, 2 * N * sizeof(int), flags));
        CHECK(hipHostGetDevicePointer((void**)&device, pinned, 0));
        run_scale("pinned memory", device, device + N, pinned, pinned + N);
        check_attributes("pinned memory", pinned + 5, hipMemoryTypeHost, device + 5, pinned + 5);
        CHECK(hipHostFree(pinned));
    }
    // A page is shared by what is registered and what is not.
    std::vector<int> registered(2 * N + 1000);
    int* start = registered.data() + 333;
    CHECK(hipHostRegister(start, 2 * N * sizeof(int), hipHostRegisterMapped));
    CHECK(hipHostGetDevicePointer((void**)&device, start, 0));
    run_scale("registered memory", device, device + N, start, start + N);
    EXPECT(registered[332] == 0 && registered[333 + 2 * N] == 0, "memory beside the registered was written");
    CHECK(hipMalloc(&written, N * sizeof(int)));
    CHECK(hipMemcpy(written, start + N, N * sizeof(int), hipMemcpyHostToDevice));
    CHECK(hipMemcpy(start, written, N * sizeof(int), hipMemcpyDeviceToHost));
    expect_same("copies of registered memory", std::vector<int>(start, start + N), each(N, [](int i) { return (i - 77) * 3 + 1; }));
    CHECK(hipHostUnregister(start));
    EXPECT(hipHostUnregister(start) != hipSuccess, "memory was unregistered twice");
    CHECK(hipFree(written));
}

static void check_managed_memory() {
    int* words;
    CHECK(hipMallocManaged((void**)&words, 2 * N * sizeof(int)));
    run_scale("managed memory", words, words + N, words, words + N);
    CHECK(hipFree(words));
#if HIP_VERSION_MAJOR >= 7
    // Such a variable is memory of the host then, which the GPU only has at the same address if the driver shares it.
    int shared;
    CHECK(hipDeviceGetAttribute(&shared, hipDeviceAttributeConcurrentManagedAccess, 0));
    if (!shared) {
        std::printf("a managed variable: not without shared virtual memory\n");
        return;
    }
#endif
    for (int i = 0; i < 256; ++i) managed_words[i] = i - 100;
    square_managed<<<1, 256>>>();
    CHECK(hipDeviceSynchronize());
    expect_same("a managed variable", std::vector<int>(managed_words, managed_words + 256), each(256, [](int i) { return (i - 100) * (i - 100); }));
}

static void check_allocations() {
    size_t free_before, free_within, free_after, total;
    CHECK(hipMemGetInfo(&free_before, &total));
    char *block, *base;
    size_t size;
    CHECK(hipMalloc(&block, 96 << 20));
    CHECK(hipMemGetInfo(&free_within, &total));
    EXPECT(free_before <= total && free_before - free_within >= 96 << 20, "%zu of %zu bytes were free, then %zu", free_before, total, free_within);
    CHECK(hipMemGetAddressRange((hipDeviceptr_t*)&base, &size, block + 12345));
    EXPECT(base == block && size == 96 << 20, "the block at %p of 96 MiB is said to be %zu bytes at %p", (void*)block, size, (void*)base);
    check_attributes("memory of the device", block + 4096, hipMemoryTypeDevice, block + 4096, nullptr);
    CHECK(hipFree(block));
    CHECK(hipMemGetInfo(&free_after, &total));
    EXPECT(free_after == free_before, "%zu bytes were free, and %zu are now", free_before, free_after);
    EXPECT(hipMalloc(&block, total + (1 << 20)) == hipErrorOutOfMemory, "more memory was given than there is");
    CHECK(hipMalloc(&block, 0));
    EXPECT(block == nullptr, "nothing is at %p", (void*)block);

    // Many blocks of odd sizes, freed out of order, no two of which overlap.
    std::vector<std::pair<unsigned char*, size_t>> blocks;
    for (int i = 0; i < 120; ++i) {
        unsigned char* p;
        size_t bytes = 1 + size_t(i) * i * 37;
        CHECK(hipMalloc(&p, bytes));
        CHECK(hipMemsetAsync(p, i, bytes, 0));
        blocks.push_back({p, bytes});
        if (i % 3 == 2) {
            CHECK(hipFree(blocks[blocks.size() - 2].first));
            blocks.erase(blocks.end() - 2);
        }
    }
    for (auto& b : blocks) {
        std::vector<unsigned char> bytes(b.second);
        CHECK(hipMemcpy(bytes.data(), b.first, b.second, hipMemcpyDeviceToHost));
        size_t i = 0;
        while ((1 + i * i * 37) != b.second) ++i;
        for (unsigned char byte : bytes) EXPECT(byte == i, "block %zu of %zu bytes holds a %d", i, b.second, byte);
        CHECK(hipFree(b.first));
    }
    std::printf("allocations: sizes, ranges and contents correct\n");

    // HIP 5.2.3 takes no null stream here, and does not return from destroying a stream that a pool has served.
    hipStream_t stream;
    CHECK(hipStreamCreate(&stream));
    int* pooled;
    CHECK(hipMallocAsync((void**)&pooled, N * sizeof(int), stream));
    CHECK(hipMemsetD32Async(pooled, 41, N, stream));
    scale<<<(N + 255) / 256, 256, 0, stream>>>(pooled, pooled, 1, N);
    std::vector<int> got(N);
    CHECK(hipMemcpyAsync(got.data(), pooled, N * sizeof(int), hipMemcpyDeviceToHost, stream));
    CHECK(hipFreeAsync(pooled, stream));
    CHECK(hipStreamSynchronize(stream));
    expect_same("memory of a pool", got, std::vector<int>(N, 42));
}

int main() {
    check_symbols();
    check_host_memory();
    check_managed_memory();
    check_allocations();
    std::printf("PASS\n");
    return 0;
}
