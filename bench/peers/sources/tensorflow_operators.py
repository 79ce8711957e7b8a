"""TensorFlow's operators, each in a function of its own, by tf2onnx."""

import itertools

import numpy as np
import tensorflow as tf

import cases

F, D, H, I, L, B = "float32", "float64", "float16", "int32", "int64", "bool"
CASES = {}


def case(name, function, *specs):
    """specs: (type, sizes[, low, high]); a size of None is open and 3 here."""
    CASES[name] = (function, specs)


def unary():
    smooth = "abs acos acosh asin asinh atan atanh ceil cos cosh digamma erf erfinv exp expm1 floor is_finite is_inf is_nan lgamma log log1p log_sigmoid ndtri negative reciprocal reciprocal_no_nan rint round rsqrt sigmoid sign sin sinh softplus sqrt square tan tanh zero_fraction l2_normalize reduce_std reduce_variance reduce_euclidean_norm cumulative_logsumexp softmax log_softmax erfcinv sobol bessel_i0 bessel_i1 xlogy bincount".split()
    for name in smooth:
        function = getattr(tf.math, name, None) or getattr(tf.nn, name, None)
        if function is not None:
            for dtype in (F, D, H):
                case(f"math.{name} {dtype}", function, (dtype, (2, 3, 4), 0.1, 0.9))
            case(f"math.{name} open", function, (F, (None, 4), -0.9, 0.9))
    for name in "relu relu6 elu selu gelu swish leaky_relu softsign softplus crelu l2_loss silu".split():
        function = getattr(tf.nn, name)
        for dtype in (F, D, H):
            case(f"nn.{name} {dtype}", function, (dtype, (2, 3, 4)))
        case(f"nn.{name} open", function, (F, (None, 4)))
    for name in "abs negative sign square reduce_sum reduce_prod reduce_max reduce_min argmax argmin cumsum cumprod bincount".split():
        for dtype in (I, L):
            case(f"math.{name} {dtype}", getattr(tf.math, name), (dtype, (2, 5), 0, 6))


def binary():
    names = "add subtract multiply divide divide_no_nan floordiv floormod truediv mod pow maximum minimum squared_difference atan2 multiply_no_nan xdivy xlogy xlog1py nextafter equal not_equal less less_equal greater greater_equal igamma zeta".split()
    pairs = {"same": ((2, 3), (2, 3)), "broadcast": ((2, 1, 4), (3, 1)), "scalar": ((2, 3), ()), "open": ((None, 3), (None, 3)), "open broadcast": ((None, 3), (3,))}
    for name in names:
        for title, (left, right) in pairs.items():
            case(f"math.{name} {title}", getattr(tf.math, name), (F, left, 0.5, 3), (F, right, 0.5, 3))
        for dtype in (D, I, L):
            case(f"math.{name} {dtype}", getattr(tf.math, name), (dtype, (3, 4), 1, 5), (dtype, (3, 4), 1, 5))
    for name in "logical_and logical_or logical_xor".split():
        for title, (left, right) in pairs.items():
            case(f"math.{name} {title}", getattr(tf.math, name), (B, left), (B, right))
    case("math.logical_not", tf.math.logical_not, (B, (2, 3)))
    for name, dtype in itertools.product("bitwise_and bitwise_or bitwise_xor left_shift right_shift".split(), (I, "uint8", L)):
        case(f"bitwise.{name} {dtype}", getattr(tf.bitwise, name), (dtype, (3, 4), 0, 7), (dtype, (3, 4), 0, 7))


