"""Documents written into a policy through the API that no parser can read."""

from pathlib import Path

import pytest

from tests.support.managed_gateway import running_management


@pytest.mark.parametrize("content", ["<![<![", "x<![a" * 5000])
async def test_markup_that_cannot_be_read_is_the_caller_s_mistake(content: str, tmp_path: Path) -> None:
    document = {"type": "document", "data": {"mime_type": "text/html", "content": content}}
    async with running_management(tmp_path, {"contexts": {}}) as api:
        answer = await api.ask("POST", "/contexts", {"alias": "c", "resources": [{"id": "r", **document}]})
    assert answer.status == 422
    assert "it is not HTML" in str(answer.json)
