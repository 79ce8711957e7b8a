"""Writes rules in TASO's format, in the manner of its generator and with the axioms of its verifier, and what is true of each:

    taso_rules.py OUT.pb [EXPECTED.json]

EXPECTED lists, in the file's order, the rule's name and "true", "false" (a counterexample exists) or "ill-typed" (there is no such
rule of ours)."""

import json
import sys

SAME, VALID = 0, 1
NONE, SIGMOID, RELU, TANH = 0, 1, 2, 3


def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field, value):
    return varint(field << 3) + varint(value)


def message(field, body):
    return varint(field << 3 | 2) + varint(len(body)) + body


class Side:
    """Operators in order; a tensor is a pair of operator and output, or an input's negative number."""

    def __init__(self):
        self.ops = []

    def op(self, kind, inputs=(), **parameters):
        keys = dict(outputs=2, kernel_h=4, kernel_w=5, stride_h=6, stride_w=7, pad=8, act=9, rank=10, axis=11, perm=12,
                    shuffle=13, count=14)
        body = number(1, kind)
        for t in inputs:
            op, output = t if isinstance(t, tuple) else (t, 0)
            body += message(2, number(1, op) + number(2, output))
        for key, value in parameters.items():
            body += message(3, number(1, keys[key]) + number(2, value))
        self.ops.append(body)
        return len(self.ops) - 1, 0

    def conv(self, x, w, stride=1, pad=SAME, act=NONE, kernel=(3, 3)):
        return self.op(3, (x, w), kernel_h=kernel[0], kernel_w=kernel[1], stride_h=stride, stride_w=stride, pad=pad, act=act)

    def pool(self, kind, x, kernel=3, stride=1, pad=SAME):
        return self.op(kind, (x,), kernel_h=kernel, kernel_w=kernel, stride_h=stride, stride_w=stride, pad=pad, act=NONE)

    def max_pool(self, x, **k):
        return self.pool(6, x, **k)

    def avg_pool(self, x, **k):
        return self.pool(7, x, **k)

    def relu(self, x):
        return self.op(8, (x,))

    def sigmoid(self, x):
        return self.op(9, (x,))

    def tanh(self, x):
        return self.op(10, (x,))

    def concat(self, axis, *tensors, rank=4):
        return self.op(12, tensors, axis=axis, rank=rank)

    def split(self, axis, x, parts=2):
        op, _ = self.op(13, (x,), outputs=parts, axis=axis)
        return [(op, i) for i in range(parts)]

    def transpose(self, x, perm=(1, 0), shuffle=1):
        encoded = 0
        for p in perm:
            encoded = encoded * len(perm) + p
        return self.op(15, (x,), rank=len(perm), perm=encoded, shuffle=shuffle)

    def add(self, x, y):
        return self.op(16, (x, y))

    def mul(self, x, y):
        return self.op(17, (x, y))

    def matmul(self, x, y, act=NONE):
        return self.op(18, (x, y), act=act)

    def scale(self, x, s):
        return self.op(19, (x, s))

    def enlarge(self, w, kernel=(3, 3)):
        return self.op(20, (w,), kernel_h=kernel[0], kernel_w=kernel[1])

    def enlarge_like(self, w, v):
        return self.op(20, (w, v))

    def merge(self, w, count):
        return self.op(21, (w,), count=count)

    def imm(self):
        return self.op(22)

    def iconv(self, kernel=3):
        return self.op(23, kernel_h=kernel, kernel_w=kernel)

    def one(self):
        return self.op(24)

    def const_pool(self, kernel=3):
        return self.op(25, kernel_h=kernel, kernel_w=kernel)


RULES = []
x, y, z, w, v, u, s, t = range(-1, -9, -1)


def rule(name, source, target, truth="true"):
    """A side is a function from a Side to a tensor or a list of tensors."""
    left, right = Side(), Side()
    outputs = [side if isinstance(side, list) else [side] for side in (source(left), target(right))]
    body = b"".join(message(1, op) for op in left.ops) + b"".join(message(2, op) for op in right.ops)
    for a, b in zip(*outputs):
        a, b = (p if isinstance(p, tuple) else (p, 0) for p in (a, b))
        body += message(3, number(1, a[0]) + number(2, b[0]) + number(3, a[1]) + number(4, b[1]))
    RULES.append((name, truth, body))


def both(name, left, right, truth="true"):
    rule(name, left, right, truth)
    rule(name + ", reversed", right, left, truth)


