// Memory of a signal that a kernel writes, as its own and by HIP's own kernel that writes values.
#include "check.h"

__global__ void raise(unsigned long long* word, unsigned by) { *word += by; }

int main() {
    void* memory;
    CHECK(hipExtMallocWithFlags(&memory, 8, hipMallocSignalMemory));
    unsigned long long* word = static_cast<unsigned long long*>(memory);
    CHECK(hipStreamWriteValue64(nullptr, word, 40, 0));
    raise<<<1, 1>>>(word, 2);
    CHECK(hipGetLastError());
    CHECK(hipDeviceSynchronize());
    EXPECT(*static_cast<volatile unsigned long long*>(word) == 42, "%llu", *word);
    CHECK(hipFree(word));
    std::printf("PASS\n");
}
