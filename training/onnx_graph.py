"""Writes the ONNX graphs of the bundled model from weights in full precision.

The one for processors has int8 matrices and rounds activations to bytes while it runs. The one for
accelerators, which lack such operators, multiplies in float32: it has no matrices of its own, but
refers to those in the first one's file, which are scaled back when a session starts.

A graph is written node by node instead of being traced from PyTorch. That keeps
the build small, lets every weight be quantised with the precision it needs, and
makes the result depend on element-wise arithmetic alone, so that the same weights
give the same bytes. The nodes are the fused operators that onnxruntime would
otherwise have to discover each time a session starts.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load as load_safetensors

ONNX_OPSET = 17
ONNX_IR = 8
FUSED = "com.microsoft"
# Weights that meet an unsigned 8-bit activation stay within 7 bits: on x86 processors without
# VNNI the kernels add two products in 16 bits, which a full-range weight would overflow.
# (quantize_dynamic in onnxruntime calls the same choice reduce_range.)
MATMUL_LIMIT = 63
# Table rows are only looked up and scaled back, so they may use the whole signed byte.
TABLE_LIMIT = 127
# GELU never falls below this, so its result needs hardly any of the range for negative values.
GELU_FLOOR = np.float32(-0.17)

Floats = NDArray[np.float32]
Bytes = NDArray[np.int8]
Tensors = dict[str, Floats]


def quantise(weight: Floats, axis: int, limit: int) -> tuple[Bytes, Floats]:
    """Round to whole steps around zero, with a step of its own for every slice.

    ``axis`` is the one that the largest magnitude is taken over. One step for the whole matrix
    would be set by its few largest entries and cost every other slice most of its precision.
    """
    peak = np.abs(weight).max(axis=axis, keepdims=True)
    scale = (np.where(peak > 0, peak, np.float32(1)) / np.float32(limit)).astype(np.float32)
    steps = np.clip(np.rint(weight / scale), -limit, limit).astype(np.int8)
    return steps, scale.squeeze(axis)


@dataclass
class Graph:
    """Collects the nodes and constants of the graph."""

    is_float: bool = False
    """Whether products are computed in float32, without rounding the activations."""
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: dict[str, onnx.TensorProto] = field(default_factory=dict)

    def constant(self, name: str, value: NDArray[Any] | np.generic) -> str:
        """Store an array under a name, once, and return the name."""
        if name not in self.constants:
            # asarray, not ascontiguousarray: the latter would turn a scalar into a row of one.
            self.constants[name] = numpy_helper.from_array(np.asarray(value, order="C"), name)
        return name

    def add(self, op: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        """Append a standard operator with one result, which also names the node."""
        self.nodes.append(helper.make_node(op, inputs, [output], name=output, **attributes))
        return output

    def add_fused(self, op: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        """Append one of onnxruntime's own fused operators."""
        return self.add(op, inputs, output, domain=FUSED, **attributes)


@dataclass(frozen=True)
class Rows:
    """The names of an activation rounded to bytes: its steps, scale per row and zero point.

    In a graph that does not round, the activation itself and two empty names.
    """

    steps: str
    scale: str = ""
    zero: str = ""


def add_table(graph: Graph, name: str, table: Floats) -> tuple[str, str]:
    """Store a lookup table as bytes plus one scale per row."""
    steps, scale = quantise(table, axis=1, limit=TABLE_LIMIT)
    return graph.constant(f"{name}.int8", steps), graph.constant(f"{name}.scale", scale[:, None])


def add_words(graph: Graph, table: Floats) -> str:
    """Look the words up while they are still bytes, so that the table is never expanded."""
    steps, scale = add_table(graph, "word_embeddings", table)
    rows = graph.add("Gather", [steps, "input_ids"], "word_rows")
    scales = graph.add("Gather", [scale, "input_ids"], "word_scales")
    floats = graph.add("Cast", [rows], "word_floats", to=TensorProto.FLOAT)
    return graph.add("Mul", [floats, scales], "words")


