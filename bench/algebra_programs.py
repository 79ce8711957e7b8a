"""The programs of bench/algebra: small numerical programs as they are written before anybody simplifies them.

Each is one function over an object with the operations, read three times: as ONNX, in torch, and in NumPy with doubles. `source` says in whose
manner it is: "STENSO" (the NumPy programs of program synthesis, CGO 2026), "SPORES" (the losses and gradients of its SystemML programs, VLDB
2020), "textbook" (identities of linear algebra and analysis). A program that only --math fast may simplify says why.
"""

import dataclasses
import typing

import numpy as np
import onnx
from onnx import TensorProto, helper


@dataclasses.dataclass(frozen=True)
class Program:
    source: str
    inputs: dict  # name to shape; a name ending with _positive has elements from 0.5 to 1.5
    function: typing.Callable
    unsafe: str = ""  # why rewriting it is outside of the default class of rounding


PROGRAMS = {}


def program(source, unsafe="", **inputs):
    def add(function):
        PROGRAMS[function.__name__] = Program(source, inputs, function, unsafe)
        return function

    return add


# ---- Sums of products


@program("SPORES, PNMF", a=(768, 512), b=(512, 768))
def sum_of_product(o, a, b):
    return o.sum(a @ b)


@program("STENSO", a=(768, 512), b=(512, 768))
def row_sums_of_product(o, a, b):
    return o.sum(a @ b, axes=[1])


@program("STENSO", a=(768, 512), b=(512, 768))
def column_sums_of_product(o, a, b):
    return o.sum(a @ b, axes=[0])


@program("STENSO", x=(1024, 512), w=(512, 256))
def column_means_of_product(o, x, w):
    return o.mean(x @ w, axes=[0])


@program("STENSO", x=(1024, 512), w=(512, 256))
def mean_of_product(o, x, w):
    return o.mean(x @ w)


@program("STENSO, trace_dot", a=(512, 768), b=(768, 512))
def trace_by_identity(o, a, b):
    return o.sum((a @ b) * o.eye(512))


@program("STENSO, diag_dot", unsafe="a product with an identity matrix spreads NaN over a row or column", a=(512, 768), b=(768, 512))
def diagonal_of_product(o, a, b):
    return o.sum((a @ b) * o.eye(512), axes=[1])


@program("textbook", a=(512, 384), b=(384, 256), c=(256, 512))
def trace_of_three(o, a, b, c):
    return o.sum((a @ b @ c) * o.eye(512))


@program("textbook", x=(1024, 1024), u=(1024, 1), v=(1, 1024))
def bilinear_form_by_elements(o, x, u, v):
    return o.sum(x * u * v)


@program("STENSO", x=(1024, 1024), u=(1024, 1))
def sum_of_scaled_rows(o, x, u):
    return o.sum(x * u, axes=[1])


@program("textbook", a=(1024, 1024), b=(1024, 1024))
def sum_of_scaled_sums(o, a, b):
    return o.sum(a * 3.0) + o.sum(b * 3.0)


@program("STENSO", x=(1024, 1024))
def mean_of_means(o, x):
    return o.mean(o.mean(x, axes=[1], keepdims=True), axes=[0], keepdims=True)


# ---- Low rank


@program("SPORES, ALS", x=(1024, 1024), u=(1024, 8), v=(1024, 8))
def low_rank_loss(o, x, u, v):
    return o.sum((x - u @ v.T) ** 2)


@program("SPORES, ALS", u=(1024, 8), v=(1024, 8))
def norm_of_low_rank(o, u, v):
    return o.sum((u @ v.T) ** 2)


@program("SPORES, ALS", x=(1024, 1024), u=(1024, 8), v=(1024, 8))
def low_rank_inner_product(o, x, u, v):
    return o.sum(x * (u @ v.T))


@program("SPORES, ALS", x=(1024, 512), u=(1024, 64), v=(512, 64))
def als_gradient(o, x, u, v):
    return (u @ v.T - x) @ v


@program("STENSO", u=(1024, 1), v=(1, 1024), x=(1024, 64))
def outer_product_times_matrix(o, u, v, x):
    return (u * v) @ x


@program("STENSO", u=(1024,), v=(1024,), x=(1024, 1))
def outer_product_times_vector(o, u, v, x):
    return (o.column(u) * o.row(v)) @ x


