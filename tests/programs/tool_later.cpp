// Another tool, below: it puts a longer table of extensions in the place of the runtime's, as later runtimes have it, and gives
// programs its functions. Queues and copies come from the runtime's own functions, past the tools that came after it.
#include <hsa/amd_hsa_queue.h>
#include <hsa/hsa_api_trace.h>

#include <cstring>

#include "copy_operation.h"

namespace {

CoreApiTable core;
decltype(AmdExtTable::hsa_amd_memory_async_copy_fn) copy_one;

// The runtime's entries, and those up to step 0x10.
constexpr size_t SIZE = 696, ACQUIRE = 624, RELEASE = 632, BATCH_COPY = 640;
alignas(8) char table[SIZE < sizeof(AmdExtTable) ? sizeof(AmdExtTable) : SIZE];
auto* const later = reinterpret_cast<AmdExtTable*>(table);

hsa_status_t acquire(hsa_agent_t agent, hsa_queue_type32_t type, int, void (*)(hsa_status_t, hsa_queue_t*, void*), void*, uint64_t, hsa_queue_t** queue) {
    return core.hsa_queue_create_fn(agent, 64, type, nullptr, nullptr, UINT32_MAX, UINT32_MAX, queue);
}

hsa_status_t release(hsa_queue_t* queue) { return core.hsa_queue_destroy_fn(queue); }

hsa_status_t batch_copy(const copy_operation* operations, uint32_t count, uint32_t dependencies, const hsa_signal_t* dependency) {
    for (const copy_operation* o = operations; o < operations + count; o++) {
        hsa_status_t status = copy_one(o->to, o->to_agent, o->from, o->from_agent, o->size, dependencies, dependency, o->completion);
        if (status != HSA_STATUS_SUCCESS) return status;
    }
    return HSA_STATUS_SUCCESS;
}

template <class F>
F at(size_t offset) {
    F function;
    std::memcpy(&function, table + offset, sizeof function);
    return function;
}

template <class F>
void set(size_t offset, F function) {
    std::memcpy(table + offset, &function, sizeof function);
}

}  // namespace

#define VISIBLE extern "C" __attribute__((visibility("default")))

VISIBLE hsa_status_t later_create(hsa_agent_t agent, uint32_t size, bool used, hsa_queue_t** queue) {
    hsa_status_t status = core.hsa_queue_create_fn(agent, size, HSA_QUEUE_TYPE_MULTI, nullptr, nullptr, UINT32_MAX, UINT32_MAX, queue);
    if (status != HSA_STATUS_SUCCESS || !used) return status;
    const uint64_t index = core.hsa_queue_add_write_index_relaxed_fn(*queue, 1);
    auto* packet = static_cast<hsa_barrier_and_packet_t*>((*queue)->base_address) + index;
    std::memset(packet, 0, sizeof *packet);
    __atomic_store_n(&packet->header, HSA_PACKET_TYPE_BARRIER_AND << HSA_PACKET_HEADER_TYPE, __ATOMIC_RELEASE);
    core.hsa_signal_store_screlease_fn((*queue)->doorbell_signal, index);
    return status;
}

// As the exported functions of a later runtime: by the entries of the table, whatever is there now.
VISIBLE hsa_status_t later_acquire(hsa_agent_t agent, hsa_queue_type32_t type, int priority, void (*callback)(hsa_status_t, hsa_queue_t*, void*), void* data, uint64_t flags, hsa_queue_t** queue) {
    return at<decltype(&acquire)>(ACQUIRE)(agent, type, priority, callback, data, flags, queue);
}

VISIBLE hsa_status_t later_release(hsa_queue_t* queue) { return at<decltype(&release)>(RELEASE)(queue); }

VISIBLE hsa_status_t later_batch_copy(const copy_operation* operations, uint32_t count, uint32_t dependencies, const hsa_signal_t* dependency) {
    return at<decltype(&batch_copy)>(BATCH_COPY)(operations, count, dependencies, dependency);
}

VISIBLE hsa_status_t later_pool_allocate(hsa_amd_memory_pool_t pool, size_t size, uint32_t flags, void** memory) {
    return later->hsa_amd_memory_pool_allocate_fn(pool, size, flags, memory);
}

VISIBLE bool OnLoad(HsaApiTable* root, uint64_t, uint64_t, const char* const*) {
    core = *root->core_;
    copy_one = root->amd_ext_->hsa_amd_memory_async_copy_fn;
    // Where a layout is older, its entries are elsewhere.
    if (root->amd_ext_->version.minor_id < 456) return true;
    std::memcpy(table, root->amd_ext_, root->amd_ext_->version.minor_id);
    later->version.minor_id = SIZE;
    set(ACQUIRE, &acquire);
    set(RELEASE, &release);
    set(BATCH_COPY, &batch_copy);
    root->amd_ext_ = later;
    return true;
}

VISIBLE void OnUnload() {}