MODES = [(stride, pad, act) for stride in (1, 2) for pad in (SAME, VALID) for act in (NONE, RELU)]
WINDOWS = [(stride, pad) for stride in (1, 2) for pad in (SAME, VALID)]


def mode_name(stride, pad, act=NONE):
    return f" stride {stride} {'SAME' if pad == SAME else 'VALID'}" + ("", " sigmoid", " relu", " tanh")[act]


def axioms():
    both("add associates", lambda g: g.add(x, g.add(y, z)), lambda g: g.add(g.add(x, y), z))
    rule("add commutes", lambda g: g.add(x, y), lambda g: g.add(y, x))
    both("mul associates", lambda g: g.mul(x, g.mul(y, z)), lambda g: g.mul(g.mul(x, y), z))
    rule("mul commutes", lambda g: g.mul(x, y), lambda g: g.mul(y, x))
    both("mul distributes", lambda g: g.mul(g.add(x, y), z), lambda g: g.add(g.mul(x, z), g.mul(y, z)))
    both("scale associates", lambda g: g.scale(g.scale(x, s), t), lambda g: g.scale(x, g.scale(s, t)))
    both("scale of add", lambda g: g.scale(g.add(x, y), s), lambda g: g.add(g.scale(x, s), g.scale(y, s)))
    both("scale of mul", lambda g: g.scale(g.mul(x, y), s), lambda g: g.mul(x, g.scale(y, s)))
    both("scale of transpose", lambda g: g.scale(g.transpose(x), s), lambda g: g.transpose(g.scale(x, s)))
    both("scale of matmul", lambda g: g.scale(g.matmul(x, y), s), lambda g: g.matmul(x, g.scale(y, s)))
    both("scale of concat", lambda g: g.scale(g.concat(0, x, y, rank=2), s),
         lambda g: g.concat(0, g.scale(x, s), g.scale(y, s), rank=2))
    for stride, pad, act in [(1, SAME, NONE), (1, SAME, RELU), (2, VALID, RELU)]:
        rule("scale in conv" + mode_name(stride, pad, act), lambda g: g.conv(g.scale(x, s), w, stride, pad, act),
             lambda g: g.conv(x, g.scale(w, s), stride, pad, act))
    for stride, pad in [(1, SAME), (2, SAME)]:
        both("scale of conv" + mode_name(stride, pad), lambda g: g.scale(g.conv(x, w, stride, pad), s),
             lambda g: g.conv(g.scale(x, s), w, stride, pad))
    for stride, pad in [(1, SAME), (2, VALID)]:
        rule("relu of conv" + mode_name(stride, pad), lambda g: g.relu(g.conv(x, w, stride, pad)),
             lambda g: g.conv(x, w, stride, pad, RELU))
    for rank, axis in [(2, 0), (4, 1)]:
        both(f"relu of concat {axis} of {rank}", lambda g: g.relu(g.concat(axis, x, y, rank=rank)),
             lambda g: g.concat(axis, g.relu(x), g.relu(y), rank=rank))
    rule("relu of transpose", lambda g: g.relu(g.transpose(x)), lambda g: g.transpose(g.relu(x)))
    for stride, pad in [(1, SAME), (2, SAME), (1, VALID)]:
        both("conv of sum of kernels" + mode_name(stride, pad), lambda g: g.conv(x, g.add(w, v), stride, pad),
             lambda g: g.add(g.conv(x, w, stride, pad), g.conv(x, v, stride, pad)))
    for stride, pad in [(1, SAME), (2, VALID)]:
        both("conv of sum" + mode_name(stride, pad), lambda g: g.conv(g.add(x, y), w, stride, pad),
             lambda g: g.add(g.conv(x, w, stride, pad), g.conv(y, w, stride, pad)))
    for stride, pad in [(1, SAME), (2, SAME)]:
        both("sum of convs" + mode_name(stride, pad), lambda g: g.add(g.conv(x, w, stride, pad), g.conv(y, v, stride, pad)),
             lambda g: g.conv(g.concat(1, x, y), g.concat(1, w, v), stride, pad))
    both("sum of products", lambda g: g.add(g.matmul(x, y), g.matmul(z, w)),
         lambda g: g.matmul(g.concat(1, x, z, rank=2), g.concat(0, y, w, rank=2)))
    for rank, axis in [(2, 0), (2, 1), (4, 1)]:
        rule(f"concat {axis} of sums of {rank}", lambda g: g.concat(axis, g.add(x, y), g.add(z, w), rank=rank),
             lambda g: g.add(g.concat(axis, x, z, rank=rank), g.concat(axis, y, w, rank=rank)))
    rule("concat of products", lambda g: g.concat(1, g.mul(x, y), g.mul(z, w)),
         lambda g: g.mul(g.concat(1, x, z), g.concat(1, y, w)))
    for stride, pad, act in [(1, SAME, NONE), (1, SAME, RELU), (2, VALID, NONE)]:
        both("concat 0 of convs" + mode_name(stride, pad, act),
             lambda g: g.concat(0, g.conv(x, w, stride, pad, act), g.conv(y, w, stride, pad, act)),
             lambda g: g.conv(g.concat(0, x, y), w, stride, pad, act))
    for stride, pad, act in [(1, SAME, NONE), (1, SAME, RELU), (2, SAME, RELU)]:
        both("concat 1 of convs" + mode_name(stride, pad, act),
             lambda g: g.concat(1, g.conv(x, w, stride, pad, act), g.conv(x, v, stride, pad, act)),
             lambda g: g.conv(x, g.concat(0, w, v), stride, pad, act))
    both("matmul associates", lambda g: g.matmul(x, g.matmul(y, z)), lambda g: g.matmul(g.matmul(x, y), z))
    rule("split 0 of concat", lambda g: g.split(1, g.concat(1, g.relu(x), g.relu(y))), lambda g: [g.relu(x), g.relu(y)])
    both("matmul of concat", lambda g: g.matmul(x, g.concat(1, y, z, rank=2)),
         lambda g: g.concat(1, g.matmul(x, y), g.matmul(x, z), rank=2))
    both("matmul of sum", lambda g: g.matmul(x, g.add(y, z)), lambda g: g.add(g.matmul(x, y), g.matmul(x, z)))
    rule("transpose twice", lambda g: g.transpose(g.transpose(x)), lambda g: x)
    both("transpose of matmul", lambda g: g.transpose(g.matmul(x, y)), lambda g: g.matmul(g.transpose(y), g.transpose(x)))
    both("transpose of concat", lambda g: g.transpose(g.concat(0, x, y, rank=2)),
         lambda g: g.concat(1, g.transpose(x), g.transpose(y), rank=2))
    rule("concat geometry", lambda g: g.concat(0, g.concat(1, x, y), g.concat(1, z, w)),
         lambda g: g.concat(1, g.concat(0, x, z), g.concat(0, y, w)))
    rule("transpose of add", lambda g: g.transpose(g.add(x, y)), lambda g: g.add(g.transpose(x), g.transpose(y)))
    rule("transpose of mul", lambda g: g.transpose(g.mul(x, y)), lambda g: g.mul(g.transpose(x), g.transpose(y)))
    for stride, pad in WINDOWS[:2]:
        rule("concat 1 of average pools" + mode_name(stride, pad),
             lambda g: g.concat(1, g.avg_pool(x, stride=stride, pad=pad), g.avg_pool(y, stride=stride, pad=pad)),
             lambda g: g.avg_pool(g.concat(1, x, y), stride=stride, pad=pad))
    for axis in (0, 1):
        rule(f"concat {axis} of max pools", lambda g: g.concat(axis, g.max_pool(x), g.max_pool(y)),
             lambda g: g.max_pool(g.concat(axis, x, y)))
    rule("concat 0 of max pools stride 2", lambda g: g.concat(0, g.max_pool(x, stride=2), g.max_pool(y, stride=2)),
         lambda g: g.max_pool(g.concat(0, x, y), stride=2))
    for stride, pad in WINDOWS:
        rule("average pool as conv" + mode_name(stride, pad), lambda g: g.avg_pool(x, stride=stride, pad=pad),
             lambda g: g.conv(x, g.const_pool(), stride, pad))
    rule("conv with the identity", lambda g: g.conv(x, g.iconv()), lambda g: x)
    rule("matmul with the identity", lambda g: g.matmul(x, g.imm()), lambda g: x)
    rule("the identity times", lambda g: g.matmul(g.imm(), x), lambda g: x)
    rule("mul with ones", lambda g: g.mul(x, g.one()), lambda g: x)
    rule("average pool of the identity kernel", lambda g: g.avg_pool(g.iconv()), lambda g: g.const_pool())
    for act in (NONE, RELU):
        for kernel in ((1, 1), (1, 3), (3, 1)):
            rule(f"enlarge {kernel}" + mode_name(1, SAME, act), lambda g: g.conv(x, w, 1, SAME, act, kernel),
                 lambda g: g.conv(x, g.enlarge(w), 1, SAME, act))


