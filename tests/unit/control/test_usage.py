"""Who uses a context."""

from collections.abc import Callable

from gateway.control.usage import ContextUse, list_uses
from gateway.domain.candidate import Level
from gateway.domain.snapshot import Snapshot

POLICIES = """
contexts:
  voice: {default: true}
  legal: {mandatory: true}
  blog: {}
  unused: {}
profiles:
  writing: {contexts: [voice]}
agents:
  seo: {name: SEO writer, contexts: [voice, blog]}
prompts:
  teaser: {contexts: [voice]}
content:
  site:
    title: Site
    contexts: [voice]
    children:
      plain: {}
      blog:
        contexts: [blog]
        inherit: merge
        children: {first: {}, second: {}}
      shop:
        contexts: [blog]
        children: {lamp: {}}
"""

Load = Callable[[str], Snapshot]


def test_every_level_that_names_a_context_is_listed_from_broad_to_narrow(policies: Load) -> None:
    assert list_uses("voice", policies(POLICIES)) == [
        ContextUse(Level.GLOBAL, "", "Requests that nothing else applies to", "default"),
        ContextUse(Level.PROFILE, "writing", "Writing"),
        ContextUse(Level.AGENT, "seo", "SEO writer"),
        ContextUse(Level.PROMPT, "teaser", "Teaser"),
        # plain, blog and its two pages; the shop replaces it.
        ContextUse(Level.CONTENT, "site", "Site", path="site", inherited=4),
    ]


def test_nodes_that_replace_what_comes_from_above_do_not_inherit(policies: Load) -> None:
    found = list_uses("blog", policies(POLICIES))
    assert [(use.entity, use.inherited) for use in found] == [("seo", None), ("site/blog", 2), ("site/shop", 1)]


def test_a_mandatory_context_is_used_by_every_request(policies: Load) -> None:
    assert list_uses("legal", policies(POLICIES)) == [ContextUse(Level.GLOBAL, "", "Every request", "mandatory")]


def test_nobody_uses_an_unused_context(policies: Load) -> None:
    assert list_uses("unused", policies(POLICIES)) == []
