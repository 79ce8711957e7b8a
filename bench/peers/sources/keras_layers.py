"""Keras' layers and small networks of them, by tf2onnx."""

import itertools

import numpy as np
import tensorflow as tf

import cases

layers = tf.keras.layers
SEQUENCE, IMAGE, VOLUME, FLAT = (6, 5), (9, 8, 4), (5, 6, 4, 2), (7,)
CASES = {}


def case(name, make, *sizes):
    """make: a layer, or a function of input tensors. Sizes without the batch, which is open."""
    CASES[name] = (make, sizes)


def simple():
    for name in "relu elu selu gelu sigmoid hard_sigmoid softplus softsign tanh swish leaky_relu relu6 mish log_softmax celu glu hard_tanh hard_shrink soft_shrink sparse_plus squareplus tanh_shrink exponential".split():
        case(f"Activation {name}", lambda n=name: layers.Activation(n), SEQUENCE if name != "glu" else (6, 4))
    for name in "ReLU ELU PReLU LeakyReLU Softmax Flatten Identity UnitNormalization LayerNormalization BatchNormalization".split():
        case(name, lambda n=name: getattr(layers, n)(), SEQUENCE)
    for name, sizes in itertools.product(("Dense", "EinsumDense"), (FLAT, SEQUENCE)):
        if name == "Dense":
            case(f"Dense {sizes}", lambda: layers.Dense(8, "relu"), sizes)
    case("EinsumDense", lambda: layers.EinsumDense("abc,cd->abd", output_shape=(None, 8), bias_axes="d"), SEQUENCE)
    case("GroupNormalization", lambda: layers.GroupNormalization(2), IMAGE)
    case("RMSNormalization", lambda: layers.RMSNormalization(), SEQUENCE)
    case("Permute", lambda: layers.Permute((2, 1)), SEQUENCE)
    case("Reshape", lambda: layers.Reshape((5, -1)), SEQUENCE)
    case("RepeatVector", lambda: layers.RepeatVector(3), FLAT)
    case("Rescaling", lambda: layers.Rescaling(0.5, 1.0), IMAGE)
    case("Normalization", lambda: layers.Normalization(mean=1.0, variance=2.0), SEQUENCE)
    case("Resizing", lambda: layers.Resizing(5, 12), IMAGE)
    case("CenterCrop", lambda: layers.CenterCrop(5, 4), IMAGE)
    for name in "Add Subtract Multiply Average Maximum Minimum Concatenate".split():
        case(name, lambda n=name: getattr(layers, n)(), SEQUENCE, SEQUENCE)
    case("Dot", lambda: layers.Dot(axes=2), SEQUENCE, SEQUENCE)
    case("Dot normalized", lambda: layers.Dot(axes=1, normalize=True), FLAT, FLAT)


def spatial():
    for padding, stride, dilation, groups in itertools.product(("same", "valid"), (1, 2), (1, 2), (1, 2)):
        if stride > 1 and dilation > 1:
            continue
        title = f"{padding} {stride} {dilation} {groups}"
        options = {"padding": padding, "strides": stride, "dilation_rate": dilation}
        if padding == "valid" or dilation == 1:
            case(f"Conv2D {title}", lambda o=options, g=groups: layers.Conv2D(6, 3, groups=g, **o), IMAGE)
        if groups == 1:
            case(f"Conv1D {title}", lambda o=options: layers.Conv1D(6, 3, **o), SEQUENCE)
            case(f"Conv3D {title}", lambda o=options: layers.Conv3D(3, 2, **o), VOLUME)
            case(f"SeparableConv2D {title}", lambda o=options: layers.SeparableConv2D(6, 3, **o), IMAGE)
            case(f"SeparableConv1D {title}", lambda o=options: layers.SeparableConv1D(6, 3, **o), SEQUENCE)
            case(f"DepthwiseConv2D {title}", lambda o=options: layers.DepthwiseConv2D(3, depth_multiplier=2, **o), IMAGE)
            case(f"Conv2DTranspose {title}", lambda o=options: layers.Conv2DTranspose(6, 3, **o), IMAGE)
            case(f"Conv1DTranspose {title}", lambda o=options: layers.Conv1DTranspose(6, 3, **o), SEQUENCE)
            case(f"Conv3DTranspose {title}", lambda o=options: layers.Conv3DTranspose(3, 2, **o), VOLUME)
    case("Conv1D causal", lambda: layers.Conv1D(6, 3, padding="causal", dilation_rate=2), SEQUENCE)
    for (rank, sizes), kind, padding in itertools.product(((1, SEQUENCE), (2, IMAGE), (3, VOLUME)), ("Max", "Average"), ("same", "valid")):
        case(f"{kind}Pooling{rank}D {padding}", lambda r=rank, k=kind, p=padding: getattr(layers, f"{k}Pooling{r}D")(2, padding=p), sizes)
    for (rank, sizes), kind, keep in itertools.product(((1, SEQUENCE), (2, IMAGE), (3, VOLUME)), ("Max", "Average"), (False, True)):
        case(f"Global{kind}Pooling{rank}D {keep}", lambda r=rank, k=kind, s=keep: getattr(layers, f"Global{k}Pooling{r}D")(keepdims=s), sizes)
    for rank, sizes in ((1, SEQUENCE), (2, IMAGE), (3, VOLUME)):
        for name in ("UpSampling", "ZeroPadding", "Cropping"):
            case(f"{name}{rank}D", lambda r=rank, n=name: getattr(layers, f"{n}{r}D")(), sizes)
    for method in ("nearest", "bilinear", "bicubic"):
        case(f"UpSampling2D {method}", lambda m=method: layers.UpSampling2D((2, 3), interpolation=m), IMAGE)


