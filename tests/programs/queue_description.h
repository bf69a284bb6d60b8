// What hsa_amd_queue_create takes, of a queue that is to be made.
#pragma once
#include <hsa/hsa.h>
#include <stdint.h>

enum { COMPUTE = 0, SDMA = 1, AIE = 2 };

typedef struct queue_description {
    uint16_t version, flags;
    uint8_t engine, reserved[3];
    uint32_t size, priority;
    void (*callback)(hsa_status_t, hsa_queue_t*, void*);
    void* data;
    hsa_queue_t* queue;
    // Of a compute queue.
    const uint32_t* cu_mask;
    hsa_queue_type32_t kind;
    uint32_t private_segment_size, cu_mask_count, compute_reserved[3];
    uint32_t traffic_class;
    uint8_t more_reserved[20];
} queue_description;
