"""Writes random sound equations in TASO's format, found by numbers alone:

    taso_corpus.py OUT.pb [--count N] [--seed S] [--operators N]

Small graphs of TASO's operators are evaluated on random numbers, values that are equal are grouped, and pairs of graphs are drawn from
the groups: compositions, instances and renamings among them, as they come. What such an equation becomes where sizes are not those of
this enumeration, `rewright verify` tells. How many of those that are proved follow from the shipped rules:

    taso_corpus.py corpus.pb && rewright rules import-taso corpus.pb -o corpus.rules
    rewright verify corpus.rules -o proved.rules && rewright rules derive proved.rules --from shipped.rules
"""

import argparse
import collections
import random

import numpy

from taso_rules import NONE, RELU, RULES, SAME, VALID, message, rule

Value = collections.namedtuple("Value", "array joints size")  # joints: by axis, how many parts a concatenation left, or nothing


def windows(x, kernel, stride, pad, fill):
    if pad == SAME:
        amounts = []
        for size, k in zip(x.shape[2:], kernel):
            total = max((-(-size // stride) - 1) * stride + k - size, 0)
            amounts.append((total // 2, total - total // 2))
        x = numpy.pad(x, [(0, 0), (0, 0), *amounts], constant_values=fill)
    if x.shape[2] < kernel[0] or x.shape[3] < kernel[1]:
        return None
    return numpy.lib.stride_tricks.sliding_window_view(x, kernel, axis=(2, 3))[:, :, ::stride, ::stride]


def convolution(x, w, stride, pad, act):
    if x.shape[1] % w.shape[1]:
        return None
    groups = x.shape[1] // w.shape[1]
    if w.shape[0] % groups:
        return None
    v = windows(x, w.shape[2:], stride, pad, 0)
    if v is None:
        return None
    v = v.reshape(x.shape[0], groups, w.shape[1], *v.shape[2:])
    k = w.reshape(groups, w.shape[0] // groups, *w.shape[1:])
    y = numpy.einsum("ngchwrs,gkcrs->ngkhw", v, k)
    y = y.reshape(x.shape[0], w.shape[0], *y.shape[3:])
    return numpy.maximum(y, 0) if act == RELU else y


def merged(w, count):
    if w.shape[0] % (2 * count):
        return None
    result = numpy.zeros((w.shape[0], w.shape[1] * count, *w.shape[2:]))
    groups = 4 // w.shape[1]  # of the images there are
    if groups % count or w.shape[1] * count > 4:
        return None
    each = w.shape[0] // groups
    for i in range(w.shape[0]):
        at = i // each % count * w.shape[1]
        result[i, at:at + w.shape[1]] = w[i]
    return result


def apply(op, *operands):
    """The value, or None where it is ill-typed. `op` is the name of a method of Side and its arguments."""
    kind, *parameters = op
    arrays = [v.array for v in operands]
    a = arrays[0]
    joints = list(operands[0].joints)
    if kind in ("add", "mul"):
        if a.ndim == 0 or a.shape != arrays[1].shape:
            return None
        joints = [p if p == q else None for p, q in zip(joints, operands[1].joints)]
        return (a + arrays[1] if kind == "add" else a * arrays[1]), joints
    if kind == "scale":
        return (a * arrays[1], joints) if a.ndim and arrays[1].ndim == 0 else None
    if kind == "relu":
        return (numpy.maximum(a, 0), joints) if a.ndim else None
    if kind == "matmul":
        if a.ndim != 2 or arrays[1].ndim != 2 or a.shape[1] != arrays[1].shape[0]:
            return None
        y = a @ arrays[1]
        return numpy.maximum(y, 0) if parameters[0] == RELU else y, [joints[0], operands[1].joints[1]]
    if kind == "transpose":
        return (a.T, joints[::-1]) if a.ndim == 2 else None
    if kind == "concat":
        axis, rank = parameters
        b = arrays[1]
        if a.ndim != rank or b.ndim != rank or a.shape[:axis] + a.shape[axis + 1:] != b.shape[:axis] + b.shape[axis + 1:]:
            return None
        joints = [p if p == q else None for p, q in zip(joints, operands[1].joints)]
        joints[axis] = (a.shape[axis], operands[0].joints[axis], operands[1].joints[axis])
        return numpy.concatenate([a, b], axis), joints
    if kind == "split":
        axis, part = parameters
        if a.ndim <= axis or joints[axis] is None:
            return None
        at, *inner = joints[axis]
        joints[axis] = inner[part]
        return numpy.split(a, [at], axis)[part], joints
    if a.ndim != 4:
        return None
    if kind == "conv":
        b = arrays[1]
        if b.ndim != 4 or b.shape[2] > 3 or b.shape[3] > 3 or a.shape[2] < 5:
            return None
        y = convolution(a, b, *parameters)
        return None if y is None else (y, [joints[0], operands[1].joints[0], None, None])
    if kind in ("max_pool", "avg_pool"):
        stride, pad = parameters
        if a.shape[2] < 3 or a.shape[3] < 3:
            return None
        v = windows(a, (3, 3), stride, pad, -numpy.inf if kind == "max_pool" else 0)
        return (v.max(axis=(4, 5)) if kind == "max_pool" else v.mean(axis=(4, 5))), joints[:2] + [None, None]
    if kind == "enlarge":
        if a.shape[2] > 3 or a.shape[3] > 3 or a.shape[2:] == (3, 3):
            return None
        return numpy.pad(a, [(0, 0), (0, 0)] + [((3 - k) // 2, 3 - k - (3 - k) // 2) for k in a.shape[2:]]), joints[:2] + [None, None]
    if kind == "merge":
        if a.shape[2] > 3:
            return None
        y = merged(a, parameters[0])
        return None if y is None else (y, [joints[0], None, None, None])
    raise ValueError(kind)


def identity_kernel():
    w = numpy.zeros((4, 4, 3, 3))
    w[range(4), range(4), 1, 1] = 1
    return w


def leaves(shapes, constants, generate):
    result = [(("input", i), generate.standard_normal(shape)) for i, shape in enumerate(shapes)]
    return result + [((name,), array) for name, array in constants]


IMAGE, KERNEL, MATRIX = (1, 4, 5, 5), (4, 4, 3, 3), (4, 4)
EYE, ONES, ONE_IMAGE = ("imm", numpy.eye(4)), ("one", numpy.ones(MATRIX)), ("one", numpy.ones(IMAGE))
DIRAC, MEAN = ("iconv", identity_kernel()), ("const_pool", numpy.full((4, 1, 3, 3), 1 / 9))
MODES = [("conv", s, p, a) for s in (1, 2) for p in (SAME, VALID) for a in (NONE, RELU)]
PLAIN = [("conv", 1, SAME, NONE), ("conv", 1, SAME, RELU)]
SPLITS = [("split", 0, 0), ("split", 0, 1), ("split", 1, 0), ("split", 1, 1)]
JOIN2, JOIN4 = [("concat", 0, 2), ("concat", 1, 2)], [("concat", 0, 4), ("concat", 1, 4)]
POOLS = [("max_pool", 1, SAME), ("avg_pool", 1, SAME), ("max_pool", 2, SAME), ("avg_pool", 2, VALID)]
# Inputs, constants, operators of one operand and of two.
DOMAINS = [
    ([MATRIX] * 3, [EYE, ONES], [("relu",), ("transpose",), *SPLITS], [("matmul", NONE), ("matmul", RELU), ("add",), ("mul",), *JOIN2]),
    ([MATRIX] * 4, [], [("transpose",), *SPLITS], [("matmul", NONE), ("add",), *JOIN2]),
    ([MATRIX] * 2 + [()], [EYE], [("relu",), ("transpose",)], [("matmul", NONE), ("add",), ("mul",), ("scale",), *JOIN2]),
    ([IMAGE] * 2 + [KERNEL] * 2, [DIRAC], [("relu",), *SPLITS], [*PLAIN, ("add",), *JOIN4]),
    ([IMAGE, KERNEL, KERNEL, (4, 4, 1, 3), (4, 4, 1, 3)], [DIRAC, MEAN], [("enlarge",), ("relu",), *SPLITS], [*PLAIN, ("add",), *JOIN4]),
    ([IMAGE] * 2 + [KERNEL], [DIRAC, MEAN], [*POOLS, ("relu",), *SPLITS], [*PLAIN, ("add",), *JOIN4]),
    ([IMAGE, (4, 2, 3, 3), (4, 1, 3, 3), (4, 2, 3, 3)], [MEAN], [("merge", 2), ("relu",), *SPLITS], [*PLAIN, ("add",), ("concat", 0, 4), ("concat", 1, 4)]),
    ([IMAGE] * 2 + [KERNEL] * 2, [ONE_IMAGE], [("relu",)], [*MODES, ("add",), ("mul",), ("concat", 1, 4)]),
    ([IMAGE] * 2 + [KERNEL] + [()], [DIRAC], [("relu",), ("max_pool", 1, SAME), ("avg_pool", 1, SAME)], [*PLAIN, ("add",), ("scale",), ("concat", 1, 4)]),
    ([IMAGE] * 4, [], [("relu",), *SPLITS], [("add",), ("mul",), *JOIN4, ("concat", 2, 4)]),
]
COMMUTATIVE = ("add", "mul")
MEMBERS = 12  # kept of a class


class Enumeration:
    def __init__(self, domain, operators, seed):
        shapes, constants, self.unary, self.binary = domain
        generate = numpy.random.default_rng(seed)
        self.draw = random.Random(seed)
        self.projection = generate.standard_normal((2, 4096))
        self.values, self.members, self.seen, self.levels = [], [], {}, []
        self.parts = {}  # of a split: values by operand, axis and part
        self.last = collections.defaultdict(list)  # members of what is not built upon
        self.begin_level()
        for expression, array in leaves(shapes, constants, generate):
            self.take(expression, array, [None] * array.ndim, 0, False)
        for level in range(1, operators + 1):
            self.begin_level()
            self.extend(level, level == operators)

    def begin_level(self):
        self.levels.append(range(len(self.values), len(self.values)))

    def key(self, array):
        flat = array.ravel()
        dots = self.projection[:, :flat.size] @ flat
        return array.shape, tuple(f"{d:.7e}" for d in dots)

    def take(self, expression, array, joints, size, last):
        if array.size > 4096 or not numpy.any(array):
            return
        key = self.key(array)
        known = self.seen.get(key)
        if known is not None:
            if len(self.members[known]) < MEMBERS:
                self.members[known].append(expression)
            elif self.draw.random() < 0.2:
                self.members[known][self.draw.randrange(1, MEMBERS)] = expression
            return
        if last:
            if len(self.last[key]) < MEMBERS:
                self.last[key].append(expression)
            return
        self.seen[key] = len(self.values)
        self.values.append(Value(array, joints, size))
        self.members.append([expression])
        self.levels[-1] = range(self.levels[-1].start, len(self.values))

    def attempt(self, op, operands, level, last):
        found = apply(op, *(self.values[v] for v in operands))
        if found is not None:
            self.take((op, *operands), *found, level, last)

    def extend(self, level, last):
        lower = range(self.levels[-1].start)
        size = [v.size for v in self.values]
        for op in self.unary:
            for v in lower:
                if size[v] == level - 1:
                    self.attempt(op, (v,), level, last)
        for op in self.binary:
            for a in lower:
                for b in lower:
                    if size[a] + size[b] == level - 1 and not (op[0] in COMMUTATIVE and b < a):
                        self.attempt(op, (a, b), level, last)

    def graph(self, value, budget):
        """A random graph of a value: expressions nested as tuples."""
        expression = self.draw.choice(self.members[value]) if self.draw.random() < 0.5 else self.members[value][0]
        return self.expanded(expression, budget)

    def expanded(self, expression, budget):
        if isinstance(expression[0], str):
            return expression
        if budget <= 0:
            return None
        op, *operands = expression
        built = [self.graph(v, budget - 1) for v in operands]
        return None if any(b is None for b in built) else (op, *built)


def nodes(graph, found):
    """Applications, a split's two outputs being one."""
    if isinstance(graph[0], str):
        return found
    op, *operands = graph
    found.add(((op[:2] if op[0] == "split" else op), *operands))
    for o in operands:
        nodes(o, found)
    return found


def inputs(graph):
    if isinstance(graph[0], str):
        return {graph[1]} if graph[0] == "input" else set()
    return set().union(*(inputs(o) for o in graph[1:]))


def built(side, graph, known):
    if graph in known:
        return known[graph]
    if graph[0] == "input":
        return -1 - graph[1]
    if isinstance(graph[0], str):
        known[graph] = getattr(side, graph[0])()
        return known[graph]
    (kind, *parameters), *operands = graph
    values = [built(side, o, known) for o in operands]
    if kind == "split":
        base = (("split", parameters[0]), *operands)
        if base not in known:
            known[base] = side.split(parameters[0], values[0])
        return known[base][parameters[1]]
    if kind == "concat":
        result = side.concat(parameters[0], *values, rank=parameters[1])
    elif kind in ("max_pool", "avg_pool"):
        result = getattr(side, kind)(values[0], stride=parameters[0], pad=parameters[1])
    elif kind == "merge":
        result = side.merge(values[0], parameters[0])
    elif kind == "matmul":
        result = side.matmul(*values, act=parameters[0])
    else:
        result = getattr(side, kind)(*values, *parameters)
    known[graph] = result
    return result


def sides(graphs):
    def build(side):
        known = {}
        results = [built(side, g, known) for g in graphs]
        return results if len(results) > 1 else results[0]
    return build


def proper(left, right, operators):
    """Up to so many operators a side, different, sharing none, and of one set of inputs."""
    if left == right or any(g is None for g in (*left, *right)):
        return False
    first, second = (set().union(*(nodes(g, set()) for g in side)) for side in (left, right))
    variables = [set().union(*(inputs(g) for g in side)) for side in (left, right)]
    return bool(first) and not first & second and max(len(first), len(second)) <= operators and variables[1] <= variables[0]


def pairs(e, draw, operators):
    """Random equations of an enumeration, without end: one output three times in four."""
    classes = [v for v in range(len(e.values)) if len(e.members[v]) > 1]
    last = [m for m in e.last.values() if len(m) > 1]
    joined = [(v, axis) for v, value in enumerate(e.values) for axis, j in enumerate(value.joints) if j is not None]
    while True:
        kind = draw.random()
        if kind < 0.25 and joined:
            v, axis = draw.choice(joined)
            parts = []
            for part in (0, 1):
                array, joints = apply(("split", axis, part), e.values[v])
                parts.append(e.seen.get(e.key(array)))
            if None in parts:
                continue
            whole = e.graph(v, operators)
            if whole is None:
                continue
            left, right = [e.graph(p, operators) for p in parts], [(("split", axis, p), whole) for p in (0, 1)]
        elif kind < 0.6 and last:
            left, right = ([e.expanded(m, operators)] for m in draw.sample(draw.choice(last), 2))
        elif classes:
            left, right = ([e.expanded(m, operators)] for m in draw.sample(e.members[draw.choice(classes)], 2))
        else:
            continue
        if draw.random() < 0.5:
            left, right = right, left
        yield left, right


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output")
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--operators", type=int, default=3, help="of a value; an equation has one more at most")
    options = parser.parse_args()
    RULES.clear()
    draw = random.Random(options.seed)
    each = -(-options.count // len(DOMAINS))
    known = set()
    for number_of_domain, domain in enumerate(DOMAINS):
        e = Enumeration(domain, options.operators, options.seed)
        taken = 0
        for _, (left, right) in zip(range(each * 2000), pairs(e, draw, options.operators + 1)):
            if proper(left, right, options.operators + 1) and str((left, right)) not in known:
                known.add(str((left, right)))
                rule(f"domain {number_of_domain}", sides(left), sides(right))
                taken += 1
                if taken == each:
                    break
        print(number_of_domain, len(e.values), "values,", len(e.last), "more,", taken, "equations", flush=True)
    with open(options.output, "wb") as file:
        file.write(b"".join(message(1, body) for _, _, body in RULES))
    print(len(RULES), "equations")


if __name__ == "__main__":
    main()
