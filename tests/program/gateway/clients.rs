//! The clients in other languages (`src/clients`), with the interpreters that are there.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::Service;
use super::team::{asking, serve};
use crate::readme::{blocks, readme};
use crate::support::wait_for;
use serde_json::json;

/// The same story in each language: a service is started, everything is used once, it ends.
const PYTHON: &str = r#"
import asyncio, os, sys
from mcpdeck import MCPDeck, MCPDeckError

async def use(deck):
    seen = []
    async def follow():
        async for event in deck.events():
            seen.append(event)
    following = asyncio.create_task(follow())
    [server] = await deck.get_tools()
    assert (server.name, server.state) == ("asking", "ready"), server
    assert server.tools[0].description == "Greets you", server
    assert [it.is_template for it in server.resources] == [False, True], server
    prompt = await deck.get_prompt("asking.hello", {"who": "Ada"})
    assert prompt["messages"][0]["content"]["text"] == "Hello Ada", prompt
    assert (await deck.get_resource("memo://b"))[0]["text"] == "second"
    assert (await deck.find_tools("greeting"))[0].tool == "greet"

    # The callback was given before there was a service.
    results = await asyncio.gather(*(deck.call_tool("asking.greet") for _ in range(2)))
    assert all("Ada" in result.text and not result.is_error for result in results), results

    while not any(event.kind == "request" for event in seen):
        await asyncio.sleep(0)
    assert (seen[0].kind, seen[0].data["state"]) == ("server", "ready"), seen
    following.cancel()

    def refuse(method, params):
        raise RuntimeError("not today")

    deck.register_callback(None)
    deck.register_callback(refuse)
    result = await deck.call_tool("asking.greet", timeout=20)
    assert "not today" in result.text, result
    # An answer that cannot be sent, or does not fit, is given once, as a refusal.
    for odd, word in ((object(), "JSON"), ({"action": "perhaps"}, "perhaps")):
        given = []
        deck.register_callback(None)
        deck.register_callback(lambda method, params: given.append(odd) or odd)
        result = await deck.call_tool("asking.greet", timeout=20)
        assert len(given) == 1 and "error" in result.text, (word, given, result)
    deck.register_callback(None)
    metrics = await deck.get_metrics()
    assert metrics["servers"][0]["tools"][0]["metrics"]["requests"] == 5, metrics
    try:
        await deck.call_tool("asking.none/../x")
    except MCPDeckError as error:
        assert (error.code, error.status) == ("ERR_TOOL_NOT_FOUND", 404), error
    else:
        raise AssertionError("it is not there")
    # What is no JSON object is said to be the mistake that it is, and not sent.
    for odd, kind in (("text", TypeError), ([1], TypeError), ({"n": float("nan")}, ValueError)):
        try:
            await deck.call_tool("asking.greet", odd)
        except kind as error:
            assert "mapping" in str(error) or "JSON" in str(error), error
        else:
            raise AssertionError(odd)

async def answer(method, params):
    assert method == "elicitation/create", method
    await asyncio.sleep(0)
    return {"action": "accept", "content": {"name": "Ada"}}

# Where no event loop runs yet.
early = MCPDeck(config=sys.argv[2], command=sys.argv[1])
early.register_callback(answer)

async def main():
    async with early as deck:
        await use(deck)
    async with MCPDeck(url=sys.argv[3], token=sys.argv[4]) as deck:
        assert (await deck.get_tools())[0].name == "asking"
    async with MCPDeck(url=sys.argv[3], token=sys.argv[4]) as deck:
        assert (await deck.get_tools())[0].name == "asking", "it was left alone"
    async with MCPDeck(config=sys.argv[2], command=sys.argv[1]) as deck:
        os.kill(deck._child.pid, 9)
        await deck._child.wait()
        try:
            await deck.call_tool("asking.greet")
        except MCPDeckError as error:
            assert error.code == "ERR_SERVER_UNAVAILABLE", error
        else:
            raise AssertionError("nobody is there")
        await deck.initialize()
        assert (await deck.get_tools())[0].name == "asking", "begun anew"
        ended = deck.events()
        await ended.__anext__()
        os.kill(deck._child.pid, 9)
        try:
            async for event in ended:
                pass
        except MCPDeckError as error:
            assert error.code == "ERR_SERVER_UNAVAILABLE", error
        else:
            raise AssertionError("it was cut off")
    for wrong, word in (("/no/such/program", "not found"), ("false", "status 1")):
        try:
            await MCPDeck(config=sys.argv[2], command=wrong).initialize()
        except MCPDeckError as error:
            assert word in str(error), error
        else:
            raise AssertionError(wrong)

asyncio.run(main())
print("done")
"#;

const NODE: &str = r#"
import assert from "node:assert";
import { existsSync } from "node:fs";
import { MCPDeck, MCPDeckError } from "@CLIENT@";

