// A function that is inlined into a kernel of another file, with blocks of its own.

#pragma once

__device__ __forceinline__ int sum_of(const int* values, int count) {
    int sum = 0;
    for (int i = 0; i < count; i++) {
        if (values[i] & 1)
            sum += values[i] * 3;
        else
            sum -= values[i + 1];
    }
    return sum;
}
