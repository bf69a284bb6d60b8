// A random program: kernels, copies, fills, host writes, events, graphs, frees and new memory on up to four streams. It computes
// on the host what each buffer must contain, and prints a journal of what the host wrote.
//
//   sequences SEED [OPERATIONS]
#include <array>
#include <random>
#include <string>

#include "check.h"

typedef uint32_t Word;

__global__ void scale(Word* to, Word length, Word by, Word add) {
    Word i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < length) to[i] = to[i] * by + add;
}

__global__ void gather(Word* to, const Word* from, Word length, Word length_from, Word stride) {
    Word i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < length) to[i] = to[i] * 3 + from[(uint64_t)i * stride % length_from];
}

// The sum of a block in local memory, added to each of its words.
__global__ void sums(Word* to, Word length) {
    __shared__ Word part[256];
    Word i = blockIdx.x * blockDim.x + threadIdx.x, t = threadIdx.x;
    part[t] = i < length ? to[i] : 0;
    __syncthreads();
    for (Word step = blockDim.x / 2; step; step /= 2) {
        if (t < step) part[t] += part[t + step];
        __syncthreads();
    }
    if (i < length) to[i] += part[0];
}

// Through a table of addresses, which the host writes.
__global__ void listed(Word* const* table, Word count, const Word* lengths, Word add) {
    for (Word n = 0; n < count; ++n) {
        Word i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < lengths[n]) table[n][i] += add + n;
    }
}

enum Kind { DEVICE, PINNED, MANAGED, KINDS };
static const char* const NAMES[] = {"device", "pinned", "managed"};

struct Buffer {
    Kind kind;
    Word* memory = nullptr;
    // What it must contain when all that was asked for has ended.
    std::vector<Word> expected;
    // The last operation on it, and the stream that it is on; -1 if the host has waited for it.
    hipEvent_t last;
    int stream = -1;
};

static std::mt19937 generator;
static std::vector<hipStream_t> streams;
static std::vector<Buffer> buffers;
static unsigned operation = 0;

static unsigned upto(unsigned limit) { return generator() % limit; }

static void allocate(Buffer& buffer) {
    buffer.kind = Kind(upto(KINDS));
    buffer.expected.assign(64 + upto(3000), 0);
    size_t bytes = buffer.expected.size() * sizeof(Word);
    switch (buffer.kind) {
        case DEVICE: CHECK(hipMalloc((void**)&buffer.memory, bytes)); break;
        case PINNED: CHECK(hipHostMalloc((void**)&buffer.memory, bytes)); break;
        default: CHECK(hipMallocManaged((void**)&buffer.memory, bytes));
    }
    CHECK(hipMemset(buffer.memory, 0, bytes));
    CHECK(hipDeviceSynchronize());
    buffer.stream = -1;
    std::printf("%u allocate %s %p %zu\n", operation, NAMES[buffer.kind], (void*)buffer.memory, bytes);
}

// The stream waits for what was asked for before on the buffer.
static void follows(int stream, Buffer& buffer) {
    if (buffer.stream >= 0 && buffer.stream != stream) CHECK(hipStreamWaitEvent(streams[stream], buffer.last, 0));
}

static void used(int stream, Buffer& buffer) {
    CHECK(hipEventRecord(buffer.last, streams[stream]));
    buffer.stream = stream;
}

static void host_waits(Buffer& buffer) {
    if (buffer.stream >= 0) CHECK(hipEventSynchronize(buffer.last));
    buffer.stream = -1;
}

static Buffer& any() { return buffers[upto(buffers.size())]; }

static Buffer& other_than(const Buffer& buffer) {
    Buffer& other = any();
    return &other == &buffer ? buffers[(&other - buffers.data() + 1) % buffers.size()] : other;
}

static dim3 grid(Word length) { return dim3((length + 255) / 256); }

static void do_scale(int s, Buffer& to) {
    Word by = upto(9) + 1, add = upto(1000);
    scale<<<grid(to.expected.size()), 256, 0, streams[s]>>>(to.memory, to.expected.size(), by, add);
    for (Word& word : to.expected) word = word * by + add;
}

static void do_gather(int s, Buffer& to, Buffer& from) {
    Word stride = upto(50) + 1, length = to.expected.size(), length_from = from.expected.size();
    gather<<<grid(length), 256, 0, streams[s]>>>(to.memory, from.memory, length, length_from, stride);
    for (Word i = 0; i < length; ++i) to.expected[i] = to.expected[i] * 3 + from.expected[(uint64_t)i * stride % length_from];
}

static void do_sums(int s, Buffer& to) {
    Word length = to.expected.size();
    sums<<<grid(length), 256, 0, streams[s]>>>(to.memory, length);
    for (Word first = 0; first < length; first += 256) {
        Word sum = 0, end = std::min(first + 256, length);
        for (Word i = first; i < end; ++i) sum += to.expected[i];
        for (Word i = first; i < end; ++i) to.expected[i] += sum;
    }
}

static void copy(int s, Buffer& to, Buffer& from) {
    Word most = std::min(to.expected.size(), from.expected.size()), count = upto(most) + 1;
    Word at = upto(to.expected.size() - count + 1), of = upto(from.expected.size() - count + 1);
    CHECK(hipMemcpyAsync(to.memory + at, from.memory + of, count * sizeof(Word), hipMemcpyDefault, streams[s]));
    std::copy_n(from.expected.begin() + of, count, to.expected.begin() + at);
}

