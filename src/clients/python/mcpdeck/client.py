"""The client: one class, over the REST interface of ``mcpdeck serve``."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import os
import secrets
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Union
from urllib.parse import quote, urlencode, urlsplit

Json = Any
Callback = Callable[[str, dict[str, Json]], Union[Json, Awaitable[Json]]]

# Seconds that one request for questions waits, and that the service may take to start and to end.
_POLL_SECONDS = 20
_START_SECONDS = 60.0
_STOP_SECONDS = 30.0


class MCPDeckError(Exception):
    """A refused or failed request: ``code`` is one of the ``ERR_`` codes of the service."""

    def __init__(self, code: str, message: str, status: int = 0, data: Json = None) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.status = status
        self.data: dict[str, Json] = data or {}

    @property
    def retry_after(self) -> float | None:
        """Seconds to wait before another attempt, where the service says so."""
        wait = self.data.get("retryAfterMs")
        return None if wait is None else wait / 1000


@dataclass(frozen=True)
class Tool:
    """A tool; ``definition`` is what its server says of it."""

    name: str
    server: str
    tool: str
    available: bool
    definition: dict[str, Json]

    @property
    def description(self) -> str:
        return self.definition.get("description") or ""

    @property
    def input_schema(self) -> dict[str, Json]:
        return self.definition.get("inputSchema") or {}


@dataclass(frozen=True)
class Prompt:
    """A prompt; ``definition`` is what its server says of it."""

    name: str
    server: str
    prompt: str
    definition: dict[str, Json]


@dataclass(frozen=True)
class Resource:
    """A resource, or a template where ``is_template``."""

    uri: str
    server: str
    definition: dict[str, Json]
    is_template: bool = False


@dataclass(frozen=True)
class Server:
    """A server and everything that it offers."""

    name: str
    state: str
    reason: str | None
    tools: list[Tool] = field(default_factory=list)
    prompts: list[Prompt] = field(default_factory=list)
    resources: list[Resource] = field(default_factory=list)


@dataclass(frozen=True)
class ToolResult:
    """The result of a tool; ``raw`` is all of it, as the server sent it."""

    content: list[dict[str, Json]]
    is_error: bool
    structured: Json
    provenance: dict[str, Json]
    raw: dict[str, Json]

    @property
    def text(self) -> str:
        """The texts of the content, a line each."""
        return "\n".join(part["text"] for part in self.content if part.get("type") == "text")


@dataclass(frozen=True)
class Event:
    """Something that has changed: ``kind`` is ``server``, ``list`` or ``request``."""

    kind: str
    data: dict[str, Json]


class MCPDeck:
    """A client of mcpdeck.

    With ``config`` it starts ``mcpdeck serve`` for that file; with ``url`` and ``token`` it speaks to
    a service that runs already.
    """

    def __init__(
        self,
        config: str | os.PathLike[str] | None = None,
        *,
        url: str | None = None,
        token: str | None = None,
        command: str | Sequence[str] = "mcpdeck",
        profile: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        if (config is None) == (url is None):
            raise ValueError("give either `config`, to start a service, or `url`, to use one")
        if url is not None and not token:
            raise ValueError("`url` needs the `token` of the service")
        self._config = None if config is None else Path(config)
        self._command = [command] if isinstance(command, str) else list(command)
        self._profile = profile
        self._env = None if env is None else dict(env)
        self._url = url
        self._token = token
        self._child: asyncio.subprocess.Process | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._callback: Callback | None = None
        # What servers ask during our calls is not for other programs with the same token.
        self._program = secrets.token_hex(8)
        self._polling: asyncio.Task[None] | None = None

    async def __aenter__(self) -> MCPDeck:
        await self.initialize()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.shutdown()

    async def initialize(self) -> None:
        """Starts the service, if it is to be started, and waits until it is ready."""
        if self._child is not None and self._child.returncode is not None:
            # It ended by itself: begin anew.
            await self._stop()
        if self._url is None:
            await self._start()
        deadline = asyncio.get_running_loop().time() + _START_SECONDS
        while True:
            try:
                await self._request("GET", "/readyz")
                self._poll()
                return
            except MCPDeckError as error:
                # 503: servers are starting.
                if error.status != 503 or asyncio.get_running_loop().time() > deadline:
                    await self._stop()
                    raise
                await asyncio.sleep(0.05)

    async def get_tools(self) -> list[Server]:
        """All servers, each with its tools, prompts, resources and templates."""
        listed = await self._request("GET", "/servers")
        tools = [
            Tool(row["name"], row["server"], row["tool"], row["available"], row["definition"])
            for row in (await self._request("GET", "/tools"))["tools"]
        ]
        prompts = [
            Prompt(row["name"], row["server"], row["prompt"], row["definition"])
            for row in (await self._request("GET", "/prompts"))["prompts"]
        ]
        resources = [
            Resource(row["uri"], row["server"], row["definition"])
            for row in (await self._request("GET", "/resources"))["resources"]
        ] + [
            Resource(row["uri"], row["server"], row["definition"], is_template=True)
            for row in (await self._request("GET", "/resources/templates"))["templates"]
        ]
        return [
            Server(
                row["name"],
                row["state"],
                row.get("reason"),
                [tool for tool in tools if tool.server == row["name"]],
                [prompt for prompt in prompts if prompt.server == row["name"]],
                [resource for resource in resources if resource.server == row["name"]],
            )
            for row in listed["servers"]
        ]

    async def find_tools(self, query: str, *, limit: int = 5) -> list[Tool]:
        """The tools that fit a description best."""
        found = await self._request("GET", "/tools?" + urlencode({"query": query, "limit": limit}))
        return [
            Tool(row["name"], row["server"], row["tool"], row["available"], row["definition"])
            for row in found["tools"]
        ]

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Json] | None = None,
        *,
        timeout: float | None = None,
        run: str | None = None,
    ) -> ToolResult:
        """Calls a tool by its name: ``server.tool``, or as it is listed.

        A result with ``is_error`` is the tool's own answer; anything else that fails is raised.
        """
        body: dict[str, Json] = {"arguments": _named(arguments)}
        if timeout is not None:
            body["timeout"] = timeout
        if run is not None:
            body["runId"] = run
        if self._callback is not None:
            body["interactive"] = self._program
        raw = await self._request("POST", f"/tools/{quote(name, safe='')}/call", body)
        return ToolResult(
            raw.get("content", []),
            bool(raw.get("isError")),
            raw.get("structuredContent"),
            raw.get("provenance", {}),
            raw,
        )

    async def get_prompt(
        self, name: str, arguments: Mapping[str, str] | None = None
    ) -> dict[str, Json]:
        """Gets a prompt: its ``messages``."""
        body = {"arguments": _named(arguments)}
        path = f"/prompts/{quote(name, safe='')}/get"
        prompt: dict[str, Json] = await self._request("POST", path, body)
        return prompt

    async def get_resource(self, uri: str) -> list[dict[str, Json]]:
        """Reads a resource: its contents."""
        read = await self._request("POST", "/resources/read", {"uri": uri})
        contents: list[dict[str, Json]] = read["contents"]
        return contents

    async def get_metrics(self) -> dict[str, Json]:
        """Counters and latencies by server and tool, calls by origin, and what was blocked."""
        metrics: dict[str, Json] = await self._request("GET", "/metrics")
        return metrics

    def register_callback(self, callback: Callback | None) -> None:
        """Answers what servers ask during a call (sampling, elicitation, roots).

        ``callback(method, params)`` returns the result of the request, now or later; what it raises
        is told to the server as a refusal. ``None`` leaves questions to the operator again. It may
        be given before `initialize`, also where no event loop runs yet.
        """
        self._callback = callback
        if callback is not None:
            self._poll()
        elif self._polling is not None:
            self._polling.cancel()
            self._polling = None

    async def events(self) -> AsyncIterator[Event]:
        """What changes, as it does: first the state of every server, then each new state
        (``server``), each list that is another one now (``list``), and what servers ask this
        client (``request``). Ends with the service.
        """
        path = f"/events?for={self._program}"
        reader, writer = await self._open("GET", path, b"", "text/event-stream")
        try:
            with _unreachable(self._url):
                status, headers = await _head(reader)
                if status >= 400:
                    _result(status, b"".join([part async for part in _body(reader, headers)]))
            async for kind, data in _sent_events(_body(reader, headers), self._url):
                yield Event(kind, json.loads(data))
        finally:
            await _close(writer)

    async def shutdown(self) -> None:
        """Ends a service that this client started, with its servers; leaves any other alone."""
        self.register_callback(None)
        await self._stop()

    # The service as a child process.

    async def _start(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="mcpdeck-")
        token_file = Path(self._folder.name) / "token"
        # It ends when this program does, however that ends: its input is closed then.
        args = ["serve", "--stdio-control", "--listen", "127.0.0.1:0"]
        args += ["--token-file", str(token_file)]
        if self._profile is not None:
            args += ["--profile", self._profile]
        args += ["-c", str(self._config)]
        try:
            self._child = await asyncio.create_subprocess_exec(
                *self._command,
                *args,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                env=self._env,
            )
            assert self._child.stdout is not None
            line = await asyncio.wait_for(self._child.stdout.readline(), _START_SECONDS)
            if not line:
                status = await self._child.wait()
                raise MCPDeckError("ERR_START", f"`mcpdeck serve` ended with status {status}")
            self._url = json.loads(line)["url"]
            self._token = token_file.read_text().strip()
        except FileNotFoundError as error:
            self._clean()
            raise MCPDeckError("ERR_START", f"{self._command[0]}: not found") from error
        except BaseException:
            await self._stop()
            raise

    async def _stop(self) -> None:
        child, self._child = self._child, None
        if child is not None and child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                child.terminate()
            try:
                await asyncio.wait_for(child.wait(), _STOP_SECONDS)
            except asyncio.TimeoutError:
                child.kill()
                await child.wait()
        self._clean()

    def _clean(self) -> None:
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None
            self._url = None

    # Questions of servers.

    async def _answer(self) -> None:
        answering: dict[str, asyncio.Task[None]] = {}
        while True:
            try:
                # While one is being answered it stays in the list.
                wait = 0 if answering else _POLL_SECONDS
                asked = await self._request("GET", f"/requests?wait={wait}&for={self._program}")
            except MCPDeckError:
                await asyncio.sleep(0.5)
                continue
            for question in asked["requests"]:
                if question["id"] not in answering:
                    answering[question["id"]] = asyncio.create_task(self._answer_one(question))
            if answering:
                await asyncio.wait(answering.values(), timeout=0.2)
            answering = {key: task for key, task in answering.items() if not task.done()}

    async def _answer_one(self, question: dict[str, Json]) -> None:
        callback = self._callback
        if callback is None:
            return
        body: dict[str, Json]
        try:
            result = callback(question["method"], question["params"])
            body = {"result": await result if inspect.isawaitable(result) else result}
            json.dumps(body)
        except Exception as error:  # What the callback raises is its refusal.
            body = {"error": {"message": str(error) or type(error).__name__}}
        path = f"/requests/{question['id']}"
        # The call may have ended meanwhile.
        with contextlib.suppress(MCPDeckError):
            try:
                await self._request("POST", path, body)
            except MCPDeckError as error:
                # A result that does not fit would be asked for again and again.
                if error.status not in (400, 422) or "error" in body:
                    raise
                await self._request("POST", path, {"error": {"message": error.message}})

    def _poll(self) -> None:
        """Begins to ask for questions, once there are a callback, a service and a loop."""
        is_polling = self._polling is not None and not self._polling.done()
        if self._callback is None or self._url is None or is_polling:
            return
        with contextlib.suppress(RuntimeError):
            self._polling = asyncio.get_running_loop().create_task(self._answer())

    # HTTP, one connection for each request.

    async def _request(self, method: str, path: str, body: Json = None) -> Json:
        # JSON has neither NaN nor infinity.
        payload = b"" if body is None else json.dumps(body, allow_nan=False).encode()
        reader, writer = await self._open(method, path, payload, "application/json")
        try:
            with _unreachable(self._url):
                status, headers = await _head(reader)
                text = b"".join([part async for part in _body(reader, headers)])
        finally:
            await _close(writer)
        return _result(status, text)

    async def _open(
        self, method: str, path: str, payload: bytes, accept: str
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection on which a request was sent."""
        if self._url is None:
            raise MCPDeckError("ERR_START", "the client is not initialized: call `initialize`")
        url = urlsplit(self._url)
        secure = url.scheme == "https"
        head = [
            f"{method} {url.path.rstrip('/')}{path} HTTP/1.1",
            f"Host: {url.netloc}",
            f"Authorization: Bearer {self._token}",
            f"Accept: {accept}",
            "Connection: close",
            f"Content-Length: {len(payload)}",
        ]
        if payload:
            head.append("Content-Type: application/json")
        with _unreachable(self._url):
            port = url.port or (443 if secure else 80)
            reader, writer = await asyncio.open_connection(
                url.hostname, port, ssl=secure or None, limit=1 << 24
            )
            try:
                writer.write("\r\n".join([*head, "", ""]).encode() + payload)
                await writer.drain()
            except BaseException:
                await _close(writer)
                raise
        return reader, writer


