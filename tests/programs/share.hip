// A kernel that changes one page in a hundred of so many MiB: all behind one another (together), or far apart (apart).

#include "check.h"

#include <string>

constexpr size_t PAGE = 4096 / sizeof(unsigned);

__global__ void change(unsigned* words, size_t distance) {
    words[blockIdx.x * distance + threadIdx.x] += 1;
}

int main(int argc, char** argv) {
    EXPECT(argc == 3, "usage: share MIB together|apart");
    const size_t pages = std::stoul(argv[1]) << 20 >> 12;
    const size_t changed = pages / 100, distance = PAGE * (argv[2] == std::string("apart") ? 100 : 1);
    std::vector<unsigned> host(pages * PAGE);
    for (size_t i = 0; i < host.size(); i++) host[i] = unsigned(i) * 0x9e3779b9u;
    Array<unsigned> words(host);
    change<<<changed, 1024>>>(words, distance);
    const std::vector<unsigned> after = words.host();
    size_t different = 0;
    for (size_t i = 0; i < host.size(); i++) different += after[i] != host[i];
    EXPECT(different == changed * 1024, "%zu words of %zu", different, changed * 1024);
    std::printf("PASS\n");
}
