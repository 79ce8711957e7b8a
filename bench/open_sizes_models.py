"""Models whose sizes change from call to call, with random weights, and the sizes that they are called with.

torch is imported where a model is made: processes that only call models measure their memory.
"""

import dataclasses
import os
import warnings
from typing import Callable

import numpy as np

LAYERS, WIDTH, HEADS, TOKENS = 6, 512, 8, 8000  # of the decoder step


@dataclasses.dataclass
class Case:
    name: str
    make: Callable  # the network
    arrays: Callable  # size -> {input: array}, in the order of the network's arguments
    outputs: list
    axes: dict  # of inputs and outputs: the open ones
    sizes: Callable  # the numbers 0, 1, 2, ... to sizes, all different
    at: object  # the size that is exported


def lengths(first, last):
    """All of them, the largest first, then to and fro: what memory grows by is not due to larger sizes."""
    order = [last, *np.random.default_rng(5).permutation(np.arange(first, last))]
    return lambda number: int(order[number])


def batches(most, first, last):
    """The largest batch of the longest texts, single texts of all lengths, then other batches."""
    rng = np.random.default_rng(6)
    single = [(1, n) for n in rng.permutation(np.arange(first, last + 1))]
    others = [(b, n) for b in range(2, most + 1) for n in range(first, last + 1) if (b, n) != (most, last)]
    order = [(most, last), *single, *(others[i] for i in rng.permutation(len(others)))]
    return lambda number: tuple(int(size) for size in order[number])


