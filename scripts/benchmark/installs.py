"""Installs other gateways below build/peers/, each in a place of its own, with the package clients of the machine."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

LITELLM = "litellm[proxy]==1.106.2"
TENSORZERO = "tensorzero==2026.6.0"
PORTKEY = "@portkey-ai/gateway@1.15.2"
INSTALL_SECONDS = 900


@dataclass(frozen=True, slots=True)
class InstalledPeer:
    """A program that can be started, and which version it is."""

    command: tuple[str, ...]
    version: str


class NotInstallable(Exception):
    """A peer cannot be had on this machine; the message says why."""


def install_nginx(directory: Path) -> InstalledPeer:
    """The system's nginx, or Debian's package unpacked (without root)."""
    program = shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin") or unpack_nginx(directory)
    said = run_tool([program, "-v"])
    return InstalledPeer((program,), said.rsplit("/", 1)[-1].split()[0])


def unpack_nginx(directory: Path) -> str:
    program = directory / "root" / "usr" / "sbin" / "nginx"
    if not program.is_file():
        require_tools("apt-get", "dpkg-deb")
        directory.mkdir(parents=True, exist_ok=True)
        run_tool(["apt-get", "download", "nginx"], directory)
        (package,) = directory.glob("nginx_*.deb")
        run_tool(["dpkg-deb", "-x", str(package), str(directory / "root")])
        program.chmod(0o755)
    return str(program)


def install_litellm(directory: Path) -> InstalledPeer:
    install_package(directory, LITELLM)
    return InstalledPeer((str(directory / "bin" / "litellm"),), LITELLM.split("==")[1])


def install_tensorzero(directory: Path) -> InstalledPeer:
    install_package(directory, TENSORZERO)
    server = Path(__file__).with_name("tensorzero_server.py")
    return InstalledPeer((str(directory / "bin" / "python"), str(server)), TENSORZERO.split("==")[1])


def install_portkey(directory: Path) -> InstalledPeer:
    require_tools("node", "npm")
    package = directory / "node_modules" / "@portkey-ai" / "gateway"

    def install() -> None:
        directory.mkdir(parents=True)
        options = ["--silent", "--no-audit", "--no-fund", "--no-package-lock"]
        run_tool(["npm", "install", *options, "--prefix", str(directory), PORTKEY])

    install_once(directory, PORTKEY, install)
    version = json.loads((package / "package.json").read_text())["version"]
    return InstalledPeer(("node", str(package / "build" / "start-server.js")), version)


def install_package(directory: Path, requirement: str) -> None:
    """A Python package in a venv of its own."""

    def install() -> None:
        run_tool([sys.executable, "-m", "venv", str(directory)])
        run_tool([str(directory / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check", requirement])

    install_once(directory, requirement, install)


def install_once(directory: Path, what: str, install: Callable[[], None]) -> None:
    """Run `install` unless `what` is there already; half an installation is thrown away."""
    stamp = directory / "installed"
    if stamp.is_file() and stamp.read_text() == what:
        return
    shutil.rmtree(directory, ignore_errors=True)
    print(f"Installing {what} (a few minutes the first time)", file=sys.stderr, flush=True)
    install()
    stamp.write_text(what)


def require_tools(*names: str) -> None:
    for name in names:
        if shutil.which(name) is None:
            raise NotInstallable(f"{name} is missing")


def run_tool(command: list[str], directory: Path | None = None) -> str:
    """What a program prints; raises NotInstallable if it fails."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=INSTALL_SECONDS,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotInstallable(f"{Path(command[0]).name}: {type(error).__name__}") from error
    if done.returncode:
        raise NotInstallable(f"{Path(command[0]).name} exited with status {done.returncode}")
    return done.stdout + done.stderr
