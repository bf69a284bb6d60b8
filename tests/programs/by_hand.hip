// Kernels that are instrumented by hand with logdur_device.h, and what they must have sent: lanes that diverge, loops of other lengths
// in each lane, atomics, LDS, workgroups of three dimensions, sub-buffers that are full all the time. With an argument, the plain kernel
// runs first, and the messages of the instrumented one are written to this file.
#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <string>
#include <tuple>

#include "messages.h"

constexpr int ITEMS = 16 * 3 * 3, TABLE = 10;  // work-items of a workgroup: two waves and a quarter

__device__ int item() { return threadIdx.x + 16 * (threadIdx.y + 3 * threadIdx.z); }
__device__ int group() { return blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z); }

// The kernel as it is without messages.
extern "C" __global__ void k_accesses(const int* in, int* out, int* sum) {
    __shared__ int words[ITEMS];
    int i = item(), all = group() * ITEMS + i, value = in[all];
    words[i] = value;
    __syncthreads();
    for (int k = 0; k < i % 3; ++k) value += words[(i + k) % ITEMS];
    if (i % 2 != 0) atomicAdd(sum + i % TABLE, value);
    out[all] = value;
}

__global__ void __amd_crk_accesses(const int* in, int* out, int* sum, void* descriptor) {
    __shared__ int words[ITEMS];
    using namespace logdur;
    u64 start = logdur::clock();
    int i = item(), all = group() * ITEMS + i;
    block_start(descriptor, 0, LOGDUR_HERE);
    submit_address(descriptor, in + all, READ, 4, GLOBAL);
    int value = in[all];
    submit_address(descriptor, words + i, WRITE, 4, LDS);
    words[i] = value;
    __syncthreads();
    for (int k = 0; k < i % 3; ++k) {
        submit_address(descriptor, words + (i + k) % ITEMS, READ, 4, LDS);
        value += words[(i + k) % ITEMS];
    }
    if (i % 2 != 0) {
        block_start(descriptor, 1);
        submit_address(descriptor, sum + i % TABLE, READ_WRITE, 4);
        atomicAdd(sum + i % TABLE, value);
    }
    submit_address(descriptor, out + all, WRITE, 4, GLOBAL);
    out[all] = value;
    submit_interval(descriptor, start, logdur::clock(), 7);
}

struct Odd {
    char bytes[7];
};

__global__ void __amd_crk_values(void* descriptor) {
    Odd value;
    for (int i = 0; i < 7; ++i) value.bytes[i] = char(threadIdx.x + i);
    if (threadIdx.x % 4 == 1) logdur::submit_message(descriptor, value, 100, 1);
    if (threadIdx.x % 4 == 2) logdur::submit_message(descriptor, value, 101, 2, {}, false);
    if (threadIdx.x % 4 == 3) logdur::submit_scalar(descriptor, value, 102, 3);
    logdur::block_start(logdur::only_workgroups(descriptor, 0, 1, 3), 9);
}

// Type, data, workgroup, work-item, address or value, and how often.
using Sent = std::map<std::tuple<unsigned, unsigned, int, int, unsigned long long>, int>;

void expect_sent(const Sent& got, const Sent& expected, const char* what) {
    for (auto& [key, count] : expected) {
        auto [type, data, group, item, value] = key;
        auto found = got.find(key);
        EXPECT(found != got.end() && found->second == count, "%s: type %u data %x group %d item %d value %llx: %d times, expected %d", what,
               type, data, group, item, value, found == got.end() ? 0 : found->second, count);
    }
    EXPECT(got.size() == expected.size(), "%s: %zu different messages, expected %zu", what, got.size(), expected.size());
}

// The number that the format has for the processor; 0 for those that it has none for.
unsigned number_of_processor() {
    static const char* const NUMBERED[] = {"gfx906", "gfx908", "gfx90a", "gfx940", "gfx941", "gfx942"};
    hipDeviceProp_t properties;
    CHECK(hipGetDeviceProperties(&properties, 0));
    std::string name = properties.gcnArchName;
    name.resize(std::min(name.size(), name.find(':')));
    for (unsigned i = 0; i < std::size(NUMBERED); ++i)
        if (name == NUMBERED[i]) return i + 1;
    return 0;
}

