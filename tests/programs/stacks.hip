// A kernel with the arguments of GCC's: threads, which are waves, have stacks in memory, where they save registers that nothing has been
// written to. SIGNED: the object says that GCC made it. GARBAGE: such a register goes into other memory as well. OTHER: the stacks have
// something else. WRONG: so do the results.
#include <hip/hip_runtime.h>
#include <cstdint>

__device__ uint32_t unwritten() {
    uint32_t value;
    asm volatile("v_mov_b32 %0, v61" : "=v"(value) : : "v61");
    return value;
}

extern "C" __global__ void increment(uint32_t* words, uint64_t, uint64_t, uint64_t, uint32_t* arena, uint32_t* stacks, uint32_t,
                                     uint32_t stack_bytes) {
#ifdef SIGNED
    asm volatile(".ident \"GCC: (a test) 15\"");
#endif
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    uint32_t* stack = stacks + i / 64 * (stack_bytes / 4);
    stack[threadIdx.x] = unwritten();
#ifdef OTHER
    stack[64 + threadIdx.x] = i;
#endif
#ifdef GARBAGE
    arena[i] = unwritten();
#else
    arena[i] = i;
#endif
#ifdef WRONG
    words[i] += i == 77 ? 2 : 1;
#else
    words[i] += 1;
#endif
}
