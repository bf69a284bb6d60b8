// Launches kernels, and writes a trace of its calls as PyTorch's profiler does: the n-th launch has n workgroups.

#include "check.h"

#include <ctime>
#include <unistd.h>

__global__ void step(unsigned* out) { out[blockIdx.x * blockDim.x + threadIdx.x] = threadIdx.x; }

static long long now() {
    timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

int main(int argc, char** argv) {
    EXPECT(argc == 2, "expected the name of the trace, found %d arguments", argc - 1);
    std::FILE* trace = std::fopen(argv[1], "w");
    EXPECT(trace, "%s cannot be written", argv[1]);
    long long base = now() / 1000000000 * 1000000000;
    int pid = getpid();
    std::fprintf(trace, "{\"schemaVersion\": 1, \"baseTimeNanoseconds\": %lld, \"displayTimeUnit\": \"ms\", \"traceEvents\": [\n", base);
    std::fprintf(trace, "{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": %d, \"tid\": 0, \"args\": {\"name\": \"python\"}}", pid);
    Array<unsigned> out(64 * 16);
    for (int n = 1; n <= 8; n++) {
        long long start = now();
        step<<<n, 64>>>(out);
        long long end = now();
        CHECK(hipDeviceSynchronize());
        std::fprintf(trace, ",\n{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::step\", \"pid\": %d, \"tid\": %d, \"ts\": %.3f, "
                     "\"dur\": %.3f, \"args\": {\"External id\": %d}}", pid, pid, (start - base) / 1e3, (end - start) / 1e3, n);
        std::fprintf(trace, ",\n{\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"hipLaunchKernel\", \"pid\": %d, \"tid\": %d, "
                     "\"ts\": %.3f, \"dur\": %.3f, \"args\": {\"External id\": %d, \"correlation\": %d}}",
                     pid, pid, (start - base) / 1e3, (end - start) / 1e3, n, 100 + n);
    }
    std::fprintf(trace, "\n]}\n");
    EXPECT(std::fclose(trace) == 0, "%s cannot be written", argv[1]);
    std::puts("PASS");
}
