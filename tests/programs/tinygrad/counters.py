"""The performance counters that tinygrad's profiler reads of the AMD device, compared with the sizes of the kernels that it launches.

The environment has PROFILE=1, PMC=1, and the names of the counters in PMC_COUNTERS.
"""

import struct

import numpy as np
from tinygrad import Device, Tensor, dtypes
from tinygrad.codegen import to_program
from tinygrad.device import Buffer, Compiled
from tinygrad.engine.realize import get_runtime

# What a workgroup of so many work-items adds to a counter.
COUNTERS = {
    "SQ_WAVES": lambda items: -(-items // 64),
    "SQ_WAVES_EQ_64": lambda items: items // 64,
    "SQ_WAVES_LT_64": lambda items: int(items % 64 != 0),
    "SQ_WAVES_LT_16": lambda items: int(0 < items % 64 < 16),
    "SQ_ITEMS": lambda items: items,
}


def counted():
    """The sums of the last kernel's counters, and how many shader engines have counted something."""
    event = [event for event in Compiled.profile_events if type(event).__name__ == "ProfilePMCEvent"][-1]
    each = {sample.name: struct.unpack_from(f"<{sample.size // 8}Q", event.blob, sample.off) for sample in event.sched}
    return {name: sum(values) for name, values in each.items()}, sum(1 for value in each["SQ_WAVES"] if value)


def main():
    device = Device[Device.DEFAULT]
    a = Tensor(np.arange(1 << 16, dtype=np.float32)).contiguous().realize()
    b = a * 3 + 1
    program = to_program(b.schedule_linear().src[-1].src[0], device.renderer)
    runtime = get_runtime(device.device, program)
    to = Buffer(Device.DEFAULT, 1 << 16, dtypes.float).ensure_allocated()
    groups, local = program.arg.global_size[0], program.arg.local_size
    runtime(to._buf, a.uop.buffer._buf, global_size=tuple(program.arg.global_size), local_size=tuple(local), wait=True)
    expect = (np.arange(1 << 16, dtype=np.float32) * 3 + 1).astype(np.float32)
    assert np.array_equal(to.numpy(), expect)
    for size in [groups, groups - 1, 3, 1]:
        # More work-items than the kernel is made for would reach behind the arrays.
        for items in sorted({1, 5, 17, local[0]} & set(range(local[0] + 1))):
            runtime(to._buf, a.uop.buffer._buf, global_size=(size, 1, 1), local_size=(items, 1, 1), wait=True)
            found, engines = counted()
            wanted = {name: size * adds(items) for name, adds in COUNTERS.items()}
            assert found == wanted, (size, items, found, wanted)
            # Each of the eight dies has some.
            assert engines == size if size < 8 else engines >= 8, (size, engines)
    print(f"passed counters on {Device.DEFAULT}")


main()
