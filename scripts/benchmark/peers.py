"""Other gateways beside ours: nginx, TensorZero, Portkey and litellm's proxy, each if it can be had here."""

import http.client
import json
import os
import secrets
import socket
import subprocess
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from scripts.benchmark import installs, payloads
from scripts.benchmark.cells import Kind
from scripts.benchmark.installs import InstalledPeer, NotInstallable
from scripts.benchmark.processes import list_process_tree, read_line, run_process
from scripts.benchmark.subjects import CHAT, RequestRoute, Subject, probe

MODELS = (payloads.BURST, payloads.PACED, payloads.PROBE)
NGINX_128K = "nginx-128k"  # with a buffer of that size: larger bodies go to a file, by default those above 16 KB
READY_SECONDS = 120

NGINX = """
daemon off; user root; worker_processes 1; pid {directory}/nginx.pid; error_log /dev/null;
events {{ worker_connections 1024; }}
http {{
    access_log off; client_body_buffer_size {buffer}; client_max_body_size 2m; keepalive_requests 100000000;
    client_body_temp_path {directory}/body; proxy_temp_path {directory}/proxy; fastcgi_temp_path {directory}/fastcgi;
    uwsgi_temp_path {directory}/uwsgi; scgi_temp_path {directory}/scgi;
    upstream mock {{ server 127.0.0.1:{upstream}; keepalive 64; keepalive_requests 100000000; }}
    server {{
        listen 127.0.0.1:{port};
        location /livez {{ return 200 "{{}}"; }}
        location / {{
            proxy_pass http://mock; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off;
        }}
    }}
}}
"""
TENSORZERO_MODEL = """
[models."{model}"]
routing = ["mock"]
[models."{model}".providers.mock]
type = "openai"
model_name = "{model}"
api_base = "http://127.0.0.1:{upstream}/v1/"
api_key_location = "none"
[functions."{model}"]
type = "chat"
[functions."{model}".variants.main]
type = "chat_completion"
model = "{model}"
system_template = "system.minijinja"
"""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a peer needs to start."""

    upstream: int
    directory: Path


PeerRunner = Callable[[InstalledPeer, Surroundings], AbstractContextManager[Subject]]


@dataclass(frozen=True, slots=True)
class Peer:
    """Another gateway: how to get it and how to run it."""

    name: str
    install: Callable[[Path], InstalledPeer]
    run: PeerRunner


@dataclass(slots=True)
class RunningPeers:
    """The peers that serve, and why others do not."""

    subjects: list[Subject] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)


@contextmanager
def run_peers(around: Surroundings, cache: Path, names: Callable[[str], bool]) -> Generator[RunningPeers]:
    """Every peer that is asked for and can be had here."""
    with ExitStack() as stack:
        running = RunningPeers()
        for peer in PEERS:
            if not names(peer.name):
                continue
            own = Surroundings(around.upstream, around.directory / peer.name)
            own.directory.mkdir()
            try:
                installed = peer.install(cache / peer.name)
                subject = stack.enter_context(peer.run(installed, own))
                probe(subject, Kind.INJECTED)
            except (NotInstallable, RuntimeError, OSError, ValueError) as error:
                running.missing[peer.name] = str(error)
                continue
            running.subjects.append(subject)
            running.versions[peer.name] = installed.version
        yield running


def build_subject(name: str, port: int, process: subprocess.Popen[str], route: RequestRoute, slowness: int) -> Subject:
    """Peers that inject nothing are measured where others inject: as plain relays."""
    return Subject(name, port, tuple(list_process_tree(process.pid)), {Kind.INJECTED: route}, slowness)


@contextmanager
def run_nginx(
    installed: InstalledPeer, around: Surroundings, name: str = "nginx", buffer: str = "1m"
) -> Generator[Subject]:
    port, config = find_free_port(), around.directory / "nginx.conf"
    config.write_text(NGINX.format(directory=around.directory, upstream=around.upstream, port=port, buffer=buffer))
    with run_process([*installed.command, "-p", str(around.directory), "-c", str(config)]) as process:
        wait_until_alive(port, "/livez", process)
        yield build_subject(name, port, process, RequestRoute(), 1)


@contextmanager
def run_tensorzero(installed: InstalledPeer, around: Surroundings) -> Generator[Subject]:
    """Without observability; a function's system template injects the 4 KB."""
    config = around.directory / "tensorzero.toml"
    models = (TENSORZERO_MODEL.format(model=model, upstream=around.upstream) for model in MODELS)
    config.write_text("".join(["[gateway]\nobservability.enabled = false\n", *models]))
    (around.directory / "system.minijinja").write_text(f"{{{{ system_text }}}}\n\n{payloads.CONTEXT}")
    with run_process([*installed.command, str(config)], {**os.environ, "RUST_LOG": "error"}) as process:
        port = int(read_address(process).split(":")[2].split("/")[0])
        route = RequestRoute(f"/openai{CHAT}", model="tensorzero::function_name::{}", context=True)
        yield build_subject("tensorzero", port, process, route, 1)