def fusions():
    for stride, pad, act in [(1, SAME, NONE), (1, SAME, RELU), (2, SAME, NONE), (2, VALID, RELU)]:
        rule("two convs of one input" + mode_name(stride, pad, act),
             lambda g: [g.conv(x, w, stride, pad, act), g.conv(x, v, stride, pad, act)],
             lambda g: g.split(1, g.conv(x, g.concat(0, w, v), stride, pad, act)))
    rule("three convs of one input", lambda g: [g.conv(x, w), g.conv(x, v), g.conv(x, u)],
         lambda g: g.split(1, g.conv(x, g.concat(0, w, v, u)), 3))
    rule("two convs of one input and sizes of kernel", lambda g: [g.conv(x, w, kernel=(1, 3)), g.conv(x, v)],
         lambda g: g.split(1, g.conv(x, g.concat(0, g.enlarge(w), v))))
    rule("two products of one input", lambda g: [g.matmul(x, w), g.matmul(x, v)],
         lambda g: g.split(1, g.matmul(x, g.concat(1, w, v, rank=2))))
    rule("three products of one input", lambda g: [g.matmul(x, w), g.matmul(x, v), g.matmul(x, u)],
         lambda g: g.split(1, g.matmul(x, g.concat(1, w, v, u, rank=2)), 3))
    rule("two products with one matrix", lambda g: [g.matmul(x, w), g.matmul(y, w)],
         lambda g: g.split(0, g.matmul(g.concat(0, x, y, rank=2), w)))
    rule("sum of convs with enlarged kernel", lambda g: g.add(g.conv(x, w, kernel=(1, 3)), g.conv(x, v)),
         lambda g: g.conv(x, g.add(g.enlarge(w), v)))
    rule("relu of two products", lambda g: [g.relu(g.matmul(x, w)), g.relu(g.matmul(x, v))],
         lambda g: g.split(1, g.relu(g.matmul(x, g.concat(1, w, v, rank=2)))))
    for name, f in (("relu", Side.relu), ("tanh", Side.tanh), ("sigmoid", Side.sigmoid)):
        rule(f"{name} through concat and split", lambda g: [f(g, x), f(g, y)],
             lambda g: g.split(1, f(g, g.concat(1, x, y))))
        rule(f"{name} of three parts", lambda g: f(g, g.concat(0, x, y, z, rank=2)),
             lambda g: g.concat(0, f(g, x), f(g, y), f(g, z), rank=2))
    rule("matmul with tanh", lambda g: g.tanh(g.matmul(x, w)), lambda g: g.matmul(x, w, TANH))
    rule("matmul with sigmoid of parts", lambda g: g.matmul(x, g.concat(1, w, v, rank=2), SIGMOID),
         lambda g: g.concat(1, g.matmul(x, w, SIGMOID), g.matmul(x, v, SIGMOID), rank=2))
    rule("conv with tanh", lambda g: g.tanh(g.conv(x, w)), lambda g: g.conv(x, w, 1, SAME, TANH))
    rule("add through split", lambda g: g.split(0, g.add(g.concat(0, x, y, rank=2), g.concat(0, z, w, rank=2))),
         lambda g: [g.add(x, z), g.add(y, w)])
    rule("products of parts", lambda g: [g.mul(x, y), g.mul(z, w)],
         lambda g: g.split(1, g.mul(g.concat(1, x, z), g.concat(1, y, w))))
    rule("transposed product of a sum", lambda g: g.transpose(g.matmul(x, g.add(y, z))),
         lambda g: g.matmul(g.transpose(g.add(y, z)), g.transpose(x)))
    rule("products transposed together", lambda g: g.matmul(g.transpose(x), g.transpose(y)),
         lambda g: g.transpose(g.matmul(y, x)))
    rule("chain of three products", lambda g: g.matmul(g.matmul(x, w), g.matmul(v, u)),
         lambda g: g.matmul(x, g.matmul(g.matmul(w, v), u)))
    rule("conv plus its input", lambda g: g.add(g.conv(x, w), x), lambda g: g.conv(x, g.add(w, g.iconv())))
    rule("conv plus an average", lambda g: g.add(g.conv(x, w), g.avg_pool(x)),
         lambda g: g.conv(x, g.add(w, g.const_pool())))
    rule("average plus a maximum", lambda g: g.add(g.avg_pool(x), g.max_pool(x)),
         lambda g: g.add(g.max_pool(x), g.conv(x, g.const_pool())))
    rule("maxima side by side", lambda g: [g.max_pool(x), g.max_pool(y)],
         lambda g: g.split(1, g.max_pool(g.concat(1, x, y))))
    rule("averages side by side", lambda g: [g.avg_pool(x), g.avg_pool(y)],
         lambda g: g.split(0, g.avg_pool(g.concat(0, x, y))))
    rule("relu of a maximum", lambda g: g.relu(g.max_pool(x)), lambda g: g.max_pool(g.relu(x)))
    rule("max pool scaled by conv", lambda g: g.conv(g.max_pool(x), g.scale(w, s)),
         lambda g: g.scale(g.conv(g.max_pool(x), w), s))
    rule("two blocks of convs", lambda g: g.add(g.conv(g.conv(x, w), v), g.conv(g.conv(x, u), z)),
         lambda g: g.conv(g.conv(x, g.concat(0, w, u)), g.concat(1, v, z)))
    rule("convs one after the other", lambda g: g.conv(g.relu(g.conv(x, w)), v, 1, SAME, RELU),
         lambda g: g.relu(g.conv(g.conv(x, w, 1, SAME, RELU), v)))
    rule("a conv after an enlarged one", lambda g: g.conv(g.conv(x, w, kernel=(1, 3)), v, kernel=(1, 3)),
         lambda g: g.conv(g.conv(x, g.enlarge(w)), g.enlarge(v)))
    rule("a conv of the identity's relu", lambda g: g.conv(g.conv(x, g.iconv(), 1, SAME, RELU), w),
         lambda g: g.conv(g.relu(x), w))
    rule("convs with kernels of other depths", lambda g: [g.relu(g.conv(x, w)), g.conv(x, v, 1, SAME, RELU)],
         lambda g: [g.conv(x, w, 1, SAME, RELU), g.relu(g.conv(x, v))])
    rule("a kernel through identities", lambda g: g.enlarge(w), lambda g: g.conv(g.iconv(), g.conv(g.iconv(), g.enlarge(w))))
    rule("groups merged by 2", lambda g: g.conv(x, w), lambda g: g.conv(x, g.merge(w, 2)))
    rule("groups merged by 3", lambda g: g.conv(x, w), lambda g: g.conv(x, g.merge(w, 3)))
    rule("groups merged by 2 with relu", lambda g: g.conv(x, w, 1, SAME, RELU), lambda g: g.conv(x, g.merge(w, 2), 1, SAME, RELU))
    rule("groups merged by 3 with relu, stride 2", lambda g: g.conv(x, w, 2, VALID, RELU),
         lambda g: g.conv(x, g.merge(w, 3), 2, VALID, RELU))
    rule("enlarged to the other kernel", lambda g: [g.conv(x, g.enlarge_like(w, v)), g.conv(x, v)],
         lambda g: g.split(1, g.conv(x, g.concat(0, g.enlarge_like(w, v), v))))
    rule("sum of two enlarged", lambda g: g.enlarge(g.add(w, v)), lambda g: g.add(g.enlarge(w), g.enlarge(v)))
    rule("four axes turned and back", lambda g: g.transpose(g.transpose(x, (0, 2, 3, 1)), (0, 3, 1, 2)), lambda g: g.relu(x),
         "false")
    rule("turned twice", lambda g: g.transpose(g.transpose(x, (0, 2, 3, 1)), (0, 2, 3, 1)),
         lambda g: g.transpose(x, (0, 3, 1, 2)))


