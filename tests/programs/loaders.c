// Threads that load a code object, launch its kernel and destroy the executable, again and again, each with its own.
//   loaders THREADS ROUNDS
// Before that, an executable gets the code object only after another one was frozen: TEST_OTHER is in it until then, which has
// none of the names of TEST_KERNELS.
#include "hsa_check.h"

#include <pthread.h>

enum { WORDS = 64 };

static int rounds;

static hsa_executable_t executable_of(void) {
    hsa_executable_t made;
    CHECK(hsa_executable_create_alt(HSA_PROFILE_FULL, HSA_DEFAULT_FLOAT_ROUNDING_MODE_DEFAULT, NULL, &made));
    return made;
}

static void load_from(const char* variable, hsa_executable_t into) {
    const char* path = getenv(variable);
    EXPECT(path, "%s names no code object", variable);
    int file = open(path, O_RDONLY);
    EXPECT(file >= 0, "%s cannot be read", path);
    hsa_code_object_reader_t reader;
    CHECK(hsa_code_object_reader_create_from_file(file, &reader));
    CHECK(hsa_executable_load_agent_code_object(into, gpu, reader, NULL, NULL));
    CHECK(hsa_code_object_reader_destroy(reader));
    close(file);
}

static uint64_t increment_of(hsa_executable_t loaded) {
    hsa_executable_symbol_t symbol;
    uint64_t object;
    CHECK(hsa_executable_get_symbol_by_name(loaded, "increment.kd", &gpu, &symbol));
    CHECK(hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_OBJECT, &object));
    return object;
}

static void run(hsa_executable_t loaded, hsa_queue_t* queue, uint32_t** kernarg) {
    uint32_t* words = *kernarg;
    uint32_t before = words[0];
    hsa_signal_t done = signal_of(1);
    dispatch(queue, increment_of(loaded), WORDS / 64, kernarg, done);
    wait_for_signal(done);
    CHECK(hsa_signal_destroy(done));
    for (int i = 0; i < WORDS; ++i) EXPECT(words[i] == before + 1, "[%d] is %u, expected %u", i, words[i], before + 1);
}

static uint32_t** arguments(void) {
    uint32_t** kernarg = allocate(kernarg_pool, 4096);
    *kernarg = allocate(host, WORDS * sizeof(uint32_t));
    return kernarg;
}

static void* load_and_destroy(void* data) {
    (void)data;
    hsa_queue_t* queue = queue_of(64, NULL, NULL);
    uint32_t** kernarg = arguments();
    for (int round = 0; round < rounds; ++round) {
        hsa_executable_t mine = executable_of();
        load_from("TEST_KERNELS", mine);
        CHECK(hsa_executable_freeze(mine, NULL));
        run(mine, queue, kernarg);
        CHECK(hsa_executable_destroy(mine));
    }
    CHECK(hsa_queue_destroy(queue));
    return NULL;
}

int main(int argc, char** argv) {
    EXPECT(argc == 3, "usage: loaders THREADS ROUNDS");
    int threads = atoi(argv[1]);
    rounds = atoi(argv[2]);
    EXPECT(threads > 0 && threads <= 64, "1 to 64 threads");
    start();

    hsa_executable_t late = executable_of(), other = executable_of();
    load_from("TEST_OTHER", late);
    CHECK(hsa_executable_freeze(other, NULL));
    CHECK(hsa_executable_destroy(other));
    load_from("TEST_KERNELS", late);
    CHECK(hsa_executable_freeze(late, NULL));
    run(late, queue_of(64, NULL, NULL), arguments());
    CHECK(hsa_executable_destroy(late));

    pthread_t thread[64];
    for (int i = 0; i < threads; ++i) EXPECT(!pthread_create(&thread[i], NULL, load_and_destroy, NULL), "no thread");
    for (int i = 0; i < threads; ++i) pthread_join(thread[i], NULL);
    printf("PASS\n");
    return 0;
}
