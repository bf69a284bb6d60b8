// Kernels that are swapped for those of the same source compiled with -DOTHER. Each adds what it is compiled with to what it
// computes, so that the data says whose code ran. Prints a line "KERNEL original|other" for each launch in the order of
// the arguments, or of the table below without any, and PASS at its end; with "-d N" on device N; "-w" waits for a line of
// input before each.
//   swaps [-d DEVICE] [-w] [KERNEL...]
#include "check.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#ifdef OTHER
constexpr int ADDED = 1000;
// Other resources than the original's, on purpose.
constexpr int TILE = 96, LOCAL = 64;
#define LIMIT __launch_bounds__(64)
#else
constexpr int ADDED = 0;
constexpr int TILE = 32, LOCAL = 4;
#define LIMIT
#endif

constexpr int N = 128;

extern "C" __global__ void plain(int* out) { out[blockIdx.x * blockDim.x + threadIdx.x] = ADDED + blockIdx.x; }

template <typename T>
__global__ void shaped(T* out, T by) {
    out[blockIdx.x * blockDim.x + threadIdx.x] = by * T(2) + T(ADDED);
}

template <typename F>
__global__ void apply(int* out, F f) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = f(i) + ADDED;
}

// Static LDS that differs, and dynamic LDS behind it.
extern "C" __global__ void tiled(int* out) {
    extern __shared__ int dynamic[];
    __shared__ int fixed[TILE];
    const int t = threadIdx.x;
    for (int i = t; i < TILE; i += blockDim.x) fixed[i] = i;
    dynamic[t] = t;
    __syncthreads();
    int sum = 0;
    for (int i = 0; i < 32; ++i) sum += fixed[i];
    out[blockIdx.x * blockDim.x + t] = dynamic[blockDim.x - 1 - t] + sum + ADDED;
}

// Scratch that differs.
extern "C" __global__ void scratch(int* out, const int* order) {
    volatile int local[LOCAL];
    for (int i = 0; i < LOCAL; ++i) local[i] = i;
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = local[order[i % N] & 3] + ADDED;
}

// Registers that differ.
extern "C" __global__ void registers(float* out, const float* in) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
#ifdef OTHER
    float all[32];
#pragma unroll
    for (int k = 0; k < 32; ++k) all[k] = in[(i + k) % N];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 32; ++k) sum += all[31 - k];
#else
    for (int k = 0; k < 32; ++k) sum += in[(i + k) % N];
#endif
    out[i] = sum + ADDED;
}

// What the runtime tells kernels in hidden arguments, or in the packet.
extern "C" __global__ void placed(int* out, int salt) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = static_cast<int>(gridDim.x * 1000000 + blockDim.x * 1000 + blockIdx.x) + salt + ADDED;
}

