"""The management API: objects, resource types, and what is kept of exchanges."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from scripts.seed_rows.bench import Bench
from scripts.seed_rows.checks import expect, expect_in, expect_true, find_one, rows
from tests.support.upstream import say

ROOT = Path(__file__).resolve().parents[2]
NOTE = {"id": "note", "type": "text", "data": {"content": "A note."}}


@rows("000.3.6")
def see_that_a_type_never_changes(bench: Bench) -> str:
    bench.manage("POST", "/contexts", {"alias": "typed", "resources": [NOTE]})
    changed = {"id": "note", "type": "glossary", "data": {"terms": {"a": "b"}}}
    refused = bench.call("PUT", "/api/v1/contexts/typed/resources/note", changed)
    same = bench.call("PUT", "/api/v1/contexts/typed/resources/note", NOTE | {"data": {"content": "Other."}})
    bench.manage("DELETE", "/contexts/typed")
    expect((refused.status, same.status), (422, 200))
    return f"422: {refused.body['errors']}"


@rows("000.4.2", "000.13.16")
def see_icons_and_recommended_modes(bench: Bench) -> str:
    types = bench.manage("GET", "/resource-types")
    listed = types["items"] if isinstance(types, dict) else types
    modes = {one["alias"]: one["recommended_mode"] for one in listed}
    expect_true(all(one["icon"] for one in listed), "each type has an icon")
    wanted = {"brand-voice": "always", "document": "on_demand", "external-link": "on_demand", "text": "always"}
    expect({alias: modes[alias] for alias in wanted}, wanted)
    return f"{len(listed)} types with icons; recommended {modes}"


@rows("000.4.5")
def see_a_broken_plugin_named(bench: Bench) -> str:
    folder = bench.directory / "plugins"
    folder.mkdir()
    (folder / "nameless.py").write_text(
        "from gateway.resources.base import ResourceType\n\nclass Nameless(ResourceType):\n    name = 'x'\n"
    )
    info = folder / "nameless-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: nameless\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[gateway.plugins]\nresource-nameless = nameless:Nameless\n")
    command = [sys.executable, "-m", "gateway", "check", "--config", str(bench.directory / "config.yaml")]
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}"}
    done = subprocess.run(command, capture_output=True, text=True, env=environ, check=False, timeout=120)
    said = done.stdout + done.stderr
    expect_true(done.returncode != 0, f"it is refused: {said[-300:]}")
    expect_in(said, "nameless", "alias")
    expect_true("Traceback" not in said, f"no traceback: {said[-300:]}")
    return said.strip().splitlines()[-1]


@rows("000.8.3")
def see_contexts_in_the_order_of_names(bench: Bench) -> str:
    for alias, name in (("zz-first", "AAA"), ("aa-last", "zzz")):
        bench.manage("POST", "/contexts", {"alias": alias, "name": name})
    names = [one["name"] for one in bench.manage("GET", "/contexts")["items"]]
    for alias in ("zz-first", "aa-last"):
        bench.manage("DELETE", f"/contexts/{alias}")
    expect(names, sorted(names, key=str.casefold), "names")
    expect((names[0], names[-1]), ("AAA", "zzz"))
    return f"{len(names)} contexts from {names[0]} to {names[-1]}"


@rows("000.8.4")
def see_saves(bench: Bench) -> str:
    created = bench.call("POST", "/api/v1/contexts", {"alias": "saved", "name": "One"}).status
    updated = bench.call("PUT", "/api/v1/contexts/saved", {"alias": "saved", "name": "Two"}).status
    name = bench.manage("GET", "/contexts/saved")["name"]
    bench.manage("DELETE", "/contexts/saved")
    saves = [bench.call("PUT", "/api/v1/contexts/saved", {"name": one}).status for one in ("Three", "Four")]
    text = {"type": "text", "data": {"content": "Be kind."}}
    resources = [bench.call("PUT", "/api/v1/contexts/saved/resources/one", text).status for _ in range(2)]
    seen = bench.manage("GET", "/contexts/saved")
    bench.manage("DELETE", "/contexts/saved")
    expect((created, updated, name), (201, 200, "Two"))
    expect((saves, resources), ([201, 200], [201, 200]), "insert, then update")
    expect((seen["name"], len(seen["resources"])), ("Four", 1))
    return f"a PUT creates ({saves[0]}) or replaces ({saves[1]}) a context, and a resource too"


@rows("004.8.1", "004.8.15")
def see_exported_receipts(bench: Bench) -> str:
    sent = bench.ask("How do I reset my password?", agent="picky", session="exported")
    bench.read_receipt(sent)
    raw = str(bench.call("GET", "/api/v1/receipts/export?session=exported").body)
    (line,) = [json.loads(one) for one in raw.splitlines() if one.strip()]
    item = find_one(line["selection"]["injected"], id="help/voice")
    expect_true("Write plainly." not in json.dumps(line["selection"]), "items are references, not texts")
    expect_true({"id", "version", "score", "tokens"} <= item.keys(), f"{sorted(item)}")
    return f"a line with {len(line['selection']['injected'])} items by id and version, without their texts"


@rows("004.8.5")
def see_a_request_rebuilt(bench: Bench) -> str:
    sent = bench.ask("How do I reset my password?", agent="picky")
    bench.read_receipt(sent)
    replayed = bench.manage("POST", f"/receipts/{sent.reply.headers['x-context-receipt']}/replay", {})
    expect(replayed["request"]["messages"], sent.sent[0]["messages"], "the messages of the replay")
    expect_true("Write plainly." in sent.system, "there is something to rebuild")
    return "the replay has the same messages as the request that was sent"


@rows("004.8.13")
def see_a_suggestion_to_drop_what_is_not_used(bench: Bench) -> str:
    for _ in range(50):
        bench.ask("Hm?", agent="repeater")

    def find_suggestion() -> dict[str, Any]:
        items = bench.manage("GET", "/stats/suggestions")["items"]
        return next((one for one in items if "unused/trivia" in json.dumps(one)), {})

    found = find_suggestion() if bench.blind else bench.wait_for(find_suggestion, "a suggestion")
    expect(found.get("code"), "never_shown")
    expect_in(json.dumps(found["change"]), "on_demand")
    return f"after 50 requests: {found['reason']}"


@rows("004.8.4", "004.8.12")
def see_how_context_is_used(bench: Bench) -> str:
    for _ in range(2):
        bench.ask("Hm?", say("Remember that the product is called Harbour."), agent="assistant")

    def find_figures() -> dict[str, Any]:
        items = bench.manage("GET", "/stats/resources?context=flow")["items"]
        return next((one for one in items if one["name"] == "flow/x" and one["shown"] >= 2), {})

    figures = bench.wait_for(find_figures, "figures are counted") if not bench.blind else find_figures()
    expect_true(figures and figures["injected"] >= 2, f"{figures}")
    quality = bench.manage("GET", "/stats/quality")
    expect_true(quality["totals"]["picked_share"] is not None and quality["points"], f"{quality}")
    return (
        f"injected {figures['injected']}, shown in {figures['shown']} of {figures['measured']} answers; quality by day"
    )