// It gives up after five minutes, and calls may wait longer for a person.
globalThis.fetch = () => assert.fail("fetch has a time limit");
const [command, config, url, token] = process.argv.slice(2);
const deck = new MCPDeck({ config, command });
await deck.initialize();
const seen = [];
const following = (async () => {
  for await (const event of deck.events()) {
    seen.push(event);
    if (event.kind === "request") return "asked";
  }
})();
const [server] = await deck.getTools();
assert.deepEqual([server.name, server.state], ["asking", "ready"]);
assert.equal(server.tools[0].definition.description, "Greets you");
assert.deepEqual(server.resources.map((it) => it.isTemplate), [false, true]);
const prompt = await deck.getPrompt("asking.hello", { who: "Ada" });
assert.equal(prompt.messages[0].content.text, "Hello Ada");
assert.equal((await deck.getResource("memo://b"))[0].text, "second");
assert.equal((await deck.findTools("greeting"))[0].tool, "greet");
deck.registerCallback(async (method) => {
  assert.equal(method, "elicitation/create");
  return { action: "accept", content: { name: "Ada" } };
});
const results = await Promise.all([deck.callTool("asking.greet"), deck.callTool("asking.greet")]);
for (const result of results) assert.match(result.content[0].text, /Ada/);
assert.equal(await following, "asked");
assert.deepEqual([seen[0].kind, seen[0].data.state], ["server", "ready"]);
deck.registerCallback(undefined);
deck.registerCallback(() => { throw new Error("not today"); });
assert.match((await deck.callTool("asking.greet", {}, { timeout: 20 })).content[0].text, /not today/);
for (const odd of [{ count: 1n }, undefined, { action: "perhaps" }]) {
  let given = 0;
  deck.registerCallback(undefined);
  deck.registerCallback(() => { given += 1; return odd; });
  assert.match((await deck.callTool("asking.greet", {}, { timeout: 20 })).content[0].text, /error/);
  assert.equal(given, 1, "an answer that does not fit is a refusal");
}
deck.registerCallback(undefined);
const stopped = new AbortController();
stopped.abort();
await assert.rejects(deck.callTool("asking.greet", {}, { signal: stopped.signal }), { name: "AbortError" });
const metrics = await deck.getMetrics();
assert.equal(metrics.servers[0].tools[0].metrics.requests, 6);
await assert.rejects(deck.callTool("asking.none/../x"), (error) =>
  error instanceof MCPDeckError && error.code === "ERR_TOOL_NOT_FOUND" && error.status === 404);
const ended = new AbortController();
const events = deck.events({ signal: ended.signal });
await events.next();
ended.abort();
await assert.rejects(events.next(), { name: "AbortError" });
await deck.shutdown();
const crashed = new MCPDeck({ config, command });
await crashed.initialize();
crashed.child.ref();
crashed.child.kill("SIGKILL");
await new Promise((resolve) => crashed.child.once("exit", resolve));
await assert.rejects(crashed.callTool("asking.greet"), (error) =>
  error instanceof MCPDeckError && error.code === "ERR_SERVER_UNAVAILABLE");
await crashed.initialize();
assert.equal((await crashed.getTools())[0].name, "asking");
const cut = crashed.events();
await cut.next();
crashed.child.kill("SIGKILL");
await assert.rejects(cut.next(), { code: "ERR_SERVER_UNAVAILABLE" });
await crashed.shutdown();
assert.equal(new MCPDeckError("ERR_X", "busy", 429, { retryAfterMs: 1500 }).retryAfter, 1.5);
assert.equal(new MCPDeckError("ERR_X", "busy").retryAfter, undefined);
const running = new MCPDeck({ url, token });
await running.initialize();
assert.equal((await running.getTools())[0].name, "asking");
await running.shutdown();
await assert.rejects(new MCPDeck({ config, command: "/no/such/program" }).initialize(), /ENOENT/);
await assert.rejects(new MCPDeck({ config, command: "false" }).initialize(), /status 1/);
// One that is forgotten keeps the program not alive, and leaves no token behind.
const forgotten = new MCPDeck({ config, command });
forgotten.registerCallback(() => ({}));
await forgotten.initialize();
process.once("exit", () => {
  assert.equal(existsSync(forgotten.folder), false);
  console.log("done");
});
"#;

/// Whether an interpreter is there; a test that needs it says so when it is not.
fn has(interpreter: &str) -> bool {
    let found = Command::new(interpreter).arg("--version").output().is_ok();
    if !found {
        assert!(std::env::var_os("MCPDECK_REQUIRE_REAL_SERVERS").is_none(), "no {interpreter}");
        let _ = std::io::Write::write_all(
            &mut std::io::stderr(),
            format!("skipped: {interpreter} is not on PATH\n").as_bytes(),
        );
    }
    found
}

fn play(service: &Service, interpreter: &str, script: &Path) {
    let clients = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/clients/python");
    let out = Command::new(interpreter)
        .arg(script)
        .arg(env!("CARGO_BIN_EXE_mcpdeck"))
        .arg(service.folder.join("mcp.json"))
        .args([&service.url, &service.token])
        .env("PYTHONPATH", clients)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("MCPDECK_STATE_DIR", service.folder.join("own-state"))
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{told}");
    assert!(!told.contains("token"), "what the program does is not told on its stderr: {told}");
    assert_eq!(String::from_utf8_lossy(&out.stdout).trim(), "done");
}

