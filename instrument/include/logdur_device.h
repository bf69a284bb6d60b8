// Messages of a kernel to the host, in the device format of AMD's dh_comms. For HIP, also without ROCm's headers
// (`clang -x hip -nogpuinc`). A kernel that is instrumented with this header is named `__amd_crk_<mangled>Pv`, where `<mangled>` is
// the name of the kernel that it replaces, and has one more parameter, the last: `void *descriptor`.
// docs/instrument-kernels.md has an example.
//
// Each function returns at once if the descriptor is null. A wave that finds its sub-buffer full waits, without limit, until the host
// has emptied it.
#pragma once

#ifndef __HIP__
#error "logdur_device.h is for HIP: compile with hipcc or clang -x hip"
#endif

#if __cplusplus < 201402L
#error "logdur_device.h needs C++14: compile with -std=c++14 or later"
#endif

#if defined(__gfx906__)
#define LOGDUR_ARCH 1
#elif defined(__gfx908__)
#define LOGDUR_ARCH 2
#elif defined(__gfx90a__)
#define LOGDUR_ARCH 3
#elif defined(__gfx940__)
#define LOGDUR_ARCH 4
#elif defined(__gfx941__)
#define LOGDUR_ARCH 5
#elif defined(__gfx942__)
#define LOGDUR_ARCH 6
#elif defined(__gfx900__) || defined(__gfx950__) || !defined(__HIP_DEVICE_COMPILE__)
// gfx900 and gfx950 have what is needed, but the format has no number for them. The host's code only parses this.
#define LOGDUR_ARCH 0
#else
#error "logdur_device.h supports gfx900, gfx906, gfx908, gfx90a, gfx940 to gfx942 and gfx950: its messages need waves of 64 lanes and HW_ID"
#endif

#define LOGDUR_DEVICE __attribute__((device)) inline