def wrong():
    rule("matmul commutes", lambda g: g.matmul(x, y), lambda g: g.matmul(y, x), "false")
    rule("concat on the wrong axis", lambda g: g.concat(0, g.conv(x, w), g.conv(x, v)),
         lambda g: g.conv(x, g.concat(0, w, v)), "false")
    rule("convs of two inputs by groups", lambda g: g.concat(1, g.conv(x, w), g.conv(y, v)),
         lambda g: g.conv(g.concat(1, x, y), g.concat(0, w, v)), "false")
    for kernel in ((1, 1), (3, 1)):
        rule(f"enlarge {kernel} at stride 2", lambda g: g.conv(x, w, 2, SAME, NONE, kernel),
             lambda g: g.conv(x, g.enlarge(w), 2, SAME), "false")
    rule("enlarge unpadded", lambda g: g.conv(x, w, 1, VALID, NONE, (1, 1)), lambda g: g.conv(x, g.enlarge(w), 1, VALID),
         "false")
    rule("sum of maxima", lambda g: g.max_pool(g.add(x, y)), lambda g: g.add(g.max_pool(x), g.max_pool(y)), "false")
    rule("relu of a sum", lambda g: g.relu(g.add(x, y)), lambda g: g.add(g.relu(x), g.relu(y)), "false")
    rule("negative scale through relu", lambda g: g.relu(g.scale(x, s)), lambda g: g.scale(g.relu(x), s), "false")
    rule("concat commutes", lambda g: g.concat(1, x, y), lambda g: g.concat(1, y, x), "false")
    rule("transpose is nothing", lambda g: g.relu(g.transpose(x)), lambda g: g.relu(x), "false")
    rule("pool across the seam", lambda g: g.concat(2, g.max_pool(x), g.max_pool(y)), lambda g: g.max_pool(g.concat(2, x, y)),
         "false")
    rule("relu inside of a conv", lambda g: g.conv(x, w, 1, SAME, RELU), lambda g: g.conv(g.relu(x), w), "false")
    rule("the split parts exchanged", lambda g: [g.conv(x, w), g.conv(x, v)],
         lambda g: g.split(1, g.conv(x, g.concat(0, w, v)))[::-1], "false")
    rule("average by the identity's maximum", lambda g: g.avg_pool(x), lambda g: g.conv(x, g.max_pool(g.iconv())), "false")
    rule("identity in the wrong place", lambda g: g.conv(x, w), lambda g: g.conv(x, g.add(w, g.iconv())), "false")
    rule("product of another rank", lambda g: g.matmul(x, y), lambda g: g.concat(1, x, y, rank=3), "false")
    rule("a kernel as a matrix", lambda g: g.concat(1, x, y, rank=2), lambda g: g.conv(x, y), "ill-typed")
    rule("a concat with itself", lambda g: g.mul(x, y), lambda g: g.mul(x, g.concat(1, x, y, rank=2)), "ill-typed")
    rule("a matrix as a kernel", lambda g: g.matmul(x, y), lambda g: g.conv(x, y), "false")


