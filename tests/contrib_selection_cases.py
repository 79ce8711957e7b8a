"""Random cases of ONNX Runtime's operators that choose and move elements, of products with rare operands, and of operators for which it
has no kernel on the CPU: these have a `peer`, nodes of ONNX's own operators that compute the same."""

import numpy as np
from contrib_cases import weights_of
from onnx import helper


def expand_dims(c):
    shape = [c.whole(1, 4) for _ in range(c.whole(1, 4))]
    c.give(c.reals(*shape))
    c.fix(np.array([c.whole(-len(shape) - 1, len(shape))], np.int32).reshape(c.pick((), (1,))))


def unfold(c):
    shape = [c.whole(1, 7) for _ in range(c.whole(1, 4))]
    axis = c.whole(0, len(shape) - 1)
    c.give(c.reals(*shape))
    c.set(dim=c.pick(axis, axis - len(shape)), size=c.whole(1, shape[axis]), step=c.whole(1, 3))


def torch_embedding(c):
    rows = c.whole(2, 9)
    c.fix(c.reals(rows, c.whole(1, 5)))
    c.give(c.integers(0, rows - 1, *[c.whole(1, 4) for _ in range(c.whole(0, 3))]))
    c.peer = [helper.make_node("Gather", ["x0", "x1"], ["y0"])]


def n_gram_repeat_block(c):
    batch, length, words = c.whole(1, 4), c.whole(1, 20), c.whole(2, 6)
    scores = c.reals(batch, words)
    scores[c.random.random(scores.shape) < 0.1] = np.nan
    c.give(c.integers(0, words - 1, batch, length), scores)
    c.set(ngram_size=c.whole(1, 4))


def crop_and_resize(c):
    images, parts = c.whole(1, 3), c.whole(1, 5)
    c.give(c.reals(images, c.whole(1, 4), c.whole(1, 9), c.whole(1, 9)))
    c.give(c.random.uniform(-0.2, 1.2, (parts, 4)).astype(np.float32))
    c.give(c.integers(0, images - 1, parts, type=np.int32))
    c.fix(np.array([c.whole(1, 6), c.whole(1, 6)], np.int32))
    c.set(mode=c.pick("bilinear", "nearest"))
    if c.chance():
        c.set(extrapolation_value=c.pick(0.0, -2.5))


def bias_dropout(c):
    shape = (c.whole(1, 4), c.whole(1, 3), c.whole(1, 5))
    c.give(c.reals(*shape), c.reals(shape[-1]))
    c.peer = [helper.make_node("Add", ["x0", "x1"], ["sum" if c.chance() else "y0"])]
    if c.peer[0].output[0] == "sum":
        c.give(c.reals(*shape))
        c.peer.append(helper.make_node("Add", ["sum", "x2"], ["y0"]))
    else:
        c.give(None)
    if c.chance():
        c.give(None)
        c.fix(np.array(False))
    if c.chance():
        c.outputs = 2
        c.peer += [helper.make_node("Shape", ["x0"], ["shape"]),
                   helper.make_node("ConstantOfShape", ["shape"], ["y1"], value=helper.make_tensor("true", 9, [1], [1]))]


def conv_transpose(c):
    rank, group = c.whole(1, 3), c.whole(1, 2)
    channels, kernel = group * c.whole(1, 3), [c.whole(1, 3) for _ in range(rank)]
    strides = [c.whole(1, 3) for _ in range(rank)]
    c.give(c.reals(c.whole(1, 2), channels, *(c.whole(3, 6) for _ in range(rank))))
    c.fix(c.reals(channels, c.whole(1, 3), *kernel))
    c.fix(np.array([c.whole(0, 1) for _ in range(2 * rank)], np.int64))
    if c.chance():
        c.give(c.reals(group * c.inputs[1].shape[1]))
    c.set(group=group, kernel_shape=kernel, strides=strides)
    if c.chance() and max(strides) > 1:
        c.set(output_padding=[c.whole(0, s - 1) for s in strides])


