// Loads the runtime late: as usual, with RTLD_DEEPBIND as plug-ins and language runtimes do, or into a namespace of its own.
//   namespaces usual|deep|own
// Prints how many GPUs it sees.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <hsa/hsa.h>
#include <stdio.h>
#include <string.h>

static hsa_status_t (*get_info)(hsa_agent_t, hsa_agent_info_t, void*);

static hsa_status_t count(hsa_agent_t agent, void* gpus) {
    hsa_device_type_t type = HSA_DEVICE_TYPE_CPU;
    const hsa_status_t status = get_info(agent, HSA_AGENT_INFO_DEVICE, &type);
    *(int*)gpus += type == HSA_DEVICE_TYPE_GPU;
    return status;
}

int main(int argc, char** argv) {
    const char *name = "libhsa-runtime64.so.1", *how = argc == 2 ? argv[1] : "";
    void* runtime = NULL;
    if (!strcmp(how, "usual")) runtime = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!strcmp(how, "deep")) runtime = dlopen(name, RTLD_LAZY | RTLD_LOCAL | RTLD_DEEPBIND);
    if (!strcmp(how, "own")) runtime = dlmopen(LM_ID_NEWLM, name, RTLD_NOW | RTLD_LOCAL);
    if (!runtime) {
        printf("FAIL %s\n", dlerror());
        return 1;
    }
    if (dlerror()) printf("FAIL there is an error of nobody\n");
    hsa_status_t (*init)(void);
    hsa_status_t (*iterate)(hsa_status_t (*)(hsa_agent_t, void*), void*);
    *(void**)&init = dlsym(runtime, "hsa_init");
    *(void**)&iterate = dlsym(runtime, "hsa_iterate_agents");
    *(void**)&get_info = dlsym(runtime, "hsa_agent_get_info");
    int gpus = 0;
    if (init() == HSA_STATUS_SUCCESS) iterate(count, &gpus);
    printf("%d GPUs\nPASS\n", gpus);
    return 0;
}
