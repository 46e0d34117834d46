"""The JavaScript of the plugins, run by Node without a host: copies are current, and failures leave the host its messages."""

from __future__ import annotations

import json
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lossless import Lossless
from tests.locks import locked

ROOT = Path(__file__).parents[2]
CLIENT = (ROOT / "integrations" / "bridge.js").as_uri()
PLUGIN = (ROOT / "integrations" / "openclaw" / "index.js").as_uri()

FAKE_HOST = """
const log = [];
const logger = { info: (t) => log.push(t), warn: (t) => log.push(t), error: (t) => log.push(t) };
const found = { tools: [], commands: [], hooks: {} };
const api = {
  pluginConfig: CONFIG, logger, runtime: { version: "test" },
  registerContextEngine: (id, make) => { found.id = id; found.engine = make({}); },
  registerTool: (make) => found.tools.push(make),
  registerCommand: (command) => found.commands.push(command),
  on: (name, handler) => { found.hooks[name] = handler; },
};
register(api);
"""


def node(script: str, *, timeout: float = 60) -> Any:
    """Run a module that prints JSON; returns the value."""
    program = shutil.which("node")
    if program is None:
        pytest.skip("NO NODE: the plugins are not run")
    done = subprocess.run(
        [program, "--input-type=module", "-e", script],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def client(database: Path, body: str, **options: Any) -> Any:
    """Run a script with a `bridge` on a database."""
    command = [sys.executable, "-m", "lossless"]
    settings = {"databasePath": str(database), **options.pop("settings", {})}
    given = {
        "command": options.pop("command", command),
        "host": {"name": "nodetest", "version": "1"},
        "settings": settings,
        **options,
    }
    return node(f"""
        import {{ Bridge, boundedMessages, withoutSecrets }} from "{CLIENT}";
        const events = [];
        const log = {{ info() {{}}, warn: (text) => events.push(text), error: (text) => events.push(text) }};
        const bridge = new Bridge({{ ...{json.dumps(given)}, log }});
        const chat = {{ key: "agent:main:main" }};
        const messages = [{{ role: "user", content: "Fact one." }}];
        const print = (value) => console.log(JSON.stringify(value));
        {body}
    """)


def test_the_copies_in_the_plugins_are_current() -> None:
    for source, copy in runpy.run_path(str(ROOT / "scripts" / "copy_to_plugins.py"))["copies"]():
        assert copy.read_bytes() == source.read_bytes(), f"run scripts/copy_to_plugins.py: {copy}"


def test_the_manifest_has_every_setting_and_every_tool() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "openclaw_manifest.py"))
    for path, text in script["files"]().items():
        assert path.read_text("utf-8") == text, f"run scripts/openclaw_manifest.py: {path}"
    manifest = script["manifest"]()
    fields, hints = manifest["configSchema"]["properties"], manifest["uiHints"]
    assert {"freshTailCount", "dbPath", "command", "expansionModel", "pruneHeartbeatOk"} <= fields.keys()
    assert fields.keys() == hints.keys()
    assert all(hint["help"] and hint["label"] for hint in hints.values())


def test_the_client_starts_the_bridge_again_after_it_died(tmp_path: Path) -> None:
    found = client(
        tmp_path / "lcm.db",
        """
        const turn = (key) => bridge.request("commitTurn", { conversation: chat, messages, advancementKey: key });
        const first = await turn("a");
        const pid = bridge.pid;
        process.kill(pid, "SIGKILL");
        const [again, second] = await Promise.all([turn("a"), turn("b")]);
        const other = bridge.pid !== pid;
        await bridge.close();
        print({ first, again, second, other, events, left: bridge.pid });
        """,
    )
    assert (found["first"]["status"], found["again"]["status"]) == ("committed", "duplicate")
    assert (found["second"]["status"], found["other"], found["left"]) == ("committed", True, None)
    assert any("the bridge ended (SIGKILL)" in event for event in found["events"])
    with Lossless.open(tmp_path / "lcm.db") as lcm:
        assert [each.text for each in lcm.conversation("agent:main:main").messages()] == ["Fact one.", "Fact one."]


def test_the_client_opens_the_database_again_after_it_was_deleted(tmp_path: Path) -> None:
    found = client(
        tmp_path / "lcm.db",
        f"""
        import {{ readdirSync, rmSync }} from "node:fs";
        const turn = (key) => bridge.request("commitTurn", {{ conversation: chat, messages, advancementKey: key }});
        await turn("a");
        const pid = bridge.pid;
        for (const name of readdirSync("{tmp_path}")) if (name.startsWith("lcm.db")) rmSync("{tmp_path}/" + name);
        const done = await turn("b");
        const other = bridge.pid !== pid;
        await bridge.close();
        print({{ done, other, events, starts: bridge.starts }});
        """,
    )
    assert (found["done"]["status"], found["other"], found["starts"]) == ("committed", True, 2)
    assert any("was deleted, moved or replaced" in event for event in found["events"])
    with Lossless.open(tmp_path / "lcm.db") as lcm:
        assert [each.text for each in lcm.conversation("agent:main:main").messages()] == ["Fact one."]


