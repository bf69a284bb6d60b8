namespace {

// Exit statuses.
const int PASSED = 0, FAILED = 1, BROKEN = 2;
// Differing elements that are printed.
const int SHOWN = 8;
// Addresses keep their last bits: what the application had at a multiple of 64 is at one here.
const uint64_t ALIGNMENT = 4096;

// The step that is done; 0 for none.
uint64_t current = 0;

[[noreturn]] void broken(const char *format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  std::fputs("error: ", stderr);
  if (current) std::fprintf(stderr, "step %llu: ", (unsigned long long)current);
  std::vfprintf(stderr, format, arguments);
  std::fputc('\n', stderr);
  va_end(arguments);
  std::exit(BROKEN);
}

#define HIP(call)                                                       \
  do {                                                                  \
    const hipError_t status = (call);                                   \
    if (status != hipSuccess) broken("%s: %s", #call, hipGetErrorString(status)); \
  } while (0)

std::string folder;

std::string in_folder(const char *name) { return folder + "/" + name; }

const uint64_t ANY_SIZE = ~uint64_t(0);

std::vector<unsigned char> read_file(const char *name, uint64_t expected) {
  const std::string path = in_folder(name);
  std::FILE *file = std::fopen(path.c_str(), "rb");
  if (!file) broken("%s: %s", path.c_str(), std::strerror(errno));
  std::vector<unsigned char> bytes;
  unsigned char block[1 << 16];
  size_t count;
  while ((count = std::fread(block, 1, sizeof block, file)) > 0) bytes.insert(bytes.end(), block, block + count);
  if (std::ferror(file)) broken("%s: %s", path.c_str(), std::strerror(errno));
  std::fclose(file);
  if (expected != ANY_SIZE && bytes.size() != expected) {
    broken("%s: expected %llu bytes, found %llu", path.c_str(), (unsigned long long)expected, (unsigned long long)bytes.size());
  }
  return bytes;
}

// The folder with the files: the argument, the current folder, or the one of this program or above it.
std::string find_folder(int count, char **arguments) {
  if (count > 2) broken("expected one argument at most, the folder of kernel.hsaco, found %d", count - 1);
  if (count == 2) return arguments[1];
  const std::string program = arguments[0];
  const size_t slash = program.rfind('/');
  const std::string own = slash == std::string::npos ? "." : program.substr(0, slash);
  const std::string places[] = {".", own, own + "/.."};
  for (const std::string &place : places) {
    if (std::FILE *file = std::fopen((place + "/kernel.hsaco").c_str(), "rb")) {
      std::fclose(file);
      return place;
    }
  }
  broken("no kernel.hsaco in the current folder, nor beside this program: give its folder as an argument");
}

// What an allocation is now. Memory of the host has an address for the host.
struct Placed {
  uint64_t device;
  unsigned char *host;
};

std::vector<Placed> allocations;
std::vector<uint64_t> variables;
std::vector<hipModule_t> modules;
std::vector<hipFunction_t> functions;
// Where code objects are now. It is known of those with a variable.
std::vector<uint64_t> code;

// A variable of the code object, which has so many bytes. HIP says of a managed one where its memory is.
void *variable_of(hipModule_t module, const char *symbol, uint64_t expected) {
  hipDeviceptr_t address;
  size_t size;
  const hipError_t status = hipModuleGetGlobal(&address, &size, module, symbol);
  if (status != hipSuccess) broken("variable %s: %s", symbol, hipGetErrorString(status));
  if (expected != ANY_SIZE && size != expected) {
    broken("variable %s: expected %llu bytes, found %llu", symbol, (unsigned long long)expected, (unsigned long long)size);
  }
  return reinterpret_cast<void *>(address);
}

Placed allocate(const Allocation &wanted) {
  if (wanted.kind == VARIABLE) {
    unsigned char *const memory = static_cast<unsigned char *>(variable_of(modules[wanted.module], wanted.symbol, ANY_SIZE));
    const Placed placed = {reinterpret_cast<uint64_t>(memory) - wanted.begins, memory - wanted.begins};
    return placed;
  }
  const uint64_t low = wanted.captured % ALIGNMENT, size = wanted.size + 2 * ALIGNMENT;
  void *block = nullptr, *of_device = nullptr;
  bool is_hosts = true;
  switch (wanted.kind) {
  case DEVICE:
    HIP(hipMalloc(&block, size));
    is_hosts = false;
    break;
  case DEVICE_FINE:
    HIP(hipExtMallocWithFlags(&block, size, hipDeviceMallocFinegrained));
    is_hosts = false;
    break;
  case PINNED:
    HIP(hipHostMalloc(&block, size, hipHostMallocDefault));
    break;
  case REGISTERED:
    if (posix_memalign(&block, ALIGNMENT, size) != 0) broken("no %llu bytes of memory", (unsigned long long)size);
    HIP(hipHostRegister(block, size, hipHostRegisterDefault));
    break;
  case MANAGED:
    HIP(hipMallocManaged(reinterpret_cast<void **>(&block), size, hipMemAttachGlobal));
    break;
  case VARIABLE:
    break;
  }
  if (wanted.kind == PINNED || wanted.kind == REGISTERED) {
    HIP(hipHostGetDevicePointer(&of_device, block, 0));
  } else {
    of_device = block;
  }
  const uint64_t start = reinterpret_cast<uint64_t>(of_device);
  const uint64_t skipped = (start + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT + low - start;
  Placed placed = {start + skipped, is_hosts ? static_cast<unsigned char *>(block) + skipped : nullptr};
  // Parts that were not captured have zeros.
  if (is_hosts) {
    std::memset(block, 0, size);
  } else {
    HIP(hipMemset(block, 0, size));
  }
  return placed;
}

void write_to(const Placed &to, uint64_t offset, const std::vector<unsigned char> &bytes) {
  if (bytes.empty()) return;
  if (to.host) {
    std::memcpy(to.host + offset, bytes.data(), bytes.size());
  } else {
    HIP(hipMemcpy(reinterpret_cast<void *>(to.device + offset), bytes.data(), bytes.size(), hipMemcpyHostToDevice));
  }
}

void read_from(const Placed &from, uint64_t offset, std::vector<unsigned char> &bytes) {
  if (from.host) {
    std::memcpy(bytes.data(), from.host + offset, bytes.size());
  } else {
    HIP(hipMemcpy(bytes.data(), reinterpret_cast<void *>(from.device + offset), bytes.size(), hipMemcpyDeviceToHost));
  }
}

// Eight bytes that hold an address: `target` letters are `a` (an allocation) and `c` (the code object).
struct Fixup {
  uint64_t offset;
  char target;
  uint64_t number, target_offset;
};

// By place: its letter (`k` kernarg, `w` what is written between steps, `a` allocation, `v` variable) and its number.
typedef std::map<std::pair<char, uint64_t>, std::vector<Fixup> > Fixups;

Fixups read_fixups(const char *name) {
  const std::string path = in_folder(name);
  std::FILE *file = std::fopen(path.c_str(), "r");
  if (!file) broken("%s: %s", path.c_str(), std::strerror(errno));
  Fixups all;
  char line[256];
  for (int number = 1; std::fgets(line, sizeof line, file); ++number) {
    if (line[0] == '#' || line[0] == '\n') continue;
    char place, target;
    unsigned long long of, offset, to, target_offset;
    const int read = std::sscanf(line, "%c%llu %llu %c%llu %llu", &place, &of, &offset, &target, &to, &target_offset);
    const bool is_known = read == 6 && std::strchr("kwav", place) && ((target == 'c' && to < code.size()) || (target == 'a' && to < allocations.size()));
    if (!is_known) broken("%s:%d: expected a place, an offset, a target and an offset, found %s", path.c_str(), number, line);
    const Fixup fixup = {offset, target, to, target_offset};
    all[std::make_pair(place, uint64_t(of))].push_back(fixup);
  }
  std::fclose(file);
  return all;
}

// Rewrites the addresses in the bytes of a place from an offset on.
void rewrite(const Fixups &all, char place, uint64_t number, uint64_t offset, std::vector<unsigned char> &bytes) {
  const Fixups::const_iterator found = all.find(std::make_pair(place, number));
  if (found == all.end()) return;
  for (const Fixup &fixup : found->second) {
    if (fixup.offset < offset || fixup.offset + 8 > offset + bytes.size()) continue;
    const uint64_t base = fixup.target == 'a' ? allocations[fixup.number].device : code[fixup.number];
    const uint64_t address = base + fixup.target_offset;
    std::memcpy(bytes.data() + (fixup.offset - offset), &address, 8);
  }
}

Placed place_of(char place, uint64_t number) {
  if (place == 'a') return allocations[number];
  const Placed variable = {variables[number], nullptr};
  return variable;
}

// For the host and the GPU.
void *address_of(const At &at) {
  const Placed placed = place_of(at.place, at.number);
  return placed.host ? placed.host + at.offset : reinterpret_cast<unsigned char *>(placed.device + at.offset);
}

// What a word with an address of the application is here, or (`back`) the other way around. Words that are no addresses stay.
uint64_t moved(uint64_t word, bool back) {
  bool is_end = false;
  uint64_t end = 0;
  for (size_t number = 0; number < ALLOCATIONS.size() + MODULES.size(); ++number) {
    const bool is_code = number >= ALLOCATIONS.size();
    const size_t of = is_code ? number - ALLOCATIONS.size() : number;
    const uint64_t captured = is_code ? MODULES[of].captured : ALLOCATIONS[of].captured;
    const uint64_t size = is_code ? MODULES[of].size : ALLOCATIONS[of].size;
    const uint64_t now = is_code ? code[of] : allocations[of].device;
    if (!captured || !now) continue;
    const uint64_t from = back ? now : captured, to = back ? captured : now;
    if (word >= from && word - from < size) return to + (word - from);
    if (word - from == size) is_end = true, end = to + size;
  }
  return is_end ? end : word;
}

// Writes `bytes`, as the application had them; `rewritten` has the addresses of now. Of a word at an edge only some bytes are written. It may be
// an address before or afterwards, so that they are put into the word as the application had it.
void write_between(const At &at, const std::vector<unsigned char> &bytes, const std::vector<unsigned char> &rewritten) {
  const Placed to = place_of(at.place, at.number);
  const uint64_t size = at.place == 'a' ? ALLOCATIONS[at.number].size : VARIABLES[at.number].size;
  const uint64_t start = to.device + at.offset, end = start + bytes.size();
  std::map<uint64_t, std::vector<unsigned char> > edges;
  const uint64_t words[] = {start / 8 * 8, (end - 1) / 8 * 8};
  for (const uint64_t word : words) {
    const bool is_whole = word >= start && word + 8 <= end;
    if (is_whole || word < to.device || word + 8 > to.device + size) continue;
    const uint64_t from = std::max(word, start), until = std::min(word + 8, end);
    std::vector<unsigned char> now(8);
    uint64_t value;
    read_from(to, word - to.device, now);
    std::memcpy(&value, now.data(), 8);
    value = moved(value, true);
    std::memcpy(now.data(), &value, 8);
    std::memcpy(now.data() + (from - word), bytes.data() + (from - start), until - from);
    std::memcpy(&value, now.data(), 8);
    value = moved(value, false);
    std::memcpy(now.data(), &value, 8);
    edges[word] = now;
  }
  write_to(to, at.offset, rewritten);
  for (const std::pair<const uint64_t, std::vector<unsigned char> > &edge : edges) write_to(to, edge.first - to.device, edge.second);
}

// What is written between steps is read from its file; of memory that no step before has reached, from that of its piece.
void do_write(const Write &write, const Fixups &fixups, const std::vector<unsigned char> &written) {
  std::vector<unsigned char> all, rewritten;
  uint64_t from = write.offset;
  if (write.piece < 0) {
    all.assign(written.begin() + std::ptrdiff_t(from), written.begin() + std::ptrdiff_t(from + write.size));
    rewritten = all;
    rewrite(fixups, 'w', 0, from, rewritten);
    from = 0;
  } else {
    const Piece &piece = PIECES[size_t(write.piece)];
    all = read_file(piece.before, piece.size);
    rewritten = all;
    rewrite(fixups, piece.place, piece.number, piece.offset, rewritten);
  }
  const std::vector<unsigned char>::iterator begin = all.begin() + std::ptrdiff_t(from), now = rewritten.begin() + std::ptrdiff_t(from);
  const std::ptrdiff_t size = std::ptrdiff_t(write.size);
  HIP(hipDeviceSynchronize());
  write_between(write.to, std::vector<unsigned char>(begin, begin + size), std::vector<unsigned char>(now, now + size));
}

// Packets.

// Only the application's arguments: the runtime fills in the hidden ones.
void do_launch(const Launch &launch, std::vector<unsigned char> &kernarg) {
  if (launch.is_packet) {
    give_packet(launch, kernarg);
    return;
  }
  size_t length = launch.size;
  void *extra[] = {HIP_LAUNCH_PARAM_BUFFER_POINTER, kernarg.data() + launch.arguments, HIP_LAUNCH_PARAM_BUFFER_SIZE, &length, HIP_LAUNCH_PARAM_END};
  const hipFunction_t function = functions[launch.kernel];
  const uint32_t *const grid = launch.grid, *const group = launch.group;
  if (grid[0] % group[0] == 0 && grid[1] % group[1] == 0 && grid[2] % group[2] == 0) {
    HIP(hipModuleLaunchKernel(function, grid[0] / group[0], grid[1] / group[1], grid[2] / group[2], group[0], group[1], group[2],
                              launch.lds, nullptr, nullptr, extra));
  } else {
    // The last workgroups are not complete.
    HIP(hipExtModuleLaunchKernel(function, grid[0], grid[1], grid[2], group[0], group[1], group[2], launch.lds, nullptr, nullptr, extra,
                                 nullptr, nullptr, 0));
  }
}

void do_step(const Step &step, std::vector<unsigned char> &kernarg, const Fixups &fixups, const std::vector<unsigned char> &written) {
  switch (step.does) {
  case LAUNCH:
    do_launch(LAUNCHES[step.index], kernarg);
    break;
  case COPY: {
    const Copy &copy = COPIES[step.index];
    HIP(hipMemcpyAsync(address_of(copy.to), address_of(copy.from), copy.size, hipMemcpyDefault, nullptr));
    break;
  }
  case FILL: {
    const Fill &fill = FILLS[step.index];
    HIP(hipMemsetD32Async(reinterpret_cast<hipDeviceptr_t>(address_of(fill.to)), int(fill.value), fill.size / 4, nullptr));
    break;
  }
  case WRITE:
    do_write(WRITES[step.index], fixups, written);
    break;
  case WAIT:
    HIP(hipStreamSynchronize(nullptr));
    break;
  }
}

std::string shown(char kind, unsigned size, const unsigned char *bytes) {
  char text[64];
  uint64_t bits = 0;
  std::memcpy(&bits, bytes, size);
  const int digits = int(2 * size);
  const int64_t number = int64_t(bits << (64 - 8 * size)) >> (64 - 8 * size);
  float single;
  double wide;
  if (kind == 'f' && size == 4) {
    std::memcpy(&single, bytes, 4);
    std::snprintf(text, sizeof text, "%.9g (0x%08llx)", double(single), (unsigned long long)bits);
  } else if (kind == 'f' && size == 8) {
    std::memcpy(&wide, bytes, 8);
    std::snprintf(text, sizeof text, "%.17g (0x%016llx)", wide, (unsigned long long)bits);
  } else if (kind == 'i') {
    std::snprintf(text, sizeof text, "%lld", (long long)number);
  } else if (kind == 'u') {
    std::snprintf(text, sizeof text, "%llu", (unsigned long long)bits);
  } else {
    std::snprintf(text, sizeof text, "0x%0*llx", digits, (unsigned long long)bits);
  }
  return text;
}

const Buffer *buffer_at(const Piece &piece, uint64_t offset) {
  for (const Buffer &buffer : BUFFERS) {
    if (buffer.place == piece.place && buffer.number == piece.number && buffer.offset <= offset && offset - buffer.offset < buffer.size) {
      return &buffer;
    }
  }
  return nullptr;
}

// Prints the elements of a piece that differ; how many there are.
uint64_t compare(const Piece &piece, const std::vector<unsigned char> &expected, const std::vector<unsigned char> &found, uint64_t before) {
  uint64_t differing = 0;
  for (uint64_t at = 0; at < expected.size();) {
    if (expected[at] == found[at]) {
      ++at;
      continue;
    }
    const uint64_t offset = piece.offset + at;
    const Buffer *buffer = buffer_at(piece, offset);
    const unsigned size = buffer ? buffer->element : 4;
    const uint64_t index = (offset - (buffer ? buffer->offset : 0)) / size;
    const uint64_t start = (buffer ? buffer->offset : 0) + index * size;
    // An element that the piece does not have whole is shown as a byte.
    const bool is_whole = start >= piece.offset && start + size <= piece.offset + expected.size();
    const uint64_t from = is_whole ? start - piece.offset : at;
    const unsigned length = is_whole ? size : 1;
    if (before + differing < uint64_t(SHOWN)) {
      const char kind = buffer && is_whole ? buffer->kind : 'b';
      const std::string named = buffer ? std::string(", ") + buffer->name + "[" + std::to_string(index) + "]" : std::string();
      std::printf("%s %llu%s, offset %llu: expected %s, found %s\n", piece.place == 'a' ? "allocation" : "variable",
                  (unsigned long long)piece.number, named.c_str(), (unsigned long long)(piece.offset + from),
                  shown(kind, length, &expected[from]).c_str(), shown(kind, length, &found[from]).c_str());
    }
    ++differing;
    at = from + length;
  }
  return differing;
}

}  // namespace

int main(int count, char **arguments) {
  folder = find_folder(count, arguments);
  hipDeviceProp_t properties;
  HIP(hipSetDevice(0));
  HIP(hipGetDeviceProperties(&properties, 0));
  const std::string processor = std::string(properties.gcnArchName).substr(0, std::string(properties.gcnArchName).find(':'));
  if (processor != PROCESSOR) {
    std::fprintf(stderr, "note: the capture is of %s, this GPU is %s\n", PROCESSOR, properties.gcnArchName);
  }

  for (const Module &of : MODULES) {
    const std::vector<unsigned char> object = read_file(of.file, ANY_SIZE);
    hipModule_t module;
    HIP(hipModuleLoadData(&module, object.data()));
    modules.push_back(module);
  }
  for (const Kernel &kernel : KERNELS) {
    hipFunction_t function;
    HIP(hipModuleGetFunction(&function, modules[kernel.module], kernel.symbol));
    functions.push_back(function);
  }

  code.resize(MODULES.size());
  for (const Variable &variable : VARIABLES) {
    variables.push_back(reinterpret_cast<uint64_t>(variable_of(modules[variable.module], variable.symbol, variable.size)));
    code[variable.module] = variables.back() - variable.in_code;
  }
  unsigned elsewhere = 0;
  for (const Allocation &allocation : ALLOCATIONS) {
    allocations.push_back(allocate(allocation));
    elsewhere += allocations.back().device != allocation.captured;
  }

  const Fixups before = read_fixups("fixups-before.txt"), after = read_fixups("fixups-after.txt");
  for (const Piece &piece : PIECES) {
    std::vector<unsigned char> bytes = read_file(piece.before, piece.size);
    rewrite(before, piece.place, piece.number, piece.offset, bytes);
    write_to(place_of(piece.place, piece.number), piece.offset, bytes);
  }
  std::vector<unsigned char> kernarg = read_file("kernarg.bin", KERNARG_BYTES);
  rewrite(before, 'k', 0, 0, kernarg);
  std::printf("%llu of %llu allocations are not at their captured addresses\n", (unsigned long long)elsewhere, (unsigned long long)allocations.size());

  kernarg.resize(kernarg.size() + 1);
  const std::vector<unsigned char> written = WRITTEN_BYTES ? read_file("writes.bin", WRITTEN_BYTES) : std::vector<unsigned char>();
  HIP(hipDeviceSynchronize());
  for (const Step &step : STEPS) {
    current = step.number;
    do_step(step, kernarg, before, written);
  }
  HIP(hipDeviceSynchronize());
  current = 0;

  uint64_t differing = 0, compared = 0;
  for (const Piece &piece : PIECES) {
    if (!piece.after) continue;
    std::vector<unsigned char> expected = read_file(piece.after, piece.size), found(piece.size);
    rewrite(after, piece.place, piece.number, piece.offset, expected);
    read_from(place_of(piece.place, piece.number), piece.offset, found);
    differing += compare(piece, expected, found, differing);
    compared += piece.size;
  }
  if (differing > 0) {
    std::printf("%llu elements differ from what the application got, in %llu bytes\nFAIL\n", (unsigned long long)differing,
                (unsigned long long)compared);
    return FAILED;
  }
  std::printf("%llu bytes are as the application got them\nPASS\n", (unsigned long long)compared);
  return PASSED;
}
