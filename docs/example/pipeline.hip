// The application of the documents: three streams make noise, smooth it and sum it up, four times each. The kernel `smooth` has a
// division in its loop. Compiled with -DFASTER, it compares instead.
#include <hip/hip_runtime.h>

#include <cstdio>

constexpr int STREAMS = 3, ROUNDS = 4, COUNT = 16384, WORKGROUP = 256, WIDTH = 8;

extern "C" __global__ void noise(float* out, int n, unsigned seed) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned x = seed * 2654435769u + i;
    for (int round = 0; round < 64; round++) x = (x ^ (x >> 15)) * 2246822519u;
    out[i] = float(x >> 8) / float(1 << 24);
}

// The mean of WIDTH elements; behind the last one comes the first.
extern "C" __global__ void smooth(const float* in, float* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = 0;
    for (int k = 0; k < WIDTH; k++) {
#ifdef FASTER
        sum += in[i + k < n ? i + k : i + k - n];
#else
        sum += in[(i + k) % n];
#endif
    }
    out[i] = sum / WIDTH;
}

extern "C" __global__ void total(const float* in, float* sums, int n) {
    __shared__ float parts[WORKGROUP];
    const int item = threadIdx.x, i = blockIdx.x * blockDim.x + item;
    parts[item] = i < n ? in[i] : 0;
    for (int half = WORKGROUP / 2; half > 0; half /= 2) {
        __syncthreads();
        if (item < half) parts[item] += parts[item + half];
    }
    if (item == 0) sums[blockIdx.x] = parts[0];
}

#define CHECK(call) \
    if (hipError_t error = call) return std::fprintf(stderr, "%s: %s\n", #call, hipGetErrorString(error)), 1

int main() {
    hipStream_t streams[STREAMS];
    float *made[STREAMS], *smoothed[STREAMS], *sums[STREAMS];
    for (int s = 0; s < STREAMS; s++) {
        CHECK(hipStreamCreate(&streams[s]));
        CHECK(hipMalloc(&made[s], COUNT * sizeof(float)));
        CHECK(hipMalloc(&smoothed[s], COUNT * sizeof(float)));
        CHECK(hipMalloc(&sums[s], COUNT / WORKGROUP * sizeof(float)));
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int s = 0; s < STREAMS; s++) {
            const dim3 groups(COUNT / WORKGROUP), items(WORKGROUP);
            noise<<<groups, items, 0, streams[s]>>>(made[s], COUNT, round * STREAMS + s);
            smooth<<<groups, items, 0, streams[s]>>>(made[s], smoothed[s], COUNT);
            total<<<groups, items, 0, streams[s]>>>(smoothed[s], sums[s], COUNT);
        }
    }
    CHECK(hipDeviceSynchronize());
    for (int s = 0; s < STREAMS; s++) {
        float parts[COUNT / WORKGROUP], sum = 0;
        CHECK(hipMemcpy(parts, sums[s], sizeof parts, hipMemcpyDeviceToHost));
        for (float part : parts) sum += part;
        std::printf("mean of stream %d: %.3f\n", s, sum / COUNT);
    }
}
