// Another tool, below: it gives programs the runtime's own functions that load code, past the tools that came after it.
#include <hsa/hsa_api_trace.h>

namespace {

CoreApiTable core;

}  // namespace

#define VISIBLE extern "C" __attribute__((visibility("default")))

VISIBLE hsa_status_t unseen_load(hsa_executable_t executable, hsa_agent_t agent, hsa_code_object_reader_t reader) {
    return core.hsa_executable_load_agent_code_object_fn(executable, agent, reader, nullptr, nullptr);
}

VISIBLE hsa_status_t unseen_freeze(hsa_executable_t executable) {
    return core.hsa_executable_freeze_fn(executable, nullptr);
}

VISIBLE bool OnLoad(HsaApiTable* table, uint64_t, uint64_t, const char* const*) {
    core = *table->core_;
    return true;
}

VISIBLE void OnUnload() {}
