"""`/agents`: who answers, with which instructions and contexts."""

from gateway.control.objects import Alike
from gateway.control.services import Services
from gateway.edge.manage.collection import Collection, Models
from gateway.edge.manage.drafts import Drafting
from gateway.edge.manage.routes import RouteGroup
from gateway.edge.manage.versions import Histories
from gateway.edge.manage.views import ALIAS, Echo, Page, Told
from gateway.policies.shapes import AgentShape

KIND = "agents"


class AgentView(Told, AgentShape):
    """An agent."""

    name: str


class AgentPage(Page[AgentView]):
    """A part of the list of agents."""


class AgentBody(Echo, AgentShape):
    """An agent as it is sent to replace one."""

    alias: str | None = None


class NewAgent(AgentBody):
    """An agent as it is sent to be made."""

    alias: str = ALIAS


MODELS = Models(AgentView, AgentPage, AgentBody, NewAgent)


def agents(services: Services) -> tuple[RouteGroup, ...]:
    """Everything below `/agents`."""
    return (
        Collection(KIND, MODELS, services.objects),
        Histories(KIND, AgentView, services.versions(Alike(KIND, services.objects))),
        Drafting(KIND, MODELS, services.drafts),
    )
