"""What benches of training by several processes share: the digits of scikit-learn as files, and processes below mpirun."""

import os
import pathlib
import sys

import common

common.use_environment()
sys.path.insert(0, os.path.join(common.ROOT, "examples"))
sys.path.insert(0, os.path.join(common.ROOT, "examples", "train_digits"))

import numpy
import onnx
import train_digits
from example import write_arrays


def make_digits(folder):
    """model.onnx, train and test; the options that train it."""
    pictures, digits = train_digits.read_digits(folder)
    held_out = numpy.arange(len(digits)) % 5 == 4
    write_arrays(folder / "train", picture=pictures[~held_out], targets=digits[~held_out])
    write_arrays(folder / "test", picture=pictures[held_out], targets=digits[held_out])
    onnx.save(train_digits.network(), folder / "model.onnx")
    return ["--batch", "32", "--rate", "0.001"]


def children(process):
    return [int(p) for p in pathlib.Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def rank_of(process):
    variables = pathlib.Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
    return int(dict(v.split(b"=", 1) for v in variables if b"=" in v)[b"OMPI_COMM_WORLD_RANK"])


def by_rank(job, processes):
    """The working processes: mpirun's children watch them."""
    if processes == 1:
        return [job.pid]
    workers = [worker for watcher in children(job.pid) for worker in children(watcher)]
    return sorted(workers, key=rank_of)
