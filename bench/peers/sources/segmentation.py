"""Segmentation networks of segmentation_models_pytorch with a few encoders, open sizes, by the tracing exporter."""

import torch

import cases

from . import torch_export

ARCHITECTURES = ("Unet", "UnetPlusPlus", "MAnet", "Linknet", "FPN", "PSPNet", "DeepLabV3", "DeepLabV3Plus", "PAN", "UPerNet", "Segformer")
ENCODERS = ("resnet18", "mobilenet_v2", "timm-efficientnet-b0", "mit_b0", "vgg11_bn", "densenet121")
FIXED_SIZE = ("PSPNet", "UPerNet")  # the exporter wants to know what they pool
MOST_PARAMETERS = 45_000_000


def names():
    return [f"{architecture} {encoder}" for architecture in ARCHITECTURES for encoder in ENCODERS]


def make(name):
    import segmentation_models_pytorch as models

    architecture, encoder = name.split()
    torch.manual_seed(cases.seed_of(name))
    network = getattr(models, architecture)(encoder_name=encoder, encoder_weights=None, classes=3).eval()
    if sum(parameter.numel() for parameter in network.parameters()) > MOST_PARAMETERS:
        raise cases.NotMade("too many parameters")
    sizes = [torch.randn(1, 3, 128, 128), torch.randn(2, 3, 160, 128)]
    axes = {"x": {0: "batch", 2: "height", 3: "width"}}
    if architecture in FIXED_SIZE:
        sizes, axes = [sizes[0], torch.randn(2, 3, 128, 128)], {"x": {0: "batch"}}
    model = torch_export.traced(network, (sizes[0],), ["x"], dynamic_axes=axes)
    return cases.Case(model, [{"x": torch_export.array(x)} for x in sizes])
