"""At any size, an edit of a text keeps the snapshot; the full figures come from scripts.content_figures."""

from pathlib import Path

from scripts.content_figures import measure


async def test_edits_of_texts_lose_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "policies"
    folder.mkdir()
    figures = await measure(600, f"sqlite:///{tmp_path}/gateway.db", folder)
    assert figures["snapshots lost"] == 0
    assert figures["edit a text ms"] < 1000
