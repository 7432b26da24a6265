"""`gateway index`: computes missing embeddings ahead of the first request."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, TextIO

import msgspec

from gateway.commands.common import OK, Subparsers, add_common_options, load_command_settings, run_async
from gateway.commands.indexing import ProgressBar, run_indexer

if TYPE_CHECKING:
    from gateway.settings import Settings


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("index", help="compute missing embeddings")
    add_common_options(parser, json=False)
    parser.add_argument("--all", action="store_true", help="embed on-demand resources even if none is semantic")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    print(run_async(build_index(load_command_settings(arguments), sys.stderr, arguments.all)).format())
    return OK


class IndexSummary(msgspec.Struct, frozen=True):
    """How many passages an index holds, and how many of them were embedded now."""

    passages: int = 0
    embedded: int = 0
    kept: bool = True  # the vectors outlive the command

    def format(self) -> str:
        present = self.passages - self.embedded
        text = f"{self.passages} passages: {self.embedded} embedded now, {present} already embedded"
        return (
            text if self.kept else f"{text}; a memory: store keeps no embeddings, so the next start computes them again"
        )


async def build_index(settings: Settings, stream: TextIO, everything: bool = False) -> IndexSummary:
    """Compute missing embeddings; raises ServiceUnavailable if that is not possible.

    Where nothing is semantic a gateway embeds on-demand resources once a model searches them; `everything` does so now.
    """
    from gateway.app import Gateway

    gateway = await Gateway.open(settings)
    try:
        if everything and gateway.semantic is not None:
            gateway.semantic.enable()
        async with run_indexer(gateway, ProgressBar(stream)) as service:
            if service.indexer is None:
                return IndexSummary()
            progress = service.indexer.progress
            return IndexSummary(progress.total, progress.embedded, settings.store != "memory:")
    finally:
        await gateway.close()
