// Kernels on two streams, between which the host writes. Prints what the host has written, in the order in which it did:
//   step NUMBER                 the kernel `step` is about to be launched, for the NUMBERth time
//   write ADDRESS BYTES         these bytes differ from those that were there; in hexadecimal digits
//   copy ADDRESS BYTES          a copy to the device, which is complete
//   again ADDRESS               memory was freed, and other memory allocated
// and PASS. With "killed N", the process is killed before step N; with "left", it ends without the kernel `last`.
//   stretch [killed N | left]
#include "check.h"

#include <csignal>
#include <string>

constexpr int WORDS = 3072;

extern "C" __global__ void prepare(unsigned* to) { to[threadIdx.x] = threadIdx.x; }

extern "C" __global__ void step(unsigned* to, const unsigned* from, unsigned by) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < WORDS) to[i] = to[i] * 3 + from[i] + by;
}

extern "C" __global__ void last(unsigned* to) { to[threadIdx.x] += 1; }

static int steps = 0;
static int killed_at = 0;

static void run(unsigned* to, const unsigned* from, hipStream_t stream) {
    ++steps;
    std::printf("step %d\n", steps);
    std::fflush(stdout);
    if (steps == killed_at) raise(SIGKILL);
    step<<<(WORDS + 255) / 256, 256, 0, stream>>>(to, from, steps);
    CHECK(hipGetLastError());
    CHECK(hipStreamSynchronize(stream));
}

static void told(const char* what, const void* at, const void* bytes, size_t count) {
    std::printf("%s %p ", what, at);
    for (size_t i = 0; i < count; ++i) std::printf("%02x", ((const unsigned char*)bytes)[i]);
    std::printf("\n");
}

// Bytes that differ from those that are there.
static void write(void* memory, size_t at, size_t count) {
    unsigned char* bytes = (unsigned char*)memory + at;
    for (size_t i = 0; i < count; ++i) bytes[i] = ~bytes[i];
    told("write", bytes, bytes, count);
}

int main(int argc, char** argv) {
    const std::string story = argc > 1 ? argv[1] : "";
    if (story == "killed") killed_at = atoi(argv[2]);
    hipStream_t first, second;
    CHECK(hipStreamCreateWithFlags(&first, hipStreamNonBlocking));
    CHECK(hipStreamCreateWithFlags(&second, hipStreamNonBlocking));
    unsigned *a, *b, *pinned, *other, *managed;
    CHECK(hipMalloc((void**)&a, WORDS * 4));
    CHECK(hipMalloc((void**)&b, WORDS * 4));
    CHECK(hipHostMalloc((void**)&pinned, WORDS * 4));
    CHECK(hipHostMalloc((void**)&other, WORDS * 4));
    CHECK(hipMallocManaged((void**)&managed, WORDS * 4));
    CHECK(hipMemset(a, 0, WORDS * 4));
    CHECK(hipMemset(b, 0, WORDS * 4));
    for (int i = 0; i < WORDS; ++i) pinned[i] = other[i] = managed[i] = i;
    prepare<<<1, 256, 0, first>>>(a);
    CHECK(hipDeviceSynchronize());
    std::printf("memory %p %p %p %p %p\n", (void*)a, (void*)b, (void*)pinned, (void*)other, (void*)managed);

    run(a, pinned, first);
    // Nothing is written.
    run(a, pinned, second);
    write(pinned, 12, 8);
    write(pinned, 4097, 1);
    run(b, pinned, second);
    // Not reached yet: the whole memory is, with the next step.
    write(managed, 5, 3);
    run(b, managed, first);
    write(managed, 6001, 2);
    write(pinned, 0, 1);
    write(pinned, WORDS * 4 - 1, 1);
    // A kernel that reaches neither runs in between.
    last<<<1, 64, 0, second>>>(a);
    CHECK(hipStreamSynchronize(second));
    run(a, b, first);
    // A copy to the device.
    for (int i = 0; i < 100; ++i) other[i] = 0x01010101u * i;
    CHECK(hipMemcpyAsync(a + 50, other, 400, hipMemcpyHostToDevice, first));
    CHECK(hipStreamSynchronize(first));
    told("copy", a + 50, other, 400);
    run(a, b, first);
    // Other memory, where there was one.
    CHECK(hipFree(b));
    CHECK(hipMalloc((void**)&b, WORDS * 4));
    CHECK(hipMemset(b, 7, WORDS * 4));
    CHECK(hipDeviceSynchronize());
    std::printf("again %p\n", (void*)b);
    run(b, pinned, second);
    std::vector<unsigned> got(WORDS);
    CHECK(hipMemcpy(got.data(), b, WORDS * 4, hipMemcpyDeviceToHost));
    for (int i = 0; i < WORDS; ++i) {
        EXPECT(got[i] == 0x07070707u * 3 + pinned[i] + steps, "b[%d] is %u", i, got[i]);
    }
    if (story == "left") {
        std::printf("PASS\n");
        return 0;
    }
    last<<<1, 64, 0, first>>>(b);
    CHECK(hipDeviceSynchronize());
    CHECK(hipMemcpy(got.data(), b, WORDS * 4, hipMemcpyDeviceToHost));
    told("end", b, got.data(), got.size() * 4);
    std::printf("PASS\n");
}
