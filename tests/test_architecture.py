"""The rules of the house, read from the source: each is a function from a module to what is wrong with it."""

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from gateway import errors

ROOT = Path(__file__).resolve().parent.parent

# Imports point down. A part may import itself and whatever stands in an earlier row, never its own row.
ROWS = (
    {"cancellation", "domain", "errors", "precedence", "queue_bounds"},
    {
        "allocation",
        "background",
        "circuit_breaker",
        "ids",
        "json_scan",
        "plugins",
        "sse",
        "strict_yaml",
        "tokens",
        "watchdog",
        "work_threads",
    },
    {"fair_queue"},
    {"collector_settings", "interpolation", "loop_turns", "settings_sections", "validation"},
    {"settings"},
    {"settings_loader"},
    {"extraction", "redaction", "stores"},
    {"links"},
    {"tools"},
    {"resources"},
    {"retrievers"},
    {"policies"},
    {"content", "semantic"},
    {"knowledge"},
    {
        "scopes",
        "collectors",
        "selection",
        "injection",
        "upstreams",
        "conversation",
        "retrieval",
        "receipts",
        "sessions",
    },
    {"summaries"},
    {"analytics", "builder"},
    {"resolved_scope"},
    {"pipeline", "policy_check", "recording"},
    {"evaluation", "preview", "scope_view"},
    {"control"},
    {"replay"},
    {"edge"},
    {"late_modules", "parts"},
    {"jobs", "site_composition", "watched_figures"},
    {"app"},
    {"worker"},
    {"worker_process"},
    {"supervisor"},
    {"commands"},
    {"cli"},
    {"__main__"},
)
ROW = {part: number for number, row in enumerate(ROWS) for part in row}

MAX_MODULE_LINES, MAX_FUNCTION_LINES, MAX_PARAMETERS = 400, 60, 7
READS_ENVIRONMENT = {
    "gateway.settings_loader",
    "gateway.upstreams.litellm.upstream",
}  # litellm is configured through it on import
NAMES_LITELLM = {"gateway.upstreams.litellm.upstream"}
CATCHES_EVERYTHING = (
    *("gateway.background", "gateway.edge", "gateway.receipts", "gateway.collectors.guard"),
    *("gateway.analytics.counting", "gateway.analytics.sheets"),
)
PRINTS = ("gateway.cli", "gateway.commands")
CHANGES = {"add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem", "popleft"}
CHANGES |= {"remove", "reverse", "setdefault", "sort", "update"}
CONTAINERS = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
MAKES_CONTAINER = {"list", "dict", "set", "bytearray", "deque", "defaultdict", "OrderedDict", "Counter"}

# Codecs and patterns keep nothing between calls; loggers live for the process by design.
MAKES_STATELESS = {"Decoder", "Encoder", "attrgetter", "compile", "frozenset", "getLogger", "itemgetter", "partial"}


@dataclass(frozen=True, slots=True)
class Module:
    """A module of ours, or a snippet that pretends to be one."""

    name: str
    source: str
    package: bool = False

    @property
    def part(self) -> str:
        return self.name.partition(".")[2].partition(".")[0]

    def nodes(self) -> tuple[ast.AST, ...]:
        return list_nodes(self.source)

    def body(self) -> list[ast.stmt]:
        return parse(self.source).body


@cache
def parse(source: str) -> ast.Module:
    return ast.parse(source)


@cache
def list_nodes(source: str) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(parse(source)))


@pytest.fixture(scope="module", autouse=True)
def forgotten_trees() -> Iterator[None]:
    """Every rule looks at the same trees; the tests that come after do without a million objects."""
    yield
    list_nodes.cache_clear()
    parse.cache_clear()


def modules() -> list[Module]:
    found = []
    for file in sorted((ROOT / "gateway").rglob("*.py")):
        parts = file.relative_to(ROOT).with_suffix("").parts
        package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if package else parts)
        found.append(Module(name, file.read_text(encoding="utf-8"), package))
    return found


