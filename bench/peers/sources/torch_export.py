"""torch's two exporters, to bytes."""

import io

import torch


def array(tensor):
    return tensor.detach().resolve_conj().resolve_neg().contiguous().numpy()


def traced(module, tensors, names, outputs=None, dynamic_axes=None, opset=17):
    file = io.BytesIO()
    with torch.no_grad():
        torch.onnx.export(
            module, tensors, file, dynamo=False, opset_version=opset, input_names=names, output_names=outputs, dynamic_axes=dynamic_axes
        )
    return file.getvalue()


def dynamo(module, tensors, names, dynamic_shapes=None, keywords=None):
    with torch.no_grad():
        program = torch.onnx.export(
            module, tensors, kwargs=keywords, dynamo=True, input_names=names, dynamic_shapes=dynamic_shapes, verbose=False, optimize=True
        )
    return program.model_proto.SerializeToString()


def feeds_of(model, names, tensors):
    """Exporters drop inputs that are not needed."""
    import onnx

    known = {value.name for value in onnx.load_model_from_string(model).graph.input}
    return {name: array(tensor) for name, tensor in zip(names, tensors) if name in known}
