// What a program may do while one of its dispatches is captured: as arguments, which.
#include "check.h"

#include <sys/mman.h>

#include <string>
#include <thread>

__global__ void add_one(int* out) { out[blockIdx.x * blockDim.x + threadIdx.x] += 1; }

// Waits for somebody who works at the same time.
__global__ void wait_then_write(const int* flag, int* out, int* begun) {
    if (begun) __hip_atomic_store(begun, 1, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_SYSTEM);
    while (__hip_atomic_load(flag, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_SYSTEM) == 0) {
        __builtin_amdgcn_s_sleep(8);
    }
    out[threadIdx.x] = 1;
}

__global__ void raise(int* flag) { __hip_atomic_store(flag, 1, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_SYSTEM); }

static void expect_ones(const Array<int>& out, const char* what) {
    const std::vector<int> host = out.host();
    for (int value : host) EXPECT(value == 1, "%s: %d", what, value);
}

// Memory that was given to the GPU, and then away.
static void unmapped() {
    const size_t bytes = 4 * 4096;
    void* pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(pages != MAP_FAILED, "mmap");
    CHECK(hipHostRegister(pages, bytes, hipHostRegisterDefault));
    EXPECT(munmap(static_cast<char*>(pages) + 4096, bytes - 4096) == 0, "munmap");
    Array<int> out(64);
    add_one<<<1, 64>>>(out);
    expect_ones(out, "unmapped");
}

// A kernel that ends when a thread of the host says so.
static void flag() {
    int* raised;
    CHECK(hipHostMalloc(&raised, sizeof(int), hipHostMallocCoherent));
    *raised = 0;
    Array<int> out(64);
    wait_then_write<<<1, 64>>>(raised, out, nullptr);
    // This thread has to come so far.
    __atomic_store_n(raised, 1, __ATOMIC_RELEASE);
    expect_ones(out, "flag");
    CHECK(hipHostFree(raised));
}

// A kernel that ends when one of another stream says so.
static void other() {
    int* flags;
    CHECK(hipHostMalloc(&flags, 2 * sizeof(int), hipHostMallocCoherent));
    int *raised = flags, *begun = flags + 1;
    *raised = *begun = 0;
    Array<int> out(64);
    hipStream_t first, second;
    CHECK(hipStreamCreateWithFlags(&first, hipStreamNonBlocking));
    CHECK(hipStreamCreateWithFlags(&second, hipStreamNonBlocking));
    wait_then_write<<<1, 64, 0, first>>>(raised, out, begun);
    while (__atomic_load_n(begun, __ATOMIC_ACQUIRE) == 0) std::this_thread::yield();
    raise<<<1, 1, 0, second>>>(raised);
    expect_ones(out, "other");
    CHECK(hipStreamDestroy(first));
    CHECK(hipStreamDestroy(second));
    CHECK(hipHostFree(flags));
}

// Streams that wait for each other's kernels, round after round, all launched before the first has ended.
static void chained() {
    const int streams = 3, rounds = 4;
    hipStream_t stream[streams];
    hipEvent_t done[streams];
    Array<int> out(64 * streams);
    for (int s = 0; s < streams; s++) {
        CHECK(hipStreamCreateWithFlags(&stream[s], hipStreamNonBlocking));
        CHECK(hipEventCreate(&done[s]));
    }
    for (int step = 0; step < rounds * streams; step++) {
        const int s = step % streams;
        if (step) CHECK(hipStreamWaitEvent(stream[s], done[(step - 1) % streams], 0));
        add_one<<<1, 64, 0, stream[s]>>>(out + 64 * s);
        CHECK(hipEventRecord(done[s], stream[s]));
    }
    for (int value : out.host()) EXPECT(value == rounds, "chained: %d", value);
    for (int s = 0; s < streams; s++) {
        CHECK(hipStreamDestroy(stream[s]));
        CHECK(hipEventDestroy(done[s]));
    }
}

// Much memory of which little is changed, twice.
static void large(size_t mebibytes) {
    const size_t words = mebibytes << 18, changed = 1 << 18;
    std::vector<int> host(words);
    unsigned state = 1;
    for (int& word : host) word = int(state = state * 1664525 + 1013904223);
    Array<int> all(host);
    for (int launch = 0; launch < 2; launch++) add_one<<<changed / 256, 256>>>(all + words / 2);
    CHECK(hipDeviceSynchronize());
    CHECK(hipMemcpy(host.data(), all + words / 2, sizeof(int), hipMemcpyDeviceToHost));
}

int main(int argc, char** argv) {
    for (int i = 1; i < argc; i++) {
        const std::string name = argv[i];
        if (name == "unmapped") unmapped();
        if (name == "flag") flag();
        if (name == "other") other();
        if (name == "chained") chained();
        if (name.rfind("large=", 0) == 0) large(std::stoul(name.substr(6)));
    }
    std::printf("PASS\n");
}
