"""Runs language models in Rewright, onnxruntime-genai, llama.cpp or openvino-genai, for bench/decoding: a line of JSON for each request, and one as the reply.

  {"op": "open", "engine": "rewright", "genai", "llama.cpp" or "openvino", "folder": (of the last two: the file), "threads": N,
   "package": Rewright's folder}
      -> {"seconds": of loading}
  {"op": "generate", "prompt": [tokens], "count": N}
      -> {"tokens": [...], "prompt_seconds": until the first token, "step_seconds": for each other, "peak_bytes": of the process}

Tokens are the most likely ones, until one ends the text.
"""

import json
import sys
import time

from json_worker import peak_bytes, serve


class Rewright:
    def __init__(self, folder, threads, package):
        sys.path.insert(0, package)
        import rewright

        self.model = rewright.LanguageModel(folder, threads=threads)

    def start(self, prompt, count):
        return self.model.generate(prompt, max_tokens=count, temperature=0, repetition_penalty=1)


class Genai:
    def __init__(self, folder, threads, package):
        import onnxruntime_genai

        self.package = onnxruntime_genai
        config = onnxruntime_genai.Config(folder)
        settings = {"session_options": {"intra_op_num_threads": threads}}
        config.overlay(json.dumps({"model": {"decoder": settings}}))
        self.model = onnxruntime_genai.Model(config)

    def start(self, prompt, count):
        parameters = self.package.GeneratorParams(self.model)
        parameters.set_search_options(max_length=len(prompt) + count, do_sample=False)
        generator = self.package.Generator(self.model, parameters)
        generator.append_tokens([prompt])
        while not generator.is_done():
            generator.generate_next_token()
            yield int(generator.get_next_tokens()[0])


class LlamaCpp:
    def __init__(self, file, threads, package):
        import llama_cpp

        del package
        self.model = llama_cpp.Llama(file, n_ctx=1024, n_batch=512, n_threads=threads, n_threads_batch=threads, verbose=False)

    def start(self, prompt, count):
        self.model.reset()  # otherwise a prompt that was there before is not computed again
        for number, token in enumerate(self.model.generate(prompt, temp=0, top_k=1, repeat_penalty=1)):
            yield int(token)
            if number + 1 == count or token == self.model.token_eos():
                return


class OpenVino:
    """openvino-genai tells tokens by calling back, not by a generator. By default it attends in pages, and remembers prompts that were
    there before."""

    def __init__(self, file, threads, package):
        import numpy
        import openvino
        import openvino_genai

        del package
        self.package, self.tensor = openvino_genai, lambda prompt: openvino.Tensor(numpy.array([prompt], numpy.int64))
        self.pipeline = openvino_genai.LLMPipeline(file, "CPU", INFERENCE_NUM_THREADS=threads, ATTENTION_BACKEND="SDPA")

    def generate(self, prompt, count):
        """Tokens, and when each came."""
        tokens, times = [], []

        class Streamer(self.package.StreamerBase):
            def write(self, given):
                new = given if isinstance(given, list) else [given]
                tokens.extend(new)
                times.extend([time.perf_counter()] * len(new))
                return status

            def end(self):
                pass

        status = self.package.StreamingStatus.RUNNING
        config = self.package.GenerationConfig()
        config.max_new_tokens, config.do_sample = count, False
        self.pipeline.generate(self.tensor(prompt), config, Streamer())
        return tokens, times


ENGINES = {"rewright": Rewright, "genai": Genai, "llama.cpp": LlamaCpp, "openvino": OpenVino}


def generated(engine, prompt, count):
    """Tokens, and when each came."""
    if hasattr(engine, "generate"):
        return engine.generate(prompt, count)
    tokens, times = [], []
    for token in engine.start(prompt, count):
        tokens.append(token)
        times.append(time.perf_counter())
    return tokens, times


def generate(engine, prompt, count):
    start = time.perf_counter()
    tokens, times = generated(engine, prompt, count)
    if not tokens:
        raise RuntimeError("no token came")
    each = (times[-1] - times[0]) / max(1, len(tokens) - 1)
    return {"tokens": tokens, "prompt_seconds": times[0] - start, "step_seconds": each, "peak_bytes": peak_bytes()}


ENGINE = None


def answer(request):
    global ENGINE
    if request["op"] == "open":
        start = time.perf_counter()
        ENGINE = ENGINES[request["engine"]](request["folder"], request["threads"], request["package"])
        return {"seconds": time.perf_counter() - start}
    return generate(ENGINE, request["prompt"], request["count"])


if __name__ == "__main__":
    serve(answer)
