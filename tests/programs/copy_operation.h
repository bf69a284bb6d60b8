// `hsa_amd_memory_copy_op_t` of later runtimes, for copies of one range. Source: ROCr's hsa_ext_amd.h.
#pragma once

#include <hsa/hsa.h>
#include <stddef.h>
#include <stdint.h>

struct copy_operation {
    uint16_t version, type, entries, traffic_class;
    hsa_signal_t completion;
    void* from;
    hsa_agent_t from_agent, to_agent;
    void* to;
    size_t size, second_size;
    uint64_t wait_and_signal[8];
};

#ifdef __cplusplus
static_assert(sizeof(copy_operation) == 128, "as the runtime has it");
#else
_Static_assert(sizeof(struct copy_operation) == 128, "as the runtime has it");
#endif
