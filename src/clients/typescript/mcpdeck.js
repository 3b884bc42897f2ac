// Call the tools of MCP servers through mcpdeck. The client starts `mcpdeck serve` as a child
// process, or speaks to a running one. It needs Node 18 or later and no packages:
//
//   const deck = new MCPDeck({ config: "mcp.json" });
//   await deck.initialize();
//   const result = await deck.callTool("files.read_text_file", { path: "notes.txt" });
//   await deck.shutdown();
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { rmSync } from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import http from "node:http";
import https from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
/** A refused or failed request: `code` is one of the `ERR_` codes of the service. */
export class MCPDeckError extends Error {
    code;
    status;
    data;
    constructor(code, message, status = 0, data = {}) {
        super(`${code}: ${message}`);
        this.name = "MCPDeckError";
        this.code = code;
        this.status = status;
        this.data = data;
    }
    /** Seconds to wait before another attempt, where the service says so. */
    get retryAfter() {
        const { retryAfterMs } = this.data;
        return typeof retryAfterMs === "number" ? retryAfterMs / 1000 : undefined;
    }
}
const POLL_SECONDS = 20;
const START_MILLIS = 60_000;
const STOP_MILLIS = 30_000;
const pause = (millis, isBackground = false) => new Promise((resolve) => {
    const timer = setTimeout(resolve, millis);
    if (isBackground)
        timer.unref();
});
/** The body of an answer; one that refuses or failed is thrown. */
function result(status, text) {
    let value;
    try {
        value = JSON.parse(text);
    }
    catch {
        throw new MCPDeckError("ERR_PROTOCOL_ERROR", text, status);
    }
    if (status >= 400) {
        const error = (value?.error ?? {
            code: "ERR_SERVER_UNAVAILABLE",
            message: value?.reason ?? "",
        });
        throw new MCPDeckError(String(error.code), String(error.message), status, error);
    }
    return value;
}
/** A client of mcpdeck. */
export class MCPDeck {
    options;
    url;
    token;
    child;
    folder;
    callback;
    polling;
    forget;
    // What servers ask during our calls is not for other programs with the same token.
    program = randomUUID();
    constructor(options) {
        if ((options.config === undefined) === (options.url === undefined)) {
            throw new TypeError("give either `config`, to start a service, or `url`, to use one");
        }
        if (options.url !== undefined && !options.token) {
            throw new TypeError("`url` needs the `token` of the service");
        }
        this.options = options;
        this.url = options.url;
        this.token = options.token;
    }
    /** Starts the service, if it is to be started, and waits until it is ready. */
    async initialize() {
        const { child } = this;
        if (child !== undefined && (child.exitCode !== null || child.signalCode !== null)) {
            // It ended by itself: begin anew.
            await this.stop();
        }
        if (this.url === undefined)
            await this.start();
        const deadline = Date.now() + START_MILLIS;
        for (;;) {
            try {
                await this.request("GET", "/readyz");
                return;
            }
            catch (error) {
                // 503: servers are starting.
                const waits = error instanceof MCPDeckError && error.status === 503;
                if (!waits || Date.now() > deadline) {
                    await this.stop();
                    throw error;
                }
                await pause(50);
            }
        }
    }
    /** All servers, each with its tools, prompts, resources and templates. */
    async getTools() {
        const [servers, tools, prompts, resources, templates] = await Promise.all([
            this.request("GET", "/servers"),
            this.request("GET", "/tools"),
            this.request("GET", "/prompts"),
            this.request("GET", "/resources"),
            this.request("GET", "/resources/templates"),
        ]);
        const of = (rows, name) => rows.filter((row) => row.server === name);
        const mark = (rows, isTemplate) => rows.map((row) => ({ ...row, isTemplate }));
        const all = [...mark(resources.resources, false), ...mark(templates.templates, true)];
        return servers.servers.map((row) => ({
            name: row.name,
            state: row.state,
            reason: row.reason ?? null,
            tools: of(tools.tools, row.name),
            prompts: of(prompts.prompts, row.name),
            resources: of(all, row.name),
        }));
    }
    /** The tools that fit a description best. */
    async findTools(query, limit = 5) {
        const words = new URLSearchParams({ query, limit: String(limit) });
        return (await this.request("GET", `/tools?${words}`)).tools;
    }
    /**
     * Calls a tool by its name: `server.tool`, or as it is listed. A result with `isError` is the
     * tool's own answer; anything else that fails is thrown.
     */
    async callTool(name, args = {}, options = {}) {
        const body = { arguments: args };
        if (options.timeout !== undefined)
            body.timeout = options.timeout;
        if (options.run !== undefined)
            body.runId = options.run;
        if (this.callback !== undefined)
            body.interactive = this.program;
        const path = `/tools/${encodeURIComponent(name)}/call`;
        return (await this.request("POST", path, body, options.signal));
    }
    /** Gets a prompt: its `messages`. */
    getPrompt(name, args = {}) {
        return this.request("POST", `/prompts/${encodeURIComponent(name)}/get`, { arguments: args });
    }
    /** Reads a resource: its contents. */
    async getResource(uri) {
        return (await this.request("POST", "/resources/read", { uri })).contents;
    }
    /** Counters and latencies by server and tool, calls by origin, and what was blocked. */
    getMetrics() {
        return this.request("GET", "/metrics");
    }
    /** Answers what servers ask during a call; `undefined` leaves questions to the operator again. */
    registerCallback(callback) {
        this.callback = callback;
        if (callback === undefined) {
            this.polling?.abort();
            this.polling = undefined;
        }
        else if (this.polling === undefined) {
            this.polling = new AbortController();
            void this.answer(this.polling.signal);
        }
    }
    /**
     * What changes, as it does: first the state of every server, then each new state (`server`), each
     * list that is another one now (`list`), and what servers ask this client (`request`). Ends with
     * the service; `signal` ends it before.
     */
    async *events(options = {}) {
        const { signal } = options;
        const path = `/events?for=${this.program}`;
        const response = await this.open("GET", path, { accept: "text/event-stream", signal });
        if (response.statusCode >= 400)
            result(response.statusCode, await this.text(response, signal));
        let [kind, data, rest] = ["message", "", ""];
        try {
            for await (const part of response.setEncoding("utf8")) {
                const lines = (rest + part).split("\n");
                rest = lines.pop();
                for (const line of lines) {
                    const [, name, value] = /^([^:\r]*):?(.*)/.exec(line);
                    if (name === "event") {
                        kind = value.trim();
                    }
                    else if (name === "data") {
                        data += value.trim();
                    }
                    else if (name === "" && value === "" && data !== "") {
                        yield { kind, data: JSON.parse(data) };
                        [kind, data] = ["message", ""];
                    }
                }
            }
        }
        catch (error) {
            throw this.failed(error, signal);
        }
        finally {
            response.destroy();
        }
    }
    /** Ends a service that this client started, with its servers; leaves any other alone. */
    async shutdown() {
        this.registerCallback(undefined);
        await this.stop();
    }
    async start() {
        const folder = await mkdtemp(join(tmpdir(), "mcpdeck-"));
        this.folder = folder;
        // A program that ends without `shutdown` leaves nothing either.
        this.forget = () => rmSync(folder, { recursive: true, force: true });
        process.once("exit", this.forget);
        const tokenFile = join(this.folder, "token");
        const given = this.options.command ?? "mcpdeck";
        const [program, ...first] = typeof given === "string" ? [given] : given;
        if (program === undefined)
            throw new TypeError("`command` is empty");
        // It ends when this program does, however that ends: its input is closed then.
        const args = [...first, "serve", "--stdio-control", "--listen", "127.0.0.1:0"];
        args.push("--token-file", tokenFile);
        if (this.options.profile !== undefined)
            args.push("--profile", this.options.profile);
        args.push("-c", this.options.config);
        const env = this.options.env ?? process.env;
        const child = spawn(program, args, { stdio: ["pipe", "pipe", "inherit"], env });
        child.stdin.on("error", () => { });
        this.child = child;
        try {
            const line = await new Promise((resolve, reject) => {
                let text = "";
                const fail = (why) => reject(new MCPDeckError("ERR_START", why));
                const late = setTimeout(() => fail("`mcpdeck serve` did not start in time"), START_MILLIS);
                child.once("error", (error) => {
                    clearTimeout(late);
                    fail(`${program}: ${error.message}`);
                });
                child.once("exit", (status) => {
                    clearTimeout(late);
                    fail(`\`mcpdeck serve\` ended with status ${status}`);
                });
                child.stdout.on("data", (part) => {
                    text += part.toString();
                    const end = text.indexOf("\n");
                    if (end >= 0) {
                        clearTimeout(late);
                        child.stdout.removeAllListeners("data").resume();
                        resolve(text.slice(0, end));
                    }
                });
            });
            // It keeps no program alive that has nothing else to do.
            for (const part of [child, child.stdin, child.stdout])
                part.unref();
            this.url = JSON.parse(line).url;
            this.token = (await readFile(tokenFile, "utf8")).trim();
        }
        catch (error) {
            await this.stop();
            throw error;
        }
    }
    async stop() {
        const child = this.child;
        this.child = undefined;
        if (child?.pid !== undefined && child.exitCode === null && child.signalCode === null) {
            const ended = new Promise((resolve) => child.once("exit", () => resolve()));
            child.kill("SIGTERM");
            const late = setTimeout(() => child.kill("SIGKILL"), STOP_MILLIS);
            await ended;
            clearTimeout(late);
        }
        if (this.folder !== undefined) {
            await rm(this.folder, { recursive: true, force: true });
            process.removeListener("exit", this.forget);
            this.folder = undefined;
            this.url = undefined;
        }
    }
    async answer(signal) {
        const answering = new Map();
        while (!signal.aborted) {
            // While one is being answered it stays in the list.
            const wait = answering.size > 0 ? 0 : POLL_SECONDS;
            let asked;
            try {
                const open = { signal, isBackground: true };
                const path = `/requests?wait=${wait}&for=${this.program}`;
                const response = await this.open("GET", path, open);
                asked = result(response.statusCode, await this.text(response, signal));
            }
            catch {
                if (!signal.aborted)
                    await pause(500, true);
                continue;
            }
            for (const question of asked.requests) {
                const id = question.id;
                if (answering.has(id))
                    continue;
                answering.set(id, this.answerOne(question).finally(() => answering.delete(id)));
            }
            if (answering.size > 0)
                await Promise.race([...answering.values(), pause(200)]);
        }
    }
    async answerOne(question) {
        const callback = this.callback;
        if (callback === undefined)
            return;
        let body;
        try {
            body = { result: (await callback(question.method, question.params)) ?? null };
            JSON.stringify(body);
        }
        catch (error) {
            // What the callback throws is its refusal.
            body = { error: { message: error instanceof Error ? error.message : String(error) } };
        }
        const path = `/requests/${question.id}`;
        try {
            await this.request("POST", path, body);
        }
        catch (error) {
            // The call may have ended meanwhile. A result that does not fit would be asked for again
            // and again.
            if (error instanceof MCPDeckError && [400, 422].includes(error.status) && !body.error) {
                const refusal = { error: { message: error.message } };
                await this.request("POST", path, refusal).catch(() => undefined);
            }
        }
    }
    async request(method, path, body, signal) {
        const response = await this.open(method, path, { body, signal });
        return result(response.statusCode, await this.text(response, signal));
    }
    /**
     * The beginning of an answer. Each request has a connection of its own, and waits as long as the
     * service does: `fetch` would end a call that waits for a person after five minutes.
     */
    async open(method, path, options = {}) {
        const { body, signal, accept = "application/json", isBackground = false } = options;
        if (this.url === undefined) {
            throw new MCPDeckError("ERR_START", "the client is not initialized: call `initialize`");
        }
        const { protocol, hostname, port, pathname } = new URL(this.url);
        const payload = body === undefined ? "" : JSON.stringify(body);
        const headers = {
            authorization: `Bearer ${this.token}`,
            accept,
            "content-length": Buffer.byteLength(payload),
        };
        if (body !== undefined)
            headers["content-type"] = "application/json";
        const init = {
            method,
            headers,
            hostname: hostname.replace(/^\[(.*)\]$/, "$1"),
            port,
            path: pathname.replace(/\/$/, "") + path,
            agent: false,
        };
        if (signal !== undefined)
            init.signal = signal;
        const { request } = protocol === "https:" ? https : http;
        try {
            return await new Promise((resolve, reject) => {
                const sent = request(init, resolve).on("error", reject);
                if (isBackground)
                    sent.on("socket", (socket) => socket.unref());
                sent.end(payload);
            });
        }
        catch (error) {
            throw this.failed(error, signal);
        }
    }
    /** The rest of an answer. */
    async text(response, signal) {
        let text = "";
        try {
            for await (const part of response.setEncoding("utf8"))
                text += part;
        }
        catch (error) {
            throw this.failed(error, signal);
        }
        return text;
    }
    failed(error, signal) {
        if (signal?.aborted)
            return signal.reason ?? error;
        if (error instanceof MCPDeckError)
            return error;
        const why = error.message || error.code;
        const message = `the service at ${this.url} cannot be reached: ${why}`;
        return new MCPDeckError("ERR_SERVER_UNAVAILABLE", message);
    }
}
