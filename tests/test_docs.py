"""The documents say what the code does: each rule is a function from a page to what is wrong with it."""

import argparse
import ast
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
import types
import typing
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from gateway import cli, errors
from gateway.circuit_breaker import CircuitBreaker
from gateway.collectors.registry import CollectorParts, load_collector_class
from gateway.commands import serve
from gateway.domain.agent import Placement
from gateway.domain.exchange import Exchange, TurnReply
from gateway.domain.injection import Injection
from gateway.domain.principal import ANONYMOUS
from gateway.domain.receipt import RECEIPT_STATUSES
from gateway.domain.resource import Mode, ResourceKind
from gateway.domain.selection import Selection
from gateway.domain.snapshot import EMPTY_SNAPSHOT
from gateway.domain.tool_result import ToolResult
from gateway.edge.chat import build_context_headers
from gateway.edge.metrics import Metrics
from gateway.edge.recorder import RequestOutcome, describe_exchange, describe_outcome
from gateway.evaluation.cases import HEADERS, read_cases
from gateway.ids import make_id
from gateway.plugins import GROUP
from gateway.policies import shapes
from gateway.policy_check import check_policies
from gateway.receipts.documents import ExchangeText, PendingReceipt
from gateway.receipts.prices import PriceTable
from gateway.receipts.rendering import ReceiptRenderer
from gateway.receipts.views import describe_receipt
from gateway.resources.base import ResourceType
from gateway.resources.registry import ResourceRegistry, load_registry
from gateway.scopes import context_request
from gateway.semantic.model.files import MANIFEST, get_built_folder
from gateway.semantic.search.choice import PRESETS
from gateway.settings import Settings
from gateway.settings_loader import SettingsOverrides, load_settings
from gateway.strict_yaml import parse_yaml
from gateway.upstreams.translation.uncarried import ROUTES

