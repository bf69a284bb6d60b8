// Loads that go from memory to LDS without a register, which gfx942 has: bytes, shorts and dwords, a dword of LDS for each lane.
// Lanes that are off leave LDS alone.
#include "check.h"

enum { BLOCK = 256, WAVES = BLOCK / 64, UNTOUCHED = 0x5aa5a55a };

#if defined(__gfx942__) || defined(__gfx950__)
#define HERE 1
typedef __attribute__((address_space(1))) void Global;
typedef __attribute__((address_space(3))) void Local;
#else
#define HERE 0
#endif

#if HERE && (!defined(__clang_major__) || __clang_major__ >= 18)
#define LOAD(name, size, offset) \
    __builtin_amdgcn_global_load_lds((Global*)(from + where[threadIdx.x]), (Local*)words[__builtin_amdgcn_readfirstlane(wave)], size, offset, 0); \
    __builtin_amdgcn_s_waitcnt(0)
#elif HERE
// Earlier compilers have no such builtin for this processor. The place in LDS is in M0.
#define LOAD(name, size, offset)                                                                                                  \
    asm volatile("s_mov_b32 m0, %0\n\ts_nop 0\n\tglobal_load_lds_" name " %1, off offset:" #offset "\n\ts_waitcnt vmcnt(0)"         \
                 : : "s"(__builtin_amdgcn_readfirstlane((unsigned)(__UINTPTR_TYPE__)(Local*)words[wave])), "v"(from + where[threadIdx.x]) : "memory")
#else
#define LOAD(name, size, offset) (void)(from + where[0])
#endif

// Each lane loads from where its number says. Size and offset are constants of the builtin.
#define KERNEL(name, type, size, offset)                                                                               \
    __global__ void name(const unsigned char* from, const int* where, unsigned* out, unsigned long long on) {         \
        __shared__ unsigned words[WAVES][64 + 8];                                                                      \
        const int l = threadIdx.x % 64, wave = threadIdx.x / 64;                                                       \
        for (int n = l; n < 64 + 8; n += 64) words[wave][n] = UNTOUCHED;                                               \
        __syncthreads();                                                                                               \
        if (on >> l & 1) { LOAD(type, size, offset); }                                                                 \
        __syncthreads();                                                                                               \
        /* Another wave's. */                                                                                          \
        const int other = (wave + 1) % WAVES;                                                                          \
        for (int n = l; n < 64 + 8; n += 64) out[(blockIdx.x * WAVES + other) * 72 + n] = words[other][n];             \
    }
KERNEL(bytes_to_lds, "ubyte", 1, 0)
KERNEL(shorts_to_lds, "ushort", 2, 0)
KERNEL(dwords_to_lds, "dword", 4, 0)
KERNEL(dwords_further_on, "dword", 4, 16)

__global__ void has_loads(int* yes) { *yes = HERE; }

static void check(const char* name, decltype(&bytes_to_lds) kernel, int size, int offset, const std::vector<unsigned char>& bytes, unsigned long long on) {
    std::vector<int> where(BLOCK);
    // Anywhere, in steps of the size.
    for (int i = 0; i < BLOCK; ++i) where[i] = i * 173 % 1000 * size;
    Array<unsigned char> from(bytes);
    Array<int> places(where);
    const int blocks = 3;
    Array<unsigned> out(blocks * WAVES * 72);
    kernel<<<blocks, BLOCK>>>(from, places, out, on);
    std::vector<unsigned> expected(blocks * WAVES * 72, UNTOUCHED);
    for (int block = 0; block < blocks; ++block) {
        for (int i = 0; i < BLOCK; ++i) {
            if (!(on >> i % 64 & 1)) continue;
            unsigned value = 0;
            // The offset counts for memory and for LDS.
            std::memcpy(&value, &bytes[where[i] + offset], size);
            expected[block * WAVES * 72 + i / 64 * 72 + offset / 4 + i % 64] = value;
        }
    }
    expect_same(name, out.host(), expected);
}

int main() {
    Array<int> yes(1);
    has_loads<<<1, 1>>>(yes);
    if (!yes.host()[0]) {
        std::printf("this processor has no such instructions\nPASS\n");
        return 0;
    }
    std::vector<unsigned char> bytes(8192);
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = (unsigned char)(i * 59 + i / 256 * 17 + 3);
    for (unsigned long long on : {~0ull, 0x8000000000000001ull, 0x00ff123456789abcull}) {
        check("bytes", bytes_to_lds, 1, 0, bytes, on);
        check("shorts", shorts_to_lds, 2, 0, bytes, on);
        check("dwords", dwords_to_lds, 4, 0, bytes, on);
        check("dwords further on", dwords_further_on, 4, 16, bytes, on);
    }
    std::printf("PASS\n");
    return 0;
}
