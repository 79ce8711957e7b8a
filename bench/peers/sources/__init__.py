"""Where cases come from. A source is a module with names(), the names of all its cases in a fixed order, and make(name), a Case."""

import importlib

# Source: what the table says of it.
SOURCES = {
    "scikit": "scikit-learn's estimators, by skl2onnx",
    "trees": "LightGBM and XGBoost, by onnxmltools",
    "tensorflow_operators": "TensorFlow's operators, by tf2onnx",
    "keras_layers": "Keras' layers and small models, by tf2onnx",
    "torch_traced": "torch.testing's samples of operators, by the tracing exporter",
    "torch_dynamo": "torch.testing's samples of operators, by the dynamo exporter",
    "architectures": "transformers' architectures, small and random, open sizes, both exporters",
    "vision": "torchvision's and timm's networks, both exporters",
    "detectors": "torchvision's detectors, images of two sizes",
    "kornia_operators": "kornia's functions on images, both exporters",
    "graph_layers": "torch_geometric's layers, open numbers of nodes and edges",
    "segmentation": "networks of segmentation_models_pytorch, open sizes",
    "diffusion": "diffusers' networks, both exporters",
}


def load(name):
    return importlib.import_module(f"sources.{name}")
