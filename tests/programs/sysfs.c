// Finds each GPU in sysfs by its PCI address, as hwloc does: from an open root, by relative paths. The NUMA node that
// sysfs says must be that of an agent of the host.
#include "hsa_check.h"
#include <dirent.h>

static int read_number(int folder, const char* name) {
    char path[300], text[32] = "";
    snprintf(path, sizeof path, "sys/bus/pci/devices/%s", name);
    int file = openat(folder, path, O_RDONLY);
    EXPECT(file >= 0, "%s cannot be opened", path);
    EXPECT(read(file, text, sizeof text - 1) > 0, "%s cannot be read", path);
    close(file);
    return (int)strtol(text, NULL, 0);
}

static int root;
static uint32_t gpus;

static hsa_status_t check_gpu(hsa_agent_t agent, void* data) {
    (void)data;
    hsa_device_type_t type;
    CHECK(hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type));
    if (type != HSA_DEVICE_TYPE_GPU) return HSA_STATUS_SUCCESS;
    uint32_t place, chip, node;
    CHECK(hsa_agent_get_info(agent, (hsa_agent_info_t)HSA_AMD_AGENT_INFO_BDFID, &place));
    CHECK(hsa_agent_get_info(agent, (hsa_agent_info_t)HSA_AMD_AGENT_INFO_CHIP_ID, &chip));
    CHECK(hsa_agent_get_info(cpu, HSA_AGENT_INFO_NODE, &node));
    char name[64], file[80];
    snprintf(name, sizeof name, "0000:%02x:%02x.%x", place >> 8 & 0xff, place >> 3 & 0x1f, place & 7);

    bool listed = false;
    int folder = openat(root, "sys/bus/pci/devices", O_RDONLY | O_DIRECTORY);
    EXPECT(folder >= 0, "no PCI devices");
    DIR* entries = fdopendir(folder);
    for (struct dirent* entry; (entry = readdir(entries));) listed |= !strcmp(entry->d_name, name);
    closedir(entries);
    EXPECT(listed, "%s is not among the PCI devices", name);

    snprintf(file, sizeof file, "%s/device", name);
    EXPECT(read_number(root, file) == (int)chip, "%s is chip %#x, the runtime says %#x", name, read_number(root, file), chip);
    snprintf(file, sizeof file, "%s/numa_node", name);
    EXPECT(read_number(root, file) == (int)node, "%s is at node %d, the host's agent is %u", name, read_number(root, file), node);
    ++gpus;
    return HSA_STATUS_SUCCESS;
}

int main(void) {
    start();
    root = open("/", O_RDONLY | O_DIRECTORY);
    EXPECT(root >= 0, "no root");
    CHECK(hsa_iterate_agents(check_gpu, NULL));
    printf("%u GPUs\nPASS\n", gpus);
    CHECK(hsa_shut_down());
    return 0;
}
