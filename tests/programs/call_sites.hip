// Launches one kernel from several places, by calls of every kind, while another thread loads and unloads libraries. Prints a line for
// each place: the function, the source line, and how many launches there are.
#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <thread>

#include "check.h"

__global__ void marked(int* sum) { atomicAdd(sum, 1); }
__global__ void other(int* sum) { atomicAdd(sum, 1000000); }

static int* sum;

static void place(const char* function, int line, int launches) { std::printf("place %s %d %d\n", function, line, launches); }

[[gnu::noinline]] static int in_a_loop(int launches) {
#pragma clang loop unroll(disable)
    for (int i = 0; i < launches; ++i) {
        marked<<<1, 1>>>(sum);
    }
    return __LINE__ - 2;
}

// Its frame is that of its caller.
[[gnu::always_inline]] static inline int inlined(hipStream_t stream) {
    marked<<<1, 1, 0, stream>>>(sum);
    return __LINE__ - 1;
}

[[gnu::noinline]] static int with_an_inlined_call() {
    const int line = inlined(nullptr);
    CHECK(hipGetLastError());
    return line;
}

// Deeper than what is kept of a stack.
[[gnu::noinline]] static int deep(int level) {
    if (level > 0) return deep(level - 1) + (sum == nullptr);
    marked<<<1, 1>>>(sum);
    CHECK(hipGetLastError());
    return __LINE__ - 2;
}

struct Virtual {
    virtual ~Virtual() = default;
    virtual int launch() = 0;
};

struct Derived : Virtual {
    int launch() override {
        marked<<<1, 1>>>(sum);
        CHECK(hipGetLastError());
        return __LINE__ - 2;
    }
};

static std::atomic<bool> done{false};

static void load_and_unload() {
    while (!done) {
        void* library = dlopen("libresolv.so.2", RTLD_NOW);
        if (library) dlclose(library);
    }
}

int main() {
    CHECK(hipMalloc((void**)&sum, sizeof(int)));
    CHECK(hipMemset(sum, 0, sizeof(int)));
    CHECK(hipDeviceSynchronize());
    std::thread loader(load_and_unload);
    int line = 0;
    line = in_a_loop(200);
    place("in_a_loop", line, 200);
    // An unrolled loop would have several call sites.
#pragma clang loop unroll(disable)
    for (int i = 0; i < 3; ++i) line = with_an_inlined_call();
    place("inlined", line, 3);
#pragma clang loop unroll(disable)
    for (int i = 0; i < 4; ++i) line = deep(200);
    place("deep", line, 4);
    Derived derived;
    Virtual* base = &derived;
    asm volatile("" : "+r"(base));
    line = base->launch();
    place("launch", line, 1);
    std::thread([&line] { line = in_a_loop(50); }).join();
    place("in_a_loop", line, 50);
    for (int i = 0; i < 5; ++i) other<<<1, 1>>>(sum);
    CHECK(hipGetLastError());
    CHECK(hipDeviceSynchronize());
    done = true;
    loader.join();
    int total = 0;
    CHECK(hipMemcpy(&total, sum, sizeof total, hipMemcpyDeviceToHost));
    EXPECT(total == 258 + 5000000, "%d", total);
    std::puts("PASS");
}
