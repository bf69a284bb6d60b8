"""Kernels in Triton's language, of the kinds that its users write."""

import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def vector_add(a, b, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, tl.load(a + at, mask=inside) + tl.load(b + at, mask=inside), mask=inside)


@triton.jit
def grid_stride(a, out, n, BLOCK: tl.constexpr):
    """As many programs as there are share the work: what they are told of the grid matters."""
    for start in range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
        at = start + tl.arange(0, BLOCK)
        value = tl.load(a + at, mask=at < n)
        tl.store(out + at, value * value + tl.program_id(1), mask=at < n)


@triton.jit
def softmax(x, out, stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row * stride + at, mask=at < columns, other=-float("inf"))
    powers = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row * stride + at, powers / tl.sum(powers, axis=0), mask=at < columns)


@triton.jit
def matmul(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, k, BK):
        along = start + inner
        left_inside = (rows[:, None] < m) & (along[None, :] < k)
        left = tl.load(a + rows[:, None] * k + along[None, :], mask=left_inside, other=0.0)
        right_inside = (along[:, None] < k) & (columns[None, :] < n)
        right = tl.load(b + along[:, None] * n + columns[None, :], mask=right_inside, other=0.0)
        total = tl.dot(left, right, total)
    tl.store(c + rows[:, None] * n + columns[None, :], total, mask=(rows[:, None] < m) & (columns[None, :] < n))


