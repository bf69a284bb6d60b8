// Copies and fills: every direction, size and shape, against the same on the host.
#include <functional>
#include <random>

#include "check.h"

typedef std::vector<unsigned char> Bytes;

static Bytes random_bytes(size_t n, int seed) {
    std::mt19937 random(seed);
    Bytes bytes(n);
    for (auto& b : bytes) b = random();
    return bytes;
}

static void expect_bytes(const char* what, size_t a, size_t b, const Bytes& got, const Bytes& expected) {
    for (size_t i = 0; i < expected.size(); ++i) EXPECT(got[i] == expected[i], "%s (%zu, %zu): byte %zu is %d, expected %d", what, a, b, i, got[i], expected[i]);
}

const size_t SIZES[] = {1, 2, 3, 4, 7, 8, 15, 16, 17, 63, 64, 65, 255, 4095, 4096, 4097, 65537, 1 << 20, (3 << 20) + 5};
const size_t LARGEST = 4 << 20;

// Bytes on both sides of what is written stay what they were.
static void check_linear() {
    Bytes start = random_bytes(LARGEST, 1), source = random_bytes(LARGEST, 2), got(LARGEST);
    Array<unsigned char> a(start), b(source);
    for (size_t size : SIZES) {
        for (size_t offset : {0, 1, 3, 4, 127}) {
            if (size > 65537 && offset > 3) continue;
            size_t window = size + 2 * offset + 64;
            Bytes expected(start.begin(), start.begin() + window);
            auto reset = [&] { CHECK(hipMemcpy(a, start.data(), window, hipMemcpyHostToDevice)); };
            auto check = [&](const char* what) {
                CHECK(hipMemcpy(got.data(), a, window, hipMemcpyDeviceToHost));
                expect_bytes(what, size, offset, got, expected);
            };
            std::copy_n(source.begin() + offset / 2, size, expected.begin() + offset);
            reset();
            CHECK(hipMemcpy(a + offset, source.data() + offset / 2, size, hipMemcpyHostToDevice));
            check("host to device");
            reset();
            CHECK(hipMemcpy(a + offset, b + offset / 2, size, hipMemcpyDeviceToDevice));
            check("device to device");
            CHECK(hipMemcpy(got.data(), a + offset, size, hipMemcpyDeviceToHost));
            expect_bytes("device to host", size, offset, got, Bytes(source.begin() + offset / 2, source.begin() + offset / 2 + size));
            // HIP 5.2.3 counts below zero when a fill ends before the first multiple of eight.
            if (offset % 8 != 0 && size < 8) continue;
            reset();
            CHECK(hipMemset(a + offset, 0xa5, size));
            std::fill_n(expected.begin() + offset, size, 0xa5);
            check("fill");
        }
    }
    std::printf("linear copies and fills: correct\n");
}

static void check_wide_fills() {
    Array<unsigned char> a(4096);
    Bytes got(4096), expected(4096, 0);
    for (size_t count : {8, 9, 13, 64, 100}) {
        std::fill(expected.begin(), expected.end(), 0);
        CHECK(hipMemset(a, 0, 4096));
        CHECK(hipMemsetD32((hipDeviceptr_t)(a + 4), 0x01020304, count));
        CHECK(hipMemsetD16((hipDeviceptr_t)(a + 2002), 0x0506, count));
        CHECK(hipMemsetD8((hipDeviceptr_t)(a + 3001), 0x77, count));
        for (size_t i = 0; i < count; ++i) {
            for (int b = 0; b < 4; ++b) expected[4 + 4 * i + b] = (unsigned char)(4 - b);
            expected[2002 + 2 * i] = 6, expected[2003 + 2 * i] = 5;
            expected[3001 + i] = 0x77;
        }
        CHECK(hipMemcpy(got.data(), a, 4096, hipMemcpyDeviceToHost));
        expect_bytes("fill with words", count, 0, got, expected);
    }
    std::printf("fills with words: correct\n");
}

// A rectangle within a larger one, and back.
static void check_rectangles() {
    for (size_t width : {5, 64, 301}) {
        const size_t height = 23, host_pitch = width + 11;
        size_t pitch;
        unsigned char *a, *b;
        CHECK(hipMallocPitch((void**)&a, &pitch, width, height));
        CHECK(hipMallocPitch((void**)&b, &pitch, width, height));
        EXPECT(pitch >= width, "a pitch of %zu for %zu bytes", pitch, width);
        Bytes in = random_bytes(host_pitch * height, 3), got(host_pitch * height, 9), expected(host_pitch * height, 9);
        CHECK(hipMemcpy2D(a, pitch, in.data(), host_pitch, width, height, hipMemcpyHostToDevice));
        CHECK(hipMemcpy2D(b, pitch, a, pitch, width, height, hipMemcpyDeviceToDevice));
        CHECK(hipMemset2D(b + 3 * pitch + 1, pitch, 0x3c, width - 2, 4));
        CHECK(hipMemcpy2DAsync(got.data(), host_pitch, b, pitch, width, height, hipMemcpyDeviceToHost, 0));
        CHECK(hipStreamSynchronize(0));
        for (size_t y = 0; y < height; ++y) {
            for (size_t x = 0; x < width; ++x) expected[y * host_pitch + x] = y >= 3 && y < 7 && x >= 1 && x < width - 1 ? 0x3c : in[y * host_pitch + x];
        }
        expect_bytes("2-D", width, height, got, expected);
        CHECK(hipFree(a));
        CHECK(hipFree(b));
    }
    std::printf("2-D copies and fills: correct\n");
}

