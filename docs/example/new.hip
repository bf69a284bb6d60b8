// A changed kernel for docs/capture-example.md: neighbours come from LDS. It forgets that those of a workgroup's first and last
// element are in other workgroups, unless it is compiled with -DRIGHT.
#include <hip/hip_runtime.h>

extern "C" __global__ void smooth(const float* in, float* out, int n) {
    __shared__ float tile[256 + 2];
    const int i = blockIdx.x * blockDim.x + threadIdx.x, at = threadIdx.x + 1;
    tile[at] = in[i < n ? i : n - 1];
#ifdef RIGHT
    if (threadIdx.x == 0) tile[0] = in[i > 0 ? i - 1 : 0];
    if (threadIdx.x == 255) tile[257] = in[i < n - 1 ? i + 1 : n - 1];
#else
    if (threadIdx.x == 0) tile[0] = tile[at];
    if (threadIdx.x == 255) tile[257] = tile[at];
#endif
    __syncthreads();
    if (i < n) out[i] = (tile[at - 1] + tile[at] + tile[at + 1]) / 3;
}
