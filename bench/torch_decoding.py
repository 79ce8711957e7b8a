"""Decoding by torch, as a peer: torch_decoding.py [--device cuda] [--tokens N]

A Llama of SmolLM2-135M's shape with random weights, out of transformers: greedy tokens per second in float32, bfloat16 and float16,
eager and with a static cache under torch.compile (reduce-overhead: a CUDA graph). Prints JSON.
"""

import argparse
import json
import time

import torch
import transformers

SHAPE = {"hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3,
         "vocab_size": 49152, "max_position_embeddings": 8192, "tie_word_embeddings": True}  # fmt: skip


def rate(model, tokens, device, **options):
    ids = torch.arange(3, 23, device=device)[None]
    common = {"max_new_tokens": tokens, "min_new_tokens": tokens, "do_sample": False, **options}
    model.generate(ids, **common)  # compiles
    started = time.perf_counter()
    model.generate(ids, **common)
    if device != "cpu":
        torch.cuda.synchronize()
    return tokens / (time.perf_counter() - started)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--no-compile", action="store_true")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = False
    found = {}
    with torch.inference_mode():
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            config = transformers.LlamaConfig(**SHAPE)
            model = transformers.AutoModelForCausalLM.from_config(config).to(dtype).to(arguments.device).eval()
            name = str(dtype).removeprefix("torch.")
            found[name] = {"eager": rate(model, arguments.tokens, arguments.device)}
            if not arguments.no_compile and dtype != torch.float16:
                try:
                    found[name]["static cache, compiled"] = rate(model, arguments.tokens, arguments.device, cache_implementation="static")
                except Exception as error:  # noqa: BLE001  (a row of the table, no more)
                    found[name]["failed"] = str(error)[:300]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
