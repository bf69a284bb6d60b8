"""How each kernel is launched, and what NumPy makes of the same arguments."""

import math
from dataclasses import dataclass, field

import numpy as np


@dataclass
class Buffer:
    """An argument in memory: before, and after within a tolerance (`None`: as before, to the bit)."""

    before: np.ndarray
    after: np.ndarray | None = None
    # Relative to the expected number, and absolute. Zeros: every bit.
    near: tuple[float, float] = (0.0, 0.0)
    # Triton's name where NumPy has no such type.
    type: str | None = None


@dataclass
class Value:
    """An argument by value: Triton's type and a number."""

    type: str
    number: float


@dataclass
class Case:
    name: str
    kernel: str
    grid: tuple[int, ...]
    args: list[Buffer | Value]
    constants: dict[str, object] = field(default_factory=dict)
    warps: int = 4


random = np.random.default_rng(20240817)


def i32(number):
    return Value("i32", number)


def normal(*shape, dtype=np.float32):
    return random.standard_normal(shape).astype(dtype)


def whole(low, high, *shape, dtype=np.float32):
    return random.integers(low, high, shape).astype(dtype)


def to_bfloat(x):
    """The upper halves of singles, rounded to the nearest even one."""
    bits = np.asarray(x, np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def to_small(x, mantissa):
    """Codes of floats of eight bits without minus zero, which have the values: the exponent's bias is half of its range."""
    bits = x.astype(np.float32).view(np.uint32)
    exponent = (bits >> 23 & 0xFF).astype(np.int32) - 127 + (1 << (6 - mantissa))
    magnitude = exponent << mantissa | (bits >> (23 - mantissa) & ((1 << mantissa) - 1)).astype(np.int32)
    assert ((x == 0) | (exponent > 0) & (magnitude < 0x80)).all()
    return np.where(x == 0, 0, magnitude | (bits >> 31 << 7).astype(np.int32)).astype(np.uint8)


def values(format):
    """What the codes of a format of the OCP are, in order; those that are no numbers are NaN."""
    exponent, mantissa = {"e4m3": (4, 3), "e5m2": (5, 2), "e2m1": (2, 1)}[format]
    codes = np.arange(1 << (1 + exponent + mantissa))
    field, digits = codes >> mantissa & ((1 << exponent) - 1), (codes & ((1 << mantissa) - 1)) / (1 << mantissa)
    magnitude = (digits + (field > 0)) * 2.0 ** (np.maximum(field, 1) - ((1 << (exponent - 1)) - 1))
    none = {"e4m3": codes & 0x7F == 0x7F, "e5m2": codes & 0x7F >= 0x7C, "e2m1": codes < 0}[format]
    return np.where(none, np.nan, np.where(codes >> (exponent + mantissa), -magnitude, magnitude))


def to_code(x, format):
    """Codes of floats of the OCP that have the values."""
    numbers = values(format)[: len(values(format)) // 2]
    code = np.abs(np.nan_to_num(numbers, nan=1e9)[None, :] - np.abs(x.reshape(-1))[:, None]).argmin(1)
    assert (numbers[code] == np.abs(x.reshape(-1))).all()
    return (code + len(numbers) * (x.reshape(-1) < 0)).astype(np.uint8).reshape(x.shape)


# Codes of types that NumPy does not have, by Triton's names.
SMALL = {
    "bf16": to_bfloat,
    "fp8e4b8": lambda x: to_small(x, 3),
    "fp8e5b16": lambda x: to_small(x, 2),
    "fp8e4nv": lambda x: to_code(x, "e4m3"),
    "fp8e5": lambda x: to_code(x, "e5m2"),
}


def vector_add():
    n = 10_007
    a, b = normal(n), normal(n)
    args = [Buffer(a), Buffer(b), Buffer(np.zeros(n, np.float32), a + b), i32(n)]
    return Case("vector_add", "vector_add", (-(-n // 1024),), args, {"BLOCK": 1024})


def grid_stride():
    n = 5_000
    a = whole(-1000, 1000, n, dtype=np.int32)
    args = [Buffer(a), Buffer(np.zeros(n, np.int32), a * a), i32(n)]
    return Case("grid_stride", "grid_stride", (5, 1), args, {"BLOCK": 256}, warps=2)


def softmax(columns):
    rows = 33
    x = normal(rows, columns) * 4
    powers = np.exp((x - x.max(1, keepdims=True)).astype(np.float64))
    shares = (powers / powers.sum(1, keepdims=True)).astype(np.float32)
    args = [Buffer(x), Buffer(np.zeros_like(x), shares, (2e-6, 1e-9))]
    block = 1 << (columns - 1).bit_length()
    return Case(f"softmax_{columns}", "softmax", (rows,), [*args, i32(columns), i32(columns)], {"BLOCK": block})


def matmul(type, m, n, k, blocks, warps=4):
    # Small whole numbers: every partial sum is exact, in whatever order.
    a, b = whole(-8, 9, m, k), whole(-8, 9, k, n)
    c = a.astype(np.float64) @ b.astype(np.float64)
    kind = {"fp16": np.float16, "fp32": np.float32}
    put = lambda x: Buffer(SMALL[type](x), type=type) if type in SMALL else Buffer(x.astype(kind[type]))
    args = [put(a), put(b), Buffer(np.zeros((m, n), np.float32), c.astype(np.float32)), i32(m), i32(n), i32(k)]
    bm, bn, bk = blocks
    grid = (-(-m // bm), -(-n // bn))
    return Case(f"matmul_{type}_{m}x{n}x{k}", "matmul", grid, args, {"BM": bm, "BN": bn, "BK": bk}, warps)


def matmul_scaled(left, right, m, n, k, blocks):
    def factor(format, size):
        numbers = values(format)
        codes = random.choice(np.flatnonzero(~np.isnan(numbers)), (size, k)).astype(np.uint8)
        scales = random.integers(118, 136, (size, k // 32)).astype(np.uint8)
        # Two codes of four bits are a byte, the first one below.
        packed = codes if len(numbers) > 16 else codes[:, ::2] | codes[:, 1::2] << 4
        return packed, scales, numbers[codes] * np.repeat(2.0 ** (scales.astype(np.int64) - 127), 32, axis=1)

    (a, a_scales, x), (b, b_scales, y) = factor(left, m), factor(right, n)
    c, most = x @ y.T, np.abs(x) @ np.abs(y).T
    result = Buffer(np.zeros((m, n), np.float32), c.astype(np.float32), (0.0, float(most.max()) * 2**-22))
    codes = [Buffer(codes, type="u8") for codes in (a, np.ascontiguousarray(b.T), a_scales, b_scales)]
    bm, bn, bk = blocks
    constants = {"A": left, "B": right, "BM": bm, "BN": bn, "BK": bk}
    name = f"matmul_scaled_{left}_{right}_{m}x{n}x{k}"
    return Case(name, "matmul_scaled", (m // bm, n // bn), [*codes, result, i32(m), i32(n), i32(k)], constants)


def matmul_real():
    m, n, k = 64, 48, 96
    a, b = normal(m, k, dtype=np.float16), normal(k, n, dtype=np.float16)
    c = (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float32)
    args = [Buffer(a), Buffer(b), Buffer(np.zeros((m, n), np.float32), c, (1e-5, 1e-5)), i32(m), i32(n), i32(k)]
    return Case("matmul_real", "matmul", (2, 2), args, {"BM": 32, "BN": 32, "BK": 32})


def philox(counter, seed):
    """The first word of Philox-4x32-10. Source: Salmon and others, "Parallel random numbers: as easy as 1, 2, 3"."""
    words = [counter.astype(np.uint64)] + [np.zeros(counter.shape, np.uint64)] * 3
    keys = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        products = [words[0] * np.uint64(0xD2511F53), words[2] * np.uint64(0xCD9E8D57)]
        (high0, low0), (high1, low1) = [(p >> np.uint64(32), p & np.uint64(0xFFFFFFFF)) for p in products]
        words = [high1 ^ words[1] ^ np.uint64(keys[0]), low1, high0 ^ words[3] ^ np.uint64(keys[1]), low0]
        keys = [keys[0] + 0x9E3779B9 & 0xFFFFFFFF, keys[1] + 0xBB67AE85 & 0xFFFFFFFF]
    return words[0].astype(np.uint32)


def dropout():
    n, keep, seed = 3_000, np.float32(0.625), 123_456_789
    x = normal(n)
    bits = philox(np.arange(n), seed).view(np.int32)
    # Folded to 31 bits, times a factor below 2^-31.
    uniform = np.where(bits < 0, -bits - 1, bits).astype(np.float32) * np.float32(4.6566127342e-10)
    after = np.where(uniform < keep, x / keep, np.float32(0))
    args = [Buffer(x), Buffer(np.ones(n, np.float32), after, (3e-7, 0.0)), i32(n), Value("fp32", keep), i32(seed)]
    return Case("dropout", "dropout", (3,), args, {"BLOCK": 1024})


def normed(x):
    mean = x.mean(1, keepdims=True)
    return mean, 1 / np.sqrt(((x - mean) ** 2).mean(1, keepdims=True) + 1e-5)


def layer_norm():
    rows, columns = 20, 300
    x, weight, bias = normal(rows, columns) + 1, normal(columns), normal(columns)
    mean, inverse = normed(x.astype(np.float64))
    single = lambda a: a.astype(np.float32)
    out = single((x - mean) * inverse * weight + bias)
    args = [Buffer(x), Buffer(weight), Buffer(bias), Buffer(np.zeros_like(x), out, (1e-5, 1e-5))]
    args += [Buffer(np.zeros(rows, np.float32), single(v.ravel()), (1e-5, 1e-6)) for v in (mean, inverse)]
    return Case("layer_norm", "layer_norm", (rows,), [*args, i32(columns), Value("fp32", 1e-5)], {"BLOCK": 512})


def layer_norm_backward():
    rows, columns, groups = 24, 200, 4
    dy, x, weight = normal(rows, columns), normal(rows, columns), normal(columns)
    mean, inverse = normed(x.astype(np.float64))
    hat = (x - mean) * inverse
    weighted = dy.astype(np.float64) * weight
    dx = (weighted - hat * (hat * weighted).mean(1, keepdims=True) - weighted.mean(1, keepdims=True)) * inverse
    sums = [np.zeros((groups, columns)) for _ in range(2)]
    for row in range(rows):
        sums[0][row % groups] += dy[row] * hat[row]
        sums[1][row % groups] += dy[row]
    single = lambda a: a.astype(np.float32)
    args = [Buffer(dy), Buffer(x), Buffer(weight), Buffer(single(mean.ravel())), Buffer(single(inverse.ravel()))]
    args += [Buffer(np.zeros_like(x), single(dx), (1e-4, 1e-5))]
    args += [Buffer(np.zeros((groups, columns), np.float32), single(s), (1e-4, 1e-5)) for s in sums]
    args += [Buffer(np.zeros(groups, np.int32)), i32(columns)]
    return Case("layer_norm_backward", "layer_norm_backward", (rows,), args, {"GROUPS": groups, "BLOCK": 256})


def rms_norm():
    rows, columns = 16, 700
    x, weight = normal(rows, columns, dtype=np.float16), normal(columns)
    wide = x.astype(np.float64)
    out = wide / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-6) * weight
    args = [Buffer(x), Buffer(weight), Buffer(np.zeros_like(x), out.astype(np.float16), (1e-3, 1e-6)), i32(columns)]
    return Case("rms_norm", "rms_norm", (rows,), [*args, Value("fp32", 1e-6)], {"BLOCK": 256}, warps=2)


def attention(causal):
    heads, length, d = 2, 128, 32
    q, k, v = (normal(heads, length, d, dtype=np.float16) for _ in range(3))
    scores = q.astype(np.float64) @ k.astype(np.float64).transpose(0, 2, 1) / np.sqrt(d)
    if causal:
        scores = np.where(np.tril(np.ones((length, length), bool)), scores, -np.inf)
    powers = np.exp(scores - scores.max(2, keepdims=True))
    out = (powers / powers.sum(2, keepdims=True)) @ v.astype(np.float64)
    # The probabilities are rounded to halves on the way.
    out = out.astype(np.float32)
    args = [Buffer(q), Buffer(k), Buffer(v), Buffer(np.zeros_like(out), out, (2e-3, 2e-3))]
    args += [i32(length), Value("fp32", 1 / np.sqrt(d))]
    constants = {"CAUSAL": causal, "BM": 64, "BN": 32, "D": d}
    return Case("attention_causal" if causal else "attention", "attention", (length // 64, heads), args, constants)


def weighted(scores, v, width, least):
    """Attention in blocks of columns, with a running maximum: powers of 8, those below the least of their type lost in the products."""
    heads, length, _ = scores.shape
    highest, total = np.full((heads, length, 1), -np.inf), np.zeros((heads, length, 1))
    gathered = np.zeros(v.shape)
    for start in range(0, length, width):
        block = scores[:, :, start : start + width]
        now = np.maximum(highest, block.max(2, keepdims=True))
        powers, fade = 8.0 ** (block - now), 8.0 ** (highest - now)
        total = total * fade + powers.sum(2, keepdims=True)
        gathered = gathered * fade + np.where(powers < least, 0, powers) @ v[:, start : start + width]
        highest = now
    return (gathered / total).astype(np.float32)


def attention_small(type, least):
    # Whole scores, and weights that are powers of 8: they are the same floats of eight bits wherever they are rounded, and none is
    # between two of them.
    heads, length, d, width = 2, 128, 64, 32
    q, k = (random.choice([-1, 0, 0, 0, 1], (heads, length, d)) for _ in range(2))
    v = whole(-8, 9, heads, length, d)
    out = weighted((q @ k.transpose(0, 2, 1)).astype(np.float64), v.astype(np.float64), width, least)
    args = [Buffer(SMALL[type](x.astype(np.float32)), type=type) for x in (q, k, v)]
    args += [Buffer(np.zeros_like(out), out, (3e-5, 1e-4)), i32(length), Value("fp32", math.log(8))]
    constants = {"CAUSAL": False, "BM": 64, "BN": width, "D": d}
    return Case(f"attention_{type}", "attention", (length // 64, heads), args, constants)


def attention_scaled(weights, least):
    heads, length, d, width = 2, 256, 128, 128
    numbers = values("e2m1")

    def factor(choice, shape, scales):
        codes = random.choice(np.array(choice, np.uint8), shape)
        scales = random.integers(*scales, (*shape[:-1], shape[-1] // 32)).astype(np.uint8)
        return codes, scales, numbers[codes] * np.repeat(2.0 ** (scales.astype(np.int64) - 127), 32, axis=-1)

    # Codes of 0, 1 and -1, mostly zeros, times 1 or 2; of V all codes, in blocks along its rows.
    q, q_scales, x = factor([0] * 10 + [2, 10], (heads, length, d), (127, 129))
    k, k_scales, y = factor([0] * 10 + [2, 10], (heads, length, d), (127, 129))
    v, v_scales, z = factor(range(16), (heads, d, length), (124, 129))
    out = weighted(x @ y.transpose(0, 2, 1), z.transpose(0, 2, 1), width, least)
    packed = lambda codes: codes[..., ::2] | codes[..., 1::2] << 4
    codes = [packed(q), packed(k), np.ascontiguousarray(packed(v).transpose(0, 2, 1))]
    args = [Buffer(array, type="u8") for array in (*codes, q_scales, k_scales, v_scales)]
    args += [Buffer(np.zeros_like(out), out, (3e-5, 3e-4)), i32(length), Value("fp32", math.log(8))]
    constants = {"P": weights, "BM": 64, "BN": width, "D": d}
    return Case("attention_scaled_e2m1", "attention_scaled", (length // 64, heads), args, constants)


def prefix_sums():
    x = whole(-1000, 1000, 4, 1024, dtype=np.int32)
    ahead = np.cumsum(x, 1, dtype=np.int32)
    behind = np.cumsum(x[:, ::-1], 1, dtype=np.int32)[:, ::-1].copy()
    args = [Buffer(x), Buffer(np.zeros_like(x), ahead), Buffer(np.zeros_like(x), behind)]
    return Case("prefix_sums", "prefix_sums", (4,), args, {"BLOCK": 1024})


def recurrence():
    x, decay = normal(2, 256), random.uniform(0.2, 0.95, (2, 256)).astype(np.float32)
    out, state = np.zeros((2, 256)), np.zeros(2)
    for t in range(256):
        state = state * decay[:, t] + x[:, t]
        out[:, t] = state
    args = [Buffer(x), Buffer(decay), Buffer(np.zeros_like(x), out.astype(np.float32), (1e-5, 1e-5))]
    return Case("recurrence", "recurrence", (2,), args, {"BLOCK": 256}, warps=2)


def sort_rows():
    x = whole(-(2**31), 2**31, 3, 256, dtype=np.int32)
    up = np.sort(x, 1)
    args = [Buffer(x), Buffer(np.zeros_like(x), up), Buffer(np.zeros_like(x), up[:, ::-1].copy())]
    return Case("sort_rows", "sort_rows", (3,), args, {"COLUMNS": 256}, warps=2)


def histogram():
    n, bins = 3_500, 64
    x = whole(0, bins, n, dtype=np.int32)
    counts = np.bincount(x, minlength=bins).astype(np.int32)
    args = [Buffer(x), Buffer(np.zeros(bins, np.int32), counts), i32(n)]
    return Case("histogram", "histogram", (4,), args, {"BINS": bins, "BLOCK": 1024})


def atomics(least=-500):
    n, places = 2_000, 37
    x, place = whole(least, 500, n, dtype=np.int32), whole(0, places, n, dtype=np.int32)
    per = [x[place == p] for p in range(places)]
    results = [
        (np.float32, np.sum),
        (np.float64, np.sum),
        (np.int32, lambda v: max(v.max(), 0)),
        (np.int32, lambda v: min(v.min(), 0)),
        (np.int32, np.bitwise_xor.reduce),
    ]
    outs = [Buffer(np.zeros(places, t), np.array([f(v) for v in per], t)) for t, f in results]
    return Case("atomics", "atomics", (4,), [Buffer(x), Buffer(place), *outs, i32(n)], {"BLOCK": 512})


def half_atomics():
    n = 640
    x = whole(-20, 21, n, dtype=np.float16)
    sums = x.reshape(-1, 64).sum(0, dtype=np.float32).astype(np.float16)
    args = [Buffer(x), Buffer(np.zeros(64, np.float16), sums), i32(n)]
    return Case("half_atomics", "half_atomics", (3,), args, {"BLOCK": 256})


def conv1d():
    channels, filters, taps, length = 3, 4, 5, 333
    x, weight, bias = whole(-9, 10, channels, length), whole(-9, 10, filters, channels, taps), whole(-9, 10, filters)
    out = np.repeat(bias[:, None], length, 1)
    for f in range(filters):
        for c in range(channels):
            out[f] += np.correlate(x[c], weight[f, c], "same")
    args = [Buffer(x), Buffer(weight), Buffer(bias), Buffer(np.zeros((filters, length), np.float32), out), i32(length)]
    return Case("conv1d", "conv1d", (3, filters), args, {"CHANNELS": channels, "TAPS": taps, "BLOCK": 128}, warps=1)


def reductions():
    x = whole(-(2**20), 2**20, 32, 64, dtype=np.int32)
    args = [Buffer(x), Buffer(np.zeros(64, np.int32), x.sum(0, dtype=np.int32))]
    args += [Buffer(np.zeros(32, np.int32), r.astype(np.int32)) for r in (x.max(1), x.argmax(1))]
    args += [Buffer(np.zeros(64, np.int32), np.bitwise_xor.reduce(x, 0))]
    return Case("reductions", "reductions", (1,), args, {"ROWS": 32, "COLUMNS": 64})


def transpose():
    x = whole(-30_000, 30_000, 32, 128, dtype=np.int16)
    args = [Buffer(x), Buffer(np.zeros((128, 32), np.int16), x.T.copy())]
    return Case("transpose", "transpose", (1,), args, {"ROWS": 32, "COLUMNS": 128})


def casts():
    n = 512
    x = (normal(n) * 20).astype(np.float32)
    half = x.astype(np.float16)
    double = x.astype(np.float64) / 3
    args = [Buffer(x), Buffer(np.zeros(n, np.float16), half), Buffer(np.zeros(n, np.uint16), to_bfloat(x), type="bf16")]
    args += [Buffer(np.zeros(n, t), x.astype(t)) for t in (np.int8, np.int64)]
    args += [Buffer(np.zeros(n), double), Buffer(np.zeros(n, np.float32), half.astype(np.float32) * 2)]
    return Case("casts", "casts", (2,), args, {"BLOCK": 256})


def functions():
    n = 256
    x = (normal(n) * 3).astype(np.float32)
    a = x.astype(np.float64)
    erf = np.vectorize(math.erf)
    results = [np.exp2(a), np.log(abs(a)), np.sin(a), 1 / (1 + np.exp(-a)), erf(a), np.tanh(a)]
    results += [abs(a) ** np.float32(1.7), np.arctan(a), np.log1p(abs(a)), a * a + 1]
    results += [np.floor(a) + np.ceil(x * np.float32(3)), a / 3]
    out = np.array(results).astype(np.float32)
    args = [Buffer(x), Buffer(np.zeros_like(out), out, (2e-6, 2e-7)), i32(n)]
    return Case("functions", "functions", (1,), args, {"BLOCK": n})


def integers():
    n = 256
    x, y = whole(-(2**31), 2**31, n, dtype=np.int32), whole(-5000, 5000, n, dtype=np.int32)
    y[y == 0] = 17
    wide, other = x.astype(np.int64), y.astype(np.int64)
    # As in C: towards zero, the remainder with the dividend's sign.
    quotient = np.sign(wide) * np.sign(other) * (abs(wide) // abs(other))
    high = (x.view(np.uint32).astype(np.uint64) * y.view(np.uint32).astype(np.uint64)) >> np.uint64(32)
    results = [quotient, wide - quotient * other, high, wide * other >> 7, (wide << 3) ^ (other >> 2), x[y & (n - 1)]]
    out = np.array([r.astype(np.int64).astype(np.int32) for r in results])
    args = [Buffer(x), Buffer(y), Buffer(np.zeros_like(out), out), i32(n)]
    return Case("integers", "integers", (1,), args, {"BLOCK": n})


CASES = [
    vector_add(),
    grid_stride(),
    softmax(200),
    softmax(781),
    matmul("fp16", 64, 64, 64, (32, 32, 32)),
    matmul("fp16", 50, 70, 90, (64, 64, 32), warps=8),
    matmul("bf16", 48, 64, 80, (32, 32, 16)),
    matmul("fp32", 40, 36, 50, (32, 32, 16)),
    matmul_real(),
    dropout(),
    layer_norm(),
    layer_norm_backward(),
    rms_norm(),
    attention(False),
    attention(True),
    prefix_sums(),
    recurrence(),
    sort_rows(),
    histogram(),
    atomics(),
    half_atomics(),
    conv1d(),
    reductions(),
    transpose(),
    casts(),
    functions(),
    integers(),
]
# What only some processors have.
ONLY = {
    "gfx942": [
        matmul("fp8e4b8", 64, 64, 96, (32, 32, 32)),
        matmul("fp8e5b16", 50, 70, 90, (64, 64, 32), warps=8),
        # It has no products with scales: Triton multiplies brain floats.
        matmul_scaled("e4m3", "e2m1", 64, 64, 256, (64, 64, 128)),
        matmul_scaled("e2m1", "e2m1", 64, 64, 256, (32, 64, 128)),
        attention_small("bf16", 0),
        attention_small("fp8e4b8", 2.0**-10),
        attention_scaled("bf16", 0),
    ],
    "gfx950": [
        matmul("fp8e4nv", 64, 64, 96, (32, 32, 32)),
        matmul("fp8e5", 50, 70, 260, (64, 64, 128), warps=8),
        matmul_scaled("e4m3", "e4m3", 64, 64, 512, (64, 64, 256)),
        matmul_scaled("e2m1", "e2m1", 128, 64, 512, (64, 32, 256)),
        matmul_scaled("e5m2", "e2m1", 64, 128, 256, (32, 64, 128)),
        matmul_scaled("e2m1", "e4m3", 64, 64, 384, (32, 32, 128)),
        attention_small("bf16", 0),
        attention_small("fp8e4nv", 2.0**-9),
        attention_small("fp8e5", 2.0**-16),
        attention_scaled("e4m3", 2.0**-9),
    ],
}
# What others have otherwise. On processors whose kernels sum up a wave's lanes first, Triton 3.9 takes the highest and the lowest of signed
# numbers for those of unsigned ones (`umax` in its LLVM code): there are no negative ones.
INSTEAD = {arch: {"atomics": atomics(0)} for arch in ("gfx942", "gfx950")}
