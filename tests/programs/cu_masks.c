// Masks of compute units: what a queue is given is what it has, and its kernels run with it.
//   cu_masks tells     the runtime tells a queue's mask
//   cu_masks forgets   it tells the one that the queue began with
#include "hsa_check.h"

enum { WORDS = 32 };

static uint32_t units;
static bool forgets;

// The bits of a mask's word that stand for units of the GPU.
static uint32_t there(int word) {
    const uint32_t before = 32u * word;
    if (units <= before) return 0;
    return units - before >= 32 ? ~0u : (1u << (units - before)) - 1;
}

static void expect_mask(hsa_queue_t* queue, const uint32_t* mask, const char* what) {
    uint32_t found[WORDS];
    memset(found, 0x55, sizeof found);
    CHECK(hsa_amd_queue_cu_get_mask(queue, 32 * WORDS, found));
    for (int i = 0; i < WORDS; i++)
        EXPECT(found[i] == (mask[i] & there(i)), "%s: word %d is %x, expected %x", what, i, found[i], mask[i] & there(i));
}

// Runs workgroups on a queue, whose work-items count words up.
static void run(hsa_queue_t* queue, unsigned workgroups, void* kernarg) {
    hsa_signal_t done = signal_of(1);
    dispatch(queue, kernel("increment"), workgroups, kernarg, done);
    wait_for_signal(done);
    CHECK(hsa_signal_destroy(done));
}

int main(int argc, char** argv) {
    EXPECT(argc == 2, "expected tells or forgets");
    forgets = !strcmp(argv[1], "forgets");
    start();
    load();
    CHECK(hsa_agent_get_info(gpu, (hsa_agent_info_t)HSA_AMD_AGENT_INFO_COMPUTE_UNIT_COUNT, &units));
    hsa_queue_t* queue = queue_of(64, NULL, NULL);
    hsa_queue_t* other = queue_of(64, NULL, NULL);
    uint32_t all[WORDS], low[WORDS] = {0}, one[WORDS] = {0}, last[WORDS] = {0}, odd[WORDS], behind[WORDS];
    memset(all, 0xff, sizeof all);
    memset(odd, 0xaa, sizeof odd);
    low[0] = 0xff;
    one[0] = 1;
    last[(units - 1) / 32] = 1u << (units - 1) % 32;
    for (int i = 0; i < WORDS; i++) behind[i] = ~there(i);
    expect_mask(queue, all, "of a new queue");

    unsigned* words = allocate(host, 64 * 64 * sizeof *words);
    void* kernarg = kernarg_of(words);
    unsigned runs = 0;
    // How many workgroups run with the mask: each die takes every n-th, so that with one unit only the first die's end.
    const struct {
        const char* name;
        const uint32_t* mask;
        unsigned workgroups;
    } masks[] = {{"eight units", low, 64}, {"all again", all, 64}, {"one unit", one, 1}, {"the last unit", last, 0},
                 {"every second one", odd, 0}, {"none that is there", behind, 0}, {"eight again", low, 64}};
    for (unsigned i = 0; i < sizeof masks / sizeof *masks; i++) {
        const hsa_status_t status = hsa_amd_queue_cu_set_mask(queue, 32 * WORDS, masks[i].mask);
        // Bits of units that are not there are taken away, which some runtimes tell.
        EXPECT(status == HSA_STATUS_SUCCESS || status == (hsa_status_t)HSA_STATUS_CU_MASK_REDUCED, "%s: status %x", masks[i].name,
               status);
        expect_mask(queue, forgets ? all : masks[i].mask, masks[i].name);
        expect_mask(other, all, "of the other queue");
        if (masks[i].workgroups) run(queue, masks[i].workgroups, kernarg);
        runs += masks[i].workgroups > 0;
    }
    // A mask of no words is that of a new queue.
    CHECK(hsa_amd_queue_cu_set_mask(queue, 0, NULL));
    expect_mask(queue, all, "of a queue without a mask");
    run(queue, 64, kernarg);
    EXPECT(words[0] == runs + 1, "word 0 is %u, expected %u", words[0], runs + 1);
    EXPECT(hsa_amd_queue_cu_set_mask(queue, 31, all) == HSA_STATUS_ERROR_INVALID_ARGUMENT, "31 bits are a mask");
    CHECK(hsa_queue_destroy(queue));
    CHECK(hsa_queue_destroy(other));
    printf("%u units\nPASS\n", units);
    CHECK(hsa_shut_down());
    return 0;
}
