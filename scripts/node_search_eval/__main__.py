"""How well nodes are found by questions that share no word with them: by words alone, and by words and meaning.

Run: .venv/bin/python -m scripts.node_search_eval [--bystanders docs]
"""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from scripts.node_search_eval.evaluation import (
    SearchFigures,
    measure,
    opened,
    read_bystanders,
    read_off_topic,
    read_pages,
    wait_until_embedded,
)

LEAST_RECALL = 0.6  # target; and no more questions of others may get something than with words alone


async def run(bystanders: Path | None) -> tuple[SearchFigures, SearchFigures]:
    """The figures with words alone, and with meanings."""
    pages = read_pages() | (read_bystanders(bystanders) if bystanders is not None else {})
    with tempfile.TemporaryDirectory() as folder:
        async with opened(pages, Path(folder)) as gateway:
            await wait_until_embedded(gateway)
            off_topic = read_off_topic()
            words = await measure(gateway, pages, off_topic, semantic=False)
            return words, await measure(gateway, pages, off_topic, semantic=True)


def main() -> int:
    root = argparse.ArgumentParser(description=__doc__)
    root.add_argument("--bystanders", type=Path, help="a folder of Markdown whose sections are further nodes")
    words, both = asyncio.run(run(root.parse_args().bystanders))
    sys.stdout.write("                    recall@5  first  proposed  questions of others that get something\n")
    for name, one in (("words", words), ("words and meaning", both)):
        sys.stdout.write(
            f"{name:<20}{one.recall:>8.2f}{one.found_first:>7.2f}{one.proposed:>10.1f}{one.false_proposals:>10.3f}\n"
        )
    reached = both.recall >= LEAST_RECALL and both.false_proposals <= words.false_proposals
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
