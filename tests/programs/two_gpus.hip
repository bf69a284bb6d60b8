// Two GPUs in one process: kernels on both, streams on both, copies between them with and without peer access, a kernel
// of each that works on the other's memory.
//   two_gpus            everything
//   two_gpus foreign    a kernel of GPU 0 reads memory of GPU 1 without access to it: does not return on hardware
#include <cstring>
#include <vector>

#include "check.h"

constexpr int N = 1 << 16;

__global__ void fill(unsigned* words, unsigned first) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    words[i] = first + i;
}
__global__ void add(unsigned* to, const unsigned* from) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    to[i] += from[i];
}

static unsigned* on_device(int device, unsigned first) {
    CHECK(hipSetDevice(device));
    unsigned* words;
    CHECK(hipMalloc(&words, N * sizeof(unsigned)));
    fill<<<N / 256, 256>>>(words, first);
    CHECK(hipGetLastError());
    CHECK(hipDeviceSynchronize());
    return words;
}

static void expect(const char* what, const unsigned* words, unsigned first, unsigned step) {
    std::vector<unsigned> back(N);
    CHECK(hipMemcpy(back.data(), words, N * sizeof(unsigned), hipMemcpyDeviceToHost));
    for (int i = 0; i < N; ++i) {
        EXPECT(back[i] == first + step * i, "%s: word %d is %u, expected %u", what, i, back[i], first + step * i);
    }
}

int main(int argc, char** argv) {
    int count = 0;
    CHECK(hipGetDeviceCount(&count));
    EXPECT(count >= 2, "%d GPUs", count);
    unsigned* words[2];
    for (int d = 0; d < 2; ++d) {
        hipDeviceProp_t properties;
        CHECK(hipGetDeviceProperties(&properties, d));
        std::printf("device %d: %s %s\n", d, properties.name, properties.gcnArchName);
        words[d] = on_device(d, 1000 * d);
    }
    for (int d = 0; d < 2; ++d) {
        CHECK(hipSetDevice(d));
        int current = -1;
        CHECK(hipGetDevice(&current));
        EXPECT(current == d, "device %d is current, not %d", current, d);
        expect("kernel of each GPU", words[d], 1000 * d, 1);
        hipPointerAttribute_t attributes;
        CHECK(hipPointerGetAttributes(&attributes, words[d]));
        EXPECT(attributes.device == d, "memory of device %d is said to be of %d", d, attributes.device);
    }
    if (argc == 2 && !std::strcmp(argv[1], "foreign")) {
        std::printf("going wrong\n");
        std::fflush(stdout);
        CHECK(hipSetDevice(0));
        add<<<N / 256, 256>>>(words[0], words[1]);
        hipError_t status = hipDeviceSynchronize();
        std::printf("hipDeviceSynchronize: %s\n", hipGetErrorName(status));
        std::printf("PASS\n");
        return 0;
    }

    // Copies without access.
    CHECK(hipMemcpyPeer(words[0], 0, words[1], 1, N * sizeof(unsigned)));
    expect("hipMemcpyPeer from 1 to 0", words[0], 1000, 1);
    CHECK(hipSetDevice(0));
    fill<<<N / 256, 256>>>(words[0], 7);
    CHECK(hipDeviceSynchronize());
    CHECK(hipMemcpy(words[1], words[0], N * sizeof(unsigned), hipMemcpyDeviceToDevice));
    expect("hipMemcpy from 0 to 1", words[1], 7, 1);

    // Through memory of the host.
    std::vector<unsigned> host(N);
    CHECK(hipMemcpy(host.data(), words[0], N * sizeof(unsigned), hipMemcpyDeviceToHost));
    for (unsigned& word : host) word *= 3;
    CHECK(hipSetDevice(1));
    CHECK(hipMemcpy(words[1], host.data(), N * sizeof(unsigned), hipMemcpyHostToDevice));
    expect("copy by way of the host", words[1], 21, 3);

    // Two streams at work at the same time, one on each, and one that waits for the other.
    hipStream_t streams[2];
    for (int d = 0; d < 2; ++d) {
        CHECK(hipSetDevice(d));
        CHECK(hipStreamCreate(&streams[d]));
    }
    hipEvent_t filled;
    CHECK(hipSetDevice(0));
    CHECK(hipEventCreate(&filled));
    fill<<<N / 256, 256, 0, streams[0]>>>(words[0], 5);
    CHECK(hipEventRecord(filled, streams[0]));
    CHECK(hipSetDevice(1));
    fill<<<N / 256, 256, 0, streams[1]>>>(words[1], 50);
    CHECK(hipStreamWaitEvent(streams[1], filled, 0));
    CHECK(hipMemcpyPeerAsync(words[1], 1, words[0], 0, N * sizeof(unsigned), streams[1]));
    add<<<N / 256, 256, 0, streams[1]>>>(words[1], words[1]);
    CHECK(hipStreamSynchronize(streams[1]));
    expect("hipMemcpyPeerAsync after another GPU's event", words[1], 10, 2);

    int possible[2];
    CHECK(hipDeviceCanAccessPeer(&possible[0], 0, 1));
    CHECK(hipDeviceCanAccessPeer(&possible[1], 1, 0));
    std::printf("peer access %d %d\n", possible[0], possible[1]);
    if (possible[0] && possible[1]) {
        for (int d = 0; d < 2; ++d) {
            CHECK(hipSetDevice(d));
            CHECK(hipDeviceEnablePeerAccess(1 - d, 0));
            EXPECT(hipDeviceEnablePeerAccess(1 - d, 0) == hipErrorPeerAccessAlreadyEnabled, "access can be enabled twice");
            // HIP 7 keeps it for the next launch to find.
            (void)hipGetLastError();
        }
        // Memory from before and from after access was enabled.
        CHECK(hipSetDevice(0));
        add<<<N / 256, 256>>>(words[0], words[1]);
        CHECK(hipDeviceSynchronize());
        expect("GPU 0 reads memory of GPU 1", words[0], 15, 3);
        unsigned* later = on_device(1, 100);
        CHECK(hipSetDevice(0));
        add<<<N / 256, 256>>>(later, words[0]);
        CHECK(hipDeviceSynchronize());
        expect("GPU 0 writes memory of GPU 1", later, 115, 4);
        CHECK(hipMemcpyPeer(words[0], 0, later, 1, N * sizeof(unsigned)));
        expect("hipMemcpyPeer with access", words[0], 115, 4);
        CHECK(hipSetDevice(1));
        CHECK(hipFree(later));
    }
    for (int d = 0; d < 2; ++d) {
        CHECK(hipSetDevice(d));
        CHECK(hipStreamDestroy(streams[d]));
        CHECK(hipFree(words[d]));
    }
    std::printf("PASS\n");
    return 0;
}
