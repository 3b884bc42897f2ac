#!/usr/bin/env python3
"""Cost against size: processor time of the program for growing configurations, lists of tools, numbers
of servers, of messages and of clients, and the exponent of the growth.

usage: benches/growth.py [PROGRAM] [NAME...]

NAME is `entries`, `tools`, `servers`, `messages` or `clients`; without one, all. The exponent is that of
the last step, after what the smallest size costs is taken off: 1 is linear. Servers are small Python
programs, whose time is not counted. With MCPDECK_BENCH_ROWS=FILE the
exponents are added to FILE for `benches/all`.
"""
import collections
import http.client
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import urllib.parse

from report import state

ROUNDS = 3
GOAL = 1.1
TICK = os.sysconf("SC_CLK_TCK")

# Answers by method; `tools/call` first writes as many notifications as the environment says.
SERVER = r'''
import json, os, sys
tools, notes = int(os.environ.get("TOOLS", 1)), int(os.environ.get("NOTES", 0))
schema = {"type": "object", "properties": {"text": {"type": "string"}, "count": {"type": "integer"}}}
listed = json.dumps([{"name": "tool_%d" % n, "description": "Does the thing with number %d." % n,
                      "inputSchema": schema} for n in range(tools)])
note = json.dumps({"jsonrpc": "2.0", "method": "notifications/message",
                   "params": {"level": "debug", "data": "one line as servers write them"}}) + "\n"
hello = json.dumps({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}, "logging": {}},
                    "serverInfo": {"name": "growth", "version": "1"}})
while line := sys.stdin.readline():
    message = json.loads(line)
    if "id" not in message:
        continue
    method = message.get("method")
    if method == "tools/call":
        for _ in range(notes // 100):
            sys.stdout.write(note * 100)
    answer = {"initialize": '"result": ' + hello, "tools/list": '"result": {"tools": %s}' % listed,
              "tools/call": '"result": {"content": []}'}.get(
                  method, '"error": {"code": -32601, "message": "not offered"}')
    sys.stdout.write('{"jsonrpc": "2.0", "id": %s, %s}\n' % (json.dumps(message["id"]), answer))
    sys.stdout.flush()
'''


