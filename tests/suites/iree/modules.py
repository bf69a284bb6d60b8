"""Modules that IREE compiles for the GPU, run and compared with NumPy, recorded by IREE itself and replayed by it.

Without an argument the names of the tests are printed, one a line; with a name that test is run.
"""

import glob
import os
import subprocess
import sys
import tempfile
import time

import numpy as np

ARCH = "gfx90a"
# A tool takes about a second.
SECONDS = 60

MATMUL = """
func.func @main(%a: tensor<70x33xTYPE>, %b: tensor<33x50xTYPE>) -> tensor<70x50xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<70x50xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<70x50xf32>) -> tensor<70x50xf32>
  %r = linalg.matmul ins(%a, %b : tensor<70x33xTYPE>, tensor<33x50xTYPE>) outs(%init : tensor<70x50xf32>)
    -> tensor<70x50xf32>
  return %r : tensor<70x50xf32>
}
"""

SOFTMAX = """
func.func @main(%a: tensor<16x130xf32>) -> tensor<16x130xf32> {
  %empty = tensor.empty() : tensor<16x130xf32>
  %r = linalg.softmax dimension(1) ins(%a : tensor<16x130xf32>) outs(%empty : tensor<16x130xf32>) -> tensor<16x130xf32>
  return %r : tensor<16x130xf32>
}
"""

ELEMENTWISE = """
func.func @main(%a: tensor<1000xf32>, %b: tensor<1000xf32>) -> tensor<1000xf32> {
  %product = arith.mulf %a, %b : tensor<1000xf32>
  %power = math.exp %product : tensor<1000xf32>
  %r = arith.subf %power, %a : tensor<1000xf32>
  return %r : tensor<1000xf32>
}
"""

CONVOLUTION = """
func.func @main(%a: tensor<1x12x12x4xf32>, %b: tensor<3x3x4x8xf32>) -> tensor<1x10x10x8xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<1x10x10x8xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<1x10x10x8xf32>) -> tensor<1x10x10x8xf32>
  %r = linalg.conv_2d_nhwc_hwcf {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>}
    ins(%a, %b : tensor<1x12x12x4xf32>, tensor<3x3x4x8xf32>) outs(%init : tensor<1x10x10x8xf32>)
    -> tensor<1x10x10x8xf32>
  return %r : tensor<1x10x10x8xf32>
}
"""


def softmax(a):
    powers = np.exp(a - a.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def convolution(a, b):
    windows = np.lib.stride_tricks.sliding_window_view(a, (3, 3), axis=(1, 2))
    return np.einsum("nhwcij,ijco->nhwo", windows, b)


def matmul(a, b):
    return a.astype(np.float32) @ b.astype(np.float32)


# Of each module: its source, the shapes and the type of its inputs, what NumPy computes, how near that has to be.
MODULES = {
    "matmul f32": (MATMUL.replace("TYPE", "f32"), [(70, 33), (33, 50)], np.float32, matmul, 1e-4),
    "matmul f16": (MATMUL.replace("TYPE", "f16"), [(70, 33), (33, 50)], np.float16, matmul, 1e-3),
    "softmax": (SOFTMAX, [(16, 130)], np.float32, softmax, 1e-5),
    "elementwise": (ELEMENTWISE, [(1000,), (1000,)], np.float32, lambda a, b: np.exp(a * b) - a, 1e-4),
    "convolution": (CONVOLUTION, [(1, 12, 12, 4), (3, 3, 4, 8)], np.float32, convolution, 1e-4),
}
# What a recorded module is given to.
REPLAYS = {"replay": ["iree-run-replay"], "benchmark": ["iree-benchmark-replay", "--benchmark_min_time=3x"]}
TESTS = list(MODULES) + [f"{word} of {name}" for word in REPLAYS for name in ["matmul f32", "softmax"]]


def tool(name):
    place = os.environ["SUITE_FOLDER"]
    [program] = glob.glob(f"{place}/python/lib/python3*/site-packages/iree/_runtime_libs/{name}")
    return [f"{place}/run", program, "--device=hip", f"--hip_dylib_path={os.environ['ROCM_PATH']}/lib"]


def run(command):
    name = os.path.basename(command[1])
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        raise SystemExit(f"failed {name}: it had not ended after {SECONDS} s") from None
    if done.returncode != 0:
        print(done.stdout, done.stderr)
        raise SystemExit(f"failed {name}: status {done.returncode}")


def compile_module(source, output):
    # The compiler has no use for a GPU.
    alone = {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "HSA_TOOLS_LIB")}
    [program] = glob.glob(f"{os.environ['SUITE_FOLDER']}/python/bin/iree-compile")
    options = ["--iree-hal-target-device=hip", f"--iree-rocm-target={ARCH}", "-", "-o", output]
    subprocess.run([program, *options], input=source, text=True, env=alone, check=True)


def main():
    if len(sys.argv) == 1:
        print("\n".join(TESTS))
        return
    test = sys.argv[1]
    replay, _, name = test.rpartition(" of ")
    source, shapes, kind, expect, near = MODULES[name]
    random = np.random.default_rng(5)
    inputs = [random.standard_normal(shape).astype(kind) for shape in shapes]
    with tempfile.TemporaryDirectory() as folder:
        module, output, record = (os.path.join(folder, file) for file in ["module.vmfb", "output.npy", "run.ireereplay"])
        compile_module(source, module)
        options = []
        for number, values in enumerate(inputs):
            file = os.path.join(folder, f"input{number}.npy")
            np.save(file, values)
            options.append(f"--input=@{file}")
        if replay:
            options.append(f"--device_replay_output={record}")
        run(tool("iree-run-module") + [f"--module={module}", "--function=main", *options, f"--output=@{output}"])
        found, expected = np.load(output), expect(*inputs)
        if replay:
            [program, *more] = REPLAYS[replay]
            start = time.monotonic()
            run(tool(program) + [*more, record])
            seconds = time.monotonic() - start
            print(f"measured {program}: {os.path.getsize(record)} bytes recorded, {seconds:.2f} s; it compares no memory with what was recorded")
    if not np.allclose(found, expected, rtol=near, atol=near):
        print(f"failed {test}: differs from NumPy by {np.abs(found - expected).max()}")
    else:
        print(f"passed {test}")


main()
