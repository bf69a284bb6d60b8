// One kernel, of a code object that is loaded in one of the ways that the interface has.
//   loads WAY...
// agent-memory, agent-file: by a reader; program: by a reader, for no agent; deserialized: by the calls of HSA 1.0;
// two: two code objects for one executable. By the calls that the library TEST_UNSEEN has kept from before other tools
// came: unseen, and forgotten, whose bytes are gone afterwards.
#include "hsa_check.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define WORDS 256

static void* code;
static size_t code_size;

static void map_code(void) {
    const char* path = getenv("TEST_KERNELS");
    EXPECT(path, "TEST_KERNELS names no code object");
    int file = open(path, O_RDONLY);
    struct stat status;
    EXPECT(file >= 0 && !fstat(file, &status), "%s cannot be read", path);
    code_size = (size_t)status.st_size;
    code = mmap(NULL, code_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    EXPECT(code != MAP_FAILED, "%s cannot be mapped", path);
    close(file);
}

static hsa_code_object_reader_t reader_of_memory(void) {
    hsa_code_object_reader_t reader;
    CHECK(hsa_code_object_reader_create_from_memory(code, code_size, &reader));
    return reader;
}

static void* unseen(const char* name) {
    const char* path = getenv("TEST_UNSEEN");
    void* library = path ? dlopen(path, RTLD_NOW) : NULL;
    void* function = library ? dlsym(library, name) : NULL;
    EXPECT(function, "no %s", name);
    return function;
}

static hsa_status_t deserialize(void) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    hsa_code_object_t object;
    CHECK(hsa_code_object_deserialize(code, code_size, NULL, &object));
    return hsa_executable_load_code_object(executable, gpu, object, NULL);
#pragma GCC diagnostic pop
}

// False when this runtime does not load code this way.
static bool load_by(const char* way) {
    CHECK(hsa_executable_create_alt(HSA_PROFILE_FULL, HSA_DEFAULT_FLOAT_ROUNDING_MODE_DEFAULT, NULL, &executable));
    if (!strcmp(way, "agent-memory")) {
        CHECK(hsa_executable_load_agent_code_object(executable, gpu, reader_of_memory(), NULL, NULL));
    } else if (!strcmp(way, "agent-file")) {
        int file = open(getenv("TEST_KERNELS"), O_RDONLY);
        hsa_code_object_reader_t reader;
        CHECK(hsa_code_object_reader_create_from_file(file, &reader));
        hsa_loaded_code_object_t loaded;
        CHECK(hsa_executable_load_agent_code_object(executable, gpu, reader, NULL, &loaded));
        close(file);
    } else if (!strcmp(way, "program")) {
        hsa_status_t status = hsa_executable_load_program_code_object(executable, reader_of_memory(), NULL, NULL);
        if (status != HSA_STATUS_SUCCESS) return false;
    } else if (!strcmp(way, "deserialized")) {
        CHECK(deserialize());
    } else if (!strcmp(way, "two")) {
        // TEST_OTHER has none of the names of TEST_KERNELS.
        int file = open(getenv("TEST_OTHER"), O_RDONLY);
        hsa_code_object_reader_t reader;
        CHECK(hsa_code_object_reader_create_from_file(file, &reader));
        CHECK(hsa_executable_load_agent_code_object(executable, gpu, reader, NULL, NULL));
        CHECK(hsa_executable_load_agent_code_object(executable, gpu, reader_of_memory(), NULL, NULL));
        close(file);
    } else {
        hsa_status_t (*load)(hsa_executable_t, hsa_agent_t, hsa_code_object_reader_t) = unseen("unseen_load");
        hsa_status_t (*freeze)(hsa_executable_t) = unseen("unseen_freeze");
        CHECK(load(executable, gpu, reader_of_memory()));
        CHECK(freeze(executable));
        if (!strcmp(way, "forgotten")) {
            munmap(code, code_size);
            // The next executable makes the library look at all.
            hsa_executable_t other;
            CHECK(hsa_executable_create_alt(HSA_PROFILE_FULL, HSA_DEFAULT_FLOAT_ROUNDING_MODE_DEFAULT, NULL, &other));
            CHECK(hsa_executable_freeze(other, NULL));
        }
        return true;
    }
    CHECK(hsa_executable_freeze(executable, NULL));
    return true;
}

// The arguments by which GCC's kernels find the stacks of their threads: bytes 32 to 55.
static void stacks_for(uint64_t* arguments) {
    enum { ARENA = 4096, STACK = 1024 };
    char* memory = allocate(host, ARENA + WORDS / 64 * STACK);
    memset(memory, 0, ARENA + WORDS / 64 * STACK);
    arguments[4] = (uint64_t)memory;
    arguments[5] = (uint64_t)(memory + ARENA);
    arguments[6] = (uint64_t)STACK << 32 | ARENA;
}

int main(int argc, char** argv) {
    EXPECT(argc > 1, "usage: loads WAY...");
    start();
    hsa_queue_t* queue = queue_of(64, NULL, NULL);
    uint32_t* words = allocate(host, WORDS * sizeof *words);
    uint64_t* arguments = allocate(kernarg_pool, 4096);
    for (int way = 1; way < argc; ++way) {
        map_code();
        if (!load_by(argv[way])) {
            printf("%s: not loaded\n", argv[way]);
            continue;
        }
        for (uint32_t i = 0; i < WORDS; ++i) words[i] = i * 3;
        arguments[0] = (uint64_t)words;
        if (getenv("TEST_STACKS")) stacks_for(arguments);
        hsa_signal_t done = signal_of(1);
        dispatch(queue, kernel("increment"), WORDS / 64, arguments, done);
        wait_for_signal(done);
        for (uint32_t i = 0; i < WORDS; ++i) EXPECT(words[i] == i * 3 + 1, "%s: [%u] is %u", argv[way], i, words[i]);
        printf("%s: run\n", argv[way]);
    }
    printf("PASS\n");
    return 0;
}