// Those that must not be swapped.
#ifdef OTHER
extern "C" __global__ void wider(int* out, long by) {
#else
extern "C" __global__ void wider(int* out, int by) {
#endif
    out[blockIdx.x * blockDim.x + threadIdx.x] = by + ADDED;
}

#ifdef OTHER
#define MORE , 0
extern "C" __global__ void longer(int* out, int by, int more) {
    by += more;
#else
#define MORE
extern "C" __global__ void longer(int* out, int by) {
#endif
    out[blockIdx.x * blockDim.x + threadIdx.x] = by + ADDED;
}

#ifdef OTHER
extern "C" __global__ void printing(int* out) {
    if (out[0] == -1) printf("never\n");
#else
extern "C" __global__ void printing(int* out) {
#endif
    out[blockIdx.x * blockDim.x + threadIdx.x] = ADDED;
}

// Fits, but not every workgroup.
extern "C" __global__ void LIMIT bounded(int* out) { out[blockIdx.x * blockDim.x + threadIdx.x] = ADDED; }

template <typename T>
static std::vector<T> start() {
    std::vector<T> values(2 * N);
    for (int i = 0; i < 2 * N; ++i) values[i] = T(i % 7);
    return values;
}

// Runs a launch of two workgroups, and says whose code it was: every element is the expected one, or 1000 more.
template <typename T>
static const char* whose(std::function<void(T*)> launch, std::function<double(int)> expected, int threads = N) {
    Array<T> out(start<T>());
    launch(out);
    const std::vector<T> got = out.host();
    const double added = static_cast<double>(got[0]) - expected(0);
    for (int i = 0; i < 2 * threads; ++i) {
        const double off = static_cast<double>(got[i]) - expected(i) - added;
        if (off != 0) {
            std::printf("element %d is %g, not %g\n", i, double(got[i]), expected(i) + added);
            return "wrong";
        }
    }
    return added == 0 ? "original" : added == 1000 ? "other" : "wrong";
}

static const char* run_bounded(int threads) {
    return whose<int>([=](int* out) { bounded<<<2, threads>>>(out); }, [](int) { return 0; }, threads);
}

static const std::pair<const char*, std::function<const char*()>> LAUNCHES[] = {
    {"plain", [] { return whose<int>([](int* out) { plain<<<2, N>>>(out); }, [](int i) { return i / N; }); }},
    {"shaped<int>", [] { return whose<int>([](int* out) { shaped<<<2, N>>>(out, 21); }, [](int) { return 42; }); }},
    {"shaped<double>",
     [] { return whose<double>([](double* out) { shaped<<<2, N>>>(out, 0.25); }, [](int) { return 0.5; }); }},
    {"lambda",
     [] {
         const int by = 3;
         return whose<int>([=](int* out) { apply<<<2, N>>>(out, [=] __device__(int i) { return i * by; }); },
                           [](int i) { return i * 3; });
     }},
    {"tiled",
     [] {
         return whose<int>([](int* out) { tiled<<<2, N, N * sizeof(int)>>>(out); },
                           [](int i) { return N - 1 - i % N + 496; });
     }},
    {"scratch",
     [] {
         Array<int> order(start<int>());
         return whose<int>([&](int* out) { scratch<<<2, N>>>(out, order); },
                           [](int i) { return i % N % 7 & 3; });
     }},
    {"registers",
     [] {
         Array<float> in(start<float>());
         return whose<float>([&](float* out) { registers<<<2, N>>>(out, in); },
                             [](int i) {
                                 int sum = 0;
                                 for (int k = 0; k < 32; ++k) sum += (i + k) % N % 7;
                                 return sum;
                             });
     }},
    {"placed",
     [] {
         return whose<int>([](int* out) { placed<<<2, N>>>(out, 7); },
                           [](int i) { return 2 * 1000000 + N * 1000 + i / N + 7; });
     }},
    {"wider", [] { return whose<int>([](int* out) { wider<<<2, N>>>(out, 5); }, [](int) { return 5; }); }},
    {"longer", [] { return whose<int>([](int* out) { longer<<<2, N>>>(out, 5 MORE); }, [](int) { return 5; }); }},
    {"printing", [] { return whose<int>([](int* out) { printing<<<2, N>>>(out); }, [](int) { return 0; }); }},
    {"bounded128", [] { return run_bounded(N); }},
    {"bounded64", [] { return run_bounded(N / 2); }},
};

int main(int argc, char** argv) {
    std::vector<std::string> names;
    bool waits = false;
    int device = 0;
    for (int i = 1; i < argc; ++i) {
        if (!std::strcmp(argv[i], "-d")) {
            device = std::atoi(argv[++i]);
        } else if (!std::strcmp(argv[i], "-w")) {
            waits = true;
        } else {
            names.push_back(argv[i]);
        }
    }
    if (names.empty()) {
        for (const auto& launch : LAUNCHES) names.push_back(launch.first);
    }
    CHECK(hipSetDevice(device));
    for (const std::string& name : names) {
        const auto launch = std::find_if(std::begin(LAUNCHES), std::end(LAUNCHES),
                                         [&](const auto& entry) { return name == entry.first; });
        if (launch == std::end(LAUNCHES)) {
            std::printf("no kernel %s\n", name.c_str());
            return 2;
        }
        if (waits && std::getchar() == EOF) break;
        std::printf("%s %s\n", name.c_str(), launch->second());
        std::fflush(stdout);
    }
    std::printf("PASS\n");
    return 0;
}
