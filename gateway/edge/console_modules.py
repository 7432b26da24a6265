"""What a page of the console will load, found in its modules: browsers fetch all of it at once instead of in steps."""

import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple
from urllib.parse import unquote

ENTRY: Final = "main.js"
ROUTES: Final = "shell/routes.js"

STATIC = re.compile(r"""^(?:import|export)\s+(?:[\w*${},\s]+?\sfrom\s+)?"(\.[^"]+)";?""", re.MULTILINE)
_DYNAMIC = re.compile(r"""\bimport\("(\.[^"]+)"\)""")
_ROUTE = re.compile(r"""\{path: "([^"]+)".*?import\("(\.[^"]+)"\)""")

ReadText = Callable[[str], str | None]  # the text of a module by its path below the console; None: there is none


class PageRoute(NamedTuple):
    """The address of a page, such as `/contexts/:alias/:resource?`, and its module."""

    pattern: str
    module: str

    def matches(self, address: str) -> bool:
        """Whether this is the page of an address below `/console`."""
        wanted, parts = (list(filter(None, path.split("/"))) for path in (self.pattern, address))
        required = [part for part in wanted if not part.endswith("?")]
        if not len(required) <= len(parts) <= len(wanted):
            return False
        return all(
            part in (name, unquote(name)) or part.startswith(":") for part, name in zip(wanted, parts, strict=False)
        )


def find_page_module(address: str, read: ReadText) -> str | None:
    """The module of the page at an address; None: there is no such page."""
    routes = (PageRoute(path, resolve(ROUTES, module)) for path, module in _ROUTE.findall(read(ROUTES) or ""))
    return next((route.module for route in routes if route.matches(address)), None)


def list_modules(page: str | None, read: ReadText) -> list[str]:
    """The modules that the console needs before it shows a page, each once, in the order in which they are named."""
    found: dict[str, None] = {}
    waiting = [*([page] if page else ()), *_list_entries(read)]
    while waiting:
        name = waiting.pop()
        text = read(name)
        if name in found or text is None:
            continue
        found[name] = None
        waiting += reversed([resolve(name, other) for other in STATIC.findall(text)])
    return list(found)


def resolve(importer: str, specifier: str) -> str:
    """The path that a module's relative import names."""
    parts = importer.split("/")[:-1]
    for part in specifier.split("/"):
        if part == "..":
            del parts[-1:]
        elif part != ".":
            parts.append(part)
    return "/".join(parts)


def _list_entries(read: ReadText) -> Iterator[str]:
    """What is loaded first comes last: `list_modules` begins at the end."""
    text = read(ENTRY) or ""
    yield from (resolve(ENTRY, name) for name in _DYNAMIC.findall(text))
    yield ENTRY
