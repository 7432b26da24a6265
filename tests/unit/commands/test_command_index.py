"""Progress on a terminal and elsewhere, and the counts at the end."""

import io

from gateway.commands.index import Counts, Shown
from gateway.semantic.index.indexer import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def drawn(stream: io.StringIO, *progress: Progress) -> str:
    shown = Shown(stream)
    for one in progress:
        shown(one)
    return stream.getvalue()


def test_a_terminal_gets_one_bar_that_grows_in_its_place() -> None:
    text = drawn(Terminal(), Progress(50, 40, 10), Progress(50, 40, 10), Progress(50, 40, 40))
    assert text == (f"\r{'█' * 10}{'░' * 30} 10 of 40 passages embedded\r{'█' * 40} 40 of 40 passages embedded\n")


def test_elsewhere_there_are_a_few_lines_and_always_the_last_one() -> None:
    text = drawn(io.StringIO(), *(Progress(1000, 1000, done) for done in range(0, 1001, 8)))
    lines = text.splitlines()
    assert 8 <= len(lines) <= 10
    assert lines[-1] == "1000 of 1000 passages embedded"


def test_nothing_to_do_shows_nothing() -> None:
    assert drawn(Terminal(), Progress(50, 0, 0)) == ""


def test_counts_say_what_was_at_hand() -> None:
    assert Counts(50, 12).as_text() == "50 passages: 12 embedded now, 38 at hand"
    assert "the next start embeds them again" in Counts(50, 12, kept=False).as_text()
