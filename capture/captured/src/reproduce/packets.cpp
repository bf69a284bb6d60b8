// HIP refuses workgroups of more work-items than their kernel declares, which it launches itself. The HSA runtime takes their packets, with
// code that is loaded for them.

#define HSA(call)                                                       \
  do {                                                                  \
    const hsa_status_t status = (call);                                 \
    const char *text = nullptr;                                         \
    if (status != HSA_STATUS_SUCCESS) {                                 \
      hsa_status_string(status, &text);                                 \
      broken("%s: %s", #call, text ? text : "an unknown status");       \
    }                                                                   \
  } while (0)

struct Packets {
  hsa_agent_t agent;
  hsa_queue_t *queue;
  hsa_signal_t done;
  // The files of code objects, which stay as long as what is loaded of them.
  std::vector<std::vector<unsigned char> > files;
  // Addresses of kernels for packets, by their number.
  std::map<unsigned, uint64_t> kernels;
};

void queue_failed(hsa_status_t status, hsa_queue_t *, void *) {
  const char *text = nullptr;
  hsa_status_string(status, &text);
  broken("the queue: %s", text ? text : "an unknown status");
}

// The GPU that HIP allocates memory of, and a queue on it.
Packets &packets() {
  static Packets *made = nullptr;
  if (made) return *made;
  made = new Packets();
  HSA(hsa_init());
  void *memory = nullptr;
  HIP(hipMalloc(&memory, 1));
  hsa_amd_pointer_info_t info;
  std::memset(&info, 0, sizeof info);
  info.size = sizeof info;
  HSA(hsa_amd_pointer_info(memory, &info, nullptr, nullptr, nullptr));
  HIP(hipFree(memory));
  made->agent = info.agentOwner;
  HSA(hsa_queue_create(made->agent, 64, HSA_QUEUE_TYPE_SINGLE, queue_failed, nullptr, UINT32_MAX, UINT32_MAX, &made->queue));
  HSA(hsa_signal_create(1, 0, nullptr, &made->done));
  return *made;
}

uint64_t kernel_object(Packets &of, unsigned kernel) {
  const std::map<unsigned, uint64_t>::const_iterator known = of.kernels.find(kernel);
  if (known != of.kernels.end()) return known->second;
  of.files.push_back(read_file(MODULES[KERNELS[kernel].module].file, ANY_SIZE));
  hsa_code_object_reader_t reader;
  hsa_executable_t executable;
  hsa_executable_symbol_t symbol;
  uint64_t object = 0;
  HSA(hsa_code_object_reader_create_from_memory(of.files.back().data(), of.files.back().size(), &reader));
  HSA(hsa_executable_create_alt(HSA_PROFILE_FULL, HSA_DEFAULT_FLOAT_ROUNDING_MODE_DEFAULT, nullptr, &executable));
  HSA(hsa_executable_load_agent_code_object(executable, of.agent, reader, nullptr, nullptr));
  HSA(hsa_executable_freeze(executable, nullptr));
  const std::string descriptor = std::string(KERNELS[kernel].symbol) + ".kd";
  HSA(hsa_executable_get_symbol_by_name(executable, descriptor.c_str(), &of.agent, &symbol));
  HSA(hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_OBJECT, &object));
  of.kernels[kernel] = object;
  return object;
}

// Behind all that HIP was given, and complete when this returns.
void give_packet(const Launch &launch, const std::vector<unsigned char> &kernarg) {
  HIP(hipDeviceSynchronize());
  Packets &of = packets();
  const uint64_t object = kernel_object(of, launch.kernel);
  void *arguments = nullptr;
  HIP(hipHostMalloc(&arguments, launch.size + 1, hipHostMallocDefault));
  std::memcpy(arguments, kernarg.data() + launch.arguments, launch.size);
  hsa_signal_store_relaxed(of.done, 1);
  const uint64_t index = hsa_queue_add_write_index_relaxed(of.queue, 1);
  hsa_kernel_dispatch_packet_t *const packet =
      static_cast<hsa_kernel_dispatch_packet_t *>(of.queue->base_address) + index % of.queue->size;
  hsa_kernel_dispatch_packet_t filled;
  std::memset(&filled, 0, sizeof filled);
  filled.workgroup_size_x = uint16_t(launch.group[0]);
  filled.workgroup_size_y = uint16_t(launch.group[1]);
  filled.workgroup_size_z = uint16_t(launch.group[2]);
  filled.grid_size_x = launch.grid[0];
  filled.grid_size_y = launch.grid[1];
  filled.grid_size_z = launch.grid[2];
  filled.private_segment_size = launch.private_bytes;
  filled.group_segment_size = launch.group_bytes;
  filled.kernel_object = object;
  filled.kernarg_address = arguments;
  filled.completion_signal = of.done;
  // The header makes the packet valid, and comes last.
  std::memcpy(reinterpret_cast<char *>(packet) + 4, reinterpret_cast<const char *>(&filled) + 4, sizeof filled - 4);
  const uint32_t header = HSA_PACKET_TYPE_KERNEL_DISPATCH << HSA_PACKET_HEADER_TYPE | 1u << HSA_PACKET_HEADER_BARRIER |
                          HSA_FENCE_SCOPE_SYSTEM << HSA_PACKET_HEADER_SCACQUIRE_FENCE_SCOPE |
                          HSA_FENCE_SCOPE_SYSTEM << HSA_PACKET_HEADER_SCRELEASE_FENCE_SCOPE;
  const uint32_t setup = 3u << HSA_KERNEL_DISPATCH_PACKET_SETUP_DIMENSIONS;
  __atomic_store_n(reinterpret_cast<uint32_t *>(packet), header | setup << 16, __ATOMIC_RELEASE);
  hsa_signal_store_screlease(of.queue->doorbell_signal, hsa_signal_value_t(index));
  while (hsa_signal_wait_scacquire(of.done, HSA_SIGNAL_CONDITION_EQ, 0, UINT64_MAX, HSA_WAIT_STATE_BLOCKED) != 0) {
  }
  HIP(hipHostFree(arguments));
}
