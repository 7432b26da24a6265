"""Node clients behind the interface of the Python ones: one process for all of them, a line per request."""

import json
import subprocess
from pathlib import Path
from typing import Any, ClassVar

from tests.clients.scenario import JSON_PLACE, MODEL, Place, ToolUse
from tests.support.upstream import Reaction, call

HERE = Path(__file__).parent


class NodeFailure(Exception):
    """What a client raised."""

    def __init__(self, told: dict[str, Any]) -> None:
        super().__init__(f"{told['name']}: {told['message']}")
        self.status: int | None = told["status"]


class NodeProcess:
    """A process that runs requests of clients."""

    def __init__(self, origin: str) -> None:
        self._process = subprocess.Popen(
            ["node", "clients.mjs", origin], cwd=HERE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, client: str, scenario: str, *, model: str = MODEL, stream: bool = False) -> Any:
        """What a client returned; raises NodeFailure."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        asked = {"client": client, "scenario": scenario, "model": model, "stream": stream}
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        if "error" in answer:
            raise NodeFailure(answer["error"])
        return answer["result"]

    def close(self) -> None:
        self._process.communicate(timeout=30)


class NodeAdapter:
    place: ClassVar[Reaction] = JSON_PLACE

    def __init__(self, process: NodeProcess, client: str, model: str) -> None:
        self._process, self._client, self._model = process, client, model

    def _run(self, scenario: str, stream: bool) -> Any:
        return self._process.run(self._client, scenario, model=self._model, stream=stream)

    def ask(self, *, stream: bool) -> str:
        return str(self._run("ask", stream))

    def use_tool(self, *, stream: bool) -> ToolUse:
        used = self._run("useTool", stream)
        return ToolUse([(name, arguments) for name, arguments in used["calls"]], used["text"])

    def parse(self, *, stream: bool) -> Place:
        return Place.model_validate(self._run("parse", stream))

    def fail(self, *, stream: bool) -> int | None:
        try:
            self.ask(stream=stream)
        except NodeFailure as failure:
            return failure.status
        return None


class FormNodeAdapter(NodeAdapter):
    """A client that gets a Place by a named tool."""

    place: ClassVar[Reaction] = call("place", city="Oslo")
