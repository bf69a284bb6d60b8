// Kernels with every kind of argument that a compiler has without a library, and with attributes.

constant int table[4] = {1, 2, 3, 4};

typedef struct {
    float4 vector;
    int number;
} Pair;

kernel void pointers(global const float* restrict in, global volatile float* out, int n, local float* scratch,
                     constant float* factors, Pair pair, uchar byte) {
    int i = __builtin_amdgcn_workitem_id_x() + __builtin_amdgcn_workgroup_id_x() * __builtin_amdgcn_workgroup_size_x();
    scratch[i & 3] = in[i];
    __builtin_amdgcn_s_barrier();
    if (i < n) out[i] = scratch[(i + 1) & 3] + table[i & 3] + factors[i] + pair.vector.x + byte;
}

kernel void images(read_only image2d_t in, write_only image3d_t out, sampler_t sampler, global int* result) {
    result[0] = 1;
}

__attribute__((reqd_work_group_size(64, 2, 1))) __attribute__((vec_type_hint(float4)))
kernel void required(global int* out) {
    out[__builtin_amdgcn_workitem_id_x()] = __builtin_amdgcn_workgroup_size_y();
}

__attribute__((work_group_size_hint(32, 2, 1))) kernel void hinted(global int* n) {
    n[0] = 3;
}

kernel void recursive(global int* y, int depth) {
    local int shared[64];
    shared[depth & 63] = y[0];
    volatile int stack[16];
    stack[depth & 15] = shared[y[1] & 63];
    y[0] = stack[y[1] & 15];
}

kernel void nothing(void) {}
