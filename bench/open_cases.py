"""Architectures of language, vision and speech, small and with random weights, whose exported models leave sizes open."""

import dataclasses
from typing import Callable

import numpy as np
import torch

TOKENS = 60  # of every vocabulary
SIZES = {"b": 2, "n": 12, "m": 9, "h": 64, "w": 96, "t": 4000, "f": 48, "s": 64}  # at which the models are exported
OTHER_SIZES = {"b": [1, 3, 2, 5], "n": [16, 7, 33, 1], "m": [16, 5, 21, 1], "h": [64, 96, 128, 32], "w": [64, 32, 96, 160],
               "s": [32, 96, 128, 64], "t": [3200, 5000, 8000, 2000], "f": [64, 40, 100, 32]}


@dataclasses.dataclass
class Case:
    name: str
    kind: str  # "text", "vision" or "speech"
    make: Callable  # the network
    inputs: dict  # name -> axes: names of open sizes, numbers
    integers: tuple = ()  # inputs that are tokens
    masks: tuple = ()  # inputs of ones

    def arrays(self, sizes, seed=0):
        rng = np.random.default_rng(seed)
        result = {}
        for name, axes in self.inputs.items():
            shape = [sizes[a] if isinstance(a, str) else a for a in axes]
            if name in self.masks:
                result[name] = np.ones(shape, np.int64)
            elif name in self.integers:
                result[name] = rng.integers(4, TOKENS, shape)
            else:
                result[name] = rng.standard_normal(shape, dtype=np.float32)
        return result

    def open_sizes(self):
        return sorted({a for axes in self.inputs.values() for a in axes if isinstance(a, str)})

    def other_sizes(self):
        return [{name: OTHER_SIZES[name][k] for name in self.open_sizes()} for k in range(4)]


class Plain(torch.nn.Module):
    """A network of transformers with tensors as arguments and its first results, as tensors, as results."""

    def __init__(self, network, names):
        super().__init__()
        self.network, self.names = network, names

    def forward(self, *arguments):
        results = self.network(**dict(zip(self.names, arguments)), return_dict=True)
        return tuple(r for r in results.values() if isinstance(r, torch.Tensor))[:2]


def transformer(kind, inputs, integers=(), masks=(), head="AutoModel", name=None, **settings):
    """A case out of the name of a model type of transformers and the settings that make it small."""
    model_type = name or kind

    def make(model_type=model_type.split(":")[0], head=head, settings=settings, names=tuple(inputs)):
        import transformers

        torch.manual_seed(0)
        made = {k: v() if callable(v) else v for k, v in settings.items()}
        config = transformers.AutoConfig.for_model(model_type, **made)
        config._attn_implementation = "eager"
        return Plain(getattr(transformers, head).from_config(config).eval(), names)

    return Case(model_type, kind, make, dict(inputs), tuple(integers), tuple(masks))


SMALL = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, vocab_size=TOKENS)
SEQ2SEQ = dict(d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=64,
               decoder_ffn_dim=64, vocab_size=TOKENS, pad_token_id=1, bos_token_id=0, eos_token_id=2, decoder_start_token_id=2)
GPT = dict(n_embd=32, n_layer=2, n_head=2, vocab_size=TOKENS)
SPEECH = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, conv_dim=(16, 16, 16), conv_stride=(5, 2, 2),
              conv_kernel=(10, 3, 3), num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=2, vocab_size=TOKENS)
VISION = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, num_channels=3)


def text(name, **settings):
    return transformer("text", {"input_ids": ("b", "n"), "attention_mask": ("b", "n")}, ("input_ids",), ("attention_mask",), name=name,
                       **settings)


def translation(name, **settings):
    return transformer("text", {"input_ids": ("b", "n"), "decoder_input_ids": ("b", "m")}, ("input_ids", "decoder_input_ids"), name=name,
                       **settings)


def image(name, *axes, **settings):
    return transformer("vision", {"pixel_values": axes or ("b", 3, "h", "w")}, name=name, **settings)


def sound(name, **settings):
    return transformer("speech", {"input_values": ("b", "t")}, name=name, **settings)


def torchvision(name):
    def make():
        import torchvision as package

        torch.manual_seed(0)
        options = {"weights_backbone": None} if name in ("fcn_resnet50", "deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large") else {}
        network = package.models.get_model(name, weights=None, **options).eval()
        return network if not options else First(network)

    return Case(name, "vision", make, {"x": ("b", 3, "h", "w")})


class First(torch.nn.Module):
    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x):
        return self.network(x)["out"]


def resnet_backbone():
    import transformers

    return transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16, 16, 24], depths=[1, 1, 1, 1], layer_type="basic",
                                     out_features=["stage4"])


