"""A page that cannot be read is a failure of its link, and of no other."""

import asyncio

import pytest

from gateway.domain.material import LinkMaterial
from gateway.links.cache import LinkCache
from gateway.links.fetch import PageReply, _extract_page
from gateway.links.page import FetchedPage
from gateway.settings import LinkSettings
from gateway.stores.memory_ephemeral import MemoryEphemeralStore

GOOD, BAD = "https://example.com/good", "https://example.com/bad"


def raising(error: Exception) -> LinkCache:
    async def fetch(url: str, etag: str | None, last_modified: str | None, workspace: str = "") -> FetchedPage:
        if url == BAD:
            raise error
        return FetchedPage(200, "text")

    return LinkCache(MemoryEphemeralStore(), LinkSettings(), fetch=fetch)


@pytest.mark.parametrize(
    "error", [LookupError("charset"), AssertionError("parser"), RecursionError(), UnicodeError("no"), MemoryError()]
)
async def test_refreshing_goes_on_whatever_a_page_makes_a_parser_raise(error: Exception) -> None:
    cache = raising(error)
    cache.track([LinkMaterial(BAD, 60), LinkMaterial(GOOD, 60)])
    refreshed = asyncio.Event()

    async def on_change(urls: frozenset[str]) -> None:
        refreshed.set()

    job = asyncio.create_task(cache.run(on_change))
    await asyncio.wait_for(refreshed.wait(), 5)
    assert not job.done()
    job.cancel()
    await asyncio.gather(job, return_exceptions=True)
    status = cache.find_status(BAD)
    assert status is not None
    assert status.failures == 1
    assert type(error).__name__ in (status.error or "") or str(error) in (status.error or "")
    assert cache.find_copy(GOOD) is not None


async def test_a_page_in_a_charset_that_does_not_exist_is_read_as_utf_8() -> None:
    page = await _extract_page(PageReply(200, {"Content-Type": "text/plain; charset=iso-8859-99"}, "é".encode()))
    assert page.text == "é"


async def test_a_tag_that_is_no_text_is_not_kept() -> None:
    page = await _extract_page(PageReply(200, {"Content-Type": "text/plain", "ETag": '"\udcff"'}, b"a"))
    assert page.etag is None
