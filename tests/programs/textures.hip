// Textures of one dimension: elements of many types are read as the host has them. The kernel that is captured has a texture in
// its arguments, and a variable beside it.
#include "check.h"

constexpr int N = 64;

__device__ int by = 3;

extern "C" __global__ void sampled(int* out, hipTextureObject_t texture) {
    int i = threadIdx.x;
    out[i] = i * by + tex1Dfetch<int>(texture, i);
}

// A texture of memory, whose elements have so many components.
template <class T>
static hipTextureObject_t texture_of(const Array<T>& data, int components, hipChannelFormatKind kind,
                                     hipTextureReadMode mode = hipReadModeElementType) {
    const int bits = 8 * sizeof(T) / components;
    const auto has = [=](int n) { return n < components ? bits : 0; };
    hipResourceDesc resource = {};
    resource.resType = hipResourceTypeLinear;
    resource.res.linear.devPtr = (T*)data;
    resource.res.linear.desc = hipCreateChannelDesc(has(0), has(1), has(2), has(3), kind);
    resource.res.linear.sizeInBytes = data.bytes();
    hipTextureDesc description = {};
    description.readMode = mode;
    hipTextureObject_t texture = nullptr;
    CHECK(hipCreateTextureObject(&texture, &resource, &description, nullptr));
    return texture;
}

template <class R>
__global__ void fetch(R* out, hipTextureObject_t texture) {
    out[threadIdx.x] = tex1Dfetch<R>(texture, threadIdx.x);
}

// Elements whose bytes are random, and what a kernel reads of them as R.
template <class T, class R, class Expected>
static void fetched(int components, hipChannelFormatKind kind, hipTextureReadMode mode, Expected expected) {
    std::vector<T> values(N);
    unsigned state = 1;
    for (size_t i = 0; i < values.size() * sizeof(T); ++i) {
        state = state * 1664525 + 1013904223;
        // No NaN among floats: their bits are compared.
        ((unsigned char*)values.data())[i] = (state >> 24) & (i % 4 == 3 && sizeof(T) >= 4 ? 0xbf : 0xff);
    }
    Array<T> data(values);
    Array<R> out(N);
    hipTextureObject_t texture = texture_of(data, components, kind, mode);
    fetch<R><<<1, N>>>(out, texture);
    const std::vector<R> got = out.host();
    for (int i = 0; i < N; ++i) {
        const R want = expected(values[i]);
        EXPECT(!memcmp(&got[i], &want, sizeof(R)), "%d of %zu bytes, kind %d, mode %d: element %d", components, sizeof(T),
               kind, mode, i);
    }
    CHECK(hipDestroyTextureObject(texture));
}

static void types() {
    const hipChannelFormatKind is_signed = hipChannelFormatKindSigned, is_unsigned = hipChannelFormatKindUnsigned;
    const hipTextureReadMode as_is = hipReadModeElementType, normalized = hipReadModeNormalizedFloat;
    fetched<int, int>(1, is_signed, as_is, [](int v) { return v; });
    fetched<unsigned, unsigned>(1, is_unsigned, as_is, [](unsigned v) { return v; });
    fetched<float, float>(1, hipChannelFormatKindFloat, as_is, [](float v) { return v; });
    fetched<int2, int2>(2, is_signed, as_is, [](int2 v) { return v; });
    fetched<float4, float4>(4, hipChannelFormatKindFloat, as_is, [](float4 v) { return v; });
    fetched<signed char, int>(1, is_signed, as_is, [](signed char v) { return int(v); });
    fetched<unsigned char, unsigned>(1, is_unsigned, as_is, [](unsigned char v) { return unsigned(v); });
    fetched<short, int>(1, is_signed, as_is, [](short v) { return int(v); });
    fetched<ushort2, uint2>(2, is_unsigned, as_is, [](ushort2 v) { return make_uint2(v.x, v.y); });
    fetched<char4, int4>(4, is_signed, as_is, [](char4 v) { return make_int4(v.x, v.y, v.z, v.w); });
    fetched<uchar4, float4>(4, is_unsigned, normalized, [](uchar4 v) {
        return make_float4(v.x / 255.0f, v.y / 255.0f, v.z / 255.0f, v.w / 255.0f);
    });
    fetched<short, float>(1, is_signed, normalized, [](short v) { return v < -32767 ? -1.0f : v / 32767.0f; });
    fetched<ushort4, float4>(4, is_unsigned, normalized, [](ushort4 v) {
        return make_float4(v.x / 65535.0f, v.y / 65535.0f, v.z / 65535.0f, v.w / 65535.0f);
    });
}

int main() {
    Array<int> out(N);
    std::vector<int> values(N);
    for (int i = 0; i < N; ++i) values[i] = i * i - 100;
    Array<int> data(values);
    hipTextureObject_t texture = texture_of(data, 1, hipChannelFormatKindSigned);
    sampled<<<1, N>>>(out, texture);
    const std::vector<int> got = out.host();
    for (int i = 0; i < N; ++i) EXPECT(got[i] == values[i] + 3 * i, "element %d is %d", i, got[i]);
    CHECK(hipDestroyTextureObject(texture));
    types();
    std::printf("PASS\n");
    return 0;
}
