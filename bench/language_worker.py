"""Runs language models in Rewright, onnxruntime-genai or llama.cpp, for bench/decoding: a line of JSON for each request, and one as the reply.

  {"op": "open", "engine": "rewright", "genai" or "llama.cpp", "folder": (of llama.cpp: the file), "threads": N, "package": Rewright's folder}
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


ENGINES = {"rewright": Rewright, "genai": Genai, "llama.cpp": LlamaCpp}


def generate(engine, prompt, count):
    start = time.perf_counter()
    coming = iter(engine.start(prompt, count))
    tokens = [next(coming)]
    middle = time.perf_counter()
    tokens += coming
    each = (time.perf_counter() - middle) / max(1, len(tokens) - 1)
    return {"tokens": tokens, "prompt_seconds": middle - start, "step_seconds": each, "peak_bytes": peak_bytes()}


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
