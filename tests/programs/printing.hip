// What kernels ask of the host while they run: printf, memory; with an argument, a report of a failed assertion.
#define __HIP_ENABLE_DEVICE_MALLOC__ 1
#include <cassert>
#include <algorithm>
#include <fcntl.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "check.h"

__global__ void say(int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i % 5 == 0) printf("item %d of %d: %.3f %s 0x%llx %c%%\n", i, n, i * 0.25, i % 2 ? "odd" : "even", 0x123456789abcdefull + i, 'a' + i % 26);
}

__global__ void say_much() {
    for (int line = 0; line < 20; ++line) {
        if (threadIdx.x == line * 3) printf("line %02d of workgroup %u, %ld %u %g\n", line, unsigned(blockIdx.x), -1234567890123L, 4000000000u, 1e-300);
    }
}

// A list in memory of the device's own heap, a node for every link.
struct Node {
    Node* next;
    int value;
};
__global__ void link(int* sums, int links) {
    Node* list = nullptr;
    for (int l = 0; l < links; ++l) {
        Node* node = (Node*)malloc(sizeof(Node));
        if (!node) continue;
        *node = Node{list, int(threadIdx.x) * l};
        list = node;
    }
    int sum = 0;
    while (list) {
        Node* node = list;
        sum += node->value;
        list = node->next;
        free(node);
    }
    sums[threadIdx.x] = sum;
}

__global__ void claim(int most) { assert(int(threadIdx.x) < most && "too many"); }

// What a kernel prints on standard output, line by line and sorted.
template <class F>
std::vector<std::string> printed(F launch) {
    char path[] = "/tmp/logdur-printing-XXXXXX";
    int file = mkstemp(path), output = dup(1);
    std::fflush(stdout);
    dup2(file, 1);
    launch();
    CHECK(hipGetLastError());
    CHECK(hipDeviceSynchronize());
    std::fflush(stdout);
    dup2(output, 1);
    close(file), close(output);
    std::vector<std::string> lines;
    std::ifstream in(path);
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    unlink(path);
    std::sort(lines.begin(), lines.end());
    return lines;
}

static void expect_lines(const char* what, const std::vector<std::string>& got, std::vector<std::string> expected) {
    std::sort(expected.begin(), expected.end());
    EXPECT(got.size() == expected.size(), "%s: %zu lines, expected %zu", what, got.size(), expected.size());
    for (size_t n = 0; n < got.size(); ++n) EXPECT(got[n] == expected[n], "%s: \"%s\", expected \"%s\"", what, got[n].c_str(), expected[n].c_str());
    std::printf("%s: %zu lines correct\n", what, got.size());
}

int main(int arguments, char**) {
    const int n = 256;
    std::vector<std::string> expected;
    char line[200];
    for (int i = 0; i < n; i += 5) {
        std::snprintf(line, sizeof line, "item %d of %d: %.3f %s 0x%llx %c%%", i, n, i * 0.25, i % 2 ? "odd" : "even", 0x123456789abcdefull + i, 'a' + i % 26);
        expected.push_back(line);
    }
    expect_lines("printf of many lanes", printed([] { say<<<n / 128, 128>>>(n); }), expected);
    expected.clear();
    for (unsigned group = 0; group < 4; ++group) {
        for (int l = 0; l < 20; ++l) {
            std::snprintf(line, sizeof line, "line %02d of workgroup %u, %ld %u %g", l, group, -1234567890123L, 4000000000u, 1e-300);
            expected.push_back(line);
        }
    }
    expect_lines("printf of many workgroups", printed([] { say_much<<<4, 64>>>(); }), expected);
    Array<int> sums(64);
    link<<<1, 64>>>(sums, 6);
    std::vector<int> expected_sums(64);
    for (int i = 0; i < 64; ++i) expected_sums[i] = 15 * i;
    expect_same("memory of the device's heap", sums.host(), expected_sums);
    claim<<<1, 64>>>(64);
    CHECK(hipDeviceSynchronize());
    std::printf("an assertion that holds: nothing happens\n");
    if (arguments > 1) {
        std::fflush(stdout);
        claim<<<1, 64>>>(61);
        const hipError_t status = hipDeviceSynchronize();
        std::printf("the program went on: %s\n", hipGetErrorName(status));
        std::fflush(stdout);
        // Nothing of the device can be freed now.
        std::_Exit(0);
    }
    std::printf("PASS\n");
    return 0;
}
