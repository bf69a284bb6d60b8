// Kernels that want to take the place of `increment` of kernels.hip: by WAY, some do its work and some do not.
#include <hip/hip_runtime.h>

#ifndef WAY
#define WAY 0
#endif
#ifndef BOUNDS
#define BOUNDS 64
#endif

extern "C" __global__ void __launch_bounds__(BOUNDS) increment(unsigned* words) {
    const unsigned index = __builtin_amdgcn_workgroup_id_x() * BOUNDS + __builtin_amdgcn_workitem_id_x();
    volatile unsigned* mine = words + index;
#if WAY == 1  // does not end
    while (*mine != 0xffffffff || index < 64) __builtin_amdgcn_s_sleep(1);
#elif WAY == 2  // writes where nothing is
    words[index + (1u << 28)] = 1;
#elif WAY == 3  // leaves one word out
    if (index == 77) return;
#elif WAY == 4  // writes one word more, right behind the others
    if (index == 255) words[256] += 1;
#elif WAY == 7  // an instruction that no compiler emits
    asm volatile("s_setkill 0");
#elif WAY == 6
#error "a kernel that does not compile"
#elif WAY == 5  // takes its time
    for (int i = 0; i < 100; i++) __builtin_amdgcn_s_sleep(1);
#endif
    *mine += 1;
}
