#!/usr/bin/env python3
"""The largest resident set of `mcpdeck list` over one scripted server. Linux.

usage: benches/memory.py [PROGRAM]

The memory of dashboards is measured by `screen`, that of many servers by `fleet.py`.
"""
import json
import os
import sys
import tempfile

from report import peak, state

ROUNDS = 9


def main():
    program = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "target/dist/mcpdeck")
    with tempfile.TemporaryDirectory() as folder:
        script = os.path.join(folder, "script.json")
        with open(script, "w") as file:
            json.dump({"tools": [{"name": "look_up", "inputSchema": {"type": "object"}}],
                       "on": {"start": {"delay": 50}}}, file)
        path = os.path.join(folder, "mcp.json")
        with open(path, "w") as file:
            json.dump({"servers": {"one": {"command": program, "args": ["mock", script]}}}, file)
        peaks = [peak([program, "list", "-c", path]) for _ in range(ROUNDS)]
    state("peak memory of `list`, one server", peaks, 12, "MB")


if __name__ == "__main__":
    main()