def reductions():
    for name in "sum mean max min prod logsumexp any all std variance euclidean_norm".split():
        function = getattr(tf.math, f"reduce_{name}")
        dtype = B if name in ("any", "all") else F
        for axis, keep in itertools.product((None, 0, -1, (0, 2), [1]), (False, True)):
            case(f"reduce_{name} {axis} {keep}", lambda x, f=function, a=axis, k=keep: f(x, axis=a, keepdims=k), (dtype, (2, 3, 4)))
        case(f"reduce_{name} open", lambda x, f=function: f(x, axis=1), (dtype, (None, 3, 4)))
        case(f"reduce_{name} of a scalar", function, (dtype, ()))
    for name, axis, dtype in itertools.product(("argmax", "argmin"), (0, 1, -1), (F, D, I)):
        case(f"{name} {axis} {dtype}", lambda x, f=getattr(tf, name), a=axis: f(x, axis=a), (dtype, (3, 4, 2), 0, 50))
    for exclusive, reverse in itertools.product((False, True), repeat=2):
        for name in ("cumsum", "cumprod"):
            case(f"{name} {exclusive} {reverse}", lambda x, n=name, e=exclusive, r=reverse: getattr(tf.math, n)(x, axis=1, exclusive=e, reverse=r), (F, (2, 5, 2)))
    for name in "segment_sum segment_mean segment_max segment_min segment_prod".split():
        case(f"math.{name}", lambda x, f=getattr(tf.math, name): f(x, tf.constant([0, 0, 1, 3, 3])), (F, (5, 3)))
    for name in "unsorted_segment_sum unsorted_segment_max unsorted_segment_min unsorted_segment_prod unsorted_segment_mean unsorted_segment_sqrt_n".split():
        case(f"math.{name}", lambda x, i, f=getattr(tf.math, name): f(x, i, 4), (F, (5, 3)), (I, (5,), 0, 4))


def shapes():
    x = (F, (2, 3, 4))
    case("reshape", lambda t: tf.reshape(t, [4, -1]), x)
    case("reshape open", lambda t: tf.reshape(t, [tf.shape(t)[0], -1]), (F, (None, 3, 4)))
    case("transpose", lambda t: tf.transpose(t, [2, 0, 1]), x)
    case("transpose by input", tf.transpose, x)
    case("expand_dims", lambda t: tf.expand_dims(t, 1), x)
    case("squeeze", tf.squeeze, (F, (2, 1, 3, 1)))
    case("tile", lambda t: tf.tile(t, [1, 2, 3]), x)
    case("tile by input", tf.tile, (F, (2, 3)), (I, (2,), 1, 4))
    case("broadcast_to", lambda t: tf.broadcast_to(t, [5, 2, 3, 4]), x)
    case("broadcast_to by input", lambda t, s: tf.broadcast_to(t, tf.shape(s)), (F, (1, 3)), (F, (None, 3)))
    case("broadcast_dynamic_shape", lambda a, b: tf.broadcast_dynamic_shape(tf.shape(a), tf.shape(b)), (F, (None, 1, 3)), (F, (4, 1)))
    case("concat", lambda a, b: tf.concat([a, b], 1), x, (F, (2, 5, 4)))
    case("concat open", lambda a, b: tf.concat([a, b], 0), (F, (None, 3)), (F, (None, 3)))
    case("stack", lambda a, b: tf.stack([a, b], 1), x, x)
    case("unstack", lambda t: tuple(tf.unstack(t, axis=1)), x)
    case("split", lambda t: tuple(tf.split(t, 2, 2)), x)
    case("split uneven", lambda t: tuple(tf.split(t, [1, 3], 2)), x)
    for mode in ("CONSTANT", "REFLECT", "SYMMETRIC"):
        case(f"pad {mode}", lambda t, m=mode: tf.pad(t, [[1, 1], [0, 2], [1, 0]], m), x)
    case("pad by input", tf.pad, (F, (2, 3)), (I, (2, 2), 0, 3))
    case("reverse", lambda t: tf.reverse(t, [0, 2]), x)
    case("reverse_sequence", lambda t, n: tf.reverse_sequence(t, n, seq_axis=1, batch_axis=0), x, (I, (2,), 1, 4))
    case("roll", lambda t: tf.roll(t, [1, -2], [0, 2]), x)
    case("rot90", tf.image.rot90, (F, (3, 4, 2)))
    case("space_to_depth", lambda t: tf.nn.space_to_depth(t, 2), (F, (2, 4, 6, 3)))
    case("depth_to_space", lambda t: tf.nn.depth_to_space(t, 2), (F, (2, 2, 3, 8)))
    case("space_to_batch", lambda t: tf.space_to_batch(t, [2, 2], [[0, 0], [1, 1]]), (F, (2, 4, 6, 3)))
    case("batch_to_space", lambda t: tf.batch_to_space(t, [2, 2], [[0, 0], [1, 1]]), (F, (8, 2, 3, 3)))
    case("strided_slice", lambda t: t[:, ::2, -1], x)
    case("strided_slice new axis", lambda t: t[:, None, 1:, ..., ::-1], x)
    case("strided_slice of computed ends", lambda t, n: t[:, : n[0], n[1] :], x, (I, (2,), 1, 3))
    case("slice", lambda t: tf.slice(t, [0, 1, 0], [-1, 2, 3]), x)
    case("slice by input", tf.slice, x, (I, (3,), 0, 1), (I, (3,), 1, 3))
    case("shape", tf.shape, (F, (None, None, 4)))
    case("size", tf.size, (F, (None, 4)))
    case("rank", tf.rank, x)
    case("range", lambda n: tf.range(n), (I, (), 3, 9))
    case("range of floats", lambda a, b, s: tf.range(a, b, s), (F, (), 0, 1), (F, (), 4, 9), (F, (), 0.5, 1))
    case("linspace", lambda a, b: tf.linspace(a, b, 7), (F, ()), (F, ()))
    case("fill", lambda n, v: tf.fill(n, v), (I, (2,), 1, 5), (F, ()))
    case("zeros_like", tf.zeros_like, (F, (None, 3)))
    case("ones_like", tf.ones_like, (I, (None, 3)))
    case("eye", lambda n: tf.eye(n), (I, (), 2, 6))
    case("one_hot", lambda i: tf.one_hot(i, 5), (I, (2, 3), 0, 6))
    case("one_hot axis 0", lambda i: tf.one_hot(i, 5, 2.0, -1.0, axis=0), (L, (2, 3), -1, 6))
    case("meshgrid", lambda a, b: tuple(tf.meshgrid(a, b)), (F, (3,)), (F, (4,)))
    case("sequence_mask", lambda n: tf.sequence_mask(n, 6), (I, (4,), 0, 7))
    case("sequence_mask open", lambda n: tf.sequence_mask(n, dtype=tf.float32), (I, (4,), 0, 7))