def add_positions(graph: Graph, table: Floats) -> str:
    """Take the first rows of the position table, as many as the text has tokens."""
    steps, scale = add_table(graph, "position_embeddings", table)
    start = graph.constant("first", np.zeros(1, np.int64))
    length = graph.add("Shape", ["input_ids"], "length", start=1, end=2)
    rows = graph.add("Slice", [steps, start, length, start], "position_rows")
    scales = graph.add("Slice", [scale, start, length, start], "position_scales")
    floats = graph.add("Cast", [rows], "position_floats", to=TensorProto.FLOAT)
    return graph.add("Mul", [floats, scales], "positions")


def add_embeddings(graph: Graph, tensors: Tensors, epsilon: float) -> str:
    """Add up word, token type and position, and normalise the sum."""
    types = graph.constant("types", tensors["embeddings.token_type_embeddings.weight"])
    words = add_words(graph, tensors["embeddings.word_embeddings.weight"])
    typed = graph.add("Gather", [types, "token_type_ids"], "type_rows")
    positions = add_positions(graph, tensors["embeddings.position_embeddings.weight"])
    words = graph.add("Add", [words, typed], "typed_words")
    placed = graph.add("Add", [words, positions], "placed_words")
    gamma = graph.constant("embedded.gamma", tensors["embeddings.LayerNorm.weight"])
    beta = graph.constant("embedded.beta", tensors["embeddings.LayerNorm.bias"])
    inputs = [placed, gamma, beta]
    return graph.add("LayerNormalization", inputs, "embedded", axis=-1, epsilon=epsilon)


def add_rounding(graph: Graph, name: str, value: str, peak: str, zero: int) -> Rows:
    """Append the rounding of every row to bytes, such that its peak becomes the largest byte.

    A row of zeros has scale zero. Its steps are then meaningless but finite, and the scale that
    multiplies them again afterwards makes the result zero, as it should be.
    """
    levels = 255 - zero
    step = graph.constant(f"1/{levels}", np.float32(1) / np.float32(levels))
    one = graph.constant("one", np.float32(1))
    middle = graph.constant(f"zero.{zero}", np.uint8(zero))
    scale = graph.add("Mul", [peak, step], f"{name}.scale")
    scaled = graph.add("Div", [value, scale], f"{name}.scaled")
    return Rows(graph.add("QuantizeLinear", [scaled, one, middle], f"{name}.uint8"), scale, middle)


def add_rows(graph: Graph, name: str, value: str) -> Rows:
    """Round an activation to bytes around zero, with one scale per token.

    DynamicQuantizeLinear would take one scale for the whole batch. Then a single large entry
    costs all tokens precision, and a text's vector depends on the texts it is batched with.
    """
    if graph.is_float:
        return Rows(value)
    size = graph.add("Abs", [value], f"{name}.size")
    peak = graph.add("ReduceMax", [size], f"{name}.peak", axes=[-1], keepdims=1)
    return add_rounding(graph, name, value, peak, zero=128)


def add_gelu_rows(graph: Graph, name: str, value: str) -> Rows:
    """Round the result of GELU to bytes above its floor, with one scale per token."""
    shift = graph.constant("gelu_shift", -GELU_FLOOR)
    raised = graph.add("Add", [value, shift], f"{name}.raised")
    if graph.is_float:
        return Rows(raised)
    peak = graph.add("ReduceMax", [raised], f"{name}.peak", axes=[-1], keepdims=1)
    return add_rounding(graph, name, raised, peak, zero=0)


def without_shift(weight: Floats, bias: Floats) -> Floats:
    """Take out of the bias what raising the input to GELU's floor adds to the product."""
    steps, scale = quantise(weight, axis=0, limit=MATMUL_LIMIT)
    change = GELU_FLOOR * (steps.sum(axis=0, dtype=np.int32) * scale)
    corrected: Floats = (bias + change).astype(np.float32)
    return corrected


