"""Small language models with random weights, in folders as onnxruntime-genai's builder makes them, and what ONNX Runtime computes."""

import json
import pathlib

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

LAYERS, HEADS, CACHED_HEADS, SIZE, WIDTH, VOCABULARY, CONTEXT = 2, 4, 2, 16, 32, 300, 400


class _Graph:
    def __init__(self, seed):
        self.random = numpy.random.default_rng(seed)
        self.nodes, self.weights = [], []

    def weight(self, name, *shape, scale=None):
        values = self.random.normal(size=shape) * (scale or shape[0] ** -0.5)
        self.weights.append(numpy_helper.from_array(values.astype(numpy.float32), name))
        return name

    def constant(self, name, value):
        self.weights.append(numpy_helper.from_array(numpy.asarray(value), name))
        return name

    def add(self, kind, inputs, outputs, **attributes):
        outputs = [outputs] if isinstance(outputs, str) else outputs
        self.nodes.append(helper.make_node(kind, inputs, outputs, **attributes))
        return outputs[0]


def _rotary_tables(graph):
    angles = numpy.arange(CONTEXT)[:, None] * 10000.0 ** (-numpy.arange(SIZE // 2) / (SIZE // 2))
    return [graph.constant(name, table(angles).astype(numpy.float32)) for name, table in (("cos", numpy.cos), ("sin", numpy.sin))]


def _layer(graph, layer, x, lengths, tables, window):
    def product(v, name, rows, columns):
        return graph.add("MatMul", [v, graph.weight(f"{layer}.{name}", rows, columns)], f"{layer}.{name}.out")

    def norm(v, name):
        scale = graph.weight(f"{layer}.{name}.scale", WIDTH, scale=1)
        return graph.add("SimplifiedLayerNormalization", [v, scale], f"{layer}.{name}.out", epsilon=1e-5, axis=-1)

    qkv = product(norm(x, "before"), "qkv", WIDTH, (HEADS + 2 * CACHED_HEADS) * SIZE)
    past = [f"past_key_values.{layer}.key", f"past_key_values.{layer}.value"]
    present = [f"present.{layer}.key", f"present.{layer}.value"]
    attended = graph.add(
        "GroupQueryAttention", [qkv, "", "", *past, *lengths, *tables], [f"{layer}.attention", *present], domain="com.microsoft",
        num_heads=HEADS, kv_num_heads=CACHED_HEADS, do_rotary=1, local_window_size=window)
    x = graph.add("Add", [x, product(attended, "o", HEADS * SIZE, WIDTH)], f"{layer}.with_attention")
    inner = graph.add("Relu", [product(norm(x, "behind"), "up", WIDTH, 2 * WIDTH)], f"{layer}.inner")
    return graph.add("Add", [x, product(inner, "down", 2 * WIDTH, WIDTH)], f"{layer}.result")


def write_model(path, seed=0, window=-1):
    """A model with grouped attention, rotary embedding and a cache, which may be longer than what is filled of it."""
    graph = _Graph(seed)
    int64, floats = TensorProto.INT64, TensorProto.FLOAT
    tables = _rotary_tables(graph)
    one, axis = graph.constant("one", numpy.array(1, numpy.int64)), graph.constant("axis", numpy.array([1], numpy.int64))
    ones = graph.add("ReduceSum", ["attention_mask", axis], "ones", keepdims=1)
    last = graph.add("Cast", [graph.add("Sub", [ones, one], "before_last")], "last", to=TensorProto.INT32)
    sizes = graph.add("Shape", ["attention_mask"], "mask_sizes")
    total = graph.add("Cast", [graph.add("Gather", [sizes, one], "columns", axis=0)], "total", to=TensorProto.INT32)
    x = graph.add("Gather", [graph.weight("words", VOCABULARY, WIDTH, scale=1), "input_ids"], "embedded")
    for layer in range(LAYERS):
        x = _layer(graph, layer, x, [last, total], tables, window)
    graph.add("MatMul", [x, graph.weight("head", WIDTH, VOCABULARY)], "logits")

    def cache(name, positions):
        return [helper.make_tensor_value_info(f"{name}.{layer}.{kind}", floats, ["batch", CACHED_HEADS, positions, SIZE])
                for layer in range(LAYERS) for kind in ("key", "value")]

    inputs = [helper.make_tensor_value_info("input_ids", int64, ["batch", "length"]),
              helper.make_tensor_value_info("attention_mask", int64, ["batch", "total"]), *cache("past_key_values", "past")]
    outputs = [helper.make_tensor_value_info("logits", floats, ["batch", "length", VOCABULARY]), *cache("present", "all")]
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(helper.make_graph(graph.nodes, "language", inputs, outputs, graph.weights),
                                opset_imports=opsets, ir_version=10), path)


def config(shared=True, **search):
    """genai_config.json for the model, as the builder writes it."""
    return {
        "model": {
            "bos_token_id": 1, "context_length": CONTEXT, "eos_token_id": 2, "pad_token_id": 0, "type": "llama", "vocab_size": VOCABULARY,
            "decoder": {
                "session_options": {"log_id": "onnxruntime-genai", "provider_options": []}, "filename": "model.onnx",
                "head_size": SIZE, "hidden_size": WIDTH, "num_attention_heads": HEADS, "num_hidden_layers": LAYERS,
                "num_key_value_heads": CACHED_HEADS,
                "inputs": {"input_ids": "input_ids", "attention_mask": "attention_mask", "past_key_names": "past_key_values.%d.key",
                           "past_value_names": "past_key_values.%d.value"},
                "outputs": {"logits": "logits", "present_key_names": "present.%d.key", "present_value_names": "present.%d.value"},
            },
        },
        "search": {"do_sample": False, "max_length": CONTEXT, "min_length": 0, "num_beams": 1, "past_present_share_buffer": shared,
                   "repetition_penalty": 1.0, "temperature": 1.0, "top_k": 50, "top_p": 1.0, **search},
    }


def write_folder(folder, seed=0, window=-1, shared=True, **search):
    folder = pathlib.Path(folder)
    folder.mkdir(exist_ok=True)
    write_model(folder / "model.onnx", seed, window)
    (folder / "genai_config.json").write_text(json.dumps(config(shared, **search)))
    return folder


def write_tokenizer(folder):
    """A token for each byte, behind those that mean something: 0 to 2 are special. Needs the package tokenizers."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {"<pad>": 0, "<begin>": 1, "<end>": 2, **{c: 3 + number for number, c in enumerate(alphabet)}}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(name, special=True) for name in ("<pad>", "<begin>", "<end>")])
    tokenizer.save(str(pathlib.Path(folder) / "tokenizer.json"))
    template = "{{ bos_token }}{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}{% if add_generation_prompt %}> {% endif %}"
    settings = {"bos_token": {"content": "<begin>"}, "eos_token": "<end>", "chat_template": template}
    (pathlib.Path(folder) / "tokenizer_config.json").write_text(json.dumps(settings))


class Reference:
    """The model in ONNX Runtime, a step at a time, with a cache that is as long as what is filled of it."""

    def __init__(self, folder):
        self.session = onnxruntime.InferenceSession(str(pathlib.Path(folder) / "model.onnx"), providers=["CPUExecutionProvider"])

    def logits(self, prompt, choose, count):
        """The logits behind the prompt and behind each of count - 1 further tokens, which choose(logits, text) chooses."""
        past = {i.name: numpy.zeros((1, i.shape[1], 0, SIZE), numpy.float32) for i in self.session.get_inputs() if "past" in i.name}
        names = [output.name for output in self.session.get_outputs()]
        text, new, found = list(prompt), list(prompt), []
        for _ in range(count):
            feeds = {"input_ids": numpy.array([new]), "attention_mask": numpy.ones((1, len(text)), numpy.int64), **past}
            results = dict(zip(names, self.session.run(None, feeds)))
            past = {name.replace("present", "past_key_values"): value for name, value in results.items() if "present" in name}
            found.append(results["logits"][0, -1])
            new = [choose(found[-1], text)]
            text += new
        return found, text[len(prompt) :]

    def greedy(self, prompt, count, ends=(2,)):
        tokens = self.logits(prompt, lambda logits, text: int(logits.argmax()), count)[1]
        end = next((at for at, token in enumerate(tokens) if token in ends), count - 1)
        return tokens[: end + 1]
