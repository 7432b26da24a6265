import re
import tempfile
import types
import typing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import BaseModel

from gateway import settings_loader as module
from gateway.domain.collector import Category
from gateway.errors import Faults
from gateway.policies.shapes import CategoryName
from gateway.selection.allotment import SCOPE_ORDER, VOLATILE_ORDER
from gateway.settings import Settings, is_loopback
from gateway.settings_loader import SettingsOverrides, find_malloc_options, load_settings
from gateway.settings_sections import CategoryShares
from gateway.strict_yaml import parse_yaml

MINIMAL = "upstreams: {demo: {kind: demo}}\nroutes: [{model: '*', upstream: demo}]\n"
EXAMPLE = Path(__file__).parents[2] / "config.example.yaml"


@pytest.fixture
def write(tmp_path):
    def write_config(text: str) -> Path:
        path = tmp_path / "config.yaml"
        path.write_text(text)
        return path

    return write_config


def find_faults(
    path: Path, environ: dict[str, str] | None = None, overrides: SettingsOverrides | None = None
) -> list[str]:
    with pytest.raises(Faults) as caught:
        load_settings(path, environ or {}, overrides or SettingsOverrides())
    return [f"{fault.line}: {fault.path}: {fault.message}" for fault in caught.value.faults]


def test_a_minimal_file_gets_every_default(write) -> None:
    settings = load_settings(write(MINIMAL), {})
    assert (settings.listen.host, settings.listen.port) == ("127.0.0.1", 8080)
    assert settings.defaults.budget == 4000


def test_relative_paths_are_meant_from_the_files_directory(write, tmp_path) -> None:
    settings = load_settings(write(MINIMAL), {})
    assert settings.policies == str(tmp_path / "policies")
    assert settings.store == f"sqlite:///{tmp_path}/data/gateway.db"


def test_files_of_the_search_are_meant_from_there_too(write, tmp_path) -> None:
    text = MINIMAL + "semantic: {calibration: fitted.json, embedder: {path: models/minilm}}\n"
    semantic = load_settings(write(text), {}).semantic
    assert (semantic.calibration, semantic.embedder.path) == (f"{tmp_path}/fitted.json", f"{tmp_path}/models/minilm")
    assert load_settings(write(MINIMAL), {}).semantic.calibration is None


def test_absolute_paths_stay(write) -> None:
    settings = load_settings(write(MINIMAL + "policies: /etc/p\nstore: sqlite:////var/g.db\n"), {})
    assert (settings.policies, settings.store) == ("/etc/p", "sqlite:////var/g.db")


def test_an_expanded_scalar_is_coerced_to_its_type(write) -> None:
    path = write(MINIMAL + 'listen: {port: "${PORT:-9000}"}\n')
    assert load_settings(path, {}).listen.port == 9000
    assert load_settings(path, {"PORT": "7000"}).listen.port == 7000


def test_a_variable_that_expands_to_nothing_says_nothing_except_for_a_key(write) -> None:
    text = "upstreams: {o: {kind: openai, base_url: 'http://x', api_key: '${K:-}'}}\nroutes: []\nsecret: '${S:-}'\n"
    settings = load_settings(write(text), {})
    assert settings.secret is None
    assert not settings.upstreams["o"].enabled
    assert load_settings(write(text), {"K": "sk"}).upstreams["o"].enabled