@contextlib.contextmanager
def _unreachable(address: str | None) -> Iterator[None]:
    """A connection that fails, or an answer that is cut, is told as an error of ours."""
    try:
        yield
    except (OSError, EOFError, ValueError) as error:
        why = str(error) or type(error).__name__
        message = f"the service at {address} cannot be reached: {why}"
        raise MCPDeckError("ERR_SERVER_UNAVAILABLE", message) from error


def _named(arguments: Mapping[str, Any] | None) -> dict[str, Any]:
    """The arguments of a call, which are given by name."""
    if arguments is None:
        return {}
    if not isinstance(arguments, Mapping):
        kind = type(arguments).__name__
        raise TypeError(f"`arguments` are a mapping of names to values, not {kind}")
    return dict(arguments)


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


def _result(status: int, text: bytes) -> Json:
    """The body of an answer; one that refuses or failed is raised."""
    try:
        value = json.loads(text)
    except ValueError:
        value = {"error": {"code": "ERR_PROTOCOL_ERROR", "message": text.decode("utf8", "replace")}}
    if status >= 400:
        value = value if isinstance(value, dict) else {}
        told = value.get("error")
        told = told or {"code": "ERR_SERVER_UNAVAILABLE", "message": value.get("reason", "")}
        raise MCPDeckError(told["code"], told["message"], status, told)
    return value