def joints():
    """Rules that an enumeration finds around concatenations and splits: of parts of parts, of three, of equal ones, and joint sources."""
    both("two convs of one input, parts", lambda g: g.split(1, g.conv(x, g.concat(0, w, v))), lambda g: [g.conv(x, w), g.conv(x, v)])
    both("two convs of one input, relu of parts", lambda g: [g.relu(p) for p in g.split(1, g.conv(x, g.concat(0, w, v)))],
         lambda g: [g.conv(x, w, 1, SAME, RELU), g.conv(x, v, 1, SAME, RELU)])
    both("two convs of one input, summed", lambda g: g.add(*g.split(1, g.conv(x, g.concat(0, w, v)))), lambda g: g.conv(x, g.add(w, v)))
    both("one conv of two inputs", lambda g: g.split(0, g.conv(g.concat(0, x, y), w, 2, SAME, RELU)),
         lambda g: [g.conv(x, w, 2, SAME, RELU), g.conv(y, w, 2, SAME, RELU)])
    both("four convs of one input", lambda g: [g.conv(x, w), g.conv(x, v), g.conv(x, u), g.conv(x, t)],
         lambda g: [p for half in g.split(1, g.conv(x, g.concat(0, g.concat(0, w, v), g.concat(0, u, t)))) for p in g.split(1, half)])
    both("three convs of two inputs", lambda g: g.add(g.add(g.conv(x, w), g.conv(y, v)), g.conv(z, u)),
         lambda g: g.conv(g.concat(1, x, y, z), g.concat(1, w, v, u)))
    both("two convs of each of two inputs", lambda g: [g.conv(x, w), g.conv(x, v), g.conv(y, w), g.conv(y, v)],
         lambda g: [p for half in g.split(0, g.conv(g.concat(0, x, y), g.concat(0, w, v))) for p in g.split(1, half)])
    both("two products of each of two matrices",
         lambda g: g.matmul(g.concat(0, x, y, rank=2), g.concat(1, w, v, rank=2)),
         lambda g: g.concat(1, g.concat(0, g.matmul(x, w), g.matmul(y, w), rank=2), g.concat(0, g.matmul(x, v), g.matmul(y, v), rank=2), rank=2))
    both("three products added", lambda g: g.add(g.add(g.matmul(x, w), g.matmul(y, v)), g.matmul(z, u)),
         lambda g: g.matmul(g.concat(1, x, y, z, rank=2), g.concat(0, w, v, u, rank=2)))
    for act in (NONE, RELU):
        both("products side by side" + mode_name(1, SAME, act), lambda g: g.concat(1, g.matmul(x, w, act), g.matmul(x, v, act), rank=2),
             lambda g: g.matmul(x, g.concat(1, w, v, rank=2), act))
        both("products one above the other" + mode_name(1, SAME, act),
             lambda g: g.concat(0, g.matmul(x, w, act), g.matmul(y, w, act), rank=2), lambda g: g.matmul(g.concat(0, x, y, rank=2), w, act))
        both("parts of a product" + mode_name(1, SAME, act), lambda g: g.split(1, g.matmul(x, g.concat(1, w, v, rank=2), act)),
             lambda g: [g.matmul(x, w, act), g.matmul(x, v, act)])
    both("parts of a transpose", lambda g: g.split(1, g.transpose(g.concat(0, x, y, rank=2))), lambda g: [g.transpose(x), g.transpose(y)])
    both("parts of a scaled tensor", lambda g: g.split(1, g.scale(g.concat(1, x, y), s)), lambda g: [g.scale(x, s), g.scale(y, s)])
    both("parts of parts", lambda g: g.split(0, g.concat(1, g.concat(0, x, y), g.concat(0, z, w))),
         lambda g: [g.concat(1, x, z), g.concat(1, y, w)])
    both("parts in the other order", lambda g: g.concat(1, *g.split(1, g.concat(1, x, y))[::-1]), lambda g: g.concat(1, y, x))
    rule("a sum and a part", lambda g: g.add(z, g.split(1, g.concat(1, x, y))[0]), lambda g: g.add(z, x))
    both("parts of a sum of parts", lambda g: g.split(1, g.add(g.concat(1, x, y), g.concat(1, z, w))), lambda g: [g.add(x, z), g.add(y, w)])
    both("relu of three parts", lambda g: [g.relu(x), g.relu(y), g.relu(z)], lambda g: g.split(1, g.relu(g.concat(1, x, y, z)), 3))
    both("three joined in two steps", lambda g: g.concat(1, g.concat(1, x, y), z), lambda g: g.concat(1, x, g.concat(1, y, z)))
    both("relu of a tensor beside itself", lambda g: g.concat(1, g.relu(x), g.relu(x)), lambda g: g.relu(g.concat(1, x, x)))
    both("a conv beside itself", lambda g: g.concat(1, g.conv(x, w), g.conv(x, w)), lambda g: g.conv(x, g.concat(0, w, w)))
    both("a sum with itself", lambda g: g.conv(g.add(x, x), w), lambda g: g.conv(x, g.add(w, w)))
    for axis in (2, 3):
        both(f"sums joined along axis {axis}", lambda g: g.add(g.concat(axis, x, y), g.concat(axis, z, w)),
             lambda g: g.concat(axis, g.add(x, z), g.add(y, w)))
        both(f"relu along axis {axis}", lambda g: g.relu(g.concat(axis, x, y)), lambda g: g.concat(axis, g.relu(x), g.relu(y)))
    for axis in (0, 1):
        both(f"enlarged kernels joined along axis {axis}", lambda g: g.concat(axis, g.enlarge(w), g.enlarge(v)),
             lambda g: g.enlarge(g.concat(axis, w, v)))
        both(f"max pool, parts along axis {axis}", lambda g: g.split(axis, g.max_pool(g.concat(axis, x, y))),
             lambda g: [g.max_pool(x), g.max_pool(y)])
    both("transposes of three", lambda g: g.transpose(g.concat(0, x, y, z, rank=2)),
         lambda g: g.concat(1, g.transpose(x), g.transpose(y), g.transpose(z), rank=2))