def test_the_command_line_wins_over_the_file(write, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = write(MINIMAL + "listen: {host: '::1', port: 1}\npolicies: a\n")
    settings = load_settings(path, {}, SettingsOverrides(port=2, policies=Path("b")))
    assert (settings.listen.host, settings.listen.port, settings.policies) == ("::1", 2, str(tmp_path / "b"))


def test_without_a_file_there_is_a_demo_with_the_example_policies() -> None:
    settings = load_settings(None, {})
    assert {upstream.kind for upstream in settings.upstreams.values()} == {"demo"}
    assert (settings.store, settings.defaults.model) == ("memory:", "demo")
    assert Path(settings.policies, "agents.yaml").is_file()


def test_without_the_example_policies_the_demo_has_an_empty_set(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(module, "__file__", str(tmp_path / "gateway" / "settings_loader.py"))
    monkeypatch.setattr(tempfile, "mkdtemp", lambda prefix: str(tmp_path))
    assert load_settings(None, {}).policies == str(tmp_path)


def test_all_faults_come_at_once_with_their_lines(write) -> None:
    text = (
        "listn: {}\n"
        "upstreams:\n"
        "  a: {kind: openai}\n"
        "  b: {kind: litellm}\n"
        "  c: {kind: openai, base_url: 'http://x', timeout: {}}\n"
        "routes:\n"
        "  - model: x\n"
        "log: {level: loud}\n"
        "secret: ${NOPE}\n"
    )
    assert find_faults(write(text)) == [
        "1: listn: is not a known key; did you mean 'listen'?",
        "3: upstreams.a: kind openai needs a base_url",
        '4: upstreams.b: kind litellm needs a model, such as "anthropic/*"',
        "5: upstreams.c.timeout: is not a known key; did you mean 'timeouts'?",
        "7: routes.0.upstream: is required",
        "8: log.level: input should be 'debug', 'info', 'warning' or 'error'",
        "9: secret: ${NOPE} is not set in the environment; set it or write ${NOPE:-default}",
    ]


def test_routes_to_nowhere_and_demo_fallbacks_are_faults(write) -> None:
    text = (
        "upstreams: {real: {kind: openai, base_url: 'http://x'}, demo: {kind: demo}}\n"
        "routes:\n"
        "  - {model: a, upstream: reel}\n"
        "  - {model: b, upstream: demo}\n"
        "  - model: c\n"
        "    upstream: real\n"
        "    fallbacks:\n"
        "      - real\n"
        "      - demo\n"
        "      - other\n"
    )
    assert find_faults(write(text)) == [
        "3: routes.0.upstream: there is no upstream 'reel'; did you mean 'real'?",
        "9: routes.2.fallbacks.1: the demo upstream cannot be a fallback: its answers could pass for a real model's",
        "10: routes.2.fallbacks.2: there is no upstream 'other'",
    ]


def test_two_keys_of_one_name_or_hash_are_faults(write) -> None:
    one, other = "ab" * 32, "cd" * 32
    keys = [f"{{name: a, sha256: '{one}'}}", f"{{name: a, sha256: '{other}'}}", f"{{sha256: '{one.upper()}'}}"]
    text = MINIMAL + "auth:\n  keys:\n" + "".join(f"    - {key}\n" for key in keys)
    assert find_faults(write(text)) == [
        "6: auth.keys.1.name: another key is called 'a'",
        "7: auth.keys.2.sha256: another key has the same hash",
    ]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "gateway.example", ""])
def test_a_host_that_others_reach_is_told_apart(write, host: str) -> None:
    assert not is_loopback(load_settings(write(MINIMAL + f'listen: {{host: "{host}"}}\n'), {}).listen.host)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "localhost"])
def test_a_host_that_only_this_machine_reaches_is_too(write, host: str) -> None:
    assert is_loopback(load_settings(write(MINIMAL + f"listen: {{host: '{host}'}}\n"), {}).listen.host)


def test_a_key_says_what_it_may(write) -> None:
    more = "role: editor, groups: [press], tier: pro, limits: {requests: 5}, expires_at: '2099-01-31T00:00:00Z'"
    text = MINIMAL + f"auth: {{keys: [{{sha256: '{'ab' * 32}', {more}}}]}}\n"
    (key,) = load_settings(write(text), {}).auth.keys
    assert (key.role, key.groups, key.tier) == ("editor", ["press"], "pro")
    assert (key.limits.requests, key.limits.tokens) == (5, None)
    assert key.expires_at == datetime(2099, 1, 31, tzinfo=UTC)


def test_a_role_that_contradicts_the_rights_is_a_fault(write) -> None:
    text = MINIMAL + f"auth: {{keys: [{{sha256: '{'ab' * 32}', rights: [admin], role: chat}}]}}\n"
    assert find_faults(write(text)) == ["3: auth.keys.0.role: conflicts with the right admin; remove one of them"]


@pytest.mark.parametrize("store", ["postgres://user:word@x", "sqlite:x.db", "sqlite:///", "memory:x", "x"])
def test_an_unknown_store_is_a_fault_that_tells_no_password(write, store: str) -> None:
    (fault,) = find_faults(write(MINIMAL + f"store: '{store}'\n"))
    assert fault.startswith("3: store: ")
    assert "sqlite:///path, memory: or redis://host" in fault
    assert "word" not in fault


def test_a_redis_store_is_taken_as_it_is_and_kept_out_of_the_representation(write) -> None:
    settings = load_settings(write(MINIMAL + "store: '${WHERE}'\n"), {"WHERE": "rediss://:horse@host:6380/2"})
    assert settings.store == "rediss://:horse@host:6380/2"
    assert "horse" not in repr(settings)