def recurrent():
    for name, sequences, backwards in itertools.product(("LSTM", "GRU", "SimpleRNN"), (False, True), (False, True)):
        case(f"{name} {sequences} {backwards}", lambda n=name, s=sequences, b=backwards: getattr(layers, n)(4, return_sequences=s, go_backwards=b), SEQUENCE)
    for name, merge in itertools.product(("LSTM", "GRU", "SimpleRNN"), ("concat", "sum", "mul", "ave")):
        case(f"Bidirectional {name} {merge}", lambda n=name, m=merge: layers.Bidirectional(getattr(layers, n)(4, return_sequences=True), merge_mode=m), SEQUENCE)
    for name in ("LSTM", "GRU"):
        case(f"{name} masked", lambda n=name: tf.keras.Sequential([layers.Masking(), getattr(layers, n)(4)]), SEQUENCE)
        case(f"{name} unrolled", lambda n=name: getattr(layers, n)(4, unroll=True), SEQUENCE)
        case(f"{name} relu", lambda n=name: getattr(layers, n)(4, activation="relu", recurrent_activation="hard_sigmoid"), SEQUENCE)
        case(f"{name} two", lambda n=name: tf.keras.Sequential([getattr(layers, n)(4, return_sequences=True), getattr(layers, n)(3)]), SEQUENCE)
    case("GRU reset_after", lambda: layers.GRU(4, reset_after=False), SEQUENCE)
    case("LSTM without bias", lambda: layers.LSTM(4, use_bias=False), SEQUENCE)
    case("ConvLSTM1D", lambda: layers.ConvLSTM1D(3, 2), (4, 6, 2))
    case("ConvLSTM2D", lambda: layers.ConvLSTM2D(3, 2), (4, 5, 6, 2))
    case("TimeDistributed", lambda: layers.TimeDistributed(layers.Dense(3)), SEQUENCE)
    case("StackedRNNCells", lambda: layers.RNN([layers.GRUCell(4), layers.LSTMCell(3)]), SEQUENCE)


def attention():
    case("Attention", lambda: lambda q, k: layers.Attention()([q, k]), SEQUENCE, (4, 5))
    case("Attention scaled", lambda: lambda q, k: layers.Attention(use_scale=True)([q, k]), SEQUENCE, (4, 5))
    case("AdditiveAttention", lambda: lambda q, k: layers.AdditiveAttention()([q, k]), SEQUENCE, (4, 5))
    case("MultiHeadAttention", lambda: lambda q, k: layers.MultiHeadAttention(2, 4)(q, k), SEQUENCE, (4, 5))
    case("MultiHeadAttention causal", lambda: lambda q: layers.MultiHeadAttention(2, 4)(q, q, use_causal_mask=True), SEQUENCE)
    case("GroupQueryAttention", lambda: lambda q, k: layers.GroupQueryAttention(4, 4, 2)(q, k), SEQUENCE, (4, 5))


def applications():
    small = {"weights": None, "include_top": True, "classes": 5}
    for name, size in (("MobileNet", 64), ("MobileNetV2", 64), ("MobileNetV3Small", 64)):
        case(f"applications.{name}", lambda n=name, s=size: getattr(tf.keras.applications, n)(input_shape=(s, s, 3), **small), (size, size, 3))


for family in (simple, spatial, recurrent, attention, applications):
    family()


def names():
    return list(CASES)


def make(name):
    import tf2onnx

    tf.keras.utils.set_random_seed(cases.seed_of(name) % 1000)
    build, sizes = CASES[name]
    made = build()
    inputs = [tf.keras.Input(shape, name=f"x{i}") for i, shape in enumerate(sizes)]
    if isinstance(made, layers.Layer):
        outputs = made(inputs if len(inputs) > 1 else inputs[0])
    else:
        outputs = made(*inputs)
    network = tf.keras.Model(inputs, outputs)
    rng = np.random.default_rng(cases.seed_of(name))
    network.set_weights([weight + 0.1 * rng.random(weight.shape).astype(weight.dtype) for weight in network.get_weights()])
    signature = [tf.TensorSpec((None, *shape), tf.float32, name=f"x{i}") for i, shape in enumerate(sizes)]
    function = tf.function(lambda *x: network(list(x) if len(x) > 1 else x[0], training=False), input_signature=signature, autograph=False)
    model, _ = tf2onnx.convert.from_function(function, input_signature=signature, opset=13 + cases.seed_of(name) % 6)
    known = {value.name for value in model.graph.input}
    feeds = [{f"x{i}": rng.standard_normal((batch, *shape)).astype(np.float32) for i, shape in enumerate(sizes) if f"x{i}" in known} for batch in (2, 3)]
    return cases.Case(model.SerializeToString(), feeds)
