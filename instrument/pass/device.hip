// What the pass calls in clones. `cargo xtask instrument-pass` compiles it to bitcode for each processor, and puts it into the plugin.
#include "logdur_device.h"

using namespace logdur;

// A call instead of a copy at each access: a message is some hundred instructions.
#define LOGDUR_CALLED extern "C" __attribute__((device, noinline, used))

typedef u32 Words __attribute__((ext_vector_type(4)));

static LOGDUR_DEVICE void send(const void* descriptor, u64 address, u32 bytes, u32 data, Source source) {
    detail::submit_value(descriptor, {ADDRESS, data | (bytes & 0xffff) << 6, source, logdur::clock(), true, true}, address);
}

LOGDUR_CALLED void logdur_address(const void* descriptor, u64 address, u32 bytes, u32 data, u64 file, u32 line, u32 column) {
    send(descriptor, address, bytes, data, {file, line, column});
}

// Lengths of each lane. A message has one length of 16 bits: that of the first lane that is left, in a part of the others.
static LOGDUR_DEVICE void send_lengths(const void* descriptor, u64 address, u64 bytes, u32 data, Source source) {
    const u32 most = 0x8000;
    while (bytes > 0) {
        u32 part = __builtin_amdgcn_readfirstlane(bytes < most ? static_cast<u32>(bytes) : most);
        if (bytes < part) continue;
        send(descriptor, address, part, data, source);
        address += part;
        bytes -= part;
    }
}

LOGDUR_CALLED void logdur_range(const void* descriptor, u64 address, u64 bytes, u32 data, u64 file, u32 line, u32 column) {
    send_lengths(descriptor, address, bytes, data, {file, line, column});
}

// An access by a buffer descriptor (ISA manuals: buffer resource descriptor). Lanes outside of the buffer access nothing; of those
// across its end, the dwords inside. Swizzled buffers are not reported: their dwords are apart.
LOGDUR_CALLED void logdur_buffer(const void* descriptor, Words buffer, u32 index, u32 offset, u32 scalar, u32 bytes, u32 data, u64 file,
                                 u32 line, u32 column) {
    const u64 base = buffer.x | u64(buffer.y & 0xffff) << 32;
    const u32 stride = buffer.y >> 16 & 0x3fff, records = buffer.z;
    const bool swizzled = buffer.y >> 31 != 0;
    u64 end = stride == 0 ? records : stride, start = stride == 0 ? u64(offset) + scalar : offset;
    u64 inside = start >= end ? 0 : end - start;
    if (inside < bytes) bytes = bytes <= 4 ? 0 : static_cast<u32>(inside) & ~3u;
    if (stride != 0 && index >= records) bytes = 0;
    if (!swizzled) send_lengths(descriptor, base + u64(index) * stride + offset + scalar, bytes, data, {file, line, column});
}

LOGDUR_CALLED void logdur_block(const void* descriptor, u32 block, u64 file, u32 line, u32 column) {
    block_start(descriptor, block, {file, line, column});
}

LOGDUR_CALLED u64 logdur_clock() { return logdur::clock(); }

LOGDUR_CALLED void logdur_interval(const void* descriptor, u64 start, u64 file, u32 line, u32 column) {
    submit_interval(descriptor, start, logdur::clock(), 0, {file, line, column});
}

LOGDUR_CALLED const void* logdur_only(const void* descriptor, u32 dimension, u32 first, u32 end) {
    return only_workgroups(descriptor, dimension, first, end);
}