async def _head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    """The status and the headers of an answer."""
    line = await reader.readline()
    if not line:
        raise EOFError("it closed the connection without an answer")
    first = line.decode("latin1").split(" ")
    if len(first) < 2 or not first[1].isdigit():
        raise MCPDeckError("ERR_PROTOCOL_ERROR", "the service did not answer in HTTP")
    headers: dict[str, str] = {}
    while True:
        header = (await reader.readline()).decode("latin1").strip()
        if not header:
            return int(first[1]), headers
        name, _, value = header.partition(":")
        headers[name.lower()] = value.strip()


async def _body(reader: asyncio.StreamReader, headers: dict[str, str]) -> AsyncIterator[bytes]:
    """The body of an answer, part by part."""
    if headers.get("transfer-encoding", "").lower() == "chunked":
        while True:
            size = int((await reader.readline()).split(b";")[0], 16)
            part = await reader.readexactly(size + 2)
            if size == 0:
                return
            yield part[:-2]
    elif "content-length" in headers:
        yield await reader.readexactly(int(headers["content-length"]))
    else:
        yield await reader.read()


async def _sent_events(
    parts: AsyncIterator[bytes], address: str | None
) -> AsyncIterator[tuple[str, str]]:
    """The server-sent events of a body: the kind and the data of each."""
    kind, data, rest = "message", "", b""
    while True:
        with _unreachable(address):
            try:
                part = await parts.__anext__()
            except StopAsyncIteration:
                return
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            name, _, value = line.decode("utf8", "replace").strip("\r").partition(":")
            if name == "event":
                kind = value.strip()
            elif name == "data":
                data += value.strip()
            elif not name and data:
                yield kind, data
                kind, data = "message", ""