def test_whatever_a_program_prints_the_host_is_not_broken(tmp_path: Path) -> None:
    lines = ["null", "5", "nonsense", '{"id":1,"error":{"message":"no","data":null}}', '{"method":"event"}', "[]"]
    script = f"import time\nprint({chr(10).join(lines)!r}, flush=True)\ntime.sleep(0.2)"
    found = client(
        tmp_path / "lcm.db",
        """
        const code = await bridge.request("status", {}).catch((error) => error.code);
        print({ code, events, pid: bridge.pid });
        """,
        command=[sys.executable, "-c", script],
    )
    assert found["code"] == "undefined"
    assert sum("not a message" in event for event in found["events"]) == 3
    assert found["pid"] is None


def test_a_bridge_that_hangs_delays_a_turn_by_seconds_and_serves_again_when_it_goes_on(tmp_path: Path) -> None:
    found = client(
        tmp_path / "lcm.db",
        """
        const turn = (key) => bridge.request("commitTurn", { conversation: chat, messages, advancementKey: key });
        const failed = (error) => error.code;
        await turn("a");
        process.kill(bridge.pid, "SIGSTOP");
        const begun = performance.now();
        const first = await turn("b").catch(failed);
        const waited = performance.now() - begun;
        const later = [];
        for (let step = 0; step < 4; step += 1) later.push(await turn("b").catch(failed));
        const took = performance.now() - begun - waited;
        process.kill(bridge.pid, "SIGCONT");
        let status;
        while (!status) status = (await turn("b").catch(() => ({}))).status;
        const patient = !bridge._isLate;
        await bridge.close();
        print({ first, waited, later, took, status, patient });
        """,
        turnWait=3000,
    )
    assert (found["first"], found["later"]) == ("BRIDGE_TIMEOUT", ["BRIDGE_TIMEOUT"] * 4)
    assert 2900 < found["waited"] < 6000
    assert found["took"] < 8000
    # It had read the turn meanwhile, and stored it once.
    assert (found["status"], found["patient"]) == ("duplicate", True)
    with Lossless.open(tmp_path / "lcm.db") as lcm:
        assert len(lcm.conversation("agent:main:main").messages()) == 2


def test_a_database_that_is_locked_at_the_start_delays_a_turn_by_seconds_once(tmp_path: Path) -> None:
    Lossless.open(tmp_path / "lcm.db").close()
    with locked(tmp_path / "lcm.db"):
        found = client(
            tmp_path / "lcm.db",
            """
            const begun = performance.now();
            const failures = [];
            for (let step = 0; step < 10; step += 1) {
              const done = bridge.request("commitTurn", { conversation: chat, messages, advancementKey: "a" });
              failures.push(await done.catch((error) => error.code));
            }
            print({ took: performance.now() - begun, failures, starts: bridge.starts, events });
            await bridge.close();
            """,
        )
    assert found["failures"] == ["STORE_BUSY", *["BRIDGE_WAITING"] * 9]
    assert (found["starts"], found["took"] < 15_000) == (1, True)
    assert any("was held by another process for too long" in event for event in found["events"])


def test_a_process_that_only_used_the_bridge_ends_by_itself(tmp_path: Path) -> None:
    # Without close(): neither the child nor its streams keep a command line program alive.
    assert client(tmp_path / "lcm.db", 'print(await bridge.request("status", {}));', timeout=20)["messages"] == 0


def test_a_missing_program_is_a_clear_error_and_is_not_tried_at_once_again(tmp_path: Path) -> None:
    found = client(
        tmp_path / "lcm.db",
        """
        bridge.command = ["/nowhere/venv/bin/python", "-m", "lossless"];
        const codes = [];
        for (let i = 0; i < 3; i += 1) await bridge.request("status", {}).catch((error) => codes.push([error.code, error.message]));
        print({ codes, events });
        """,
    )
    codes = [code for code, _ in found["codes"]]
    assert codes == ["BRIDGE_MISSING", "BRIDGE_WAITING", "BRIDGE_WAITING"]
    assert "/nowhere/venv/bin/python cannot be started: there is no such program" in found["codes"][0][1]
    assert "lcm install" in found["codes"][0][1]