@program("textbook", unsafe="a product with an identity matrix spreads NaN over a row or column", u=(1024, 1), v=(1024, 1), x=(1024, 64))
def rank_one_update(o, u, v, x):
    return (o.eye(1024) + u @ v.T) @ x


@program("SPORES, PNMF", x_positive=(512, 512), w_positive=(512, 16), h_positive=(16, 512))
def pnmf_loss(o, x_positive, w_positive, h_positive):
    return o.sum(w_positive @ h_positive) - o.sum(x_positive * o.log(w_positive @ h_positive))


# ---- Products


@program("STENSO", a=(512, 512), b=(512, 512), c=(512, 512))
def two_products_of_one_matrix(o, a, b, c):
    return a @ b + a @ c


@program("STENSO, mat_vec_prod", a=(768, 768), b=(768, 768), v=(768, 1))
def product_times_vector(o, a, b, v):
    return (a @ b) @ v


@program("STENSO, dot_trans", a=(512, 512), b=(512, 512), v=(512, 1))
def transposed_product_times_vector(o, a, b, v):
    return (a @ b).T @ v


@program("STENSO, dot_trans", a=(512, 512), b=(512, 512))
def transpose_of_transposes(o, a, b):
    return (a.T @ b.T).T


@program("STENSO", unsafe="a product with an identity matrix spreads NaN over a row or column", d=(512,), a=(512, 512))
def diagonal_times_matrix(o, d, a):
    return (o.eye(512) * d) @ a


@program("STENSO", unsafe="a product with an identity matrix spreads NaN over a row or column", d=(512,), a=(512, 512))
def matrix_times_diagonal(o, d, a):
    return a @ (o.eye(512) * d)


@program("SPORES, GLM", x=(1024, 256), w=(1024, 1), v=(256, 1))
def glm_hessian_times_vector(o, x, w, v):
    return ((x * w).T @ x) @ v


@program("SPORES, SVM", x=(2048, 256), y=(2048, 1), w=(256, 1))
def svm_gradient(o, x, y, w):
    margin = o.maximum(1.0 - y * (x @ w), 0.0)
    return (x * y).T @ margin


@program("SPORES, MLR", x=(1024, 512), p=(1024, 1))
def mlr_hessian(o, x, p):
    return p * x - p * o.sum(p, axes=[1], keepdims=True) * x


@program("textbook", a=(512, 512), b=(512, 512), x=(512, 1))
def sum_of_quadratic_forms(o, a, b, x):
    return x.T @ (a @ x) + x.T @ (b @ x)


@program("STENSO", a=(512, 512), b=(512, 512))
def product_of_scaled(o, a, b):
    return (a * 0.5) @ (b * 3.0)


@program("textbook", x=(1024, 512), w=(512, 64))
def product_of_centred_columns(o, x, w):
    return (x - o.mean(x, axes=[0], keepdims=True)) @ w


# ---- Elements and functions


@program("STENSO", x=(1024, 1024), y=(1024, 1024))
def product_of_exponentials(o, x, y):
    return o.exp(x) * o.exp(y)


@program("STENSO, log_exp", unsafe="the exponential overflows from 89 on", x=(1024, 1024))
def logarithm_of_exponential(o, x):
    return o.log(o.exp(x))


@program("STENSO", x=(1024, 1024))
def square_of_binomial(o, x):
    return x**2 + 2.0 * x + 1.0


@program("STENSO", unsafe="a root of a negative number is none", x_positive=(1024, 1024))
def square_of_root(o, x_positive):
    return o.sqrt(x_positive) * o.sqrt(x_positive)


@program("textbook", x=(1024, 1024))
def logistic_by_exponentials(o, x):
    return 1.0 / (1.0 + o.exp(-x))


@program("STENSO, power_neg", x_positive=(1024, 1024))
def powers(o, x_positive):
    return (x_positive**2) * (x_positive**3)


@program("textbook", x=(1024, 1024), y=(1024, 1024))
def product_of_absolute_values(o, x, y):
    return o.abs(x) * o.abs(y)


@program("textbook", x=(1024, 1024), y=(1024, 1024), z=(1024, 1024))
def maximum_of_sums(o, x, y, z):
    return o.maximum(x + z, y + z)