def imported(module: Module, nodes: Iterable[ast.AST] | None = None) -> Iterator[str]:
    """The dotted names that a module imports, at the top or inside a function, by statement or by name."""
    for node in module.nodes() if nodes is None else nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = absolute(module, node)
            yield from (f"{base}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and called(node) in ("import_module", "__import__"):
            yield from (str(name.value) for name in node.args if isinstance(name, ast.Constant))


def absolute(module: Module, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    drop = node.level - module.package
    parts = module.name.split(".")
    parents = parts[: len(parts) - drop]
    return ".".join([*parents, *([node.module] if node.module else [])])


def called(node: ast.Call) -> str:
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""


def imports_point_down(module: Module) -> list[str]:
    if module.name == "gateway":
        return [f"the package itself imports {name}" for name in imported(module) if name.startswith("gateway")]
    if module.part not in ROW:
        return [f"{module.part} has no place in the house; give it one in ROWS"]
    targets = {name.split(".")[1] for name in imported(module) if name.startswith("gateway.")} & ROW.keys()
    allowed = {part for part, row in ROW.items() if row < ROW[module.part]} | {module.part}
    return [f"{module.part} imports {part}" for part in sorted(targets - allowed)]


def only_settings_reads_the_environment(module: Module) -> list[str]:
    if module.name in READS_ENVIRONMENT:
        return []
    names = {"environ", "environb", "getenv", "getenvb", "putenv", "unsetenv"}
    reads = {name for name in imported(module) if name.startswith("os.") and name.removeprefix("os.") in names}
    for node in module.nodes():
        if isinstance(node, ast.Attribute) and node.attr in names and ast.unparse(node.value) == "os":
            reads.add(ast.unparse(node))
    return [f"reads {name}" for name in sorted(reads)]


def one_module_imports_litellm(module: Module) -> list[str]:
    if module.name in NAMES_LITELLM:
        return []
    return [f"imports {name}" for name in imported(module) if name.split(".")[0] == "litellm"]


def modules_and_functions_are_short(module: Module) -> list[str]:
    lines = len(module.source.splitlines())
    faults = [f"has {lines} lines"] if lines > MAX_MODULE_LINES else []
    for node in module.nodes():
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or 0) - node.lineno + 1
            if length > MAX_FUNCTION_LINES:
                faults.append(f"{node.name} has {length} lines")
            count = len(parameters(node))
            if count > MAX_PARAMETERS:
                faults.append(f"{node.name} has {count} parameters")
    return faults


def parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return [argument.arg for argument in every if argument.arg not in ("self", "cls")]


def nobody_swallows_every_error(module: Module) -> list[str]:
    if module.name.startswith(CATCHES_EVERYTHING):
        return []
    handlers = [node for node in module.nodes() if isinstance(node, ast.ExceptHandler)]
    return [f"line {node.lineno} catches everything" for node in handlers if is_broad(node) and not passes_on(node)]


def is_broad(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(ast.unparse(kind).split(".")[-1] in ("Exception", "BaseException") for kind in kinds)


def passes_on(handler: ast.ExceptHandler) -> bool:
    """Whether it only cleans up: nothing leaves it but the very error that came in."""
    last = handler.body[-1]
    leaves = any(
        isinstance(node, ast.Return | ast.Continue | ast.Break) for part in handler.body for node in ast.walk(part)
    )
    return isinstance(last, ast.Raise) and last.exc is None and not leaves


def modules_hold_no_mutable_state(module: Module) -> list[str]:
    containers, faults = set(), []
    for statement in module.body():
        for name, value in assigned(statement):
            if is_container(value):
                containers.add(name)
            if name.islower() and not name.startswith("__") and (is_container(value) or is_call(value)):
                faults.append(f"{name} is state of the module")
    for node in module.nodes():
        if isinstance(node, ast.Global):
            faults.append(f"line {node.lineno} rebinds {', '.join(node.names)}")
        faults += [f"{name} is changed in line {getattr(node, 'lineno', 0)}" for name in changed(node) & containers]
    return faults


def assigned(statement: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(statement, ast.Assign):
        for target in statement.targets:
            if isinstance(target, ast.Name):
                yield target.id, statement.value
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        yield ast.unparse(statement.target), statement.value


def is_container(value: ast.expr) -> bool:
    return isinstance(value, CONTAINERS) or (isinstance(value, ast.Call) and called(value) in MAKES_CONTAINER)


def is_call(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and called(value) not in MAKES_STATELESS


def changed(node: ast.AST) -> set[str]:
    """The names whose contents a node changes: by item, by deletion or by a method."""
    if (
        isinstance(node, ast.Subscript)
        and isinstance(node.ctx, ast.Store | ast.Del)
        and isinstance(node.value, ast.Name)
    ):
        return {node.value.id}
    if isinstance(node, ast.Attribute) and node.attr in CHANGES and isinstance(node.value, ast.Name):
        return {node.value.id}
    return set()


def only_the_command_line_prints(module: Module) -> list[str]:
    if module.name.startswith(PRINTS):
        return []
    calls = [node for node in module.nodes() if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    return [f"prints in line {node.lineno}" for node in calls if called(node) == "print"]


def nobody_branches_on_messages(module: Module) -> list[str]:
    """Messages are for people; what kind of fault it is, its class or its code says."""
    faults = []
    for node in module.nodes():
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            if any(map(is_message, sides)) and any(isinstance(side, ast.Constant | ast.JoinedStr) for side in sides):
                faults.append(f"line {node.lineno} compares a message")
        elif isinstance(node, ast.Call) and called(node) in SEARCHES and isinstance(node.func, ast.Attribute):
            faults += [f"line {node.lineno} searches a message"] if is_message(node.func.value) else []
    return faults


def is_message(node: ast.expr) -> bool:
    """Whether it is `one.message`, `str(error)` or `error.args[0]`."""
    if isinstance(node, ast.Call) and called(node) == "str" and len(node.args) == 1:
        return isinstance(node.args[0], ast.Name) and node.args[0].id in ERROR_NAMES
    if isinstance(node, ast.Subscript):
        node = node.value
    return isinstance(node, ast.Attribute) and node.attr in ("message", "args")


SEARCHES = frozenset({"startswith", "endswith", "find", "index", "count", "partition", "removeprefix", "removesuffix"})
ERROR_NAMES = frozenset({"e", "err", "error", "exc", "exception", "fault", "failure", "one"})

IRREGULAR = re.compile(
    r"asked|begun|broken|brought|built|caught|chosen|done|drawn|driven|fallen|felt|forgotten|given|gone|grown|heard|held"
    r"|hidden|kept|known|left|lost|made|meant|met|paid|said|seen|sent|shown|spent|spoken|stood|taken|told|thrown|won|written"
)
ENDS_IN_ED = re.compile(r"bed|bleed|embed|exceed|feed|heed|hundred|need|proceed|seed|shed|speed|succeed")
PREPOSITIONS = frozenset({"with", "without", "of", "by", "in", "at", "under", "over"})


def is_participle(word: str) -> bool:
    regular = word.endswith("ed") and ENDS_IN_ED.fullmatch(word) is None
    return regular or IRREGULAR.fullmatch(word) is not None


def names_say_what_things_are(module: Module) -> list[str]:
    """Classes are nouns, functions verbs: no bare participle, no preposition in front."""
    faults = []
    for node in module.nodes():
        if isinstance(node, ast.ClassDef):
            last = re.findall(r"[A-Z][a-z0-9]*|_?[A-Z]+", node.name)[-1].lower()
            if is_participle(last) and not is_exception(node):
                faults.append(f"class {node.name} is no noun")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not is_property(node):
            words = node.name.strip("_").split("_")
            if len(words) == 1 and is_participle(words[0]):
                faults.append(f"{node.name}() is no verb")
            if words[0] in PREPOSITIONS:
                faults.append(f"{node.name}() begins with a preposition")
    return faults


def is_exception(node: ast.ClassDef) -> bool:
    """Exceptions say what happened: `ClientDisconnected`."""
    bases = [ast.unparse(base).split(".")[-1] for base in node.bases]
    return any(base in EXCEPTIONS or base.endswith(("Error", "Exception")) for base in bases)


def is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    names = {ast.unparse(decorator).split(".")[-1] for decorator in node.decorator_list}
    return not names.isdisjoint({"property", "cached_property", "setter", "overload"})


EXCEPTIONS = frozenset(
    name for name, one in vars(errors).items() if isinstance(one, type) and issubclass(one, Exception)
)

Check = Callable[[Module], list[str]]
CHECKS: tuple[Check, ...] = (
    imports_point_down,
    only_settings_reads_the_environment,
    one_module_imports_litellm,
    modules_and_functions_are_short,
    nobody_swallows_every_error,
    modules_hold_no_mutable_state,
    only_the_command_line_prints,
    nobody_branches_on_messages,
    names_say_what_things_are,
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_house_keeps_the_rule(check: Check) -> None:
    faults = [f"{module.name}: {fault}" for module in modules() for fault in check(module)]
    assert faults == []


def repeated_classes(found: Iterable[Module]) -> dict[str, list[str]]:
    """Class names that occur more than once, each with the modules that use it."""
    places: dict[str, list[str]] = {}
    for module in found:
        for node in module.nodes():
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name.lstrip("_"), []).append(module.name)
    return {name: where for name, where in places.items() if len(where) > 1}


def test_a_class_name_is_used_once() -> None:
    assert repeated_classes(modules()) == {}


def test_a_repeated_class_name_would_be_noticed() -> None:
    twice = [Module("gateway.a", "class Entry: ..."), Module("gateway.b", "def f():\n    class _Entry: ...")]
    assert repeated_classes(twice) == {"Entry": ["gateway.a", "gateway.b"]}


def import_cycles(found: Sequence[Module]) -> list[list[str]]:
    """Modules that import each other in a circle, at the top or inside functions; types alone do not count."""
    known = {module.name: module for module in found}
    graph: dict[str, set[str]] = {}
    for module in found:
        names = {name if name in known else name.rpartition(".")[0] for name in imported(module, runtime(module))}
        graph[module.name] = (names & known.keys()) - {module.name}
    return [cycle for cycle in strongly_connected(graph) if len(cycle) > 1]


def runtime(module: Module) -> Iterator[ast.AST]:
    """What is there when the module runs."""
    for one in module.body():
        if not (isinstance(one, ast.If) and "TYPE_CHECKING" in ast.unparse(one.test)):
            yield from ast.walk(one)


def strongly_connected(graph: dict[str, set[str]]) -> list[list[str]]:
    """Tarjan's algorithm."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    components: list[list[str]] = []

    def visit(node: str) -> None:
        order[node] = low[node] = len(order)
        stack.append(node)
        for target in sorted(graph[node]):
            if target not in order:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in stack:
                low[node] = min(low[node], order[target])
        if low[node] == order[node]:
            place = stack.index(node)
            components.append(sorted(stack[place:]))
            del stack[place:]

    for node in sorted(graph):
        if node not in order:
            visit(node)
    return components


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert import_cycles(modules()) == []


def test_a_circle_of_imports_would_be_noticed() -> None:
    a = Module("gateway.a", "from gateway.b import f")
    b = Module("gateway.b", "def f():\n    import gateway.c")
    c = Module("gateway.c", "from gateway.a import g")
    typed = Module("gateway.d", "if TYPE_CHECKING:\n    from gateway.a import g")
    assert import_cycles([a, b, c, typed]) == [["gateway.a", "gateway.b", "gateway.c"]]
    assert import_cycles([a, typed, Module("gateway.b", "from gateway.d import x")]) == []


ROOMS = sorted(file.parent for file in (ROOT / "gateway").rglob("__init__.py") if file.parent != ROOT / "gateway")


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: str(room.relative_to(ROOT)))
def test_every_room_says_what_comes_in_and_what_goes_out(room: Path) -> None:
    said = ast.get_docstring(ast.parse((room / "__init__.py").read_text(encoding="utf-8"))) or ""
    assert said.count(".") >= 2


def test_every_module_is_looked_at() -> None:
    names = {module.name for module in modules()}
    assert {
        "gateway",
        "gateway.errors",
        "gateway.domain.scope",
        "gateway.stores",
        "gateway.stores.sqlite_ephemeral",
    } <= names


LONG = "def f():\n" + "    x = 1\n" * 60
CAUGHT: tuple[tuple[Check, str, str], ...] = (
    (imports_point_down, "gateway.domain.node", "from gateway.errors import Fault"),
    (imports_point_down, "gateway.errors", "import gateway.domain.node"),
    (imports_point_down, "gateway.strict_yaml", "from gateway import settings"),
    (imports_point_down, "gateway.stores.sqlite_ephemeral", "from gateway.semantic.index.vector_index import Index"),
    (imports_point_down, "gateway.stores.sqlite_ephemeral", "def f():\n    from gateway.app import build"),
    (imports_point_down, "gateway.scopes.headers", "from gateway.injection.place import place"),
    (imports_point_down, "gateway.scopes.headers", "from ..injection import place"),
    (imports_point_down, "gateway.scopes.headers", "importlib.import_module('gateway.upstreams.openai')"),
    (imports_point_down, "gateway.pipeline", "from gateway.edge.chat import chat"),
    (imports_point_down, "gateway.edge.chat", "from gateway.app import build"),
    (imports_point_down, "gateway.settings_loader", "from gateway.resources.base import ResourceType"),
    (imports_point_down, "gateway.attic", "pass"),
    (imports_point_down, "gateway", "from gateway.app import build"),
    (only_settings_reads_the_environment, "gateway.app", "import os\nkey = os.environ['KEY']"),
    (only_settings_reads_the_environment, "gateway.app", "import os\nos.getenv('KEY')"),
    (only_settings_reads_the_environment, "gateway.app", "from os import environ"),
    (one_module_imports_litellm, "gateway.upstreams.routes", "def f():\n    import litellm.exceptions"),
    (one_module_imports_litellm, "gateway.upstreams.routes", "from litellm import acompletion"),
    (one_module_imports_litellm, "gateway.upstreams.routes", "importlib.import_module('litellm')"),
    (modules_and_functions_are_short, "gateway.app", "x = 1\n" * 401),
    (modules_and_functions_are_short, "gateway.app", LONG),
    (modules_and_functions_are_short, "gateway.app", "class A:\n    async def f(self, a, b, c, d, e, *, f, g, h): ..."),
    (nobody_swallows_every_error, "gateway.pipeline", "try: f()\nexcept Exception: pass"),
    (nobody_swallows_every_error, "gateway.pipeline", "try: f()\nexcept (OSError, BaseException) as e: log(e)"),
    (nobody_swallows_every_error, "gateway.pipeline", "try: f()\nexcept: pass"),
    (nobody_swallows_every_error, "gateway.pipeline", "try: f()\nexcept Exception as e: raise Other from e"),
    (nobody_swallows_every_error, "gateway.collectors.focus", "try: f()\nexcept builtins.Exception: pass"),
    (modules_hold_no_mutable_state, "gateway.app", "cache = {}"),
    (modules_hold_no_mutable_state, "gateway.app", "seen: set[str] = set()"),
    (modules_hold_no_mutable_state, "gateway.app", "app = Starlette()"),
    (modules_hold_no_mutable_state, "gateway.app", "N = 0\ndef f():\n    global N\n    N += 1"),
    (modules_hold_no_mutable_state, "gateway.app", "SEEN = {}\ndef f(a):\n    SEEN[a] = 1"),
    (modules_hold_no_mutable_state, "gateway.app", "SEEN = defaultdict(list)\ndef f(a):\n    SEEN.update(a)"),
    (only_the_command_line_prints, "gateway.app", "def f():\n    print('here')"),
    (nobody_branches_on_messages, "gateway.app", "if 'alias' in fault.message: pass"),
    (nobody_branches_on_messages, "gateway.app", "x = 1 if error.message == f'{a} is gone' else 2"),
    (nobody_branches_on_messages, "gateway.app", "if str(error).startswith('no such table'): pass"),
    (nobody_branches_on_messages, "gateway.app", "found = 'locked' in error.args[0]"),
    (names_say_what_things_are, "gateway.app", "class Left: ..."),
    (names_say_what_things_are, "gateway.app", "class RequestAsked: ..."),
    (names_say_what_things_are, "gateway.app", "async def fetched(url): ..."),
    (names_say_what_things_are, "gateway.app", "class A:\n    def _held(self): ..."),
    (names_say_what_things_are, "gateway.app", "def with_picks(selection): ..."),
)
ALLOWED: tuple[tuple[Check, str, str], ...] = (
    (imports_point_down, "gateway.app", "from gateway import errors\nfrom gateway.edge.chat import chat\nimport os"),
    (imports_point_down, "gateway.upstreams.routes", "from .base import Upstream\nfrom gateway.settings import Route"),
    (imports_point_down, "gateway.cli", "from gateway import __version__"),
    (only_settings_reads_the_environment, "gateway.settings_loader", "import os\nos.environ['KEY']"),
    (only_settings_reads_the_environment, "gateway.app", "import os\nos.getpid()"),
    (one_module_imports_litellm, "gateway.upstreams.litellm.upstream", "import litellm"),
    (one_module_imports_litellm, "gateway.settings_loader", "KIND = 'litellm'"),
    (modules_and_functions_are_short, "gateway.app", "class A:\n    def f(self, a, b, c, d, e, f, *more): ..."),
    (nobody_swallows_every_error, "gateway.pipeline", "try: f()\nexcept BaseException:\n    close()\n    raise"),
    (nobody_swallows_every_error, "gateway.edge.chat", "try: f()\nexcept Exception: pass"),
    (modules_hold_no_mutable_state, "gateway.app", "NAMES = {'a': 1}\n__all__ = ['f']\nlog = logging.getLogger('x')"),
    (modules_hold_no_mutable_state, "gateway.app", "_decode = msgspec.json.Decoder(dict)"),
    (modules_hold_no_mutable_state, "gateway.app", "NAMES = ['a']\ndef f():\n    mine = {}\n    mine['a'] = NAMES[0]"),
    (only_the_command_line_prints, "gateway.cli", "print('here')"),
    (only_the_command_line_prints, "gateway.commands.check", "print('here')"),
    (nobody_branches_on_messages, "gateway.app", "if fault.code == 'alias' and str(fault) not in known: pass"),
    (nobody_branches_on_messages, "gateway.app", "text = f'{one.path}: {one.message}'"),
    (names_say_what_things_are, "gateway.app", "class PlacedResource: ...\nclass ClientGone(GatewayError): ..."),
    (names_say_what_things_are, "gateway.app", "def embed(text): ...\ndef read(file): ...\ndef fetch_page(url): ..."),
    (names_say_what_things_are, "gateway.app", "class A:\n    @property\n    def closed(self): ..."),
)


@pytest.mark.parametrize(("check", "name", "source"), CAUGHT)
def test_a_breach_is_caught(check: Check, name: str, source: str) -> None:
    assert check(Module(name, source))


@pytest.mark.parametrize(("check", "name", "source"), ALLOWED)
def test_what_is_allowed_passes(check: Check, name: str, source: str) -> None:
    assert check(Module(name, source)) == []


def test_every_rule_has_a_breach_that_it_catches() -> None:
    assert {check for check, _, _ in CAUGHT} == set(CHECKS)
