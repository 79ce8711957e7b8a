"""Random nodes of ONNX Runtime's own operators: a function for each draws attributes, inputs and sizes (OPERATORS)."""

import contrib_gate_cases as gates
import numpy as np

# ---- Activations and normalizations


def gelu(c):
    c.give(c.reals(c.whole(1, 4), c.whole(1, 40), scale=2))


def bias_gelu(c):
    n = c.whole(1, 40)
    c.give(c.reals(c.whole(1, 4), c.whole(1, 3), n), c.reals(n))


def fast_gelu(c):
    n = c.whole(1, 40)
    c.give(c.reals(c.whole(1, 4), n))
    c.maybe(c.reals(n))
    c.tolerance = 1e-4


def quick_gelu(c):
    c.give(c.reals(c.whole(1, 4), c.whole(1, 40)))
    if c.chance():
        c.set(alpha=c.random.uniform(0.5, 2))


def simplified(c):
    shape = (c.whole(1, 3), c.whole(1, 5), c.whole(2, 40))
    axis = c.pick(-1, 2, 1)
    c.give(c.reals(*shape), c.reals(*shape[axis:]))
    c.set(axis=axis, epsilon=c.pick(1e-5, 1e-3))


def skip_layer(c):
    n, s, h = c.whole(1, 3), c.whole(1, 5), c.whole(2, 40)
    skip = c.pick((n, s, h), (1, s, h), (s, h))
    c.give(c.reals(n, s, h), c.reals(*skip), c.reals(h))
    c.maybe(c.reals(h))
    c.maybe(c.reals(h))
    c.set(epsilon=c.pick(1e-5, 1e-12))
    if c.chance():
        c.outputs, c.left_out = 4, (1, 2)


def skip_simplified(c):
    n, s, h = c.whole(1, 3), c.whole(1, 5), c.whole(2, 40)
    c.give(c.reals(n, s, h), c.reals(n, s, h), c.reals(h))
    c.maybe(c.reals(h))
    c.set(epsilon=1e-5)
    if c.chance():
        c.outputs, c.left_out = 4, (1, 2)


def embed(c):
    n, s, h = c.whole(1, 3), c.whole(1, 6), c.whole(2, 20)
    int32 = lambda high, *shape: c.integers(0, high - 1, *shape, type=np.int32)  # noqa: E731
    with_segments = c.chance()
    c.give(int32(11, n, s), int32(2, n, s) if with_segments else None)
    c.give(c.reals(11, h), c.reals(8, h), c.reals(2, h) if with_segments else None, c.reals(h), c.reals(h))
    mask = np.zeros((n, s), np.int32)
    for row in mask:
        row[: c.whole(1, s)] = 1
    c.maybe(mask)
    if c.chance():
        c.give(int32(8, n, s))
    c.outputs = 2


# ---- Products, convolutions, pools


def fused_matmul(c):
    b, m, k, n = c.whole(1, 3), c.whole(1, 6), c.whole(1, 7), c.whole(1, 8)
    ta, tb = c.whole(0, 1), c.whole(0, 1)
    x, y = [b, m, k], [b, k, n]
    if ta:
        x[1:] = x[2], x[1]
    if tb:
        y[1:] = y[2], y[1]
    c.set(transA=ta, transB=tb, alpha=c.pick(1.0, 0.5))
    if c.op == "FusedMatMul" and c.chance(0.3):
        c.set(transBatchA=1)
        # The matrix's first axis comes before its last.
        x = [x[1], x[0], x[2]]
    c.give(c.reals(*x), c.reals(*y))


ACTIVATIONS = {"Relu": 0, "Tanh": 0, "Sigmoid": 0, "LeakyRelu": 1}


