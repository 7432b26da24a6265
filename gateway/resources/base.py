"""What a resource type is; built-in types and plugins alike."""

from typing import Any, ClassVar

from pydantic import BaseModel

from gateway.domain.material import BlobMaterial, FileMaterial, LinkMaterial, ToolListMaterial
from gateway.domain.resource import Mode
from gateway.resources.console_assets import ConsoleAssets


class ResourceType:
    """A kind of resource: its data model and how it becomes text for a model."""

    alias: ClassVar[str]
    name: ClassVar[str]
    description: ClassVar[str]
    data: ClassVar[type[BaseModel]]
    conflict_key: ClassVar[str | None] = None  # default key; resources with the same type and key exclude each other
    is_tool: ClassVar[bool] = False  # something to call, of which no text is placed
    recommended_mode: ClassVar[Mode] = Mode.ALWAYS  # a hint for editors
    icon: ClassVar[str] = "file"  # a name for editors
    console: ClassVar[ConsoleAssets | None] = None  # an icon and an editor of its own

    def material(self, data: Any) -> FileMaterial | LinkMaterial | BlobMaterial | ToolListMaterial | None:
        """What has to be read or fetched before `render` can be called, if anything."""
        return None

    def render(self, data: Any, material: str | None) -> str:
        """The text that the model sees."""
        raise NotImplementedError

    def merge(self, narrow: Any, broad: Any) -> Any:
        """The merged data of two conflicting resources, `narrow` first; by default `broad` is dropped."""
        return narrow