@program("textbook", x=(1024, 1024), y=(1024, 1024))
def quotient_of_exponentials(o, x, y):
    return o.exp(x) / o.exp(y)


@program("textbook", x=(1024, 512))
def variance(o, x):
    return o.mean((x - o.mean(x, axes=[1], keepdims=True)) ** 2, axes=[1])


# ---- Parts of results, stacks and maxima


@program("textbook", a=(512, 512), b=(512, 512))
def rows_of_product(o, a, b):
    return o.rows(a @ b, 0, 8)


@program("textbook", x=(2048, 128), w=(128, 512), v=(512, 128))
def first_row_of_layers(o, x, w, v):
    return o.rows(x + o.maximum(x @ w, 0.0) @ v, 0, 1)


@program("textbook", x=(1024, 1024))
def last_running_sums(o, x):
    return o.rows(o.running_sum(x), 1023, 1024)


@program("STENSO, sum_stack", x=(512, 512), y=(512, 512), z=(512, 512))
def sum_of_stack(o, x, y, z):
    return o.sum(o.stack([x, y, z]), axes=[0])


@program("STENSO, max_stack", x=(512, 512), y=(512, 512), z=(512, 512))
def maximum_of_stack(o, x, y, z):
    return o.greatest(o.stack([x, y, z]), axes=[0])


@program("textbook", x=(1024, 1024))
def maximum_of_exponentials(o, x):
    return o.greatest(o.exp(x), axes=[1])


@program("textbook", x=(1024,), y=(1024,))
def maxima_over_pairs(o, x, y):
    return o.greatest(o.column(x) + o.row(y), axes=[1])


@program("textbook", x=(512, 512))
def product_with_ones(o, x):
    return o.ones(512, 512) @ x


# ---- The three readings of a program


class Arrays:
    """The operations that NumPy and torch write alike."""

    @staticmethod
    def column(x):
        return x[:, None]

    @staticmethod
    def row(x):
        return x[None, :]

    @staticmethod
    def rows(x, first, end):
        return x[first:end]


class Numbers(Arrays):
    """The operations in NumPy."""

    transpose = staticmethod(np.transpose)
    exp, log, sqrt, abs, maximum = map(staticmethod, (np.exp, np.log, np.sqrt, np.abs, np.maximum))

    @staticmethod
    def sum(x, axes=None, keepdims=False):
        return np.sum(x, axis=None if axes is None else tuple(axes), keepdims=keepdims)

    @staticmethod
    def mean(x, axes=None, keepdims=False):
        return np.mean(x, axis=None if axes is None else tuple(axes), keepdims=keepdims)

    @staticmethod
    def greatest(x, axes):
        return np.max(x, axis=tuple(axes))

    @staticmethod
    def running_sum(x):
        return np.cumsum(x, axis=0)

    @staticmethod
    def stack(values):
        return np.stack(values)

    @staticmethod
    def ones(m, n):
        return np.ones((m, n))

    @staticmethod
    def eye(n):
        return np.eye(n)


class Torch(Arrays):
    """The operations in torch."""

    def __init__(self):
        import torch

        self.torch = torch
        self.exp, self.log, self.sqrt, self.abs, self.eye = torch.exp, torch.log, torch.sqrt, torch.abs, torch.eye
        self.greatest = lambda x, axes: torch.amax(x, dim=axes)
        self.running_sum = lambda x: torch.cumsum(x, dim=0)
        self.stack, self.ones = torch.stack, torch.ones

    def maximum(self, x, y):
        return self.torch.clamp(x, min=y) if isinstance(y, float) else self.torch.maximum(x, y)

    def sum(self, x, axes=None, keepdims=False):
        return self.torch.sum(x) if axes is None else self.torch.sum(x, dim=axes, keepdim=keepdims)

    def mean(self, x, axes=None, keepdims=False):
        return self.torch.mean(x) if axes is None else self.torch.mean(x, dim=axes, keepdim=keepdims)


