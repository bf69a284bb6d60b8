// What the programs that use the HSA interface directly share. Everything is checked; nothing is freed at the end, since
// the runtime's shutdown or the process's end does that, and both are of interest.
#pragma once
#include <fcntl.h>
#include <hsa/amd_hsa_queue.h>
#include <hsa/amd_hsa_signal.h>
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Not every program uses every one of these.
#pragma GCC diagnostic ignored "-Wunused-function"

#define CHECK(call)                                                               \
    do {                                                                          \
        hsa_status_t status_ = (call);                                            \
        if (status_ != HSA_STATUS_SUCCESS && status_ != HSA_STATUS_INFO_BREAK) {  \
            const char* text_ = "";                                               \
            hsa_status_string(status_, &text_);                                   \
            printf("FAIL %s: %s (%#x)\n", #call, text_, status_);                 \
            exit(1);                                                              \
        }                                                                         \
    } while (0)

#define EXPECT(condition, ...)   \
    do {                         \
        if (!(condition)) {      \
            printf("FAIL ");     \
            printf(__VA_ARGS__); \
            printf("\n");        \
            exit(1);             \
        }                        \
    } while (0)

static hsa_agent_t gpu, cpu;
static hsa_amd_memory_pool_t vram, host, kernarg_pool;
static hsa_executable_t executable;

static hsa_status_t find_agent(hsa_agent_t agent, void* data) {
    (void)data;
    hsa_device_type_t type;
    CHECK(hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type));
    if (type == HSA_DEVICE_TYPE_GPU && !gpu.handle) gpu = agent;
    if (type == HSA_DEVICE_TYPE_CPU && !cpu.handle) cpu = agent;
    return HSA_STATUS_SUCCESS;
}

static hsa_status_t find_pool(hsa_amd_memory_pool_t pool, void* data) {
    hsa_amd_segment_t segment;
    uint32_t flags = 0;
    CHECK(hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_SEGMENT, &segment));
    if (segment != HSA_AMD_SEGMENT_GLOBAL) return HSA_STATUS_SUCCESS;
    CHECK(hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS, &flags));
    if (data && (flags & HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED) && !vram.handle) vram = pool;
    if (!data && (flags & HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED) && !host.handle) host = pool;
    if (!data && (flags & HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_KERNARG_INIT)) kernarg_pool = pool;
    return HSA_STATUS_SUCCESS;
}

// Starts the runtime and finds the first GPU and its memory.
static void start(void) {
    CHECK(hsa_init());
    gpu.handle = cpu.handle = vram.handle = host.handle = kernarg_pool.handle = 0;
    CHECK(hsa_iterate_agents(find_agent, NULL));
    EXPECT(gpu.handle && cpu.handle, "no GPU or no CPU agent");
    CHECK(hsa_amd_agent_iterate_memory_pools(gpu, find_pool, &gpu));
    CHECK(hsa_amd_agent_iterate_memory_pools(cpu, find_pool, NULL));
}

// Memory that the GPU can reach, and the host when it comes from a pool of the host.
static void* allocate(hsa_amd_memory_pool_t pool, size_t size) {
    void* memory = NULL;
    CHECK(hsa_amd_memory_pool_allocate(pool, size, 0, &memory));
    if (pool.handle != vram.handle) {
        CHECK(hsa_amd_agents_allow_access(1, &gpu, NULL, memory));
        memset(memory, 0, size);
    }
    return memory;
}

// The arguments of a kernel that takes one address.
static void* kernarg_of(void* address) {
    void** kernarg = allocate(kernarg_pool, sizeof address);
    *kernarg = address;
    return kernarg;
}

// Loads the code object that the environment names.
static void load(void) {
    const char* path = getenv("TEST_KERNELS");
    EXPECT(path, "TEST_KERNELS names no code object");
    int file = open(path, O_RDONLY);
    EXPECT(file >= 0, "%s cannot be read", path);
    hsa_code_object_reader_t reader;
    CHECK(hsa_code_object_reader_create_from_file(file, &reader));
    CHECK(hsa_executable_create_alt(HSA_PROFILE_FULL, HSA_DEFAULT_FLOAT_ROUNDING_MODE_DEFAULT, NULL, &executable));
    CHECK(hsa_executable_load_agent_code_object(executable, gpu, reader, NULL, NULL));
    CHECK(hsa_executable_freeze(executable, NULL));
    CHECK(hsa_code_object_reader_destroy(reader));
    close(file);
}

// The kernel object of a name.
static uint64_t kernel(const char* name) {
    char symbol_name[128];
    snprintf(symbol_name, sizeof symbol_name, "%s.kd", name);
    hsa_executable_symbol_t symbol;
    uint64_t object;
    CHECK(hsa_executable_get_symbol_by_name(executable, symbol_name, &gpu, &symbol));
    CHECK(hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_OBJECT, &object));
    return object;
}

