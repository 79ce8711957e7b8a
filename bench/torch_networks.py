"""The networks of bench/torch_compile: make(name) gives what is called, its arguments, and whether a call is a step of training.

Weights are random. A name that ends in ".torch" is the same network where no session can be made, so that all of it falls back to torch.
"""

TORCHVISION = ["resnet18", "squeezenet1_1", "mobilenet_v3_small", "efficientnet_b0"]
TIMM = ["mobileone_s0", "convnext_atto", "fastvit_t8"]
OWN = ["transformer", "bert_mini", "gpt_j", "gin", "graphsage", "graphsage_max", "pose", "custom", "custom_training", "dense_training"]
FALLING_BACK = ["pose.torch", "bert_mini.torch", "custom_training.torch", "convolutions_training.torch"]
NETWORKS = [*OWN, *TORCHVISION, *TIMM, *FALLING_BACK]


def make(name):
    import torch

    torch.manual_seed(0)
    name = name.removesuffix(".torch")
    if name in TIMM:
        import timm

        return timm.create_model(name, pretrained=False).eval(), (torch.randn(1, 3, 224, 224),), False
    if name in TORCHVISION:
        import torchvision

        return getattr(torchvision.models, name)(weights=None).eval(), (torch.randn(1, 3, 224, 224),), False
    module, inputs = globals()[f"_{name}"](torch)
    trained = name.endswith("_training")
    return (module.train() if trained else module.eval()), inputs, trained


def step(torch, module):
    """A step of training as a function: forward, backward, and the loss."""

    def run(*inputs):
        module.zero_grad()
        loss = module(*inputs).square().mean()
        loss.backward()
        return loss.detach()

    return run


def _transformer(torch):
    layer = torch.nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True)
    return torch.nn.TransformerEncoder(layer, 4, enable_nested_tensor=False), (torch.randn(1, 64, 256),)


def _of_tokens(torch, model, vocabulary, length):
    class LastState(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, tokens):
            return self.model(tokens).last_hidden_state

    return LastState(), (torch.randint(0, vocabulary, (1, length)),)


def _bert_mini(torch):
    import transformers

    config = transformers.BertConfig(hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024)
    return _of_tokens(torch, transformers.BertModel(config), 30000, 64)


def _gpt_j(torch):
    """As small as the models that transformers is tested with: rotary embeddings, and little else."""
    import transformers

    config = transformers.GPTJConfig(vocab_size=1000, n_positions=128, n_embd=32, n_layer=5, n_head=4, rotary_dim=4, use_cache=False)
    return _of_tokens(torch, transformers.GPTJModel(config), 1000, 64)


def _edges(torch, nodes, edges):
    """From and to where, as in Cora."""
    return torch.randint(0, nodes, (2, edges))


