"""What the console brings along from others is what the manifest says, and nothing comes from another host."""

import json
import re
from hashlib import sha256
from pathlib import Path

import pytest

CONSOLE = Path(__file__).parents[2] / "gateway" / "console"
VENDOR = CONSOLE / "vendor"
MANIFEST = json.loads((VENDOR / "manifest.json").read_text())


@pytest.mark.parametrize("package", MANIFEST, ids=lambda package: package["name"])
def test_every_vendored_file_has_the_hash_and_licence_that_the_manifest_says(package):
    for name, digest in package["sha256"].items():
        assert sha256((VENDOR / name).read_bytes()).hexdigest() == digest, f"run scripts/vendor: {name} was changed"
    assert package["version"]
    assert package["licence"]
    assert (VENDOR / f"{package['name']}.LICENSE.txt").read_text().strip()


def test_no_vendored_file_is_missing_from_the_manifest():
    listed = {name for package in MANIFEST for name in package["sha256"]}
    present = {path.name for path in VENDOR.iterdir() if path.suffix in (".js", ".css", ".woff2")}
    assert present == listed


def test_nothing_is_loaded_from_another_host():
    loads = re.compile(r"""(?:from|import|import\(|src=|href=|url\()\s*["']?(?:https?:)?//""")
    own = [path for path in CONSOLE.rglob("*") if path.suffix in (".js", ".css", ".html") and path.parent != VENDOR]
    assert own
    assert [str(path) for path in own if loads.search(path.read_text())] == []


def test_nothing_in_a_page_is_inline_or_becomes_html():
    """The content security policy forbids inline code and style attributes; texts only ever become text."""
    forbidden = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|unsafeHTML|document\.write|\beval\(|[ \n]style=")
    own = [path for path in CONSOLE.rglob("*") if path.suffix in (".js", ".html") and path.parent != VENDOR]
    assert [str(path) for path in own if forbidden.search(path.read_text())] == []