def spent(pid):
    """Processor seconds of a process alone, without those of its children."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def entry(path, **env):
    return {"command": sys.executable, "args": ["-S", "-E", path],
            "env": {name: str(value) for name, value in env.items()}}


class Bench:
    def __init__(self, program, folder):
        self.program, self.folder = program, folder
        self.server = os.path.join(folder, "server.py")
        with open(self.server, "w") as file:
            file.write(SERVER)
        self.env = {**os.environ, "MCPDECK_STATE_DIR": os.path.join(folder, "state")}

    def written(self, servers, **rest):
        path = os.path.join(self.folder, "mcp.json")
        with open(path, "w") as file:
            json.dump({"mcpServers": servers, **rest}, file)
        return path

    def run(self, words, servers):
        """Processor seconds of one run, without those of its servers."""
        path = self.written(servers)
        nowhere = subprocess.DEVNULL
        child = subprocess.Popen([self.program, *words, "-c", path], stdin=nowhere, stdout=nowhere,
                                 stderr=nowhere, env=self.env)
        # Ended, and still there to be asked.
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        took = spent(child.pid)
        if child.wait() not in (0, 1):
            sys.exit(f"{words}: exit {child.returncode}")
        return took

    def entries(self, size):
        """Entries of a configuration, all disabled."""
        servers = {f"s{n}": {"command": "x", "disabled": True} for n in range(size)}
        return self.run(["config"], servers)

    def tools(self, size):
        """Tools, listed, at most 5,000 of a server."""
        parts = [min(5_000, size - begin) for begin in range(0, size, 5_000)]
        servers = {f"s{n}": entry(self.server, TOOLS=tools) for n, tools in enumerate(parts)}
        return self.run(["list"], servers)

    def servers(self, size):
        """Servers that start, list and stop."""
        return self.run(["list"], {f"s{n}": entry(self.server) for n in range(size)})

    def messages(self, size):
        """Notifications within one call."""
        return self.run(["call", "one.tool_0"], {"one": entry(self.server, NOTES=size)})

    def clients(self, size):
        """Clients of `serve` that open a session each and list; the last thousand stay."""
        limits = {"callsAtOnce": 64, "callsPerMinute": 10_000_000}
        path = self.written({"one": entry(self.server)}, policy={"limits": limits})
        token = os.path.join(self.folder, "token")
        service = subprocess.Popen(
            [self.program, "serve", "--listen", "127.0.0.1:0", "-c", path, "--token-file", token],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=self.env)
        try:
            address = urllib.parse.urlsplit(json.loads(service.stdout.readline())["url"])
            with open(token) as file:
                bearer = file.read().strip()
            self.open(address, bearer)
            before = spent(service.pid)
            kept = collections.deque()
            for _ in range(size):
                kept.append(self.open(address, bearer))
                if len(kept) > 1_000:
                    kept.popleft().close()
            took = spent(service.pid) - before
            for client in kept:
                client.close()
            return took
        finally:
            service.terminate()
            service.wait()

    @staticmethod
    def open(address, bearer):
        client = http.client.HTTPConnection(address.hostname, address.port, timeout=60)
        headers = {"Authorization": f"Bearer {bearer}", "Content-Type": "application/json",
                   "Accept": "application/json, text/event-stream",
                   "MCP-Protocol-Version": "2025-11-25"}
        for number, (method, params) in enumerate([
            ("initialize", {"protocolVersion": "2025-11-25", "capabilities": {},
                            "clientInfo": {"name": "growth", "version": "1"}}),
            ("notifications/initialized", None), ("tools/list", {}),
        ]):
            message = {"jsonrpc": "2.0", "method": method}
            if params is not None:
                message |= {"id": number, "params": params}
            client.request("POST", "/mcp", json.dumps(message), headers)
            answer = client.getresponse()
            answer.read()
            if answer.status >= 300:
                sys.exit(f"a client of {method} was refused: {answer.status}")
            session = answer.getheader("Mcp-Session-Id")
            if session:
                headers["Mcp-Session-Id"] = session
        return client


SIZES = {
    "entries": [10, 100, 1_000, 10_000],
    "tools": [10, 1_000, 5_000, 50_000],
    "servers": [1, 10, 100, 1_000],
    "messages": [1_000, 100_000, 1_000_000, 10_000_000],
    "clients": [1, 100, 1_000, 10_000],
}


def exponents(sizes, costs):
    """The exponent of the last step, of each round."""
    for least, *_, before, last in zip(*costs):
        grown = max(last - least, 1e-4) / max(before - least, 1e-4)
        yield math.log(grown) / math.log(sizes[-1] / sizes[-2])


def main():
    words = sys.argv[1:]
    names = [w for w in words if w in SIZES] or list(SIZES)
    programs = [w for w in words if w not in SIZES]
    program = os.path.abspath(programs[0] if programs else "target/dist/mcpdeck")
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(program, folder)
        for name in names:
            measure, sizes = getattr(bench, name), SIZES[name]
            # By turns, so that what the machine does meanwhile meets every size.
            rounds = [[measure(size) for size in sizes] for _ in range(ROUNDS)]
            costs = list(zip(*rounds))
            state(f"growth with {name}, {sizes[-2]:,} to {sizes[-1]:,}", exponents(sizes, costs), GOAL,
                  "exponent")
            medians = [statistics.median(c) for c in costs]
            steps = ", ".join(f"{size:,}: {cost:.3f} s" for size, cost in zip(sizes, medians))
            print(f"    {steps}", flush=True)


if __name__ == "__main__":
    main()
