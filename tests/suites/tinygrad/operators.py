"""Operators of tinygrad on the device that DEV names, compared with NumPy.

Without an argument the names of the tests are printed, one a line; with a name that test is run.
"""

import sys

import numpy as np


def numbers(*shape, kind=np.float32):
    return np.random.default_rng(7).standard_normal(shape).astype(kind)


def softmax(values):
    powers = np.exp(values - values.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def convolution(image, kernel):
    windows = np.lib.stride_tricks.sliding_window_view(image, kernel.shape[2:], axis=(2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, kernel)


def layer_norm(values):
    centred = values - values.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + 1e-5)


# Of each test: the inputs, what tinygrad computes, what NumPy computes, and how near they have to be.
TESTS = {
    "elementwise": (lambda: [numbers(77, 33), numbers(33)], lambda a, b: (a * b + a).relu().exp(),
                    lambda a, b: np.exp(np.maximum(a * b + a, 0)), 1e-5),
    "integers": (lambda: [np.arange(4096, dtype=np.int32), np.arange(1, 4097, dtype=np.int32)],
                 lambda a, b: (a * 77 + 5) // b ^ a, lambda a, b: (a * 77 + 5) // b ^ a, 0),
    "matmul f32": (lambda: [numbers(65, 48), numbers(48, 40)], lambda a, b: a @ b, lambda a, b: a @ b, 1e-4),
    "matmul f16": (lambda: [numbers(64, 64, kind=np.float16), numbers(64, 64, kind=np.float16)], lambda a, b: a @ b,
                   lambda a, b: (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16), 3e-2),
    "sum of rows": (lambda: [numbers(50, 700)], lambda a: a.sum(axis=1), lambda a: a.sum(axis=1), 1e-3),
    "softmax": (lambda: [numbers(20, 129)], lambda a: a.softmax(), softmax, 1e-5),
    "convolution": (lambda: [numbers(2, 3, 14, 14), numbers(4, 3, 3, 3)], lambda a, b: a.conv2d(b), convolution, 1e-4),
    "layer norm": (lambda: [numbers(16, 100)], lambda a: a.layernorm(), layer_norm, 1e-4),
    "cumulative sum": (lambda: [numbers(900)], lambda a: a.cumsum(), np.cumsum, 1e-3),
    "largest": (lambda: [numbers(40, 90)], lambda a: a.argmax(axis=1), lambda a: a.argmax(axis=1), 0),
    "gather": (lambda: [numbers(100, 8), np.arange(0, 100, 3, dtype=np.int32)], lambda a, i: a[i],
               lambda a, i: a[i], 0),
    "sort": (lambda: [numbers(256)], lambda a: a.sort()[0], np.sort, 0),
}


def main():
    if len(sys.argv) == 1:
        print("\n".join(TESTS))
        return
    from tinygrad import Device, Tensor

    name = sys.argv[1]
    make, compute, expect, near = TESTS[name]
    inputs = make()
    found = compute(*[Tensor(value) for value in inputs]).numpy()
    expected = expect(*inputs)
    if found.shape != expected.shape:
        print(f"failed {name}: shape {found.shape}, expected {expected.shape}")
    elif not np.allclose(found.astype(np.float64), expected.astype(np.float64), rtol=near, atol=near):
        worst = np.abs(found.astype(np.float64) - expected.astype(np.float64)).max()
        print(f"failed {name}: differs from NumPy by {worst}")
    else:
        print(f"passed {name} on {Device.DEFAULT}")


main()
