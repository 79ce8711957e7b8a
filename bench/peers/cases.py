"""A case: a model and inputs for it, kept as two files in the folder of its source."""

import hashlib
import os
import pickle
from dataclasses import dataclass

import common


@dataclass
class Case:
    model: bytes
    feeds: list  # of {input: array, or list of arrays}; several where the model leaves sizes open


class NotMade(Exception):
    """The source's own library or exporter does not make this case; the text says why."""


def folder_of(source):
    return os.path.join(common.cache_folder(), "bench-peers-models", source)


def path_of(source, name):
    """The path of a case's files without their endings. Names hold any characters, so files are called by their hash."""
    return os.path.join(folder_of(source), hashlib.sha256(name.encode()).hexdigest()[:16])


def is_made(source, name):
    return os.path.exists(path_of(source, name) + ".onnx")


def save(source, name, case):
    path = path_of(source, name)
    os.makedirs(folder_of(source), exist_ok=True)
    with open(path + ".feeds", "wb") as file:
        pickle.dump(case.feeds, file)
    with open(path + ".new", "wb") as file:
        file.write(case.model)
    os.replace(path + ".new", path + ".onnx")  # the model last: a case is there when it is whole


def load_feeds(path):
    with open(path + ".feeds", "rb") as file:
        return pickle.load(file)


def seed_of(name):
    """A seed for what a case draws, so that it does not depend on which cases were made before."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "little")
