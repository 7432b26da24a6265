"""Resources of the contexts that apply: filtered, each once, clashes settled."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from gateway.collectors.contexts import CollectedCandidates, build_merge, collect_contexts, matches_language
from gateway.collectors.effective import match_languages, reduce_scope
from gateway.domain.principal import ANONYMOUS, Principal
from gateway.domain.scope import ContextRequest
from gateway.domain.selection import Selection
from gateway.domain.snapshot import Snapshot
from gateway.errors import UnknownAlias
from gateway.resources.registry import load_registry
from gateway.scopes.scope import build_scope, resolve_assignments

Policies = Callable[[str], Snapshot]


def collected(snapshot: Snapshot, who: Principal = ANONYMOUS, **said: Any) -> CollectedCandidates:
    said = {name: frozenset(value) if name == "exclude" else value for name, value in said.items()}
    scope = build_scope(ContextRequest(**said), None, who, snapshot)
    sources = resolve_assignments(scope, snapshot)
    found = collect_contexts(reduce_scope(scope, sources, snapshot), snapshot, build_merge(load_registry()))
    attribute = Selection(sources=sources).attribute
    return replace(found, candidates=tuple(map(attribute, found.candidates)))


def ids(found: CollectedCandidates) -> list[str]:
    return [candidate.resource.id for candidate in found.candidates]


def dropped(found: CollectedCandidates) -> list[tuple[str, str | None]]:
    return [(left.candidate.resource.id, left.reason) for left in found.dropped]


def text(name: str, **more: Any) -> str:
    """One resource of type text, as flow YAML."""
    rest = "".join(f", {key}: {value}" for key, value in more.items())
    return f"{name}: {{type: text, data: {{content: about {name}}}{rest}}}"


BASICS = f"""
contexts:
  wide: {{resources: {{{text("one")}, {text("two")}, {text("by-hand", mode="manual")}}}}}
  narrow: {{resources: {{{text("three")}}}}}
  other: {{resources: {{{text("four", readers="['key:hr', 'user:hr']")}, {text("five", mode="on_demand")}}}}}
profiles: {{writing: {{contexts: [wide]}}}}
agents:
  editor: {{profile: writing, contexts: [narrow, wide]}}
  bare: {{}}