def choosing():
    x = (F, (4, 5, 3))
    for axis in (0, 1, -1):
        case(f"gather {axis}", lambda t, i, a=axis: tf.gather(t, i, axis=a), x, (I, (2, 2), 0, 3))
    case("gather batch_dims", lambda t, i: tf.gather(t, i, axis=1, batch_dims=1), x, (I, (4, 2), 0, 5))
    case("gather_nd", tf.gather_nd, x, (I, (6, 2), 0, 4))
    case("gather_nd batch_dims", lambda t, i: tf.gather_nd(t, i, batch_dims=1), x, (I, (4, 2, 1), 0, 5))
    case("scatter_nd", lambda i, u: tf.scatter_nd(i, u, [6, 3]), (I, (4, 1), 0, 6), (F, (4, 3)))
    for name in ("update", "add", "sub", "min", "max"):
        case(f"tensor_scatter_nd_{name}", getattr(tf, f"tensor_scatter_nd_{name}"), (F, (6, 3)), (I, (3, 1), 0, 6), (F, (3, 3)))
    case("where", lambda c, a, b: tf.where(c, a, b), (B, (4, 1)), (F, (4, 3)), (F, (3,)))
    case("where alone", tf.where, (B, (4, 3)))
    case("where alone of floats", lambda t: tf.where(t > 0), (F, (None, 3)))
    case("boolean_mask", tf.boolean_mask, x, (B, (4,)))
    case("boolean_mask of two axes", tf.boolean_mask, x, (B, (4, 5)))
    case("boolean_mask open", tf.boolean_mask, (F, (None, 3)), (B, (None,)))
    case("two boolean_masks", lambda t, a, b: (tf.boolean_mask(t, a), tf.boolean_mask(t, b)), x, (B, (4,)), (B, (4,)))
    case("dynamic_partition", lambda t, p: tuple(tf.dynamic_partition(t, p, 3)), (F, (6, 2)), (I, (6,), 0, 3))
    case("dynamic_stitch", lambda a, b: tf.dynamic_stitch([[0, 2], [1, 3]], [a, b]), (F, (2, 3)), (F, (2, 3)))
    case("top_k", lambda t: tuple(tf.math.top_k(t, 2)), x)
    case("top_k of computed k", lambda t, k: tuple(tf.math.top_k(t, k)), x, (I, (), 1, 3))
    case("in_top_k", lambda t, p: tf.math.in_top_k(t, p, 2), (I, (4,), 0, 5), (F, (4, 5)))
    for direction in ("ASCENDING", "DESCENDING"):
        case(f"sort {direction}", lambda t, d=direction: tf.sort(t, direction=d), x)
        case(f"argsort {direction}", lambda t, d=direction: tf.argsort(t, direction=d), x)
    case("unique", lambda t: tuple(tf.unique(t)), (I, (9,), 0, 5))
    case("unique_with_counts", lambda t: tuple(tf.unique_with_counts(t)), (I, (9,), 0, 5))
    case("bincount", lambda t: tf.math.bincount(t, minlength=8, maxlength=8), (I, (9,), 0, 8))
    case("bincount open", tf.math.bincount, (I, (9,), 0, 8))
    case("bincount weights", lambda t, w: tf.math.bincount(t, w), (I, (9,), 0, 8), (F, (9,)))
    case("histogram_fixed_width", lambda t: tf.histogram_fixed_width(t, [-2.0, 2.0], 5), (F, (20,)))
    case("searchsorted", lambda a, v: tf.searchsorted(tf.sort(a), v), (F, (9,)), (F, (4,)))
    case("confusion_matrix", lambda a, b: tf.math.confusion_matrix(a, b, 4), (I, (9,), 0, 4), (I, (9,), 0, 4))
    case("invert_permutation", lambda t: tf.math.invert_permutation(tf.argsort(t)), (F, (6,)))
    case("clip_by_value", lambda t: tf.clip_by_value(t, -0.5, 0.5), x)
    case("clip_by_norm", lambda t: tf.clip_by_norm(t, 0.7), x)
    case("ragged to dense", lambda v, n: tf.RaggedTensor.from_row_lengths(v, n).to_tensor(), (F, (6,)), (I, (3,), 2, 3))
    case("sparse to dense", lambda v: tf.sparse.to_dense(tf.SparseTensor([[0, 1], [2, 3]], v, [3, 4])), (F, (2,)))
    case("non_max_suppression", lambda b, s: tf.image.non_max_suppression(tf.sort(b, axis=-1), s, 4, 0.5), (F, (9, 4), 0, 1), (F, (9,), 0, 1))
    case("non_max_suppression, two", two_suppressions, (F, (9, 4), 0, 1), (F, (9,), 0, 1))


