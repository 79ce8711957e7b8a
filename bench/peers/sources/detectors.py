"""torchvision's detectors with random weights, thresholds so low that there are boxes, and images of two sizes."""

import numpy as np
import torch

import cases

from . import torch_export

LOW = {"box_score_thresh": 0.001, "box_detections_per_img": 20, "rpn_pre_nms_top_n_test": 100, "rpn_post_nms_top_n_test": 50}
DETECTORS = {
    "fasterrcnn_resnet50_fpn": LOW,
    "fasterrcnn_resnet50_fpn_v2": LOW,
    "fasterrcnn_mobilenet_v3_large_fpn": LOW,
    "fasterrcnn_mobilenet_v3_large_320_fpn": LOW,
    "maskrcnn_resnet50_fpn": LOW,
    "maskrcnn_resnet50_fpn_v2": LOW,
    "keypointrcnn_resnet50_fpn": LOW,
    "retinanet_resnet50_fpn": {"score_thresh": 0.001, "topk_candidates": 50, "detections_per_img": 20},
    "retinanet_resnet50_fpn_v2": {"score_thresh": 0.001, "topk_candidates": 50, "detections_per_img": 20},
    "fcos_resnet50_fpn": {"score_thresh": 0.001, "topk_candidates": 50, "detections_per_img": 20},
    "ssd300_vgg16": {"score_thresh": 0.001, "topk_candidates": 50, "detections_per_img": 20},
    "ssdlite320_mobilenet_v3_large": {"score_thresh": 0.001, "topk_candidates": 50, "detections_per_img": 20},
}
SIZES = [(96, 128), (112, 96)]


def names():
    return list(DETECTORS)


class Boxes(torch.nn.Module):
    """The network of one image; its results in the order of their names."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, image):
        results = self.network([image])[0]
        return tuple(results[key] for key in sorted(results))


def make(name):
    import torchvision

    torch.manual_seed(cases.seed_of(name))
    options = dict(DETECTORS[name])
    if "320" not in name and "300" not in name:
        options |= {"min_size": 128, "max_size": 192}
    network = torchvision.models.get_model(name, weights=None, weights_backbone=None, **options).eval()
    rng = np.random.default_rng(cases.seed_of(name))
    images = [torch.from_numpy(rng.random((3, *sizes)).astype(np.float32)) for sizes in SIZES]
    model = torch_export.traced(Boxes(network), (images[0],), ["image"], dynamic_axes={"image": {1: "height", 2: "width"}})
    return cases.Case(model, [{"image": image.numpy()} for image in images])
