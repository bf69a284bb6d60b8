// Launches kernels of any code object through the HSA interface, as a description says: launches.h.
#include "hsa_check.h"
#include "launches.h"

// What a kernel's symbol says of it.
struct kernel_info {
    uint64_t object;
    uint32_t kernarg, lds, scratch;
};

static struct kernel_info info_of(const char* name) {
    struct kernel_info info;
    char symbol_name[600];
    snprintf(symbol_name, sizeof symbol_name, "%s.kd", name);
    hsa_executable_symbol_t symbol;
    CHECK(hsa_executable_get_symbol_by_name(executable, symbol_name, &gpu, &symbol));
    CHECK(hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_OBJECT, &info.object));
    CHECK(hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_KERNARG_SEGMENT_SIZE, &info.kernarg));
    CHECK(hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_GROUP_SEGMENT_SIZE, &info.lds));
    CHECK(hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_PRIVATE_SEGMENT_SIZE, &info.scratch));
    return info;
}

static char running[512];

static void failed(hsa_status_t status, hsa_queue_t* queue, void* data) {
    (void)queue, (void)data;
    const char* text = "";
    hsa_status_string(status, &text);
    EXPECT(false, "%s: %s (%#x)", running, text, status);
}

static void run(hsa_queue_t* queue, const struct launch* launch) {
    struct kernel_info info = info_of(launch->kernel);
    EXPECT(launch->kernarg.size >= info.kernarg, "%s takes %u bytes of arguments, found %zu", launch->kernel, info.kernarg,
           launch->kernarg.size);
    snprintf(running, sizeof running, "%s", launch->kernel);

    void* memory[MOST];
    for (int i = 0; i < launch->buffers; ++i) {
        memory[i] = allocate(vram, launch->buffer[i].size);
        CHECK(hsa_memory_copy(memory[i], launch->buffer[i].data, launch->buffer[i].size));
    }
    // The segment is never empty for the allocator's sake.
    char* kernarg = allocate(kernarg_pool, launch->kernarg.size + 64);
    memcpy(kernarg, launch->kernarg.data, launch->kernarg.size);
    for (int i = 0; i < launch->relocations; ++i) {
        size_t offset = launch->relocation[i].offset, buffer = launch->relocation[i].buffer;
        EXPECT(offset + 8 <= launch->kernarg.size && buffer < (size_t)launch->buffers, "%s: relocation %d", launch->kernel, i);
        uint64_t address = (uint64_t)memory[buffer] + launch->relocation[i].add;
        memcpy(kernarg + offset, &address, 8);
    }
    if (launch->queue_offset >= 0) {
        EXPECT((size_t)launch->queue_offset + 8 <= launch->kernarg.size, "%s: the queue's address", launch->kernel);
        memcpy(kernarg + launch->queue_offset, &queue, 8);
    }

    hsa_signal_t done = signal_of(1);
    hsa_kernel_dispatch_packet_t packet = {0};
    packet.setup = (uint16_t)(launch->dimensions << HSA_KERNEL_DISPATCH_PACKET_SETUP_DIMENSIONS);
    packet.workgroup_size_x = (uint16_t)launch->workgroup[0];
    packet.workgroup_size_y = (uint16_t)launch->workgroup[1];
    packet.workgroup_size_z = (uint16_t)launch->workgroup[2];
    packet.grid_size_x = launch->grid[0];
    packet.grid_size_y = launch->grid[1];
    packet.grid_size_z = launch->grid[2];
    packet.private_segment_size = info.scratch;
    packet.group_segment_size = info.lds + launch->lds;
    packet.kernel_object = info.object;
    packet.kernarg_address = kernarg;
    packet.completion_signal = done;
    submit(queue, &packet, header_of(HSA_PACKET_TYPE_KERNEL_DISPATCH, true));
    wait_for_signal(done);

    for (int i = 0; i < launch->buffers; ++i) {
        CHECK(hsa_memory_copy(launch->buffer[i].data, memory[i], launch->buffer[i].size));
        write_bytes(&launch->buffer[i]);
        CHECK(hsa_amd_memory_pool_free(memory[i]));
    }
    CHECK(hsa_amd_memory_pool_free(kernarg));
    CHECK(hsa_signal_destroy(done));
    printf("launched %s\n", launch->kernel);
}

int main(int argc, char** argv) {
    EXPECT(argc == 2, "usage: launch_kernel DESCRIPTION, with TEST_KERNELS naming the code object");
    FILE* description = fopen(argv[1], "r");
    EXPECT(description, "%s cannot be read", argv[1]);
    start();
    load();
    hsa_queue_t* queue = queue_of(64, failed, NULL);
    static struct launch launch;
    while (next_launch(description, &launch)) run(queue, &launch);
    CHECK(hsa_shut_down());
    printf("PASS\n");
    return 0;
}