static hsa_signal_t signal_of(hsa_signal_value_t value) {
    hsa_signal_t signal;
    CHECK(hsa_signal_create(value, 0, NULL, &signal));
    return signal;
}

static const hsa_signal_t NO_SIGNAL = {0};

// The header of a packet: fences of the widest scope.
static uint16_t header_of(hsa_packet_type_t type, bool barrier) {
    return (uint16_t)(type << HSA_PACKET_HEADER_TYPE | barrier << HSA_PACKET_HEADER_BARRIER |
                      HSA_FENCE_SCOPE_SYSTEM << HSA_PACKET_HEADER_SCACQUIRE_FENCE_SCOPE |
                      HSA_FENCE_SCOPE_SYSTEM << HSA_PACKET_HEADER_SCRELEASE_FENCE_SCOPE);
}

// A dispatch of workgroups of 64 work-items.
static hsa_kernel_dispatch_packet_t packet_of(uint64_t object, uint32_t workgroups, void* kernarg, hsa_signal_t done) {
    hsa_kernel_dispatch_packet_t packet = {0};
    packet.setup = 1 << HSA_KERNEL_DISPATCH_PACKET_SETUP_DIMENSIONS;
    packet.workgroup_size_x = 64;
    packet.workgroup_size_y = packet.workgroup_size_z = 1;
    packet.grid_size_x = workgroups * 64;
    packet.grid_size_y = packet.grid_size_z = 1;
    packet.kernel_object = object;
    packet.kernarg_address = kernarg;
    packet.completion_signal = done;
    return packet;
}

// Reserves a slot, waiting for room.
static uint64_t reserve(hsa_queue_t* queue) {
    uint64_t index = hsa_queue_add_write_index_screlease(queue, 1);
    while (index - hsa_queue_load_read_index_scacquire(queue) >= queue->size) usleep(10);
    return index;
}

// Fills a slot: the body first, then the header.
static void fill(hsa_queue_t* queue, uint64_t index, const void* packet, uint16_t header) {
    uint32_t* slot = (uint32_t*)((char*)queue->base_address + 64 * (index & (queue->size - 1)));
    memcpy(slot + 1, (const uint32_t*)packet + 1, 60);
    uint32_t setup = ((const uint32_t*)packet)[0] >> 16;
    __atomic_store_n(slot, header | setup << 16, __ATOMIC_RELEASE);
}

// Gives a packet to the GPU; its index.
static uint64_t submit(hsa_queue_t* queue, const void* packet, uint16_t header) {
    uint64_t index = reserve(queue);
    fill(queue, index, packet, header);
    hsa_signal_store_screlease(queue->doorbell_signal, (hsa_signal_value_t)index);
    return index;
}

static uint64_t dispatch(hsa_queue_t* queue, uint64_t object, uint32_t workgroups, void* kernarg, hsa_signal_t done) {
    hsa_kernel_dispatch_packet_t packet = packet_of(object, workgroups, kernarg, done);
    return submit(queue, &packet, header_of(HSA_PACKET_TYPE_KERNEL_DISPATCH, true));
}

static uint64_t barrier(hsa_queue_t* queue, hsa_packet_type_t type, const hsa_signal_t* on, int count, hsa_signal_t done) {
    hsa_barrier_and_packet_t packet = {0};
    for (int i = 0; i < count; ++i) packet.dep_signal[i] = on[i];
    packet.completion_signal = done;
    return submit(queue, &packet, header_of(type, true));
}

// Waits for ever until a signal is below 1.
static void wait_for_signal(hsa_signal_t signal) {
    while (hsa_signal_wait_scacquire(signal, HSA_SIGNAL_CONDITION_LT, 1, UINT64_MAX, HSA_WAIT_STATE_BLOCKED) >= 1) {
    }
}

// Waits until everything before is complete.
static void drain(hsa_queue_t* queue) {
    hsa_signal_t done = signal_of(1);
    barrier(queue, HSA_PACKET_TYPE_BARRIER_AND, NULL, 0, done);
    wait_for_signal(done);
    CHECK(hsa_signal_destroy(done));
}

static hsa_queue_t* queue_of(uint32_t size, void (*callback)(hsa_status_t, hsa_queue_t*, void*), void* data) {
    hsa_queue_t* queue;
    CHECK(hsa_queue_create(gpu, size, HSA_QUEUE_TYPE_MULTI, callback, data, UINT32_MAX, UINT32_MAX, &queue));
    return queue;
}

// Start and end as the GPU wrote them into a signal.
static void ticks_of(hsa_signal_t signal, uint64_t* start, uint64_t* end) {
    const volatile amd_signal_t* memory = (const volatile amd_signal_t*)signal.handle;
    *start = memory->start_ts;
    *end = memory->end_ts;
}
