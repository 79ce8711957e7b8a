"""Exports the benchmarks' networks to ONNX: python export_models.py OUT_DIR [NAME ...] [--force]

Needs tools/requirements-peers.txt. Writes OUT_DIR/NAME.onnx with batch norms as they are in the network, OUT_DIR/NAME.hand.onnx
with the form that its authors' own re-parametrization gives, where there is one, and OUT_DIR/manifest.json. Batch 1, float,
fixed sizes, opset 17. Each file is checked in ONNX Runtime against torch.

No trained weights are fetched. Weights are the libraries' initial ones; scales and shifts of the norms are random, and the batch
norms' statistics are those of random images, so that activations stay as large through the network as in a trained one.
"""

import argparse
import json
import os
import sys
import warnings
from dataclasses import dataclass
from typing import Callable, Optional

import numpy as np
import onnx
import onnxruntime
import torch

OPSET = 17
TOLERANCE = 1e-3


@dataclass(frozen=True)
class Network:
    """make: the network in training form. inputs: example inputs, by name. hand: the re-parametrized network from the first."""

    make: Callable[[], torch.nn.Module]
    inputs: Callable[[], dict]
    hand: Optional[Callable[[torch.nn.Module], torch.nn.Module]] = None


class LoraStack(torch.nn.Module):
    """Dense layers with low-rank adapters beside their weights: y = relu(x W + (x A) B s + b)."""

    def __init__(self, layers=8, width=1024, rank=64, scale=0.5):
        super().__init__()
        self.scale = scale
        self.weight = torch.nn.ParameterList(torch.randn(width, width) * (2 / width) ** 0.5 for _ in range(layers))
        self.down = torch.nn.ParameterList(torch.randn(width, rank) / width**0.5 for _ in range(layers))
        self.up = torch.nn.ParameterList(torch.randn(rank, width) / rank**0.5 for _ in range(layers))
        self.bias = torch.nn.ParameterList(torch.randn(width) * 0.1 for _ in range(layers))

    def forward(self, x):
        for weight, down, up, bias in zip(self.weight, self.down, self.up, self.bias):
            x = torch.relu(x @ weight + (x @ down) @ up * self.scale + bias)
        return x


class MergedStack(torch.nn.Module):
    """The LoRA stack with its adapters merged into the weights by hand."""

    def __init__(self, stack):
        super().__init__()
        parts = zip(stack.weight, stack.down, stack.up)
        self.weight = torch.nn.ParameterList((w.double() + a.double() @ b.double() * stack.scale).float() for w, a, b in parts)
        self.bias = stack.bias

    def forward(self, x):
        for weight, bias in zip(self.weight, self.bias):
            x = torch.relu(x @ weight + bias)
        return x


class Bert(torch.nn.Module):
    """transformers' BERT in its default size, with plain outputs."""

    def __init__(self):
        super().__init__()
        from transformers import BertConfig, BertModel

        self.model = BertModel(BertConfig(attn_implementation="eager"))

    def forward(self, input_ids, attention_mask):
        return self.model(input_ids=input_ids, attention_mask=attention_mask, return_dict=False)


def from_timm(name):
    def make():
        import timm

        return timm.create_model(name, pretrained=False)

    return make


def from_torchvision(name, **options):
    def make():
        import torchvision

        return getattr(torchvision.models, name)(weights=None, **options)

    return make


def reparametrized_by_timm(model):
    from timm.utils import reparameterize_model

    return reparameterize_model(model)


def picture(size=224):
    return lambda: {"input": torch.randn(1, 3, size, size)}


def tokens():
    return {"input_ids": torch.randint(0, 30522, (1, 128)), "attention_mask": torch.ones(1, 128, dtype=torch.int64)}


NETWORKS = {
    "mobileone_s0": Network(from_timm("mobileone_s0"), picture(), reparametrized_by_timm),
    "repvgg_a0": Network(from_timm("repvgg_a0"), picture(), reparametrized_by_timm),
    "lora": Network(LoraStack, lambda: {"input": torch.randn(64, 1024)}, MergedStack),
    "repvit_m0_9": Network(from_timm("repvit_m0_9"), picture(), reparametrized_by_timm),
    "resnet18": Network(from_torchvision("resnet18"), picture()),
    "squeezenet1_0": Network(from_torchvision("squeezenet1_0"), picture()),
    "mobilenet_v2": Network(from_torchvision("mobilenet_v2"), picture()),
    "efficientnet_b0": Network(from_torchvision("efficientnet_b0"), picture()),
    "densenet121": Network(from_torchvision("densenet121"), picture()),
    "resnext50_32x4d": Network(from_torchvision("resnext50_32x4d"), picture()),
    "inception_v3": Network(from_torchvision("inception_v3", aux_logits=True, init_weights=False), picture(299)),
    "bert_base": Network(Bert, tokens),
}