def add_product(graph: Graph, name: str, rows: Rows, weight: Floats) -> str:
    """Append the product with a matrix stored as bytes with one scale per output column."""
    steps, scale = quantise(weight, axis=0, limit=MATMUL_LIMIT)
    stored = graph.constant(f"{name}.weight", steps)
    scales = graph.constant(f"{name}.weight_scale", scale)
    if graph.is_float:
        # ONNX Runtime computes both once, when the session starts.
        floats = graph.add("Cast", [stored], f"{name}.weight_floats", to=TensorProto.FLOAT)
        matrix = graph.add("Mul", [floats, scales], f"{name}.matrix")
        return graph.add("MatMul", [rows.steps, matrix], name)
    zeros = graph.constant(f"{name}.weight_zero", np.zeros(scale.shape, np.int8))
    one = graph.constant("one", np.float32(1))
    inputs = [rows.steps, stored, one, scales, rows.zero, zeros]
    product = graph.add_fused("MatMulIntegerToFloat", inputs, f"{name}.product")
    return graph.add("Mul", [product, rows.scale], name)


@dataclass(frozen=True)
class Layer:
    """Writes one encoder layer; ``name`` leads its values, ``source`` its published tensors."""

    graph: Graph
    tensors: Tensors
    config: dict[str, Any]
    name: str
    source: str

    def weight(self, part: str) -> Floats:
        """Return a matrix in the order that multiplies from the right."""
        return self.tensors[f"{self.source}{part}.weight"].T

    def bias(self, part: str) -> Floats:
        """Return the bias that goes with a matrix."""
        return self.tensors[f"{self.source}{part}.bias"]

    def attention(self, value: str) -> str:
        """Append self-attention; query, key and value are one product, so input rounds once."""
        name = f"{self.name}.attention"
        parts = [f"attention.self.{part}" for part in ("query", "key", "value")]
        weight = np.concatenate([self.weight(part) for part in parts], axis=1)
        bias = np.concatenate([self.bias(part) for part in parts])
        rows = add_rows(self.graph, f"{name}.input", value)
        joined = add_product(self.graph, f"{name}.qkv", rows, weight)
        split = [f"{name}.{part}" for part in ("query", "key", "value")]
        node = helper.make_node("Split", [joined], split, name=f"{name}.split", axis=-1)
        self.graph.nodes.append(node)
        inputs = [*split, self.graph.constant(f"{name}.bias", bias), "mask"]
        heads = int(self.config["num_attention_heads"])
        return self.graph.add_fused("MultiHeadAttention", inputs, name, num_heads=heads)

    def join(self, name: str, value: str, skip: str, part: str, bias: Floats) -> str:
        """Append the normalised sum of a branch, its bias and the value it started from."""
        inputs = [
            value,
            skip,
            self.graph.constant(f"{name}.gamma", self.tensors[f"{self.source}{part}.weight"]),
            self.graph.constant(f"{name}.beta", self.bias(part)),
            self.graph.constant(f"{name}.bias", bias),
        ]
        epsilon = float(self.config["layer_norm_eps"])
        return self.graph.add_fused("SkipLayerNormalization", inputs, name, epsilon=epsilon)

    def attend(self, value: str) -> str:
        """Append the first half: attention, its output matrix and the residual sum."""
        part, name = "attention.output.dense", f"{self.name}.attended"
        rows = add_rows(self.graph, f"{name}.input", self.attention(value))
        mixed = add_product(self.graph, f"{name}.mixed", rows, self.weight(part))
        return self.join(name, mixed, value, "attention.output.LayerNorm", self.bias(part))

    def feed_forward(self, value: str) -> str:
        """Append the second half: widen, GELU, narrow and the residual sum."""
        graph, name = self.graph, f"{self.name}.output"
        rows = add_rows(graph, f"{name}.input", value)
        wide = add_product(graph, f"{name}.wide", rows, self.weight("intermediate.dense"))
        wide_bias = graph.constant(f"{name}.wide_bias", self.bias("intermediate.dense"))
        bent = graph.add_fused("BiasGelu", [wide, wide_bias], f"{name}.gelu")
        weight = self.weight("output.dense")
        narrow = add_product(
            graph, f"{name}.narrow", add_gelu_rows(graph, f"{name}.gelu", bent), weight
        )
        bias = without_shift(weight, self.bias("output.dense"))
        return self.join(name, narrow, value, "output.LayerNorm", bias)


