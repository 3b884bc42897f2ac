#!/usr/bin/env python3
"""How long `list`, `call` and `--check` keep the shell, over the floor: spawn, handshake, the same
requests, close stdin, wait.

usage: benches/stop.py [PROGRAM] [NAME=COMMAND...]

Runs each verb and its floor by turns and prints the medians of both and their ratio, with the middle
half of the ratios. With MCPDECK_BENCH_ROWS=FILE each is added to FILE for `benches/all`. Without NAME=COMMAND: the published servers of `fixtures/real-servers` (run
`fixtures/real-servers/install.sh` once). COMMAND is split as a shell would; the tool that is called is
the first one that needs no arguments, or else the first one, whose answer to `{}` is an error.

A floor waits at most a second for a server that does not leave when its stdin closes, and then ends it
with SIGTERM, as the program does.
"""
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

from report import state

ROUNDS = 7
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LISTS = {
    "tools": ["tools/list"],
    "prompts": ["prompts/list"],
    "resources": ["resources/list", "resources/templates/list"],
}


class Floor:
    """A server that is spoken to by the least a client can do."""

    def __init__(self, command, env):
        self.begun = time.perf_counter()
        self.server = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, env=env,
        )
        self.number = 0
        answer = self.ask("initialize", {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "floor", "version": "1"},
        })
        self.offers = answer["result"]["capabilities"]
        self.say({"method": "notifications/initialized"})

    def say(self, message):
        self.server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.server.stdin.flush()

    def ask(self, method, params):
        self.number += 1
        self.say({"id": self.number, "method": method, "params": params})
        while True:
            message = json.loads(self.server.stdout.readline())
            if message.get("id") == self.number and "method" not in message:
                return message
            if "method" in message and "id" in message:
                self.say({"id": message["id"], "error": {"code": -32601, "message": "not offered"}})

    def end(self):
        """Seconds from the start of the server to its end."""
        self.server.stdin.close()
        try:
            self.server.wait(timeout=1)
        except subprocess.TimeoutExpired:
            self.server.terminate()
            self.server.wait()
        return time.perf_counter() - self.begun


def floor_of_list(command, env, kinds=("tools",)):
    floor = Floor(command, env)
    for method in [m for kind in kinds for m in LISTS[kind] if kind in floor.offers]:
        floor.ask(method, {})
    return floor.end()


def floor_of_call(command, env, tool):
    floor = Floor(command, env)
    floor.ask("tools/list", {})
    floor.ask("tools/call", {"name": tool, "arguments": {}})
    return floor.end()


def plain_tool(command, env):
    """The first tool without required arguments, or the first one."""
    floor = Floor(command, env)
    tools = floor.ask("tools/list", {})["result"]["tools"]
    floor.end()
    free = [t for t in tools if not t["inputSchema"].get("required")]
    return (free or tools)[0]["name"]


def run(program, words, path):
    begun = time.perf_counter()
    done = subprocess.run([program, *words, "--config", path], stdin=subprocess.DEVNULL,
                          capture_output=True)
    took = time.perf_counter() - begun
    if done.returncode not in (0, 1):
        sys.exit(f"{words}: exit {done.returncode}\n{done.stdout.decode()}{done.stderr.decode()}")
    return took


def published():
    path = os.path.join(ROOT, "fixtures/real-servers/node_modules/.bin")
    names = {
        "everything": "mcp-server-everything",
        "filesystem": f"mcp-server-filesystem {shlex.quote(ROOT)}",
        "memory": "mcp-server-memory",
        "sequential-thinking": "mcp-server-sequential-thinking",
        "brave": "brave-search-mcp-server --transport stdio",
    }
    return {name: shlex.split(os.path.join(path, command)) for name, command in names.items()}


GOAL = 1.1


def main():
    words = sys.argv[1:]
    given = {n: shlex.split(c) for n, c in (w.split("=", 1) for w in words if "=" in w)}
    programs = [w for w in words if "=" not in w]
    program = os.path.abspath(programs[0] if programs else os.path.join(ROOT, "target/dist/mcpdeck"))
    with tempfile.TemporaryDirectory() as folder:
        keys = {"BRAVE_API_KEY": "unused", "FIRECRAWL_API_KEY": "unused",
                "MEMORY_FILE_PATH": os.path.join(folder, "memory.json")}
        env = {**os.environ, **keys}
        path = os.path.join(folder, "mcp.json")
        for name, command in (given or published()).items():
            with open(path, "w") as file:
                json.dump({"mcpServers": {
                    name: {"command": command[0], "args": command[1:], "env": keys}}}, file)
            tool = plain_tool(command, env)
            verbs = {
                "list": (lambda: floor_of_list(command, env), ["list"]),
                "call": (lambda: floor_of_call(command, env, tool), ["call", "--force", f"{name}.{tool}"]),
                "check": (lambda: floor_of_list(command, env, tuple(LISTS)), ["--check"]),
            }
            for verb, (least, words) in verbs.items():
                floors, ours = [], []
                for _ in range(ROUNDS):
                    floors.append(least())
                    ours.append(run(program, words, path))
                print(f"{name} {verb}: floor {statistics.median(floors):.3f} s, "
                      f"{statistics.median(ours):.3f} s", flush=True)
                ratios = [our / floor for our, floor in zip(ours, floors)]
                state(f"`{verb}` of {name}", ratios, GOAL, against="the floor")


if __name__ == "__main__":
    main()
