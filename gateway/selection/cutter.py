"""How texts that do not fit are shortened for one selection."""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from gateway.domain.summary import SUMMARIZE, SummaryOrder, SummaryTable, choose_size
from gateway.selection.truncate import Count, truncate


class CutText(NamedTuple):
    """What fits of a text, "" if nothing useful does."""

    text: str
    summarized: bool = False


class Cutter(msgspec.Struct, frozen=True):
    """Cuts texts as their resources say, for a question where there is one.

    A summary that is not there yet is noted as missing, and the best sentences take its place.
    """

    question: str = ""
    table: SummaryTable | None = None  # None: no model is configured that could summarize
    loaded: Mapping[SummaryOrder, str] = msgspec.field(default_factory=dict)
    missing: list[SummaryOrder] = msgspec.field(default_factory=list)

    def cut(self, text: str, limit: int, count: Count, how: str) -> CutText:
        if how == SUMMARIZE and self.table is not None:
            frame = count("")
            order = SummaryOrder(text, choose_size(limit - frame, self.table.most))
            summary = self._find_summary(order, self.table) if order.tokens else None
            if summary is not None:
                # Whoever wrote it may not have kept to its size.
                return CutText(truncate(summary, frame + order.tokens, count, how, self.question), summarized=True)
        return CutText(truncate(text, limit, count, how, self.question))

    def _find_summary(self, order: SummaryOrder, table: SummaryTable) -> str | None:
        found = self.loaded.get(order) or table.find(order)
        if found is None:
            self.missing.append(order)
        return found


PLAIN_CUTTER = Cutter()  # nothing is noted without a table
