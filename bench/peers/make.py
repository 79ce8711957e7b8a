"""The worker that makes the cases of a source: make.py SOURCE. A request: {"name"}, or {"names": true} for the list of all."""

import os
import sys
import warnings

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import common  # noqa: E402

sys.path.append(os.path.join(common.cache_folder(), "bench-peers"))
os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="-1", HF_HUB_OFFLINE="1", OMP_NUM_THREADS="1")

import cases  # noqa: E402
import lines  # noqa: E402
import sources  # noqa: E402

MEMORY = 24 << 30


def main():
    replies = lines.Replies(MEMORY)
    warnings.simplefilter("ignore")
    source = sources.load(sys.argv[1])
    for request in lines.requests():
        if "names" in request:
            replies.reply({"names": source.names()})
            continue
        name = request["name"]
        replies.stage(name)
        try:
            cases.save(sys.argv[1], name, source.make(name))
            replies.reply({"made": True})
        except Exception as error:  # exporters raise anything
            text = str(error).strip()
            replies.reply({"made": False, "reason": f"{type(error).__name__}: {text.splitlines()[0] if text else ''}"[:300]})


if __name__ == "__main__":
    main()
