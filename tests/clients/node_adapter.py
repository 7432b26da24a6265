"""Node clients behind the interface of the Python ones: one process for all of them, a line per request."""

import json
import subprocess
from pathlib import Path
from typing import Any, ClassVar

from tests.clients.scenario import JSON_PLACE, Place, ToolUse
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

    def run(self, client: str, scenario: str) -> Any:
        """What a client returned; raises NodeFailure."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"client": client, "scenario": scenario}) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        if "error" in answer:
            raise NodeFailure(answer["error"])
        return answer["result"]

    def close(self) -> None:
        self._process.communicate(timeout=30)


class NodeAdapter:
    place: ClassVar[Reaction] = JSON_PLACE

    def __init__(self, process: NodeProcess, client: str) -> None:
        self._process, self._client = process, client

    def ask(self) -> str:
        return str(self._process.run(self._client, "ask"))

    def stream(self) -> str:
        return str(self._process.run(self._client, "stream"))

    def use_tool(self) -> ToolUse:
        used = self._process.run(self._client, "useTool")
        return ToolUse([(name, arguments) for name, arguments in used["calls"]], used["text"])

    def parse(self) -> Place:
        return Place.model_validate(self._process.run(self._client, "parse"))

    def fail(self) -> int | None:
        try:
            self.ask()
        except NodeFailure as failure:
            return failure.status
        return None


class FormNodeAdapter(NodeAdapter):
    """A client that gets a Place by a named tool."""

    place: ClassVar[Reaction] = call("place", city="Oslo")
