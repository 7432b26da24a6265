"""config.yaml and the environment become one Settings; nothing else reads os.environ."""

import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from gateway.domain.principal import Role
from gateway.domain.redis_address import SCHEMES, redis_address
from gateway.errors import Faults
from gateway.interpolation import interpolate_document
from gateway.settings import KeySettings, SemanticSettings, Settings
from gateway.strict_yaml import Keys, YamlDocument, load_yaml
from gateway.validation import format_suggestion, validate


class SettingsOverrides(msgspec.Struct, frozen=True):
    """Options of the command line, which win over the file."""

    host: str | None = None
    port: int | None = None
    policies: Path | None = None  # relative to the working directory


NO_OVERRIDES = SettingsOverrides()


def load_settings(
    path: Path | None, environ: Mapping[str, str] | None = None, overrides: SettingsOverrides = NO_OVERRIDES
) -> Settings:
    """The settings of a file, or the built-in demo when there is none; raises Faults with everything that is wrong."""
    document = load_yaml(path) if path else YamlDocument("(built-in demo)", _build_demo_settings(), {})
    data, faults = interpolate_document(document, os.environ if environ is None else environ)
    settings, wrong = validate(Settings, _apply_overrides(data or {}, overrides), document, ())
    faults += wrong
    if settings is not None:
        faults += [document.fault(keys, message) for keys, message in _find_contradictions(settings)]
    if settings is None or faults:
        raise Faults(sorted(faults, key=lambda fault: fault.line))
    return _anchor_paths(settings, path.parent if path else Path())


def find_example_policies() -> Path | None:
    """The example policies of the source tree; an installed package has none.

    They lie beside the package, so that the only copy is where a person looks for it.
    """
    directory = Path(__file__).resolve().parent.parent / "policies"
    return directory if directory.is_dir() else None


def _build_demo_settings() -> dict[str, Any]:
    # An empty directory rather than none at all: policies that appear there are picked up.
    policies = find_example_policies() or tempfile.mkdtemp(prefix="gateway-policies-")
    return {
        "policies": str(policies),
        "store": "memory:",
        "upstreams": {"demo": {"kind": "demo", "model": "*"}},
        "routes": [{"model": "*", "upstream": "demo"}],
        "defaults": {"model": "demo"},
    }


def _apply_overrides(data: Any, overrides: SettingsOverrides) -> Any:
    if not isinstance(data, dict):
        return data
    given = {"host": overrides.host, "port": overrides.port}
    listen = data.get("listen", {})
    if isinstance(listen, dict):
        data = data | {"listen": listen | {key: value for key, value in given.items() if value is not None}}
    if overrides.policies is not None:
        data = data | {"policies": str(overrides.policies.absolute())}
    return data


def _find_contradictions(settings: Settings) -> Iterator[tuple[Keys, str]]:
    """Settings that are valid one by one but do not work together."""
    yield from _find_route_faults(settings)
    yield from _find_key_faults(settings.auth.keys)
    if wrong := _find_store_fault(settings.store):
        yield ("store",), wrong
    if settings.semantic.index == "redis" and settings.store.partition(":")[0] not in SCHEMES:
        yield ("semantic", "index"), "redis requires a Redis store: remove this key or set `store` to a redis:// URL"


def _find_store_fault(store: str) -> str | None:
    """What is wrong with the URL of a store; only its scheme is quoted, since the rest may hold a password."""
    scheme, _, rest = store.partition(":")
    if scheme in SCHEMES:
        try:
            redis_address(store)
        except ValueError as error:
            return str(error)
    elif not (store == "memory:" or (scheme == "sqlite" and rest.startswith("///") and rest.strip("/"))):
        return f"{scheme!r} is not a known store; use sqlite:///path, memory: or redis://host"
    return None


def _find_route_faults(settings: Settings) -> Iterator[tuple[Keys, str]]:
    for position, route in enumerate(settings.routes):
        here = ("routes", position)
        named: list[tuple[Keys, str]] = [((*here, "upstream"), route.upstream)]
        named += [((*here, "fallbacks", at), name) for at, name in enumerate(route.fallbacks)]
        yield from _find_upstream_faults(settings, named)
    for position, path in enumerate(settings.passthrough):
        if path.upstream is not None:
            yield from _find_upstream_faults(settings, [(("passthrough", position, "upstream"), path.upstream)])


def _find_upstream_faults(settings: Settings, named: list[tuple[Keys, str]]) -> Iterator[tuple[Keys, str]]:
    for keys, name in named:
        upstream = settings.upstreams.get(name)
        if upstream is None:
            yield keys, f"there is no upstream {name!r}{format_suggestion(name, settings.upstreams)}"
        elif upstream.kind == "demo" and "fallbacks" in keys:
            yield keys, "the demo upstream cannot be a fallback: its answers could pass for a real model's"


def _find_key_faults(keys: list[KeySettings]) -> Iterator[tuple[Keys, str]]:
    names: set[str] = set()
    hashes: set[str] = set()
    for position, key in enumerate(keys):
        if key.name is not None and key.name in names:
            yield ("auth", "keys", position, "name"), f"another key is called {key.name!r}"
        if key.sha256.lower() in hashes:
            yield ("auth", "keys", position, "sha256"), "another key has the same hash"
        if "admin" in key.rights and key.role not in (None, Role.ADMIN):
            yield ("auth", "keys", position, "role"), "conflicts with the right admin; remove one of them"
        names |= {key.name} if key.name is not None else set()
        hashes.add(key.sha256.lower())


def _anchor_paths(settings: Settings, directory: Path) -> Settings:
    """The settings with absolute paths; relative ones start at the directory of the file."""
    changes: dict[str, Any] = {
        "policies": str((directory / settings.policies).absolute()),
        "semantic": _anchor_semantic_paths(settings.semantic, directory),
    }
    if settings.store.startswith("sqlite:///"):
        changes["store"] = f"sqlite:///{(directory / settings.store.removeprefix('sqlite:///')).absolute()}"
    return settings.model_copy(update=changes)


def _anchor_semantic_paths(semantic: SemanticSettings, directory: Path) -> SemanticSettings:
    calibration, model = (
        None if path is None else str((directory / path).absolute())
        for path in (semantic.calibration, semantic.embedder.path)
    )
    embedder = semantic.embedder.model_copy(update={"path": model})
    return semantic.model_copy(update={"calibration": calibration, "embedder": embedder})


def limit_blas_threads() -> None:
    """Limit a matrix product to one thread, unless the environment says otherwise; call it before numpy is imported.

    Its threads wait for each other: on a busy machine a product of 5 ms then takes a second.
    """
    for library in ("OPENBLAS", "MKL", "OMP"):
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")


def find_malloc_options() -> set[str]:
    """What the environment tells the C library about its memory, by the names of its tunables."""
    names = {
        "arena_max": "MALLOC_ARENA_MAX",
        "mmap_threshold": "MALLOC_MMAP_THRESHOLD_",
        "trim_threshold": "MALLOC_TRIM_THRESHOLD_",
    }
    tunables = os.environ.get("GLIBC_TUNABLES", "")
    return {name for name, variable in names.items() if os.environ.get(variable) or f"malloc.{name}=" in tunables}
