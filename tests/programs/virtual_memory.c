// Memory that the application maps itself: two handles, one behind the other at reserved addresses, and a kernel that works on
// the end of one and the beginning of the next. With `twice`, one handle is at both addresses: a ring that wraps by itself.
#include "hsa_check.h"

enum { WORDS = 512 };

static void copy(void* to, const void* from, size_t bytes) {
    hsa_signal_t done = signal_of(1);
    CHECK(hsa_amd_memory_async_copy(to, gpu, from, gpu, bytes, 0, NULL, done));
    wait_for_signal(done);
    CHECK(hsa_signal_destroy(done));
}

int main(int argc, char** argv) {
    const int twice = argc > 1 && !strcmp(argv[1], "twice");
    start();
    load();
    hsa_queue_t* queue = queue_of(64, NULL, NULL);
    size_t granule = 0;
    CHECK(hsa_amd_memory_pool_get_info(vram, HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_REC_GRANULE, &granule));
    void* range = NULL;
    CHECK(hsa_amd_vmem_address_reserve(&range, 2 * granule, 0, 0));
    hsa_amd_vmem_alloc_handle_t handle;
    for (int half = 0; half < 2; half++) {
        if (half == 0 || !twice) CHECK(hsa_amd_vmem_handle_create(vram, granule, MEMORY_TYPE_NONE, 0, &handle));
        CHECK(hsa_amd_vmem_map((char*)range + half * granule, granule, 0, handle, 0));
    }
    const hsa_amd_memory_access_desc_t access = {HSA_ACCESS_PERMISSION_RW, gpu};
    CHECK(hsa_amd_vmem_set_access(range, 2 * granule, &access, 1));

    unsigned* words = allocate(host, WORDS * sizeof *words);
    for (unsigned i = 0; i < WORDS; i++) words[i] = 7 * i + 1;
    unsigned* seam = (unsigned*)((char*)range + granule) - WORDS / 2;
    copy(seam, words, WORDS * sizeof *words);

    void** kernarg = allocate(kernarg_pool, 4096);
    *kernarg = seam;
    hsa_signal_t done = signal_of(1);
    dispatch(queue, kernel("increment"), WORDS / 64, kernarg, done);
    wait_for_signal(done);
    // The same memory by its other address, if it has one: the end of the ring, and its beginning.
    if (twice) {
        copy(words, (char*)range + 2 * granule - WORDS / 2 * sizeof *words, WORDS / 2 * sizeof *words);
        copy(words + WORDS / 2, range, WORDS / 2 * sizeof *words);
    } else {
        copy(words, seam, WORDS * sizeof *words);
    }
    for (unsigned i = 0; i < WORDS; i++) EXPECT(words[i] == 7 * i + 2, "word %u is %u", i, words[i]);
    printf("PASS\n");
}
