#!/usr/bin/env python3
"""Idle connections, open sessions and a client that does not read, at one `mcpdeck serve`.

    benches/crowd.py MCPDECK [--connections 10000] [--sessions 1000]

Prints what a call takes (p50 and p99 in ms over 200 calls) and the resident memory of the service, alone
and with each crowd on top of the one before: sessions, a client that sends calls without end and reads no
answer (what it sent is worked on until its answers fill the connection), idle connections. More connections than the service takes wait in the queue of
the system; the number it takes is half of the files it may open, at most 8,192. Linux.
"""

import argparse
import http.client
import json
import resource
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def call(port, token, path, body, headers=None):
    one = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    head = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", **(headers or {})}
    one.request("POST", path, json.dumps(body), head)
    answer = one.getresponse()
    text = answer.read()
    one.close()
    return answer.status, answer.headers, text


def figures(name, port, token, pid):
    """Over one connection that was there first: a full service takes no new one."""
    times = []
    for _ in range(200):
        begun = time.perf_counter()
        STEADY.request("POST", "/tools/echo__echo/call", '{"arguments":{}}',
                       {"Authorization": f"Bearer {token}", "Content-Type": "application/json"})
        answer = STEADY.getresponse()
        answer.read()
        if answer.status != 200:
            sys.exit(f"HTTP {answer.status}")
        times.append((time.perf_counter() - begun) * 1e3)
    times.sort()
    status = Path(f"/proc/{pid}/status").read_text()
    memory = next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS"))
    files = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    print(f"{name:<34} p50 {times[100]:7.2f}  p99 {times[197]:7.2f}  {int(memory) / 1024:7.1f} MiB  {files:>6} files", flush=True)


def main():
    global STEADY
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("mcpdeck", type=lambda path: str(Path(path).resolve()))
    arguments.add_argument("--connections", type=int, default=10_000)
    arguments.add_argument("--sessions", type=int, default=1_000)
    given = arguments.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        script = {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}], "calls": {"echo": {"text": "x" * 1000}}}
        (folder / "echo.json").write_text(json.dumps(script))
        entry = {"command": given.mcpdeck, "args": ["mock", str(folder / "echo.json")]}
        limits = {"callsPerMinute": 10_000_000, "callsPerRun": 10_000_000}
        (folder / "mcp.json").write_text(json.dumps({"servers": {"echo": entry}, "policy": {"limits": limits}}))
        service = subprocess.Popen(
            [given.mcpdeck, "serve", "--listen", "127.0.0.1:0", "-c", folder / "mcp.json", "--token-file", folder / "token"],
            env={"MCPDECK_STATE_DIR": str(folder / "state"), "PATH": "/usr/bin:/bin"},
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            event = json.loads(service.stdout.readline())
            port, token = int(event["url"].rsplit(":", 1)[1]), (folder / "token").read_text().strip()
            STEADY = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            figures("alone", port, token, service.pid)
            hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
                "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "crowd", "version": "1"}}}
            accept = {"Accept": "application/json, text/event-stream"}
            opened = 0
            for _ in range(given.sessions):
                status, headers, _ = call(port, token, "/mcp", hello, accept)
                opened += status == 200 and headers.get("Mcp-Session-Id") is not None
            figures(f"and {opened} sessions", port, token, service.pid)
            slow = socket.create_connection(("127.0.0.1", port))
            request = (f"POST /tools/echo__echo/call HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n"
                       "Content-Type: application/json\r\nContent-Length: 16\r\n\r\n{\"arguments\":{}}").encode()
            slow.settimeout(2)
            sent = 0
            try:
                while sent < 100_000:
                    slow.sendall(request)
                    sent += 1
            except TimeoutError:
                pass
            figures(f"and one that reads nothing ({sent})", port, token, service.pid)
            idle = []
            for _ in range(given.connections):
                one = socket.socket()
                one.setblocking(False)
                one.connect_ex(("127.0.0.1", port))
                idle.append(one)
                if len(idle) % 500 == 0:
                    time.sleep(0.05)
            time.sleep(2)
            figures(f"and {len(idle)} idle connections", port, token, service.pid)
        finally:
            service.terminate()
            service.wait()


if __name__ == "__main__":
    main()