def float_tensors(data: bytes) -> Tensors:
    """Load the weights, and leave out the position index that is stored along with them."""
    tensors = load_safetensors(data)
    return {name: value for name, value in tensors.items() if value.dtype == np.float32}


def add_encoder(graph: Graph, tensors: Tensors, config: dict[str, Any]) -> None:
    """Append everything from token numbers to one vector per token."""
    value = add_embeddings(graph, tensors, float(config["layer_norm_eps"]))
    graph.add("Cast", ["attention_mask"], "mask", to=TensorProto.INT32)
    for index in range(int(config["num_hidden_layers"])):
        layer = Layer(graph, tensors, config, f"layer{index}", f"encoder.layer.{index}.")
        value = layer.feed_forward(layer.attend(value))
    graph.nodes[-1].output[0] = "last_hidden_state"


def build_graph(
    tensors: Tensors, config: dict[str, Any], *, is_float: bool = False
) -> onnx.GraphProto:
    """Write the graph with the names and shapes that models of this kind have on the hub."""
    graph = Graph(is_float)
    add_encoder(graph, tensors, config)
    shape = ["batch", "sequence"]
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, shape)
        for name in ("input_ids", "attention_mask", "token_type_ids")
    ]
    output = helper.make_tensor_value_info(
        "last_hidden_state", TensorProto.FLOAT, [*shape, int(config["hidden_size"])]
    )
    constants = list(graph.constants.values())
    return helper.make_graph(graph.nodes, "minilm", inputs, [output], constants)


def build_model(config: dict[str, Any], weights: bytes, properties: dict[str, str]) -> bytes:
    """Turn the weights of a safetensors file into the bytes of the quantised ONNX model.

    ``properties`` are stored beside the graph: where the weights come from, and their licence.
    """
    model = _model(build_graph(float_tensors(weights), config), properties)
    return bytes(model.SerializeToString(deterministic=True))


def build_float_model(
    config: dict[str, Any], weights: bytes, properties: dict[str, str], quantised: bytes, file: str
) -> bytes:
    """Returns the model for accelerators, whose int8 arrays lie in another model's file.

    Args:
        config: The network's sizes.
        weights: The content of the safetensors file.
        properties: Stored beside the graph.
        quantised: The content of the other model's file, from `build_model`.
        file: The name of that file, in the same folder.
    """
    model = _model(build_graph(float_tensors(weights), config, is_float=True), properties)
    for constant in model.graph.initializer:
        if constant.data_type == TensorProto.INT8:
            data = constant.raw_data
            place = {"location": file, "offset": quantised.index(data), "length": len(data)}
            constant.ClearField("raw_data")
            constant.data_location = TensorProto.EXTERNAL
            for key, value in place.items():
                constant.external_data.add(key=key, value=str(value))
    return bytes(model.SerializeToString(deterministic=True))


def _model(graph: onnx.GraphProto, properties: dict[str, str]) -> onnx.ModelProto:
    opsets = [helper.make_opsetid("", ONNX_OPSET), helper.make_opsetid(FUSED, 1)]
    model = helper.make_model(
        graph, opset_imports=opsets, ir_version=ONNX_IR, producer_name="toolscript"
    )
    helper.set_model_props(model, properties)
    onnx.checker.check_model(model)
    return model
