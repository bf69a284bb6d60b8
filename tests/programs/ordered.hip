// Kernels in which waves and workgroups share LDS and memory: those that are named right order their accesses, the others do not.

#include "check.h"

#define SLEEP() __builtin_amdgcn_s_sleep(1)

// A wave waits in LDS for a flag of another one. LLVM makes a plain load of the atomic that changes nothing.
__global__ void right_lds_flag(unsigned* out) {
    __shared__ unsigned flag, data;
    unsigned t = threadIdx.x;
    if (t == 0) flag = 0;
    __syncthreads();
    if (t == 0) {
        data = 42;
        __threadfence_block();
        atomicExch(&flag, 1);
    }
    if (t == 64) {
        while (atomicOr(&flag, 0) == 0) SLEEP();
        __threadfence_block();
        out[0] = data;
    }
}
__global__ void right_lds_lock(unsigned* out) {
    __shared__ unsigned lock, sum;
    unsigned t = threadIdx.x;
    if (t == 0) lock = sum = 0;
    __syncthreads();
    if (t % 64 == 0) {
        while (atomicCAS(&lock, 0, 1) != 0) SLEEP();
        __threadfence_block();
        sum += t;
        __threadfence_block();
        atomicExch(&lock, 0);
    }
    __syncthreads();
    if (t == 0) out[0] = sum;
}
// out[0] is a flag, a lock or a counter, out[1] and the words behind are data.
__global__ void right_flag(unsigned* out) {
    if (threadIdx.x != 0) return;
    if (blockIdx.x == 0) {
        out[1] = 42;
        __threadfence();
        atomicExch(out, 1);
    } else if (blockIdx.x == 1) {
        while (atomicAdd(out, 0) == 0) SLEEP();
        __threadfence();
        out[2] = out[1];
    }
}
__global__ void right_lock(unsigned* out) {
    if (threadIdx.x != 0) return;
    while (atomicCAS(out, 0, 1) != 0) SLEEP();
    __threadfence();
    out[1] += blockIdx.x;
    __threadfence();
    atomicExch(out, 0);
}
__global__ void right_last_block(unsigned* out) {
    __shared__ bool last;
    out[64 + blockIdx.x * blockDim.x + threadIdx.x] = threadIdx.x;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) last = atomicAdd(out, 1) == gridDim.x - 1;
    __syncthreads();
    if (!last) return;
    __threadfence();
    unsigned sum = 0;
    for (unsigned n = threadIdx.x; n < gridDim.x * blockDim.x; n += blockDim.x) sum += out[64 + n];
    atomicAdd(out + 1, sum);
    if (threadIdx.x == 0) out[0] = 0;
}
__global__ void right_mates(unsigned* out) {
    out[64 + blockIdx.x * blockDim.x + threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[1024 + blockIdx.x * blockDim.x + threadIdx.x] = out[64 + (blockIdx.x + 1) * blockDim.x - 1 - threadIdx.x];
}

__device__ __attribute__((noinline)) unsigned get(volatile unsigned* p) { return *p; }
__global__ void behind_scratch(unsigned* out, unsigned i) {
    unsigned a[8];
    for (unsigned n = 0; n < 8; n++) a[n] = n * i;
    unsigned v = get(a + i % 8);
    if (threadIdx.x == 0) out[0] = blockIdx.x + v;  // behind scratch
}
__global__ void byte_race(unsigned* out) {
    __shared__ unsigned char s[64];
    unsigned t = threadIdx.x;
    if (t < 64) s[t] = t;
    __syncthreads();
    if (t >= 64) {
        out[t] = s[t - 64];  // read of bytes
    } else if (t == 0) {
        for (int i = 0; i < 400; i++) asm volatile("s_nop 0");
        s[4] = 99;
    }
}
// Lanes 0, 1, 2 write bytes 0, 1, 0.
__global__ void lanes_of_bytes(unsigned* out) {
    __shared__ unsigned char s[4];
    unsigned t = threadIdx.x;
    if (t < 3) s[t & 1] = t + 1;  // bytes of lanes
    __syncthreads();
    if (t < 2) out[t] = s[t];
}
__global__ void lanes_of_pairs(unsigned* out) {
    unsigned t = threadIdx.x;
    if (t < 3) reinterpret_cast<unsigned long long*>(out)[t & 1] = t + (1ull << 40);  // pairs of lanes
}
__global__ void right_lanes(unsigned* out) {
    reinterpret_cast<unsigned long long*>(out)[(threadIdx.x * 5) & 15] = (threadIdx.x * 5) & 15;
}
__global__ void loads_to_lds(unsigned* out) {
#if !defined(__gfx942__) && !defined(__gfx950__)
    __shared__ unsigned s[128];
    unsigned t = threadIdx.x;
    if (t < 64) {
        const unsigned* p = out + 128 + t;
        unsigned base = (unsigned)(size_t)(__attribute__((address_space(3))) unsigned*)s;
        asm volatile("s_mov_b32 m0, %1\n s_nop 0\n global_load_dword %0, off lds" ::"v"(p), "s"(__builtin_amdgcn_readfirstlane(base)) : "memory");
    }
    asm volatile("s_waitcnt lgkmcnt(0)\n s_barrier" ::: "memory");
    out[t] = ((volatile __attribute__((address_space(3))) unsigned*)s)[t & 63];  // read of what is loaded
#endif
}
__global__ void plain_and_atomic(unsigned* out) {
    if (threadIdx.x != 0) return;
    if (blockIdx.x == 0)
        out[0] = 5;  // plain store
    else
        atomicAdd(out, 1);  // atomic
}
__global__ void overlapping_tickets(unsigned* out) {
    __shared__ unsigned tile;
    unsigned t = threadIdx.x;
    if (t == 0) tile = atomicAdd(out, 1);
    __syncthreads();
    out[64 + tile * 127 + t] = tile * 128 + t;  // overlapping tiles
}
__global__ void flag_before_data(unsigned* out) {
    if (threadIdx.x != 0) return;
    if (blockIdx.x == 0) {
        atomicExch(out, 1);
        out[1] = 42;
    } else if (blockIdx.x == 1) {
        while (atomicAdd(out, 0) == 0) SLEEP();
        __threadfence();
        out[2] = out[1];  // read of data
    }
}
__global__ void flag_without_release(unsigned* out) {
    if (threadIdx.x != 0) return;
    if (blockIdx.x == 0) {
        out[1] = 42;
        atomicExch(out, 1);
    } else if (blockIdx.x == 1) {
        while (atomicAdd(out, 0) == 0) SLEEP();
        __threadfence();
        out[2] = out[1];  // read of data
    }
}
__global__ void flag_without_acquire(unsigned* out) {
    if (threadIdx.x != 0) return;
    if (blockIdx.x == 0) {
        out[1] = 42;
        __threadfence();
        atomicExch(out, 1);
    } else if (blockIdx.x == 1) {
        while (atomicAdd(out, 0) == 0) SLEEP();
        asm volatile("" ::: "memory");
        out[2] = out[1];  // read of data
    }
}
__global__ void mates(unsigned* out) {
    out[64 + blockIdx.x * blockDim.x + threadIdx.x] = threadIdx.x;
    out[1024 + blockIdx.x * blockDim.x + threadIdx.x] = out[64 + (blockIdx.x + 1) * blockDim.x - 1 - threadIdx.x];  // read of a mate's
}

static void run(void (*kernel)(unsigned*), unsigned groups, unsigned size) {
    Array<unsigned> out(4096);
    kernel<<<groups, size>>>(out);
    CHECK(hipDeviceSynchronize());
}

int main() {
    for (auto kernel : {right_lds_flag, right_lds_lock, byte_race, loads_to_lds}) run(kernel, 1, 128);
    for (auto kernel : {right_flag, right_lock, flag_before_data, flag_without_release, flag_without_acquire}) run(kernel, 4, 64);
    for (auto kernel : {right_last_block, right_mates, overlapping_tickets, mates}) run(kernel, 4, 128);
    for (auto kernel : {lanes_of_bytes, lanes_of_pairs, right_lanes}) run(kernel, 1, 64);
    run(plain_and_atomic, 2, 64);
    Array<unsigned> out(64);
    behind_scratch<<<2, 64>>>(out, 3);
    CHECK(hipDeviceSynchronize());
    std::puts("PASS");
}
