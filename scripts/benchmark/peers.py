"""Other gateways for comparison: litellm's proxy from a venv of its own, and nginx where it is installed."""

import http.client
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from scripts.benchmark import payloads
from scripts.benchmark.cells import Kind
from scripts.benchmark.processes import list_process_tree, run_process
from scripts.benchmark.subjects import RequestRoute, Subject

LITELLM = "litellm[proxy]==1.106.2"
LITELLM_SLOWNESS = 20
READY_SECONDS = 120

NGINX = """
daemon off; worker_processes 1; pid {directory}/nginx.pid; error_log /dev/null;
events {{ worker_connections 1024; }}
http {{
    access_log off; client_body_buffer_size 64k; client_max_body_size 1m; keepalive_requests 1000000;
    client_body_temp_path {directory}/body; proxy_temp_path {directory}/proxy; fastcgi_temp_path {directory}/fastcgi;
    uwsgi_temp_path {directory}/uwsgi; scgi_temp_path {directory}/scgi;
    upstream mock {{ server 127.0.0.1:{upstream}; keepalive 64; keepalive_requests 1000000; }}
    server {{
        listen 127.0.0.1:{port};
        location /livez {{ return 200 "{{}}"; }}
        location / {{
            proxy_pass http://mock; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off;
        }}
    }}
}}
"""


@contextmanager
def run_peers(upstream_port: int, directory: Path, cache: Path) -> Generator[list[Subject]]:
    """Every peer that can be had here."""
    with ExitStack() as stack:
        found = [stack.enter_context(run_litellm(upstream_port, directory, cache))]
        if command := shutil.which("nginx"):
            found.append(stack.enter_context(run_nginx(command, upstream_port, directory)))
        else:
            print("nginx is not installed and is left out.", file=sys.stderr)
        yield found


def build_routes(*headers: tuple[str, str]) -> dict[Kind, RequestRoute]:
    """Peers inject nothing: what they relay stands next to what we inject."""
    return dict.fromkeys((Kind.RELAY, Kind.INJECTED), RequestRoute(headers=headers))


@contextmanager
def run_nginx(command: str, upstream_port: int, directory: Path) -> Generator[Subject]:
    port = find_free_port()
    config = directory / "nginx.conf"
    config.write_text(NGINX.format(directory=directory, upstream=upstream_port, port=port))
    with run_process([command, "-p", str(directory), "-c", str(config)]) as process:
        wait_until_alive(port, "/livez", process)
        yield Subject("nginx", port, tuple(list_process_tree(process.pid)), build_routes())


@contextmanager
def run_litellm(upstream_port: int, directory: Path, cache: Path) -> Generator[Subject]:
    port = find_free_port()
    parameters = {"api_base": f"http://127.0.0.1:{upstream_port}/v1", "api_key": "none"}
    models = [
        {"model_name": name, "litellm_params": {"model": f"openai/{name}", **parameters}}
        for name in (payloads.BURST, payloads.PACED)
    ]
    config = directory / "litellm.yaml"
    config.write_text(json.dumps({"model_list": models}))
    command = [install_litellm(cache), "--config", config, "--host", "127.0.0.1", "--port", port, "--num_workers", 1]
    key = f"sk-{secrets.token_hex(32)}"  # it does not start without one
    bearer = ("authorization", f"Bearer {key}")
    said = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR", "LITELLM_MASTER_KEY": key}
    environ = {**os.environ, **said}
    with run_process([str(word) for word in command], environ) as process:
        wait_until_alive(port, "/health/liveliness", process)
        yield Subject("litellm", port, tuple(list_process_tree(process.pid)), build_routes(bearer), LITELLM_SLOWNESS)


def install_litellm(cache: Path) -> Path:
    """litellm's proxy; installed into a venv of its own the first time."""
    venv = cache / "litellm-proxy"
    stamp = venv / "installed"
    if not stamp.exists() or stamp.read_text() != LITELLM:
        print(f"Installing {LITELLM} into {venv} (a few minutes the first time)", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", venv], check=True)
        subprocess.run([venv / "bin" / "pip", "install", "--quiet", LITELLM], check=True)
        stamp.write_text(LITELLM)
    return venv / "bin" / "litellm"


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
    raise RuntimeError(f"{process.args!r} did not come up")
