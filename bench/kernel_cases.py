"""Models of one operator, or of what is written as a few, in the sizes of well-known networks: for bench/cpu_kernels."""

import os

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save, shape_inference

GENERATOR = np.random.default_rng(0)
IN_A_ROW = 4  # of convolutions that leave sizes as they are
TYPES = {"bool": TensorProto.BOOL, "float16": TensorProto.FLOAT16, "int8": TensorProto.INT8, "uint8": TensorProto.UINT8,
         "int32": TensorProto.INT32, "int64": TensorProto.INT64}


class Model:
    """Nodes one after the other; inputs are those that are asked for."""

    def __init__(self, name, opset=20):
        self.name, self.opset, self.inputs, self.constants, self.nodes = name, opset, [], [], []

    def input(self, sizes, type=TensorProto.FLOAT):
        self.inputs.append(helper.make_tensor_value_info(f"x{len(self.inputs)}", type, sizes))
        return self.inputs[-1].name

    def constant(self, value):
        self.constants.append(numpy_helper.from_array(np.asarray(value), f"c{len(self.constants)}"))
        return self.constants[-1].name

    def weights(self, *sizes):
        return self.constant(weights(*sizes))

    def node(self, operator, *inputs, outputs=1, **attributes):
        names = [f"v{len(self.nodes)}" + "b" * k for k in range(outputs)]
        self.nodes.append(helper.make_node(operator, list(inputs), names, **attributes))
        return names[0]

    def is_short(self):
        """Are elements rounded to 16 bits?"""
        return any(v.type.tensor_type.elem_type == TensorProto.FLOAT16 for v in self.inputs) or any(
            a.name == "to" and a.i == TensorProto.FLOAT16 for n in self.nodes for a in n.attribute)

    def save(self, folder):
        results = [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in self.nodes[-1].output]
        for result in results:
            result.ClearField("type")
        graph = helper.make_graph(self.nodes, self.name, self.inputs, results, self.constants)
        opsets = [helper.make_opsetid("", self.opset)] + [helper.make_opsetid(d, 1) for d in {n.domain for n in self.nodes} if d]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
        types = {v.name: v.type.tensor_type.elem_type for v in shape_inference.infer_shapes(model).graph.output}
        for result in model.graph.output:
            result.type.tensor_type.elem_type = types[result.name] or TensorProto.FLOAT
        path = os.path.join(folder, "".join(c if c.isalnum() else "_" for c in self.name) + ".onnx")
        save(model, path)
        return path


