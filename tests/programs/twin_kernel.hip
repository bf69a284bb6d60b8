// One source that is compiled with several constants: as many kernels of one name.
#include <hip/hip_runtime.h>
#ifndef PLUS
#define PLUS 0
#endif
#ifdef UNUSED
extern "C" __global__ void unused(unsigned* out) { out[threadIdx.x] = 1; }
#endif
extern "C" __global__ void twin(unsigned* out) {
    unsigned v = threadIdx.x;
    for (int n = 0; n < N; ++n) v = v * 2 + N;
    out[threadIdx.x] = v + PLUS;
}