def fused_gemm(c):
    m, k, n = c.whole(1, 6), c.whole(1, 7), c.whole(1, 8)
    ta, tb = c.whole(0, 1), c.whole(0, 1)
    c.give(c.reals(*((k, m) if ta else (m, k))), c.reals(*((n, k) if tb else (k, n))))
    c.maybe(c.reals(n))
    name = c.pick("Relu", "LeakyRelu")
    c.set(transA=ta, transB=tb, alpha=c.pick(1.0, 0.5), beta=c.pick(1.0, 2.0), activation=name)
    if name == "LeakyRelu":
        c.set(activation_alpha=0.2)


def fused_conv(c):
    channels, outputs, size = c.whole(1, 4), c.whole(1, 4), c.whole(5, 9)
    kernel = c.pick(1, 3)
    c.give(c.reals(1, channels, size, size), c.reals(outputs, channels, kernel, kernel))
    with_sum = c.chance(0.3)
    c.give(c.reals(outputs) if with_sum or c.chance() else None)
    name = c.pick("Relu", "Tanh", "Sigmoid", "LeakyRelu", "Clip")
    c.set(activation=name, pads=[kernel // 2] * 4, kernel_shape=[kernel, kernel])
    if with_sum:
        c.give(c.reals(1, outputs, size, size))
    if name == "LeakyRelu":
        c.set(activation_params=[0.3])
    if name == "Clip":
        c.set(activation_params=[-0.5, 0.7])


def nhwc_max_pool(c):
    c.give(c.integers(0, 255, 2, c.whole(4, 7), c.whole(4, 7), c.whole(1, 4), type=np.uint8))
    c.set(kernel_shape=[2, 3], strides=[c.whole(1, 2), 1], pads=[c.whole(0, 1), 0, 0, 1])


# ---- Weights of few bits


def causal_convolution(c):
    b, length, taps, dilation = c.whole(1, 3), c.pick(1, 1, 2, 5, 9), c.whole(1, 5), c.pick(1, 1, 2, 3)
    kept = (taps - 1) * dilation
    if c.chance(0.3):
        axes = [c.whole(1, 4) for _ in range(c.whole(1, 3))]
        sizes = lambda positions: (b, positions, *axes)  # noqa: E731
        c.set(channels_last=1)
    else:
        axes = [c.whole(1, 6)]
        sizes = lambda positions: (b, *axes, positions)  # noqa: E731
    channels = int(np.prod(axes))
    c.give(c.reals(*sizes(length)))
    (c.fix if c.chance() else c.give)(c.reals(channels, 1, taps))
    c.maybe(c.reals(channels))
    c.maybe(c.reals(*sizes(kept)), 0.7)
    if dilation > 1 or c.chance():
        c.set(dilation=dilation)
    if c.chance(0.7):
        c.set(activation=c.pick("silu", "swish", "none"))
    c.outputs = 2


def matmul_n_bits(c):
    k, n, block = c.pick(16, 32, 40, 64, 100), c.whole(1, 9), c.pick(16, 32)
    bits = c.pick(2, 4, 4, 8)
    blocks = -(-k // block)
    c.set(K=k, N=n, block_size=block, bits=bits)
    if c.chance():
        c.set(accuracy_level=c.pick(0, 1))
    c.give(c.reals(c.whole(1, 3), c.whole(1, 5), k))
    c.fix(c.integers(0, 255, n, blocks, block * bits // 8, type=np.uint8), np.abs(c.reals(n, blocks, scale=0.1)))
    kind = c.pick("none", "packed", "float") if bits != 2 else "none"
    if kind == "packed":
        c.fix(c.integers(0, 255, n, -(-blocks * bits // 8), type=np.uint8))
    elif kind == "float" and bits == 4:
        c.fix(c.reals(n, blocks, scale=4))
    else:
        c.give(None)
    c.give(None)
    rounds = bits == 4 and c.chance()  # left operands become integers of 8 bits, which only equal rounding makes equal
    if c.chance():
        (c.fix if rounds or c.chance() else c.give)(c.reals(n))
    c.tolerance = 1e-4
    if rounds:
        c.set(accuracy_level=4)
        c.exact_tolerance = 3e-2


def gather_block_quantized(c):
    rows, k, block, bits = c.whole(3, 9), c.pick(32, 64), c.pick(16, 32), c.pick(4, 8)
    c.fix(c.integers(0, 255, rows, k * bits // 8, type=np.uint8))
    c.give(c.integers(-rows, rows - 1, c.whole(1, 3), c.whole(1, 4)))
    blocks = k // block
    c.fix(np.abs(c.reals(rows, blocks)))
    if c.chance():
        c.fix(c.integers(0, 255, rows, -(-blocks * bits // 8), type=np.uint8))
    c.set(block_size=block, bits=bits, gather_axis=0, quantize_axis=1)


# ---- Attention


def attention(c):
    b, s, heads, size, width = c.whole(1, 3), c.whole(1, 5), c.whole(1, 3), c.pick(4, 8), c.whole(3, 9)
    hidden = heads * size
    past = c.pick(0, 0, 3)
    keys = past + s
    c.set(num_heads=heads)
    c.give(c.reals(b, s, width), c.reals(width, 3 * hidden), c.reals(3 * hidden))
    if c.chance(0.4):
        c.set(unidirectional=1)
    if c.chance(0.3):
        c.set(scale=0.3)
    mask = c.pick(None, "ends", "rows", "all")
    ones = lambda *shape: c.integers(0, 1, *shape, type=np.int32)  # noqa: E731
    if mask == "ends" and past == 0:
        c.give(c.integers(1, keys, b, type=np.int32))
    elif mask == "rows":
        rows = ones(b, keys)
        rows[:, 0] = 1
        c.give(rows)
    elif mask == "all":
        rows = ones(b, s, keys)
        rows[:, :, 0] = 1
        c.give(rows)
    else:
        c.give(None)
    c.give(c.reals(2, b, heads, past, size) if past else None)
    if c.chance(0.3):
        c.give(c.reals(c.pick(1, b), c.pick(1, heads), s, keys))
    if past or c.chance(0.3):
        c.outputs = 2


def multi_head_attention(c):
    b, s, t, heads, size = c.whole(1, 3), c.whole(1, 5), c.whole(1, 6), c.whole(1, 3), c.pick(4, 8)
    hidden, size_v = heads * size, c.pick(4, 8)
    c.set(num_heads=heads)
    if c.chance(0.3):
        c.set(scale=0.3)
    form = c.pick("rows", "rows", "packed", "heads")
    past = 3 if form == "rows" and c.chance(0.4) else 0
    if form == "rows":
        if past:
            t, size_v = s, size
        c.give(c.reals(b, s, hidden), c.reals(b, t, hidden), c.reals(b, t, heads * size_v))
        c.maybe(c.reals(2 * hidden + heads * size_v))
    elif form == "packed":
        t = s
        c.give(c.reals(b, s, heads, 3, size), None, None, None)
    else:
        c.give(c.reals(b, s, hidden), c.reals(b, heads, t, size), c.reals(b, heads, t, size), None)
    keys = past + t
    if c.chance(0.4):
        rows = c.integers(0, 1, b, keys, type=np.int32)
        rows[:, 0] = 1
        c.give(rows)
    else:
        c.give(None)
    c.maybe(c.reals(c.pick(1, b), c.pick(1, heads), s, keys), 0.3)
    if past:
        c.give(c.reals(b, heads, past, size), c.reals(b, heads, past, size))
        c.outputs = 3
    if form == "rows" and t == s and c.chance(0.3):
        c.set(unidirectional=1)


def tables(c, positions, half):
    angles = np.outer(np.arange(positions), 10.0 ** -np.linspace(0, 2, half))
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def rotary_embedding(c):
    b, s, heads, size = c.whole(1, 3), c.whole(1, 5), c.whole(1, 3), c.pick(8, 16)
    part = c.chance(0.3)
    half = size // 4 if part else size // 2
    has_heads = c.chance()
    c.give(c.reals(*((b, heads, s, size) if has_heads else (b, s, heads * size))))
    c.give(c.integers(0, 10, b, s) if c.chance() else c.integers(0, 10, 1))
    c.give(*tables(c, 20, half))
    c.set(interleaved=c.whole(0, 1))
    if part:
        c.set(num_heads=heads, rotary_embedding_dim=2 * half)


def rotary_embedding_of_three(c):
    b, s, heads, half = c.whole(1, 3), c.whole(1, 5), c.whole(1, 3), c.pick(4, 8)
    size = 2 * half + c.pick(0, 0, 4)
    has_heads = c.chance()
    c.give(c.reals(*((b, heads, s, size) if has_heads else (b, s, heads * size))))
    c.give(c.integers(0, 19, 3, b, s), *tables(c, 20, half))
    layout = c.whole(0, 1)
    most = half // 3 if layout else half // 2
    height, width = c.whole(0, most), c.whole(0, most)
    c.set(mrope_section=[half - height - width, height, width], mrope_layout=layout, interleaved=c.whole(0, 1))
    if not has_heads or size > 2 * half:
        c.set(num_heads=heads)
    if size > 2 * half:
        c.set(rotary_embedding_dim=2 * half)


def group_query_attention(c):
    b, shared, group, size = c.whole(1, 3), c.whole(1, 2), c.whole(1, 3), c.pick(16, 32)
    heads = shared * group
    mode = c.pick("prompt", "step", "continued")
    s = 1 if mode == "step" else c.whole(2, 5)
    before = 0 if mode == "prompt" else c.whole(1, 6)
    if mode == "continued":
        b = 1
    total = before + s
    room = c.pick(before, before, total + 2)
    window = c.whole(1, 4)
    evicts = c.chance(0.3)
    if evicts:  # how many positions are dropped at once; afterwards all rows are taken, which is where their contents are specified
        at_once = c.whole(1, 3)
        room, total = window + at_once - 1, max(total, window + at_once - 1)
        total += -(total - room) % at_once
        s = total if mode == "prompt" else s
        c.set(sliding_window_cache=1)
    ends = np.full(b, total - 1, np.int32)
    if mode == "step" and b > 1 and not evicts:
        ends[1:] = c.integers(0, total - 1, b - 1, type=np.int32)
    c.set(num_heads=heads, kv_num_heads=shared)
    q, k, v = c.reals(b, s, heads * size), c.reals(b, s, shared * size), c.reals(b, s, shared * size)
    if c.chance():
        c.give(np.concatenate([q, k, v], axis=2), None, None)
    else:
        c.give(q, k, v)
    c.give(c.reals(b, shared, room, size), c.reals(b, shared, room, size)) if room else c.give(None, None)
    c.give(ends)
    c.fix(np.array([total], np.int32))
    if c.chance():
        c.give(*tables(c, 20, size // 2))
        c.set(do_rotary=1, rotary_interleaved=c.whole(0, 1))
    else:
        c.give(None, None)
    c.give(None)
    c.maybe(c.reals(c.pick(1, b), c.pick(1, heads), s, total), 0 if evicts else 0.3)
    if c.chance(0.3):
        c.give(c.reals(heads))
    elif c.chance(0.3):
        c.set(smooth_softmax=1)
    if c.chance(0.3):
        c.set(softcap=2.0)
    if c.chance(0.3):
        c.set(scale=0.4)
    if evicts or c.chance(0.3):
        c.set(local_window_size=window)
    c.outputs = 3


# ---- Integers of 8 bits


def scale_and_zero(c, type, scale=None):
    low, high = (0, 255) if type == np.uint8 else (-128, 127)
    scale = scale if scale is not None else c.random.uniform(0.02, 0.1)
    return np.array(scale, np.float32), np.array(c.whole(low // 2, high // 2), type)


def bytes_of(c, type, *shape):
    return c.integers(0, 255, *shape, type=np.uint8).view(type) if type == np.int8 else c.integers(0, 255, *shape, type=np.uint8)


def weights_of(c, type, *shape):
    """Signed ones of 7 bits: ONNX Runtime's products saturate in 16 bits on processors without VNNI."""
    return bytes_of(c, type, *shape) if type == np.uint8 else c.integers(-64, 63, *shape, type=np.int8)


def quantized(inputs, prepare=None):
    def draw(c):
        type = c.pick(np.uint8, np.int8)
        shape = (2, 3, 5, 6)
        for _ in range(inputs):
            c.give(bytes_of(c, type, *shape))
            c.fix(*scale_and_zero(c, type))
        if prepare:
            prepare(c)
        if c.op in ("QLinearSigmoid", "QLinearSoftmax"):
            c.fix(np.array(1 / 256, np.float32), np.array(0 if type == np.uint8 else -128, type))
        else:
            c.fix(*scale_and_zero(c, type))
        c.tolerance = "quantum"

    return draw


def qlinear_softmax(c):
    c.set(opset=13, axis=c.pick(-1, 1))


def qlinear_average_pool(c):
    c.set(kernel_shape=[2, 2], strides=[1, 2], channels_last=0, count_include_pad=c.whole(0, 1), pads=[1, 0, 0, 1])


def qlinear_conv(c):
    last, channels, group = c.whole(0, 1), c.whole(1, 3), c.pick(1, 1, 2)
    sizes = c.whole(4, 7), c.whole(4, 7)
    type = np.uint8
    c.give(bytes_of(c, type, 2, *((*sizes, group * channels) if last else (group * channels, *sizes))))
    c.fix(*scale_and_zero(c, type))
    c.fix(bytes_of(c, np.int8, group * c.whole(1, 3), channels, 3, 2), np.array(0.01, np.float32), np.array(0, np.int8))
    c.fix(np.array(0.3, np.float32), np.array(c.whole(100, 150), type))
    if c.chance():
        c.fix(c.integers(-300, 300, c.inputs[3].shape[0], type=np.int32))
    c.set(channels_last=last, group=group, kernel_shape=[3, 2], strides=[c.whole(1, 2), 1], pads=[1, 0, c.whole(0, 1), 1])
    c.tolerance = "quantum"


def qlinear_concat(c):
    type = c.pick(np.uint8, np.int8)
    c.fix(*scale_and_zero(c, type))
    for _ in range(c.whole(1, 3)):
        c.give(bytes_of(c, type, 2, c.whole(1, 4), 3))
        c.fix(*scale_and_zero(c, type))
    c.set(axis=1)
    c.tolerance = "quantum"


def qlinear_where(c):
    type = c.pick(np.uint8, np.int8)
    c.give(c.random.random((3, 5)) < 0.5)
    for _ in range(2):
        c.give(bytes_of(c, type, 3, 5))
        c.fix(*scale_and_zero(c, type))
    c.fix(*scale_and_zero(c, type))
    c.tolerance = "quantum"


def qgemm(c):
    m, k, n = c.whole(1, 6), c.whole(1, 7), c.whole(1, 8)
    ta, tb = c.whole(0, 1), c.whole(0, 1)
    c.give(bytes_of(c, np.uint8, *((k, m) if ta else (m, k))))
    c.fix(*scale_and_zero(c, np.uint8))
    type_b = c.pick(np.uint8, np.int8)
    c.fix(weights_of(c, type_b, *((n, k) if tb else (k, n))), *scale_and_zero(c, type_b))
    c.give(c.integers(-99, 99, n, type=np.int32) if c.chance() else None)
    c.set(transA=ta, transB=tb, alpha=1.0)
    if c.chance():
        c.fix(np.array(0.5, np.float32), np.array(100, np.uint8))
        c.tolerance = "quantum"


def matmul_integer_to_float(c):
    m, k, n = c.whole(1, 6), c.whole(1, 7), c.whole(1, 8)
    c.give(bytes_of(c, np.uint8, 2, m, k))
    type_b = c.pick(np.uint8, np.int8)
    c.fix(weights_of(c, type_b, k, n))
    by_column = c.chance()
    c.give(np.array(0.03, np.float32), np.abs(c.reals(n)) if by_column else np.array(0.02, np.float32))
    c.give(np.array(7, np.uint8) if c.chance() else None)
    c.give((bytes_of(c, type_b, n) if by_column else np.array(3, type_b)) if c.chance() else None)
    c.maybe(c.reals(n))


def dynamic_quantize_matmul(c):
    m, k, n = c.whole(1, 6), c.whole(1, 7), c.whole(1, 8)
    type_b = c.pick(np.uint8, np.int8)
    c.give(c.reals(2, m, k))
    c.fix(weights_of(c, type_b, k, n), np.abs(c.reals(n)) if c.chance() else np.array(0.02, np.float32))
    if c.chance():
        c.fix(np.array(3, type_b))
    else:
        c.give(None)
    c.maybe(c.reals(n))
    c.tolerance = 1e-3


def qattention(c):
    b, s, heads, size, width = c.whole(1, 3), c.whole(1, 5), c.whole(1, 3), 4, c.whole(3, 9)
    hidden = heads * size
    c.set(num_heads=heads, unidirectional=c.whole(0, 1))
    c.give(bytes_of(c, np.uint8, b, s, width))
    c.fix(weights_of(c, np.int8, width, 3 * hidden))
    c.give(c.reals(3 * hidden))
    c.fix(np.array(0.01, np.float32), np.array(0.02, np.float32))
    c.maybe(c.integers(1, s, b, type=np.int32), 0.4)
    c.fix(np.array(100, np.uint8), np.array(0, np.int8))
    c.tolerance = 1e-4


def quantize_linear(c):
    type = c.pick(np.uint8, np.int8)
    c.give(c.reals(2, 3, 4, scale=3))
    if c.chance():
        c.fix(np.abs(c.reals(3)) + np.float32(0.01), bytes_of(c, type, 3))
        c.set(axis=1)
    else:
        c.fix(*scale_and_zero(c, type))
    c.tolerance = "quantum"


def dequantize_linear(c):
    type = c.pick(np.uint8, np.int8)
    c.give(bytes_of(c, type, 2, 3, 4))
    c.fix(*scale_and_zero(c, type))


# ---- Mixtures of experts


def routed(c, rows, width, experts):
    """The input and scores, and the attributes that both operators have; returns by how much the first layer is wider."""
    shape = (rows, width) if c.chance() else (1, rows, width) if c.chance() or rows % 2 else (2, rows // 2, width)
    kind = c.pick("relu", "gelu", "silu", "identity", "swiglu")
    c.set(k=c.whole(1, experts), activation_type=kind, normalize_routing_weights=c.whole(0, 1))
    c.give(c.reals(*shape), c.reals(rows, experts, scale=2))
    if kind == "swiglu":
        c.set(swiglu_fusion=1)
        if c.chance():
            c.set(activation_alpha=1.702, activation_beta=1.0)
        if c.chance():
            c.set(swiglu_limit=c.random.uniform(0.3, 2))
    return 2 if kind == "swiglu" else 1


def mixture(c):
    rows, width, inner, experts = c.pick(1, 2, 7, 30), c.whole(1, 20), c.whole(1, 24), c.whole(1, 6)
    factor = routed(c, rows, width, experts)
    optional = lambda *shape: c.fix(c.reals(*shape)) if c.chance() else c.give(None)  # noqa: E731
    c.fix(c.reals(experts, factor * inner, width))
    optional(experts, factor * inner)
    c.fix(c.reals(experts, width, inner))
    optional(experts, width)
    c.tolerance = 1e-4


def quantized_mixture(c):
    bits = c.pick(4, 8)
    block = c.pick(0, 16, 32, 64)
    rows, experts = c.pick(1, 2, 7, 30), c.whole(1, 6)
    width, inner = (2 * c.whole(8, 40) if block == 0 else block * c.whole(1, 3) for _ in range(2))
    factor = routed(c, rows, width, experts)
    c.set(expert_weight_bits=bits)
    if block:
        c.set(block_size=block)
    zeros = c.chance(0.3)
    layers = [(factor * inner, width), (width, inner)]
    for to, width_ in layers:
        c.fix(bytes_of(c, np.uint8, experts, to, width_ * bits // 8))
        scale = np.abs(c.reals(experts, to, *([width_ // block] if block else []), scale=0.1 / 2 ** (bits - 4))) + np.float32(0.001)
        c.fix(scale)
        if c.chance():
            c.fix(c.reals(experts, to))
        else:
            c.give(None)
    c.give(None, None, None)
    for to, width_ in layers:
        if zeros:
            packed = (-(-to * bits // 8),) if not block else (to, -(-(width_ // block) * bits // 8))
            c.fix(bytes_of(c, np.uint8, experts, *packed))
        else:
            c.give(None)
    c.give(None)
    if c.chance(0.3):
        c.give(1 / (1 + np.exp(-c.reals(rows, experts))))
    c.tolerance = 2e-2  # ONNX Runtime rounds the products' left operands to 8 bits where it has kernels for that


OPERATORS = {
    "Gelu": gelu,
    "BiasGelu": bias_gelu,
    "FastGelu": fast_gelu,
    "QuickGelu": quick_gelu,
    "SimplifiedLayerNormalization": simplified,
    "SkipLayerNormalization": skip_layer,
    "SkipSimplifiedLayerNormalization": skip_simplified,
    "EmbedLayerNormalization": embed,
    "FusedMatMul": fused_matmul,
    "TransposeMatMul": fused_matmul,
    "FusedGemm": fused_gemm,
    "FusedConv": fused_conv,
    "NhwcMaxPool": nhwc_max_pool,
    "CausalConvWithState": causal_convolution,
    "MatMulNBits": matmul_n_bits,
    "GatherBlockQuantized": gather_block_quantized,
    "Attention": attention,
    "MultiHeadAttention": multi_head_attention,
    "RotaryEmbedding": rotary_embedding,
    "MRotaryEmbedding": rotary_embedding_of_three,
    "LinearAttention": gates.linear_attention,
    "LinearAttentionGate": gates.linear_attention_gate,
    "GatedRMSNorm": gates.gated_root_mean_square,
    "BranchwiseRMSNorm": gates.branchwise_root_mean_square,
    "HyperConnectionPreMix": gates.pre_mix,
    "HyperConnectionPostMix": gates.post_mix,
    "GatedAdd": gates.gated_add,
    "ScaledSiLU": gates.scaled_silu,
    "EngramGate": gates.engram_gate,
    "GroupQueryAttention": group_query_attention,
    "MoE": mixture,
    "QMoE": quantized_mixture,
    "QLinearAdd": quantized(2),
    "QLinearMul": quantized(2),
    "QLinearSigmoid": quantized(1),
    "QLinearLeakyRelu": quantized(1, lambda c: c.set(alpha=0.1)),
    "QLinearSoftmax": quantized(1, qlinear_softmax),
    "QLinearAveragePool": quantized(1, qlinear_average_pool),
    "QLinearGlobalAveragePool": quantized(1),
    "QLinearConcat": qlinear_concat,
    "QLinearConv": qlinear_conv,
    "QLinearWhere": qlinear_where,
    "QGemm": qgemm,
    "MatMulIntegerToFloat": matmul_integer_to_float,
    "DynamicQuantizeMatMul": dynamic_quantize_matmul,
    "QAttention": qattention,
    "QuantizeLinear": quantize_linear,
    "DequantizeLinear": dequantize_linear,
}