def two_suppressions(boxes, scores):
    boxes = tf.sort(boxes, axis=-1)
    first = tf.image.non_max_suppression(boxes, scores, 8, 0.3)
    second = tf.image.non_max_suppression(boxes, -scores, 8, 0.6)
    return tf.gather(boxes, first), tf.gather(boxes, second)


def linear_algebra():
    for transpose_a, transpose_b in itertools.product((False, True), repeat=2):
        shapes_of = [(3, 4), (4, 5)]
        left = tuple(reversed(shapes_of[0])) if transpose_a else shapes_of[0]
        right = tuple(reversed(shapes_of[1])) if transpose_b else shapes_of[1]
        for dtype in (F, D, I):
            case(f"matmul {transpose_a} {transpose_b} {dtype}", lambda a, b, s=transpose_a, t=transpose_b: tf.matmul(a, b, s, t), (dtype, left, 0, 4), (dtype, right, 0, 4))
    case("matmul batched", tf.matmul, (F, (2, 1, 3, 4)), (F, (5, 4, 2)))
    case("matmul open", tf.matmul, (F, (None, 3, 4)), (F, (None, 4, 2)))
    case("matvec", tf.linalg.matvec, (F, (3, 4)), (F, (4,)))
    case("tensordot", lambda a, b: tf.tensordot(a, b, [[1], [0]]), (F, (3, 4, 2)), (F, (4, 5)))
    case("tensordot open", lambda a, b: tf.tensordot(a, b, 1), (F, (None, 4, 3)), (F, (3, 5)))
    for equation, left, right in [("ij,jk->ik", (2, 3), (3, 4)), ("bij,bjk->bik", (2, 2, 3), (2, 3, 4)), ("bhid,bhjd->bhij", (2, 2, 3, 4), (2, 2, 5, 4)), ("ij,ij->", (2, 3), (2, 3)), ("i,j->ij", (2,), (3,))]:
        case(f"einsum {equation}", lambda a, b, e=equation: tf.einsum(e, a, b), (F, left), (F, right))
    case("band_part", lambda t: tf.linalg.band_part(t, 1, 0), (F, (2, 4, 5)))
    case("band_part all below", lambda t: tf.linalg.band_part(t, -1, 0), (F, (4, 4)))
    for name in "diag diag_part trace adjoint norm matrix_transpose".split():
        case(f"linalg.{name}", getattr(tf.linalg, name), (F, (3, 3)))
    case("linalg.diag k", lambda t: tf.linalg.diag(t, k=1), (F, (2, 3)))
    case("linalg.diag two", lambda t: tf.linalg.diag(t, k=(-1, 0)), (F, (2, 2, 3)))
    case("linalg.diag_part k", lambda t: tf.linalg.diag_part(t, k=1), (F, (3, 4)))
    case("linalg.set_diag", tf.linalg.set_diag, (F, (3, 3)), (F, (3,)))
    case("linalg.cross", tf.linalg.cross, (F, (4, 3)), (F, (4, 3)))
    case("linalg.det", tf.linalg.det, (F, (2, 3, 3)))


