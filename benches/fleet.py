#!/usr/bin/env python3
"""Many servers behind one `mcpdeck serve`: how long 200 take to be ready and to stop, and the memory of
the program with them, and with 1,000 that sleep but for ten.

usage: benches/fleet.py [PROGRAM]

The servers are the program's own `mock`, so that nothing has to be installed; their memory is not
counted. With MCPDECK_BENCH_ROWS=FILE each figure is added to FILE for `benches/all`. Linux.
"""
import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.parse

from report import state

ROUNDS = 7
STARTED = 10


class Service:
    """A running `serve`; how long it took until its first line, in seconds."""

    def __init__(self, program, folder, servers):
        path = os.path.join(folder, "mcp.json")
        with open(path, "w") as file:
            json.dump({"servers": servers}, file)
        token = os.path.join(folder, "token")
        self.begun = time.perf_counter()
        self.child = subprocess.Popen(
            [program, "serve", "--listen", "127.0.0.1:0", "-c", path, "--token-file", token],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env={**os.environ, "MCPDECK_STATE_DIR": os.path.join(folder, "state")})
        address = urllib.parse.urlsplit(json.loads(self.child.stdout.readline())["url"])
        with open(token) as file:
            self.headers = {"Authorization": f"Bearer {file.read().strip()}"}
        self.client = http.client.HTTPConnection(address.hostname, address.port, timeout=60)

    def ask(self, method, path, body=None):
        headers = {**self.headers, "Content-Type": "application/json"}
        self.client.request(method, path, body and json.dumps(body), headers)
        answer = self.client.getresponse()
        text = answer.read()
        if answer.status != 200:
            sys.exit(f"{path}: {answer.status} {text[:200]!r}")
        return json.loads(text)

    def wait_for(self, state, count):
        """Waits until so many servers are in a state; seconds since the start."""
        while True:
            servers = self.ask("GET", "/servers")["servers"]
            if sum(server["state"] == state for server in servers) >= count:
                return time.perf_counter() - self.begun
            time.sleep(0.02)

    def memory(self):
        """Resident memory, in MB."""
        with open(f"/proc/{self.child.pid}/status") as status:
            return next(int(l.split()[1]) for l in status if l.startswith("VmRSS")) / 1024

    def quit(self):
        """Stops it; in seconds."""
        begun = time.perf_counter()
        self.child.terminate()
        self.child.wait()
        return time.perf_counter() - begun


def main():
    words = sys.argv[1:]
    program = os.path.abspath(words[0] if words else "target/dist/mcpdeck")
    ready, many, stopped, asleep = [], [], [], []
    with tempfile.TemporaryDirectory() as folder:
        script = os.path.join(folder, "script.json")
        with open(script, "w") as file:
            json.dump({"tools": [{"name": "look_up", "inputSchema": {"type": "object"}}],
                       "calls": {"look_up": {"text": "found"}}}, file)
        entry = {"command": program, "args": ["mock", script]}
        for _ in range(ROUNDS):
            service = Service(program, folder, {f"s{n}": entry for n in range(200)})
            ready.append(service.wait_for("ready", 200))
            many.append(service.memory())
            stopped.append(service.quit())
            sleeping = {**entry, "start": "onDemand", "idleStop": 2}
            service = Service(program, folder, {f"s{n}": sleeping for n in range(1_000)})
            # The first time, each was started for what it lists.
            service.wait_for("sleeping", 1_000)
            for n in range(STARTED):
                service.ask("POST", f"/tools/s{n}__look_up/call", {"arguments": {}})
            asleep.append(service.memory())
            service.quit()
    state("200 servers, ready", ready, 5.7, "s")
    state("200 servers, memory", many, 44, "MB")
    state("200 servers, stopped", stopped, 0.9, "s")
    state(f"1,000 servers, asleep but for {STARTED}, memory", asleep, 60, "MB")


if __name__ == "__main__":
    main()
