// Another tool, of the kind that uses the runtime's intercept queues: counts dispatches, and writes their number into the
// file that TOOL_COUNT names.
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <hsa/hsa_api_trace.h>

static CoreApiTable core;
static AmdExtTable amd;
static std::atomic<unsigned long> dispatches;

static void see(const void* packets, uint64_t count, uint64_t, void*, hsa_amd_queue_intercept_packet_writer writer) {
    const auto* all = static_cast<const hsa_kernel_dispatch_packet_t*>(packets);
    for (uint64_t i = 0; i < count; ++i) {
        dispatches += (all[i].header & 0xff) == HSA_PACKET_TYPE_KERNEL_DISPATCH;
    }
    writer(packets, count);
}

static hsa_status_t create(hsa_agent_t agent, uint32_t size, hsa_queue_type32_t type,
                           void (*callback)(hsa_status_t, hsa_queue_t*, void*), void* data, uint32_t scratch, uint32_t lds,
                           hsa_queue_t** queue) {
    hsa_status_t status =
        amd.hsa_amd_queue_intercept_create_fn(agent, size, type, callback, data, scratch, lds, queue);
    if (status != HSA_STATUS_SUCCESS) return status;
    return amd.hsa_amd_queue_intercept_register_fn(*queue, see, nullptr);
}

extern "C" __attribute__((visibility("default"))) bool OnLoad(HsaApiTable* table, uint64_t, uint64_t, const char* const*) {
    // The tables of the runtime are those of the headers that this is compiled with.
    std::memcpy(&core, table->core_, sizeof core);
    std::memcpy(&amd, table->amd_ext_, sizeof amd);
    table->core_->hsa_queue_create_fn = create;
    return true;
}

extern "C" __attribute__((visibility("default"))) void OnUnload() {}

__attribute__((destructor)) static void end() {
    const char* path = std::getenv("TOOL_COUNT");
    std::FILE* file = path ? std::fopen(path, "w") : nullptr;
    if (!file) return;
    std::fprintf(file, "%lu\n", dispatches.load());
    std::fclose(file);
}
