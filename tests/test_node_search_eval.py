"""Questions that share no word with their pages find them; those that no page answers find less than by words alone."""

from pathlib import Path

import pytest

from gateway.semantic.index.document_vectors import DocumentVectors
from gateway.semantic.model.files import MANIFEST, get_built_folder
from scripts.node_search_eval.__main__ import LEAST_RECALL
from scripts.node_search_eval.evaluation import measure, opened, read_off_topic, read_pages, wait_until_embedded


@pytest.mark.skipif(
    not (get_built_folder() / MANIFEST).is_file(), reason="the embedding model is not there: run scripts/model"
)
async def test_meanings_find_what_words_do_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pages, off_topic = read_pages(), read_off_topic()[::4]
    async with opened(pages, tmp_path) as gateway:
        await wait_until_embedded(gateway)
        words = await measure(gateway, pages, off_topic, semantic=False)
        both = await measure(gateway, pages, off_topic, semantic=True)
        assert words.recall < 0.1, "the questions share no telling word with their pages"
        assert both.recall >= LEAST_RECALL
        assert both.false_proposals <= words.false_proposals
        monkeypatch.setattr(DocumentVectors, "compare", lambda *_: {})
        ignored = await measure(gateway, pages, (), semantic=True)
        assert ignored.recall < LEAST_RECALL, "the check notices when vectors are ignored"
