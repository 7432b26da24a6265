"""What the parts of blocks cost, for one tokenizer, tag and pair of tools.

Parts end where tokenizers split anyway, so that they add up to the whole. What an entry costs depends on what follows
it: its price is the most that it can be, and what that is too much is known when the block is written.
"""

from gateway.domain.injection import OwnTools
from gateway.domain.resource import Resource, ResourceKind
from gateway.injection.blocks import (
    CONTEXT,
    MATERIALS,
    SECTIONS,
    flatten,
    format_description,
    format_end,
    format_hint,
    format_line,
    format_marker,
    format_more,
    format_resource,
    price_entry,
)
from gateway.injection.neutral import neutralize
from gateway.selection.pricing import BlockPrices, LinePrice, Pricing
from gateway.tokens import TokenCount


def make_pricing(tools: OwnTools, tag: str, count: TokenCount) -> Pricing:
    """Prices as blocks are written."""

    def price_line(resource: Resource) -> LinePrice:
        return LinePrice(count(format_line(resource) + "\n"), count(format_description(resource) + "\n"))

    sections = {category: count(format_marker(title, tag)) for category, title in SECTIONS.items()}
    prices = BlockPrices(
        marker=count(format_marker(CONTEXT, tag)),
        end=count(format_end(tag)),
        schemas=sum(count(bytes(schema).decode()) for schema in tools.schemas),
        catalogue_frame=count(format_marker(MATERIALS, tag)) + count(format_hint(tools) + "\n"),
        line=price_line,
        more=lambda hidden: count(format_more(hidden, tools) + "\n"),
        section=lambda category: sections[category],
        note=lambda text: price_entry(flatten(text), count),
    )

    def price(resource: Resource, text: str) -> int:
        if resource.kind is ResourceKind.TOOL:
            return count(neutralize(text))
        return price_entry(format_resource(resource, text), count)

    return Pricing(price, prices)
