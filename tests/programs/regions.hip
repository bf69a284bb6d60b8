// Dispatches before, in, between and after ranges of ROCTx, and where a profiler is asked to go on and to pause.
#include <vector>

#include "check.h"

extern "C" {
__attribute__((weak)) int roctxRangePushA(const char*);
__attribute__((weak)) int roctxRangePop();
__attribute__((weak)) int roctxProfilerResume(uint64_t);
__attribute__((weak)) int roctxProfilerPause(uint64_t);
}

const int N = 64, STEPS = 5;

__global__ void before(int* words) { words[threadIdx.x] += 1; }
__global__ void in_step(int* words) { words[threadIdx.x] += 1; }
__global__ void between(int* words) { words[threadIdx.x] += 1; }
__global__ void profiled(int* words) { words[threadIdx.x] += 1; }
__global__ void after(int* words) { words[threadIdx.x] += 1; }

static int launched = 0;

static void push(const char* name) {
    if (roctxRangePushA) roctxRangePushA(name);
}

static void pop() {
    if (roctxRangePop) roctxRangePop();
}

static void launch(void (*kernel)(int*), int* words, int count) {
    for (int i = 0; i < count; ++i) kernel<<<1, N>>>(words);
    launched += count;
    CHECK(hipDeviceSynchronize());
}

int main() {
    // Before the runtime is started.
    push("early");
    pop();
    push("whole");
    Array<int> words(N);
    std::vector<int> got(N);
    CHECK(hipMemcpy(words, std::vector<int>(N, 0).data(), words.bytes(), hipMemcpyHostToDevice));
    launch(before, words, 3);
    for (int step = 0; step < STEPS; ++step) {
        push("step");
        launch(in_step, words, 2);
        pop();
        launch(between, words, 1);
    }
    if (roctxProfilerResume) roctxProfilerResume(0);
    launch(profiled, words, 4);
    if (roctxProfilerPause) roctxProfilerPause(0);
    launch(after, words, 1);
    pop();
    CHECK(hipMemcpy(got.data(), words, words.bytes(), hipMemcpyDeviceToHost));
    expect_same("regions", got, std::vector<int>(N, launched));
    std::printf("PASS\n");
}