def networks():
    for padding, stride, dilation in itertools.product(("SAME", "VALID"), (1, 2), (1, 2)):
        if stride == 1 or dilation == 1:
            title = f"{padding} {stride} {dilation}"
            case(f"conv1d {title}", lambda x, w, p=padding, s=stride, d=dilation: tf.nn.conv1d(x, w, s, p, dilations=d), (F, (2, 9, 3)), (F, (3, 3, 4)))
            case(f"conv2d {title}", lambda x, w, p=padding, s=stride, d=dilation: tf.nn.conv2d(x, w, s, p, dilations=d), (F, (2, 9, 8, 3)), (F, (3, 2, 3, 4)))
            case(f"conv3d {title}", lambda x, w, p=padding, s=stride: tf.nn.conv3d(x, w, [1, s, s, s, 1], p), (F, (1, 6, 5, 4, 2)), (F, (2, 2, 2, 2, 3)))
            case(f"depthwise_conv2d {title}", lambda x, w, p=padding, s=stride, d=dilation: tf.nn.depthwise_conv2d(x, w, [1, s, s, 1], p, dilations=[d, d]), (F, (2, 9, 8, 3)), (F, (3, 3, 3, 2)))
            case(f"pool max {title}", lambda x, p=padding, s=stride, d=dilation: tf.nn.pool(x, [2, 2], "MAX", [s, s], p, dilations=[d, d]), (F, (2, 9, 8, 3)))
            case(f"pool avg {title}", lambda x, p=padding, s=stride: tf.nn.avg_pool2d(x, 3, s, p), (F, (2, 9, 8, 3)))
            case(f"conv2d open {title}", lambda x, w, p=padding, s=stride, d=dilation: tf.nn.conv2d(x, w, s, p, dilations=d), (F, (None, None, None, 3)), (F, (2, 2, 3, 4)))
    case("conv2d_transpose", lambda x, w: tf.nn.conv2d_transpose(x, w, [2, 10, 8, 3], 2, "SAME"), (F, (2, 5, 4, 4)), (F, (3, 3, 3, 4)))
    case("max_pool3d", lambda x: tf.nn.max_pool3d(x, 2, 2, "SAME"), (F, (1, 5, 6, 7, 2)))
    case("max_pool_with_argmax", lambda x: tuple(tf.nn.max_pool_with_argmax(x, 2, 2, "VALID")), (F, (1, 4, 6, 2)))
    case("dilation2d", lambda x, w: tf.nn.dilation2d(x, w, [1, 1, 1, 1], "VALID", "NHWC", [1, 1, 1, 1]), (F, (1, 5, 5, 2)), (F, (2, 2, 2)))
    case("bias_add", tf.nn.bias_add, (F, (2, 4, 5, 3)), (F, (3,)))
    case("bias_add NCHW", lambda x, b: tf.nn.bias_add(x, b, "NC.."), (F, (2, 3, 4, 5)), (F, (3,)))
    case("batch_normalization", lambda x, m, v: tf.nn.batch_normalization(x, m, v, 0.1, 1.5, 1e-3), (F, (2, 4, 3)), (F, (3,)), (F, (3,), 0.5, 1))
    case("moments", lambda x: tuple(tf.nn.moments(x, [0, 1])), (F, (2, 4, 3)))
    case("lrn", lambda x: tf.nn.local_response_normalization(x, 2), (F, (2, 4, 4, 6)))
    case("softmax_cross_entropy", tf.nn.softmax_cross_entropy_with_logits, (F, (3, 5), 0, 1), (F, (3, 5)))
    case("sparse_softmax_cross_entropy", tf.nn.sparse_softmax_cross_entropy_with_logits, (I, (3,), 0, 5), (F, (3, 5)))
    case("sigmoid_cross_entropy", tf.nn.sigmoid_cross_entropy_with_logits, (F, (3, 5), 0, 1), (F, (3, 5)))
    case("embedding_lookup", tf.nn.embedding_lookup, (F, (9, 4)), (I, (2, 3), 0, 9))
    for method, half, antialias in itertools.product(("bilinear", "nearest", "bicubic", "area", "lanczos3", "mitchellcubic"), (False, True), (False,)):
        case(f"image.resize {method} {half}", lambda x, m=method, h=half: tf.image.resize(x, [7, 9] if h else [2, 3], m), (F, (1, 4, 5, 2)))
    case("image.resize open", lambda x: tf.image.resize(x, 2 * tf.shape(x)[1:3]), (F, (1, None, None, 2)))
    case("crop_and_resize", lambda x, b: tf.image.crop_and_resize(x, tf.sort(b), [0, 0, 1], [3, 3]), (F, (2, 8, 9, 2)), (F, (3, 4), 0, 1))
    for name in "flip_left_right flip_up_down transpose rgb_to_grayscale rgb_to_hsv hsv_to_rgb per_image_standardization rgb_to_yuv sobel_edges".split():
        case(f"image.{name}", getattr(tf.image, name), (F, (2, 5, 4, 3), 0, 1))
    case("image.adjust_contrast", lambda x: tf.image.adjust_contrast(x, 1.5), (F, (2, 5, 4, 3)))
    case("image.central_crop", lambda x: tf.image.central_crop(x, 0.5), (F, (6, 8, 3)))
    case("image.extract_patches", lambda x: tf.image.extract_patches(x, [1, 2, 2, 1], [1, 2, 2, 1], [1, 1, 1, 1], "VALID"), (F, (1, 6, 6, 2)))
    case("image.ssim", lambda a, b: tf.image.ssim(a, b, 1.0), (F, (1, 16, 16, 1), 0, 1), (F, (1, 16, 16, 1), 0, 1))
    case("image.psnr", lambda a, b: tf.image.psnr(a, b, 1.0), (F, (1, 8, 8, 3), 0, 1), (F, (1, 8, 8, 3), 0, 1))
    for name in "rfft fft rfft2d irfft".split():
        case(f"signal.{name}", lambda x, n=name: tf.abs(getattr(tf.signal, n)(tf.cast(x, tf.complex64) if n in ("fft", "irfft") else x)), (F, (2, 8)))
    case("signal.frame", lambda x: tf.signal.frame(x, 4, 2), (F, (2, 12)))
    case("signal.stft", lambda x: tf.abs(tf.signal.stft(x, 8, 4)), (F, (1, 32)))