"""


def test_candidates_stand_in_the_order_of_their_contexts(policies: Policies) -> None:
    assert ids(collected(policies(BASICS), agent="editor")) == ["wide/one", "wide/two", "narrow/three"]


def test_a_resource_is_taken_once_at_its_first_position_with_its_narrowest_level(policies: Policies) -> None:
    first, *_ = collected(policies(BASICS), agent="editor").candidates
    assert (first.resource.id, first.level, first.entity) == ("wide/one", "agent", "editor")
    assert first.why == "assigned to agent editor"


def test_manual_resources_come_only_by_name(policies: Policies) -> None:
    found = collected(policies(BASICS), agent="editor", include=("wide/by-hand",))
    assert ids(found) == ["wide/one", "wide/two", "wide/by-hand", "narrow/three"]
    assert [one.named for one in found.candidates] == [False, False, True, False]


def test_what_is_named_need_not_be_assigned(policies: Policies) -> None:
    *_, last = collected(policies(BASICS), agent="editor", include=("other/five",)).candidates
    assert (last.resource.id, last.via, last.level, last.named) == ("other/five", "include", "session", True)


def test_an_unknown_name_is_a_fault_that_suggests_what_is_near(policies: Policies) -> None:
    with pytest.raises(UnknownAlias) as caught:
        collected(policies(BASICS), include=("wide/ones",))
    assert (caught.value.status, caught.value.code) == (400, "unknown_resource")
    assert "'wide/one'" in caught.value.message


def test_a_forbidden_name_is_an_unknown_name(policies: Policies) -> None:
    snapshot = policies(BASICS)
    with pytest.raises(UnknownAlias) as forbidden:
        collected(snapshot, include=("other/four",))
    with pytest.raises(UnknownAlias) as unknown:
        collected(snapshot, include=("other/for",))
    assert "other/four" not in unknown.value.message
    assert forbidden.value.message.replace("other/four", "x") == unknown.value.message.replace("other/for", "x")
    assert ids(collected(snapshot, Principal("hr"), include=("other/four",))) == ["other/four"]


def test_resources_for_other_readers_appear_nowhere(policies: Policies) -> None:
    snapshot = policies(BASICS.replace("contexts: [narrow, wide]", "contexts: [other]"))
    assert (ids(collected(snapshot, agent="editor"))[-1:], dropped(collected(snapshot, agent="editor"))) == (
        ["other/five"],
        [],
    )
    acting = Principal("site", rights=frozenset({"act_as_user"}))
    assert "other/four" in ids(collected(snapshot, acting, agent="editor", user="hr"))


def test_an_agent_that_takes_no_part_gets_nothing_even_by_name(policies: Policies) -> None:
    assert ids(collected(policies(BASICS), agent="bare", include=("wide/one",))) == []


def test_excluded_resources_are_dropped_with_their_reason(policies: Policies) -> None:
    found = collected(policies(BASICS), agent="editor", exclude=["wide/one", "no/such"])
    assert ids(found) == ["wide/two", "narrow/three"]
    assert dropped(found) == [("wide/one", "excluded")]


def test_inject_off_leaves_nothing(policies: Policies) -> None:
    assert collected(policies(BASICS), agent="editor", inject=False) == CollectedCandidates(())


@pytest.mark.parametrize(
    ("languages", "asked", "expected"),
    [
        (("de",), None, True),
        ((), "de", True),
        (("de",), "de", True),
        (("de",), "de-AT", True),
        (("de",), "DE-at", True),
        (("de-AT",), "de", False),
        (("de",), "den", False),
        (("en", "fr"), "de", False),
        (("en", "fr"), "fr-CA", True),
    ],
)
def test_which_languages_a_resource_speaks(languages: tuple[str, ...], asked: str | None, expected: bool) -> None:
    known = {language.lower() for language in languages}
    assert matches_language(languages, match_languages(known, asked)) is expected


def test_other_languages_are_dropped_with_their_reason(policies: Policies) -> None:
    snapshot = policies(f"contexts: {{a: {{default: true, resources: {{{text('hi', languages='[en]')}}}}}}}")
    assert dropped(collected(snapshot, language="de")) == [("a/hi", "language")]
    assert ids(collected(snapshot)) == ["a/hi"]


def test_language_is_looked_at_before_exclusion(policies: Policies) -> None:
    snapshot = policies(f"contexts: {{a: {{default: true, resources: {{{text('hi', languages='[en]')}}}}}}}")
    assert dropped(collected(snapshot, language="de", exclude=["a/hi"])) == [("a/hi", "language")]


def test_a_link_that_was_never_fetched_is_missed(policies: Policies) -> None:
    snapshot = policies(
        "contexts: {a: {default: true, resources: {page: {type: external-link, data: {url: 'https://example.com'}}}}}"
    )
    found = collected(snapshot)
    assert (ids(found), found.missing) == ([], ("a/page",))


CLASHES = f"""
contexts:
  wide: {{resources: {{{text("first")}, {text("price", key="price")}, {text("last")}}}}}
  narrow: {{resources: {{{text("offer", key="price")}, {text("other", key="else")}}}}}
  later: {{resources: {{{text("sale", key="price")}}}}}
profiles: {{writing: {{contexts: [wide]}}}}
agents:
  editor: {{profile: writing, contexts: [narrow]}}
  seller: {{profile: writing, contexts: [narrow, later]}}
prompts: {{reprice: {{contexts: [wide]}}}}
"""


def test_of_two_resources_with_one_key_the_narrower_wins(policies: Policies) -> None:
    found = collected(policies(CLASHES), agent="editor")
    assert ids(found) == ["wide/first", "wide/last", "narrow/offer", "narrow/other"]
    assert dropped(found) == [("wide/price", "overridden")]


def test_on_one_level_the_later_wins(policies: Policies) -> None:
    found = collected(policies(CLASHES), agent="seller")
    assert ids(found) == ["wide/first", "wide/last", "narrow/other", "later/sale"]
    assert dropped(found) == [("wide/price", "overridden"), ("narrow/offer", "overridden")]


def test_a_resource_wins_by_its_narrowest_level_wherever_it_stands(policies: Policies) -> None:
    found = collected(policies(CLASHES), agent="editor", prompt="reprice")
    assert ids(found) == ["wide/first", "wide/price", "wide/last", "narrow/other"]


def test_an_excluded_resource_overrides_nothing(policies: Policies) -> None:
    found = collected(policies(CLASHES), agent="editor", exclude=["narrow/offer"])
    assert "wide/price" in ids(found)


def test_one_key_of_two_types_is_no_clash(policies: Policies) -> None:
    snapshot = policies(
        f"""
contexts:
  a:
    default: true
    resources:
      {text("one", key="k")}
      two: {{type: glossary, key: k, data: {{terms: {{a: b}}}}}}
