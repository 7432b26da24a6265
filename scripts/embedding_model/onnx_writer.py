"""Writes ONNX files: the few protobuf messages that a model needs, byte for byte the same every time.

Field numbers are those of onnx.proto. The `onnx` package would add three dependencies and write other bytes with each
release; the bytes of a model are its identity here.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

IR_VERSION, OPSET, CONTRIB = 8, 17, "com.microsoft"
ELEMENT_TYPES = {"float32": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7}

Attribute = int | float


@dataclass
class Graph:
    """A graph that grows node by node."""

    nodes: list[bytes] = field(default_factory=list)
    tensors: dict[str, bytes] = field(default_factory=dict)

    def add_constant(self, name: str, value: np.ndarray) -> str:
        """Keep `value` as a weight called `name`; returns the name."""
        self.tensors[name] = encode_tensor(name, value)
        return name

    def add_node(self, op: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Attribute) -> str:
        """Add a standard operator; returns its first output."""
        return self._add(op, "", inputs, outputs, attributes)

    def add_fused(self, op: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Attribute) -> str:
        """Add one of onnxruntime's own operators; returns its first output."""
        return self._add(op, CONTRIB, inputs, outputs, attributes)

    def _add(
        self, op: str, domain: str, inputs: Sequence[str], outputs: Sequence[str], attributes: Mapping[str, Attribute]
    ) -> str:
        parts = [encode_text(1, name) for name in inputs] + [encode_text(2, name) for name in outputs]
        parts += [encode_text(3, outputs[0]), encode_text(4, op)]
        parts += [encode_message(5, encode_attribute(name, value)) for name, value in sorted(attributes.items())]
        self.nodes.append(b"".join([*parts, encode_text(7, domain)]))
        return outputs[0]


@dataclass(frozen=True, slots=True)
class Port:
    """An input or output: its element type and its shape, a name standing for a size that varies."""

    name: str
    element: str
    shape: tuple[int | str, ...]


def encode_model(graph: Graph, inputs: Sequence[Port], outputs: Sequence[Port]) -> bytes:
    """The bytes of the file."""
    body = [encode_message(1, node) for node in graph.nodes] + [encode_text(2, "graph")]
    body += [encode_message(5, value) for value in graph.tensors.values()]
    body += [encode_message(11, _encode_port(port)) for port in inputs] + [
        encode_message(12, _encode_port(port)) for port in outputs
    ]
    opsets = [encode_text(1, "") + encode_number(2, OPSET), encode_text(1, CONTRIB) + encode_number(2, 1)]
    head = encode_number(1, IR_VERSION) + encode_text(2, "context-gateway")
    return head + encode_message(7, b"".join(body)) + b"".join(encode_message(8, opset) for opset in opsets)


def encode_tensor(name: str, value: np.ndarray) -> bytes:
    dims = b"".join(encode_number(1, size) for size in value.shape)
    little = np.ascontiguousarray(value).astype(value.dtype.newbyteorder("<"), copy=False)
    return (
        dims
        + encode_number(2, ELEMENT_TYPES[value.dtype.name])
        + encode_text(8, name)
        + encode_message(9, little.tobytes())
    )


def encode_attribute(name: str, value: Attribute) -> bytes:
    if isinstance(value, int):
        return encode_text(1, name) + encode_number(3, value) + encode_number(20, 2)
    return encode_text(1, name) + encode_varint(2 << 3 | 5) + struct.pack("<f", value) + encode_number(20, 1)


def encode_varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_number(tag: int, value: int) -> bytes:
    return encode_varint(tag << 3) + encode_varint(value & 0xFFFFFFFFFFFFFFFF)


def encode_message(tag: int, body: bytes) -> bytes:
    return encode_varint(tag << 3 | 2) + encode_varint(len(body)) + body


def encode_text(tag: int, value: str) -> bytes:
    return encode_message(tag, value.encode())


def _encode_port(port: Port) -> bytes:
    dims = [encode_text(2, size) if isinstance(size, str) else encode_number(1, size) for size in port.shape]
    shape = b"".join(encode_message(1, dim) for dim in dims)
    kind = encode_number(1, ELEMENT_TYPES[port.element]) + encode_message(2, shape)
    return encode_text(1, port.name) + encode_message(2, encode_message(1, kind))
