"""Small models, one for each clean-up."""

import dataclasses


@dataclasses.dataclass
class Case:
    name: str
    graph: str
    of: str = "both"  # who publishes it: onnxoptimizer, onnxsim or both
    passes: str = ""  # of onnxoptimizer; empty: the one of this name
    opset: int = 13
    reason: str = ""  # why another leaves less

    def __post_init__(self):
        self.passes = self.passes or self.name


X = "agraph (float[2, 3, 8, 8] x) => "

CASES = [
    Case("eliminate_deadend", "agraph (float[2, 3] x) => (float[2, 3] y) { dead = Exp(x)\n y = Relu(x) }"),
    Case("eliminate_identity", "agraph (float[2, 3] x) => (float[2, 3] y) { a = Identity(x)\n b = Relu(a)\n y = Identity(b) }"),
    Case("eliminate_unused_initializer", "agraph (float[3] x) => (float[3] y) <float[3] w = {1, 2, 3}, float[3] unused = {4, 5, 6}> { y = Add(x, w) }"),
    Case("eliminate_duplicate_initializer", "agraph (float[3] x) => (float[3] y) <float[3] w = {1, 2, 3}, float[3] v = {1, 2, 3}> { a = Mul(x, w)\n b = Exp(a)\n y = Mul(b, v) }"),
    Case("extract_constant_to_initializer", "agraph (float[3] x) => (float[3] y) { w = Constant <value = float[3] {1, 2, 3}> ()\n y = Add(x, w) }"),
    Case("eliminate_common_subexpression", "agraph (float[2, 3] x) => (float[2, 3] y) { a = Exp(x)\n b = Exp(x)\n c = Tanh(a)\n d = Tanh(b)\n y = Mul(c, d) }"),
    Case("eliminate_if_with_const_cond", "agraph (float[3] x) => (float[3] y) { c = Constant <value = bool {1}> ()\n y = If (c) <then_branch = t () => (float[3] a) { a = Exp(x) }, else_branch = e () => (float[3] b) { b = Neg(x) }> }"),
    Case("eliminate_nop_cast", "agraph (float[3] x) => (float[3] y) { a = Cast <to = 1> (x)\n y = Relu(a) }"),
    Case("eliminate_nop_dropout", "agraph (float[3] x) => (float[3] y) <float r = {0.5}> { a = Dropout (x, r)\n y = Relu(a) }"),
    Case("eliminate_nop_flatten", "agraph (float[2, 3] x) => (float[2, 3] y) { a = Flatten <axis = 1> (x)\n y = Relu(a) }"),
    Case("eliminate_nop_reshape", "agraph (float[2, 3] x) => (float[2, 3] y) <int64[2] s = {2, 3}> { a = Reshape (x, s)\n y = Relu(a) }"),
    Case("eliminate_nop_pad", "agraph (float[2, 3] x) => (float[2, 3] y) <int64[4] p = {0, 0, 0, 0}> { a = Pad (x, p)\n y = Relu(a) }"),
    Case("eliminate_nop_concat", "agraph (float[2, 3] x) => (float[2, 3] y) { a = Concat <axis = 0> (x)\n y = Relu(a) }"),
    Case("eliminate_nop_split", "agraph (float[2, 3] x) => (float[2, 3] y) <int64[1] s = {2}> { a = Split <axis = 0> (x, s)\n y = Relu(a) }"),
    Case("eliminate_nop_expand", "agraph (float[2, 3] x) => (float[2, 3] y) <int64[2] s = {1, 3}> { a = Expand (x, s)\n y = Relu(a) }"),
    Case("eliminate_nop_transpose", "agraph (float[2, 3] x) => (float[2, 3] y) { a = Transpose <perm = [0, 1]> (x)\n y = Relu(a) }"),
    Case("eliminate_nop_monotone_argmax", "agraph (float[2, 3] x) => (int64[2, 1] y) { a = Softmax <axis = 1> (x)\n y = ArgMax <axis = 1> (a) }", reason="rounding makes elements equal that were not, and then the largest one is another"),
    Case("eliminate_nop_monotone_argmax (Log)", "agraph (float[2, 3] x) => (int64[2, 1] y) { s = Sigmoid(x)\n a = Log(s)\n y = ArgMax <axis = 1> (a) }", passes="eliminate_nop_monotone_argmax", reason="as above"),
    Case("eliminate_nop_with_unit (Add)", "agraph (float[2, 3] x) => (float[2, 3] y) <float[3] z = {0, 0, 0}> { a = Add (x, z)\n y = Relu(a) }", passes="eliminate_nop_with_unit"),
    Case("eliminate_nop_with_unit (Mul)", "agraph (float[2, 3] x) => (float[2, 3] y) <float o = {1}> { a = Mul (o, x)\n y = Relu(a) }", passes="eliminate_nop_with_unit"),
    Case("eliminate_nop_with_unit (Sub)", "agraph (float[2, 3] x) => (float[2, 3] y) <float z = {0}> { a = Sub (x, z)\n y = Relu(a) }", passes="eliminate_nop_with_unit"),
    Case("eliminate_nop_with_unit (Div)", "agraph (float[2, 3] x) => (float[2, 3] y) <float o = {1}> { a = Div (x, o)\n y = Relu(a) }", passes="eliminate_nop_with_unit"),
    Case("eliminate_nop_with_unit (Pow)", "agraph (float[2, 3] x) => (float[2, 3] y) <float o = {1}> { a = Pow (x, o)\n y = Relu(a) }", passes="eliminate_nop_with_unit"),
    Case("eliminate_nop_with_unit (And)", "agraph (bool[2, 3] x) => (bool[2, 3] y) <bool o = {1}> { a = And (x, o)\n y = Not(a) }", passes="eliminate_nop_with_unit"),
    Case("eliminate_nop_with_unit (Or)", "agraph (bool[2, 3] x) => (bool[2, 3] y) <bool o = {0}> { a = Or (x, o)\n y = Not(a) }", passes="eliminate_nop_with_unit"),
    Case("eliminate_nop_with_unit (Concat)", "agraph (float[2, 3] x) => (float[2, 3] y) <float[0, 3] e = {}> { a = Concat <axis = 0> (x, e)\n y = Relu(a) }", passes="eliminate_nop_with_unit"),
    Case("eliminate_consecutive_idempotent_ops (Relu)", "agraph (float[2, 3] x) => (float[2, 3] y) { a = Relu(x)\n y = Relu(a) }", passes="eliminate_consecutive_idempotent_ops"),
    Case("eliminate_consecutive_idempotent_ops (Ceil)", "agraph (float[2, 3] x) => (float[2, 3] y) { a = Ceil(x)\n y = Ceil(a) }", passes="eliminate_consecutive_idempotent_ops"),
    Case("eliminate_consecutive_idempotent_ops (Floor)", "agraph (float[2, 3] x) => (float[2, 3] y) { a = Floor(x)\n y = Floor(a) }", passes="eliminate_consecutive_idempotent_ops"),
    Case("eliminate_consecutive_idempotent_ops (Round)", "agraph (float[2, 3] x) => (float[2, 3] y) { a = Round(x)\n y = Round(a) }", passes="eliminate_consecutive_idempotent_ops"),
    Case("eliminate_consecutive_idempotent_ops (Reshape)", "agraph (float[2, 3] x) => (float[3, 2] y) <int64[1] s = {6}, int64[2] t = {3, 2}> { a = Reshape(x, s)\n y = Reshape(a, t) }", passes="eliminate_consecutive_idempotent_ops"),
    Case("eliminate_shape_op", "agraph (float[2, 3] x) => (int64[2] y) { y = Shape(x) }"),
    Case("eliminate_shape_gather", "agraph (float[N, 3] x) => (int64[1] y) <int64[1] i = {1}> { s = Shape(x)\n y = Gather <axis = 0> (s, i) }"),
    Case("eliminate_slice_after_shape", "agraph (float[N, 3, 4] x) => (int64[2] y) <int64[1] b = {1}, int64[1] e = {3}> { s = Shape(x)\n y = Slice (s, b, e) }"),
    Case("fuse_concat_into_reshape", "agraph (float[N, 3, 4] x) => (float[N, 12] y) <int64 i = {0}, int64[1] m = {-1}, int64[1] z = {0}> { s = Shape(x)\n n = Gather <axis = 0> (s, i)\n u = Unsqueeze (n, z)\n t = Concat <axis = 0> (u, m)\n y = Reshape (x, t) }"),
    Case("fuse_add_bias_into_conv", X + "(float[2, 2, 8, 8] y) <float[2, 3, 1, 1] w = {1, 2, 3, 4, 5, 6}, float[2, 1, 1] b = {1, 2}> { a = Conv (x, w)\n y = Add(a, b) }"),
    Case("fuse_bn_into_conv", X + "(float[2, 2, 8, 8] y) <float[2, 3, 1, 1] w = {1, 2, 3, 4, 5, 6}, float[2] s = {1, 2}, float[2] b = {3, 4}, float[2] m = {1, 3}, float[2] v = {1, 2}> { a = Conv (x, w)\n y = BatchNormalization(a, s, b, m, v) }"),
    Case("fuse_pad_into_conv", X + "(float[2, 2, 8, 8] y) <float[2, 3, 3, 3] w = {" + ", ".join(str(i % 5) for i in range(54)) + "}, int64[8] p = {0, 0, 1, 1, 0, 0, 1, 1}> { a = Pad (x, p)\n y = Conv(a, w) }"),
    Case("fuse_pad_into_pool", X + "(float[2, 3, 8, 8] y) <int64[8] p = {0, 0, 1, 1, 0, 0, 1, 1}> { a = Pad (x, p)\n y = AveragePool <kernel_shape = [3, 3], count_include_pad = 1> (a) }"),
    Case("fuse_pad_into_pool (MaxPool)", X + "(float[2, 3, 8, 8] y) <int64[8] p = {0, 0, 1, 1, 0, 0, 1, 1}, float lowest = {-inf}> { a = Pad (x, p, lowest)\n y = MaxPool <kernel_shape = [3, 3]> (a) }", passes="fuse_pad_into_pool", reason="the prover has no infinities"),
    Case("fuse_consecutive_concats", "agraph (float[2, 3] x, float[2, 3] z, float[1, 3] u) => (float[5, 3] y) { a = Concat <axis = 0> (x, z)\n y = Concat <axis = 0> (a, u) }"),
    Case("fuse_consecutive_log_softmax", "agraph (float[2, 3] x) => (float[2, 3] y) { a = Softmax <axis = 1> (x)\n y = Log(a) }"),
    Case("fuse_consecutive_reduce_unsqueeze", "agraph (float[2, 3] x) => (float[2, 1] y) <int64[1] z = {1}> { a = ReduceSum <keepdims = 0> (x, z)\n y = Unsqueeze(a, z) }"),
    Case("fuse_consecutive_squeezes", "agraph (float[2, 1, 3, 1] x) => (float[2, 3] y) <int64[1] a1 = {1}, int64[1] a2 = {2}> { a = Squeeze (x, a1)\n y = Squeeze(a, a2) }"),
    Case("fuse_consecutive_unsqueezes", "agraph (float[2, 3] x) => (float[2, 1, 3, 1] y) <int64[1] a1 = {1}, int64[1] a2 = {3}> { a = Unsqueeze (x, a1)\n y = Unsqueeze(a, a2) }"),
    Case("fuse_consecutive_transposes", "agraph (float[2, 3, 4] x) => (float[3, 4, 2] y) { a = Transpose <perm = [2, 0, 1]> (x)\n y = Transpose <perm = [2, 0, 1]> (a) }"),
    Case("fuse_consecutive_slices", "agraph (float[8, 8] x) => (float[4, 4] y) <int64[1] b = {0}, int64[1] e = {4}, int64[1] r = {0}, int64[1] c = {1}> { a = Slice (x, b, e, r)\n y = Slice(a, b, e, c) }"),
    Case("fuse_matmul_add_bias_into_gemm", "agraph (float[2, 3] x) => (float[2, 2] y) <float[3, 2] w = {1, 2, 3, 4, 5, 6}, float[2] b = {1, 2}> { a = MatMul (x, w)\n y = Add(a, b) }"),
    Case("fuse_transpose_into_gemm", "agraph (float[3, 2] x, float[3, 4] w, float[4] b) => (float[2, 4] y) { a = Transpose <perm = [1, 0]> (x)\n y = Gemm(a, w, b) }"),
    Case("replace_einsum_with_matmul", 'agraph (float[2, 3, 4] x, float[2, 4, 5] z) => (float[2, 3, 5] y) { y = Einsum <equation = "bij,bjk->bik"> (x, z) }'),
    Case("fuse_qkv", "agraph (float[2, 4] x) => (float[2, 2] q, float[2, 2] k, float[2, 2] v) <float[4, 2] a = {1, 2, 3, 4, 5, 6, 7, 8}, float[4, 2] b = {8, 7, 6, 5, 4, 3, 2, 1}, float[4, 2] c = {1, 1, 2, 2, 3, 3, 4, 4}> { q = MatMul(x, a)\n k = MatMul(x, b)\n v = MatMul(x, c) }"),
    Case("adjust_add", "agraph (float[2, 3] x) => (float[2, 3] y) <float[3] w = {1, 2, 3}> { y = Add(w, x) }"),
    Case("rewrite_where", "agraph (bool[3] c, float[3] x, float[3] z) => (float[3] y) { n = Not(c)\n y = Where(n, x, z) }"),
    Case("adjust_slice_and_matmul", "agraph (float[1, 4, 3] x) => (float[1, 2, 2] y) <int64[1] b = {0}, int64[1] e = {2}, int64[1] r = {1}, float[3, 2] w = {1, 2, 3, 4, 5, 6}> { a = Slice (x, b, e, r)\n y = MatMul(a, w) }"),
    # onnxsim's own
    Case("constant folding", "agraph (float[3] x) => (float[3] y) <float[3] w = {1, 2, 3}, float[3] v = {4, 5, 6}> { a = Mul(w, v)\n b = Exp(a)\n y = Add(x, b) }", of="onnxsim"),
    Case("shape arithmetic, sizes known", "agraph (float[2, 3, 4] x) => (float[2, 12] y) <int64 i = {0}, int64[1] m = {-1}, int64[1] z = {0}> { s = Shape(x)\n n = Gather <axis = 0> (s, i)\n u = Unsqueeze (n, z)\n t = Concat <axis = 0> (u, m)\n y = Reshape (x, t) }", of="onnxsim"),
    Case("a constant of a shape", "agraph (float[2, 3] x) => (float[2, 3] y) { s = Shape(x)\n z = ConstantOfShape <value = float[1] {2}> (s)\n y = Add(x, z) }", of="onnxsim"),
    Case("eliminate_nop_softmax", "agraph (float[2, 1] x) => (float[2, 1] y) { a = Softmax <axis = 1> (x)\n y = Add(a, x) }", of="onnxsim", reason="where the element is infinite, or no number, so is the result"),
    Case("eliminate_nop_reduce", "agraph (float[2, 1] x) => (float[2, 1] y) <int64[1] z = {1}> { a = ReduceSum <keepdims = 1> (x, z)\n y = Relu(a) }", of="onnxsim"),
    Case("eliminate_reshape_around_elementwise", "agraph (float[2, 3] x) => (float[2, 3] y) <int64[1] s = {6}, int64[2] t = {2, 3}> { a = Reshape(x, s)\n b = Tanh(a)\n y = Reshape(b, t) }", of="onnxsim"),
    Case("eliminate_sequence_at_construct", "agraph (float[2, 3] x, float[2, 3] z) => (float[2, 3] y) <int64 i = {1}> { s = SequenceConstruct(x, z)\n a = SequenceAt(s, i)\n y = Relu(a) }", of="onnxsim"),
    Case("eliminate_sequence_length_construct", "agraph (float[2, 3] x, float[2, 3] z) => (int64 y) { s = SequenceConstruct(x, z)\n y = SequenceLength(s) }", of="onnxsim"),
    Case("eliminate_loop_with_const_trip_count", "agraph (float[3] x) => (float[3] y) <int64 m = {2}, bool c = {1}> { y = Loop (m, c, x) <body = b (int64 i, bool d, float[3] v) => (bool go, float[3] n) { go = Identity(d)\n n = Tanh(v) }> }", of="onnxsim"),
    Case("fuse_consecutive_mul", "agraph (float[3] x) => (float[3] y) <float[3] w = {1, 2, 3}, float[3] v = {4, 5, 6}> { a = Mul(x, w)\n y = Mul(a, v) }", of="onnxsim"),
    Case("fuse_consecutive_reduce", "agraph (float[2, 3, 4] x) => (float[2, 1, 1] y) <int64[1] a1 = {1}, int64[1] a2 = {2}> { a = ReduceSum <keepdims = 1> (x, a1)\n y = ReduceSum <keepdims = 1> (a, a2) }", of="onnxsim"),
    Case("fuse_reshape_family", "agraph (float[2, 3] x) => (float[3, 2] y) <int64[1] z = {0}, int64[2] t = {3, 2}> { a = Unsqueeze(x, z)\n y = Reshape(a, t) }", of="onnxsim"),
    Case("fuse_mul_into_conv", X + "(float[2, 2, 8, 8] y) <float[2, 3, 1, 1] w = {1, 2, 3, 4, 5, 6}, float[1, 2, 1, 1] s = {2, 3}> { a = Conv (x, w)\n y = Mul(a, s) }", of="onnxsim"),
    Case("fuse_preceding_mul_into_conv", X + "(float[2, 2, 8, 8] y) <float[2, 3, 1, 1] w = {1, 2, 3, 4, 5, 6}, float[1, 3, 1, 1] s = {2, 3, 4}> { a = Mul(x, s)\n y = Conv (a, w) }", of="onnxsim"),
    Case("fuse_gelu", "agraph (float[2, 3] x) => (float[2, 3] y) <float r = {1.4142135}, float o = {1}, float h = {0.5}> { a = Div(x, r)\n b = Erf(a)\n c = Add(b, o)\n d = Mul(x, c)\n y = Mul(d, h) }", of="onnxsim", opset=20, reason="the number in the model is not the root of two, so the sides differ"),
    Case("fuse_layer_norm", "agraph (float[2, 4] x) => (float[2, 4] y) <float e = {1e-5}, float t = {2}, float[4] s = {1, 2, 3, 4}, float[4] b = {1, 1, 2, 2}> { m = ReduceMean <axes = [-1]> (x)\n d = Sub(x, m)\n q = Pow(d, t)\n v = ReduceMean <axes = [-1]> (q)\n ve = Add(v, e)\n r = Sqrt(ve)\n n = Div(d, r)\n sc = Mul(n, s)\n y = Add(sc, b) }", of="onnxsim", opset=17),
    Case("fuse_rms_norm", "agraph (float[2, 4] x) => (float[2, 4] y) <int64[1] z = {-1}, float e = {1e-5}, float t = {2}, float[4] s = {1, 2, 3, 4}> { q = Pow(x, t)\n v = ReduceMean (q, z)\n ve = Add(v, e)\n r = Sqrt(ve)\n n = Div(x, r)\n y = Mul(n, s) }", of="onnxsim", opset=23),
    Case("fuse_lp_normalization", "agraph (float[2, 4] x) => (float[2, 4] y) { n = ReduceL2 <axes = [1], keepdims = 1> (x)\n y = Div(x, n) }", of="onnxsim", opset=17, reason="a row of zeros divided by its norm has no value, and LpNormalization gives zeros"),
    Case("fuse_matmul_into_conv", "agraph (float[1, 3, 8, 8] x) => (float[1, 8, 8, 2] y) <float[3, 2] w = {1, 2, 3, 4, 5, 6}> { a = Transpose <perm = [0, 2, 3, 1]> (x)\n y = MatMul(a, w) }", of="onnxsim"),
    Case("gemm_transa_to_transpose", "agraph (float[3, 2] x, float[3, 4] w, float[4] b) => (float[2, 4] y) { y = Gemm <transA = 1> (x, w, b) }", of="onnxsim"),
    Case("pairs of casts", "agraph (float[3] x) => (float[3] y) { a = Cast <to = 11> (x)\n b = Cast <to = 1> (a)\n y = Relu(b) }", of="onnxsim"),
    Case("explicit_auto_pad", X + '(float[2, 2, 8, 8] y) <float[2, 3, 3, 3] w = {' + ", ".join(str(i % 5) for i in range(54)) + '}> { y = Conv <auto_pad = "SAME_UPPER"> (x, w) }', of="onnxsim"),
]