def test_errors_of_the_settings_reach_the_host_with_their_code(tmp_path: Path) -> None:
    found = client(
        tmp_path / "lcm.db",
        'print(await bridge.request("status", {}).catch((error) => [error.code, error.message]));',
        settings={"freshTialCount": 3},
    )
    assert found[0] == "CONFIG_INVALID"
    assert "fresh_tail_count" in found[1]


def test_the_host_lends_its_model_only_to_the_request_that_runs(tmp_path: Path) -> None:
    found = client(
        tmp_path / "lcm.db",
        """
        import { AsyncLocalStorage } from "node:async_hooks";
        const scope = new AsyncLocalStorage();
        const long = (n) => [{ role: "user", content: `Fact ${n}. ` + "alpha beta ".repeat(200), timestamp: 1790000000000 + n }];
        await scope.run("start", () => bridge.request("status", {}));
        for (let n = 0; n < 30; n += 1) {
          await bridge.request("commitTurn", { conversation: chat, messages: long(n), advancementKey: `t${n}`, window: 4000 });
        }
        const asked = [];
        const lend = async (params) => { asked.push([scope.getStore(), params.prompt.includes("Fact 0.")]); return { text: "Facts were given, one by one.", model: "host/m" }; };
        const done = await scope.run("maintenance", () => bridge.request("maintain", { conversation: chat }, { lend }));
        await bridge.close();
        print({ asked, done });
        """,
        lends="host",
        settings={"freshTailCount": 4, "leafChunkTokens": 2000},
    )
    assert found["asked"][0] == ["maintenance", True]
    assert found["done"]["steps"] >= 1


def test_secrets_are_removed_before_they_are_sent() -> None:
    found = node(f"""
        import {{ withoutSecrets }} from "{CLIENT}";
        const config = {{ freshTailCount: 3, apiKey: "k", maxAssemblyTokenBudget: 9, providers: {{ x: {{ api_key: "k", api_key_env: "X" }} }},
          leafTargetTokens: 5, nested: [{{ password: "p", name: "n" }}], call: () => 1, authorization: "b" }};
        console.log(JSON.stringify(withoutSecrets(config)));
    """)
    assert found == {
        "freshTailCount": 3,
        "maxAssemblyTokenBudget": 9,
        "providers": {"x": {"api_key_env": "X"}},
        "leafTargetTokens": 5,
        "nested": [{"name": "n"}],
    }


def test_bounded_messages_are_the_newest_whole_turns() -> None:
    found = node(f"""
        import {{ boundedMessages, estimateTokens }} from "{CLIENT}";
        const turn = (n) => [{{ role: "user", content: `u${{n}}` }}, {{ role: "assistant", content: "x".repeat(300) }}, {{ role: "toolResult", content: "y" }}];
        const all = [0, 1, 2, 3].flatMap(turn);
        const cost = turn(0).reduce((sum, message) => sum + estimateTokens(message), 0);
        const kept = (tokens) => boundedMessages(all, tokens).map((message) => message.content.slice(0, 2));
        console.log(JSON.stringify([kept(2 * cost + 1), kept(1), kept(undefined).length, boundedMessages([], 5)]));
    """)
    assert found == [["u2", "xx", "y", "u3", "xx", "y"], ["u3", "xx", "y"], 12, []]


def test_a_newest_turn_that_is_too_large_is_its_prompt_and_its_newest_steps() -> None:
    found = node(f"""
        import {{ boundedMessages, estimateTokens }} from "{CLIENT}";
        const step = (n) => [{{ role: "assistant", content: `call ${{n}}` }}, {{ role: "toolResult", content: `result ${{n}} ` + "y".repeat(300) }}];
        const prompt = {{ role: "user", content: "prompt" }};
        const turn = [prompt, ...[0, 1, 2, 3].flatMap(step)];
        const cost = step(0).reduce((sum, message) => sum + estimateTokens(message), 0);
        const kept = (messages, tokens) => boundedMessages(messages, tokens).map(({{ content }}) => content.slice(0, 8));
        const room = estimateTokens(prompt) + 2 * cost + 1;
        console.log(JSON.stringify([kept([prompt, ...turn], room), kept(turn.slice(1), 2 * cost + 1), kept(turn, 1)]));
    """)
    newest = ["call 2", "result 2", "call 3", "result 3"]
    assert found == [["prompt", *newest], newest, ["prompt", "call 3", "result 3"]]