CASES = [
    text("bert", **SMALL), text("roberta", **SMALL), text("electra", embedding_size=16, **SMALL), text("albert", embedding_size=16, **SMALL),
    text("distilbert", dim=32, n_layers=2, n_heads=2, hidden_dim=64, vocab_size=TOKENS),
    text("convbert", embedding_size=16, **SMALL), text("big_bird", attention_type="original_full", **SMALL),
    text("deberta", relative_attention=True, pos_att_type=["c2p", "p2c"], **SMALL),
    text("deberta-v2", relative_attention=True, pos_att_type=["c2p", "p2c"], position_buckets=8, share_att_key=True, **SMALL),
    text("funnel", d_model=32, n_head=2, d_head=16, d_inner=64, block_sizes=[1, 1], block_repeats=[1, 1], num_decoder_layers=1,
         vocab_size=TOKENS),
    text("longformer", attention_window=8, **SMALL), text("luke", entity_vocab_size=20, entity_emb_size=16, **SMALL),
    text("roformer", embedding_size=32, **SMALL), text("splinter", **SMALL), text("squeezebert", embedding_size=32, q_groups=2, k_groups=2,
         v_groups=2, post_attention_groups=1, intermediate_groups=2, output_groups=2, **SMALL),
    text("mpnet", **SMALL), text("camembert", **SMALL), text("ernie", **SMALL), text("megatron-bert", **SMALL),
    text("mobilebert", embedding_size=16, intra_bottleneck_size=16, **SMALL), text("layoutlm", **SMALL), text("xlm-roberta", **SMALL),
    transformer("text", {"input_ids": ("b", "n")}, ("input_ids",), name="fnet", **{k: v for k, v in SMALL.items() if k != "num_attention_heads"}),
    text("gpt2", **GPT), text("gpt_neo", hidden_size=32, num_layers=2, num_heads=2, attention_types=[[["global", "local"], 1]], vocab_size=TOKENS),
    text("opt", hidden_size=32, num_hidden_layers=2, num_attention_heads=2, ffn_dim=64, word_embed_proj_dim=32, vocab_size=TOKENS),
    text("llama", num_key_value_heads=1, **SMALL), text("qwen2", num_key_value_heads=1, **SMALL), text("gpt_neox", **SMALL),
    text("bloom", hidden_size=32, n_layer=2, n_head=2, vocab_size=TOKENS),
    translation("bart", **SEQ2SEQ), translation("pegasus", **SEQ2SEQ), translation("marian", **SEQ2SEQ),
    translation("t5", d_model=32, d_kv=16, d_ff=64, num_layers=2, num_heads=2, vocab_size=TOKENS),
    image("vit:fixed", "b", 3, 32, 32, image_size=32, patch_size=8, **VISION), image("dinov2", image_size=32, patch_size=8, **VISION),
    image("beit:fixed", "b", 3, 32, 32, image_size=32, patch_size=8, **VISION),
    image("swin", image_size=64, patch_size=4, embed_dim=16, depths=[1, 1], num_heads=[1, 2], window_size=4),
    image("convnext", hidden_sizes=[8, 16, 16, 24], depths=[1, 1, 1, 1]), image("resnet", embedding_size=8, hidden_sizes=[8, 16, 16, 24],
          depths=[1, 1, 1, 1]),
    image("segformer", hidden_sizes=[8, 16, 16, 24], depths=[1, 1, 1, 1], num_attention_heads=[1, 1, 2, 2]),
    image("mobilevit", hidden_sizes=[8, 16, 24], neck_hidden_sizes=[4, 4, 8, 8, 8, 8, 8]), image("regnet", embedding_size=8,
          hidden_sizes=[8, 16, 16, 24], depths=[1, 1, 1, 1], groups_width=8),
    image("poolformer", hidden_sizes=[8, 16, 16, 24], depths=[1, 1, 1, 1]),
    image("dpt", "b", 3, "s", "s", image_size=32, patch_size=8, head="AutoModelForDepthEstimation", neck_hidden_sizes=[8, 8, 8, 8], fusion_hidden_size=8,
          backbone_out_indices=[0, 1, 2, 3], is_hybrid=False, **{**VISION, "num_hidden_layers": 4}),
    image("detr", d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=32,
          decoder_ffn_dim=32, num_queries=6, use_timm_backbone=False, backbone=None, use_pretrained_backbone=False,
          backbone_config=resnet_backbone),
    image("yolos", image_size=[64, 96], patch_size=16, num_detection_tokens=5, **VISION),
    torchvision("squeezenet1_1"), torchvision("shufflenet_v2_x0_5"), torchvision("mobilenet_v3_small"), torchvision("mnasnet0_5"),
    torchvision("lraspp_mobilenet_v3_large"),
    sound("wav2vec2", **SPEECH), sound("hubert", **SPEECH), sound("wavlm", **SPEECH), sound("unispeech", **SPEECH), sound("data2vec-audio",
          conv_pos_kernel_size=5, **{k: v for k, v in SPEECH.items() if k != "num_conv_pos_embeddings"}),
    sound("sew", squeeze_factor=2, **SPEECH),
    transformer("speech", {"input_features": ("b", "f", 20), "decoder_input_ids": ("b", "m")}, ("decoder_input_ids",), name="speech_to_text",
                input_feat_per_channel=20, conv_channels=16, **SEQ2SEQ),
]
