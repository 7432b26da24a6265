"""The files that resource types bring along for the console, below `/console/plugins/{type}/`.

Only what a type declares is found, by exactly that name. Files are read when somebody first asks for one of the type's,
and kept: a plug-in that changes needs a restart anyway.
"""

from collections.abc import Mapping
from typing import Final, Self

import msgspec

from gateway.edge.console_files import PREFIX, VERSION_MARK, ConsoleFile, compute_version
from gateway.resources.console_assets import ConsoleAssets
from gateway.resources.registry import ResourceRegistry

FOLDER: Final = "plugins/"  # below /console/


class AssetAddresses(msgspec.Struct, frozen=True):
    """Where browsers find what a type brings along; None: it has none."""

    editor: str | None = None
    icon: str | None = None


NO_ADDRESSES: Final = AssetAddresses()


class TypeFiles(msgspec.Struct, frozen=True):
    """The files of one type, as they are sent."""

    version: str
    files: Mapping[str, ConsoleFile]

    @classmethod
    def read(cls, assets: ConsoleAssets) -> Self:
        bodies = {name: (assets.folder / name).read_bytes() for name in assets.files}
        packed = {name: ConsoleFile.pack(body, (assets.folder / name).suffix) for name, body in bodies.items()}
        return cls(compute_version(bodies.items()), packed)


class PluginFiles:
    """The declared files of all types; every method may block."""

    def __init__(self, types: ResourceRegistry) -> None:
        kinds = (types.get(alias) for alias in types.list_aliases())
        self._assets = {one.alias: one.console for one in kinds if one is not None and one.console is not None}
        self._read: dict[str, TypeFiles] = {}

    @property
    def is_empty(self) -> bool:
        return not self._assets

    def find(self, name: str) -> tuple[ConsoleFile, bool] | None:
        """A file by its path below FOLDER, and whether the path names the version that is served; None: no such file.

        Raises OSError for a file that is gone.
        """
        alias, _, below = name.partition("/")
        asked, _, rest = below.partition("/") if below.startswith(VERSION_MARK) else ("", "", below)
        if alias not in self._assets or rest not in self._assets[alias].files:
            return None
        known = self._get_files(alias)
        return known.files[rest], asked == f"{VERSION_MARK}{known.version}"

    def locate(self, alias: str) -> AssetAddresses:
        """Where browsers find the editor and the icon of a type."""
        assets = self._assets.get(alias)
        if assets is None:
            return NO_ADDRESSES
        folder = f"{PREFIX}/{FOLDER}{alias}/{VERSION_MARK}{self._get_files(alias).version}/"
        return AssetAddresses(*(folder + name if name is not None else None for name in (assets.editor, assets.icon)))

    def _get_files(self, alias: str) -> TypeFiles:
        if alias not in self._read:
            self._read[alias] = TypeFiles.read(self._assets[alias])
        return self._read[alias]