def constants():
    """Rules that an enumeration finds around constants, numbers and pools."""
    rule("transposed identity", lambda g: g.matmul(x, g.transpose(g.imm())), lambda g: x)
    rule("relu of the identity", lambda g: g.matmul(x, g.relu(g.imm())), lambda g: x)
    rule("a transpose by the identity", lambda g: g.matmul(g.imm(), g.transpose(x)), lambda g: g.transpose(x))
    rule("ones times ones", lambda g: g.mul(x, g.mul(g.one(), g.one())), lambda g: x)
    rule("relu of ones", lambda g: g.mul(x, g.relu(g.one())), lambda g: x)
    both("once more", lambda g: g.mul(x, g.add(y, g.one())), lambda g: g.add(g.mul(x, y), x))
    both("twice", lambda g: g.mul(x, g.add(g.one(), g.one())), lambda g: g.add(x, x))
    both("a product and its matrix", lambda g: g.matmul(x, g.add(y, g.imm())), lambda g: g.add(g.matmul(x, y), x))
    both("a matrix twice", lambda g: g.matmul(x, g.add(g.imm(), g.imm())), lambda g: g.add(x, x))
    both("an image twice", lambda g: g.conv(x, g.add(g.iconv(), g.iconv())), lambda g: g.add(x, x))
    both("scaled by a scaled identity", lambda g: g.matmul(x, g.scale(g.imm(), s)), lambda g: g.scale(x, s))
    both("scaled by scaled ones", lambda g: g.mul(x, g.scale(g.one(), s)), lambda g: g.scale(x, s))
    both("scaled by a scaled kernel", lambda g: g.conv(x, g.scale(g.iconv(), s)), lambda g: g.scale(x, s))
    both("scaled twice", lambda g: g.scale(g.scale(x, s), t), lambda g: g.scale(g.scale(x, t), s))
    both("scaled sum", lambda g: g.add(g.scale(x, s), g.scale(x, t)), lambda g: g.scale(x, g.add(s, t)))
    both("scaled product", lambda g: g.matmul(g.scale(x, s), y), lambda g: g.matmul(x, g.scale(y, s)))
    rule("an identity of 1 enlarged", lambda g: g.conv(x, g.enlarge(g.iconv(1))), lambda g: x)
    rule("relu of the identity kernel", lambda g: g.conv(x, g.relu(g.iconv()), 1, SAME, RELU), lambda g: g.relu(x))
    both("average of a sum", lambda g: g.avg_pool(g.add(x, y)), lambda g: g.add(g.avg_pool(x), g.avg_pool(y)))
    both("average of a scaled image", lambda g: g.avg_pool(g.scale(x, s)), lambda g: g.scale(g.avg_pool(x), s))
    both("conv of an average", lambda g: g.conv(g.avg_pool(x), w), lambda g: g.conv(g.conv(x, g.const_pool()), w))
    both("scaled mean kernel", lambda g: g.conv(x, g.scale(g.const_pool(), s)), lambda g: g.scale(g.avg_pool(x), s))
    both("an average at stride 2 and VALID", lambda g: g.add(g.avg_pool(x, stride=2, pad=VALID), y),
         lambda g: g.add(g.conv(x, g.const_pool(), 2, VALID), y))
    both("relu of an average's parts", lambda g: g.relu(g.avg_pool(g.concat(1, x, y))),
         lambda g: g.concat(1, g.relu(g.avg_pool(x)), g.relu(g.avg_pool(y))))
    for stride in (1, 2):
        both(f"relu of a maximum, stride {stride}", lambda g: g.relu(g.max_pool(x, stride=stride)), lambda g: g.max_pool(g.relu(x), stride=stride))
    rule("relu twice", lambda g: g.relu(g.relu(x)), lambda g: g.relu(x))
    both("enlarged scaled kernel", lambda g: g.enlarge(g.scale(w, s)), lambda g: g.scale(g.enlarge(w), s))
    both("enlarged product of kernels", lambda g: g.enlarge(g.mul(w, v)), lambda g: g.mul(g.enlarge(w), g.enlarge(v)))
    both("enlarged relu of a kernel", lambda g: g.enlarge(g.relu(w)), lambda g: g.relu(g.enlarge(w)))
    both("distributed", lambda g: g.mul(x, g.add(y, z)), lambda g: g.add(g.mul(x, y), g.mul(x, z)))
    both("square of a sum", lambda g: g.mul(g.add(x, y), g.add(x, y)), lambda g: g.add(g.mul(x, g.add(x, y)), g.mul(y, g.add(x, y))))
    both("four added", lambda g: g.add(g.add(x, y), g.add(z, w)), lambda g: g.add(g.add(x, z), g.add(y, w)))
    both("four multiplied", lambda g: g.mul(g.mul(x, y), g.mul(z, w)), lambda g: g.mul(g.mul(w, y), g.mul(z, x)))
    both("transposed three times", lambda g: g.matmul(g.transpose(x), g.matmul(g.transpose(y), g.transpose(z))),
         lambda g: g.transpose(g.matmul(g.matmul(z, y), x)))


axioms()
fusions()
wrong()
joints()
constants()

if __name__ == "__main__":
    with open(sys.argv[1], "wb") as file:
        file.write(b"".join(message(1, body) for _, _, body in RULES))
    if len(sys.argv) > 2:
        with open(sys.argv[2], "w") as file:
            json.dump([[name, truth] for name, truth, _ in RULES], file, indent=1)
    print(len(RULES), "rules,", sum(truth == "true" for _, truth, _ in RULES), "true")