def convolution(name, channels, outputs, size, kernel, stride=1, group=1, batch=1):
    text = f"{name} {kernel}x{kernel}" + (f" / {stride}" if stride > 1 else "") + f", {channels} to {outputs} on {size}x{size}"
    m = Model(text + (f", batch {batch}" if batch > 1 else ""))
    y = m.input([batch, channels, size, size])
    for _ in range(IN_A_ROW if channels == outputs and stride == 1 else 1):
        y = m.node("Conv", y, m.weights(outputs, channels // group, kernel, kernel), m.weights(outputs),
                   strides=[stride] * 2, pads=[kernel // 2] * 4, group=group)
    return m


def pool(operator, channels, size, kernel, stride, batch=1, **attributes):
    m = Model(f"{operator} {kernel}x{kernel} / {stride}, {channels} on {size}x{size}" + (f", batch {batch}" if batch > 1 else ""))
    m.node(operator, m.input([batch, channels, size, size]), kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[kernel // 2] * 4, **attributes)
    return m


def resize(mode, channels, size, factor, batch=1):
    m = Model(f"Resize {mode} x{factor}, {channels} on {size}x{size}" + (f", batch {batch}" if batch > 1 else ""))
    scales = m.constant(np.asarray([1, 1, factor, factor], np.float32))
    m.node("Resize", m.input([batch, channels, size, size]), "", scales, mode=mode)
    return m


def rows(operator, count, length):
    m = Model(f"{operator}, {count} x {length}")
    x = m.input([count, length])
    if operator == "LayerNormalization":
        m.node(operator, x, m.weights(length), m.weights(length))
    else:
        m.node(operator, x)
    return m


def attention(heads, tokens, size, queries=None, batch=1):
    shown = f"{tokens} tokens" if queries is None else f"{queries} of {tokens} tokens"
    m = Model(f"attention, {heads} heads, {shown}, {size}" + (f", batch {batch}" if batch > 1 else ""))
    q, k, v = (m.input([batch, heads, n, size]) for n in (queries or tokens, tokens, tokens))
    scores = m.node("Mul", m.node("MatMul", q, m.node("Transpose", k, perm=[0, 1, 3, 2])), m.constant(np.float32(size**-0.5)))
    m.node("MatMul", m.node("Softmax", scores), v)
    return m


def gelu(count, length):
    m = Model(f"GELU in pieces, {count} x {length}")
    x = m.input([count, length])
    inner = m.node("Add", m.node("Erf", m.node("Div", x, m.constant(np.float32(2**0.5)))), m.constant(np.float32(1)))
    m.node("Mul", m.node("Mul", x, inner), m.constant(np.float32(0.5)))
    return m


def embedding(words, length, tokens):
    m = Model(f"embedding, {tokens} of {words} x {length}")
    m.node("Gather", m.weights(words, length), m.input([1, tokens], TensorProto.INT64))
    return m


def recurrent(operator, gates, length, inputs, hidden, direction="forward", batch=1):
    directions = 2 if direction == "bidirectional" else 1
    m = Model(f"{operator} {direction}, {length} steps, {inputs} to {hidden}" + (f", batch {batch}" if batch > 1 else ""))
    gate_rows = gates * hidden
    m.node(operator, m.input([length, batch, inputs]), m.weights(directions, gate_rows, inputs), m.weights(directions, gate_rows, hidden),
           m.weights(directions, 2 * gate_rows), hidden_size=hidden, direction=direction)
    return m


def squeeze_and_excite(channels, size):
    m = Model(f"squeeze and excite, {channels} on {size}x{size}")
    x = m.input([1, channels, size, size])
    y = m.node("Relu", m.node("Conv", m.node("GlobalAveragePool", x), m.weights(channels // 4, channels, 1, 1), m.weights(channels // 4)))
    y = m.node("Sigmoid", m.node("Conv", y, m.weights(channels, channels // 4, 1, 1), m.weights(channels)))
    m.node("Mul", x, y)
    return m


def is_sizes(operand):
    return isinstance(operand, tuple)


def one(name, operator, *operands, opset=20, **attributes):
    """Operands: sizes of an input, with a type at the end unless it is float, a constant, or None for one that is left out."""
    m = Model(name, opset)
    names = []
    for o in operands:
        if is_sizes(o):
            names.append(m.input([n for n in o if not isinstance(n, str)], TYPES[o[-1]] if isinstance(o[-1], str) else TensorProto.FLOAT))
        else:
            names.append("" if o is None else m.constant(o))
    m.node(operator, *names, **attributes)
    return m


def case(operator, *operands, **attributes):
    """A model of one operator, with a name made of it, the attributes and the inputs' sizes."""
    shown = [f"{k} {' '.join(map(str, v)) if isinstance(v, (list, tuple)) else v}" for k, v in attributes.items() if k not in ("opset", "domain")]
    shown += [f"{o.item():g}" for o in operands if isinstance(o, np.ndarray) and o.size == 1 and o.dtype.kind in "fiu"]
    constants = ["x".join(map(str, o.shape)) + " weights" for o in operands if isinstance(o, np.ndarray) and o.ndim > 1]
    sizes = [" x ".join(map(str, o)) for o in operands if is_sizes(o)] + constants
    return one(f"{operator} of {', '.join(dict.fromkeys(sizes))}" + (f" ({', '.join(shown)})" if shown else ""), operator, *operands, **attributes)


def integers(*values):
    return np.asarray(values, np.int64)


def positions(below, *sizes):
    return GENERATOR.integers(0, below, sizes)


def weights(*sizes, type=np.float32):
    if np.issubdtype(type, np.integer):
        return GENERATOR.integers(0, 100, sizes).astype(type)
    return (0.05 * GENERATOR.standard_normal(sizes)).astype(type)


def numbers(*values, type=np.float32):
    return np.asarray(values if len(values) != 1 else values[0], type)


def products():
    for count in (1, 8, 32, 128, 512, 2048):
        yield case("MatMul", (count, 768), weights(768, 768))
    yield case("MatMul", (1, 1, 4096), weights(4096, 4096))
    yield case("MatMul", (8, 128, 768), weights(768, 3072))
    yield case("MatMul", (32, 12, 128, 64), (32, 12, 64, 128))
    yield case("MatMul", (1024, 1024), (1024, 1024))
    for count in (1, 8, 32):
        yield case("Gemm", (count, 2048), weights(1000, 2048), weights(1000), transB=1)
    yield case("MatMul", (128, 768, "float16"), weights(768, 768, type=np.float16))
    yield case("MatMulInteger", (128, 768, "uint8"), weights(768, 768, type=np.int8))
    yield case("MatMulInteger", (1, 768, "uint8"), weights(768, 768, type=np.int8))
    scale, zero = numbers(0.02), np.asarray(3, np.uint8)
    yield case("QLinearMatMul", (128, 768, "uint8"), scale, zero, weights(768, 768, type=np.int8), scale, np.asarray(0, np.int8), numbers(50.0), zero)
    yield case("QLinearConv", (1, 64, 56, 56, "uint8"), scale, zero, weights(64, 64, 3, 3, type=np.int8), scale, np.asarray(0, np.int8),
               numbers(50.0), zero, pads=[1] * 4)
    yield case("ConvInteger", (1, 64, 28, 28, "uint8"), weights(64, 64, 3, 3, type=np.uint8), zero, pads=[1] * 4)
    for tokens in (32, 1024, 2048):
        yield attention(12, tokens, 64)
    yield attention(16, 2048, 64, queries=1)
    yield case("MatMul", (100000, 3), weights(3, 3))
    yield attention(12, 128, 64, batch=8)
    yield case("Einsum", (32, 128, 64), (32, 64, 128), equation="bij,bjk->bik")
    yield case("Einsum", (512, 256), (512, 256), equation="ij,ij->i")
    yield case("Conv", (1, 64, 56, 56, "float16"), weights(64, 64, 3, 3, type=np.float16), pads=[1] * 4)


def convolutions():
    yield convolution("convolution", 64, 64, 56, 3, batch=8)
    yield convolution("convolution", 256, 64, 56, 1, batch=8)
    yield convolution("convolution", 512, 512, 7, 3)
    yield convolution("convolution", 512, 512, 7, 3, batch=32)
    yield convolution("convolution", 64, 64, 14, 1, batch=32)
    yield convolution("convolution", 1024, 255, 13, 1)
    yield convolution("convolution", 32, 32, 256, 3)
    yield convolution("depthwise", 32, 32, 112, 3, 1, 32, batch=8)
    yield convolution("depthwise", 384, 384, 14, 7, 1, 384)
    yield convolution("first", 3, 768, 224, 16, 16)
    yield convolution("first", 3, 64, 224, 7, 2, batch=8)
    yield convolution("first", 3, 16, 640, 3, 2)
    yield convolution("first", 1, 32, 28, 3)
    yield case("Conv", (1, 80, 3000), weights(384, 80, 3), pads=[1, 1])
    yield case("Conv", (1, 256, 500), weights(256, 1, 31), pads=[15, 15], group=256)
    yield case("Conv", (1, 3, 16, 112, 112), weights(24, 3, 3, 7, 7), strides=[1, 2, 2], pads=[1, 3, 3, 1, 3, 3])
    yield case("ConvTranspose", (1, 256, 32, 32), weights(256, 128, 2, 2), strides=[2, 2])
    yield case("ConvTranspose", (1, 512, 100), weights(512, 256, 16), strides=[8], pads=[4, 4])
    yield case("DeformConv", (1, 64, 28, 28), weights(64, 64, 3, 3), (1, 18, 28, 28), weights(64), pads=[1] * 4)
    yield case("Col2Im", (1, 576, 784), integers(28, 28), integers(3, 3), pads=[1] * 4)


def pools():
    for batch in (8, 32):
        yield pool("MaxPool", 64, 112, 3, 2, batch)
    yield pool("MaxPool", 192, 28, 3, 1)
    yield pool("MaxPool", 256, 13, 5, 1)
    yield case("MaxPool", (1, 64, 56, 56), kernel_shape=[2, 2], strides=[2, 2])
    yield case("MaxPool", (1, 64, 56, 56), kernel_shape=[2, 2], strides=[2, 2], outputs=2)
    yield case("MaxPool", (1, 64, 1000), kernel_shape=[2], strides=[2])
    yield case("AveragePool", (8, 64, 56, 56), kernel_shape=[2, 2], strides=[2, 2])
    for operator in ("MaxPool", "AveragePool"):
        yield case(operator, (1, 16, 28, 28), kernel_shape=[2, 2], strides=[2, 2])
        yield case(operator, (8, 24, 40, 40), kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    yield case("AveragePool", (8, 24, 40, 40), kernel_shape=[3, 3], pads=[1] * 4, count_include_pad=1)
    yield case("LpPool", (1, 64, 56, 56), kernel_shape=[2, 2], strides=[2, 2])
    yield case("MaxRoiPool", (1, 256, 50, 50), rois(64, 800, batch=True), pooled_shape=[7, 7], spatial_scale=1 / 16)
    yield case("RoiAlign", (1, 256, 50, 50), rois(64, 800), np.zeros(64, np.int64), output_height=7, output_width=7, spatial_scale=1 / 16,
               sampling_ratio=2)
    yield case("RoiAlign", (1, 64, 28, 28), rois(8, 448), np.zeros(8, np.int64), output_height=14, output_width=14, spatial_scale=1 / 16)
    places = (np.arange(28)[:, None] * 2 * 56 + np.arange(28) * 2)[None] + 28 * 28 * 4 * np.arange(64)[:, None, None]
    yield case("MaxUnpool", (1, 64, 28, 28), (places + positions(2, 64, 28, 28) + 56 * positions(2, 64, 28, 28))[None], kernel_shape=[2, 2], strides=[2, 2])
    for operator in ("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"):
        yield case(operator, (1, 512, 14, 14))
    yield case("GlobalAveragePool", (32, 2048, 7, 7))
    yield resize("nearest", 256, 32, 2)
    yield resize("linear", 256, 32, 2)
    yield resize("linear", 3, 256, 2, 8)
    yield resize("cubic", 3, 224, 2)
    yield case("Resize", (1, 21, 65, 65), None, None, integers(1, 21, 513, 513), mode="linear", coordinate_transformation_mode="align_corners")
    yield case("GridSample", (1, 32, 64, 64), (1, 64, 64, 2))
    yield case("GridSample", (1, 3, 256, 256), (1, 256, 256, 2), mode="nearest")
    yield case("AffineGrid", (8, 2, 3), integers(8, 3, 64, 64))
    yield case("LRN", (1, 96, 55, 55), size=5)


def rois(count, size, batch=False):
    first = GENERATOR.uniform(0, size / 2, (count, 2))
    corners = np.concatenate([first, first + GENERATOR.uniform(16, size / 2, (count, 2))], 1)
    return (np.concatenate([np.zeros((count, 1)), corners], 1) if batch else corners).astype(np.float32)


FUNCTIONS = ("Abs Acos Acosh Asin Asinh Atan Atanh Ceil Celu Cos Cosh Elu Exp Floor Gelu HardSigmoid HardSwish LeakyRelu Log Mish Neg Reciprocal "
             "Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Tan Tanh ThresholdedRelu").split()


def elementwise():
    for function in FUNCTIONS:
        yield case(function, (1, 64, 56, 56))
    yield case("Gelu", (128, 3072), approximate="tanh")
    for function in ("Relu", "Sigmoid"):
        yield case(function, (8, 256, 56, 56))
    for function in ("Tanh", "Exp", "Relu", "Gelu"):
        yield case(function, (1, 1024))
    for operator in ("Add", "Sub", "Mul", "Max", "Min", "PRelu"):
        yield case(operator, (1, 64, 56, 56), (1, 64, 56, 56))
    yield case("Add", (8, 128, 768), weights(768))
    yield case("Mul", (1, 64, 56, 56), (1, 64, 1, 1))
    yield case("Add", (8, 12, 128, 128), (8, 1, 1, 128))
    yield case("Div", (8, 128, 768), (8, 128, 1))
    yield case("PRelu", (1, 64, 56, 56), weights(64, 1, 1))
    yield case("Pow", (128, 768), numbers(2.0))
    yield case("Pow", (128, 768), numbers(0.75))
    yield case("Mod", (128, 768), (128, 768), fmod=1)
    yield case("Sum", (128, 768), (128, 768), (128, 768))
    yield case("Mean", (128, 768), (128, 768), (128, 768))
    yield case("Clip", (1, 64, 56, 56), numbers(0.0), numbers(6.0))
    for operator in ("Equal", "Greater", "LessOrEqual"):
        yield case(operator, (128, 768), (128, 768))
    yield case("Greater", (128, 3072), numbers(0.0))
    yield case("Where", (8, 12, 128, 128, "bool"), (8, 12, 128, 128), numbers(-1e9))
    yield case("Where", (1, 1, 512, 512, "bool"), (1, 12, 512, 512), numbers(-1e9))
    yield case("And", (128, 768, "bool"), (128, 768, "bool"))
    yield case("Not", (128, 768, "bool"))
    yield case("IsNaN", (128, 3072))
    yield case("IsInf", (128, 3072))
    for operator in ("Add", "Mul"):
        for type in ("float16", "int32", "int64"):
            yield case(operator, (128, 768, type), (128, 768, type))
    yield case("Div", (128, 768, "int64"), integers(7))
    yield case("Equal", (8, 2048, "int64"), integers(0))
    for function in ("Relu", "Sigmoid", "Tanh", "Gelu"):
        yield case(function, (128, 3072, "float16"))
    for source, target in (("float16", "FLOAT"), ("float", "FLOAT16"), ("float", "INT32"), ("int64", "FLOAT"), ("int32", "INT64"), ("uint8", "FLOAT"),
                           ("bool", "FLOAT"), ("float", "BOOL"), ("float", "UINT8")):
        yield case("Cast", (128, 3072) if source == "float" else (128, 3072, source), to=TensorProto.DataType.Value(target))
    yield case("QuantizeLinear", (128, 3072), numbers(0.02), np.asarray(128, np.uint8))
    yield case("DequantizeLinear", (128, 3072, "uint8"), numbers(0.02), np.asarray(128, np.uint8))
    yield case("DynamicQuantizeLinear", (128, 768), outputs=3)


def rows_and_sums():
    for count, length in ((1, 1000), (32, 1000), (6144, 512), (12, 2048)):
        yield case("Softmax", (count, length))
    yield case("Softmax", (1536, 128, "float16"))
    for count in (1, 32, 2048):
        yield case("LayerNormalization", (count, 768), weights(768), weights(768))
    yield case("LayerNormalization", (128, 768, "float16"), weights(768, type=np.float16), weights(768, type=np.float16))
    yield case("RMSNormalization", (128, 2048), weights(2048), opset=23)
    yield case("Hardmax", (32, 1000))
    yield case("LpNormalization", (128, 768))
    yield case("LpNormalization", (2000, 3))
    yield case("MeanVarianceNormalization", (1, 64, 56, 56))
    yield case("GroupNormalization", (1, 320, 32, 32), np.ones(320, "f"), np.ones(320, "f"), num_groups=32, opset=21)
    yield case("BatchNormalization", (1, 64, 56, 56), *(np.ones(64, "f") for _ in range(4)))
    yield case("BatchNormalization", (32, 256, 14, 14), *(np.ones(256, "f") for _ in range(4)))
    yield case("InstanceNormalization", (8, 32, 64, 64), np.ones(32, "f"), np.ones(32, "f"))
    for reduction in ("ReduceSum", "ReduceMin", "ReduceProd"):
        yield case(reduction, (512, 768), integers(1))
    for reduction in ("ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceSumSquare"):
        yield case(reduction, (128, 768), integers(1))
    yield case("ReduceSum", (8, 128, 768), integers(1))
    yield case("ReduceMean", (32, 256, 14, 14), integers(2, 3))
    yield case("ReduceMax", (1, 64, 56, 56), integers(1))
    yield case("ReduceSum", (1, 1000000), integers(0, 1))
    yield case("ReduceSum", (128, 768, "int64"), integers(1))
    for reduction in ("ReduceMax", "ReduceMean"):
        yield case(reduction, (20000, 5), integers(1))
        yield case(reduction, (7, 2048, 3), integers(1))
    for operator in ("ArgMax", "ArgMin"):
        yield case(operator, (128, 1000), axis=1)
    yield case("ArgMax", (1, 21, 112, 112), axis=1)
    yield case("TopK", (32, 1000), integers(5), outputs=2)
    yield case("TopK", (1, 50257), integers(50), outputs=2)
    yield case("TopK", (1, 8400), integers(300), outputs=2)
    yield case("CumSum", (128, 1000), np.asarray(0, np.int64))
    yield case("CumSum", (1, 512, "int64"), np.asarray(1, np.int64))
    yield case("CumSum", (512, 100, "int32"), np.asarray(0, np.int64), exclusive=1, reverse=1)
    yield case("TopK", (8, 200, 15), integers(7), axis=1, outputs=2)
    yield case("LogSoftmax", (32, 1000))


def movements():
    yield case("Transpose", (8, 128, 12, 64), perm=[0, 2, 1, 3])
    yield case("Transpose", (8, 3, 224, 224), perm=[0, 2, 3, 1])
    yield case("Transpose", (1, 56, 56, 64), perm=[0, 3, 1, 2])
    yield case("Transpose", (128, 12, 64, "float16"), perm=[1, 0, 2])
    yield case("Concat", (1, 64, 56, 56), (1, 64, 56, 56), axis=1)
    yield case("Concat", (8, 12, 127, 64), (8, 12, 1, 64), axis=2)
    yield case("Split", (128, 2304), integers(768, 768, 768), axis=1, outputs=3)
    yield case("Slice", (8, 128, 768), integers(0), integers(1), integers(1))
    yield case("Slice", (128, 1536), integers(0), integers(768), integers(1))
    yield case("Slice", (128, 768), integers(-1), integers(-1000), integers(1), integers(-1))
    yield case("Pad", (8, 3, 224, 224), integers(0, 0, 3, 3, 0, 0, 3, 3))
    yield case("Pad", (1, 64, 56, 56), integers(0, 0, 1, 1, 0, 0, 1, 1), mode="edge")
    yield case("Expand", (1, 1, 512, 64), integers(8, 12, 512, 64))
    yield case("Expand", (8, 1, 1, 128), integers(8, 12, 128, 128))
    yield case("Tile", (1, 128, 768), integers(8, 1, 1))
    yield case("SpaceToDepth", (1, 3, 640, 640), blocksize=2)
    yield case("DepthToSpace", (1, 12, 320, 320), blocksize=2, mode="CRD")
    yield case("Trilu", (12, 512, 512), upper=0)
    yield case("Gather", weights(32000, 1024), (8, 512, "int64"))
    yield case("Gather", (8, 512, 768), integers(0), axis=1)
    yield case("GatherND", (8, 512, 768), np.stack([np.arange(8), positions(512, 8)], 1))
    yield case("ScatterElements", (128, 1000), positions(1000, 128, 100), (128, 100), axis=1)
    yield case("ScatterND", (1, 512, 768), np.stack([np.zeros(128, np.int64), GENERATOR.permutation(512)[:128]], 1), (128, 768))
    yield case("ScatterElements", (10000, 64), positions(10000, 10000, 64), (10000, 64), axis=0, reduction="add")
    yield case("OneHot", (128, "int64"), integers(1000), numbers(0.0, 1.0))
    yield case("OneHot", (20, 33, "int64"), integers(40), numbers(0.0, 1.0), axis=1)
    yield case("NonZero", (128, 768))
    yield case("Compress", (1000, 256), GENERATOR.integers(0, 2, 1000).astype(bool), axis=0)
    yield case("ReverseSequence", (128, 8, 256), integers(*range(16, 144, 16)), batch_axis=1, time_axis=0)
    yield case("EyeLike", (512, 512))
    yield case("NonMaxSuppression", (1, 1000, 4), (1, 1, 1000), integers(100), numbers(0.5), numbers(0.0))
    yield case("Unique", (10000,))
    yield case("Det", (64, 16, 16))
    yield case("DFT", (1, 16, 1024, 1), None, np.asarray(2, np.int64))
    yield case("STFT", (1, 16000, 1), np.asarray(256, np.int64), np.hanning(512).astype("f"), np.asarray(512, np.int64))


def sequences():
    for batch, length in ((8, 100), (32, 50)):
        yield recurrent("LSTM", 4, length, 256, 256, batch=batch)
    yield recurrent("LSTM", 4, 1, 512, 512)
    yield recurrent("LSTM", 4, 512, 128, 128)
    yield recurrent("LSTM", 4, 50, 64, 64, "bidirectional")
    yield recurrent("LSTM", 4, 50, 300, 256, "bidirectional", batch=32)
    yield recurrent("GRU", 3, 50, 128, 128, "bidirectional")
    yield recurrent("GRU", 3, 100, 256, 256, batch=8)
    yield recurrent("RNN", 1, 50, 128, 128, batch=8)
    for tokens in (1, 128, 1024):
        yield case("Attention", *((1, 12, tokens, 64),) * 3, opset=23)
    yield case("Attention", (1, 8, 4, 64), *((1, 2, 4, 64),) * 2, None, *((1, 2, 300, 64),) * 2, is_causal=1, outputs=3, opset=23)
    yield case("RotaryEmbedding", (1, 12, 128, 64), weights(2048, 32), weights(2048, 32), integers(*range(128))[None], opset=23)
    yield case("FastGelu", (128, 3072), domain="com.microsoft")
    yield case("QuickGelu", (128, 3072), domain="com.microsoft")
    yield case("BiasGelu", (128, 3072), weights(3072), domain="com.microsoft")
    yield case("SkipLayerNormalization", (1, 128, 768), (1, 128, 768), weights(768), weights(768), domain="com.microsoft")


def first_models():
    """The first models of the page."""
    yield convolution("depthwise", 96, 96, 112, 3, 2, 96)
    yield convolution("depthwise", 144, 144, 56, 3, 1, 144)
    yield convolution("depthwise", 240, 240, 28, 5, 1, 240)
    yield convolution("depthwise", 672, 672, 14, 5, 1, 672)
    yield convolution("depthwise", 96, 96, 56, 7, 1, 96)
    yield convolution("first", 3, 32, 224, 3, 2)
    yield convolution("first", 3, 64, 224, 7, 2)
    yield convolution("convolution", 64, 64, 56, 1)
    yield convolution("convolution", 64, 64, 56, 3)
    yield convolution("convolution", 256, 256, 14, 3)
    yield convolution("convolution", 128, 128, 56, 3, 2)
    yield convolution("convolution", 64, 64, 35, 5)
    yield convolution("convolution", 64, 64, 28, 11)
    yield convolution("grouped", 256, 256, 28, 3, 1, 32)
    yield pool("MaxPool", 64, 112, 3, 2)
    yield pool("AveragePool", 176, 28, 3, 1)
    yield resize("nearest", 64, 28, 2)
    yield resize("linear", 64, 28, 2)
    yield rows("Softmax", 1536, 128)
    yield rows("LayerNormalization", 128, 768)
    yield gelu(128, 3072)
    yield attention(12, 128, 64)
    yield attention(12, 512, 64)
    yield embedding(30522, 768, 128)
    yield squeeze_and_excite(240, 28)
    yield one("ConvTranspose 4x4 / 2, 64 to 32 on 28x28", "ConvTranspose", (1, 64, 28, 28), weights(64, 32, 4, 4), strides=[2, 2], pads=[1] * 4)
    yield one("ConvTranspose 4x4 / 2, 64 to 3 on 32x32", "ConvTranspose", (1, 64, 32, 32), weights(64, 3, 4, 4), strides=[2, 2], pads=[1] * 4)
    yield one("ConvTranspose 3x3 / 2, 256 to 24 on 16x16", "ConvTranspose", (1, 256, 16, 16), weights(256, 24, 3, 3), strides=[2, 2], pads=[1] * 4)
    yield one("ConvTranspose 2x2 / 2, 128 to 64 on 28x28", "ConvTranspose", (1, 128, 28, 28), weights(128, 64, 2, 2), strides=[2, 2])
    yield one("ConvTranspose 7x7, 64 to 3 on 64x64", "ConvTranspose", (1, 64, 64, 64), weights(64, 3, 7, 7), pads=[3] * 4)
    yield one("Conv of one axis, 64 to 64 on 1000", "Conv", (1, 64, 1000), weights(64, 64, 3), pads=[1, 1])
    yield one("Conv of three axes, 16 to 16 on 16x28x28", "Conv", (1, 16, 16, 28, 28), weights(16, 16, 3, 3, 3), pads=[1] * 6)
    yield one("Conv dilated, 64 to 64 on 56x56", "Conv", (1, 64, 56, 56), weights(64, 64, 3, 3), pads=[2] * 4, dilations=[2, 2])
    yield one("MatMul, 12 of 128 x 64 x 128", "MatMul", (12, 128, 64), (12, 64, 128))
    yield one("MatMul, 1 x 768 x 768", "MatMul", (1, 1, 768), weights(768, 768))
    yield one("Einsum bhqd,bhkd->bhqk", "Einsum", (1, 12, 128, 64), (1, 12, 128, 64), equation="bhqd,bhkd->bhqk")
    yield one("Transpose 0231, 64 on 56x56", "Transpose", (1, 64, 56, 56), perm=[0, 2, 3, 1])
    yield one("Transpose 0213, 128 x 12 x 64", "Transpose", (1, 128, 12, 64), perm=[0, 2, 1, 3])
    yield one("Transpose 10, 512 x 768", "Transpose", (512, 768), perm=[1, 0])
    yield one("Slice with steps, 64 on 56x56", "Slice", (1, 64, 56, 56), integers(0, 1), integers(56, 56), integers(2, 3), integers(2, 2))
    yield one("Concat of columns", "Concat", (128, 256), (128, 512), axis=1)
    yield one("Pad with zeros, 64 on 56x56", "Pad", (1, 64, 56, 56), integers(0, 0, 1, 1, 0, 0, 1, 1))
    yield one("Pad by reflection, 64 on 56x56", "Pad", (1, 64, 56, 56), integers(0, 0, 1, 1, 0, 0, 1, 1), mode="reflect")
    yield one("Tile, 64 on 28x28", "Tile", (1, 64, 28, 28), integers(1, 1, 2, 2))
    yield one("DepthToSpace, 64 on 56x56", "DepthToSpace", (1, 64, 56, 56), blocksize=2)
    yield one("Gather of columns", "Gather", (128, 1000), positions(1000, 100), axis=1)
    yield one("GatherElements", "GatherElements", (128, 1000), positions(1000, 128, 100), axis=1)
    yield one("GatherElements of one of 1000 classes, 128 rows", "GatherElements", (128, 1000), positions(1000, 128, 1), axis=1)
    yield one("GatherElements of one of 50257 classes, 1024 rows", "GatherElements", (1024, 50257), positions(50257, 1024, 1), axis=1)
    yield one("Gather of 8192 rows of 768", "Gather", weights(50257, 768), positions(50257, 8192))
    yield one("CumSum, 128 x 1000", "CumSum", (128, 1000), np.asarray(1, np.int64))
    for reduction in ("ReduceMean", "ReduceMax"):
        yield one(f"{reduction} of rows, 512 x 768", reduction, (512, 768), integers(1))
        yield one(f"{reduction} of columns, 512 x 768", reduction, (512, 768), integers(0))
        yield one(f"{reduction} of pictures, 256 on 28x28", reduction, (1, 256, 28, 28), integers(2, 3))
    yield one("Softmax of channels, 21 on 112x112", "Softmax", (1, 21, 112, 112), axis=1)
    yield one("LogSoftmax, 128 x 1000", "LogSoftmax", (128, 1000))
    yield one("LogSoftmax, 256 x 50257", "LogSoftmax", (256, 50257))
    yield convolution("two outputs a channel", 48, 96, 56, 7, 2, 48)
    yield one("InstanceNormalization, 64 on 56x56", "InstanceNormalization", (1, 64, 56, 56), np.ones(64, "f"), np.ones(64, "f"))
    for function in ("Exp", "Log", "Sqrt", "Tanh", "Sigmoid", "Erf", "Sin", "HardSwish"):
        yield one(f"{function}, 128 x 3072", function, (128, 3072))
    yield one("Div, 128 x 3072", "Div", (128, 3072), (128, 3072))
    yield recurrent("LSTM", 4, 100, 256, 256)
    yield recurrent("LSTM", 4, 100, 128, 128, "bidirectional")
    yield recurrent("GRU", 3, 100, 256, 256)
    yield recurrent("RNN", 1, 100, 256, 256)


def models():
    """One after the other, since the weights of all take a lot of memory."""
    for family in (first_models, convolutions, products, pools, elementwise, rows_and_sums, movements, sequences):
        yield from family()