def conversions():
    kinds = (F, D, H, I, L, B, "uint8", "int8")
    for before, after in itertools.product(kinds, kinds):
        if before != after:
            case(f"cast {before} {after}", lambda x, t=after: tf.cast(x, t), (before, (3, 4), 0, 5))
    case("saturate_cast", lambda x: tf.saturate_cast(x, tf.uint8), (F, (3, 4), -300, 600))
    case("quantize", lambda x: tf.quantization.fake_quant_with_min_max_args(x, -3, 3), (F, (3, 4)))
    case("quantize per channel", lambda x: tf.quantization.fake_quant_with_min_max_vars_per_channel(x, [-1.0] * 4, [2.0] * 4), (F, (3, 4)))


@tf.function
def power(x, n):
    result, i = x, 0
    while i < n:
        result, i = result * x, i + 1
    return result


@tf.function
def branch(x):
    return x * 2 if tf.reduce_sum(x) > 0 else x - 1


def control():
    case("while_loop", power, (F, (3,)), (I, (), 1, 5))
    case("cond", branch, (F, (3,)))
    case("cond nested", lambda x, y: tf.cond(x[0] > 0, lambda: branch(y), lambda: x), (F, (3,)), (F, (3,)))
    case("map_fn", lambda x: tf.map_fn(lambda row: tf.reduce_sum(row) * row, x), (F, (4, 3)))
    case("scan", lambda x: tf.scan(lambda a, b: a * 0.5 + b, x), (F, (5, 3)))
    case("foldl", lambda x: tf.foldl(lambda a, b: a * 0.5 + b, x), (F, (5, 3)))
    case("tensor array", tensor_array, (F, (4, 3)))
    case("case", lambda n, x: tf.switch_case(n, [lambda: x, lambda: -x, lambda: x * x]), (I, (), 0, 3), (F, (3,)))
    case("vectorized_map", lambda x: tf.vectorized_map(lambda row: row / tf.norm(row), x), (F, (4, 3)))


