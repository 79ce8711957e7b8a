"""The corpus: networks of packages, with their initial weights, small images and few layers, so that all of it runs in an hour.

Nothing is fetched. Weights are random with fixed seeds; the statistics of batch norms are random as well, so that folding them matters.
"""

import os
import subprocess
import warnings

import onnx
import torch

OPSET = 17
torch.backends.mha.set_fastpath_enabled(False)  # its one operator has no ONNX form

OWN = ("squeezenet mobilenet_v2 resnet50 nasnet_a inception_block nasrnn bert_layer lora repvgg_a0 mobileone_s0 efficientnet_b0 densenet121").split()
TORCHVISION = ("resnet18 mnasnet0_5 shufflenet_v2_x0_5 mobilenet_v3_small squeezenet1_1 regnet_y_400mf googlenet "
               "mobilenet_v2").split()
TIMM = ("convnext_atto ghostnet_050 lcnet_050 tinynet_e mobilevit_xxs edgenext_xx_small poolformerv2_s12 resmlp_12_224 mixer_s32_224 "
        "vit_tiny_patch16_224 deit_tiny_patch16_224 repghostnet_050 efficientvit_b0 starnet_s1 hardcorenas_a mobilenetv4_conv_small "
        "dla34 regnetx_002 semnasnet_075 fbnetc_100 resnest14d eca_nfnet_l0 pit_ti_224 levit_128s visformer_tiny").split()


def prepared(network):
    generator = torch.Generator().manual_seed(1)
    for module in network.modules():
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm) and module.running_mean is not None:
            for tensor, low, high in ((module.running_mean, -0.2, 0.2), (module.running_var, 0.5, 1.5), (module.weight, 0.5, 1.5),
                                      (module.bias, -0.2, 0.2)):
                if tensor is not None:
                    tensor.data.copy_(torch.rand(tensor.shape, generator=generator) * (high - low) + low)
    return network.eval()


def export(network, inputs, path, dynamic=None, by_dynamo=False):
    names = [f"x{i}" for i in range(len(inputs))]
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        if by_dynamo:
            torch.onnx.export(network, inputs, path, dynamo=True, opset_version=18, input_names=names, external_data=False, verbose=False,
                              output_names=["y"])
        else:
            torch.onnx.export(network, inputs, path, dynamo=False, opset_version=OPSET, input_names=names, output_names=["y"],
                              dynamic_axes=dynamic, do_constant_folding=False)


def image(size=64):
    return (torch.randn(1, 3, size, size, generator=torch.Generator().manual_seed(2)),)


def tokens(length=16, vocabulary=100):
    return (torch.randint(0, vocabulary, (1, length), generator=torch.Generator().manual_seed(2)),)


