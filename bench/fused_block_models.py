"""Mirage's six blocks at the sizes of language models, as torch modules, for bench/fused_blocks.

As a program it answers each line of JSON on standard input by one on standard output:
  {"op": "make", "case": NAME, "path": MODEL} -> {"seconds": of the compilation}; exports to ONNX and compiles with inductor
  {"op": "time", "threads": N, "seconds": S} -> {"median": SECONDS, "way": "inductor" or "frozen"}, of the last case
Both are timed first, and the faster one counts from then on. One thread: CPU time of the process; more: time by the clock.
"""

import dataclasses
import statistics
import time

# As in the models' published config.json: hidden_size, num_attention_heads, num_key_value_heads, head_dim, intermediate_size.
@dataclasses.dataclass(frozen=True)
class Sizes:
    width: int
    heads: int
    shared: int
    head: int
    inner: int


MODELS = {
    "Qwen2.5-0.5B": Sizes(896, 14, 2, 64, 4864),
    "Qwen3-0.6B": Sizes(1024, 16, 8, 128, 3072),
    "Llama-3.2-1B": Sizes(2048, 32, 8, 64, 8192),
    "Qwen2.5-1.5B": Sizes(1536, 12, 2, 128, 8960),
    "Qwen3-1.7B": Sizes(2048, 16, 8, 128, 6144),
    "Llama-3.2-3B": Sizes(3072, 24, 8, 128, 8192),
}
RANK = 16  # of adapters
EPSILON = 1e-6


@dataclasses.dataclass(frozen=True)
class Case:
    """block: a function of this file's `blocks`. tokens: of a sequence in the call; past: positions in the cache. trained: weights are any
    floats, as in training; else they are rounded to bfloat16, as these models are published, and stored as floats."""

    block: str
    model: str
    tokens: int = 1
    past: int = 0
    batch: int = 1
    trained: bool = False

    @property
    def name(self):
        words = [f"{self.block}, {self.model}, {self.tokens} token" + ("s" if self.tokens > 1 else "")]
        words += [f"{self.past} positions"] if self.past else []
        words += [f"batch {self.batch}"] if self.batch > 1 else []
        words += ["weights of 32 bits"] if self.trained else []
        return ", ".join(words)


CASES = [
    Case("attention", "Qwen2.5-0.5B", past=1024),
    Case("attention", "Llama-3.2-1B", past=4096),
    Case("attention", "Qwen2.5-1.5B", past=1024, batch=4),
    Case("attention", "Llama-3.2-3B", past=2048),
    Case("attention", "Qwen2.5-1.5B", tokens=8, past=2048),
    Case("attention", "Llama-3.2-1B", tokens=16, past=1024),
    Case("QKNorm", "Qwen3-0.6B", past=1024),
    Case("QKNorm", "Qwen3-1.7B", past=4096),
    Case("QKNorm", "Qwen3-0.6B", past=1024, batch=4),
    Case("QKNorm", "Qwen3-1.7B", tokens=8, past=2048),
    Case("QKNorm", "Qwen3-0.6B", tokens=16, past=1024),
    *(Case(block, model, tokens=tokens)
      for block in ("RMSNorm", "LoRA", "gated MLP", "nTransformer")
      for model, tokens in (("Qwen2.5-0.5B", 1), ("Llama-3.2-1B", 1), ("Qwen2.5-1.5B", 8), ("Llama-3.2-3B", 16))),
    *(Case(block, model, tokens=tokens, trained=True)
      for block in ("RMSNorm", "LoRA", "gated MLP")
      for model, tokens in (("Llama-3.2-1B", 1), ("Llama-3.2-3B", 16))),
]  # fmt: skip


def normalized(x, weight):
    """As in transformers' LlamaRMSNorm."""
    import torch

    return weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPSILON))


def attended(q, k, v, mask=None):
    """As transformers writes it where nothing else is asked for (repeat_kv, eager_attention_forward)."""
    import torch

    def repeated(x):
        batch, shared, length, size = x.shape
        times = q.shape[1] // shared
        return x[:, :, None, :, :].expand(batch, shared, times, length, size).reshape(batch, shared * times, length, size)

    scores = torch.matmul(q, repeated(k).transpose(2, 3)) * q.shape[-1] ** -0.5
    if mask is not None:
        scores = scores + mask
    result = torch.matmul(torch.nn.functional.softmax(scores, dim=-1, dtype=torch.float32), repeated(v))
    return result.transpose(1, 2).contiguous()