class Value:
    """A value of an ONNX graph that is being built."""

    def __init__(self, graph, name):
        self.graph, self.name = graph, name

    def apply(self, operator, *others, **attributes):
        return self.graph.node(operator, [self, *others], **attributes)

    __add__ = lambda a, b: a.apply("Add", b)  # noqa: E731
    __sub__ = lambda a, b: a.apply("Sub", b)  # noqa: E731
    __mul__ = lambda a, b: a.apply("Mul", b)  # noqa: E731
    __truediv__ = lambda a, b: a.apply("Div", b)  # noqa: E731
    __matmul__ = lambda a, b: a.apply("MatMul", b)  # noqa: E731
    __pow__ = lambda a, b: a.apply("Pow", float(b))  # noqa: E731
    __neg__ = lambda a: a.apply("Neg")  # noqa: E731
    __radd__ = lambda a, b: a.graph.node("Add", [b, a])  # noqa: E731
    __rsub__ = lambda a, b: a.graph.node("Sub", [b, a])  # noqa: E731
    __rmul__ = lambda a, b: a.graph.node("Mul", [b, a])  # noqa: E731
    __rtruediv__ = lambda a, b: a.graph.node("Div", [b, a])  # noqa: E731

    @property
    def T(self):  # noqa: N802
        return self.apply("Transpose", perm=[1, 0])


class Graph:
    """The operations as ONNX nodes."""

    def __init__(self):
        self.nodes, self.constants = [], {}

    def constant(self, array):
        array = np.asarray(array)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self.constants:
            self.constants[key] = onnx.numpy_helper.from_array(array, f"c{len(self.constants)}")
        return Value(self, self.constants[key].name)

    def node(self, operator, inputs, **attributes):
        inputs = [x if isinstance(x, Value) else self.constant(np.float32(x)) for x in inputs]
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, [x.name for x in inputs], [name], **attributes))
        return Value(self, name)

    def reduce(self, operator, x, axes, keepdims):
        inputs = [x] if axes is None else [x, self.constant(np.array(axes, np.int64))]
        return self.node(operator, inputs, keepdims=int(keepdims))

    def sum(self, x, axes=None, keepdims=False):
        return self.reduce("ReduceSum", x, axes, keepdims)

    def mean(self, x, axes=None, keepdims=False):
        return self.reduce("ReduceMean", x, axes, keepdims)

    def greatest(self, x, axes):
        return self.reduce("ReduceMax", x, axes, False)

    def running_sum(self, x):
        return x.apply("CumSum", self.constant(np.int64(0)))

    def stack(self, values):
        return self.node("Concat", [self.row(x) for x in values], axis=0)

    def rows(self, x, first, end):
        return self.node("Slice", [x, *(self.constant(np.array([n], np.int64)) for n in (first, end, 0))])

    def ones(self, m, n):
        return self.constant(np.ones((m, n), np.float32))

    def eye(self, n):
        shape = self.constant(np.array([n, n], np.int64))
        zeros = self.node("ConstantOfShape", [shape], value=helper.make_tensor("value", TensorProto.FLOAT, [1], [0.0]))
        return zeros.apply("EyeLike")

    def column(self, x):
        return x.apply("Unsqueeze", self.constant(np.array([1], np.int64)))

    def row(self, x):
        return x.apply("Unsqueeze", self.constant(np.array([0], np.int64)))

    def exp(self, x):
        return x.apply("Exp")

    def log(self, x):
        return x.apply("Log")

    def sqrt(self, x):
        return x.apply("Sqrt")

    def abs(self, x):
        return x.apply("Abs")

    def maximum(self, x, y):
        return x.apply("Max", y)


def model(which):
    """The program as an ONNX model."""
    graph = Graph()
    result = which.function(graph, *(Value(graph, name) for name in which.inputs))
    shape = np.shape(which.function(Numbers, *inputs(which, np.float64)))
    inputs_, outputs = (
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in values]
        for values in (which.inputs.items(), [(result.name, shape)])
    )
    whole = helper.make_graph(graph.nodes, which.function.__name__, inputs_, outputs, list(graph.constants.values()))
    made = helper.make_model(whole, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.checker.check_model(made)
    return made


def inputs(which, kind=np.float32, seed=0):
    """Random inputs in the order of the program's parameters."""
    random = np.random.default_rng(seed)
    return [
        (random.uniform(0.5, 1.5, shape) if name.endswith("_positive") else random.standard_normal(shape)).astype(kind)
        for name, shape in which.inputs.items()
    ]


def expected(which, given):
    """The result in doubles."""
    return np.asarray(which.function(Numbers, *(x.astype(np.float64) for x in given)))