class First(torch.nn.Module):
    """A network of transformers, with its first result alone."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x):
        return self.network(x, return_dict=False)[0]


def transformer(name):
    import transformers as t

    small = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 100}
    eager = {"attn_implementation": "eager"}
    picture = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "image_size": 32, "patch_size": 8}
    made = {
        "bert": lambda: t.BertModel(t.BertConfig(**small, **eager)),
        "roberta": lambda: t.RobertaModel(t.RobertaConfig(**small, **eager)),
        "electra": lambda: t.ElectraModel(t.ElectraConfig(**small, embedding_size=64, **eager)),
        "distilbert": lambda: t.DistilBertModel(t.DistilBertConfig(vocab_size=100, dim=64, n_layers=2, n_heads=4, hidden_dim=128, **eager)),
        "albert": lambda: t.AlbertModel(t.AlbertConfig(**small, embedding_size=64, **eager)),
        "gpt2": lambda: t.GPT2Model(t.GPT2Config(vocab_size=100, n_embd=64, n_layer=2, n_head=4, use_cache=False, **eager)),
        "opt": lambda: t.OPTModel(t.OPTConfig(vocab_size=100, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, ffn_dim=128,
                                              word_embed_proj_dim=64, use_cache=False, **eager)),
        "llama": lambda: t.LlamaModel(t.LlamaConfig(**small, use_cache=False, **eager)),
        "vit": lambda: t.ViTModel(t.ViTConfig(**picture, **eager)),
        "mobilebert": lambda: t.MobileBertModel(t.MobileBertConfig(vocab_size=100, num_hidden_layers=2, **eager)),
        "xlm_roberta": lambda: t.XLMRobertaModel(t.XLMRobertaConfig(**small, **eager)),
        "mpnet": lambda: t.MPNetModel(t.MPNetConfig(**small)),
        "squeezebert": lambda: t.SqueezeBertModel(t.SqueezeBertConfig(**small, embedding_size=64)),
        "t5_encoder": lambda: t.T5EncoderModel(t.T5Config(vocab_size=100, d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4)),
        "deit": lambda: t.DeiTModel(t.DeiTConfig(**picture, **eager)),
        "dinov2": lambda: t.Dinov2Model(t.Dinov2Config(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, image_size=32, patch_size=8,
                                                       **eager)),
        "segformer": lambda: t.SegformerModel(t.SegformerConfig(depths=[1, 1, 1, 1], hidden_sizes=[8, 16, 32, 64], num_attention_heads=[1, 1, 2, 4])),
        "swin": lambda: t.SwinModel(t.SwinConfig(image_size=32, patch_size=2, embed_dim=16, depths=[1, 1], num_heads=[2, 4], window_size=4)),
        "resnet": lambda: t.ResNetModel(t.ResNetConfig(embedding_size=16, hidden_sizes=[16, 32], depths=[1, 1])),
    }[name]
    return First(made()), (image(32) if name in IMAGES else tokens())


TRANSFORMERS = ("bert roberta electra distilbert albert gpt2 opt llama vit mobilebert xlm_roberta mpnet squeezebert t5_encoder deit dinov2 segformer "
                "swin resnet").split()
IMAGES = "vit deit dinov2 segformer swin resnet".split()
BY_DYNAMO = "gpt2 llama".split()  # the other exporter lacks one of their operators


class Recurrent(torch.nn.Module):
    def __init__(self, kind, layers=1, both_ways=False):
        super().__init__()
        self.cell = getattr(torch.nn, kind)(16, 32, layers, batch_first=True, bidirectional=both_ways)
        self.head = torch.nn.Linear(64 if both_ways else 32, 4)

    def forward(self, x):
        return self.head(self.cell(x)[0])


class Detector(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, 2, 1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Conv2d(8, 5, 1))

    def forward(self, x):
        import torchvision

        rows = self.body(x).flatten(2).transpose(1, 2)[0]
        corner = torch.sigmoid(rows[:, :2])
        boxes = torch.cat([corner, corner + torch.exp(rows[:, 2:4])], 1)
        kept = torchvision.ops.nms(boxes, rows[:, 4], 0.5)
        return boxes[kept]


class Scores(Detector):
    """Boxes of a head for several classes: the best one is suppressed by classes."""

    def forward(self, x):
        import torchvision

        rows = self.body(x).flatten(2).transpose(1, 2)[0]
        centre, size = torch.sigmoid(rows[:, :2]), torch.exp(rows[:, 2:4])
        boxes = torch.cat([centre - size / 2, centre + size / 2], 1)
        scores, classes = torch.softmax(rows[:, 1:], 1).max(1)
        kept = torchvision.ops.batched_nms(boxes, scores, classes, 0.5)
        return torch.cat([boxes[kept], scores[kept].unsqueeze(1)], 1)


class Unrolled(torch.nn.Module):
    """A cell, step by step, with a state that a comparison resets."""

    def __init__(self):
        super().__init__()
        self.cell, self.head = torch.nn.GRUCell(8, 16), torch.nn.Linear(16, 4)

    def forward(self, x):
        state = torch.zeros(x.shape[0], 16)
        for step in range(4):
            state = self.cell(x[:, step], torch.where(x[:, step].mean(1, keepdim=True) > 1, 0.0, state))
        return self.head(state)


class Segments(torch.nn.Module):
    """Down and up again: transposed convolutions, interpolation, joined features."""

    def __init__(self):
        super().__init__()
        block = lambda i, o: torch.nn.Sequential(torch.nn.Conv2d(i, o, 3, padding=1), torch.nn.BatchNorm2d(o), torch.nn.ReLU())  # noqa: E731
        self.first, self.second, self.third = block(3, 8), block(8, 16), block(24, 8)
        self.up, self.last = torch.nn.ConvTranspose2d(16, 16, 2, 2), torch.nn.Conv2d(8, 2, 1)

    def forward(self, x):
        first = self.first(x)
        second = self.up(self.second(torch.nn.functional.max_pool2d(first, 2)))
        y = self.last(self.third(torch.cat([first, second], 1)))
        return torch.nn.functional.interpolate(y, scale_factor=2, mode="bilinear", align_corners=False)


class Mixed(torch.nn.Module):
    """Layers that exporters write in many nodes: normalizations, attention, activations, sizes computed from the input."""

    def __init__(self):
        super().__init__()
        self.convolution = torch.nn.Conv2d(3, 16, 3, padding=1)
        self.group, self.layer = torch.nn.GroupNorm(4, 16), torch.nn.LayerNorm(16)
        self.attention = torch.nn.MultiheadAttention(16, 4, batch_first=True)
        self.head = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Dropout(), torch.nn.Linear(32, 8))

    def forward(self, x):
        x = torch.nn.functional.silu(self.group(self.convolution(x)))
        x = torch.nn.functional.avg_pool2d(x, 4).flatten(2).transpose(1, 2)
        x = self.layer(x + self.attention(x, x, x, need_weights=False)[0])
        return self.head(x).mean(1).view(x.shape[0], -1, 2)


def build(folder, binary, wanted=None):
    """Writes the models that are not there. Returns names and files, and what could not be made with the reason."""
    os.makedirs(folder, exist_ok=True)
    made, failed = {}, {}

    def add(name, make):
        if wanted and not any(w in name for w in wanted):
            return
        path = os.path.join(folder, name + ".onnx")
        try:
            if not os.path.exists(path):
                torch.manual_seed(0)
                make(path)
                onnx.load(path, load_external_data=False)
            made[name] = path
        except Exception as error:  # a package without this network, an exporter that cannot write it
            failed[name] = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:150]
            if os.path.exists(path):
                os.remove(path)

    def own(name):
        return lambda path: subprocess.run([binary, "models", "build", name, "-o", path, "--quiet"], check=True, capture_output=True)

    def vision(name):
        import torchvision

        def make(path):
            arguments = {"init_weights": False, "aux_logits": False} if name == "googlenet" else {}
            batch = {"x0": {0: "N"}} if name in ("resnet18", "mobilenet_v3_small") else None
            export(prepared(getattr(torchvision.models, name)(weights=None, **arguments)), image(), path, batch)

        return make

    def of_timm(name):
        import timm

        def make(path):
            network = prepared(timm.create_model(name, pretrained=False, exportable=True))
            size = network.default_cfg["input_size"][-1] if name.endswith("224") or "levit" in name or "visformer" in name else 64
            export(network, image(size), path)

        return make

    for name in OWN:
        add("own_" + name, own(name))
    for name in TORCHVISION:
        add("torchvision_" + name, vision(name))
    for name in TIMM:
        add("timm_" + name, of_timm(name))
    for name in TRANSFORMERS:
        network, inputs = None, None

        def make(path, name=name):
            network, inputs = transformer(name)
            open_axes = {"x0": {0: "batch", 1: "length"}} if name in ("bert", "distilbert") else None
            export(prepared(network), inputs, path, open_axes, by_dynamo=name in BY_DYNAMO)

        add("transformers_" + name, make)
    for kind in ("LSTM", "GRU", "RNN"):
        add("recurrent_" + kind, lambda path, kind=kind: export(Recurrent(kind).eval(), (torch.randn(1, 5, 16),), path, {"x0": {1: "steps"}}))
    for kind, layers, both_ways in (("LSTM", 2, True), ("GRU", 2, False), ("GRU", 1, True)):
        name = f"recurrent_{kind}_{layers}" + ("_both_ways" if both_ways else "")
        add(name, lambda path, given=(kind, layers, both_ways): export(Recurrent(*given).eval(), (torch.randn(1, 5, 16),), path, {"x0": {1: "steps"}}))
    add("unrolled_GRU", lambda path: export(Unrolled().eval(), (torch.randn(2, 4, 8),), path, {"x0": {0: "N"}}))
    add("segments", lambda path: export(prepared(Segments()), image(32), path, {"x0": {0: "N", 2: "height", 3: "width"}}))
    add("detector_of_classes", lambda path: export(prepared(Scores()), image(32), path))
    add("detector", lambda path: export(prepared(Detector()), image(32), path))
    add("mixed", lambda path: export(Mixed().eval(), image(16), path, {"x0": {0: "N"}}))
    add("quantized", lambda path: quantized(path))
    add("quantized_unsigned", lambda path: quantized(path, activations="QUInt8"))
    add("quantized_operators", lambda path: quantized(path, form="QOperator", activations="QUInt8"))
    add("quantized_mixed", lambda path: dynamically_quantized(path, Mixed().eval(), image(16)))
    add("quantized_bert", lambda path: dynamically_quantized(path, transformer("bert")[0].eval(), tokens()))
    return made, failed


def dynamically_quantized(path, network, inputs):
    from onnxruntime.quantization import quantize_dynamic

    export(network, inputs, path + ".float.onnx")
    quantize_dynamic(path + ".float.onnx", path)
    os.remove(path + ".float.onnx")


def quantized(path, form="QDQ", activations="QInt8"):
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    import torchvision

    export(prepared(torchvision.models.squeezenet1_1(weights=None)), image(), path + ".float.onnx")

    class Reader(CalibrationDataReader):
        def __init__(self):
            self.left = [{"x0": image()[0].numpy()}]

        def get_next(self):
            return self.left.pop() if self.left else None

    if form == "QOperator":  # biases have to be initializers
        quant_pre_process(path + ".float.onnx", path + ".float.onnx", skip_symbolic_shape=True)
    quantize_static(path + ".float.onnx", path, Reader(), quant_format=QuantFormat[form], activation_type=QuantType[activations])
    os.remove(path + ".float.onnx")


def both_exporters(folder, wanted=None):
    """The same modules by both of torch's exporters: name -> (file, file)."""
    import torchvision

    cases = {
        "resnet18": lambda: (prepared(torchvision.models.resnet18(weights=None)), image()),
        "mobilenet_v3_small": lambda: (prepared(torchvision.models.mobilenet_v3_small(weights=None)), image()),
        "shufflenet_v2_x0_5": lambda: (prepared(torchvision.models.shufflenet_v2_x0_5(weights=None)), image()),
        "bert": lambda: transformer("bert"),
        "vit": lambda: transformer("vit"),
        "mixed": lambda: (Mixed().eval(), image(16)),
        "segments": lambda: (prepared(Segments()), image(32)),
        "unrolled_GRU": lambda: (Unrolled().eval(), (torch.randn(2, 4, 8),)),
        "electra": lambda: transformer("electra"),
        "deit": lambda: transformer("deit"),
        "squeezenet1_1": lambda: (prepared(torchvision.models.squeezenet1_1(weights=None)), image()),
        "mnasnet0_5": lambda: (prepared(torchvision.models.mnasnet0_5(weights=None)), image()),
    }
    found, failed = {}, {}
    for name, make in cases.items():
        if wanted and not any(w in "exporters_" + name for w in wanted):
            continue
        files = [os.path.join(folder, f"exporters_{name}.{kind}.onnx") for kind in ("traced", "dynamo")]
        try:
            for path, by_dynamo in zip(files, (False, True)):
                if not os.path.exists(path):
                    torch.manual_seed(0)
                    network, inputs = make()
                    export(network.eval(), inputs, path, by_dynamo=by_dynamo)
            found["exporters_" + name] = files
        except Exception as error:
            failed["exporters_" + name] = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:150]
    return found, failed
