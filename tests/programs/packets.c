// Packets of every type and with every bit that a producer may set. Prints a line "sent INDEX WORDS" for each, the
// sixteen dwords in hexadecimal as they were written into the ring.
//   packets all|agent [SLOTS]
#include "hsa_check.h"

static hsa_queue_t* queue;
static uint64_t sent;
static volatile int reported;

static void on_error(hsa_status_t status, hsa_queue_t* source, void* data) {
    EXPECT(source == queue && data == &sent, "the callback got another queue or other data");
    printf("queue error %#x\n", status);
    reported = 1;
}

// Waits for a signal to come down to a value.
static void finish(hsa_signal_t signal, hsa_signal_value_t value) {
    hsa_signal_value_t seen = hsa_signal_wait_scacquire(signal, HSA_SIGNAL_CONDITION_EQ, value, UINT64_MAX, HSA_WAIT_STATE_ACTIVE);
    EXPECT(seen == value, "the signal is %ld, not %ld", seen, value);
    CHECK(hsa_signal_destroy(signal));
}

// Gives a packet of 64 bytes to the GPU and says what it is. The field that all formats have at byte 48 is the producer's
// own: it numbers the packets.
static void send(void* packet, uint16_t header) {
    uint32_t words[16];
    memcpy(words, packet, sizeof words);
    words[0] = header | (words[0] & 0xffff0000);
    words[12] = (uint32_t)++sent;
    words[13] = 0xc0ffee00;
    uint64_t index = reserve(queue);
    printf("sent %lu ", index);
    for (int i = 0; i < 16; ++i) printf("%08x", words[i]);
    printf("\n");
    fill(queue, index, words, header);
    hsa_signal_store_screlease(queue->doorbell_signal, (hsa_signal_value_t)index);
}

static uint16_t header_bits(int type, int barrier, int acquire, int release) {
    return (uint16_t)(type << HSA_PACKET_HEADER_TYPE | barrier << HSA_PACKET_HEADER_BARRIER |
                      acquire << HSA_PACKET_HEADER_SCACQUIRE_FENCE_SCOPE |
                      release << HSA_PACKET_HEADER_SCRELEASE_FENCE_SCOPE);
}

static void dispatches(uint64_t object) {
    hsa_signal_t done[54];
    int count = 0;
    for (int bits = 0; bits < 2 * 3 * 3 * 3 * 2; ++bits) {
        const int barrier_bit = bits & 1, with_signal = bits >> 1 & 1, rest = bits >> 2;
        const int acquire = rest % 3, release = rest / 3 % 3, dimensions = rest / 9 % 3 + 1;
        // A signal for each: one that several share is another story.
        if (with_signal) done[count] = signal_of(1);
        hsa_kernel_dispatch_packet_t packet = packet_of(object, 1, NULL, with_signal ? done[count] : NO_SIGNAL);
        packet.setup = (uint16_t)dimensions;
        packet.workgroup_size_x = 16;
        if (dimensions > 1) packet.workgroup_size_y = 2;
        if (dimensions > 2) packet.workgroup_size_z = 2;
        packet.grid_size_x = 33;
        if (dimensions > 1) packet.grid_size_y = 3;
        if (dimensions > 2) packet.grid_size_z = 2;
        packet.group_segment_size = 256u * (uint32_t)(bits % 5);
        packet.kernarg_address = (void*)(uintptr_t)(0x1000 + 16 * bits);
        send(&packet, header_bits(HSA_PACKET_TYPE_KERNEL_DISPATCH, barrier_bit, acquire, release));
        count += with_signal;
    }
    for (int i = 0; i < count; ++i) finish(done[i], 0);
}

static void barriers(hsa_packet_type_t type, uint64_t object) {
    hsa_signal_t zero = signal_of(0), done = signal_of(1 << 20);
    int count = 0;
    for (int bits = 0; bits < 6 * 4; ++bits) {
        hsa_barrier_and_packet_t packet = {0};
        for (int i = 0; i < bits / 4; ++i) packet.dep_signal[4 - i] = zero;
        if (bits & 2) packet.completion_signal = done;
        count += bits >> 1 & 1;
        send(&packet, header_bits(type, bits & 1, bits % 3, 2 - bits % 3));
    }
    // On kernels that are in flight, with signals of their own.
    hsa_barrier_and_packet_t packet = {0};
    for (int i = 0; i < 3; ++i) {
        hsa_kernel_dispatch_packet_t kernel_packet = packet_of(object, 1, NULL, packet.dep_signal[i] = signal_of(1));
        send(&kernel_packet, header_bits(HSA_PACKET_TYPE_KERNEL_DISPATCH, 0, 2, 2));
    }
    packet.completion_signal = done;
    send(&packet, header_bits(type, 0, 2, 2));
    finish(done, (1 << 20) - count - 1);
}

// AMD's barrier: a signal, a mask, a reference and a condition.
static void barrier_values(void) {
    hsa_signal_t seven = signal_of(0x17), done = signal_of(1 << 20);
    const struct {
        hsa_signal_condition32_t condition;
        hsa_signal_value_t value, mask;
    } cases[] = {
        {HSA_SIGNAL_CONDITION_EQ, 7, 0xf}, {HSA_SIGNAL_CONDITION_NE, 8, -1},    {HSA_SIGNAL_CONDITION_LT, 8, 0xf},
        {HSA_SIGNAL_CONDITION_GTE, 7, 0xf}, {HSA_SIGNAL_CONDITION_GTE, -9, -1},
    };
    const int count = sizeof cases / sizeof *cases;
    for (int i = 0; i < 2 * count; ++i) {
        hsa_amd_barrier_value_packet_t packet = {0};
        packet.header.AmdFormat = HSA_AMD_PACKET_TYPE_BARRIER_VALUE;
        packet.signal = seven;
        packet.cond = cases[i / 2].condition;
        packet.value = cases[i / 2].value;
        packet.mask = cases[i / 2].mask;
        if (i & 1) packet.completion_signal = done;
        send(&packet, header_bits(HSA_PACKET_TYPE_VENDOR_SPECIFIC, i % 4 == 0, 2, 1));
    }
    finish(done, (1 << 20) - count);
}

int main(int argc, char** argv) {
    EXPECT(argc == 2 || argc == 3, "usage: packets all|agent [SLOTS]");
    start();
    load();
    queue = queue_of(argc == 3 ? (uint32_t)atoi(argv[2]) : 64, on_error, &sent);
    const uint64_t empty = kernel("empty");
    if (!strcmp(argv[1], "agent")) {
        hsa_kernel_dispatch_packet_t before = packet_of(empty, 1, NULL, NO_SIGNAL);
        send(&before, header_bits(HSA_PACKET_TYPE_KERNEL_DISPATCH, 1, 2, 2));
        drain(queue);
        hsa_agent_dispatch_packet_t packet = {.type = 0x8001, .arg = {1, 2, 3, 4}};
        packet.completion_signal = signal_of(1);
        send(&packet, header_bits(HSA_PACKET_TYPE_AGENT_DISPATCH, 1, 2, 2));
        while (!reported && hsa_signal_load_scacquire(packet.completion_signal)) usleep(100);
    } else {
        dispatches(empty);
        barriers(HSA_PACKET_TYPE_BARRIER_AND, empty);
        barriers(HSA_PACKET_TYPE_BARRIER_OR, empty);
        barrier_values();
        EXPECT(!reported, "an error of the queue");
    }
    printf("PASS\n");
    fflush(stdout);
    if (!reported) {
        CHECK(hsa_queue_destroy(queue));
        CHECK(hsa_shut_down());
    }
    return 0;
}
