export type Json = null | boolean | number | string | Json[] | {
    [key: string]: Json;
};
export type JsonObject = {
    [key: string]: Json;
};
/** Answers a request of a server (sampling, elicitation, roots) with its result. */
export type Callback = (method: string, params: JsonObject) => JsonObject | Promise<JsonObject>;
export interface Tool {
    name: string;
    server: string;
    tool: string;
    available: boolean;
    definition: JsonObject;
}
export interface Prompt {
    name: string;
    server: string;
    prompt: string;
    definition: JsonObject;
}
export interface Resource {
    uri: string;
    server: string;
    definition: JsonObject;
    isTemplate: boolean;
}
export interface Server {
    name: string;
    state: string;
    reason: string | null;
    tools: Tool[];
    prompts: Prompt[];
    resources: Resource[];
}
export interface ToolResult {
    content: JsonObject[];
    isError: boolean;
    structuredContent?: Json;
    provenance: JsonObject;
}
/** Something that has changed. */
export interface DeckEvent {
    kind: "server" | "list" | "request";
    data: JsonObject;
}
export interface Options {
    /** The configuration for which `mcpdeck serve` is started. */
    config?: string;
    /** A running service, instead. */
    url?: string;
    /** Its token. */
    token?: string;
    /** The program and its first arguments. */
    command?: string | string[];
    profile?: string;
    env?: {
        [name: string]: string | undefined;
    };
}
/** A refused or failed request: `code` is one of the `ERR_` codes of the service. */
export declare class MCPDeckError extends Error {
    readonly code: string;
    readonly status: number;
    readonly data: JsonObject;
    constructor(code: string, message: string, status?: number, data?: JsonObject);
    /** Seconds to wait before another attempt, where the service says so. */
    get retryAfter(): number | undefined;
}
/** A client of mcpdeck. */
export declare class MCPDeck {
    private readonly options;
    private url;
    private token;
    private child;
    private folder;
    private callback;
    private polling;
    private forget;
    constructor(options: Options);
    /** Starts the service, if it is to be started, and waits until it is ready. */
    initialize(): Promise<void>;
    /** All servers, each with its tools, prompts, resources and templates. */
    getTools(): Promise<Server[]>;
    /** The tools that fit a description best. */
    findTools(query: string, limit?: number): Promise<Tool[]>;
    /**
     * Calls a tool by its name: `server.tool`, or as it is listed. A result with `isError` is the
     * tool's own answer; anything else that fails is thrown. `signal` cancels the call.
     */
    callTool(name: string, args?: JsonObject, options?: {
        timeout?: number;
        run?: string;
        signal?: AbortSignal;
    }): Promise<ToolResult>;
    /** Gets a prompt: its `messages`. */
    getPrompt(name: string, args?: {
        [name: string]: string;
    }): Promise<JsonObject>;
    /** Reads a resource: its contents. */
    getResource(uri: string): Promise<JsonObject[]>;
    /** Counters and latencies by server and tool, calls by origin, and what was blocked. */
    getMetrics(): Promise<JsonObject>;
    /** Answers what servers ask during a call; `undefined` leaves questions to the operator again. */
    registerCallback(callback: Callback | undefined): void;
    /**
     * What changes, as it does: first the state of every server, then each new state (`server`), each
     * list that is another one now (`list`), and what servers ask this client (`request`). Ends with
     * the service; `signal` ends it before.
     */
    events(options?: {
        signal?: AbortSignal;
    }): AsyncGenerator<DeckEvent, void, void>;
    /** Ends a service that this client started, with its servers; leaves any other alone. */
    shutdown(): Promise<void>;
    private start;
    private stop;
    private answer;
    private answerOne;
    private request;
    private open;
    private text;
    private failed;
}
