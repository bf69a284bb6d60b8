"""Compiles the kernels for a processor and writes them with their arguments and expected results: FOLDER ARCH.

The folder gets a code object for each case, `N.before` and `N.after` files, and `cases.json`, which says what is what;
and, for some, folders like Triton's own cache with the same kernel compiled otherwise.
"""

import dataclasses
import json
import os
import shutil
import struct
import sys
from pathlib import Path

import numpy as np
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

import kernels
from cases import CASES, INSTEAD, ONLY, Buffer

# Triton's names of NumPy's types.
TYPES = {
    "float16": "fp16",
    "float32": "fp32",
    "float64": "fp64",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
}
PACK = {"i32": "i", "i64": "q", "fp32": "f"}
# What is compiled otherwise: case, folder, constants, options. Nothing else: the case itself, as Triton keeps it.
OTHERWISE = [
    ("attention", "attention.stages", {}, {"num_stages": 3}),
    ("matmul_fp32_40x36x50", "matmul_fp32_40x36x50.stages", {}, {"num_stages": 1}),
    ("vector_add", "vector_add.blocks", {"BLOCK": 512}, {}),
    ("vector_add", "vector_add.blocks", {}, {}),
    ("vector_add", "vector_add.warps", {}, {"num_warps": 2}),
]


def compile_case(case, arch, options):
    fn = getattr(kernels, case.kernel)
    signature, attributes, constants = {}, {}, {}
    for index, name in enumerate(fn.arg_names):
        if index >= len(case.args):
            signature[name] = "constexpr"
            constants[name] = case.constants[name]
            continue
        argument = case.args[index]
        if isinstance(argument, Buffer):
            signature[name] = "*" + (argument.type or TYPES[argument.before.dtype.name])
            attributes[(index,)] = [["tt.divisibility", 16], ["tt.pointer_range", 32]]
        else:
            signature[name] = argument.type
    source = ASTSource(fn, signature, constants, attributes)
    return triton.compile(source, target=GPUTarget("hip", arch, 64), options={"num_warps": case.warps, **options})


def compile_otherwise(folder, case, arch, options):
    for _, name, constants, changed in (other for other in OTHERWISE if other[0] == case.name):
        os.environ["TRITON_CACHE_DIR"] = str(folder / name)
        compile_case(dataclasses.replace(case, constants=case.constants | constants), arch, options | changed)


def main():
    folder, arch = Path(sys.argv[1]), sys.argv[2]
    folder.mkdir(parents=True, exist_ok=True)
    # What other sources were compiled to would be one more kernel of a name.
    for _, name, _, _ in OTHERWISE:
        shutil.rmtree(folder / name, ignore_errors=True)
    # Said outright, since its default changes between versions.
    options = {"enable_fp_fusion": True}
    cache = os.environ["TRITON_CACHE_DIR"]
    described = []
    instead = INSTEAD.get(arch, {})
    for case in [instead.get(case.name, case) for case in CASES] + ONLY.get(arch, []):
        compiled = compile_case(case, arch, options)
        (folder / f"{case.name}.hsaco").write_bytes(compiled.asm["hsaco"])
        (folder / f"{case.name}.llir").write_text(compiled.asm["llir"])
        args = []
        for number, argument in enumerate(case.args):
            if not isinstance(argument, Buffer):
                args.append({"value": list(struct.pack(PACK[argument.type], argument.number))})
                continue
            after = argument.before if argument.after is None else argument.after
            assert after.dtype == argument.before.dtype and after.shape == argument.before.shape, (case.name, number)
            for suffix, array in (("before", argument.before), ("after", after)):
                (folder / f"{case.name}.{number}.{suffix}").write_bytes(np.ascontiguousarray(array).tobytes())
            kind = argument.before.dtype
            args.append({"buffer": number, "float": kind.kind == "f", "size": kind.itemsize, "near": argument.near})
        metadata = compiled.metadata
        # The last two arguments are scratch memory for those kernels that want some: null.
        args += [{"value": [0] * 8}] * 2
        assert metadata.global_scratch_size == 0 and metadata.profile_scratch_size == 0, case.name
        threads = metadata.num_warps * metadata.warp_size
        launch = {"kernel": metadata.name, "grid": case.grid, "threads": threads, "shared": metadata.shared}
        described.append({"name": case.name, **launch, "args": args})
        compile_otherwise(folder, case, arch, options)
        os.environ["TRITON_CACHE_DIR"] = cache
    (folder / "cases.json").write_text(json.dumps(described, indent=1))


main()
