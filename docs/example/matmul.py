"""The application of the notebook: a matrix product in Triton's language, launched with HIP.

`python matmul.py gfx90a` compiles it for a processor and runs it once. It needs no PyTorch: it calls HIP's functions.
"""

import ctypes
import ctypes.util
import os
import sys

# Triton warns if it is not set.
os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")

import numpy as np
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

M, N, K = 96, 64, 128
CAPTURED = {"BM": 32, "BN": 32, "BK": 32, "num_warps": 4}


@triton.jit
def matmul(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, k, BK):
        along = start + tl.arange(0, BK)
        left = tl.load(a + rows[:, None] * k + along[None, :], mask=rows[:, None] < m, other=0.0)
        right = tl.load(b + along[:, None] * n + columns[None, :], mask=columns[None, :] < n, other=0.0)
        total = tl.dot(left, right, total)
    tl.store(c + rows[:, None] * n + columns[None, :], total, mask=(rows[:, None] < m) & (columns[None, :] < n))


def variant(arch, BM, BN, BK, num_warps):
    """The kernel for a processor with some tiles: code, grid and workgroup in work-items, and LDS in bytes."""
    signature = {"a": "*fp16", "b": "*fp16", "c": "*fp32", "m": "i32", "n": "i32", "k": "i32"}
    signature.update(BM="constexpr", BN="constexpr", BK="constexpr")
    source = ASTSource(matmul, signature, {"BM": BM, "BN": BN, "BK": BK})
    compiled = triton.compile(source, target=GPUTarget("hip", arch, 64), options={"num_warps": num_warps})
    threads = num_warps * 64
    grid = (triton.cdiv(M, BM) * threads, triton.cdiv(N, BN))
    return {"hsaco": compiled.asm["hsaco"], "grid": grid, "workgroup": (threads, 1), "lds": compiled.metadata.shared}


def run(hsaco, grid, workgroup, lds):
    """Runs the kernel once: both matrices, and their product."""
    hip = ctypes.CDLL(ctypes.util.find_library("amdhip64"))

    def call(name, *arguments):
        status = getattr(hip, name)(*arguments)
        assert status == 0, f"{name}: status {status}"

    version = ctypes.c_int()
    call("hipRuntimeGetVersion", ctypes.byref(version))
    if version.value < 60_000_000:
        # Old HIPs read version 4 of code objects. It differs in hidden arguments only, and this kernel has none.
        hsaco = hsaco[:8] + b"\x02" + hsaco[9:]
    random = np.random.default_rng(1)
    a, b = (random.standard_normal(shape).astype(np.float16) for shape in ((M, K), (K, N)))
    c = np.zeros((M, N), np.float32)
    pointers = []
    for array in (a, b, c):
        pointers.append(ctypes.c_void_p())
        call("hipMalloc", ctypes.byref(pointers[-1]), ctypes.c_size_t(array.nbytes))
        call("hipMemcpy", pointers[-1], array.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(array.nbytes), 1)
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    call("hipModuleLoadData", ctypes.byref(module), hsaco)
    call("hipModuleGetFunction", ctypes.byref(function), module, b"matmul")
    # The last two point to scratch memory, which this kernel does not need.
    values = [*pointers, ctypes.c_int(M), ctypes.c_int(N), ctypes.c_int(K), ctypes.c_void_p(), ctypes.c_void_p()]
    arguments = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
    groups = [size // per for size, per in zip(grid, workgroup)]
    call("hipModuleLaunchKernel", function, *groups, 1, *workgroup, 1, lds, None, arguments, None)
    call("hipDeviceSynchronize")
    call("hipMemcpy", c.ctypes.data_as(ctypes.c_void_p), pointers[2], ctypes.c_size_t(c.nbytes), 2)
    return a, b, c


if __name__ == "__main__":
    a, b, c = run(**variant(sys.argv[1], **CAPTURED))
    print("largest error:", abs(a.astype(np.float32) @ b.astype(np.float32) - c).max())