def _gin(torch):
    nn = torch.nn

    class Layer(nn.Module):
        def __init__(self, inputs, outputs):
            super().__init__()
            self.eps = nn.Parameter(torch.zeros(1))
            self.mlp = nn.Sequential(nn.Linear(inputs, outputs), nn.BatchNorm1d(outputs), nn.ReLU(), nn.Linear(outputs, outputs), nn.ReLU())

        def forward(self, x, edges):
            messages = x.index_select(0, edges[0])
            summed = x.new_zeros(x.shape).index_add(0, edges[1], messages)
            return self.mlp((1 + self.eps) * x + summed)

    class Gin(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(Layer(inputs, 64) for inputs in (128, 64, 64, 64, 64))
            self.last = nn.Linear(64, 10)

        def forward(self, x, edges, graph):
            for layer in self.layers:
                x = layer(x, edges)
            pooled = x.new_zeros(64, x.shape[1]).scatter_add(0, graph[:, None].expand_as(x), x)
            return self.last(pooled).log_softmax(-1)

    nodes = 2708
    return Gin(), (torch.randn(nodes, 128), _edges(torch, nodes, 10556), torch.arange(nodes) * 64 // nodes)


def _sage(torch, aggregate):
    nn = torch.nn

    class Layer(nn.Module):
        def __init__(self, inputs, outputs):
            super().__init__()
            self.own, self.neighbours = nn.Linear(inputs, outputs), nn.Linear(inputs, outputs, bias=False)

        def forward(self, x, edges):
            return self.own(x) + self.neighbours(aggregate(x, edges))

    class Sage(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([Layer(128, 64), Layer(64, 64), Layer(64, 40)])

        def forward(self, x, edges):
            for layer in self.layers[:-1]:
                x = layer(x, edges).relu()
            return self.layers[-1](x, edges).log_softmax(-1)

    nodes = 2708
    return Sage(), (torch.randn(nodes, 128), _edges(torch, nodes, 10556))


def _graphsage(torch):
    def mean(x, edges):
        messages = x[edges[0]]
        summed = x.new_zeros(x.shape).scatter_add(0, edges[1][:, None].expand_as(messages), messages)
        count = x.new_zeros(x.shape[0]).scatter_add(0, edges[1], x.new_ones(edges.shape[1]))
        return summed / count.clamp(min=1)[:, None]

    return _sage(torch, mean)


def _graphsage_max(torch):
    def largest(x, edges):
        messages = x[edges[0]]
        return x.new_zeros(x.shape).scatter_reduce(0, edges[1][:, None].expand_as(messages), messages, "amax", include_self=False)

    return _sage(torch, largest)


def _pose(torch):
    """Several stages that go down in resolution and up again, as MSPN and RSN."""
    nn = torch.nn

    def block(inputs, outputs, window=1, stride=1, last=nn.ReLU):
        convolution = nn.Conv2d(inputs, outputs, window, stride, window // 2, bias=False)
        return nn.Sequential(convolution, nn.BatchNorm2d(outputs), last())

    class Stage(nn.Module):
        def __init__(self):
            super().__init__()
            self.down = nn.ModuleList(nn.Sequential(block(32, 32), block(32, 32, 3, 1 + (level > 0)), block(32, 32)) for level in range(4))
            self.beside = nn.ModuleList(block(32, 32, last=nn.Identity) for _ in range(4))
            self.up = nn.ModuleList(block(32, 32, last=nn.Identity) for _ in range(3))

        def forward(self, x):
            levels = []
            for down in self.down:
                x = down(x)
                levels.append(x)
            x = self.beside[3](levels[3]).relu()
            for level in (2, 1, 0):
                y = self.beside[level](levels[level])
                larger = nn.functional.interpolate(x, size=y.shape[2:], mode="bilinear", align_corners=True)
                x = (y + self.up[level](larger)).relu()
            return x

    stem = [block(3, 32, 7, 2), nn.MaxPool2d(3, 2, 1)]
    return nn.Sequential(*stem, *[Stage() for _ in range(3)], nn.Conv2d(32, 17, 1)), (torch.randn(1, 3, 256, 192),)


def _operator(torch):
    """An operator of the program's own, with a gradient, that no compiler looks into."""

    @torch.library.custom_op("bench::twist", mutates_args=())
    def twist(x: torch.Tensor) -> torch.Tensor:
        return x.roll(1, -1) * 0.5

    twist.register_fake(torch.empty_like)
    twist.register_autograd(lambda context, gradient: gradient.roll(-1, -1) * 0.5)
    return twist


def _with_an_operator(torch, width, rows):
    twist, nn = _operator(torch), torch.nn

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.norm, self.second = nn.Linear(width, 4 * width), nn.LayerNorm(width), nn.Linear(4 * width, width)

        def forward(self, x):
            return x + self.second(nn.functional.gelu(self.first(twist(self.norm(x)))))

    return nn.Sequential(*[Layer() for _ in range(4)]), (torch.randn(rows, width),)


def _custom(torch):
    return _with_an_operator(torch, 256, 64)


def _custom_training(torch):
    return _with_an_operator(torch, 256, 64)


def _dense_training(torch):
    nn = torch.nn
    return nn.Sequential(*[part for _ in range(4) for part in (nn.Linear(512, 512), nn.GELU(), nn.LayerNorm(512))]), (torch.randn(64, 512),)


def _convolutions_training(torch):
    nn = torch.nn
    layers = []
    for inputs, outputs in ((3, 32), (32, 64), (64, 128)):
        layers += [nn.Conv2d(inputs, outputs, 3, 2, 1), nn.BatchNorm2d(outputs), nn.SiLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10)), (torch.randn(8, 3, 64, 64),)
