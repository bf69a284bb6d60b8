// Graphs: captured from streams, built of nodes, launched more than once, with changed parameters.
#include "check.h"

const int N = 2048;

__global__ void step(int* words, int add, int multiply) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    words[i] = words[i] * multiply + add;
}

__global__ void combine(const int* a, const int* b, int* c) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    c[i] = a[i] * 100 + b[i];
}

static std::vector<int> all(int value) { return std::vector<int>(N, value); }

// A chain of kernels and copies, captured once and launched twice.
static void check_captured() {
    hipStream_t stream;
    CHECK(hipStreamCreate(&stream));
    Array<int> x(N), y(N);
    std::vector<int> got(N);
    int* staging;
    CHECK(hipHostMalloc((void**)&staging, x.bytes()));
    hipGraph_t graph;
    hipGraphExec_t executable;
    CHECK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
    step<<<N / 256, 256, 0, stream>>>(x, 1, 3);
    for (int n = 0; n < 5; ++n) step<<<N / 256, 256, 0, stream>>>(x, n, 2);
    CHECK(hipMemcpyAsync((int*)y, (int*)x, x.bytes(), hipMemcpyDeviceToDevice, stream));
    step<<<N / 256, 256, 0, stream>>>(y, 7, 1);
    CHECK(hipMemcpyAsync(staging, (int*)y, y.bytes(), hipMemcpyDeviceToHost, stream));
    hipStreamCaptureStatus capturing;
    CHECK(hipStreamIsCapturing(stream, &capturing));
    EXPECT(capturing == hipStreamCaptureStatusActive, "the stream is not being captured: %d", capturing);
    CHECK(hipStreamEndCapture(stream, &graph));
    expect_same("a graph that was captured but not launched", x.host(), all(0));
    CHECK(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
    int expected = 0;
    for (int launch = 0; launch < 3; ++launch) {
        CHECK(hipGraphLaunch(executable, stream));
        CHECK(hipStreamSynchronize(stream));
        expected = expected * 3 + 1;
        for (int n = 0; n < 5; ++n) expected = expected * 2 + n;
        expect_same("a captured graph", std::vector<int>(staging, staging + N), all(expected + 7));
    }
    CHECK(hipGraphExecDestroy(executable));
    CHECK(hipGraphDestroy(graph));
    CHECK(hipStreamDestroy(stream));
    CHECK(hipHostFree(staging));
}

// A fork into a second stream and a join, captured through events.
static void check_forked() {
    hipStream_t main_stream, side;
    CHECK(hipStreamCreate(&main_stream));
    CHECK(hipStreamCreate(&side));
    hipEvent_t fork, join;
    CHECK(hipEventCreate(&fork));
    CHECK(hipEventCreate(&join));
    Array<int> a(N), b(N), c(N);
    hipGraph_t graph;
    hipGraphExec_t executable;
    CHECK(hipStreamBeginCapture(main_stream, hipStreamCaptureModeGlobal));
    CHECK(hipMemsetAsync((int*)a, 0, a.bytes(), main_stream));
    CHECK(hipEventRecord(fork, main_stream));
    CHECK(hipStreamWaitEvent(side, fork, 0));
    step<<<N / 256, 256, 0, side>>>(b, 2, 1);
    step<<<N / 256, 256, 0, main_stream>>>(a, 3, 1);
    CHECK(hipEventRecord(join, side));
    CHECK(hipStreamWaitEvent(main_stream, join, 0));
    combine<<<N / 256, 256, 0, main_stream>>>(a, b, c);
    CHECK(hipStreamEndCapture(main_stream, &graph));
    size_t nodes;
    CHECK(hipGraphGetNodes(graph, nullptr, &nodes));
    EXPECT(nodes == 4, "%zu nodes, expected 4", nodes);
    CHECK(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
    for (int launch = 1; launch <= 2; ++launch) {
        CHECK(hipGraphLaunch(executable, main_stream));
        CHECK(hipStreamSynchronize(main_stream));
        expect_same("a graph of two streams", c.host(), all(300 + 2 * launch));
    }
    CHECK(hipGraphExecDestroy(executable));
    CHECK(hipGraphDestroy(graph));
    for (hipStream_t s : {main_stream, side}) CHECK(hipStreamDestroy(s));
    for (hipEvent_t e : {fork, join}) CHECK(hipEventDestroy(e));
}

static void host_node(void* data) { ++*(int*)data; }

// The same by hand: copy in, fill, two kernels, a host function, copy out.
static void check_built() {
    Array<int> a(N), b(N), c(N);
    std::vector<int> in(N), out(N);
    for (int i = 0; i < N; ++i) in[i] = i;
    int calls = 0;
    hipGraph_t graph;
    CHECK(hipGraphCreate(&graph, 0));
    hipGraphNode_t copy_in, fill, first, second, host, copy_out, empty;
    CHECK(hipGraphAddMemcpyNode1D(&copy_in, graph, nullptr, 0, (int*)a, in.data(), a.bytes(), hipMemcpyHostToDevice));
    hipMemsetParams memset = {};
    memset.dst = (int*)b;
    memset.value = 9;
    memset.elementSize = 4;
    memset.width = N;
    memset.height = 1;
    CHECK(hipGraphAddMemsetNode(&fill, graph, nullptr, 0, &memset));
    int *pa = a, *pb = b, *pc = c, add = 1, multiply = 2;
    void* step_arguments[] = {&pa, &add, &multiply};
    hipKernelNodeParams kernel = {};
    kernel.func = (void*)step;
    kernel.gridDim = dim3(N / 256);
    kernel.blockDim = dim3(256);
    kernel.kernelParams = step_arguments;
    CHECK(hipGraphAddKernelNode(&first, graph, &copy_in, 1, &kernel));
    void* combine_arguments[] = {&pa, &pb, &pc};
    hipKernelNodeParams joined = kernel;
    joined.func = (void*)combine;
    joined.kernelParams = combine_arguments;
    hipGraphNode_t both[] = {first, fill};
    CHECK(hipGraphAddEmptyNode(&empty, graph, both, 2));
    CHECK(hipGraphAddKernelNode(&second, graph, &empty, 1, &joined));
    hipHostNodeParams host_parameters = {host_node, &calls};
    CHECK(hipGraphAddHostNode(&host, graph, &second, 1, &host_parameters));
    CHECK(hipGraphAddMemcpyNode1D(&copy_out, graph, &host, 1, out.data(), (int*)c, c.bytes(), hipMemcpyDeviceToHost));

    hipGraphExec_t executable;
    CHECK(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
    hipStream_t stream;
    CHECK(hipStreamCreate(&stream));
    // The arrays are cleared on the null stream, for which HIP 7.2 lets only the first branch of a graph wait.
    CHECK(hipDeviceSynchronize());
    auto check = [&](const char* what, int scale, int plus, int launches) {
        std::fill(out.begin(), out.end(), 0);
        CHECK(hipGraphLaunch(executable, stream));
        CHECK(hipStreamSynchronize(stream));
        std::vector<int> expected(N);
        for (int i = 0; i < N; ++i) expected[i] = (i * scale + plus) * 100 + 9;
        expect_same(what, out, expected);
        EXPECT(calls == launches, "the host function was called %d times, expected %d", calls, launches);
    };
    check("a graph of nodes", 2, 1, 1);
    check("a graph of nodes, again", 2, 1, 2);
    add = 5, multiply = 7;
    CHECK(hipGraphExecKernelNodeSetParams(executable, first, &kernel));
    check("a graph with changed parameters", 7, 5, 3);
    CHECK(hipGraphExecDestroy(executable));
    CHECK(hipGraphDestroy(graph));
    CHECK(hipStreamDestroy(stream));
}

int main() {
    check_captured();
    check_forked();
    check_built();
    std::printf("PASS\n");
    return 0;
}
