// Memory of every kind. No result depends on the order of work-items.

typedef struct {
    int whole;
    uchar byte;
    double real;
    short words[3];
    long wide;
} mixed;

// A struct by value, and one through memory.
kernel void struct_argument(mixed m, global const mixed* all, global long* out, char c, short s, uchar4 v) {
    size_t i = get_global_id(0);
    mixed one = all[i % 16];
    one.words[i % 3] += m.words[(i + 1) % 3];
    out[i] = m.whole + m.byte + (long)m.real + m.words[i % 3] + m.wide + one.whole * 3 + one.byte + (long)(one.real * 2.0) +
             one.words[0] + one.words[1] * 5 + one.words[2] * 7 + one.wide + c * 11 + s * 13 + v.x + v.y * 2 + v.z * 3 + v.w;
}

constant int table[64] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4, 6, 2, 6, 4, 3, 3, 8, 3, 2, 7, 9, 5};

// Pointers to constant memory, the program's own and an argument's.
kernel void constants(constant short* words, global const uint* as, global int* out) {
    size_t i = get_global_id(0);
    out[i] = table[as[i] % 64] * 1000 + words[as[i] % 128] + words[5] + table[i & 31];
}

// Loads and stores of parts of a word, next to one another.
kernel void subwords(global const uchar* bytes, global char* out8, global short* out16, global ushort* out_u16) {
    size_t i = get_global_id(0);
    uchar a = bytes[i], b = bytes[i + 1], c = bytes[2 * i + 3];
    out8[i] = (char)(a - b);
    out16[i] = (short)(as_char(a) * as_char(c) + *(global const short*)(bytes + 2 * i));
    out_u16[i] = (ushort)(a << 8 | b) + *(global const ushort*)(bytes + (i & ~1ul));
}

// A private array that registers cannot hold: indices only known at run time.
kernel void private_array(global const uint* as, global uint* out) {
    size_t i = get_global_id(0);
    uint seen[32];
    uchar count[16];
    for (int j = 0; j < 32; ++j) seen[j] = j * 7 + (uint)i;
    for (int j = 0; j < 16; ++j) count[j] = 0;
    for (int j = 0; j < 64; ++j) {
        uint at = as[(i + j) % 1024];
        seen[at % 32] = seen[at % 32] * 5 + seen[(at >> 5) % 32] + at;
        count[at % 16]++;
    }
    uint sum = 0;
    for (int j = 0; j < 32; ++j) sum = sum * 31 + seen[j];
    for (int j = 0; j < 16; ++j) sum = sum * 3 + count[j];
    out[i] = sum;
}