namespace logdur {

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;

// Where the messages of a dispatch go. In device memory; the host has made it and what it points to.
struct Descriptor {
    u64 sub_buffers;
    u64 capacity;       // of each sub-buffer, bytes
    u8* buffer;         // the sub-buffers, in memory that the host and the device access coherently
    u64* sizes;         // bytes used of each sub-buffer, coherent
    u32* errors;        // bit 0: a message was larger than a sub-buffer, and dropped
    u8* locks;          // 1: a wave writes the sub-buffer
    u8* full;           // 1: the host has to empty the sub-buffer; coherent
};
static_assert(sizeof(Descriptor) == 56, "the format's size");

// What a message is.
enum Type : u32 { ADDRESS = 0, INTERVAL = 1, BLOCK_START = 2 };
// What an instruction does to an address.
enum Access : u32 { READ = 1, WRITE = 2, READ_WRITE = 3 };
// Where an address points to. Addresses of LDS are flat addresses.
enum Space : u32 { FLAT = 0, GLOBAL = 1, GDS = 2, LDS = 3, CONSTANT = 4, SCRATCH = 5 };

// A place in a source file.
struct Source {
    u64 file;  // file_hash() of its name
    u32 line;
    u32 column;
};

namespace detail {

constexpr u64 shift_mix(u64 value) { return value ^ (value >> 47); }
constexpr u64 bytes_at(const char* text, u64 count) {
    u64 value = 0;
    for (u64 i = count; i-- > 0;) value = value << 8 | static_cast<u8>(text[i]);
    return value;
}
template <u64 VALUE>
struct Constant {
    static constexpr u64 value = VALUE;
};

}  // namespace detail

// The hash of a file's name: that of libstdc++'s std::hash<std::string> (MurmurHash64A with its seed).
constexpr u64 file_hash(const char* name) {
    const u64 factor = 0xc6a4a7935bd1e995;
    u64 length = 0;
    while (name[length] != 0) ++length;
    u64 hash = 0xc70f6907 ^ (length * factor);
    for (; length >= 8; length -= 8, name += 8)
        hash = (hash ^ detail::shift_mix(detail::bytes_at(name, 8) * factor) * factor) * factor;
    if (length > 0) hash = (hash ^ detail::bytes_at(name, length)) * factor;
    return detail::shift_mix(detail::shift_mix(hash) * factor);
}

// The line that this is written in. The file's name is as the compiler was given it.
#define LOGDUR_HERE (logdur::Source{logdur::detail::Constant<logdur::file_hash(__FILE__)>::value, __LINE__, 0})

namespace detail {

template <class T>
using Global = __attribute__((address_space(1))) T*;
template <class T>
using Constants = const __attribute__((address_space(4))) T*;

template <class T>
LOGDUR_DEVICE Global<T> global(T* pointer) {
    return (Global<T>)pointer;
}

// The dispatch packet has the sizes whatever hidden arguments the kernel has (HSA: hsa_kernel_dispatch_packet_t).
LOGDUR_DEVICE u32 workgroup_size(u32 dimension) {
    return ((Constants<u16>)__builtin_amdgcn_dispatch_ptr())[2 + dimension];
}
LOGDUR_DEVICE u32 workgroups(u32 dimension) {
    u32 grid = ((Constants<u32>)__builtin_amdgcn_dispatch_ptr())[3 + dimension];
    return (grid - 1) / workgroup_size(dimension) + 1;
}

// Waves of a workgroup share a sub-buffer.
LOGDUR_DEVICE u32 sub_buffer(u32 count) {
    u32 number = __builtin_amdgcn_workgroup_id_z();
    number = number * workgroups(1) + __builtin_amdgcn_workgroup_id_y();
    number = number * workgroups(0) + __builtin_amdgcn_workgroup_id_x();
    return number % count;
}

LOGDUR_DEVICE u32 wave_in_workgroup() {
    u32 item = __builtin_amdgcn_workitem_id_z();
    item = item * workgroup_size(1) + __builtin_amdgcn_workitem_id_y();
    item = item * workgroup_size(0) + __builtin_amdgcn_workitem_id_x();
    return item / 64;
}

// A register of the hardware (ISA manuals: S_GETREG_B32): its number, first bit and width.
#define LOGDUR_GETREG(number, first, width) \
    static_cast<u32>(__builtin_amdgcn_s_getreg((number) | (first) << 6 | ((width) - 1) << 11))

LOGDUR_DEVICE u32 place() {
    u32 shader_engine = LOGDUR_GETREG(4, 13, 3), compute_unit = LOGDUR_GETREG(4, 8, 4), xcc = 0;
#if LOGDUR_ARCH >= 4 || defined(__gfx950__)
    xcc = LOGDUR_GETREG(20, 0, 4);
#endif
    return (wave_in_workgroup() & 15) | xcc << 4 | shader_engine << 8 | compute_unit << 11;
}

// Exchanges a flag as soon as it has a value. Also used to unlock: it cannot be optimized like a store.
template <int ORDER>
LOGDUR_DEVICE void exchange(Global<u8> flag, u8 from, u8 to) {
    u8 expected = from;
    while (!__hip_atomic_compare_exchange_strong(flag, &expected, to, ORDER, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)) {
        expected = from;
        __builtin_amdgcn_s_sleep(1);
    }
}

// A lane's dwords of a message, for the sub-buffer that its wave has locked.
struct Message {
    u32 type, data;
    Source source;
    u64 time;
    bool vector, lane_headers;
};

// Writes a message of the active lanes: a header, thread coordinates of each lane, and the lanes' dwords, dword by dword.
LOGDUR_DEVICE void submit(const Descriptor* pointer, const Message& message, const u32* words, u32 count) {
    if (pointer == nullptr) return;
    // The lanes for which 1 != 0 (LLVM: ICMP_NE): unlike a read of EXEC, every compiler leaves this where it is.
    const u64 lanes = __builtin_amdgcn_uicmp(1, 0, 33);
    const u32 active = __builtin_popcountll(lanes);
    const u32 lane = __builtin_amdgcn_mbcnt_hi(lanes >> 32, __builtin_amdgcn_mbcnt_lo(static_cast<u32>(lanes), 0));
    const bool first = lane == 0;
    const auto descriptor = (Global<const Descriptor>)pointer;
    const u32 number = sub_buffer(descriptor->sub_buffers);
    const u64 capacity = descriptor->capacity;
    const auto size = global(descriptor->sizes) + number;
    const auto lock = global(descriptor->locks) + number, full = global(descriptor->full) + number;

    const u32 submitting = message.vector ? active : 1;
    const u64 payload = 4 * (u64(message.lane_headers ? active : 0) + u64(submitting) * count);
    if (64 + payload > capacity) {
        if (first)
            __hip_atomic_fetch_or(global(descriptor->errors), 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
        return;
    }
    u64 used = 0;
    if (first) {
        exchange<__ATOMIC_ACQUIRE>(lock, 0, 1);
        used = __hip_atomic_load(size, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
        if (used + 64 + payload > capacity) {
            __hip_atomic_store(full, 1, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_SYSTEM);
            while (__hip_atomic_load(full, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_SYSTEM) != 0) __builtin_amdgcn_s_sleep(8);
            used = 0;
        }
    }
    // The lanes of a wave are in step, but the compiler must not move their stores out of the lock.
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
    __builtin_amdgcn_wave_barrier();
    const u32 low = __builtin_amdgcn_readfirstlane(static_cast<u32>(used));
    const u32 high = __builtin_amdgcn_readfirstlane(static_cast<u32>(used >> 32));
    const u64 start = number * capacity + (u64(high) << 32 | low);
    auto out = (Global<u32>)(global(descriptor->buffer) + start);
    if (first) {
        const u64 sizes = payload | u64(message.vector) << 62 | u64(message.lane_headers) << 63;
        const u64 header[] = {
            lanes,
            sizes,
            message.time,
            message.source.file,
            message.source.line | u64(message.source.column) << 32,
            message.type | u64(message.data) << 32,
            (__builtin_amdgcn_workgroup_id_x() & 0xffff) | (__builtin_amdgcn_workgroup_id_y() & 0xffffu) << 16 |
                u64(__builtin_amdgcn_workgroup_id_z() & 0xffff) << 32 | u64(place()) << 48,
            active | LOGDUR_ARCH << 8,
        };
        for (u32 i = 0; i < 8; ++i) {
            out[2 * i] = static_cast<u32>(header[i]);
            out[2 * i + 1] = static_cast<u32>(header[i] >> 32);
        }
    }
    out += 16;
    if (message.lane_headers) {
        out[lane] = __builtin_amdgcn_workitem_id_x() | __builtin_amdgcn_workitem_id_y() << 10 |
                    __builtin_amdgcn_workitem_id_z() << 20;
        out += active;
    }
    if (message.vector || first)
        for (u32 i = 0; i < count; ++i) out[i * submitting + lane] = words[i];
    __builtin_amdgcn_wave_barrier();
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
    if (first) {
        __hip_atomic_store(size, used + 64 + payload, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
        exchange<__ATOMIC_RELEASE>(lock, 1, 0);
    }
}

template <class T>
LOGDUR_DEVICE void submit_value(const void* descriptor, const Message& message, const T& value) {
    u32 words[(sizeof(T) + 3) / 4] = {};
    __builtin_memcpy(words, &value, sizeof(T));
    submit(static_cast<const Descriptor*>(descriptor), message, words, sizeof(words) / 4);
}

}  // namespace detail

// The counter that the times of messages are read from. It counts for each XCC.
LOGDUR_DEVICE u64 clock() { return __builtin_amdgcn_s_memtime(); }

// The descriptor for workgroups whose number is in `first <= number < end` in a dimension (0, 1, 2); null for others, which then
// send nothing.
LOGDUR_DEVICE const void* only_workgroups(const void* descriptor, u32 dimension, u32 first, u32 end) {
    u32 numbers[] = {static_cast<u32>(__builtin_amdgcn_workgroup_id_x()), static_cast<u32>(__builtin_amdgcn_workgroup_id_y()),
                     static_cast<u32>(__builtin_amdgcn_workgroup_id_z())};
    return numbers[dimension] >= first && numbers[dimension] < end ? descriptor : nullptr;
}

// The active lanes access `bytes` at an address each.
LOGDUR_DEVICE void submit_address(const void* descriptor, const volatile void* address, Access access, u32 bytes,
                                  Space space = FLAT, Source source = {}) {
    u32 data = access | space << 2 | (bytes & 0xffff) << 6;
    detail::submit_value(descriptor, {ADDRESS, data, source, clock(), true, true}, reinterpret_cast<u64>(address));
}

// A basic block begins.
LOGDUR_DEVICE void block_start(const void* descriptor, u32 block, Source source = {}) {
    detail::submit(static_cast<const Descriptor*>(descriptor), {BLOCK_START, block, source, clock(), false, false}, nullptr, 0);
}

// Something took from `start` to `stop`, values of clock().
LOGDUR_DEVICE void submit_interval(const void* descriptor, u64 start, u64 stop, u32 data = 0, Source source = {}) {
    struct Interval {
        u64 start, stop;
    };
    detail::submit_value(descriptor, {INTERVAL, data, source, clock(), false, false}, Interval{start, stop});
}

// A value of each active lane. Types below 16 are the format's own.
template <class T>
LOGDUR_DEVICE void submit_message(const void* descriptor, const T& value, u32 type, u32 data = 0, Source source = {},
                                  bool lane_headers = true) {
    detail::submit_value(descriptor, {type, data, source, clock(), true, lane_headers}, value);
}

// A value of the first active lane.
template <class T>
LOGDUR_DEVICE void submit_scalar(const void* descriptor, const T& value, u32 type, u32 data = 0, Source source = {}) {
    detail::submit_value(descriptor, {type, data, source, clock(), false, false}, value);
}

}  // namespace logdur