static void check_boxes() {
    const size_t w = 37, h = 11, d = 7;
    const hipExtent extent = make_hipExtent(w, h, d), part = make_hipExtent(20, 5, 3);
    hipPitchedPtr device;
    CHECK(hipMalloc3D(&device, extent));
    Bytes in = random_bytes(w * h * d, 4), got(w * h * d), expected = in;
    hipMemcpy3DParms p = {};
    p.srcPtr = make_hipPitchedPtr(in.data(), w, w, h);
    p.dstPtr = device;
    p.extent = extent;
    p.kind = hipMemcpyHostToDevice;
    CHECK(hipMemcpy3D(&p));
    // A part of it over another part, on the device.
    hipMemcpy3DParms q = {};
    q.srcPtr = q.dstPtr = device;
    q.srcPos = make_hipPos(1, 2, 0);
    q.dstPos = make_hipPos(3, 6, 4);
    q.extent = part;
    q.kind = hipMemcpyDeviceToDevice;
    CHECK(hipMemcpy3D(&q));
    for (size_t z = 0; z < part.depth; ++z) {
        for (size_t y = 0; y < part.height; ++y) {
            for (size_t x = 0; x < part.width; ++x) expected[((z + 4) * h + y + 6) * w + x + 3] = in[(z * h + y + 2) * w + x + 1];
        }
    }
    hipMemcpy3DParms r = {};
    r.srcPtr = device;
    r.dstPtr = make_hipPitchedPtr(got.data(), w, w, h);
    r.extent = extent;
    r.kind = hipMemcpyDeviceToHost;
    CHECK(hipMemcpy3DAsync(&r, 0));
    CHECK(hipStreamSynchronize(0));
    expect_bytes("3-D", w, h, got, expected);
    CHECK(hipMemset3D(device, 0x42, extent));
    CHECK(hipMemcpy3D(&r));
    expect_bytes("3-D fill", w, h, got, Bytes(w * h * d, 0x42));
    CHECK(hipFree(device.ptr));
    std::printf("3-D copies and fills: correct\n");
}

// 64 MiB through pinned and pageable memory, in one copy and in many on two streams.
static void check_large() {
    const size_t size = 64 << 20, pieces = 16, piece = size / pieces;
    unsigned *pinned, *a, *b;
    CHECK(hipHostMalloc((void**)&pinned, size));
    CHECK(hipMalloc(&a, size));
    CHECK(hipMalloc(&b, size));
    for (size_t i = 0; i < size / 4; ++i) pinned[i] = unsigned(i * 2654435761u);
    hipStream_t streams[2];
    for (auto& s : streams) CHECK(hipStreamCreate(&s));
    for (size_t n = 0; n < pieces; ++n) {
        hipStream_t s = streams[n % 2];
        CHECK(hipMemcpyAsync((char*)a + n * piece, (char*)pinned + n * piece, piece, hipMemcpyHostToDevice, s));
        CHECK(hipMemcpyAsync((char*)b + n * piece, (char*)a + n * piece, piece, hipMemcpyDeviceToDevice, s));
    }
    for (auto& s : streams) CHECK(hipStreamSynchronize(s));
    std::vector<unsigned> got(size / 4);
    CHECK(hipMemcpy(got.data(), b, size, hipMemcpyDeviceToHost));
    EXPECT(std::memcmp(got.data(), pinned, size) == 0, "64 MiB came back different");
    CHECK(hipMemcpy(a, got.data(), size, hipMemcpyHostToDevice));
    CHECK(hipMemcpyDtoD((hipDeviceptr_t)b, (hipDeviceptr_t)a, size));
    std::memset(pinned, 0, size);
    CHECK(hipMemcpyDtoH(pinned, (hipDeviceptr_t)b, size));
    EXPECT(std::memcmp(got.data(), pinned, size) == 0, "64 MiB came back different");
    for (auto& s : streams) CHECK(hipStreamDestroy(s));
    for (void* p : {(void*)a, (void*)b}) CHECK(hipFree(p));
    CHECK(hipHostFree(pinned));
    std::printf("64 MiB copies: correct\n");
}

int main() {
    check_linear();
    check_wide_fills();
    check_rectangles();
    check_boxes();
    check_large();
    std::printf("PASS\n");
    return 0;
}
