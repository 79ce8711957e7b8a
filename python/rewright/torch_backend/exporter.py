"""Graphs of torch in ONNX, by torch's own exporter.

torch.onnx.export traces a program before it translates it. The graphs here are traced already, with the sizes that dynamo keeps open,
so that only the second half of the exporter is used, operator by operator. That half is torch's own but not public: everything that the
rest of this package needs of it is in this file, and where a version of torch has it no more, importing this file fails and graphs stay
with torch.
"""

import functools
import logging
import operator

import onnxscript
import torch
from onnx_ir.passes import common as passes
from onnxscript import ir
from torch._subclasses.fake_tensor import FakeTensor
from torch.onnx._internal.exporter import _constants, _core, _decomp, _fx_passes, _ir_passes, _registration, _tensors

from . import decompositions
from .lowering import origin

_LARGEST = 1_900_000_000  # bytes of a model: Protobuf's limit is 2^31


class TooLarge(Exception):
    """The constants are more than a model in memory can hold."""


class Exporter:
    """Made once: the table of translations takes a second to read."""

    def __init__(self):
        self.registry = _registration.ONNXRegistry.from_torchlib()
        self.opset = onnxscript.values.Opset("", self.registry.opset_version)
        implemented = {
            target for target in _decomp.get_onnx_implemented_overloads(self.registry) if not decompositions.is_taken_apart_first(target)
        }
        self.decompositions = _decomp.create_onnx_friendly_decomposition_table(implemented)
        self.decompositions.update(decompositions.TABLE)
        for target in decompositions.NEVER:
            self.decompositions.pop(target, None)

    def promote(self, module):
        """Makes the conversions explicit that torch's operators do by themselves. Changes the module."""
        _fx_passes.insert_type_promotion_nodes(module)

    def untranslatable(self, module, candidates):
        """The candidates, nodes of the module's graph, that cannot be translated, each with the reason.

        What follows a node that cannot be is tried with unknown values in its place.
        """
        translation = _Translation(self)
        reasons = {}
        for node in module.graph.nodes:
            if node.op == "output":
                continue
            if node.op == "call_function" and (node in candidates or node.target is operator.getitem):
                try:
                    translation.call(node)
                    continue
                except Exception as error:  # noqa: BLE001  (translations are functions of many authors)
                    reasons[node] = _first_line(error)
            translation.unknown(node)
        return {node: reason for node, reason in reasons.items() if node in candidates}

    def model(self, module, constants):
        """A serialized ONNX model of a graph of translatable nodes: an input a placeholder, in order, but for `constants`, which are
        tensors by name of their placeholders, and an output each output. Nodes are called NODE/I after those that they come from."""
        if sum(tensor.numel() * tensor.element_size() for tensor in constants.values()) > _LARGEST:
            raise TooLarge
        translation = _Translation(self)
        graph = translation.model.graph
        for node in module.graph.nodes:
            if node.op == "placeholder":
                value = translation.placeholder(node)
                if node.name in constants:
                    graph.inputs.remove(value)
                    value.const_value = _core.TorchTensor(constants[node.name].detach().contiguous(), name=node.name)
                    graph.initializers[node.name] = value
            elif node.op == "get_attr":
                translation.constant(node, operator.attrgetter(node.target)(module))
            elif node.op == "call_function":
                translation.call(node)
            elif node.op == "output":
                for number, output in enumerate(node.args[0]):
                    graph.outputs.append(translation.output(translation.values[output.name], number))
        return translation.bytes()


class _Translation:
    def __init__(self, exporter):
        self.exporter = exporter
        self.values = {}
        self.constants = {}
        graph = ir.Graph([], [], nodes=[], name="torch")
        self.model = ir.Model(graph=graph, ir_version=_constants.ONNX_IR_VERSION, producer_name="pytorch")

    def placeholder(self, node):
        graph = self.model.graph
        _core._handle_placeholder_node(node, self.values, graph_like=graph, lower="at_conversion", opset=self.exporter.opset)
        return self.values[node.name]

    def unknown(self, node):
        """A value, or several, that only have a type."""
        meta = node.meta.get("val")
        several = isinstance(meta, (list, tuple))
        made = [_tensors.SymbolicTensor(self.exporter.opset, name=f"{node.name}.{i}") for i in range(len(meta) if several else 1)]
        for value, one in zip(made, meta if several else [meta]):
            if one is not None:
                _core._set_shape_type(value, one, complex_to_float=True)
        self.values[node.name] = made if several else made[0]

    def constant(self, node, tensor):
        if not isinstance(tensor, torch.Tensor) or isinstance(tensor, FakeTensor):
            raise TypeError(f"{node.name} is no constant tensor")
        value = ir.Value(name=node.name, const_value=_core.TorchTensor(tensor.detach().contiguous(), name=node.name))
        _core._set_shape_type(value, tensor, complex_to_float=True)
        self.model.graph.initializers[node.name] = value
        self.values[node.name] = value

    def output(self, value, number):
        """The value, or a copy where it is an input, a constant or an output already."""
        graph = self.model.graph
        if value.producer() is not None and all(value is not other for other in graph.outputs):
            return value
        copy = ir.node("Identity", [value], name=f"output/{number}")
        graph.append(copy)
        copy.outputs[0].name, copy.outputs[0].type, copy.outputs[0].shape = f"output_{number}", value.type, value.shape
        return copy.outputs[0]

    def call(self, node):
        # The exporter reports an absent stack of modules on every node.
        node.meta.setdefault("nn_module_stack", {})
        _core._handle_call_function_node_with_lowering(
            self.model,
            node,
            self.values,
            graph_like=self.model.graph,
            constant_farm=self.constants,
            registry=self.exporter.registry,
            opset=self.exporter.opset,
            node_name_to_local_functions={},
        )

    def bytes(self):
        numbers = {}
        for node in self.model.graph:
            of = node.meta.get("node")
            if of is not None:
                name = origin(of)
                numbers[name] = numbers.get(name, -1) + 1
                node.name = f"{name}/{numbers[name]}"
            node.metadata_props.clear()  # stacks and file names: the same graph has the same bytes wherever it stands
        _ir_passes.add_opset_imports(self.model)
        # Outputs that nothing reads, too: the places of a pool's maxima would be computed.
        passes.RemoveUnusedNodesPass()(self.model)
        return ir.serde.serialize_model(self.model).SerializeToString(deterministic=True)


def _first_line(error):
    """The innermost reason of an exporter's error."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


@functools.cache
def exporter():
    logging.getLogger("onnxscript").setLevel(logging.ERROR)
    return Exporter()
