// Acts as another HSA runtime in the process: it has tables of its own, and starts and ends the tool that TEST_TOOL names with
// them. (A real one is refused by the driver, which lets one runtime in a process use a GPU.)
#include <dlfcn.h>
#include <hsa/hsa_api_trace.h>

#define VISIBLE extern "C" __attribute__((visibility("default")))

namespace {

HsaApiTable root;
CoreApiTable core;
AmdExtTable extensions;

template <class F>
F function_of(const char* tool, const char* name) {
    void* library = dlopen(tool, RTLD_NOW | RTLD_NOLOAD);
    return library ? reinterpret_cast<F>(dlsym(library, name)) : nullptr;
}

}  // namespace

VISIBLE bool OnLoad(HsaApiTable* table, uint64_t, uint64_t, const char* const*) {
    root = *table;
    core = *table->core_;
    extensions = *table->amd_ext_;
    root.core_ = &core;
    root.amd_ext_ = &extensions;
    return true;
}

VISIBLE void OnUnload() {}

VISIBLE bool second_start(const char* tool) {
    auto* load = function_of<decltype(&OnLoad)>(tool, "OnLoad");
    return load && load(&root, 0, 0, nullptr);
}

VISIBLE bool second_end(const char* tool) {
    auto* unload = function_of<decltype(&OnUnload)>(tool, "OnUnload");
    if (unload) unload();
    return unload;
}