"""
    )
    assert ids(collected(snapshot)) == ["a/one", "a/two"]


VOICES = f"""
contexts:
  corporate:
    resources:
      {text("before")}
      voice: {{type: brand-voice, name: Corporate, data: {{tone: Formal, audience: Buyers, avoid: Slang}}}}
      {text("after")}
  blog:
    resources:
      {text("blog-rules")}
      relaxed: {{type: brand-voice, name: Blog, mode: MODE, data: {{tone: Casual}}}}
  post:
    resources:
      poetic: {{type: brand-voice, name: Poem, data: {{style: Rhymes}}}}
content:
  site:
    contexts: [corporate]
    children:
      blog: {{contexts: [blog], inherit: merge, children: {{poem: {{contexts: [post], inherit: merge}}}}}}
agents:
  writer: {{contexts: [corporate]}}
"""


def test_brand_voices_merge_field_by_field_where_the_broadest_stood(policies: Policies) -> None:
    found = collected(policies(VOICES.replace("MODE", "on_demand")), agent="writer", content="site/blog")
    assert ids(found) == ["corporate/before", "blog/relaxed", "corporate/after", "blog/blog-rules"]
    voice = found.candidates[1]
    assert (voice.resource.name, voice.resource.mode, voice.level) == ("Blog", "on_demand", "content")
    assert voice.resource.text == "Tone: Casual\nAudience: Buyers\nAvoid: Slang"
    assert dropped(found) == [("corporate/voice", "overridden")]


def test_several_voices_of_one_level_merge_too_the_later_leading(policies: Policies) -> None:
    found = collected(policies(VOICES.replace("MODE", "always")), content="site/blog/poem")
    voice = found.candidates[1]
    assert voice.resource.id == "post/poetic"
    assert voice.resource.text == "Tone: Casual\nAudience: Buyers\nStyle: Rhymes\nAvoid: Slang"


def test_a_voice_with_a_key_of_its_own_does_not_merge(policies: Policies) -> None:
    snapshot = policies(VOICES.replace("mode: MODE", "key: poetry"))
    assert "corporate/voice" in ids(collected(snapshot, content="site/blog"))


MANDATORY = f"""
contexts:
  legal: {{mandatory: true, resources: {{{text("imprint")}, {text("by-hand", mode="manual")}}}}}
  house: {{default: true, resources: {{{text("fixed", mandatory="true")}, {text("loose")}}}}}
  own: {{resources: {{{text("rule")}}}}}
  base: {{resources: {{{text("basis")}}}}}
  page: {{resources: {{{text("theme")}}}}}
profiles: {{basic: {{contexts: [base]}}, extra: {{contexts: [page]}}}}
agents:
  bare: {{}}
  clerk: {{contexts: [own], profile: basic}}
content: {{site: {{contexts: [page]}}}}
"""


def test_mandatory_contexts_and_resources_survive_inject_off_and_exclude(policies: Policies) -> None:
    snapshot = policies(MANDATORY)
    assert ids(collected(snapshot, inject=False)) == ["legal/imprint", "house/fixed"]
    excluded = collected(snapshot, exclude=["legal/imprint", "house/fixed", "house/loose"])
    assert ids(excluded) == ["legal/imprint", "house/fixed"]


def test_a_mandatory_context_comes_first_and_even_where_the_agent_takes_no_part(policies: Policies) -> None:
    snapshot = policies(MANDATORY)
    assert ids(collected(snapshot, content="site")) == ["legal/imprint", "page/theme"]
    found = collected(snapshot, agent="bare")
    assert [(one.resource.id, one.level, one.mandatory) for one in found.candidates] == [
        ("legal/imprint", "global", True)
    ]


def test_a_manual_resource_of_a_mandatory_context_still_has_to_be_named(policies: Policies) -> None:
    assert "legal/by-hand" in ids(collected(policies(MANDATORY), include=("legal/by-hand",)))


def test_the_agent_of_a_key_cannot_be_switched_off(policies: Policies) -> None:
    snapshot = policies(MANDATORY)
    bound = Principal("site", agent="clerk")
    assert ids(collected(snapshot, bound, inject=False, content="site")) == ["legal/imprint", "base/basis", "own/rule"]
    assert "own/rule" in ids(collected(snapshot, bound, exclude=["own/rule", "base/basis"]))
    assert "own/rule" not in ids(collected(snapshot, ANONYMOUS, agent="clerk", exclude=["own/rule"]))


def test_a_profile_that_the_caller_chose_does_not_replace_that_of_the_bound_agent(policies: Policies) -> None:
    bound = Principal("site", agent="clerk")
    found = collected(policies(MANDATORY), bound, profile="extra", exclude=["page/theme", "own/rule", "base/basis"])
    assert ids(found) == ["legal/imprint", "base/basis", "own/rule"]


RIVALS = f"""
contexts:
  legal: {{mandatory: true, resources: {{{text("law", key="law")}, {text("de", key="terms", languages="[de]")},
    {text("en", key="terms", languages="[en]")}, {text("latin", languages="[la]")}}}}}
  voices: {{mandatory: true, resources: {{official: {{type: brand-voice, data: {{tone: Formal}}}}}}}}
  own: {{resources: {{{text("rule", key="rule")}}}}}
  soft: {{resources: {{{text("law", key="law")}, {text("rule", key="rule")}, {text("terms", key="terms")},
    voice: {{type: brand-voice, data: {{tone: Casual, audience: Friends}}}}}}}}