def images(first, last):
    sides = np.arange(first, last + 1)
    order = [len(sides) ** 2 - 1, *np.random.default_rng(7).permutation(len(sides) ** 2 - 1)]
    return lambda number: (int(sides[order[number] // len(sides)]), int(sides[order[number] % len(sides)]))


def normal(*shape, seed=1):
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def tokens(shape, most, seed=1):
    return np.random.default_rng(seed).integers(1, most, shape)


# ---- Networks


def bert(settings):
    import torch
    import transformers

    class Encoder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            config = transformers.AutoConfig.for_model("bert", **settings)
            config._attn_implementation = "eager"
            self.network = transformers.BertModel(config).eval()

        def forward(self, ids, mask):
            return self.network(input_ids=ids, attention_mask=mask).last_hidden_state

    return Encoder()


def encoder(name, **settings):
    def arrays(size):
        return {"ids": tokens(size, settings.get("vocab_size", 30522)), "mask": np.ones(size, np.int64)}

    axes = {value: {0: "b", 1: "n"} for value in ("ids", "mask", "y")}
    return Case(name, lambda: bert(settings), arrays, ["y"], axes, batches(16, 8, 70), (2, 24))


def whisper():
    import torch
    import transformers

    class Encoder(torch.nn.Module):
        """Of any number of frames: transformers' own takes 3,000."""

        def __init__(self):
            super().__init__()
            config = transformers.WhisperConfig(d_model=384, encoder_layers=4, encoder_attention_heads=6, encoder_ffn_dim=1536)
            config._attn_implementation = "eager"
            self.encoder = transformers.models.whisper.modeling_whisper.WhisperEncoder(config).eval()

        def forward(self, frames):
            e = self.encoder
            x = torch.nn.functional.gelu(e.conv2(torch.nn.functional.gelu(e.conv1(frames)))).permute(0, 2, 1)
            x = x + e.embed_positions.weight[: x.shape[1]]
            for layer in e.layers:
                x = layer(x, None)
                x = x[0] if isinstance(x, tuple) else x
            return e.layer_norm(x)

    return Encoder()


def recurrent():
    import torch

    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.LSTM(64, 256, num_layers=2, bidirectional=True)
            self.head = torch.nn.Linear(512, 40)

        def forward(self, x):
            return self.head(self.layers(x)[0])

    return Network()


def decoder():
    import torch

    linear, norm = torch.nn.Linear, torch.nn.LayerNorm

    def block():
        layers = [norm(WIDTH), linear(WIDTH, 3 * WIDTH), linear(WIDTH, WIDTH), norm(WIDTH), linear(WIDTH, 4 * WIDTH), linear(4 * WIDTH, WIDTH)]
        return torch.nn.ModuleList(layers)

    class Step(torch.nn.Module):
        """One token, with the keys and values of those before it."""

        def __init__(self):
            super().__init__()
            self.tokens = torch.nn.Embedding(TOKENS, WIDTH)
            self.places = torch.nn.Embedding(4096, WIDTH)
            self.blocks = torch.nn.ModuleList(block() for _ in range(LAYERS))
            self.norm = norm(WIDTH)

        def forward(self, ids, *past):
            x = self.tokens(ids) + self.places(torch.arange(ids.shape[1]) + past[0].shape[2])
            present = []
            for number, (norm1, qkv, out, norm2, up, down) in enumerate(self.blocks):
                q, k, v = (part.view(1, -1, HEADS, WIDTH // HEADS).transpose(1, 2) for part in qkv(norm1(x)).split(WIDTH, dim=2))
                k, v = torch.cat([past[2 * number], k], dim=2), torch.cat([past[2 * number + 1], v], dim=2)
                present += [k, v]
                scores = torch.softmax(q @ k.transpose(2, 3) / (WIDTH // HEADS) ** 0.5, dim=-1)
                x = x + out((scores @ v).transpose(1, 2).reshape(1, -1, WIDTH))
                x = x + down(torch.nn.functional.gelu(up(norm2(x)), approximate="tanh"))
            return (self.norm(x) @ self.tokens.weight.T, *present)

    return Step()


def decoder_step():
    names = [f"past{i}" for i in range(2 * LAYERS)]
    presents = [f"present{i}" for i in range(2 * LAYERS)]

    def arrays(n):
        return {"ids": tokens((1, 1), TOKENS), **{name: normal(1, HEADS, n, WIDTH // HEADS, seed=i) for i, name in enumerate(names)}}

    axes = {name: {2: "n"} for name in names} | {name: {2: "m"} for name in presents}
    return Case("decoder step", decoder, arrays, ["y", *presents], axes, lengths(1, 2048), 12)


def resnet18():
    import torchvision

    return torchvision.models.resnet18(weights=None)


def segmentation():
    import torch
    import torchvision

    class Classes(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.network = torchvision.models.segmentation.lraspp_mobilenet_v3_large(weights=None, weights_backbone=None).eval()

        def forward(self, x):
            return self.network(x)["out"]

    return Classes()


def darknet():
    """The first layers of a detector as YOLO v3 has them."""
    import torch

    layers, channels = [], 3
    for outputs, stride in [(32, 1), (64, 2), (32, 1), (64, 1), (128, 2), (64, 1), (128, 1), (256, 2), (128, 1), (256, 1)]:
        window = 3 if outputs > channels else 1
        layers += [torch.nn.Conv2d(channels, outputs, window, stride, window // 2), torch.nn.LeakyReLU(0.1)]
        channels = outputs
    return torch.nn.Sequential(*layers)


def sound():
    """Convolutions of samples down to features, as speech encoders begin, and back up as vocoders end."""
    import torch

    return torch.nn.Sequential(
        torch.nn.Conv1d(1, 64, 10, 5),
        torch.nn.GELU(),
        torch.nn.Conv1d(64, 64, 3, 2),
        torch.nn.ELU(),
        torch.nn.ConvTranspose1d(64, 32, 4, 2),
        torch.nn.LeakyReLU(0.2),
        torch.nn.ConvTranspose1d(32, 1, 10, 5),
        torch.nn.Tanh(),
    )


def faster_rcnn():
    import torch
    import torchvision

    from detector_weights import spread

    class Detector(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.network = torchvision.models.detection.fasterrcnn_mobilenet_v3_large_320_fpn(
                weights=None, weights_backbone=None, num_classes=5, box_score_thresh=0.001, box_detections_per_img=20
            ).eval()
            # Less spread than elsewhere: of many boxes the best would have scores near 1, which are equal in floats.
            spread(self.network, torch.from_numpy(normal(3, 256, 256)), of_logits=1.0)

        def forward(self, x):
            found = self.network([x])[0]
            return found["boxes"], found["labels"], found["scores"]

    return Detector()


CASES = [
    encoder("6-layer encoder", hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536, vocab_size=1000),
    encoder("BERT-base"),
    Case("ResNet-18", resnet18, lambda s: {"x": normal(1, 3, *s)}, ["y"], {"x": {2: "h", 3: "w"}}, images(64, 256), (128, 128)),
    Case("MobileNetV3 segmentation", segmentation, lambda s: {"x": normal(1, 3, *s)}, ["y"], {"x": {2: "h", 3: "w"}}, images(64, 256),
         (128, 128)),
    Case("Darknet", darknet, lambda s: {"x": normal(1, 3, *s)}, ["y"], {"x": {2: "h", 3: "w"}}, images(64, 256), (128, 128)),
    Case("sound", sound, lambda n: {"x": normal(1, 1, n)}, ["y"], {"x": {2: "n"}, "y": {2: "m"}}, lengths(400, 8000), 4000),
    Case("Faster R-CNN", faster_rcnn, lambda s: {"x": normal(3, *s)}, ["boxes", "labels", "scores"],
         {"x": {1: "h", 2: "w"}, "boxes": {0: "n"}, "labels": {0: "n"}, "scores": {0: "n"}}, images(64, 256), (128, 160)),
    Case("LSTM", recurrent, lambda n: {"x": normal(n, 1, 64)}, ["y"], {"x": {0: "n"}, "y": {0: "n"}}, lengths(1, 1024), 20),
    Case("Whisper's encoder", whisper, lambda n: {"frames": normal(1, 80, n)}, ["y"], {"frames": {2: "n"}, "y": {1: "m"}},
         lengths(20, 1100), 200),
    decoder_step(),
]  # fmt: skip


def path_of(case, folder):
    return os.path.join(folder, case.name.replace(" ", "_").replace("'", "") + ".onnx")


def require_order(case, outputs):
    """Fails if a detector's scores are so near to each other that any order of additions decides which boxes are chosen."""
    if "scores" not in case.outputs:
        return
    scores = np.sort(outputs[case.outputs.index("scores")])
    if len(scores) < 2 or np.diff(scores).min() < 1e-6:
        raise ValueError(f"{case.name}: its scores do not tell its boxes apart; export the model anew (--export)")


def export(case, folder):
    import torch

    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    arguments = case.arrays(case.at)
    path = path_of(case, folder)
    with torch.no_grad():
        torch.onnx.export(case.make().eval(), tuple(torch.from_numpy(a) for a in arguments.values()), path + ".new", input_names=list(arguments),
                          output_names=case.outputs, dynamic_axes=case.axes, opset_version=17, dynamo=False)  # fmt: skip
    os.replace(path + ".new", path)