def randomize_norms(model):
    """Scales around 1 and shifts around 0 for every norm; other parameters that are constant (biases of 0) get small values."""
    norms = (torch.nn.modules.batchnorm._BatchNorm, torch.nn.LayerNorm)
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, norms):
                module.weight.uniform_(0.7, 1.3)
                module.bias.normal_(0, 0.1)
        for parameter in model.parameters():
            if parameter.numel() > 1 and parameter.min() == parameter.max():
                parameter.add_(torch.randn_like(parameter) * 0.02)


def measure_statistics(model, inputs):
    """Sets the batch norms' running statistics to those of one batch of random inputs, with some noise."""
    norms = [module for module in model.modules() if isinstance(module, torch.nn.modules.batchnorm._BatchNorm)]
    if not norms:
        return
    batch = [torch.randn(8, *value.shape[1:]) for value in inputs.values()]
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = 1.0
    model.train()
    with torch.no_grad():
        model(*batch)
        for norm, momentum in zip(norms, momenta):
            norm.momentum = momentum
            norm.running_mean.add_(torch.randn_like(norm.running_mean) * 0.05 * norm.running_var.sqrt())
            norm.running_var.mul_(torch.empty_like(norm.running_var).uniform_(0.8, 1.25))


def export(model, inputs, path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            model,
            tuple(inputs.values()),
            path + ".new",
            input_names=list(inputs),
            opset_version=OPSET,
            dynamo=False,
            do_constant_folding=False,
            training=torch.onnx.TrainingMode.PRESERVE,  # keeps batch norms apart from convolutions; the model is in eval mode
        )
    os.replace(path + ".new", path)


def check(model, inputs, path):
    """The largest difference between torch and ONNX Runtime, relative to the largest output."""
    with torch.no_grad():
        expected = model(*inputs.values())
    expected = [expected] if isinstance(expected, torch.Tensor) else expected
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    actual = session.run(None, {name: value.numpy() for name, value in inputs.items()})
    worst = 0.0
    for theirs, ours in zip(expected, actual):
        theirs = theirs.numpy().astype(np.float64)
        worst = max(worst, float(np.abs(theirs - ours).max() / np.abs(theirs).max()))
    if not worst <= TOLERANCE:
        sys.exit(f"export_models: {path}: ONNX Runtime differs from torch by {worst:.2g}")
    return worst


def describe(path, error):
    nodes = onnx.load(path, load_external_data=False).graph.node
    batch_norms = sum(node.op_type == "BatchNormalization" for node in nodes)
    return {"file": os.path.basename(path), "nodes": len(nodes), "batch_norms": batch_norms, "error_to_torch": error}


def export_network(name, out_dir):
    network = NETWORKS[name]
    torch.manual_seed(len(name))
    model, inputs = network.make(), network.inputs()
    randomize_norms(model)
    measure_statistics(model, inputs)
    model.eval()
    path = os.path.join(out_dir, f"{name}.onnx")
    export(model, inputs, path)
    entry = {"training_form": describe(path, check(model, inputs, path))}
    if network.hand is not None:
        by_hand = network.hand(model).eval()
        path = os.path.join(out_dir, f"{name}.hand.onnx")
        export(by_hand, inputs, path)
        entry["hand"] = describe(path, check(model, inputs, path))
    return entry


def main():
    parser = argparse.ArgumentParser(description="Exports the benchmarks' networks to ONNX.")
    parser.add_argument("out_dir")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"default: all of {', '.join(NETWORKS)}")
    parser.add_argument("--force", action="store_true", help="export again what is there already")
    arguments = parser.parse_args()
    os.makedirs(arguments.out_dir, exist_ok=True)
    manifest_path = os.path.join(arguments.out_dir, "manifest.json")
    manifest = {}
    if os.path.exists(manifest_path):
        with open(manifest_path, encoding="utf-8") as file:
            manifest = json.load(file)
    for name in arguments.names or NETWORKS:
        if name not in NETWORKS:
            parser.error(f"unknown network {name}; there are {', '.join(NETWORKS)}")
        if arguments.force or name not in manifest or not os.path.exists(os.path.join(arguments.out_dir, f"{name}.onnx")):
            manifest[name] = export_network(name, arguments.out_dir)
            with open(manifest_path, "w", encoding="utf-8") as file:
                json.dump(manifest, file, indent=2)
        print(name, json.dumps(manifest[name]), flush=True)


if __name__ == "__main__":
    main()
