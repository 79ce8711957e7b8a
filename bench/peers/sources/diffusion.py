"""diffusers' networks from small configurations, by both exporters: U-Nets, transformers, autoencoders."""

import inspect

import torch

import cases

from . import torch_export

# Configuration values by name, for constructors that have an argument of that name.
SMALL = {
    "sample_size": 16,
    "block_out_channels": (16, 32),
    "down_block_types": None,
    "up_block_types": None,
    "layers_per_block": 1,
    "norm_num_groups": 4,
    "cross_attention_dim": 16,
    "attention_head_dim": 8,
    "num_attention_heads": 2,
    "num_layers": 1,
    "num_single_layers": 1,
    "num_train_timesteps": 100,
    "joint_attention_dim": 16,
    "caption_channels": 16,
    "caption_projection_dim": 16,
    "pooled_projection_dim": 16,
    "in_channels": 4,
    "out_channels": 4,
    "latent_channels": 4,
    "num_vq_embeddings": 16,
    "hidden_size": 16,
    "patch_size": 2,
}
BLOCKS = {
    "UNet2DModel": (("DownBlock2D", "AttnDownBlock2D"), ("AttnUpBlock2D", "UpBlock2D")),
    "UNet2DConditionModel": (("DownBlock2D", "CrossAttnDownBlock2D"), ("CrossAttnUpBlock2D", "UpBlock2D")),
    "AutoencoderKL": (("DownEncoderBlock2D",) * 2, ("UpDecoderBlock2D",) * 2),
    "VQModel": (("DownEncoderBlock2D",) * 2, ("UpDecoderBlock2D",) * 2),
    "UNet1DModel": (("DownBlock1DNoSkip", "AttnDownBlock1D"), ("AttnUpBlock1D", "UpBlock1DNoSkip")),
    "ControlNetModel": (("DownBlock2D", "CrossAttnDownBlock2D"), None),
}
# The networks, and the inputs of each: {name: sizes, or the end of a range of integers}.
LATENT = (2, 4, 16, 16)
NETWORKS = {
    "UNet2DModel": {"sample": LATENT, "timestep": 100},
    "UNet2DConditionModel": {"sample": LATENT, "timestep": 100, "encoder_hidden_states": (2, 7, 16)},
    "ControlNetModel": {"sample": LATENT, "timestep": 100, "encoder_hidden_states": (2, 7, 16), "controlnet_cond": (2, 3, 128, 128)},
    "UNet1DModel": {"sample": (2, 4, 64), "timestep": 100},
    "AutoencoderKL": {"sample": (2, 4, 32, 32)},
    "AutoencoderTiny": {"sample": (2, 3, 32, 32)},
    "VQModel": {"sample": (2, 4, 32, 32)},
    "Transformer2DModel": {"hidden_states": LATENT, "encoder_hidden_states": (2, 7, 16)},
    "DiTTransformer2DModel": {"hidden_states": LATENT, "timestep": 100, "class_labels": 100},
    "PixArtTransformer2DModel": {"hidden_states": LATENT, "encoder_hidden_states": (2, 7, 16), "timestep": 100},
    "SD3Transformer2DModel": {"hidden_states": LATENT, "encoder_hidden_states": (2, 7, 16), "pooled_projections": (2, 16), "timestep": 100},
    "PriorTransformer": {"hidden_states": (2, 16), "timestep": 100, "proj_embedding": (2, 16), "encoder_hidden_states": (2, 7, 16)},
    "AsymmetricAutoencoderKL": {"sample": (2, 4, 32, 32)},
}
SPECIAL = {
    "AutoencoderTiny": {"encoder_block_out_channels": (16, 16), "decoder_block_out_channels": (16, 16), "num_encoder_blocks": (1, 1), "num_decoder_blocks": (1, 1), "in_channels": 3, "out_channels": 3},
    "UNet2DConditionModel": {"num_attention_heads": None},
    "ControlNetModel": {"num_attention_heads": None},
    "UNet1DModel": {"block_out_channels": (32, 64), "time_embedding_type": "positional", "extra_in_channels": 32},
    "PriorTransformer": {"embedding_dim": 16, "num_embeddings": 7, "additional_embeddings": 4, "attention_head_dim": 8},
    "DiTTransformer2DModel": {"num_embeds_ada_norm": 100},
    "PixArtTransformer2DModel": {"out_channels": 8, "num_embeds_ada_norm": 100},
    "Transformer2DModel": {"patch_size": None},
    "AsymmetricAutoencoderKL": {"down_block_types": ("DownEncoderBlock2D",) * 2, "down_block_out_channels": (16, 32), "layers_per_down_block": 1, "up_block_types": ("UpDecoderBlock2D",) * 2, "up_block_out_channels": (16, 32), "layers_per_up_block": 1},
}


def names():
    return [f"{name} {exporter}" for name in NETWORKS for exporter in ("traced", "dynamo")]


def network_of(name):
    import diffusers

    kind = getattr(diffusers, name)
    known = inspect.signature(kind.__init__).parameters
    down, up = BLOCKS.get(name, (None, None))
    values = {**SMALL, "down_block_types": down, "up_block_types": up, **SPECIAL.get(name, {})}
    return kind(**{key: value for key, value in values.items() if key in known and value is not None}).eval()


class Network(torch.nn.Module):
    def __init__(self, network, keys):
        super().__init__()
        self.network, self.keys = network, keys

    def forward(self, *tensors):
        results = self.network(**dict(zip(self.keys, tensors)), return_dict=False)
        flat, _ = torch.utils._pytree.tree_flatten(results)
        return tuple(value for value in flat if isinstance(value, torch.Tensor))


def make(name):
    title, exporter = name.split()
    torch.manual_seed(cases.seed_of(name))
    network = network_of(title)
    inputs = NETWORKS[title]
    made = [torch.randn(sizes) if isinstance(sizes, tuple) else torch.randint(0, sizes, (2,)) for sizes in inputs.values()]
    keys = list(inputs)
    module = Network(network, keys)
    if exporter == "traced":
        model = torch_export.traced(module, tuple(made), keys, dynamic_axes={key: {0: "batch"} for key in keys})
    else:
        model = torch_export.dynamo(module, tuple(made), keys)
    return cases.Case(model, [torch_export.feeds_of(model, keys, made)])
