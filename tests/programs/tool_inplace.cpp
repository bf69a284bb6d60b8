// Another tool, of the kind that keeps a write index of its own: producers reserve by that, and packets are given to the
// GPU when a doorbell rings. Counts dispatches, and writes their number into the file that TOOL_COUNT names.
//
// No more than a neighbour: one lock, and no cure for packets that are written after their doorbell has been rung.
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include <hsa/hsa_api_trace.h>

namespace {

struct Watched {
    hsa_queue_t* queue;
    std::atomic<uint64_t> written;
    uint64_t published;
};

CoreApiTable core;
// Never destroyed: HIP 7 destroys its queues after the destructors of this library.
auto& guard = *new std::mutex;
auto& by_queue = *new std::map<const hsa_queue_t*, Watched*>;
auto& by_doorbell = *new std::map<uint64_t, Watched*>;
std::atomic<unsigned long> dispatches;

Watched* find(const hsa_queue_t* queue) {
    std::lock_guard<std::mutex> lock(guard);
    auto found = by_queue.find(queue);
    return found == by_queue.end() ? nullptr : found->second;
}

hsa_status_t create(hsa_agent_t agent, uint32_t size, hsa_queue_type32_t type,
                    void (*callback)(hsa_status_t, hsa_queue_t*, void*), void* data, uint32_t scratch, uint32_t lds,
                    hsa_queue_t** queue) {
    hsa_status_t status = core.hsa_queue_create_fn(agent, size, type, callback, data, scratch, lds, queue);
    if (status != HSA_STATUS_SUCCESS) return status;
    std::lock_guard<std::mutex> lock(guard);
    const uint64_t at = core.hsa_queue_load_write_index_relaxed_fn(*queue);
    auto* watched = new Watched{*queue, {at}, at};
    by_queue[*queue] = by_doorbell[(*queue)->doorbell_signal.handle] = watched;
    return status;
}

hsa_status_t destroy(hsa_queue_t* queue) {
    {
        std::lock_guard<std::mutex> lock(guard);
        auto found = by_queue.find(queue);
        if (found != by_queue.end()) {
            by_doorbell.erase(queue->doorbell_signal.handle);
            by_queue.erase(found);
        }
    }
    return core.hsa_queue_destroy_fn(queue);
}

template <int N>
uint64_t load(const hsa_queue_t* queue) {
    Watched* watched = find(queue);
    if (watched) return watched->written;
    return N ? core.hsa_queue_load_write_index_scacquire_fn(queue) : core.hsa_queue_load_write_index_relaxed_fn(queue);
}

template <int N>
void store(const hsa_queue_t* queue, uint64_t value) {
    Watched* watched = find(queue);
    if (watched) watched->written = value;
    else if (N) core.hsa_queue_store_write_index_screlease_fn(queue, value);
    else core.hsa_queue_store_write_index_relaxed_fn(queue, value);
}

uint64_t add(const hsa_queue_t* queue, uint64_t value) {
    Watched* watched = find(queue);
    return watched ? watched->written.fetch_add(value) : core.hsa_queue_add_write_index_scacq_screl_fn(queue, value);
}

uint64_t cas(const hsa_queue_t* queue, uint64_t expected, uint64_t value) {
    Watched* watched = find(queue);
    if (!watched) return core.hsa_queue_cas_write_index_scacq_screl_fn(queue, expected, value);
    watched->written.compare_exchange_strong(expected, value);
    return expected;
}

// Publishes what is written, in order; false if the signal is no doorbell of a queue that is watched.
bool rang(hsa_signal_t signal) {
    std::lock_guard<std::mutex> lock(guard);
    auto found = by_doorbell.find(signal.handle);
    if (found == by_doorbell.end()) return false;
    Watched* watched = found->second;
    hsa_queue_t* queue = watched->queue;
    const uint64_t room = core.hsa_queue_load_read_index_scacquire_fn(queue) + queue->size;
    const uint64_t first = watched->published;
    for (; watched->published < watched->written && watched->published < room; ++watched->published) {
        const auto* slot = static_cast<const uint16_t*>(queue->base_address) + 32 * (watched->published & (queue->size - 1));
        const uint8_t type = __atomic_load_n(slot, __ATOMIC_ACQUIRE) & 0xff;
        if (type == HSA_PACKET_TYPE_INVALID) break;
        dispatches += type == HSA_PACKET_TYPE_KERNEL_DISPATCH;
    }
    if (watched->published == first) return true;
    core.hsa_queue_store_write_index_screlease_fn(queue, watched->published);
    core.hsa_signal_store_screlease_fn(queue->doorbell_signal, static_cast<hsa_signal_value_t>(watched->published - 1));
    return true;
}

template <int N>
void ring(hsa_signal_t signal, hsa_signal_value_t value) {
    if (rang(signal)) return;
    switch (N) {
        case 0: return core.hsa_signal_store_relaxed_fn(signal, value);
        case 1: return core.hsa_signal_store_screlease_fn(signal, value);
        case 2: return core.hsa_signal_silent_store_relaxed_fn(signal, value);
        default: return core.hsa_signal_silent_store_screlease_fn(signal, value);
    }
}

}  // namespace

extern "C" __attribute__((visibility("default"))) bool OnLoad(HsaApiTable* table, uint64_t, uint64_t, const char* const*) {
    CoreApiTable* live = table->core_;
    std::memcpy(&core, live, sizeof core);
    live->hsa_queue_create_fn = create;
    live->hsa_queue_destroy_fn = destroy;
    live->hsa_queue_load_write_index_relaxed_fn = load<0>;
    live->hsa_queue_load_write_index_scacquire_fn = load<1>;
    live->hsa_queue_store_write_index_relaxed_fn = store<0>;
    live->hsa_queue_store_write_index_screlease_fn = store<1>;
    live->hsa_queue_add_write_index_relaxed_fn = live->hsa_queue_add_write_index_scacquire_fn = add;
    live->hsa_queue_add_write_index_screlease_fn = live->hsa_queue_add_write_index_scacq_screl_fn = add;
    live->hsa_queue_cas_write_index_relaxed_fn = live->hsa_queue_cas_write_index_scacquire_fn = cas;
    live->hsa_queue_cas_write_index_screlease_fn = live->hsa_queue_cas_write_index_scacq_screl_fn = cas;
    live->hsa_signal_store_relaxed_fn = ring<0>;
    live->hsa_signal_store_screlease_fn = ring<1>;
    live->hsa_signal_silent_store_relaxed_fn = ring<2>;
    live->hsa_signal_silent_store_screlease_fn = ring<3>;
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
