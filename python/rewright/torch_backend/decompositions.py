"""Operators in terms of others, for those that neither torch nor its exporter takes apart."""

import torch

aten = torch.ops.aten


def _gradient_of_weight(grad_output, x, weight, stride, padding, dilation, groups):
    """x: (N, G C, ...), grad_output: (N, K, ...), weight: (K, C, ...).

    Element (k, c, t) is the sum over n and positions p of x[n, c, stride p + dilation t - padding] grad_output[n, k, p]: a convolution
    of x by grad_output with stride and dilation swapped and the batch as channels. Where the stride does not divide the size, it has
    elements beyond the weight's, which are cut off.
    """
    batch, channels = x.shape[0], x.shape[1] // groups
    sizes, spatial = list(x.shape[2:]), list(range(3, x.dim() + 1))
    x = x.reshape([batch, groups, channels, *sizes]).permute([2, 1, 0, *spatial])
    x = x.reshape([channels, groups * batch, *sizes])
    kernels = grad_output.transpose(0, 1)
    result = aten.convolution(x, kernels, None, dilation, padding, stride, False, [0] * len(sizes), groups)
    for axis, size in enumerate(weight.shape[2:]):
        result = aten.slice(result, axis + 2, 0, size)
    return result.transpose(0, 1)


def convolution_backward(grad_output, x, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, output_mask):
    """aten.convolution_backward: gradients of input, weight and bias, None where `output_mask` is false."""
    rank = x.dim() - 2
    stride, padding, dilation = (list(v) * rank if len(v) == 1 else list(v) for v in (stride, padding, dilation))
    grad_input = grad_weight = grad_bias = None
    if output_mask[0] and transposed:
        grad_input = aten.convolution(grad_output, weight, None, stride, padding, dilation, False, [0] * rank, groups)
    elif output_mask[0]:
        # Elements of the input behind a convolution's last position must come back as zeros.
        left = [
            x.shape[i + 2] - ((grad_output.shape[i + 2] - 1) * stride[i] - 2 * padding[i] + dilation[i] * (weight.shape[i + 2] - 1) + 1)
            for i in range(rank)
        ]
        grad_input = aten.convolution(grad_output, weight, None, stride, padding, dilation, True, left, groups)
    if output_mask[1]:
        # A transposed convolution is the convolution from its result to its input, backwards.
        read, written = (grad_output, x) if transposed else (x, grad_output)
        grad_weight = _gradient_of_weight(written, read, weight, stride, padding, dilation, groups)
    if output_mask[2]:
        grad_bias = aten.sum(grad_output, [0, *range(2, x.dim())])
    return grad_input, grad_weight, grad_bias


def transformer_encoder_layer(
    x, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, use_gelu, norm_first, eps, norm_weight_1, norm_bias_1,
    norm_weight_2, norm_bias_2, ffn_weight_1, ffn_bias_1, ffn_weight_2, ffn_bias_2, mask=None, mask_type=None,
):  # fmt: skip
    """aten._transformer_encoder_layer_fwd, what nn.TransformerEncoderLayer does without gradients. x: (N, T, embed_dim)."""
    if mask is not None or x.dim() != 3:
        return NotImplemented

    def attention(x):
        qkv = torch.nn.functional.linear(x, qkv_weight, qkv_bias)
        q, k, v = (part.unflatten(-1, (num_heads, -1)).transpose(1, 2) for part in qkv.chunk(3, -1))
        scores = torch.softmax(q @ k.transpose(-2, -1) * (embed_dim // num_heads) ** -0.5, -1)
        return torch.nn.functional.linear((scores @ v).transpose(1, 2).flatten(2), proj_weight, proj_bias)

    def feed_forward(x):
        hidden = torch.nn.functional.linear(x, ffn_weight_1, ffn_bias_1)
        hidden = torch.nn.functional.gelu(hidden) if use_gelu else torch.relu(hidden)
        return torch.nn.functional.linear(hidden, ffn_weight_2, ffn_bias_2)

    def norm(x, weight, bias):
        return torch.nn.functional.layer_norm(x, (embed_dim,), weight, bias, eps)

    if norm_first:
        x = x + attention(norm(x, norm_weight_1, norm_bias_1))
        return x + feed_forward(norm(x, norm_weight_2, norm_bias_2))
    x = norm(x + attention(x), norm_weight_1, norm_bias_1)
    return norm(x + feed_forward(x), norm_weight_2, norm_bias_2)


def split_with_sizes(x, sizes, dim=0):
    """aten.split_with_sizes, which aten.split becomes: slices. Torch takes it apart by strides, which a translation gathers by."""
    parts, start = [], 0
    for size in sizes:
        parts.append(aten.slice(x, dim, start, start + size))
        start = start + size
    return parts


def select(x, dim, index):
    """aten.select: a slice of one element, whose axis goes. Its translation gathers by an index that is looked at for every element."""
    if not isinstance(index, int):
        return NotImplemented
    end = index + 1 if index != -1 else x.shape[dim]
    return aten.squeeze.dim(aten.slice(x, dim, index, end), dim)


def _resampling(decomposition):
    """A resampling by a factor that does not lead to the result's size exactly: its translation would go by the sizes."""

    def taken_apart(x, output_size, *given):
        factors = [factor for factor in given if not isinstance(factor, bool)]
        corners = any(flag is True for flag in given)
        sizes = x.shape[2:]
        exact = (
            factor is None or float(factor).is_integer() or (isinstance(size, int) and size * factor == goal)
            for size, goal, factor in zip(sizes, output_size, factors)
        )
        if corners or all(exact):
            return NotImplemented
        return decomposition(x, output_size, *given)

    return taken_apart


def _resamplings():
    packets = (aten.upsample_nearest1d, aten.upsample_nearest2d, aten.upsample_nearest3d, aten.upsample_bilinear2d, aten.upsample_bicubic2d)
    return {packet.default: _resampling(torch._decomp.decomposition_table[packet.default]) for packet in packets}


# Operators that torch decomposes itself, in place of a translation that does not give all their results.
FIRST = {
    aten.native_batch_norm.default,
    aten._native_batch_norm_legit.default,
    aten._native_batch_norm_legit.no_stats,
    aten._native_batch_norm_legit_functional.default,
}


def is_taken_apart_first(target):
    """Whether torch's own way to take an operator apart, where it has one, comes before a translation. So it does with those that give a
    list of tensors (split, unbind): a translation makes an ONNX sequence of it, which no rule sees through and no kernel computes."""
    gives_a_list = isinstance(target, torch._ops.OpOverload) and any(str(result.type) == "List[Tensor]" for result in target._schema.returns)
    return gives_a_list or target in FIRST


# Operators by which constants enter a graph that is being traced: torch has to see these itself.
NEVER = {aten.lift.default, aten.lift_fresh.default, aten.lift_fresh_copy.default}

TABLE = {
    aten.convolution_backward.default: convolution_backward,
    aten._transformer_encoder_layer_fwd.default: transformer_encoder_layer,
    aten.split_with_sizes.default: split_with_sizes,
    aten.select.int: select,
    **_resamplings(),
}