agents: {{clerk: {{contexts: [own]}}, lax: {{contexts: [soft]}}}}
prompts: {{sly: {{contexts: [soft]}}}}
content: {{site: {{contexts: [soft]}}}}
"""
SOFT = ("soft/law", "soft/rule", "soft/terms", "soft/voice")


@pytest.mark.parametrize(
    "asked",
    [
        {"include": SOFT},
        {"prompt": "sly"},
        {"content": "site"},
        {"contexts": ("soft",)},
        {"include": SOFT, "prompt": "sly", "content": "site", "contexts": ("soft",), "language": "fr"},
    ],
)
@pytest.mark.parametrize("agent", ["clerk", "lax", None])
def test_nothing_that_a_caller_brings_in_replaces_what_is_mandatory(
    policies: Policies, asked: dict[str, Any], agent: str | None
) -> None:
    found = collected(policies(RIVALS), agent=agent, **asked)
    assert {"legal/law", "legal/en", "legal/latin"} <= set(ids(found))
    assert not {"soft/law", "soft/terms"} & set(ids(found))
    (voice,) = (one.resource for one in found.candidates if one.resource.type == "brand-voice")
    assert (voice.id, voice.text) == ("voices/official", "Tone: Formal\nAudience: Friends")


def test_nothing_that_a_caller_brings_in_replaces_what_its_bound_agent_has(policies: Policies) -> None:
    bound = Principal("site", agent="clerk")
    found = collected(policies(RIVALS), bound, include=SOFT, content="site")
    assert ("own/rule" in ids(found), "soft/rule" in ids(found)) == (True, False)
    assert "soft/rule" in ids(collected(policies(RIVALS), agent="clerk", include=SOFT))


@pytest.mark.parametrize(
    ("language", "forms"),
    [("de-AT", ["legal/de"]), ("en", ["legal/en"]), ("fr", ["legal/en"]), (None, ["legal/en"])],
)
def test_language_never_filters_out_what_is_mandatory_but_chooses_its_form(
    policies: Policies, language: str | None, forms: list[str]
) -> None:
    found = ids(collected(policies(RIVALS), language=language))
    assert [one for one in found if one in ("legal/de", "legal/en")] == forms
    assert "legal/latin" in found


def test_a_form_that_the_caller_may_not_read_stands_for_no_other(policies: Policies) -> None:
    hidden = RIVALS.replace("languages: [de]", "languages: [de], readers: ['group:inner']")
    assert hidden != RIVALS
    assert "legal/en" in ids(collected(policies(hidden), language="de"))
    assert "legal/en" not in ids(
        collected(policies(hidden), Principal("x", groups=frozenset({"inner"})), language="de")
    )


CHOSEN = f"""
contexts:
  legal: {{mandatory: true, resources: {{{text("en", key="terms", languages="[en]")}}}}}
  own: {{resources: {{{text("rule", key="rule", mandatory="true")}}}}}
  rival: {{resources: {{{text("de", key="terms", languages="[de]", mandatory="true")},
    {text("rule", key="rule", mandatory="true")}}}}}
agents: {{clerk: {{contexts: [own]}}}}
content: {{site: {{contexts: [rival]}}}}
"""


def test_a_form_that_the_caller_chose_does_not_stand_for_what_applies_to_all(policies: Policies) -> None:
    found = ids(collected(policies(CHOSEN), content="site", language="de"))
    assert ("legal/en" in found, "rival/de" in found) == (True, False)


def test_a_context_that_the_request_names_is_not_mandatory(policies: Policies) -> None:
    found = ids(collected(policies(CHOSEN), agent="clerk", contexts=("rival",)))
    assert ("own/rule" in found, "rival/rule" in found) == (True, False)
