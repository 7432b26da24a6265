"""Writes ONNX files: the few protobuf messages that a model needs, byte for byte the same every time.

Field numbers are those of onnx.proto. The `onnx` package would bring three others along and write other bytes with
every release; the bytes of a model are its identity here.
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

    def constant(self, name: str, value: np.ndarray) -> str:
        """Keep `value` as a weight called `name`; returns the name."""
        self.tensors[name] = tensor(name, value)
        return name

    def node(self, op: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Attribute) -> str:
        """Add a standard operator; returns its first output."""
        return self._add(op, "", inputs, outputs, attributes)

    def fused(self, op: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Attribute) -> str:
        """Add one of onnxruntime's own operators; returns its first output."""
        return self._add(op, CONTRIB, inputs, outputs, attributes)

    def _add(
        self, op: str, domain: str, inputs: Sequence[str], outputs: Sequence[str], attributes: Mapping[str, Attribute]
    ) -> str:
        parts = [text(1, name) for name in inputs] + [text(2, name) for name in outputs]
        parts += [text(3, outputs[0]), text(4, op)]
        parts += [message(5, attribute(name, value)) for name, value in sorted(attributes.items())]
        self.nodes.append(b"".join([*parts, text(7, domain)]))
        return outputs[0]


@dataclass(frozen=True, slots=True)
class Port:
    """An input or output: its element type and its shape, a name standing for a size that varies."""

    name: str
    element: str
    shape: tuple[int | str, ...]


def model(graph: Graph, inputs: Sequence[Port], outputs: Sequence[Port]) -> bytes:
    """The bytes of the file."""
    body = [message(1, node) for node in graph.nodes] + [text(2, "graph")]
    body += [message(5, value) for value in graph.tensors.values()]
    body += [message(11, _port(port)) for port in inputs] + [message(12, _port(port)) for port in outputs]
    opsets = [text(1, "") + number(2, OPSET), text(1, CONTRIB) + number(2, 1)]
    head = number(1, IR_VERSION) + text(2, "context-gateway")
    return head + message(7, b"".join(body)) + b"".join(message(8, opset) for opset in opsets)


def tensor(name: str, value: np.ndarray) -> bytes:
    dims = b"".join(number(1, size) for size in value.shape)
    little = np.ascontiguousarray(value).astype(value.dtype.newbyteorder("<"), copy=False)
    return dims + number(2, ELEMENT_TYPES[value.dtype.name]) + text(8, name) + message(9, little.tobytes())


def attribute(name: str, value: Attribute) -> bytes:
    if isinstance(value, int):
        return text(1, name) + number(3, value) + number(20, 2)
    return text(1, name) + varint(2 << 3 | 5) + struct.pack("<f", value) + number(20, 1)


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(tag: int, value: int) -> bytes:
    return varint(tag << 3) + varint(value & 0xFFFFFFFFFFFFFFFF)


def message(tag: int, body: bytes) -> bytes:
    return varint(tag << 3 | 2) + varint(len(body)) + body


def text(tag: int, value: str) -> bytes:
    return message(tag, value.encode())


def _port(port: Port) -> bytes:
    dims = [text(2, size) if isinstance(size, str) else number(1, size) for size in port.shape]
    shape = b"".join(message(1, dim) for dim in dims)
    kind = number(1, ELEMENT_TYPES[port.element]) + message(2, shape)
    return text(1, port.name) + message(2, message(1, kind))
