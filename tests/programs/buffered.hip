// Work that runs ahead of the GPU, as training loops do.
//   buffered both|back|ahead COUNT
//     both    two buffers: results are copied to the host and inputs to the GPU while a kernel runs, on streams of their own
//     back    as both, but inputs stay where they are
//     ahead   a thread launches small kernels on a stream as fast as it can, until the last of COUNT kernels on another stream is
//             launched
#include <atomic>
#include <string>
#include <thread>

#include "check.h"

const int N = 1024;
const int BUFFERS = 2;

__global__ void scale(const int* in, int* out, int rounds) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, sum = in[i];
    for (int round = 0; round < rounds; ++round) sum += round & in[i];
    out[i] = sum;
}

// Long enough that a ring of them takes longer than a capture waits without progress.
__global__ void tick(int* count) {
    int sum = *count;
    for (int round = 0; round < 4000; ++round) sum += round & *(volatile int*)count;
    *count += 1 + (sum == -1);
}

static int scaled(int in, int rounds) {
    int sum = in;
    for (int round = 0; round < rounds; ++round) sum += round & in;
    return sum;
}

static int input(int step, int i) { return 17 * step + i; }

static void buffers(bool both, int count) {
    hipStream_t compute, to_host, to_gpu;
    for (hipStream_t* stream : {&compute, &to_host, &to_gpu}) CHECK(hipStreamCreateWithFlags(stream, hipStreamNonBlocking));
    Array<int> in0(N), in1(N), out0(N), out1(N);
    int *in[BUFFERS] = {in0, in1}, *out[BUFFERS] = {out0, out1}, *inputs, *results;
    CHECK(hipHostMalloc(&inputs, count * in0.bytes(), 0));
    CHECK(hipHostMalloc(&results, count * in0.bytes(), 0));
    for (int step = 0; step < count; ++step)
        for (int i = 0; i < N; ++i) inputs[step * N + i] = input(both ? step : step % BUFFERS, i);
    hipEvent_t filled[BUFFERS], ran[BUFFERS], copied[BUFFERS];
    for (int b = 0; b < BUFFERS; ++b) {
        CHECK(hipEventCreateWithFlags(&filled[b], hipEventDisableTiming));
        CHECK(hipEventCreateWithFlags(&ran[b], hipEventDisableTiming));
        CHECK(hipEventCreateWithFlags(&copied[b], hipEventDisableTiming));
        CHECK(hipMemcpyAsync(in[b], inputs + b * N, in0.bytes(), hipMemcpyHostToDevice, to_gpu));
        CHECK(hipEventRecord(filled[b], to_gpu));
    }
    for (int step = 0; step < count; ++step) {
        const int b = step % BUFFERS;
        CHECK(hipStreamWaitEvent(compute, filled[b], 0));
        if (step >= BUFFERS) CHECK(hipStreamWaitEvent(compute, copied[b], 0));
        scale<<<N / 256, 256, 0, compute>>>(in[b], out[b], 100);
        CHECK(hipEventRecord(ran[b], compute));
        CHECK(hipStreamWaitEvent(to_host, ran[b], 0));
        CHECK(hipMemcpyAsync(results + step * N, out[b], in0.bytes(), hipMemcpyDeviceToHost, to_host));
        CHECK(hipEventRecord(copied[b], to_host));
        if (both && step + BUFFERS < count) {
            CHECK(hipStreamWaitEvent(to_gpu, ran[b], 0));
            CHECK(hipMemcpyAsync(in[b], inputs + (step + BUFFERS) * N, in0.bytes(), hipMemcpyHostToDevice, to_gpu));
            CHECK(hipEventRecord(filled[b], to_gpu));
        }
    }
    CHECK(hipDeviceSynchronize());
    for (int step = 0; step < count; ++step) {
        for (int i = 0; i < N; ++i) {
            const int expected = scaled(input(both ? step : step % BUFFERS, i), 100), got = results[step * N + i];
            EXPECT(got == expected, "step %d: word %d is %d, expected %d", step, i, got, expected);
        }
    }
}

static void ahead(int count) {
    hipStream_t flooded, other;
    CHECK(hipStreamCreateWithFlags(&flooded, hipStreamNonBlocking));
    CHECK(hipStreamCreateWithFlags(&other, hipStreamNonBlocking));
    Array<int> ticks(1), in(std::vector<int>(N, 5)), out(N);
    std::atomic<bool> over{false};
    std::atomic<int> launched{0};
    std::thread flood([&] {
        for (; !over; ++launched) tick<<<1, 1, 0, flooded>>>(ticks);
    });
    // More than fit into the ring of a queue.
    while (launched < 17000) std::this_thread::yield();
    for (int step = 0; step < count; ++step) {
        scale<<<N / 256, 256, 0, other>>>(in, out, step);
        // What is ahead of the last one has to end; more would only take time.
        if (step == count - 1) over = true;
        CHECK(hipStreamSynchronize(other));
    }
    flood.join();
    expect_same("out", out.host(), std::vector<int>(N, scaled(5, count - 1)));
    EXPECT(ticks.host()[0] == launched, "%d of %d kernels have run", ticks.host()[0], launched.load());
}

int main(int argc, char** argv) {
    const std::string mode = argc > 1 ? argv[1] : "";
    const int count = argc > 2 ? std::atoi(argv[2]) : 3;
    if (mode == "ahead") {
        ahead(count);
    } else {
        buffers(mode == "both", count);
    }
    std::printf("PASS\n");
    return 0;
}