@triton.jit
def matmul_scaled(
    a, b, a_scales, b_scales, c, m, n, k, A: tl.constexpr, B: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    # How many elements a byte has, and how many share a scale.
    OF_A: tl.constexpr = 2 if A == "e2m1" else 1
    OF_B: tl.constexpr = 2 if B == "e2m1" else 1
    BLOCK: tl.constexpr = 32
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, k, BK):
        along = start // OF_A + tl.arange(0, BK // OF_A)
        left = tl.load(a + rows[:, None] * (k // OF_A) + along[None, :])
        along = start // OF_B + tl.arange(0, BK // OF_B)
        right = tl.load(b + along[:, None] * n + columns[None, :])
        blocks = start // BLOCK + tl.arange(0, BK // BLOCK)
        left_scales = tl.load(a_scales + rows[:, None] * (k // BLOCK) + blocks[None, :])
        right_scales = tl.load(b_scales + columns[:, None] * (k // BLOCK) + blocks[None, :])
        total = tl.dot_scaled(left, left_scales, A, right, right_scales, B, total)
    tl.store(c + rows[:, None] * n + columns[None, :], total)


@triton.jit
def dropout(x, out, n, keep, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    kept = tl.rand(seed, at) < keep
    tl.store(out + at, tl.where(kept, tl.load(x + at, mask=at < n) / keep, 0.0), mask=at < n)


@triton.jit
def layer_norm(x, weight, bias, out, means, inverses, columns, epsilon, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    values = tl.load(x + row * columns + at, mask=inside, other=0.0)
    mean = tl.sum(values, axis=0) / columns
    centred = tl.where(inside, values - mean, 0.0)
    inverse = 1.0 / tl.sqrt(tl.sum(centred * centred, axis=0) / columns + epsilon)
    tl.store(means + row, mean)
    tl.store(inverses + row, inverse)
    scaled = centred * inverse * tl.load(weight + at, mask=inside) + tl.load(bias + at, mask=inside)
    tl.store(out + row * columns + at, scaled, mask=inside)


@triton.jit
def layer_norm_backward(
    dy, x, weight, means, inverses, dx, dweight, dbias, locks, columns, GROUPS: tl.constexpr, BLOCK: tl.constexpr
):
    """The gradients of the parameters are summed in a few rows, each behind a lock of its own."""
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    normal = (tl.load(x + row * columns + at, mask=inside, other=0.0) - tl.load(means + row)) * tl.load(inverses + row)
    normal = tl.where(inside, normal, 0.0)
    up = tl.load(dy + row * columns + at, mask=inside, other=0.0)
    weighted = up * tl.load(weight + at, mask=inside, other=0.0)
    along = tl.sum(normal * weighted, axis=0) / columns
    level = tl.sum(weighted, axis=0) / columns
    tl.store(dx + row * columns + at, (weighted - normal * along - level) * tl.load(inverses + row), mask=inside)
    group = row % GROUPS
    while tl.atomic_cas(locks + group, 0, 1) == 1:
        pass
    here = group * columns + at
    tl.store(dweight + here, tl.load(dweight + here, mask=inside) + up * normal, mask=inside)
    tl.store(dbias + here, tl.load(dbias + here, mask=inside) + up, mask=inside)
    tl.debug_barrier()
    tl.atomic_xchg(locks + group, 0)


@triton.jit
def rms_norm(x, weight, out, columns, epsilon, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    square = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        value = tl.load(x + row * columns + at, mask=at < columns, other=0.0).to(tl.float32)
        square += value * value
    inverse = tl.rsqrt(tl.sum(square, axis=0) / columns + epsilon)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        value = tl.load(x + row * columns + at, mask=at < columns, other=0.0).to(tl.float32)
        scaled = value * inverse * tl.load(weight + at, mask=at < columns, other=0.0)
        tl.store(out + row * columns + at, scaled.to(tl.float16), mask=at < columns)


@triton.jit
def attention(q, k, v, out, length, scale, CAUSAL: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    """One head's attention with a running maximum and sum: the scores are never all there."""
    base = tl.program_id(1) * length * D
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    across = tl.arange(0, D)
    query = tl.load(q + base + rows[:, None] * D + across[None, :])
    highest = tl.full((BM,), -float("inf"), dtype=tl.float32)
    total = tl.zeros((BM,), dtype=tl.float32)
    gathered = tl.zeros((BM, D), dtype=tl.float32)
    end = length
    if CAUSAL:
        end = (tl.program_id(0) + 1) * BM
    for start in range(0, end, BN):
        columns = start + tl.arange(0, BN)
        keys = tl.load(k + base + columns[None, :] * D + across[:, None])
        scores = tl.dot(query, keys) * scale
        if CAUSAL:
            scores = tl.where(rows[:, None] >= columns[None, :], scores, -float("inf"))
        now = tl.maximum(highest, tl.max(scores, axis=1))
        powers = tl.exp(scores - now[:, None])
        fade = tl.exp(highest - now)
        total = total * fade + tl.sum(powers, axis=1)
        values = tl.load(v + base + columns[:, None] * D + across[None, :])
        gathered = gathered * fade[:, None] + tl.dot(powers.to(values.dtype), values)
        highest = now
    tl.store(out + base + rows[:, None] * D + across[None, :], gathered / total[:, None])


@triton.jit
def attention_scaled(
    q, k, v, q_scales, k_scales, v_scales, out, length, scale, P: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr
):
    """The same of floats of four bits with a scale for 32: two of Q and K side by side are a byte, and two rows of V."""
    BLOCK: tl.constexpr = 32
    head = tl.program_id(1)
    rows = head * length + tl.program_id(0) * BM + tl.arange(0, BM)
    across = tl.arange(0, D)
    pairs = tl.arange(0, D // 2)
    blocks = tl.arange(0, D // BLOCK)
    query = tl.load(q + rows[:, None] * (D // 2) + pairs[None, :])
    query_scales = tl.load(q_scales + rows[:, None] * (D // BLOCK) + blocks[None, :])
    highest = tl.full((BM,), -float("inf"), dtype=tl.float32)
    total = tl.zeros((BM,), dtype=tl.float32)
    gathered = tl.zeros((BM, D), dtype=tl.float32)
    for start in range(0, length, BN):
        columns = head * length + start + tl.arange(0, BN)
        keys = tl.load(k + columns[None, :] * (D // 2) + pairs[:, None])
        key_scales = tl.load(k_scales + columns[:, None] * (D // BLOCK) + blocks[None, :])
        scores = tl.dot_scaled(query, query_scales, "e2m1", keys, key_scales, "e2m1") * scale
        now = tl.maximum(highest, tl.max(scores, axis=1))
        powers = tl.exp(scores - now[:, None])
        fade = tl.exp(highest - now)
        total = total * fade + tl.sum(powers, axis=1)
        pairs_of_rows = (head * length + start) // 2 + tl.arange(0, BN // 2)
        values = tl.load(v + pairs_of_rows[:, None] * D + across[None, :])
        blocks_of_rows = start // BLOCK + tl.arange(0, BN // BLOCK)
        value_scales = tl.load(v_scales + (head * D + across[:, None]) * (length // BLOCK) + blocks_of_rows[None, :])
        left = powers.to(tl.float8e4nv) if P == "e4m3" else powers.to(tl.bfloat16)
        gathered = gathered * fade[:, None] + tl.dot_scaled(left, None, P, values, value_scales, "e2m1")
        highest = now
    tl.store(out + rows[:, None] * D + across[None, :], gathered / total[:, None])


@triton.jit
def prefix_sums(x, sums, backward, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + at)
    tl.store(sums + at, tl.cumsum(values, axis=0))
    tl.store(backward + at, tl.cumsum(values, axis=0, reverse=True))


@triton.jit
def after(a, b, c, d):
    """The map x -> b x + a and after it the map x -> d x + c."""
    return d * a + c, b * d


@triton.jit
def recurrence(x, decay, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    state, _ = tl.associative_scan((tl.load(x + at), tl.load(decay + at)), 0, after)
    tl.store(out + at, state)


@triton.jit
def sort_rows(x, up, down, COLUMNS: tl.constexpr):
    at = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    values = tl.load(x + at)
    tl.store(up + at, tl.sort(values))
    tl.store(down + at, tl.sort(values, descending=True))


@triton.jit
def histogram(x, counts, n, BINS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + at, mask=at < n, other=0)
    here = tl.histogram(values, BINS, mask=at < n)
    tl.atomic_add(counts + tl.arange(0, BINS), here)


@triton.jit
def atomics(x, places, floats, doubles, highest, lowest, bits, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    value = tl.load(x + at, mask=inside, other=0)
    place = tl.load(places + at, mask=inside, other=0)
    tl.atomic_add(floats + place, value.to(tl.float32), mask=inside)
    tl.atomic_add(doubles + place, value.to(tl.float64), mask=inside, sem="relaxed")
    tl.atomic_max(highest + place, value, mask=inside)
    tl.atomic_min(lowest + place, value, mask=inside)
    tl.atomic_xor(bits + place, value, mask=inside)


@triton.jit
def half_atomics(x, sums, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(sums + at % 64, tl.load(x + at, mask=at < n), mask=at < n)


@triton.jit
def conv1d(x, weight, bias, out, length, CHANNELS: tl.constexpr, TAPS: tl.constexpr, BLOCK: tl.constexpr):
    filters = tl.program_id(1)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32) + tl.load(bias + filters)
    for channel in range(CHANNELS):
        for tap in tl.static_range(TAPS):
            place = at + tap - TAPS // 2
            value = tl.load(x + channel * length + place, mask=(place >= 0) & (place < length), other=0.0)
            total += value * tl.load(weight + (filters * CHANNELS + channel) * TAPS + tap)
    tl.store(out + filters * length + at, total, mask=at < length)


@triton.jit
def reductions(x, sums, best, best_at, either, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    rows = tl.arange(0, ROWS)
    columns = tl.arange(0, COLUMNS)
    values = tl.load(x + rows[:, None] * COLUMNS + columns[None, :])
    tl.store(sums + columns, tl.sum(values, axis=0))
    value, where = tl.max(values, axis=1, return_indices=True)
    tl.store(best + rows, value)
    tl.store(best_at + rows, where)
    tl.store(either + columns, tl.xor_sum(values, axis=0))


@triton.jit
def transpose(x, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    rows = tl.arange(0, ROWS)
    columns = tl.arange(0, COLUMNS)
    values = tl.load(x + rows[:, None] * COLUMNS + columns[None, :])
    tl.store(out + columns[:, None] * ROWS + rows[None, :], tl.trans(values))


@triton.jit
def casts(x, to_half, to_bfloat, to_byte, to_long, to_double, from_half, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + at)
    half = values.to(tl.float16)
    tl.store(to_half + at, half)
    tl.store(to_bfloat + at, values.to(tl.bfloat16))
    tl.store(to_byte + at, values.to(tl.int8))
    tl.store(to_long + at, values.to(tl.int64))
    tl.store(to_double + at, values.to(tl.float64) / 3.0)
    tl.store(from_half + at, half.to(tl.float32) * 2.0)


@triton.jit
def functions(x, out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a = tl.load(x + at)
    tl.store(out + at, tl.exp2(a))
    tl.store(out + n + at, tl.log(tl.abs(a)))
    tl.store(out + 2 * n + at, tl.sin(a))
    tl.store(out + 3 * n + at, tl.sigmoid(a))
    tl.store(out + 4 * n + at, tl.erf(a))
    tl.store(out + 5 * n + at, libdevice.tanh(a))
    tl.store(out + 6 * n + at, libdevice.pow(tl.abs(a), 1.7))
    tl.store(out + 7 * n + at, libdevice.atan(a))
    tl.store(out + 8 * n + at, libdevice.log1p(tl.abs(a)))
    tl.store(out + 9 * n + at, tl.fma(a, a, 1.0))
    tl.store(out + 10 * n + at, tl.floor(a) + tl.ceil(a * 3.0))
    tl.store(out + 11 * n + at, tl.div_rn(a, 3.0))


@triton.jit
def integers(a, b, out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(a + at)
    y = tl.load(b + at)
    tl.store(out + at, x // y)
    tl.store(out + n + at, x % y)
    high = tl.umulhi(x.to(tl.uint32, bitcast=True), y.to(tl.uint32, bitcast=True))
    tl.store(out + 2 * n + at, high.to(tl.int32, bitcast=True))
    tl.store(out + 3 * n + at, (x.to(tl.int64) * y >> 7).to(tl.int32))
    tl.store(out + 4 * n + at, (x << 3) ^ (y >> 2))
    tl.store(out + 5 * n + at, tl.gather(x, (y & (BLOCK - 1)), 0))
