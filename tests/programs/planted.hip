// A chain of dispatches of three kernels, one of which can be made to go wrong at one step, in one way. Which step and which way are the
// literals of two instructions of each kernel: a test changes them in a copy of the code object. The program itself goes wrong nowhere.
//   planted COUNT
#include "check.h"

#include <cmath>

constexpr unsigned WORDS = 1024;
constexpr unsigned GROUP = 256;

// Values that the compiler does not know, so that they are literals of instructions.
__device__ inline unsigned planted_step() {
    unsigned value;
    asm volatile("s_mov_b32 %0, 0x5eed0001" : "=s"(value));
    return value;
}

__device__ inline unsigned planted_way() {
    unsigned value;
    asm volatile("s_mov_b32 %0, 0x5eed0002" : "=s"(value));
    return value;
}

enum Way { ONCE = 1, OVERWRITTEN, NOT_A_NUMBER, INFINITE, RACE, FAULT };

__device__ inline void stage(float* out, const float* in, float* scratch, unsigned step, float by) {
    __shared__ float tile[GROUP];
    const unsigned i = blockIdx.x * GROUP + threadIdx.x, t = threadIdx.x;
    const bool wrong = step == planted_step();
    const unsigned way = planted_way();
    float v = in[i] * 0.5f + in[(i + 1) % WORDS] * 0.25f + by;
    tile[t] = v;
    if (!wrong || way != RACE) __syncthreads();
    v += tile[(t + 64) % GROUP] * 0.125f;
    float kept = v * 2.0f;
    if (wrong && i == 7) {
        if (way == ONCE) v += 1.0f;
        if (way == OVERWRITTEN) kept += 1.0f;
        if (way == NOT_A_NUMBER) v = NAN;
        if (way == INFINITE) v = INFINITY;
        if (way == FAULT) *(volatile float*)0x10 = v;
    }
    // Nothing reads this: the next step writes all of it.
    scratch[i] = kept;
    out[i] = v;
}

extern "C" __global__ void mix(float* out, const float* in, float* scratch, unsigned step) {
    stage(out, in, scratch, step, 0.5f);
}

extern "C" __global__ void relax(float* out, const float* in, float* scratch, unsigned step) {
    stage(out, in, scratch, step, -0.25f);
}

extern "C" __global__ void blend(float* out, const float* in, float* scratch, unsigned step) {
    stage(out, in, scratch, step, 0.125f);
}

int main(int argc, char** argv) {
    const unsigned count = argc > 1 ? atoi(argv[1]) : 60;
    float *a, *b, *scratch;
    CHECK(hipMalloc((void**)&a, WORDS * sizeof(float)));
    CHECK(hipMalloc((void**)&b, WORDS * sizeof(float)));
    CHECK(hipMalloc((void**)&scratch, WORDS * sizeof(float)));
    float values[WORDS];
    for (unsigned i = 0; i < WORDS; ++i) values[i] = (i * 37 % 101) / 16.0f;
    CHECK(hipMemcpy(a, values, sizeof values, hipMemcpyHostToDevice));
    CHECK(hipMemcpy(b, values, sizeof values, hipMemcpyHostToDevice));
    for (unsigned step = 1; step <= count; ++step) {
        float *out = step % 2 ? b : a, *in = step % 2 ? a : b;
        const dim3 grid(WORDS / GROUP), group(GROUP);
        switch (step % 3) {
            case 0: mix<<<grid, group>>>(out, in, scratch, step); break;
            case 1: relax<<<grid, group>>>(out, in, scratch, step); break;
            default: blend<<<grid, group>>>(out, in, scratch, step); break;
        }
        CHECK(hipGetLastError());
        // Now and then the host changes something in between.
        if (step % 16 == 0) {
            CHECK(hipDeviceSynchronize());
            const float one = step / 16.0f;
            CHECK(hipMemcpy(out + step % WORDS, &one, sizeof one, hipMemcpyHostToDevice));
        }
    }
    CHECK(hipDeviceSynchronize());
    CHECK(hipMemcpy(values, count % 2 ? b : a, sizeof values, hipMemcpyDeviceToHost));
    float sum = 0;
    for (float value : values) sum += value;
    if (!std::isfinite(sum) || sum == 0) return 1;
    std::printf("PASS\n");
    return 0;
}