// From memory of the host that the runtime has to stage: it may be written again as soon as the call returns.
static void upload(int s, Buffer& to) {
    Word count = upto(to.expected.size()) + 1, at = upto(to.expected.size() - count + 1);
    std::vector<Word> words(count);
    for (Word& word : words) word = generator();
    follows(s, to);
    CHECK(hipMemcpyAsync(to.memory + at, words.data(), count * sizeof(Word), hipMemcpyHostToDevice, streams[s]));
    CHECK(hipStreamSynchronize(streams[s]));
    std::copy_n(words.begin(), count, to.expected.begin() + at);
    used(s, to);
}

static void fill(int s, Buffer& to) {
    int value = upto(256);
    CHECK(hipMemsetAsync(to.memory, value, to.expected.size() * sizeof(Word), streams[s]));
    std::fill(to.expected.begin(), to.expected.end(), value * 0x01010101u);
}

static void host_write(Buffer& to) {
    if (to.kind == DEVICE) return;
    host_waits(to);
    Word count = upto(40) + 1, at = upto(to.expected.size() - count + 1);
    for (Word i = at; i < at + count; ++i) to.memory[i] = to.expected[i] = generator();
    std::printf("%u write %p %zu\n", operation, (void*)(to.memory + at), count * sizeof(Word));
}

static void reallocate(Buffer& buffer) {
    host_waits(buffer);
    CHECK(buffer.kind == PINNED ? hipHostFree(buffer.memory) : hipFree(buffer.memory));
    allocate(buffer);
}

static void table(int s) {
    static Word** addresses;
    static Word* lengths;
    static hipEvent_t read;
    if (!addresses) {
        CHECK(hipHostMalloc((void**)&addresses, 8 * sizeof(Word*)));
        CHECK(hipHostMalloc((void**)&lengths, 8 * sizeof(Word)));
        CHECK(hipEventCreateWithFlags(&read, hipEventDisableTiming));
    } else {
        CHECK(hipEventSynchronize(read));
    }
    Word count = std::min<size_t>(buffers.size(), 3), longest = 0, add = upto(100);
    for (Word n = 0; n < count; ++n) {
        addresses[n] = buffers[n].memory;
        lengths[n] = buffers[n].expected.size();
        longest = std::max(longest, lengths[n]);
        follows(s, buffers[n]);
        for (Word& word : buffers[n].expected) word += add + n;
    }
    std::printf("%u write %p %zu\n%u write %p %zu\n", operation, (void*)addresses, count * sizeof(Word*), operation, (void*)lengths,
                count * sizeof(Word));
    listed<<<grid(longest), 256, 0, streams[s]>>>(addresses, count, lengths, add);
    for (Word n = 0; n < count; ++n) used(s, buffers[n]);
    CHECK(hipEventRecord(read, streams[s]));
}

static void graph(int s, Buffer& to, Buffer& from) {
    for (Buffer* buffer : {&to, &from}) host_waits(*buffer);
    hipGraph_t graph;
    hipGraphExec_t executable;
    CHECK(hipStreamBeginCapture(streams[s], hipStreamCaptureModeThreadLocal));
    Word add = upto(77), length = to.expected.size(), length_from = from.expected.size();
    scale<<<grid(length), 256, 0, streams[s]>>>(to.memory, length, 5, add);
    gather<<<grid(length), 256, 0, streams[s]>>>(to.memory, from.memory, length, length_from, 7);
    CHECK(hipStreamEndCapture(streams[s], &graph));
    CHECK(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
    for (int launch = 0; launch < 2; ++launch) {
        CHECK(hipGraphLaunch(executable, streams[s]));
        for (Word& word : to.expected) word = word * 5 + add;
        for (Word i = 0; i < length; ++i) to.expected[i] = to.expected[i] * 3 + from.expected[(uint64_t)i * 7 % length_from];
    }
    CHECK(hipStreamSynchronize(streams[s]));
    CHECK(hipGraphExecDestroy(executable));
    CHECK(hipGraphDestroy(graph));
}

static void check(Buffer& buffer) {
    host_waits(buffer);
    std::vector<Word> got(buffer.expected.size());
    CHECK(hipMemcpy(got.data(), buffer.memory, got.size() * sizeof(Word), hipMemcpyDefault));
    expect_same(("operation " + std::to_string(operation)).c_str(), got, buffer.expected);
}

int main(int argc, char** argv) {
    generator.seed(argc > 1 ? atoi(argv[1]) : 1);
    const unsigned operations = argc > 2 ? atoi(argv[2]) : 40;
    streams.resize(1 + upto(4));
    for (hipStream_t& stream : streams) CHECK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
    buffers.resize(2 + upto(5));
    for (Buffer& buffer : buffers) {
        CHECK(hipEventCreateWithFlags(&buffer.last, hipEventDisableTiming));
        allocate(buffer);
    }
    for (operation = 1; operation <= operations; ++operation) {
        int s = upto(streams.size());
        Buffer &to = any(), &from = other_than(to);
        unsigned what = upto(20);
        if (what < 12) {
            follows(s, to);
            follows(s, from);
            switch (what) {
                case 0: case 1: case 2: do_scale(s, to); break;
                case 3: case 4: case 5: do_gather(s, to, from); break;
                case 6: case 7: do_sums(s, to); break;
                case 8: case 9: copy(s, to, from); break;
                default: fill(s, to);
            }
            used(s, to);
            used(s, from);
        } else if (what < 14) {
            upload(s, to);
        } else if (what < 16) {
            host_write(to);
        } else if (what == 16) {
            reallocate(to);
        } else if (what == 17) {
            table(s);
        } else if (what == 18) {
            graph(s, to, from);
        } else {
            check(to);
        }
    }
    for (Buffer& buffer : buffers) check(buffer);
    std::printf("PASS\n");
}