def read_address(process: subprocess.Popen[str]) -> str:
    """The first line that is an address: others are log lines."""
    while not (line := read_line(process)).startswith("http"):
        pass
    return line.strip()


@contextmanager
def run_portkey(installed: InstalledPeer, around: Surroundings) -> Generator[Subject]:
    port = find_free_port()
    environ = {**os.environ, "NODE_ENV": "production", "TRUSTED_CUSTOM_HOSTS": "127.0.0.1"}
    with run_process([*installed.command, f"--port={port}", "--headless"], environ) as process:
        wait_until_alive(port, "/", process)
        host = ("x-portkey-custom-host", f"http://127.0.0.1:{around.upstream}/v1")
        yield build_subject("portkey", port, process, RequestRoute(headers=(("x-portkey-provider", "openai"), host)), 4)


@contextmanager
def run_litellm(installed: InstalledPeer, around: Surroundings) -> Generator[Subject]:
    port, config = find_free_port(), around.directory / "litellm.yaml"
    parameters = {"api_base": f"http://127.0.0.1:{around.upstream}/v1", "api_key": "none"}
    models = [{"model_name": name, "litellm_params": {"model": f"openai/{name}", **parameters}} for name in MODELS]
    config.write_text(json.dumps({"model_list": models}))
    command = [*installed.command, "--config", str(config), "--host", "127.0.0.1", "--port", str(port)]
    key = f"sk-{secrets.token_hex(32)}"  # it does not start without one
    said = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR", "LITELLM_MASTER_KEY": key}
    environ: Mapping[str, str] = {**os.environ, **said}
    # On a busy machine a client may wait longer for the others than uvicorn's 5 s.
    with run_process([*command, "--num_workers", "1", "--keepalive_timeout", "60"], environ) as process:
        wait_until_alive(port, "/health/liveliness", process)
        bearer = RequestRoute(headers=(("authorization", f"Bearer {key}"),))
        yield build_subject("litellm", port, process, bearer, 20)


PEERS = (
    Peer("nginx", installs.install_nginx, run_nginx),
    Peer(NGINX_128K, installs.install_nginx, partial(run_nginx, name=NGINX_128K, buffer="128k")),
    Peer("tensorzero", installs.install_tensorzero, run_tensorzero),
    Peer("portkey", installs.install_portkey, run_portkey),
    Peer("litellm", installs.install_litellm, run_litellm),
)


def find_free_port() -> int:
    """A port that was free a moment ago: these servers cannot say which one the kernel gave them."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def wait_until_alive(port: int, path: str, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("GET", path)
            if connection.getresponse().status == 200:
                return
        except OSError:
            time.sleep(0.2)
        finally:
            connection.close()
    raise RuntimeError("it did not come up")