def test_a_host_without_session_budget_or_messages_gets_an_answer_and_an_error_in_its_log() -> None:
    found = node(f"""
        import register from "{PLUGIN}";
        {FAKE_HOST.replace("CONFIG", json.dumps({"command": ["/nowhere/python"]}))}
        const long = Array.from({{ length: 400 }}, (_, n) => [{{ role: "user", content: `u${{n}} ` + "x".repeat(3000) }}, null]).flat();
        const {{ engine }} = found;
        const results = [
          await engine.assemble({{}}),
          await engine.assemble({{ messages: long }}),
          await engine.assemble({{ sessionId: "s", messages: [null] }}),
          await engine.commitTurn({{}}),
          await engine.compact({{}}),
          await engine.ingest({{}}),
          await engine.maintain({{}}),
          await engine.bootstrap({{}}),
        ];
        await found.hooks.before_reset(undefined, {{}});
        await found.hooks.session_end({{ reason: "idle" }}, undefined);
        console.log(JSON.stringify({{ results, log }}));
    """)
    results = found["results"]
    assert results[0]["messages"] == []
    assert 100 < len(results[1]["messages"]) < 300  # 128,000 tokens, whatever the host holds
    assert results[3]["status"] == "failed"
    assert any("assemble failed: OpenClaw named no session" in line for line in found["log"])


def test_openclaw_newer_than_the_tested_one_is_named_in_its_log(tmp_path: Path) -> None:
    config = {"command": [sys.executable, "-m", "lossless"], "databasePath": str(tmp_path / "lcm.db")}
    host = FAKE_HOST.replace("CONFIG", json.dumps(config)).replace('version: "test"', 'version: "2027.1.0"')
    found = node(f"""
        import register from "{PLUGIN}";
        {host}
        await found.engine.assemble({{ sessionId: "s", sessionKey: "agent:main:main", messages: [], tokenBudget: 1000 }});
        register({{ ...api, registerContextEngine: undefined }});
        console.log(JSON.stringify(log));
    """)
    assert any("openclaw 2027.1.0 is newer than 2026.9.6" in line for line in found)
    assert any("takes no context engine from plugins: nothing is stored" in line for line in found)


def test_without_python_openclaw_goes_on_with_its_own_messages() -> None:
    config = {"command": ["/nowhere/python", "-m", "lossless"], "apiKey": "sk-never"}
    found = node(f"""
        import register from "{PLUGIN}";
        {FAKE_HOST.replace("CONFIG", json.dumps(config))}
        const at = {{ sessionId: "s", sessionKey: "agent:main:main" }};
        const messages = [{{ role: "user", content: "old ".repeat(9000) }}, {{ role: "assistant", content: "ok" }}, {{ role: "user", content: "new" }}];
        const runtimeContext = {{ config: {{ apiKey: "sk-never" }}, llm: {{ complete: async () => ({{ text: "s" }}) }} }};
        const engine = found.engine;
        const results = {{
          assembled: await engine.assemble({{ ...at, messages, tokenBudget: 1000, runtimeContext }}),
          committed: await engine.commitTurn({{ ...at, messages, advancementKey: "k", admission: {{ entryId: "a" }}, terminal: {{ entryId: "b" }} }}),
          bootstrapped: await engine.bootstrap(at),
          compacted: await engine.compact({{ ...at, force: true, runtimeContext }}),
          maintained: await engine.maintain({{ ...at, runtimeContext }}),
          spawned: (await engine.prepareSubagentSpawn({{ parentSessionKey: "agent:main:main", childSessionKey: "c" }})) ?? null,
          tool: await found.tools.map((make) => make(at)).find((tool) => tool?.name === "lcm_grep").execute("1", {{ pattern: "x" }}),
          command: await found.commands[0].handler({{ ...at, args: "status" }}),
        }};
        await engine.onSubagentEnded({{ childSessionKey: "c", reason: "completed" }});
        await found.hooks.before_reset({{ reason: "new" }}, at);
        await engine.dispose();
        console.log(JSON.stringify({{ ...results, log, id: found.id, names: found.commands.map((command) => command.name) }}));
    """)
    assert found["id"] == "lossless"
    assert found["names"] == ["lcm", "lossless"]
    assert [message["content"] for message in found["assembled"]["messages"]] == ["new"]
    assert "not available" in found["assembled"]["systemPromptAddition"]
    assert found["committed"]["status"] not in ("committed", "duplicate")  # the host keeps it and sends it again
    assert (found["bootstrapped"]["bootstrapped"], found["compacted"]["ok"], found["spawned"]) == (False, False, None)
    assert "cannot be started" in found["command"]["text"] or "started again" in found["command"]["text"]
    assert found["tool"]["details"]["errorCode"].startswith("BRIDGE_")
    assert any("/nowhere/python cannot be started" in line for line in found["log"])
    assert "sk-never" not in json.dumps(found)
