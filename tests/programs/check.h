// What the HIP programs share: every one checks its own results, prints PASS at its end and exits with 0.
#pragma once
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

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

// An array in the memory of the device.
template <class T>
class Array {
public:
    explicit Array(size_t length) : length_(length) {
        CHECK(hipMalloc(&start_, length * sizeof(T)));
        CHECK(hipMemset(start_, 0, length * sizeof(T)));
        // It may return before the memory is zero (HIP 6), and streams that do not block do not wait for it.
        CHECK(hipStreamSynchronize(nullptr));
    }
    explicit Array(const std::vector<T>& values) : length_(values.size()) {
        CHECK(hipMalloc(&start_, length_ * sizeof(T)));
        CHECK(hipMemcpy(start_, values.data(), length_ * sizeof(T), hipMemcpyHostToDevice));
    }
    Array(const Array&) = delete;
    Array& operator=(const Array&) = delete;
    ~Array() { CHECK(hipFree(start_)); }
    operator T*() const { return start_; }
    size_t bytes() const { return length_ * sizeof(T); }
    // A copy for the host, made when everything before it is done.
    std::vector<T> host() const {
        CHECK(hipGetLastError());
        CHECK(hipDeviceSynchronize());
        std::vector<T> values(length_);
        CHECK(hipMemcpy(values.data(), start_, bytes(), hipMemcpyDeviceToHost));
        return values;
    }

private:
    T* start_ = nullptr;
    size_t length_;
};

// Ends the program unless the values are the expected ones, bit for bit.
template <class T>
void expect_same(const char* what, const std::vector<T>& got, const std::vector<T>& expected) {
    EXPECT(got.size() == expected.size(), "%s: %zu values, expected %zu", what, got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) {
        if (std::memcmp(&got[i], &expected[i], sizeof(T)) == 0) continue;
        unsigned long long words[2] = {0, 0};
        std::memcpy(&words[0], &got[i], sizeof(T) < 8 ? sizeof(T) : 8);
        std::memcpy(&words[1], &expected[i], sizeof(T) < 8 ? sizeof(T) : 8);
        EXPECT(false, "%s[%zu] = %g (0x%llx), expected %g (0x%llx)", what, i, (double)got[i], words[0], (double)expected[i], words[1]);
    }
    std::printf("%s: %zu values correct\n", what, got.size());
}
