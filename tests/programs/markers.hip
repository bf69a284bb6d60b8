// Ranges and marks of ROCTx around kernels, on two threads and in the child of a fork. Prints what the functions return, and what a
// tracer that is registered with ROCTx sees. Without a library that has the functions, and that is what weak names are for, nothing
// is marked.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "check.h"

extern "C" {
__attribute__((weak)) void roctxMarkA(const char*);
__attribute__((weak)) int roctxRangePushA(const char*);
__attribute__((weak)) int roctxRangePop();
__attribute__((weak)) uint64_t roctxRangeStartA(const char*);
__attribute__((weak)) void roctxRangeStop(uint64_t);
__attribute__((weak)) void roctxRegisterTracerCallback(int (*)(uint32_t, uint32_t, void*));
}

static std::atomic<int> traced{0};

static int trace(uint32_t, uint32_t, void*) { return ++traced, 0; }

static void mark(const char* text) {
    if (roctxMarkA) roctxMarkA(text);
}
static int push(const char* text) { return roctxRangePushA ? roctxRangePushA(text) : 0; }
static int pop() { return roctxRangePop ? roctxRangePop() : 0; }

__global__ void inner(int* words) { words[threadIdx.x] += 1; }
__global__ void outer(int* words) { words[threadIdx.x] *= 2; }

int main() {
    if (roctxRegisterTracerCallback) roctxRegisterTracerCallback(trace);
    mark("before the runtime");
    int levels[6];
    levels[0] = push("an outer range");
    Array<int> words(64);
    outer<<<1, 64>>>(words);
    CHECK(hipDeviceSynchronize());
    levels[1] = push("=an \"inner\", quoted range");
    inner<<<1, 64>>>(words);
    CHECK(hipDeviceSynchronize());
    levels[2] = pop();
    uint64_t number = 0;
    std::thread([&] {
        number = roctxRangeStartA ? roctxRangeStartA("_Z5acrossv") : 0;
        mark("on a thread");
        levels[3] = push("of a thread");
        levels[4] = pop();
    }).join();
    pid_t child = fork();
    if (child == 0) {
        mark("of the child");
        pop();
        _exit(0);
    }
    int status;
    EXPECT(waitpid(child, &status, 0) == child && status == 0, "the child ended with %d", status);
    for (uint64_t range : {number, ~uint64_t(0)}) {
        if (roctxRangeStop) roctxRangeStop(range);
    }
    levels[5] = pop();
    push("never ended");
    std::printf("levels");
    for (int level : levels) std::printf(" %d", level);
    std::printf("\ntraced %d\n", traced.load());
    expect_same("words", words.host(), std::vector<int>(64, 1));
    std::printf("PASS\n");
    return 0;
}
