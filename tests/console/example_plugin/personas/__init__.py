"""An example of a plug-in: two resource types, of which the first brings an icon and an editor that work."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from gateway.resources.base import ResourceType
from gateway.resources.console_assets import ConsoleAssets

FOLDER = Path(__file__).parent / "console"
HOSTILE = "<img src=x onerror=\"document.title='owned'\">"


class PersonaData(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    role: str
    knows: list[str] = []


class Persona(ResourceType):
    """Whom the model speaks to."""

    alias = "persona"
    name = "Persona"
    description = "Whom the model speaks to"
    data = PersonaData
    console = ConsoleAssets(FOLDER, ("editor.js", "parts/chips.js", "icon.svg"), editor="editor.js", icon="icon.svg")

    def render(self, data: PersonaData, material: str | None) -> str:
        return f"You speak to a {data.role} who knows: {', '.join(data.knows) or 'nothing special'}."


class Riddle(Persona):
    """A type whose editor fails, and whose texts are hostile."""

    alias = "riddle"
    name = HOSTILE
    description = HOSTILE
    icon = HOSTILE
    console = ConsoleAssets(FOLDER, ("broken.js",), editor="broken.js")
