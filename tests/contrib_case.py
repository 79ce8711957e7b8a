"""A random node of ONNX Runtime's own operators as a case for tests: its attributes, its inputs, and the model that holds it."""

import numpy as np
import onnx
from onnx import helper, numpy_helper

DOMAIN = "com.microsoft"


class Case:
    """A node with its inputs, as a random draw describes them."""

    def __init__(self, op, seed, domain=DOMAIN):
        self.op, self.domain = op, domain
        self.random = np.random.default_rng(seed)
        self.inputs, self.constants, self.attributes, self.outputs, self.tolerance = [], set(), {}, 1, 2e-5
        self.peer = None  # nodes of ONNX's own operators that compute the same, where ONNX Runtime has no kernel
        self.is_arithmetic = True  # has a standard form
        self.exact_tolerance = None  # where ONNX Runtime and Rewright round more than the operator's graph does, in the same way: of that

    def whole(self, low, high):
        return int(self.random.integers(low, high + 1))

    def chance(self, share=0.5):
        return self.random.random() < share

    def pick(self, *values):
        return values[self.whole(0, len(values) - 1)]

    def reals(self, *shape, scale=1.0):
        return (self.random.normal(size=shape) * scale).astype(np.float32)

    def integers(self, low, high, *shape, type=np.int64):
        return self.random.integers(low, high + 1, size=shape).astype(type)

    def give(self, *values):
        """Appends inputs; None is an absent one."""
        self.inputs += values

    def fix(self, *values):
        """Appends inputs that are constants of the model."""
        for value in values:
            self.constants.add(len(self.inputs))
            self.inputs.append(value)

    def maybe(self, value, share=0.5):
        self.give(value if self.chance(share) else None)

    def set(self, **attributes):
        self.attributes.update(attributes)

    def model(self):
        names = ["" if value is None else f"x{i}" for i, value in enumerate(self.inputs)]
        while names and not names[-1]:
            names.pop()
        outputs = [f"y{i}" if i not in getattr(self, "left_out", ()) else "" for i in range(self.outputs)]
        node = helper.make_node(self.op, names, outputs, domain=self.domain, name="node", **self.attributes)
        return self.model_of([node], outputs)

    def peer_model(self):
        """The model that ONNX Runtime executes."""
        return self.model_of(self.peer, [f"y{i}" for i in range(self.outputs)]) if self.peer else self.model()

    def model_of(self, nodes, outputs):
        declared, weights = [], []
        for i, value in enumerate(self.inputs):
            if value is None:
                continue
            if i in self.constants:
                weights.append(numpy_helper.from_array(value, f"x{i}"))
            else:
                declared.append(helper.make_tensor_value_info(f"x{i}", helper.np_dtype_to_tensor_dtype(value.dtype), value.shape))
        results = [onnx.ValueInfoProto(name=name) for name in outputs if name]
        graph = helper.make_graph(nodes, "graph", declared, results, weights)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=9)

    def feeds(self):
        return {f"x{i}": value for i, value in enumerate(self.inputs) if value is not None and i not in self.constants}
