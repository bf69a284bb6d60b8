// Pointers in places that no compiler's metadata shows: packed by value and in memory, in two halves, to the end of a buffer, and one
// that nothing shows.
#include "check.h"
#include <vector>

struct __attribute__((packed)) Packed { char tag; int* out; short n; };

__global__ void k_packed(Packed packed) { packed.out[threadIdx.x] += packed.n; }
__global__ void k_halves(unsigned low, unsigned high, int n) { ((int*)((unsigned long long)high << 32 | low))[threadIdx.x] += n; }
__global__ void k_behind_end(int* end, int n) { end[-64 + (int)threadIdx.x] += n; }
__global__ void k_list(const Packed* list, int n) { list[2].out[threadIdx.x] += n; }
__global__ void k_hidden(unsigned long long key, unsigned long long word, int n) { ((int*)(word ^ key))[threadIdx.x] += n; }

int main() {
    constexpr int words = 1024;
    int* p[5];
    for (auto& q : p) {
        CHECK(hipMalloc((void**)&q, words * 4));
        CHECK(hipMemset(q, 0, words * 4));
    }
    Packed* list;
    CHECK(hipMalloc((void**)&list, 4096));
    const Packed entries[3] = {{1, nullptr, 0}, {2, nullptr, 0}, {3, p[3], 0}};
    CHECK(hipMemcpy(list, entries, sizeof entries, hipMemcpyHostToDevice));
    const auto word = (unsigned long long)p[1];
    const auto key = 0x5a5a5a5a5a5a5a5aull;
    k_packed<<<1, 64>>>(Packed{1, p[0], 5});
    k_halves<<<1, 64>>>((unsigned)word, (unsigned)(word >> 32), 6);
    k_behind_end<<<1, 64>>>(p[2] + words, 7);
    k_list<<<1, 64>>>(list, 8);
    k_hidden<<<1, 64>>>(key, (unsigned long long)p[4] ^ key, 9);
    CHECK(hipDeviceSynchronize());
    std::vector<int> found(words);
    for (int k = 0; k < 5; ++k) {
        CHECK(hipMemcpy(found.data(), p[k], words * 4, hipMemcpyDeviceToHost));
        const int at = k == 2 ? words - 1 : 5;
        EXPECT(found[at] == 5 + k, "buffer %d has %d", k, found[at]);
    }
    printf("PASS\n");
}