void accesses(size_t sub_buffers, size_t capacity, unsigned least_stops, const char* file) {
    const dim3 grid(3, 2, 2), block(16, 3, 3);
    const int groups = 12;
    std::vector<int> values(groups * ITEMS);
    for (size_t i = 0; i < values.size(); ++i) values[i] = int(i * 7 % 1000);
    Array<int> in(values), out(values.size()), sum(TABLE);
    std::vector<int> plain, plain_sums;
    if (file) {
        for (const Array<int>* array : {&in, &out, &sum})
            std::printf("array %llx %llx\n", (unsigned long long)(const int*)*array,
                        (unsigned long long)(const int*)*array + array->bytes());
        k_accesses<<<grid, block>>>(in, out, sum);
        plain = out.host();
        plain_sums = sum.host();
        CHECK(hipMemset(out, 0, out.bytes()));
        CHECK(hipMemset(sum, 0, sum.bytes()));
    }
    Messages messages(sub_buffers, capacity);
    __amd_crk_accesses<<<grid, block>>>(in, out, sum, messages.descriptor());

    Sent expected;
    auto address = [&](unsigned access, unsigned space, int group, int i, const int* where) {
        ++expected[{0, access | space << 2 | 4 << 6, group, i, (unsigned long long)(where)}];
    };
    auto lds = [](int i) { return reinterpret_cast<const int*>(4ull * i); };
    std::vector<int> results(values.size()), sums(TABLE);
    for (int g = 0; g < groups; ++g)
        for (int i = 0; i < ITEMS; ++i) {
            int all = g * ITEMS + i, value = values[all];
            address(1, 1, g, i, in + all);
            address(2, 3, g, i, lds(i));
            for (int k = 0; k < i % 3; ++k) {
                address(1, 3, g, i, lds((i + k) % ITEMS));
                value += values[g * ITEMS + (i + k) % ITEMS];
            }
            if (i % 2 != 0) {
                address(3, 0, g, i, sum + i % TABLE);
                sums[i % TABLE] += value;
            }
            address(2, 1, g, i, out + all);
            results[all] = value;
        }
    const unsigned number = number_of_processor();
    // LDS addresses are flat: all of a dispatch have the same upper half, the aperture's.
    Sent got;
    int starts[2] = {0, 0}, intervals = 0;
    unsigned long long aperture = 0;
    for (const Received& message : messages.all()) {
        int group = message.block[0] + 3 * (message.block[1] + 2 * message.block[2]), wave = message.place & 15;
        EXPECT(message.time != 0 && message.arch == number, "time %llu, arch %u, expected %u", message.time, message.arch, number);
        if (message.type == 2) {
            EXPECT(message.words.empty() && message.data < 2, "block start %u with %zu words", message.data, message.words.size());
            ++starts[message.data];
            unsigned long long all = wave < 2 ? ~0ull : 0xffff, odd = message.data == 1 ? 0xaaaaaaaaaaaaaaaa : ~0ull;
            EXPECT(message.exec == (all & odd), "block %u of wave %d with lanes %llx", message.data, wave, message.exec);
            bool here = message.file == std::hash<std::string>()(__FILE__) && message.line > 0;
            EXPECT(here == (message.data == 0), "file %llx line %u", message.file, message.line);
            continue;
        }
        if (message.type == 1) {
            EXPECT(message.lanes() == 1 && message.words.size() == 4 && message.data == 7, "interval of %zu words", message.words.size());
            unsigned long long times[2];
            std::memcpy(times, message.words.data(), 16);
            EXPECT(times[0] < times[1] && times[1] <= message.time, "%llu to %llu, sent at %llu", times[0], times[1], message.time);
            ++intervals;
            continue;
        }
        EXPECT(message.vector() && message.lane_headers.size() == message.active && message.words.size() == 2u * message.active,
               "%zu words", message.words.size());
        unsigned long long exec = message.exec;
        for (unsigned lane = 0; lane < message.active; ++lane, exec &= exec - 1) {
            unsigned header = message.lane_headers[lane];
            int i = (header & 1023) + 16 * ((header >> 10 & 1023) + 3 * (header >> 20));
            EXPECT(i == wave * 64 + __builtin_ctzll(exec), "work-item %d in wave %d with lanes %llx", i, wave, message.exec);
            unsigned long long where = message.address(lane);
            if ((message.data >> 2 & 15) == 3) {
                if (aperture == 0) aperture = where >> 32;
                EXPECT(aperture != 0 && where >> 32 == aperture, "LDS at %llx", where);
                where &= 0xffffffff;
            }
            ++got[{message.type, message.data, group, i, where}];
        }
    }
    expect_sent(got, expected, "addresses");
    EXPECT(starts[0] == groups * 3 && starts[1] == groups * 3 && intervals == groups * 3, "%d and %d block starts, %d intervals", starts[0],
           starts[1], intervals);
    EXPECT(messages.stops() >= least_stops, "%u waits for the host", messages.stops());
    EXPECT(messages.errors() == 0, "errors %x", messages.errors());
    expect_same("out", out.host(), results);
    expect_same("sum", sum.host(), sums);
    if (file) {
        expect_same("out of the plain kernel", plain, results);
        expect_same("sum of the plain kernel", plain_sums, sums);
        std::ofstream(file, std::ios::binary)
            .write(reinterpret_cast<const char*>(messages.bytes().data()), messages.bytes().size());
    }
}