def blocks():
    """The modules by name, each made of a case and its model's sizes, with the inputs of a call."""
    import torch

    def parameter(*sizes, scale=1.0):
        return torch.nn.Parameter(torch.randn(*sizes) * scale, requires_grad=False)

    def matrix(case, rows, columns):
        weights = torch.randn(rows, columns) * rows**-0.5
        return torch.nn.Parameter(weights if case.trained else weights.bfloat16().float(), requires_grad=False)

    def linear(case, rows, columns):
        layer = torch.nn.Linear(rows, columns, bias=False)
        layer.weight = matrix(case, columns, rows)
        return layer

    class Attention(torch.nn.Module):
        def __init__(self, case, sizes):
            super().__init__()
            cache = (case.batch, sizes.shared, case.past, sizes.head)
            self.inputs = [torch.randn(case.batch, sizes.heads, case.tokens, sizes.head), torch.randn(cache), torch.randn(cache)]
            if case.tokens > 1:  # what a token may not see
                seen = torch.arange(case.past)[None] <= torch.arange(case.tokens)[:, None] + case.past - case.tokens
                self.inputs.append(torch.zeros(case.tokens, case.past).masked_fill(~seen, -1e30)[None, None])

        def forward(self, q, k, v, mask=None):
            return attended(q, k, v, mask)

    class QKNorm(Attention):
        def __init__(self, case, sizes):
            super().__init__(case, sizes)
            self.of_queries, self.of_keys = parameter(sizes.head), parameter(sizes.head)

        def forward(self, q, k, v, mask=None):
            return attended(normalized(q, self.of_queries), normalized(k, self.of_keys), v, mask)

    class RmsNorm(torch.nn.Module):
        def __init__(self, case, sizes):
            super().__init__()
            self.weight = parameter(sizes.width)
            self.linear = linear(case, sizes.width, (sizes.heads + 2 * sizes.shared) * sizes.head)
            self.inputs = [torch.randn(case.batch, case.tokens, sizes.width)]

        def forward(self, x):
            return self.linear(normalized(x, self.weight))

    class Lora(torch.nn.Module):
        def __init__(self, case, sizes):
            super().__init__()
            self.w = matrix(case, sizes.width, sizes.width)
            self.a, self.b = matrix(case, sizes.width, RANK), matrix(case, RANK, sizes.width)
            self.inputs = [torch.randn(case.batch, case.tokens, sizes.width)]

        def forward(self, x):
            return x @ self.w + (x @ self.a) @ self.b

    class GatedMlp(torch.nn.Module):
        def __init__(self, case, sizes):
            super().__init__()
            self.gate, self.up = linear(case, sizes.width, sizes.inner), linear(case, sizes.width, sizes.inner)
            self.inputs = [torch.randn(case.batch, case.tokens, sizes.width)]

        def forward(self, x):
            return torch.nn.functional.silu(self.gate(x)) * self.up(x)

    class NTransformer(torch.nn.Module):
        """The residual of nGPT: both vectors lie on the sphere, and the step to the block's result has a rate for each channel."""

        def __init__(self, case, sizes):
            super().__init__()
            self.rate = parameter(sizes.width, scale=0.05)
            self.inputs = [torch.randn(case.batch, case.tokens, sizes.width) for _ in range(2)]

        @staticmethod
        def unit(x):
            return x / x.norm(p=2, dim=-1, keepdim=True)

        def forward(self, h, x):
            return self.unit(h + self.rate * (self.unit(x) - h))

    return {"attention": Attention, "QKNorm": QKNorm, "RMSNorm": RmsNorm, "LoRA": Lora, "gated MLP": GatedMlp, "nTransformer": NTransformer}


class Compiled:
    """A case in torch, compiled by inductor as it is by default, and with its weights frozen."""

    def __init__(self, case, path):
        import torch
        from torch._inductor import config

        torch.manual_seed(0)
        with torch.no_grad():
            module = blocks()[case.block](case, MODELS[case.model]).eval()
            self.inputs = tuple(module.inputs)
            torch.onnx.export(module, self.inputs, path, dynamo=True, external_data=False, verbose=False, opset_version=20)
        self.torch, self.module, self.config, self.runs, self.threads, self.way = torch, module, config, {}, None, None

    def prepare(self, threads):
        """Compiles for so many threads: generated code counts on their number."""
        self.torch.set_num_threads(threads)
        self.torch._dynamo.reset()
        self.threads, self.runs = threads, {}
        for way in ("inductor", "frozen"):
            with self.config.patch(freezing=way == "frozen"):
                self.runs[way] = self.torch.compile(self.module, dynamic=False)
                self.call(way)
                self.call(way)
        self.way = min(self.runs, key=lambda way: self.median(way, 0.2))

    def call(self, way):
        with self.torch.no_grad():
            return self.runs[way](*self.inputs)

    def median(self, way, seconds):
        clock, run, times = time.process_time if self.threads == 1 else time.perf_counter, self.runs[way], []
        end = time.perf_counter() + seconds
        with self.torch.no_grad():
            while len(times) < 5 or time.perf_counter() < end:
                start = clock()
                run(*self.inputs)
                times.append(clock() - start)
        return statistics.median(times)


def main():
    from json_worker import serve

    cases = {case.name: case for case in CASES}
    last = []

    def answer(request):
        if request["op"] == "make":
            last[:] = [Compiled(cases[request["case"]], request["path"])]
            return {"inputs": [list(x.shape) for x in last[0].inputs]}
        compiled = last[0]
        if compiled.threads != request["threads"]:
            compiled.prepare(request["threads"])
        return {"median": compiled.median(compiled.way, request["seconds"]), "way": compiled.way}

    serve(answer)


if __name__ == "__main__":
    main()
