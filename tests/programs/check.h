// What the HIP programs share: every one checks its own results, prints PASS at its end and exits with 0.
#pragma once
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>

#define CHECK(call)                                                         \
    do {                                                                    \
        hipError_t status = (call);                                         \
        if (status != hipSuccess) {                                         \
            std::printf("FAIL %s: %s\n", #call, hipGetErrorString(status)); \
            std::exit(1);                                                   \
        }                                                                   \
    } while (0)

#define EXPECT(condition, ...)         \
    do {                               \
        if (!(condition)) {            \
            std::printf("FAIL ");      \
            std::printf(__VA_ARGS__);  \
            std::printf("\n");         \
            std::exit(1);              \
        }                              \
    } while (0)
