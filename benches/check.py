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
import sys
import tempfile

from report import peak
from stop import LISTS, floor_of_list, run

ROUNDS = 9


def mock(program, folder, name, delay):
    path = os.path.join(folder, name + ".json")
    tools = [{"name": "look_up", "description": "Looks things up.",
              "inputSchema": {"type": "object"}}]
    with open(path, "w") as file:
        json.dump({"tools": tools, "on": {"start": {"delay": delay}}}, file)
    return [program, "mock", path]


def written(folder, servers):
    path = os.path.join(folder, "mcp.json")
    with open(path, "w") as file:
        json.dump({"servers": {n: {"command": c[0], "args": c[1:]} for n, c in servers.items()}}, file)
    return path


def compare(program, path, slowest):
    """Medians of the least that a client can do with the slowest server, and of a check of all."""
    floors, checks = [], []
    for _ in range(ROUNDS):
        floors.append(floor_of_list(slowest, os.environ, tuple(LISTS)))
        checks.append(run(program, ["--check"], path))
    return statistics.median(floors), statistics.median(checks)


def main():
    words = sys.argv[1:]
    own = words[words.index("--") + 1:] if "--" in words else None
    words = words[:words.index("--")] if "--" in words else words
    program = os.path.abspath(words[0] if words else "target/dist/mcpdeck")
    with tempfile.TemporaryDirectory() as folder:
        one = own or mock(program, folder, "one", 300)
        least, ours = compare(program, written(folder, {"one": one}), one)
        print(f"one server   floor {least:.3f} s   check {ours:.3f} s   ratio {ours / least:.2f}")
        ten = {f"s{n}": mock(program, folder, f"s{n}", 100 * n) for n in range(1, 11)}
        path = written(folder, ten)
        least, ours = compare(program, path, ten["s10"])
        print(f"ten servers  slowest {least:.3f} s   check {ours:.3f} s   ratio {ours / least:.2f}")
        print(f"memory       {peak([program, '--check', '--config', path]):.1f} MB at most")


if __name__ == "__main__":
    main()