def test_a_wrong_redis_address_is_a_fault_that_tells_no_password(write) -> None:
    (fault,) = find_faults(write(MINIMAL + "store: 'redis://:pass/horse@host'\n"))
    assert fault.startswith("3: store: needs the form redis://")
    assert "horse" not in fault


@pytest.mark.parametrize("text", ["", "[]", "5"])
def test_a_file_that_is_no_mapping_is_a_fault(write, text: str) -> None:
    assert find_faults(write(text))


def test_infinite_deadlines_are_refused(write) -> None:
    assert "finite number" in find_faults(write(MINIMAL + "limits: {body_seconds: '1e999'}\n"))[0]


def list_key_paths(model: type[BaseModel], prefix: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    """Every key that a configuration may hold; `*` stands for a name or position of the author's."""
    paths: set[tuple[str, ...]] = set()
    for name, field in model.model_fields.items():
        paths.add((*prefix, name))
        inner, many = field.annotation, False
        while typing.get_origin(inner) in (list, dict, types.UnionType):
            many = many or typing.get_origin(inner) in (list, dict)
            inner = next((part for part in typing.get_args(inner) if part not in (str, type(None))), None)
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            paths |= list_key_paths(inner, (*prefix, name, *(["*"] if many else [])))
    return paths


BY_NAME = (
    *(("upstreams",), ("prices",), ("tool_servers",), ("retrievers",), ("defaults", "types")),
    *(("collectors",), ("collectors", "*", "workspaces")),
)


def list_given_paths(data: object, prefix: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    if isinstance(data, list):
        return {path for value in data for path in list_given_paths(value, (*prefix, "*"))}
    if not isinstance(data, dict):
        return set()
    step = "*" if prefix in BY_NAME else None
    return {(*prefix, step or key) for key in data}.union(
        *(list_given_paths(value, (*prefix, step or key)) for key, value in data.items())
    )


def test_the_example_loads_without_any_environment() -> None:
    settings = load_settings(EXAMPLE, {})
    assert [name for name, upstream in settings.upstreams.items() if upstream.enabled] == ["demo"]
    assert not settings.auth.keys


def test_the_example_documents_every_key_and_each_of_them_works(tmp_path) -> None:
    text = re.sub(r"^( *)#(?=\S)", r"\1", EXAMPLE.read_text(), flags=re.MULTILINE)
    assert list_key_paths(Settings) <= list_given_paths(parse_yaml(text, "example").data)
    whole = tmp_path / "whole.yaml"
    whole.write_text(text)
    settings = load_settings(whole, {"GATEWAY_SECRET": "s"})
    assert settings.auth.keys[0].agent == "support"


def test_what_the_example_leaves_commented_out_is_the_default() -> None:
    shown = {name: getattr(load_settings(EXAMPLE, {}), name) for name in ("limits", "documents")}
    text = re.sub(r"^( *)#(?=\S)", r"\1", EXAMPLE.read_text(), flags=re.MULTILINE)
    data = parse_yaml(text, "example").data
    assert {name: section.model_dump() for name, section in shown.items()} == {name: data[name] for name in shown}


@pytest.mark.parametrize("url", ["api.example.com/v1", "ftp://x", "http://", "https://me:secret@example.com/v1"])
def test_a_base_url_that_cannot_be_dialled_is_a_fault_at_its_line(tmp_path: Path, url: str) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(f"upstreams:\n  a:\n    kind: openai\n    base_url: '{url}'\nroutes: []\n")
    with pytest.raises(Faults) as caught:
        load_settings(config, {})
    assert [(fault.line, fault.path) for fault in caught.value.faults] == [(4, "upstreams.a.base_url")]


def test_shares_are_of_the_categories_that_a_budget_is_divided_among() -> None:
    assert set(CategoryShares.model_fields) == {*SCOPE_ORDER, *VOLATILE_ORDER}
    assert set(typing.get_args(CategoryName)) == {*SCOPE_ORDER, *VOLATILE_ORDER} - {Category.CATALOGUE}


@pytest.mark.parametrize(
    ("environ", "options"),
    [
        ({}, set()),
        ({"MALLOC_ARENA_MAX": "8", "MALLOC_TRIM_THRESHOLD_": "1000"}, {"arena_max", "trim_threshold"}),
        ({"GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=1000:glibc.malloc.check=1"}, {"mmap_threshold"}),
    ],
)
def test_options_of_the_c_library_are_found(
    monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], options: set[str]
) -> None:
    for name in ("MALLOC_ARENA_MAX", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert find_malloc_options() == options
