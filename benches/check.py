#!/usr/bin/env python3
"""What `mcpdeck --check` costs over the floor: spawn, handshake, list, close stdin, wait.

usage: benches/check.py [PROGRAM] [-- SERVER COMMAND...]

Runs the floor and the check by turns and prints medians: once over one server, once over ten of
different speed. The server defaults to the program's own mock with a start of 300 ms, so that
nothing has to be installed. At the end the peak of the program's memory over the ten.

What the peak is made of: 3 MB of data, 2 MB of the C library, and the rest pages of the program file,
of which the kernel maps 64 KiB and more around every page that is touched. A check runs 3,000 of
32,000 functions, 3 MB of code that lie everywhere, so that it is the size of the program that counts
(see `profile.dist` in Cargo.toml):

    optimised for                               file      code      peak
    speed, thin LTO, four units              28.0 MB   21.4 MB   23.4 MB
    speed, thin LTO, 256 units               31.9 MB   24.6 MB   27.9 MB
    size,  fat LTO, one unit                 17.5 MB   12.5 MB   17.1 MB
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

ROUNDS = 9


def floor(command):
    """Seconds for the least a client can do."""
    begun = time.perf_counter()
    server = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )

    def say(message):
        server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        server.stdin.flush()

    def hear(wanted):
        while True:
            message = json.loads(server.stdout.readline())
            if message.get("id") == wanted:
                return message

    client = {"name": "floor", "version": "1"}
    say({"id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}})
    offers = hear(1)["result"]["capabilities"]
    say({"method": "notifications/initialized"})
    lists = {"tools": ["tools/list"], "prompts": ["prompts/list"],
             "resources": ["resources/list", "resources/templates/list"]}
    number = 2
    for method in [m for key, methods in lists.items() if key in offers for m in methods]:
        say({"id": number, "method": method, "params": {}})
        hear(number)
        number += 1
    server.stdin.close()
    server.wait()
    return time.perf_counter() - begun


def check(program, servers):
    """Seconds of a check over these servers."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "mcp.json")
        entries = {n: {"command": c[0], "args": c[1:]} for n, c in servers.items()}
        with open(path, "w") as file:
            json.dump({"servers": entries}, file)
        begun = time.perf_counter()
        done = subprocess.run([program, "--check", "--config", path], capture_output=True)
        took = time.perf_counter() - begun
        if done.returncode not in (0, 1):
            sys.exit(done.stdout.decode() + done.stderr.decode())
        return took


def mock(program, folder, name, delay):
    path = os.path.join(folder, name + ".json")
    tools = [{"name": "look_up", "description": "Looks things up.",
              "inputSchema": {"type": "object"}}]
    with open(path, "w") as file:
        json.dump({"tools": tools, "on": {"start": {"delay": delay}}}, file)
    return [program, "mock", path]


def peak(program, path):
    """Largest resident set of the program itself, in MB, where the system tells."""
    child = subprocess.Popen([program, "--check", "--config", path], stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
    most = 0
    while child.poll() is None:
        try:
            with open(f"/proc/{child.pid}/status") as status:
                line = next((l for l in status if l.startswith("VmHWM")), "0 0")
                most = max(most, int(line.split()[1]))
        except (OSError, ValueError):
            pass
        time.sleep(0.002)
    return most / 1024


def main():
    words = sys.argv[1:]
    own = words[words.index("--") + 1:] if "--" in words else None
    words = words[:words.index("--")] if "--" in words else words
    program = os.path.abspath(words[0] if words else "target/dist/mcpdeck")
    with tempfile.TemporaryDirectory() as folder:
        one = own or mock(program, folder, "one", 300)
        floors, checks = [], []
        for _ in range(ROUNDS):
            floors.append(floor(one))
            checks.append(check(program, {"one": one}))
        least, ours = statistics.median(floors), statistics.median(checks)
        print(f"one server   floor {least:.3f} s   check {ours:.3f} s   ratio {ours / least:.2f}")
        ten = {f"s{n}": mock(program, folder, f"s{n}", 100 * n) for n in range(1, 11)}
        slowest, together = [], []
        for _ in range(ROUNDS):
            slowest.append(floor(ten["s10"]))
            together.append(check(program, ten))
        least, ours = statistics.median(slowest), statistics.median(together)
        print(f"ten servers  slowest {least:.3f} s   check {ours:.3f} s   ratio {ours / least:.2f}")
        path = os.path.join(folder, "mcp.json")
        with open(path, "w") as file:
            json.dump({"servers": {n: {"command": c[0], "args": c[1:]} for n, c in ten.items()}}, file)
        print(f"memory       {peak(program, path):.1f} MB at most")


if __name__ == "__main__":
    main()
