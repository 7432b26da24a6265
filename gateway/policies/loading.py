"""The first load of the policies, with what earlier runs have left."""

from gateway.links.cache import LinkCache
from gateway.policies.repository import PolicyRepository


async def load_policies_and_links(policies: PolicyRepository, links: LinkCache) -> None:
    """Load the policies; once more if an earlier run left copies of the links they name."""
    await policies.start()
    urls = set(policies.links())
    if urls:
        await links.load(urls)
        if any(links.find_copy(url) is not None for url in urls):
            await policies.reload()