def tensor_array(x):
    array = tf.TensorArray(tf.float32, size=4)
    for i in tf.range(4):
        array = array.write(i, x[i] * tf.cast(i, tf.float32))
    return array.stack()


for family in (unary, binary, reductions, shapes, choosing, linear_algebra, networks, conversions, control):
    family()


def names():
    return list(CASES)


def values(spec, rng):
    dtype, sizes, *bounds = spec
    sizes = [3 if size is None else size for size in sizes]
    if dtype == "bool":
        return rng.random(sizes) < 0.5
    kind = np.dtype(dtype)
    if kind.kind == "f":
        return np.asarray(rng.uniform(*bounds, sizes) if bounds else rng.standard_normal(sizes), kind)
    low, high = bounds or (-5, 6)
    return np.asarray(rng.integers(int(low), max(int(np.ceil(high)), int(low) + 1), sizes), kind)


def make(name):
    import tf2onnx

    function, specs = CASES[name]
    signature = [tf.TensorSpec(spec[1], spec[0], name=f"x{i}") for i, spec in enumerate(specs)]
    opset = 13 + cases.seed_of(name) % 6
    wrapped = tf.function(function, input_signature=signature, autograph=name.startswith(("tensor array",)))
    model, _ = tf2onnx.convert.from_function(wrapped, input_signature=signature, opset=opset)
    rng = np.random.default_rng(cases.seed_of(name))
    feeds = {f"x{i}": values(spec, rng) for i, spec in enumerate(specs)}
    known = {value.name for value in model.graph.input}
    return cases.Case(model.SerializeToString(), [{key: value for key, value in feeds.items() if key in known}])