// Local memory of both kinds: the sum of a workgroup, and its elements in the other order.
kernel void local_memory(global const int* in, global int* sums, global int* turned, local int* given) {
    local int own[256];
    size_t i = get_global_id(0), l = get_local_id(0), size = get_local_size(0);
    own[l] = given[size - 1 - l] = in[i];
    barrier(CLK_LOCAL_MEM_FENCE);
    turned[i] = given[l] + (int)l;
    for (size_t width = size / 2; width > 0; width /= 2) {
        if (l < width) own[l] += own[l + width];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (l == 0) sums[get_group_id(0)] = own[0];
}

// A tile turned over in local memory, in two dimensions, with types of other widths.
kernel void transpose(global const ushort* in, global ushort* out, uint width) {
    local ushort tile[16][17];
    size_t x = get_local_id(0), y = get_local_id(1);
    size_t column = get_group_id(0) * 16, row = get_group_id(1) * 16;
    tile[y][x] = in[(row + y) * width + column + x];
    barrier(CLK_LOCAL_MEM_FENCE);
    out[(column + y) * width + row + x] = tile[x][y];
}

kernel void group_copies(global const float* in, global float* out, local float* part, local double* wide,
                         global const double* wides, global double* wides_out) {
    size_t size = get_local_size(0), base = get_group_id(0) * size, l = get_local_id(0);
    event_t event = async_work_group_copy(part, in + base, size, 0);
    event = async_work_group_strided_copy(wide, wides + base * 2, size, 2, event);
    wait_group_events(1, &event);
    float neighbour = part[(l + 1) % size];
    double turned = wide[size - 1 - l];
    barrier(CLK_LOCAL_MEM_FENCE);
    part[l] += 2.0f * neighbour;
    wide[l] = turned;
    barrier(CLK_LOCAL_MEM_FENCE);
    event = async_work_group_copy(out + base, part, size, 0);
    event = async_work_group_copy(wides_out + base, wide, size, event);
    wait_group_events(1, &event);
}

#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
#pragma OPENCL EXTENSION cl_khr_int64_extended_atomics : enable

// Atomics on global memory: what they leave, and the sum of what they gave back where that is the same in any order.
kernel void global_atomics(global const int* in, global int* cells, global uint* unsigneds, global long* wide) {
    size_t i = get_global_id(0);
    int value = in[i];
    atomic_add(&cells[0], value);
    atomic_sub(&cells[1], value);
    atomic_add(&cells[2], atomic_inc(&cells[3]));
    atomic_add(&cells[4], atomic_dec(&cells[5]));
    atomic_min(&cells[6], value);
    atomic_max(&cells[7], value);
    atomic_and(&cells[8], value | 0x00f0f0ff);
    atomic_or(&cells[9], value & 0x0f0f0f00);
    atomic_xor(&cells[10], value);
    atomic_add(&cells[11 + (value & 15)], 1);
    // A maximum by compare and exchange.
    int old = cells[30], seen;
    while (value > old && (seen = atomic_cmpxchg(&cells[30], old, value)) != old) old = seen;
    if (i == 77) atomic_xchg(&cells[31], value);
    atomic_min(&unsigneds[0], (uint)value);
    atomic_max(&unsigneds[1], (uint)value);
    atom_add(&wide[0], (long)value * 0x123456789l);
    atom_sub(&wide[1], (long)value << 20);
    atom_min(&wide[2], (long)value << 13);
    atom_max(&wide[3], (long)value * 0x100000001l);
    atom_and(&wide[4], (long)value | 0x00ff00ff00ff00ffl);
    atom_or(&wide[5], (long)value << 17);
    atom_xor(&wide[6], (long)value * 0x100000001l);
    atom_add(&wide[7], atom_inc(&wide[8]));
    long before = wide[9], found;
    while (value > before && (found = atom_cmpxchg(&wide[9], before, (long)value)) != before) before = found;
}

// The same in local memory.
kernel void local_atomics(global const int* in, global int* out, global long* wide_out) {
    local int cells[32];
    local long wide[4];
    size_t i = get_global_id(0), l = get_local_id(0);
    int value = in[i];
    if (l < 32) cells[l] = (int)l * 1000;
    if (l < 4) wide[l] = (long)l << 35;
    barrier(CLK_LOCAL_MEM_FENCE);
    atomic_add(&cells[0], value);
    atomic_sub(&cells[1], value);
    atomic_add(&cells[2], atomic_inc(&cells[3]));
    atomic_add(&cells[4], atomic_dec(&cells[5]));
    atomic_min(&cells[6], value);
    atomic_max(&cells[7], value);
    atomic_and(&cells[8], value | 0x00f0f0ff);
    atomic_or(&cells[9], value & 0x0f0f0f00);
    atomic_xor(&cells[10], value);
    atomic_add(&cells[11 + (value & 15)], 1);
    int old = cells[30], seen;
    while (value > old && (seen = atomic_cmpxchg(&cells[30], old, value)) != old) old = seen;
    atom_add(&wide[0], (long)value * 0x123456789l);
    atom_max(&wide[1], (long)value << 13);
    atom_xor(&wide[2], (long)value * 0x100000001l);
    atom_add(&wide[3], (long)l);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (l < 32) out[get_group_id(0) * 32 + l] = cells[l];
    if (l < 4) wide_out[get_group_id(0) * 4 + l] = wide[l];
}

// Who a work-item is, in three dimensions.
kernel void identity(global uint* out) {
    size_t x = get_global_id(0), y = get_global_id(1), z = get_global_id(2);
    size_t at = 16 * ((z * get_global_size(1) + y) * get_global_size(0) + x);
    for (uint d = 0; d < 3; ++d) {
        out[at + d] = (uint)(get_group_id(d) * 1000 + get_local_id(d));
        out[at + 4 + d] = (uint)(get_num_groups(d) * 1000 + get_local_size(d));
        out[at + 8 + d] = (uint)(get_global_size(d) * 1000 + get_global_offset(d));
    }
    out[at + 12] = get_work_dim();
    out[at + 13] = (uint)get_global_linear_id();
    out[at + 14] = (uint)get_local_linear_id();
    out[at + 15] = (uint)(x + y + z);
}

// Control flow that lanes disagree on: loops in loops, switches, early ends, calls.
__attribute__((noinline)) uint collatz(uint value) {
    uint steps = 0;
    while (value > 1 && steps < 300) {
        value = value & 1 ? value * 3 + 1 : value / 2;
        ++steps;
    }
    return steps;
}

__attribute__((noinline)) long mixed_call(long a, int b, uchar c, double d, uint4 v) {
    return a * 3 + b - c + (long)d + v.x + v.w * 5l;
}

kernel void divergence(global const uint* as, global ulong* out) {
    size_t i = get_global_id(0);
    uint a = as[i];
    ulong result = 0;
    for (uint j = 0; j < a % 13; ++j) {
        if (j == a % 7) continue;
        for (uint k = j; k < 9; ++k) {
            if ((a >> k) & 1) break;
            result = result * 3 + k;
        }
        switch ((a >> j) % 11) {
            case 0: result += collatz(a % 5000 + j); break;
            case 1: result ^= 0x1234; // falls through
            case 2: result *= 5; break;
            case 5: result = rotate(result, (ulong)j); break;
            case 7: result += mixed_call((long)result, (int)a, (uchar)a, (double)j, (uint4)(a, j, 1, 2)); break;
            case 9: out[i] = result; return;
            default: result -= j;
        }
    }
    out[i] = result + collatz(a % 1000);
}
