"""Compiles resources that are looked up: which modes make sense, and whether what they name is there."""

from msgspec.structs import replace

from gateway.domain.resource import Mode, Resource, ResourceKind
from gateway.policies.shapes import ResourceShape
from gateway.resources.retriever import RetrieverData


def find_retriever_fault(shape: ResourceShape) -> str | None:
    """What is wrong with what a retriever says besides its data."""
    if shape.required or shape.mandatory:
        return "a retriever may be late or find nothing: it can be neither required nor mandatory"
    if shape.mode in (Mode.SEMANTIC, Mode.ON_DEMAND) and not (shape.description.strip() or shape.examples):
        return f"a retriever that is {shape.mode} needs a description: it is what questions and models choose it by"
    return None


def compile_retriever(resource: Resource, data: RetrieverData, kind: ResourceKind | None) -> Resource:
    """The resource of a retriever; what it finds is something to know, unless the policy says otherwise."""
    return replace(resource, data=data.to_retriever(), kind=kind or ResourceKind.REFERENCE)
