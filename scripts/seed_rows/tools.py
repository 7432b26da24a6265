"""Tools of MCP servers as items of a context: modes, permission, rules and results."""

from scripts.seed_rows.bench import Bench
from scripts.seed_rows.checks import expect, expect_in, expect_none_in, expect_true, find_one, rows
from tests.support.upstream import call, say


def wait_for_tools(bench: Bench) -> None:
    def is_up() -> bool:
        listed = bench.manage("GET", "/tool-servers")
        servers = listed["items"] if isinstance(listed, dict) else listed
        return any(one["state"] == "up" for one in servers)

    if not bench.known.get("tools"):
        bench.wait_for(is_up, "the tool server is connected")
        bench.known["tools"] = True


@rows("000.2.16", "004.1.2", "004.3.4")
def see_a_tool_registered_and_run(bench: Bench) -> str:
    wait_for_tools(bench)
    sent = bench.ask("Say hello", call("files__echo", text="hello"), say("Fine."), agent="plain-engineer")
    expect_true({"files__echo", "files__weather"} <= set(sent.tools), f"tools of the request: {sent.tools}")
    expect(sent.tool_results, ["echo: hello"], "what the server answered")
    expect(sent.reply.text, "Fine.", "the client sees the answer only")
    return f"{sent.tools}; the server was called and said 'echo: hello'"


@rows("004.1.3", "004.1.4", "004.6.8", "004.4.5", "004.4.6")
def see_modes_of_servers_and_tools(bench: Bench) -> str:
    wait_for_tools(bench)
    plain = bench.ask("Hm?", agent="engineer").tools
    expect(plain, ["files__echo"], "always by the tool; the others are semantic by the server")

    def look() -> list[str]:
        return bench.ask("What is the weather forecast of the city for tomorrow?", agent="engineer").tools

    asked = look() if bench.blind else bench.wait_for(lambda: look() if "files__weather" in look() else None, "a pick")
    expect(sorted(asked), ["files__echo", "files__weather"], "semantic, by name and description")
    files = bench.ask("Read the contents of a file", agent="engineer").tools
    expect_true({"files__read_file", "files__write_file"} <= set(files), f"read_file brings write_file: {files}")
    everything = bench.ask("Hm?", agent="plain-engineer").tools
    expect_true("files__weather" in everything, f"without any mode, always: {everything}")
    return f"tool → server → always; a question brings {asked[-1]}, and read_file brings write_file"


@rows("004.2.7", "004.2.11")
def see_permissions(bench: Bench) -> str:
    wait_for_tools(bench)
    expect(bench.ask("Hm?", agent="plain-engineer").tools[:1], ["files__echo"], "allow")
    denied = bench.ask("Hm?", agent="forbidden")
    expect_none_in(str(denied.tools), "files__")
    careful = bench.ask("Hm?", call("files__echo", text="x"), say("Fine."), agent="careful")
    expect_in(str(careful.tool_results), "approv")
    expect_none_in(str(careful.tool_results), "echo: x")
    return f"deny: not offered; approve: {careful.tool_results[0][:90]}"


@rows("004.6.9")
def see_what_results_bring(bench: Bench) -> str:
    wait_for_tools(bench)
    words = "How do I authenticate? How do I sign in to the API?"
    sent = bench.ask("Hm?", call("files__echo", text=words), say("Fine."), agent="learner")
    expect_in(str(sent.tool_results), f"echo: {words}")
    expanded = bench.read_receipt(sent).get("expanded") or []
    expect_true(expanded, f"the receipt has what the result brought: {expanded}")
    find_one(expanded, id="related/auth")
    expect_in(str(sent.sent[-1]["messages"]), "To authenticate, fetch the API endpoint.")
    return f"the result of a tool brings {[one['id'] for one in expanded]} into the next turn"
