"""transformers' architectures from small random configurations, by both exporters, sizes left open where the exporter takes that."""

import numpy as np
import torch

import cases

from . import torch_export

TEXT = """albert bart bert bert-generation big_bird biogpt blenderbot-small bloom camembert codegen convbert cpmant ctrl deberta deberta-v2 distilbert
electra ernie falcon flaubert fnet funnel gemma gemma2 gpt2 gpt_bigcode gpt_neo gpt_neox gptj granite ibert led llama longformer longt5 luke m2m_100 marian
mbart megatron-bert mistral mobilebert modernbert mpnet mpt mra mt5 mvp nezha nystromformer olmo olmo2 openai-gpt opt pegasus phi phi3 plbart prophetnet qwen2
qwen3 rembert roberta roberta-prelayernorm roc_bert roformer splinter squeezebert stablelm starcoder2 switch_transformers t5 umt5 xglm xlm
xlm-roberta xlnet xmod yoso cohere glm helium mamba persimmon smollm3 eurobert jetmoe""".split()
VISION = """beit bit convnext convnextv2 cvt data2vec-vision deit detr dinov2 dpt efficientnet focalnet glpn hiera ijepa imagegpt levit mobilenet_v1
mobilenet_v2 mobilevit mobilevitv2 poolformer pvt pvt_v2 regnet resnet segformer siglip_vision_model swiftformer swin swinv2 swin2sr table-transformer textnet
vit vit_mae vit_msn yolos clip_vision_model dinov2_with_registers conditional_detr deformable_detr""".split()
SPEECH = """audio-spectrogram-transformer data2vec-audio hubert sew sew-d speech_to_text unispeech unispeech-sat wav2vec2 wav2vec2-bert
wav2vec2-conformer wavlm whisper encodec vits mimi moonshine""".split()

SMALL = {
    "vocab_size": 120,
    "max_position_embeddings": 96,
    "image_size": 64,
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "emb_dim", "embedding_size", "n_embed"), 32),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers", "num_encoder_layers", "num_decoder_layers"), 2),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads", "decoder_attention_heads"), 4),
    **dict.fromkeys(("intermediate_size", "d_ff", "encoder_ffn_dim", "decoder_ffn_dim", "ffn_dim", "hidden_dim", "n_inner", "dim_ff"), 64),
    **dict.fromkeys(("d_kv", "head_dim", "dim_head"), 8),
    **dict.fromkeys(("num_key_value_heads", "n_positions", "n_ctx", "max_source_positions", "max_target_positions"), None),
    **dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id", "unk_token_id"), 1),
}
SMALL.update(num_key_value_heads=2, n_positions=96, n_ctx=96, max_source_positions=96, max_target_positions=96)

# Settings of models that the general sizes above do not fit.
SPECIAL = {
    "bart": {"pad_token_id": 1},
    "wav2vec2": {"conv_dim": [16] * 7, "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4},
    "longformer": {"attention_window": 8},
    "led": {"attention_window": 8, "max_encoder_position_embeddings": 96, "max_decoder_position_embeddings": 96},
    "gptj": {"rotary_dim": 4},
    "codegen": {"rotary_dim": 4},
    "funnel": {"block_sizes": [1, 1], "d_head": 8, "d_inner": 64},
    "xlnet": {"d_head": 8, "d_inner": 64},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "window_size": 8},
    "mobilebert": {"intra_bottleneck_size": 16, "true_hidden_size": 16},
    "roformer": {"embedding_size": 32},
    "ibert": {"quant_mode": False},
    "big_bird": {"attention_type": "original_full"},
    "deberta": {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]},
    "deberta-v2": {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]},
    "fnet": {"tpu_short_seq_length": 16},
    "whisper": {"max_source_positions": 40, "num_mel_bins": 16},
    "audio-spectrogram-transformer": {"max_length": 64, "num_mel_bins": 32},
    "speech_to_text": {"input_feat_per_channel": 16},
    "hubert": {"conv_dim": [16] * 7, "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4},
}
for similar in ("unispeech", "unispeech-sat", "wavlm", "data2vec-audio", "wav2vec2-conformer"):
    SPECIAL[similar] = SPECIAL["wav2vec2"]
MOST_PARAMETERS = 40_000_000


def names():
    return [f"{name} {exporter}" for group in (TEXT, VISION, SPEECH) for name in group for exporter in ("traced", "dynamo")]


def configuration(name):
    from transformers import AutoConfig

    known = AutoConfig.for_model(name).to_dict()
    options = {key: value for key, value in SMALL.items() if isinstance(known.get(key), int) and not isinstance(known.get(key), bool)}
    options.update({key: 1 for key in ("pad_token_id", "bos_token_id", "eos_token_id") if key in known and not isinstance(known[key], list)})
    options.update(SPECIAL.get(name, {}))
    if name in VISION and "hidden_size" in options and isinstance(known.get("hidden_sizes"), list):
        options.pop("hidden_size")
    return AutoConfig.for_model(name, **options)


