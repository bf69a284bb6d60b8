// What goes wrong on a GPU reaches the application as it does on hardware.
//   errors illegal|trap|fault|lds|type|vendor
// Prints the status that the queue's callback or the system event handler was called with.
#include "hsa_check.h"

static hsa_queue_t* queue;
static volatile int reported;

static void on_queue_error(hsa_status_t status, hsa_queue_t* source, void* data) {
    printf("queue error %#x\n", status);
    EXPECT(source == queue, "the callback got another queue than the application's");
    EXPECT(data == &queue, "the callback did not get the application's data");
    reported = 1;
}

static hsa_status_t on_event(const hsa_amd_event_t* event, void* data) {
    (void)data;
    EXPECT(event->event_type == HSA_AMD_GPU_MEMORY_FAULT_EVENT, "an event of type %d", event->event_type);
    printf("memory fault at %#lx\n", (unsigned long)event->memory_fault.virtual_address);
    reported = 1;
    return HSA_STATUS_SUCCESS;
}

int main(int argc, char** argv) {
    EXPECT(argc == 2, "usage: errors illegal|trap|fault|lds|type|vendor");
    const char* mode = argv[1];
    start();
    load();
    CHECK(hsa_amd_register_system_event_handler(on_event, NULL));
    queue = queue_of(64, on_queue_error, &queue);
    uint32_t** kernarg = allocate(kernarg_pool, sizeof(void*));
    *kernarg = allocate(host, 64 * sizeof(uint32_t));
    dispatch(queue, kernel("increment"), 1, kernarg, NO_SIGNAL);
    drain(queue);
    printf("one kernel ran\n");
    if (!strcmp(mode, "illegal")) {
        dispatch(queue, kernel("illegal"), 1, NULL, NO_SIGNAL);
    } else if (!strcmp(mode, "trap")) {
        dispatch(queue, kernel("give_up"), 1, NULL, NO_SIGNAL);
    } else if (!strcmp(mode, "fault")) {
        uint64_t* bad = allocate(kernarg_pool, sizeof(uint64_t));
        *bad = 0x123456789000;
        dispatch(queue, kernel("write_to"), 1, bad, NO_SIGNAL);
    } else if (!strcmp(mode, "lds")) {
        hsa_kernel_dispatch_packet_t packet = packet_of(kernel("empty"), 1, NULL, NO_SIGNAL);
        packet.group_segment_size = 1 << 20;
        submit(queue, &packet, header_of(HSA_PACKET_TYPE_KERNEL_DISPATCH, true));
    } else if (!strcmp(mode, "type")) {
        hsa_kernel_dispatch_packet_t packet = packet_of(kernel("empty"), 1, NULL, NO_SIGNAL);
        submit(queue, &packet, header_of((hsa_packet_type_t)77, true));
    } else if (!strcmp(mode, "vendor")) {
        // A format that no runtime has: the second half-word.
        hsa_kernel_dispatch_packet_t packet = packet_of(kernel("empty"), 1, NULL, NO_SIGNAL);
        packet.setup = 9;
        submit(queue, &packet, header_of(HSA_PACKET_TYPE_VENDOR_SPECIFIC, true));
    } else {
        EXPECT(false, "no mode %s", mode);
    }
    for (int i = 0; i < 5000 && !reported; ++i) usleep(1000);
    EXPECT(reported, "nothing was reported");
    printf("PASS\n");
    fflush(stdout);
    return 0;
}
