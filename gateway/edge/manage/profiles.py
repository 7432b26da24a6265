"""`/profiles`: what agents have in common."""

from gateway.control.objects import Alike
from gateway.control.services import Services
from gateway.edge.manage.collection import Collection, Models
from gateway.edge.manage.drafts import Drafting
from gateway.edge.manage.routes import RouteGroup
from gateway.edge.manage.versions import Histories
from gateway.edge.manage.views import ALIAS, Echo, Page, Told
from gateway.policies.shapes import ProfileShape

KIND = "profiles"


class ProfileView(Told, ProfileShape):
    """A profile."""

    name: str


class ProfilePage(Page[ProfileView]):
    """A part of the list of profiles."""


class ProfileBody(Echo, ProfileShape):
    """A profile as it is sent to replace one."""

    alias: str | None = None


class NewProfile(ProfileBody):
    """A profile as it is sent to be made."""

    alias: str = ALIAS


MODELS = Models(ProfileView, ProfilePage, ProfileBody, NewProfile)


def profiles(services: Services) -> tuple[RouteGroup, ...]:
    """Everything below `/profiles`."""
    return (
        Collection(KIND, MODELS, services.objects),
        Histories(KIND, ProfileView, services.versions(Alike(KIND, services.objects))),
        Drafting(KIND, MODELS, services.drafts),
    )