#[test]
fn a_python_program_uses_everything_and_leaves_nothing() {
    if !has("python3") {
        return;
    }
    let service = serve(asking, &json!({}));
    let script = service.folder.join("story.py");
    std::fs::write(&script, PYTHON).unwrap();
    play(&service, "python3", &script);
}

#[test]
fn a_node_program_uses_everything_and_leaves_nothing() {
    if !has("node") {
        return;
    }
    let service = serve(asking, &json!({}));
    let script = service.folder.join("story.mjs");
    let client = concat!(env!("CARGO_MANIFEST_DIR"), "/src/clients/typescript/mcpdeck.js");
    std::fs::write(&script, NODE.replace("@CLIENT@", client)).unwrap();
    play(&service, "node", &script);
}

#[test]
fn a_service_ends_with_the_input_that_its_starter_holds() {
    let folder = tempfile::tempdir().unwrap();
    asking(folder.path());
    let mut service = Command::new(env!("CARGO_BIN_EXE_mcpdeck"))
        .args(["serve", "--stdio-control", "--listen", "127.0.0.1:0", "--token-file"])
        .arg(folder.path().join("token"))
        .arg("-c")
        .arg(folder.path().join("mcp.json"))
        .env("MCPDECK_STATE_DIR", folder.path().join("state"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(service.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("\"url\""), "{line}");
    assert!(service.try_wait().unwrap().is_none());
    drop(service.stdin.take());
    let status = wait_for("its end", Duration::from_secs(30), || service.try_wait().unwrap());
    assert!(status.success(), "{status}");
}

/// The servers that the snippets of the README use.
fn remembering(folder: &Path) {
    let tool = json!({
        "name": "search_nodes", "description": "Finds nodes that match a text.",
        "inputSchema": {"type": "object", "required": ["query"], "properties": {
            "query": {"type": "string"}}},
    });
    let script = json!({
        "serverInfo": {"name": "memory", "version": "1"}, "capabilities": {"tools": {}},
        "tools": [tool], "calls": {"search_nodes": {"text": "found ${arguments.query}"}},
    });
    std::fs::write(folder.join("memory.json"), script.to_string()).unwrap();
    let config = json!({"servers": {"memory": {
        "command": env!("CARGO_BIN_EXE_mcpdeck"), "args": ["mock", folder.join("memory.json")],
        "startupTimeout": 45,
    }}});
    std::fs::write(folder.join("mcp.json"), config.to_string()).unwrap();
}

/// Runs a snippet in a folder, where `mcpdeck` is the built program; what it prints.
fn snippet(folder: &Path, interpreter: &str, arguments: &[&str], token: &str) -> String {
    let own = Path::new(env!("CARGO_BIN_EXE_mcpdeck")).parent().unwrap().to_owned();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = std::iter::once(own).chain(std::env::split_paths(&path));
    let out = Command::new(interpreter)
        .args(arguments)
        .current_dir(folder)
        .env("PATH", std::env::join_paths(all).unwrap())
        .env("PYTHONPATH", Path::new(env!("CARGO_MANIFEST_DIR")).join("src/clients/python"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("MCPDECK_STATE_DIR", folder.join("own-state"))
        .env("MCPDECK_CONFIG_DIR", folder.join("own-config"))
        .env("NO_PROXY", "127.0.0.1")
        .env("TOKEN", token)
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

#[test]
fn the_python_of_the_readme_runs() {
    if !has("python3") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    remembering(folder.path());
    std::fs::write(folder.path().join("snippet.py"), blocks(&readme(), "python")[0]).unwrap();
    let printed = snippet(folder.path(), "python3", &["snippet.py"], "");
    assert_eq!(printed.trim(), "memory ['search_nodes']\nfound Ada");
}

#[cfg(unix)]
#[test]
fn the_javascript_of_the_readme_runs() {
    if !has("node") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    remembering(folder.path());
    std::fs::write(folder.path().join("snippet.mjs"), blocks(&readme(), "js")[0]).unwrap();
    // As after `npm install` of that folder.
    let modules = folder.path().join("node_modules");
    std::fs::create_dir(&modules).unwrap();
    let client = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/clients/typescript");
    std::os::unix::fs::symlink(client, modules.join("mcpdeck-client")).unwrap();
    assert_eq!(snippet(folder.path(), "node", &["snippet.mjs"], "").trim(), "found Ada");
}

#[cfg(unix)]
#[test]
fn the_curl_of_the_readme_runs() {
    if !has("curl") {
        return;
    }
    let service = serve(remembering, &json!({}));
    let text = readme();
    let block = blocks(&text, "bash")[0];
    let call =
        block[block.find("\ncurl ").unwrap()..].replace("http://127.0.0.1:7337", &service.url);
    let answer = snippet(&service.folder, "sh", &["-c", &call], &service.token);
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer["content"][0]["text"], "found Ada", "{answer}");
}
