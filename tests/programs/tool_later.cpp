// Another tool, below: it puts a longer table of extensions in the place of the runtime's, as later runtimes have it, and gives
// programs its functions. Queues and copies come from the runtime's own functions, past the tools that came after it.
#include <hsa/amd_hsa_queue.h>
#include <hsa/amd_hsa_signal.h>
#include <hsa/hsa_api_trace.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "copy_operation.h"
#include "queue_description.h"

namespace {

CoreApiTable core;
decltype(AmdExtTable::hsa_amd_memory_async_copy_fn) copy_one;

AmdExtTable amd;

// The runtime's entries, and those up to step 0x12.
constexpr size_t SIZE = 744, ACQUIRE = 624, RELEASE = 632, BATCH_COPY = 640, EVENT_ID = 664, QUEUE_CREATE = 704;
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

// A queue of a copy engine, whose packets the application writes: here one that takes no kernels.
hsa_status_t make_copy_queue(hsa_agent_t agent, queue_description* d) {
    hsa_status_t status = core.hsa_queue_create_fn(agent, d->size / 64, HSA_QUEUE_TYPE_SINGLE, d->callback, d->data, 0, 0, &d->queue);
    if (status == HSA_STATUS_SUCCESS) d->queue->features = 0;
    return status;
}

hsa_status_t make_queue(hsa_agent_t agent, queue_description* d) {
    if (d->version != 1 || d->size % 64 || d->traffic_class) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    if (d->engine == SDMA) return make_copy_queue(agent, d);
    if (d->engine != COMPUTE) return HSA_STATUS_ERROR_INVALID_QUEUE_CREATION;
    hsa_status_t status = core.hsa_queue_create_fn(agent, d->size / 64, d->kind, d->callback, d->data, d->private_segment_size, UINT32_MAX, &d->queue);
    if (status == HSA_STATUS_SUCCESS) status = amd.hsa_amd_queue_set_priority_fn(d->queue, static_cast<hsa_amd_queue_priority_t>(d->priority));
    // The runtime may reduce the mask, which is no error.
    if (status == HSA_STATUS_SUCCESS && d->cu_mask_count) amd.hsa_amd_queue_cu_set_mask_fn(d->queue, d->cu_mask_count, d->cu_mask);
    return status;
}

hsa_status_t queue_create(hsa_agent_t agent, queue_description* descriptions, uint32_t count) {
    if (!descriptions || !count) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    hsa_status_t first = HSA_STATUS_SUCCESS;
    for (queue_description* d = descriptions; d < descriptions + count; d++) {
        d->queue = nullptr;
        const hsa_status_t status = make_queue(agent, d);
        if (first == HSA_STATUS_SUCCESS) first = status;
    }
    return first;
}

hsa_status_t event_id(hsa_signal_t signal, uint32_t* event) {
    *event = reinterpret_cast<const amd_signal_t*>(signal.handle)->event_id;
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

VISIBLE hsa_status_t hsa_amd_queue_create(hsa_agent_t agent, queue_description* descriptions, uint32_t count) {
    return at<decltype(&queue_create)>(QUEUE_CREATE)(agent, descriptions, count);
}

VISIBLE hsa_status_t hsa_amd_signal_get_event_id(hsa_signal_t signal, uint32_t* event) {
    return at<decltype(&event_id)>(EVENT_ID)(signal, event);
}

VISIBLE hsa_status_t later_pool_allocate(hsa_amd_memory_pool_t pool, size_t size, uint32_t flags, void** memory) {
    return later->hsa_amd_memory_pool_allocate_fn(pool, size, flags, memory);
}

VISIBLE bool OnLoad(HsaApiTable* root, uint64_t, uint64_t, const char* const*) {
    core = *root->core_;
    copy_one = root->amd_ext_->hsa_amd_memory_async_copy_fn;
    std::memcpy(&amd, root->amd_ext_, std::min<size_t>(sizeof amd, root->amd_ext_->version.minor_id));
    // Where a layout is older, its entries are elsewhere.
    if (root->amd_ext_->version.minor_id < 456) return true;
    std::memcpy(table, root->amd_ext_, root->amd_ext_->version.minor_id);
    later->version.minor_id = SIZE;
    const char* step = std::getenv("TEST_STEP");
    later->version.step_id = step ? std::strtoul(step, nullptr, 0) : 0x12;
    set(ACQUIRE, &acquire);
    set(RELEASE, &release);
    set(BATCH_COPY, &batch_copy);
    set(EVENT_ID, &event_id);
    set(QUEUE_CREATE, &queue_create);
    root->amd_ext_ = later;
    return true;
}

VISIBLE void OnUnload() {}