def channels_last(c, fused):
    rank, group = c.whole(1, 2), c.whole(1, 2)
    channels, outputs = group * c.whole(1, 3), group * c.whole(1, 3)
    sizes, kernel = [c.whole(4, 8) for _ in range(rank)], [c.whole(1, 3) for _ in range(rank)]
    to_first, to_last = [0, rank + 1, *range(1, rank + 1)], [0, *range(2, rank + 2), 1]
    c.give(c.reals(c.whole(1, 2), *sizes, channels))
    c.fix(c.reals(outputs, channels // group, *kernel))
    c.give(c.reals(outputs) if c.chance() else None)
    settings = dict(group=group, kernel_shape=kernel, strides=[c.whole(1, 2) for _ in range(rank)])
    c.set(**settings)
    given = ["first", "x1", *(["x2"] if c.inputs[2] is not None else [])]
    c.peer = [helper.make_node("Transpose", ["x0"], ["first"], perm=to_first), helper.make_node("Conv", given, ["conv"], **settings),
              helper.make_node("Transpose", ["conv"], ["y0"], perm=to_last)]
    if not fused:
        return
    if c.chance():
        y = [(s - k) // t + 1 for s, k, t in zip(sizes, kernel, settings["strides"])]
        c.give(c.reals(c.inputs[0].shape[0], *y, outputs))
        c.peer[-1].output[0] = "last"
        c.peer.append(helper.make_node("Add", ["last", "x3"], ["y0"]))
    if c.chance():
        c.set(activation="Relu")
        c.peer[-1].output[0] = "sum"
        c.peer.append(helper.make_node("Relu", ["sum"], ["y0"]))


def pad(c):
    shape = [c.whole(2, 5) for _ in range(c.whole(1, 3))]
    c.give(c.reals(*shape))
    c.fix(np.array([c.whole(0, 1) for _ in range(2 * len(shape))], np.int64))
    mode = c.pick("constant", "reflect", "edge")
    c.set(mode=mode)
    if mode == "constant":
        c.maybe(np.array([1.5], np.float32))


def grid_sample(c):
    n = c.whole(1, 2)
    c.give(c.reals(n, c.whole(1, 3), c.whole(2, 6), c.whole(2, 6)))
    c.give(c.random.uniform(-1.2, 1.2, (n, c.whole(1, 4), c.whole(1, 4), 2)).astype(np.float32))
    c.set(mode=c.pick("bilinear", "nearest", "bicubic"), padding_mode=c.pick("zeros", "border", "reflection"), align_corners=c.whole(0, 1))
    c.tolerance = 1e-4


def matmul_integer_16(c):
    m, k, n = c.whole(1, 6), c.whole(1, 9), c.whole(1, 7)
    types = c.pick((np.int16, np.int16), (np.int16, np.int16), (np.uint16, np.uint16), (np.uint16, np.int16))
    for size, type in zip(((m, k), (k, n)), types):
        c.give(c.integers(-900 if type == np.int16 else 0, 900, *size, type=type))
    if types[0] != np.int16:  # ONNX Runtime has no kernel
        wide = 12 if types[1] == np.uint16 else 6
        c.peer = [helper.make_node("Cast", ["x0"], ["a"], to=wide), helper.make_node("Cast", ["x1"], ["b"], to=wide),
                  helper.make_node("MatMul", ["a", "b"], ["y0"])]


def matmul_bnb4(c):
    k, n, block = c.whole(1, 40), c.whole(1, 9), c.pick(16, 32, 64)
    c.give(c.reals(*c.pick((3,), (2, 3)), k))
    c.fix(c.integers(0, 255, (k * n + 1) // 2, type=np.uint8))
    c.fix(np.abs(c.reals(-(-k * n // block))))
    c.set(K=k, N=n, block_size=block, quant_type=c.whole(0, 1))


def mul_integer(c):
    types = c.pick(np.uint8, np.int8), c.pick(np.uint8, np.int8)
    shape = (c.whole(1, 4), c.whole(1, 5))
    c.peer = []
    for i, type in zip((0, 2), types):
        limits = np.iinfo(type)
        c.give(c.integers(limits.min, limits.max, *shape[i // 2:], type=type), c.integers(0, 9, type=type) if c.chance() else None)
        c.peer.append(helper.make_node("Cast", [f"x{i}"], [f"wide{i}"], to=6))
        if c.inputs[-1] is not None:
            c.peer += [helper.make_node("Cast", [f"x{i + 1}"], [f"zero{i}"], to=6),
                       helper.make_node("Sub", [f"wide{i}", f"zero{i}"], [f"centered{i}"])]
    operands = [f"centered{i}" if c.inputs[i + 1] is not None else f"wide{i}" for i in (0, 2)]
    c.peer.append(helper.make_node("Mul", operands, ["y0"]))


def reduce_sum_integer(c):
    shape = [c.whole(1, 5) for _ in range(3)]
    is_signed = c.chance()
    c.give(c.integers(-128, 127, *shape, type=np.int8) if is_signed else c.integers(0, 255, *shape, type=np.uint8))
    axes, keepdims = c.pick([0], [1, 2], [-1], [0, 1, 2]), c.whole(0, 1)
    c.set(keepdims=keepdims)
    if len(axes) < 3 or c.chance():
        c.set(axes=axes)
    c.peer = [helper.make_node("Cast", ["x0"], ["wide"], to=7), helper.make_node("Constant", [], ["axes"], value_ints=axes),
              helper.make_node("ReduceSum", ["wide", "axes"], ["sum"], keepdims=keepdims),
              helper.make_node("Cast", ["sum"], ["y0"], to=6 if is_signed else 12)]


def quantized_embed(c):
    batch, length, words, hidden = c.whole(1, 3), c.whole(1, 5), 9, c.pick(4, 8)
    has_segments = c.chance()
    c.give(c.integers(0, words - 1, batch, length, type=np.int32))
    c.give(c.integers(0, 1, batch, length, type=np.int32) if has_segments else None)
    sizes = [(words, hidden), (length + 2, hidden), (2, hidden) if has_segments else None, (hidden,), (hidden,)]
    for size in sizes:
        c.give(None) if size is None else c.fix(c.integers(0, 255, *size, type=np.uint8))
    c.give(c.integers(0, 1, batch, length, type=np.int32) if c.chance() else None)
    for size in sizes:
        c.give(None) if size is None else c.fix(np.float32(c.random.uniform(0.002, 0.02)))
    for size in sizes:
        c.give(None) if size is None else c.fix(np.uint8(c.whole(100, 150)))
    c.outputs = 2
    c.set(epsilon=c.pick(1e-12, 1e-5))
    c.tolerance = 1e-4


def inverse(c):
    size = c.whole(1, 6)
    c.give(c.reals(*[c.whole(1, 3) for _ in range(c.whole(0, 2))], size, size) + 4 * np.eye(size, dtype=np.float32))
    c.tolerance, c.is_arithmetic = 1e-3, False


def quantized_lstm(c):
    length, batch, inputs, hidden = c.whole(1, 6), c.whole(1, 3), c.whole(1, 9), c.whole(1, 8)
    direction = c.pick("forward", "reverse", "bidirectional")
    directions, type = 2 if direction == "bidirectional" else 1, c.pick(np.uint8, np.int8)
    c.give(c.reals(length, batch, inputs))
    for columns in (inputs, hidden):
        c.fix(weights_of(c, type, directions, columns, 4 * hidden))
    c.maybe(c.reals(directions, 8 * hidden))
    c.give(c.integers(0, length, batch, type=np.int32) if c.chance(0.3) else None)
    c.maybe(c.reals(directions, batch, hidden, scale=0.5))
    c.maybe(c.reals(directions, batch, hidden, scale=0.5))
    c.maybe(c.reals(directions, 3 * hidden, scale=0.5), 0.3)
    by_column = c.chance()
    for _ in range(2):
        sizes = (directions, 4 * hidden) if by_column else (directions,)
        c.fix(c.random.uniform(0.002, 0.01, sizes).astype(np.float32))
        c.fix(np.full(sizes, 128, type) if type == np.uint8 else np.zeros(sizes, type))
    c.set(hidden_size=hidden, direction=direction)
    if c.chance(0.2):
        c.set(clip=1.5)
    if c.chance(0.2):
        c.set(input_forget=1)
    c.outputs = 3
    c.tolerance, c.is_arithmetic = 1e-4, False


OPERATORS = {
    "ExpandDims": expand_dims,
    "UnfoldTensor": unfold,
    "TorchEmbedding": torch_embedding,
    "NGramRepeatBlock": n_gram_repeat_block,
    "CropAndResize": crop_and_resize,
    "BiasDropout": bias_dropout,
    "ConvTransposeWithDynamicPads": conv_transpose,
    "Pad": pad,
    "GridSample": grid_sample,
    "NhwcConv": lambda c: channels_last(c, False),
    "NhwcFusedConv": lambda c: channels_last(c, True),
    "MatMulInteger16": matmul_integer_16,
    "MatMulBnb4": matmul_bnb4,
    "MulInteger": mul_integer,
    "ReduceSumInteger": reduce_sum_integer,
    "QEmbedLayerNormalization": quantized_embed,
    "Inverse": inverse,
    "DynamicQuantizeLSTM": quantized_lstm,
}