ROOT = Path(__file__).resolve().parent.parent
README, POLICIES, API = "README.md", "docs/POLICIES.md", "docs/API.md"
OPERATIONS, ARCHITECTURE, EXAMPLE = "docs/OPERATIONS.md", "docs/ARCHITECTURE.md", "config.example.yaml"
SEMANTIC, MANAGEMENT, RECEIPTS = "docs/SEMANTIC.md", "docs/MANAGEMENT.md", "docs/RECEIPTS.md"
CONTRIBUTING, SECURITY, GLOSSARY = "CONTRIBUTING.md", "SECURITY.md", "docs/GLOSSARY.md"
TRANSLATIONS = "docs/TRANSLATIONS.md"
DECISIONS = sorted(f"docs/decisions/{path.name}" for path in (ROOT / "docs/decisions").glob("*.md"))
PAGES = [README, POLICIES, API, OPERATIONS, SEMANTIC, MANAGEMENT, ARCHITECTURE, CONTRIBUTING, SECURITY, GLOSSARY]
PAGES += [
    "docs/BENCHMARK.md",
    "CHANGELOG.md",
    RECEIPTS,
    "docs/ANALYTICS.md",
    "docs/CONSOLE.md",
    "docs/MCP.md",
    "docs/CLIENTS.md",
    TRANSLATIONS,
]
PAGES += sorted({f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")} - set(PAGES))
PAGES += DECISIONS
ADDRESS = "http://127.0.0.1:8080"
START_SECONDS = 30

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OLD_WORDS = re.compile(r"search(?:es|ed)? by meaning|\bclash(?:es|ing)?\b|\bgateway nodes?\b", re.IGNORECASE)
FILE = re.compile(r"[\w.-]+(?:/[\w.-]*)+|[\w-]+\.(?:py|toml|lock)")


@dataclass(frozen=True, slots=True)
class Page:
    """A document, or a doctored copy of one."""

    path: str
    text: str

    @property
    def prose(self) -> str:
        return FENCE.sub("", self.text)

    @property
    def codes(self) -> set[str]:
        """Everything that stands between backticks."""
        return set(re.findall(r"`([^`\n]+)`", self.prose))

    def fences(self, language: str) -> list[str]:
        return [body for marked, body in FENCE.findall(self.text) if marked == language]

    def section(self, heading: str) -> "Page":
        """The part below a heading, up to the next one of its rank or above; empty if there is none."""
        lines = self.text.splitlines(keepends=True)
        start = next((number for number, line in enumerate(lines) if line.strip("#").strip() == heading), len(lines))
        rank = len(lines[start]) - len(lines[start].lstrip("#")) if start < len(lines) else 0
        ends = (n for n in range(start + 1, len(lines)) if re.match(rf"#{{1,{rank}}} ", lines[n]))
        return Page(self.path, "".join(lines[start : next(ends, len(lines))]))

    def lacks(self, names: Iterable[str]) -> list[str]:
        return [f"does not name {name}" for name in names if name not in self.codes]


def page(path: str) -> Page:
    return Page(path, (ROOT / path).read_text(encoding="utf-8"))


def model_in(annotation: Any) -> tuple[type[BaseModel] | None, str]:
    """The model inside an annotation, and how the way to it is written."""
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    found, step = {dict: (inner[-1:], ".<name>"), list: (inner, "[]")}.get(origin, ((annotation,), ""))
    is_model = bool(found) and isinstance(found[0], type) and issubclass(found[0], BaseModel)
    return (found[0], step) if is_model else (None, "")


def setting_paths(model: type[BaseModel], before: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        inner, step = model_in(field.annotation)
        if inner is None:
            yield f"{before}{name}"
        else:
            yield from setting_paths(inner, f"{before}{name}{step}.")


def holds(data: Any, path: str) -> bool:
    """Whether data has a value at a path such as `upstreams.<name>.kind` or `routes[].model`."""
    first, _, rest = path.partition(".")
    name = first.removesuffix("[]")
    values = list(data.values()) if name == "<name>" else [data[name]] if name in data else []
    if first.endswith("[]"):
        values = [entry for value in values for entry in value]
    return any(holds(value, rest) for value in values) if rest else bool(values)


def uncommented(text: str) -> str:
    """The example with every optional setting in use: those lines begin with a `#` and no space after it."""
    return re.sub(r"^( *)#(?=[^ #\n])", r"\1", text, flags=re.MULTILINE)


@cache
def real_errors() -> set[tuple[str, str, str]]:
    found, waiting = set(), [errors.GatewayError]
    while waiting:
        kind = waiting.pop()
        if kind.__module__ == errors.__name__:
            found.add((str(kind.status), kind.code, kind.kind))
        waiting += kind.__subclasses__()
    return found | {("400", f"unknown_{noun}", errors.UnknownAlias.kind) for noun in unknown_nouns()}


def unknown_nouns() -> Iterator[str]:
    for file in (ROOT / "gateway").rglob("*.py"):
        for node in nodes_in(file):
            if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in ("UnknownAlias", "look_up"):
                noun = node.args[0]
                if isinstance(noun, ast.Constant) and isinstance(noun.value, str):
                    yield noun.value


def exchange() -> Exchange:
    return Exchange("id", ANONYMOUS, EMPTY_SNAPSHOT, [], degraded={"store"})


def metric_names() -> list[str]:
    metrics = Metrics()
    metrics.watch_generation(lambda: 1)
    metrics.watch_breakers({"one": CircuitBreaker(lambda: 0.0)})
    named = re.findall(r"^# TYPE (\S+)", metrics.render().decode(), re.MULTILINE)
    return [name for name in named if not name.endswith("_created")]


def commands() -> dict[str, list[str]]:
    """Each command of the command line, those inside others too, with its flags and arguments."""
    return dict(commands_in(cli.build_parser()))


def commands_in(parser: argparse.ArgumentParser, before: str = "") -> Iterator[tuple[str, list[str]]]:
    for subparsers in (action for action in parser._actions if isinstance(action, argparse._SubParsersAction)):
        for name, command in subparsers.choices.items():
            said = command._actions
            yield before + name, [one.option_strings[-1] if one.option_strings else str(one.metavar) for one in said]
            yield from commands_in(command, f"{before}{name} ")


def slug(heading: str) -> str:
    """A heading's anchor as GitHub writes it."""
    return re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-")


def anchors(text: str) -> set[str]:
    return {slug(line) for line in re.findall(r"^#+ (.+)$", FENCE.sub("", text), re.MULTILINE)}


def example_has_every_setting(example: Page) -> list[str]:
    data = parse_yaml(uncommented(example.text), example.path).data
    return [f"does not show {path}" for path in setting_paths(Settings) if not holds(data, path)]


def every_setting_is_described(operations: Page) -> list[str]:
    return operations.section("Configuration").lacks(setting_paths(Settings))


def no_setting_is_invented(operations: Page) -> list[str]:
    rows = re.findall(r"^\| `([^`]+)` \|", operations.section("Configuration").text, re.MULTILINE)
    return [f"describes {row}, which is no setting" for row in rows if row not in set(setting_paths(Settings))]


def errors_are_the_real_ones(api: Page) -> list[str]:
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \| `(\w+)` \|", api.section("Errors").text, re.MULTILINE)
    return [f"differs from the code in {' '.join(row)}" for row in sorted(set(rows) ^ real_errors())]


def request_headers_are_described(api: Page) -> list[str]:
    return api.section("Request headers").lacks(f"x-context-{name}" for name in sorted({*context_request.READ, "key"}))


def context_keys_are_described(api: Page) -> list[str]:
    models = (
        context_request.ContextObject,
        context_request.SelectionBody,
        context_request.HintsBody,
        context_request.ItemBody,
    )
    return api.section("The context object").lacks(name for model in models for name in model.model_fields)


def context_examples_are_valid(api: Page) -> list[str]:
    examples = [json.loads(body) for body in api.section("The context object").fences("json")]
    return (
        [fault for example in examples for fault in wrong_with(example["context"])] if examples else ["has no example"]
    )


def wrong_with(context: object) -> list[str]:
    try:
        context_request.ContextObject.model_validate(context)
    except ValidationError as error:
        return [str(error)]
    return []


def response_headers_are_described(api: Page) -> list[str]:
    return api.section("Response headers").lacks(name.decode() for name, _ in build_context_headers(exchange()))


def metrics_are_described(operations: Page) -> list[str]:
    return operations.section("Metrics").lacks(metric_names())


def log_fields_are_described(operations: Page) -> list[str]:
    return operations.section("Logs").lacks(describe_exchange(exchange()) | describe_outcome(RequestOutcome("chat")))


def receipt_fields_are_described(receipts: Page) -> list[str]:
    recorded = exchange()
    recorded.id = make_id()
    recorded.note_injection(Injection(Selection()))
    recorded.note_tool("", "", ToolResult(""), 0.0)
    recorded.replies.append(TurnReply("", 200))
    renderer = ReceiptRenderer(PriceTable({}), lambda text: text)
    receipt = renderer.render(PendingReceipt(recorded, text=ExchangeText(b"")), finished=True)
    whole = describe_receipt(receipt)
    inner = [*whole["selection"], *whole["tokens"], *whole["tools"][0], *whole["turns"][0], *whole["timings"]]
    faults = receipts.section("Fields").lacks({*whole, *inner} - {"arguments"})
    faults += receipts.section("Text and secrets").lacks([*whole["text"], "arguments"])
    return faults + receipts.section("Status").lacks(RECEIPT_STATUSES)


def commands_are_described(operations: Page) -> list[str]:
    return [
        f"gateway {name} {fault}"
        for name, flags in commands().items()
        for fault in operations.section(f"`gateway {name}`").lacks(flag for flag in flags if flag != "--help")
    ]


def policy_keys_are_described(policies: Page) -> list[str]:
    agent = [name for name in shapes.AgentShape.model_fields if name not in shapes.ProfileShape.model_fields]
    expected: dict[str, Iterable[str]] = {
        "Files": ("contexts", "profiles", "agents", "prompts", "content"),
        "Contexts": shapes.ContextShape.model_fields,
        "Resources": (*shapes.ResourceShape.model_fields, *ResourceKind),
        "Modes": Mode,
        "Profiles": (*shapes.ProfileShape.model_fields, *shapes.BudgetShape.model_fields, *Placement),
        "Agents": (*agent, *shapes.SelectionShape.model_fields),
        "Prompts": shapes.PromptShape.model_fields,
        "Content": shapes.NodeShape.model_fields,
    }
    return [f"{where} {fault}" for where, names in expected.items() for fault in policies.section(where).lacks(names)]


def resource_types_are_described(policies: Page) -> list[str]:
    registry = load_registry()
    kinds = [kind for alias in registry.list_aliases() if (kind := registry.get(alias)) is not None]
    return [
        f"{kind.alias} {fault}"
        for kind in kinds
        for fault in policies.section(f"`{kind.alias}`").lacks([kind.alias, *kind.data.model_fields])
    ]


def links_lead_somewhere(any_page: Page) -> list[str]:
    faults = []
    for link in re.findall(r"\]\(([^)\s]+)\)", any_page.prose):
        if re.match(r"https?://|mailto:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (ROOT / any_page.path).parent / path if path else None
        if target is not None and not target.exists():
            faults.append(f"links to {link}, which does not exist")
        elif anchor and anchor not in anchors(target.read_text(encoding="utf-8") if target else any_page.text):
            faults.append(f"links to {link}, and there is no such heading")
    return faults


def files_exist(any_page: Page) -> list[str]:
    named = sorted(code for code in any_page.codes if FILE.fullmatch(code))
    return [f"names {name}, which does not exist" for name in named if not (ROOT / name).exists()]


def names_are_where_it_says(architecture: Page) -> list[str]:
    """Rows with a file and names, and sentences of the form "`name` in `file`"."""
    text = architecture.prose
    said = [(name, file) for name, file in re.findall(r"`(\w+)` in\s+`(gateway/[\w/]+\.py)`", text)]
    for file, names in re.findall(r"\| `(gateway/[\w/]+\.py)` \| (.+) \|$", text, re.MULTILINE):
        said += [(name, file) for name in re.findall(r"`(\w+)`", names)]
    return [f"looks for {name} in {file}" for name, file in said if name not in names_in(ROOT / file)]


def glossary_names_exist(glossary: Page) -> list[str]:
    """What stands in the last column of a word is a class, a function, a field or a place of the code."""
    known = {name for file in (ROOT / "gateway").rglob("*.py") for name in names_in(file) | fields_in(file)}
    rows = re.findall(r"^\| [^|]+ \| [^|]+ \| ([^|]*) \|$", glossary.text, re.MULTILINE)
    named = [part for row in rows for name in re.findall(r"`([^`/]+)`", row) for part in name.split(".")]
    missing = [name for name in named if name not in known]
    return [f"names {name}, which is nowhere in the code" for name in missing] if named else ["names nothing"]


def glossary_has_each_word_once(glossary: Page) -> list[str]:
    """A word with two meanings says in brackets which one it is: "role (of an input)"."""
    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \| [^|]* \|$", glossary.text, re.MULTILINE)
    words = [word for row in rows if row not in ("word", "---") for word in row.split(", ")]
    return [f"explains {word} twice" for word in sorted(set(words)) if words.count(word) > 1]


@cache
def nodes_in(file: Path) -> tuple[ast.AST, ...]:
    """Everything in a source file; several rules look through all of them."""
    return tuple(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))


@cache
def fields_in(file: Path) -> set[str]:
    nodes = nodes_in(file)
    return {ast.unparse(node.target) for node in nodes if isinstance(node, ast.AnnAssign)}


def old_words_are_gone(any_page: Page) -> list[str]:
    """What the glossary replaces is said nowhere else."""
    return [f"says {word[0]!r}" for word in OLD_WORDS.finditer(any_page.text)]


@cache
def names_in(file: Path) -> set[str]:
    nodes = nodes_in(file) if file.exists() else ()
    imported = {alias.name for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names}
    return imported | {
        node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }


def presets_are_the_real_ones(semantic: Page) -> list[str]:
    rows = re.findall(r"^\| `(\w+)` \| ([\d.]+) \| ([\d.]+) \| (\d+) \|", semantic.text, re.MULTILINE)
    real = [(name, str(rule.include_score), str(rule.min_score), str(rule.top_n)) for name, rule in PRESETS.items()]
    return [f"differs from the code in {' '.join(row)}" for row in sorted(set(rows) ^ set(real))]


def case_keys_are_described(semantic: Page) -> list[str]:
    return semantic.section("Tuning with `gateway eval`").lacks((*HEADERS, "earlier"))


def cases_fit_the_example_policies(semantic: Page) -> list[str]:
    (cases,) = semantic.fences("yaml")
    snapshot = check_policies(load_settings(None, {}))
    try:
        read_cases(parse_yaml(cases, semantic.path), snapshot)
    except errors.Faults as faults:
        return [str(fault) for fault in faults.faults]
    return []


def uncarried_fields_are_the_real_ones(translations: Page) -> list[str]:
    rows = re.findall(r"^\| (\w+ → \w+) \| `([^`]+)` \| ([^|]+) \|$", translations.text, re.MULTILINE)
    real = [
        (f"{route.source} → {route.target}", name, reason)
        for route in ROUTES
        for name, reason in (*route.refused.items(), *route.ignored.items())
    ]
    return [f"differs from the code in {' '.join(row)}" for row in sorted(set(rows) ^ set(real))]


Rule = Callable[[Page], list[str]]
RULES: tuple[tuple[Rule, list[str]], ...] = (
    (example_has_every_setting, [EXAMPLE]),
    (every_setting_is_described, [OPERATIONS]),
    (no_setting_is_invented, [OPERATIONS]),
    (errors_are_the_real_ones, [API]),
    (request_headers_are_described, [API]),
    (context_keys_are_described, [API]),
    (context_examples_are_valid, [API]),
    (response_headers_are_described, [API]),
    (metrics_are_described, [OPERATIONS]),
    (log_fields_are_described, [OPERATIONS]),
    (receipt_fields_are_described, [RECEIPTS]),
    (commands_are_described, [OPERATIONS]),
    (policy_keys_are_described, [POLICIES]),
    (resource_types_are_described, [POLICIES]),
    (presets_are_the_real_ones, [SEMANTIC]),
    (case_keys_are_described, [SEMANTIC]),
    (cases_fit_the_example_policies, [SEMANTIC]),
    (uncarried_fields_are_the_real_ones, [TRANSLATIONS]),
    (links_lead_somewhere, PAGES),
    (files_exist, [ARCHITECTURE, CONTRIBUTING, *DECISIONS]),
    (names_are_where_it_says, [ARCHITECTURE, CONTRIBUTING, *DECISIONS]),
    (glossary_names_exist, [GLOSSARY]),
    (glossary_has_each_word_once, [GLOSSARY]),
    (old_words_are_gone, [path for path in PAGES if path != GLOSSARY]),
)


@pytest.mark.parametrize(("rule", "path"), [(rule, path) for rule, paths in RULES for path in paths])
def test_the_document_keeps_the_rule(rule: Rule, path: str) -> None:
    assert rule(page(path)) == []


DOCTORED: tuple[tuple[Rule, str, str, str], ...] = (
    (example_has_every_setting, EXAMPLE, "  #reply_bytes: 67108864\n", ""),
    (example_has_every_setting, EXAMPLE, "    #pass_bearer: false\n", ""),
    (every_setting_is_described, OPERATIONS, "| `limits.reply_bytes` |", "| limits.reply_bytes |"),
    (no_setting_is_invented, OPERATIONS, "| `log.level` |", "| `log.colour` | | |\n| `log.level` |"),
    (errors_are_the_real_ones, API, "| 413 | `request_too_large`", "| 400 | `request_too_large`"),
    (errors_are_the_real_ones, API, "`unknown_prompt`", "`unknown_task`"),
    (request_headers_are_described, API, "| `x-context-language` |", "| language |"),
    (context_keys_are_described, API, "`max_depth`", "depth"),
    (context_examples_are_valid, API, '```json\n{\n  "model"', '```text\n{\n  "model"'),
    (context_examples_are_valid, API, '"language": "en"', '"tongue": "en"'),
    (response_headers_are_described, API, "| `x-context-snapshot` |", "| snapshot |"),
    (metrics_are_described, OPERATIONS, "| `gateway_tool_runs_total` |", "| `gateway_tool_runs` |"),
    (log_fields_are_described, OPERATIONS, "| `tools_run` |", "| `tools` |"),
    (receipt_fields_are_described, RECEIPTS, "`turn_count`", "`turn_number`"),
    (receipt_fields_are_described, RECEIPTS, "`first_byte_ms`", "`latency`"),
    (receipt_fields_are_described, RECEIPTS, "| `loop_limit` |", "| `limit` |"),
    (commands_are_described, OPERATIONS, "### `gateway demo`", "### The demo"),
    (commands_are_described, OPERATIONS, "| `--workers` |", "| `--processes` |"),
    (commands_are_described, OPERATIONS, "| `--act-for-users` |", "| `--act` |"),
    (policy_keys_are_described, POLICIES, "| `truncate` |", "| truncate |"),
    (resource_types_are_described, POLICIES, "### `glossary`", "### Glossaries"),
    (presets_are_the_real_ones, SEMANTIC, "| `normal` | 0.7 | 0.5 |", "| `normal` | 0.7 | 0.4 |"),
    (case_keys_are_described, SEMANTIC, "`language` and `user`", "`language`"),
    (cases_fit_the_example_policies, SEMANTIC, "expect: [lumo-support/delivery]", "expect: [lumo-support/dilivery]"),
    (uncarried_fields_are_the_real_ones, TRANSLATIONS, "| `logit_bias` |", "| `logit_bia` |"),
    (links_lead_somewhere, README, "(docs/API.md)", "(docs/APIS.md)"),
    (links_lead_somewhere, API, "(POLICIES.md#agents)", "(POLICIES.md#agent)"),
    (files_exist, ARCHITECTURE, "`gateway/scopes/scope.py`", "`gateway/scopes/level.py`"),
    (names_are_where_it_says, ARCHITECTURE, "`settle_conflicts`", "`settle_clash`"),
    (names_are_where_it_says, ARCHITECTURE, "`assemble` in", "`put_together` in"),
    (glossary_names_exist, GLOSSARY, "`Omission`", "`Left`"),
    (glossary_has_each_word_once, GLOSSARY, "| role (of an input) |", "| role |"),
    (old_words_are_gone, ARCHITECTURE, "## The walk of semantic search", "## The search by meaning"),
)


@pytest.mark.parametrize(("rule", "path", "old", "new"), DOCTORED)
def test_a_doctored_document_is_caught(rule: Rule, path: str, old: str, new: str) -> None:
    whole = page(path)
    assert old in whole.text
    assert rule(replace(whole, text=whole.text.replace(old, new)))


def test_every_rule_has_a_doctored_document() -> None:
    assert {rule for rule, *_ in DOCTORED} == {rule for rule, _ in RULES}


def test_the_example_is_valid_with_every_setting_in_use(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(uncommented(page(EXAMPLE).text), encoding="utf-8")
    settings = load_settings(tmp_path / "config.yaml", {"GATEWAY_SECRET": "s", "OPENAI_API_KEY": "k"})
    assert (settings.secret, settings.resources.exclude) == ("s", ["external-link"])


@pytest.mark.parametrize("path", PAGES)
def test_json_in_a_document_is_json(path: str) -> None:
    for body in page(path).fences("json"):
        json.loads(body)


def policies_of(document: Page, directory: Path) -> Path:
    """The YAML of a page as one set of policy files, next to the example's documents."""
    shutil.copytree(ROOT / "policies" / "docs", directory / "docs")
    for number, body in enumerate(document.fences("yaml")):
        (directory / f"{number:02}.yaml").write_text(body, encoding="utf-8")
    return directory


@pytest.mark.parametrize("path", [POLICIES, README])
def test_yaml_in_a_document_is_a_set_of_policies(path: str, tmp_path: Path) -> None:
    policies = policies_of(page(path), tmp_path)
    assert check_policies(load_settings(None, {}, SettingsOverrides(policies=policies))).resources


def test_a_fault_in_the_yaml_of_a_document_is_caught(tmp_path: Path) -> None:
    doctored = replace(page(POLICIES), text=page(POLICIES).text.replace("profile: public", "profile: pubic"))
    with pytest.raises(errors.Faults, match="did you mean 'public'"):
        check_policies(load_settings(None, {}, SettingsOverrides(policies=policies_of(doctored, tmp_path))))


SHOWN = (README, POLICIES, "docs/RECIPES.md")
CONSOLES = [(path, body) for path in SHOWN for body in page(path).fences("console")]


@pytest.mark.parametrize(("path", "console"), CONSOLES)
def test_a_command_prints_what_the_document_shows(
    path: str, console: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command, _, shown = console.partition("\n")
    name, *words = shlex.split(command.removeprefix("$ "))
    policies = policies_of(page(path), tmp_path) if path == POLICIES else ROOT / "policies"
    assert name.endswith("gateway")
    assert cli.main([*words, "--policies", str(policies)]) == 0
    assert shown in capsys.readouterr().out


def test_documents_show_commands() -> None:
    assert {path for path, _ in CONSOLES} == set(SHOWN)


@pytest.mark.skipif(not (get_built_folder() / MANIFEST).is_file(), reason="the model is not there: run scripts/model")
def test_the_example_cases_reach_their_targets(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["eval", str(ROOT / "examples" / "eval.yaml"), "--policies", str(ROOT / "policies")]
    assert cli.main(arguments) == 0, capsys.readouterr().out
    assert capsys.readouterr().out.endswith("all targets are met\n")


def test_the_plugin_of_the_document_works() -> None:
    (source,) = (one for one in page(ARCHITECTURE).fences("python") if "ResourceType" in one)
    names: dict[str, Any] = {"__name__": "plugin"}
    exec(source, names)
    kind = ResourceRegistry([names["Persona"]()]).get("persona")
    assert isinstance(kind, ResourceType)
    assert kind.render(kind.data.model_validate({"role": "nurse"}), None).startswith("You speak to a nurse")


async def test_the_collector_of_the_document_works(monkeypatch: pytest.MonkeyPatch) -> None:
    (source,) = (one for one in page(ARCHITECTURE).fences("python") if "NewsCollector" in one)
    plugin = types.ModuleType("news_plugin")
    exec(source, plugin.__dict__)
    monkeypatch.setitem(sys.modules, "news_plugin", plugin)
    found = load_collector_class(EntryPoint("collector-news", "news_plugin:NewsCollector", GROUP))
    opened = found.open(CollectorParts())
    assert opened is not None
    order: Any = types.SimpleNamespace(options=found.options())
    assert [one.title for one in (await opened.collect(order)).items] == ["Reopened"]


@pytest.fixture(scope="module")
def demo() -> Iterator[str]:
    """The address of a running `gateway demo`."""
    command = [sys.executable, "-m", "gateway", "demo", "--port", "0"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        too_late = threading.Timer(START_SECONDS, process.kill)  # a server that never listens must not hang the tests
        too_late.start()
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            too_late.cancel()
            assert line.startswith("Context Gateway listens on "), "the demo did not start"
            yield line.split()[-1]
        finally:
            too_late.cancel()
            process.terminate()
            process.communicate(timeout=10)


def run_directly(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a command that talks to the demo, past any proxy of the machine."""
    past = os.environ | {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=past)


def test_the_curl_line_of_the_readme_gives_the_answer_it_shows(demo: str) -> None:
    (line,) = [body for body in page(README).fences("sh") if body.startswith("curl ")]
    assert line.strip() == serve.format_example(ADDRESS, "demo")  # the line that the server itself prints
    if shutil.which("curl") is None:
        pytest.skip("there is no curl on this machine")
    answer = run_directly(["bash", "-c", line.replace(ADDRESS, demo)]).stdout
    (shown,) = page(README).fences("json")
    changing = {"id": "", "created": 0}
    assert json.loads(answer) | changing == json.loads(shown) | changing


def test_the_python_of_the_readme_prints_what_it_shows(demo: str) -> None:
    (source,), (shown, *_) = page(README).fences("python"), page(README).fences("text")
    assert ADDRESS in source
    run = run_directly([sys.executable, "-c", source.replace(ADDRESS, demo)])
    assert (run.stdout, run.stderr) == (shown, "")
