"""Random nodes of ONNX Runtime's linear attention, and of the gates and normalizations of networks that have it: as contrib_cases.py."""

import numpy as np


def linear_attention(c, length=None):
    b, s, few, group, keys, values = c.whole(1, 3), length or c.pick(1, 1, 2, 5, 9), c.whole(1, 3), c.whole(1, 3), c.pick(4, 8), c.pick(4, 6)
    queries, heads = (few * group, few) if c.chance() else (few, few * group)
    shared = queries if queries < heads and c.chance() else heads
    rule = c.pick("linear", "gated", "delta", "gated_delta")
    unit = lambda x: (x / np.linalg.norm(x, axis=-1, keepdims=True)).reshape(b, s, -1)  # noqa: E731
    c.give(c.reals(b, s, queries * keys), unit(c.reals(b, s, shared, keys)), c.reals(b, s, heads * values))
    c.maybe(c.reals(b, heads, keys, values), 0.7)
    c.give(-np.abs(c.reals(b, s, heads * c.pick(1, keys))) if "gated" in rule else None)
    c.give(c.random.random((b, s, c.pick(1, heads))).astype(np.float32) if "delta" in rule else None)
    c.set(q_num_heads=queries, kv_num_heads=heads)
    if rule != "gated_delta" or c.chance():
        c.set(update_rule=rule)
    if c.chance(0.3):
        c.set(scale=0.3)
    c.outputs = 2


def linear_attention_gate(c):
    b, s, heads = c.whole(1, 3), c.whole(1, 5), c.whole(1, 6)
    c.give(c.reals(b, s, heads), c.reals(heads), -np.abs(c.reals(heads)))
    if c.chance():
        c.give(c.reals(b, s, heads))
        c.outputs = 2


# ---- Gates, and streams of hyper-connections


def gated_root_mean_square(c):
    b, s, heads, size = c.whole(1, 3), c.whole(1, 4), c.whole(1, 3), c.whole(2, 9)
    c.give(c.reals(b, s, heads * size), c.reals(size), c.reals(b, s, heads * size))
    c.set(activation=c.pick("silu", "swish", "sigmoid"), epsilon=c.pick(1e-5, 1e-3))


def branches(c):
    """Streams, grouped or not, with their number and size."""
    b, s, count, size = c.whole(1, 3), c.whole(1, 4), c.whole(2, 4), c.whole(5, 9)
    flat = c.chance()
    if flat:
        c.set(num_branches=count)
    c.give(c.reals(b, s, count * size) if flat else c.reals(b, s, count, size))
    return (b, s), count, size, flat


def branchwise_root_mean_square(c):
    _, count, size, _ = branches(c)
    c.maybe(c.reals(*c.pick((count * size,), (count, size), (size,))), 0.7)


def pre_mix(c):
    rows, count, size, flat = branches(c)
    c.give(c.reals(*rows, *c.pick((count,), (count, 1), (count, size), (count * size if flat else count,))))
    if c.chance():
        c.set(reduction_scale=0.4)


def post_mix(c):
    rows, count, size, _ = branches(c)
    c.give(c.reals(*rows, size), c.reals(*rows, *c.pick((count,), (count, 1), (count, size))))
    c.maybe(c.reals(*rows, count, count))


def gated_add(c):
    rows, size = (c.whole(1, 3), c.whole(1, 4)), c.whole(1, 9)
    c.give(c.reals(*rows, size), c.reals(*rows, size), c.reals(*rows, 1))


def scaled_silu(c):
    c.give(c.reals(c.whole(1, 4), c.whole(1, 9)))
    c.maybe(np.asarray(c.reals()))
    if c.chance():
        c.set(alpha=c.pick(0.5, 1.7))


def engram_gate(c):
    b, s, streams, size = c.whole(1, 3), c.whole(1, 4), c.whole(1, 3), c.whole(2, 9)
    c.give(c.reals(b, s, streams, size), c.reals(b, s, streams, size), c.reals(b, s, size), c.reals(streams, size), c.reals(streams, size))
    if c.chance():
        c.give(c.reals(streams, size))
        c.outputs = 2