class Plain(torch.nn.Module):
    """The network with its inputs in a fixed order and its first results, as a tuple of tensors."""

    def __init__(self, network, names):
        super().__init__()
        self.network, self.names = network, names

    def forward(self, *tensors):
        results = self.network(**dict(zip(self.names, tensors)), return_dict=True)
        found = [value for value in results.values() if isinstance(value, torch.Tensor) and value.is_floating_point()]
        return tuple(found[:2])


def network_of(name):
    from transformers import AutoModel

    config = configuration(name)
    for key in ("use_cache", "apply_spec_augment"):
        if hasattr(config, key):
            setattr(config, key, False)
    with torch.device("meta"):
        size = sum(parameter.numel() for parameter in AutoModel.from_config(config).parameters())
    if size > MOST_PARAMETERS:
        raise cases.NotMade(f"{size} parameters")
    try:
        return AutoModel.from_config(config, attn_implementation="eager").eval()
    except ValueError:
        return AutoModel.from_config(config).eval()


def inputs_of(network, size, rng):
    """{input: (tensor, axes that are open)} at one of two sizes (0 or 1)."""
    batch, length = 2 + size, 16 + 16 * size
    main = network.main_input_name
    config = network.config
    if main == "input_ids":
        ids = torch.from_numpy(rng.integers(3, 100, (batch, length)))
        found = {"input_ids": (ids, (0, 1)), "attention_mask": (torch.ones(batch, length, dtype=torch.int64), (0, 1))}
        if getattr(config, "is_encoder_decoder", False):
            found["decoder_input_ids"] = (torch.from_numpy(rng.integers(3, 100, (batch, 8 + size))), (0, 1))
        return found
    if main == "pixel_values":
        side = getattr(config, "image_size", 64)
        side = side if isinstance(side, int) else 64
        return {main: (torch.from_numpy(rng.standard_normal((batch, getattr(config, "num_channels", 3), side, side)).astype(np.float32)), (0,))}
    if main == "input_values" and type(network).__name__.startswith("AST"):
        return {main: (torch.from_numpy(rng.standard_normal((batch, config.max_length, config.num_mel_bins)).astype(np.float32)), (0,))}
    if main == "input_values":
        sizes = (batch, 1, 2400 + 800 * size) if type(network).__name__.startswith(("Encodec", "Mimi")) else (batch, 2400 + 800 * size)
        return {main: (torch.from_numpy(rng.standard_normal(sizes).astype(np.float32)), (0, len(sizes) - 1))}
    if main == "input_features":
        sizes = (batch, config.num_mel_bins, 80) if network.config.model_type == "whisper" else (batch, 60 + 20 * size, getattr(config, "input_feat_per_channel", getattr(config, "feature_projection_input_dim", 16)))
        open_axes = (0,) if network.config.model_type == "whisper" else (0, 1)
        found = {main: (torch.from_numpy(rng.standard_normal(sizes).astype(np.float32)), open_axes)}
        if getattr(config, "is_encoder_decoder", False):
            found["decoder_input_ids"] = (torch.from_numpy(rng.integers(3, 100, (batch, 8 + size))), (0, 1))
        return found
    raise cases.NotMade(f"main input {main}")


def axes_of(inputs):
    return {key: {axis: f"{key}_{axis}" for axis in open_axes} for key, (_, open_axes) in inputs.items()}


def shared_axes(inputs):
    """Sizes that are equal have one name: the batch, and the length of a text and of its mask."""
    return {key: {axis: "batch" if axis == 0 else "decoder_length" if key.startswith("decoder") else "length" for axis in open_axes} for key, (_, open_axes) in inputs.items()}


def make(name):
    architecture, exporter = name.split()
    torch.manual_seed(cases.seed_of(architecture))
    network = network_of(architecture)
    for parameter in network.parameters():
        if parameter.numel() > 1 and parameter.min() == parameter.max():
            parameter.data += 0.05 * torch.randn_like(parameter)
    rng = np.random.default_rng(cases.seed_of(architecture))
    sizes = [inputs_of(network, size, rng) for size in (0, 1)]
    keys = list(sizes[0])
    plain = Plain(network, keys)
    tensors = tuple(sizes[0][key][0] for key in keys)
    if exporter == "traced":
        model = torch_export.traced(plain, tensors, keys, dynamic_axes=shared_axes(sizes[0]), opset=17)
    else:
        dims = {key: {axis: torch.export.Dim.DYNAMIC for axis in axes} for key, axes in axes_of(sizes[0]).items()}
        model = torch_export.dynamo(plain, tensors, keys, dynamic_shapes=(tuple(dims[key] for key in keys),))
    return cases.Case(model, [torch_export.feeds_of(model, keys, [made[key][0] for key in keys]) for made in sizes])
