"""torchvision's networks and one of each of timm's families, by both exporters."""

import torch

import cases

from . import torch_export

MOST_PARAMETERS = 45_000_000
BATCH = 2


def torchvision_names():
    import torchvision

    return [name for name in torchvision.models.list_models(exclude=["*rcnn*", "ssd*", "retinanet*", "fcos*", "raft*", "quantized_*"])]


def timm_names():
    """The first of each module that is small."""
    import timm

    found = []
    for module in timm.list_modules():
        models = timm.list_models(module=module)
        small = [name for name in models if any(word in name for word in ("tiny", "nano", "atto", "pico", "small", "mini", "_xs", "_s", "18", "b0", "050"))]
        found += (small or models)[:1]
    return found


def names():
    every = [f"torchvision {name}" for name in torchvision_names()] + [f"timm {name}" for name in timm_names()]
    return [f"{name} {'dynamo' if number % 3 == 0 else 'traced'}" for number, name in enumerate(every)]


def build(library, name):
    """(network, sizes of its input without the batch)"""
    if library == "timm":
        import timm

        with torch.device("meta"):
            check_size(timm.create_model(name, pretrained=False))
        network = timm.create_model(name, pretrained=False)
        fixed = network.default_cfg.get("fixed_input_size", False)
        side = network.default_cfg["input_size"][-1]
        return network, (3, side, side) if fixed else (3, 128, 128)
    import torchvision

    with torch.device("meta"):
        check_size(torchvision.models.get_model(name, weights=None))
    network = torchvision.models.get_model(name, weights=None)
    if name.startswith(("r3d", "mc3", "r2plus1d", "s3d", "mvit", "swin3d")):
        return network, (3, 16, 224, 224) if name.startswith(("mvit", "swin3d", "s3d")) else (3, 8, 56, 56)
    return network, (3, 224, 224) if name.startswith(("vit", "maxvit", "inception", "alexnet")) else (3, 96, 96)


def check_size(network):
    size = sum(parameter.numel() for parameter in network.parameters())
    if size > MOST_PARAMETERS:
        raise cases.NotMade(f"{size} parameters")


class First(torch.nn.Module):
    """The network's results as a tuple."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x):
        results = self.network(x)
        if isinstance(results, dict):
            return tuple(results.values())
        return results if isinstance(results, torch.Tensor) else tuple(value for value in results if isinstance(value, torch.Tensor))


def make(name):
    library, title, exporter = name.split()
    torch.manual_seed(cases.seed_of(name))
    network, sizes = build(library, title)
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.numel() > 1 and parameter.min() == parameter.max():
                parameter += 0.05 * torch.randn_like(parameter)
    module = First(network.eval())
    x = torch.randn(BATCH, *sizes)
    if exporter == "traced":
        model = torch_export.traced(module, (x,), ["x"], dynamic_axes={"x": {0: "batch"}})
    else:
        model = torch_export.dynamo(module, (x,), ["x"], dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
    return cases.Case(model, [{"x": torch_export.array(x)}, {"x": torch_export.array(torch.randn(BATCH + 1, *sizes))}])
