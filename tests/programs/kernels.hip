// Kernels for the programs that use the HSA interface directly, compiled to a bare code object.
#include <hip/hip_runtime.h>

#define KERNEL extern "C" __global__ void __launch_bounds__(64)
#define INDEX (__builtin_amdgcn_workgroup_id_x() * 64 + __builtin_amdgcn_workitem_id_x())

// Nothing at all.
KERNEL empty() {}

// One more for every work-item's word.
KERNEL increment(unsigned* words) { words[INDEX] += 1; }

// Spins until a word is no longer zero: a kernel that the host ends.
KERNEL wait_for(volatile unsigned* flag) {
    while (*flag == 0) __builtin_amdgcn_s_sleep(1);
}

// Writes where the host says.
KERNEL write_to(unsigned* where) { where[INDEX] = INDEX; }

// Adds what the elements of a list have, into the first.
struct Element {
    Element* next;
    unsigned long long value;
};
KERNEL chase(Element* first) {
    if (__builtin_amdgcn_workitem_id_x() != 0) return;
    unsigned long long sum = 0;
    for (Element* element = first; element != nullptr; element = element->next) sum += element->value;
    first->value = sum;
}

// A word that is no instruction.
KERNEL illegal() { asm volatile(".long 0xffffffff"); }

// What a compiler makes of a failed assertion.
KERNEL give_up() { __builtin_trap(); }

// Needs all of the LDS that it is given.
KERNEL use_lds(unsigned* out) {
    extern __shared__ unsigned words[];
    unsigned lane = __builtin_amdgcn_workitem_id_x();
    words[lane] = lane;
    __syncthreads();
    out[INDEX] = words[63 - lane];
}

// One more in a word, whatever the grid.
KERNEL tally(unsigned* word) {
    if (INDEX == 0) __hip_atomic_fetch_add(word, 1u, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}

// Hands on what is in its words, in those 1 MiB behind, and leaves nothing.
KERNEL hand_on(unsigned* words) {
    words[INDEX + (1 << 18)] = words[INDEX] * 3;
    words[INDEX] = 0;
}

// Writes AQL packets of one slot each, the headers last.
struct Packets {
    const unsigned* from;
    unsigned* slots;
    unsigned long count;
    // A write index to add them to, or null.
    unsigned long* index;
};
KERNEL write_packets(Packets packets) {
    if (INDEX != 0) return;
    for (unsigned long n = 0; n < packets.count; n++) {
        for (unsigned word = 1; word < 16; word++) packets.slots[16 * n + word] = packets.from[16 * n + word];
    }
    __threadfence_system();
    for (unsigned long n = 0; n < packets.count; n++) {
        __hip_atomic_store(packets.slots + 16 * n, packets.from[16 * n], __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
    }
    __threadfence_system();
    if (packets.index) __hip_atomic_fetch_add(packets.index, packets.count, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}

// Waits until as many kernels as the second word says are here: ends only if they run together.
KERNEL meet(unsigned* words) {
    if (INDEX == 0) __hip_atomic_fetch_add(words, 1u, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
    while (((volatile unsigned*)words)[0] < words[1]) __builtin_amdgcn_s_sleep(1);
}

// Counts for ever in a word of each workgroup: a kernel that ends with its queue.
KERNEL count_on(unsigned* words) {
    volatile unsigned* word = words + __builtin_amdgcn_workgroup_id_x();
    for (;;) *word += 1;
}

// Tells the time: another one each time.
KERNEL tell_time(unsigned* word) {
    if (INDEX == 0) *word = (unsigned)__builtin_readcyclecounter();
}
