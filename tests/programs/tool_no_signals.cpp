// Another tool, below: the runtime has no signals of the kind that only GPUs use, once TOOL_SIGNALS of them are made.
#include <atomic>
#include <cstdlib>

#include <hsa/hsa_api_trace.h>

namespace {

AmdExtTable amd;
std::atomic<long> left;

hsa_status_t create(hsa_signal_value_t value, uint32_t count, const hsa_agent_t* consumers, uint64_t attributes,
                    hsa_signal_t* signal) {
    if ((attributes & HSA_AMD_SIGNAL_AMD_GPU_ONLY) && left.fetch_sub(1) <= 0) return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    return amd.hsa_amd_signal_create_fn(value, count, consumers, attributes, signal);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) bool OnLoad(HsaApiTable* table, uint64_t, uint64_t, const char* const*) {
    const char* most = std::getenv("TOOL_SIGNALS");
    left = most ? std::atol(most) : 0;
    amd = *table->amd_ext_;
    table->amd_ext_->hsa_amd_signal_create_fn = create;
    return true;
}

extern "C" __attribute__((visibility("default"))) void OnUnload() {}
