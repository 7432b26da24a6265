"""Progress on a terminal and elsewhere, and the summary at the end."""

import io

from gateway.commands.index import IndexSummary
from gateway.commands.indexing import ProgressBar
from gateway.semantic.index.indexer import IndexProgress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def draw(stream: io.StringIO, *progress: IndexProgress) -> str:
    shown = ProgressBar(stream)
    for one in progress:
        shown(one)
    return stream.getvalue()


def test_a_terminal_gets_one_bar_that_grows_in_its_place() -> None:
    text = draw(Terminal(), IndexProgress(50, 40, 10), IndexProgress(50, 40, 10), IndexProgress(50, 40, 40))
    assert text == (f"\r{'█' * 10}{'░' * 30} 10 of 40 passages embedded\r{'█' * 40} 40 of 40 passages embedded\n")


def test_elsewhere_there_are_a_few_lines_and_always_the_last_one() -> None:
    text = draw(io.StringIO(), *(IndexProgress(1000, 1000, done) for done in range(0, 1001, 8)))
    lines = text.splitlines()
    assert 8 <= len(lines) <= 10
    assert lines[-1] == "1000 of 1000 passages embedded"


def test_nothing_to_do_shows_nothing() -> None:
    assert draw(Terminal(), IndexProgress(50, 0, 0)) == ""


def test_the_summary_says_how_many_were_already_embedded() -> None:
    assert IndexSummary(50, 12).format() == "50 passages: 12 embedded now, 38 already embedded"
    assert "the next start computes them again" in IndexSummary(50, 12, kept=False).format()
