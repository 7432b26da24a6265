"""`/prompts`: templates for the last user text."""

from gateway.control.objects import Alike
from gateway.control.services import Services
from gateway.edge.manage.collection import Collection, Models
from gateway.edge.manage.drafts import Drafting
from gateway.edge.manage.routes import RouteGroup
from gateway.edge.manage.versions import Histories
from gateway.edge.manage.views import ALIAS, Echo, Page, Told
from gateway.policies.shapes import PromptShape

KIND = "prompts"


class PromptView(Told, PromptShape):
    """A prompt."""

    name: str


class PromptPage(Page[PromptView]):
    """A part of the list of prompts."""


class PromptBody(Echo, PromptShape):
    """A prompt as it is sent to replace one."""

    alias: str | None = None


class NewPrompt(PromptBody):
    """A prompt as it is sent to be made."""

    alias: str = ALIAS


MODELS = Models(PromptView, PromptPage, PromptBody, NewPrompt)


def prompts(services: Services) -> tuple[RouteGroup, ...]:
    """Everything below `/prompts`."""
    return (
        Collection(KIND, MODELS, services.objects),
        Histories(KIND, PromptView, services.versions(Alike(KIND, services.objects))),
        Drafting(KIND, MODELS, services.drafts),
    )