void values() {
    Messages messages(2, 4096);
    __amd_crk_values<<<4, 64>>>(messages.descriptor());
    int counts[3] = {0, 0, 0}, starts = 0;
    for (const Received& message : messages.all()) {
        if (message.type == 2) {
            EXPECT(message.data == 9 && (message.block[0] == 1 || message.block[0] == 2), "block start in group %u", message.block[0]);
            ++starts;
            continue;
        }
        EXPECT(message.type >= 100 && message.type < 103, "type %u", message.type);
        unsigned kind = message.type - 100, first = kind + 1;
        EXPECT(message.active == 16 && message.data == first, "%u lanes, data %u", message.active, message.data);
        EXPECT(message.lanes() == (kind == 2 ? 1u : 16u) && message.words.size() == message.lanes() * 2, "%zu words", message.words.size());
        EXPECT(message.lane_headers.size() == (kind == 0 ? 16u : 0u), "%zu lane headers", message.lane_headers.size());
        for (unsigned lane = 0; lane < message.lanes(); ++lane)
            for (unsigned i = 0; i < 7; ++i) {
                unsigned got = message.word(lane, i / 4) >> 8 * (i % 4) & 255;
                EXPECT(got == first + 4 * lane + i, "byte %u of lane %u is %u", i, lane, got);
            }
        ++counts[kind];
    }
    EXPECT(counts[0] == 4 && counts[1] == 4 && counts[2] == 4 && starts == 2, "%d %d %d messages, %d starts", counts[0], counts[1], counts[2],
           starts);
}

int main(int count, char** arguments) {
    accesses(256, 1 << 16, 0, count > 1 ? arguments[1] : nullptr);
    accesses(5, 4096, 10, nullptr);
    accesses(1, 832, 100, nullptr);  // room for one message of a full wave
    values();
    // Messages that do not fit are dropped, and said to be; smaller ones are sent.
    Messages messages(1, 100);
    __amd_crk_values<<<1, 64>>>(messages.descriptor());
    EXPECT(messages.all().size() == 1 && messages.errors() == 1, "errors %x", messages.errors());
    // No descriptor, no messages.
    __amd_crk_values<<<1, 64>>>(nullptr);
    CHECK(hipDeviceSynchronize());
    std::puts("PASS");
}
