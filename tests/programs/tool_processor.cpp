// Another tool, below: it gives each instruction set of the GPUs the name that TOOL_TARGET has, if it is set.
#include <cstdlib>
#include <cstring>

#include <hsa/hsa_api_trace.h>

namespace {

decltype(CoreApiTable::hsa_isa_get_info_alt_fn) get_info;

hsa_status_t named(hsa_isa_t isa, hsa_isa_info_t attribute, void* value) {
    const char* target = std::getenv("TOOL_TARGET");
    if (!target || attribute > HSA_ISA_INFO_NAME) return get_info(isa, attribute, value);
    const uint32_t length = std::strlen(target) + 1;
    std::memcpy(value, attribute == HSA_ISA_INFO_NAME ? static_cast<const void*>(target) : &length, attribute == HSA_ISA_INFO_NAME ? length : sizeof length);
    return HSA_STATUS_SUCCESS;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) bool OnLoad(HsaApiTable* table, uint64_t, uint64_t, const char* const*) {
    get_info = table->core_->hsa_isa_get_info_alt_fn;
    table->core_->hsa_isa_get_info_alt_fn = named;
    return true;
}

extern "C" __attribute__((visibility("default"))) void OnUnload() {}
