//! Every key of an `mcp.json`, with its shape, meaning and default: the one table behind the
//! check, the suggestions, `mcpdeck schema` and the documentation.

use super::shape::Shape::{
    self, Any, Apart, Bytes, Either, Flag, Folder, Glob, Integer, List, Map, Millis, Number,
    Object, Scalar, Seconds, Text, Version, Word,
};
use super::shape::{KnownKey, ObjectShape, key};

const fn whole(min: u64, max: u64) -> Shape {
    Integer { min, max }
}

/// A delay in milliseconds, at most an hour.
const DELAY: Shape = Number { min: 0.0, max: 3_600_000.0 };
/// The same in seconds.
const DELAY_SECONDS: Shape = Number { min: 0.0, max: 3_600.0 };
const COUNT: Shape = whole(0, 1_000);
const AMOUNT: Shape = whole(1, 1_000_000_000);

/// The spellings of an address.
pub(crate) const URLS: [&str; 3] = ["url", "httpUrl", "serverUrl"];
/// Keys only for child processes.
pub(crate) const PROCESS: [&str; 7] =
    ["command", "launch", "args", "env", "envFile", "cwd", "inheritEnv"];
/// Keys only for servers reached by address.
pub(crate) const ADDRESS: [&str; 6] = ["url", "httpUrl", "serverUrl", "headers", "oauth", "tls"];

/// Names the document of an HTTP API.
pub(crate) const OPENAPI_KEY: &str = "openapi";

/// The whole file.
pub(crate) static FILE: ObjectShape = ObjectShape::new("file", "the configuration")
    .keys(&[
        key("servers", SERVERS, "The servers, by name"),
        key("mcpServers", SERVERS, "The servers, by name (spelling of other hosts)"),
        key(
            "inputs",
            List(&Object(&INPUT)),
            "Values that are asked for when they are first needed",
        ),
        key(
            "reload",
            Word(&[
                ("auto", "a changed file is applied as soon as it is stable and valid"),
                ("ask", "the plan is shown first"),
            ]),
            "What happens when the file changes",
        )
        .default("\"auto\""),
        key("policy", Any, "Who may do what: see `mcpdeck schema policy`"),
        key("$schema", Text, "Address of this schema, for editors"),
    ])
    .foreign(&[
        ("sandbox", "the sandbox settings of another host"),
        ("version", "mcpdeck has one version of the file"),
        (
            "globalShortcut preferences isUsingBuiltInNodeForMcp isDxtAutoUpdatesEnabled",
            "a setting of Claude Desktop",
        ),
        (
            "theme selectedAuthType security general ui tools context telemetry",
            "a setting of Gemini CLI",
        ),
        ("powers", "a setting of Kiro"),
        ("trust trusted", "trust is never read from a file, only given by its user"),
    ]);

/// Each entry is checked separately, under its server's name.
const SERVERS: Shape = Apart(&Either(&[Map(&Object(&SERVER)), List(&Object(&LISTED))]));

/// One server.
pub(crate) static SERVER: ObjectShape =
    ObjectShape::new("server", "a server").keys(SERVER_KEYS).foreign(FOREIGN);

/// One server where the servers are a list.
static LISTED: ObjectShape = ObjectShape::new("listedServer", "a server")
    .keys(SERVER_KEYS)
    .required(&["id"])
    .foreign(FOREIGN);

const SERVER_KEYS: &[KnownKey] = &[
    key("type", Word(TYPES), "How the server is reached; `command` means stdio, `url` means http"),
    key(
        "transport",
        Word(TRANSPORTS),
        "Transport of an entry of type `local` or `remote` (older spelling)",
    ),
    key("id", Text, "Name of the server where the servers are a list (older spelling)"),
    key("command", Text, "Program to run, found on PATH; never passed to a shell"),
    key(
        "launch",
        Object(&LAUNCH),
        "How the program is installed and started; instead of a `command`",
    ),
    key("args", List(&Text), "Arguments, passed as they are"),
    key(
        "env",
        Map(&Scalar),
        "Environment of the process, in addition to the safe list; null takes a variable of `envFile` out",
    ),
    key("envFile", Text, "File of NAME=value lines added to the environment; `env` wins"),
    key("cwd", Text, "Working directory; the folder of the file when not given"),
    key("inheritEnv", Flag, "Pass the whole environment instead of the safe list").default("false"),
    key("url", Text, "Address of a server that already runs"),
    key("httpUrl", Text, "Address, Streamable HTTP (spelling of Gemini CLI)").alias("url"),
    key("serverUrl", Text, "Address (spelling of Windsurf)").alias("url"),
    key(
        "openapi",
        OPENAPI_SETTING,
        "OpenAPI document of an HTTP API, whose operations become tools: a file or an address",
    ),
    key("headers", Map(&Text), "Extra HTTP headers"),
    key("oauth", OAUTH_SETTING, "Signing in where the server asks for it; false never does"),
    key("tls", Object(&TLS), "Certificates besides those of the system"),
    // Plain durations are in seconds, and have a spelling in milliseconds.
    key("timeout", Seconds, "Default deadline of a request, in seconds").default("30"),
    key("timeoutMs", Millis, "Default deadline of a request, in milliseconds").alias("timeout"),
    key("startupTimeout", Seconds, "Deadline of one attempt to start, in seconds").default("30"),
    key("startupTimeoutMs", Millis, "Deadline of one attempt to start, in milliseconds")
        .alias("startupTimeout"),
    key("shutdownTimeout", Seconds, "Deadline of a graceful stop, in seconds").default("10"),
    key("shutdownTimeoutMs", Millis, "Deadline of a graceful stop, in milliseconds")
        .alias("shutdownTimeout"),
    key("dependencies", List(&Text), "Servers that must be ready first"),
    key("dependsOn", List(&Text), "Servers that must be ready first").alias("dependencies"),
    key("disabled", Flag, "Listed but not started").default("false"),
    key("enabled", Flag, "false means `disabled` (spelling of opencode and Codex)"),
    key("isActive", Flag, "false means `disabled` (spelling of Cherry Studio)"),
    key("start", Word(STARTS), "When the server is started").default("\"auto\""),
    key(
        "idleStop",
        Seconds,
        "Seconds without a call after which an `onDemand` server is stopped until the next one",
    ),
    key("idleStopMs", Millis, "The same in milliseconds").alias("idleStop"),
    key("stop", Object(&STOP), "How long each rung of a stop lasts; over `shutdownTimeout`"),
    key("restart", RESTART_SETTING, "What happens when the process ends unasked"),
    key("onTimeout", Word(ON_TIMEOUT), "What a request without an answer in time means")
        .default("\"unavailable\""),
    key("retry", Object(&RETRY), "Attempts to start, and to repeat requests that may be repeated"),
    key("breaker", Object(&BREAKER), "When calls are turned away because they fail"),
    key("cache", CACHE_SETTING, "Cache of resources and prompts"),
    key("limits", Object(&LIMITS), "Limits of the process and of what it may send"),
    key("roots", List(&ROOT), "Folders shared with the server as roots"),
    key(
        "protocol",
        Version(PROTOCOLS),
        "Protocol version to speak: a choice or a date such as `2025-11-25`",
    )
    .default("\"auto\""),
    key("logLevel", Word(LOG_LEVELS), "Level asked of the server's own logging"),
    key("tools", TOOLS_SETTING, "Which tools are offered; a list is that of `allow`"),
    key("dev", Object(&DEV), "Development: restart when sources change"),
    key(
        "secrets",
        List(&Text),
        "Names of variables and headers whose values are masked whatever they look like",
    ),
    key("public", List(&Text), "Names of variables and headers whose values are not secret"),
    key("guard", GUARD_SETTING, "What happens to suspicious arguments").default("\"warn\""),
    key("approvals", Object(&APPROVALS), "What happens to requests of the server"),
    key(
        "origin",
        Object(&ORIGIN),
        "Where the entry came from: `mcpdeck add` writes it, `mcpdeck upgrade` reads it",
    ),
];

const OPENAPI_SETTING: Shape = Either(&[Text, Object(&OPENAPI)]);
const OAUTH_SETTING: Shape = Either(&[Flag, Object(&OAUTH)]);
const RESTART_SETTING: Shape = Either(&[Word(RESTART_POLICIES), Object(&RESTART)]);
const TOOLS_SETTING: Shape = Either(&[List(&Glob), Object(&TOOLS)]);
const CACHE_SETTING: Shape = Either(&[Flag, Object(&CACHE)]);
const GUARD_SETTING: Shape = Either(&[Word(GUARD_MODES), Object(&GUARD)]);

const TYPES: &[(&str, &str)] = &[
    ("stdio", "a child process"),
    ("http", "Streamable HTTP"),
    ("sse", "HTTP+SSE of 2024-11-05"),
    ("websocket", "WebSocket"),
    ("openapi", "an HTTP API that an OpenAPI document describes"),
    ("streamable-http", "Streamable HTTP"),
    ("streamableHttp", "Streamable HTTP"),
    ("ws", "WebSocket"),
    ("local", "older spelling: a child process"),
    ("remote", "older spelling: by address"),
];

/// The words that name a transport: all but `local` and `remote`.
const TRANSPORTS: &[(&str, &str)] = TYPES.split_at(8).0;

const STARTS: &[(&str, &str)] = &[
    ("auto", "with the configuration"),
    ("onDemand", "with the first call; its lists are those of `mcp.lock.json` or its last session"),
];

const RESTART_POLICIES: &[(&str, &str)] =
    &[("never", "it stays down until it is asked for"), ("on-failure", "it is started again")];

const ON_TIMEOUT: &[(&str, &str)] = &[
    ("unavailable", "the server leaves the active list until it is reconnected"),
    ("breaker", "it counts as a failure of the circuit breakers"),
];

const PROTOCOLS: &[(&str, &str)] = &[
    ("auto", "the newest that both sides know"),
    ("legacy", "the newest with `initialize`"),
    ("modern", "the newest with `server/discover`"),
];

pub(crate) const LOG_LEVELS: &[(&str, &str)] = &[
    ("debug", ""),
    ("info", ""),
    ("notice", ""),
    ("warning", ""),
    ("error", ""),
    ("critical", ""),
    ("alert", ""),
    ("emergency", ""),
];

const OUTSIDE_CALLS: &[(&str, &str)] = &[
    ("deny", "refused, counted and shown"),
    ("allow", "decided by the rule for their kind, as within a call"),
];

const GUARD_MODES: &[(&str, &str)] = &[
    ("off", "do not look"),
    ("warn", "record and show"),
    ("ask", "ask before sending"),
    ("deny", "refuse"),
];

const RULES: &[(&str, &str)] =
    &[("ask", "a person or the application decides"), ("deny", "refused at once")];

static ORIGIN: ObjectShape = ObjectShape::new("origin", "`origin`").keys(&[
    key("registry", Text, "Name of the server in the registry"),
    key("version", Text, "The version that was added"),
    key("kind", Text, "Which of its packages or addresses: npm, pypi, oci, nuget, mcpb, remote"),
]);

static OPENAPI: ObjectShape = ObjectShape::new("openapi", "`openapi`")
    .keys(&[
        key("document", Text, "A file, JSON or YAML, or an address"),
        key("tags", List(&Glob), "Globs; operations with one of these tags are offered"),
        key(
            "operations",
            List(&Glob),
            "Globs over operationId and `METHOD /path`; those that match one are offered",
        ),
    ])
    .required(&["document"]);

static LAUNCH: ObjectShape = ObjectShape::new("launch", "`launch`").keys(&[
    key(
        "uv",
        Text,
        "A Python package such as `mcp-server-time==1.2`, run by uvx; `command` names its program \
             when that is called otherwise",
    ),
    key("docker", Object(&DOCKER), "A container; `command` and `args` are given to it"),
]);

static DOCKER: ObjectShape = ObjectShape::new("docker", "`docker`")
    .keys(&[
        key("image", Text, "The image"),
        key("memory", Bytes, "Most memory"),
        key("cpus", Number { min: 0.01, max: 1_024.0 }, "Most processors"),
        key("network", Text, "Its network; `none` for none"),
        key("mounts", List(&Text), "FROM:TO or FROM:TO:ro, each"),
    ])
    .required(&["image"]);

static STOP: ObjectShape = ObjectShape::new("stop", "`stop`").keys(&[
    key(
        "stdin",
        DELAY_SECONDS,
        "Seconds from closed stdin to SIGTERM; else a third of `shutdownTimeout`, at most 3",
    ),
    key("stdinMs", DELAY, "The same in milliseconds").alias("stdin"),
    key("term", DELAY_SECONDS, "Seconds from SIGTERM to SIGKILL; else the rest"),
    key("termMs", DELAY, "The same in milliseconds").alias("term"),
]);

static RESTART: ObjectShape = ObjectShape::new("restart", "`restart`").keys(&[
    key("policy", Word(RESTART_POLICIES), "When").default("\"never\""),
    key("max", COUNT, "Restarts in a row before giving up").default("3"),
    key("backoff", DELAY_SECONDS, "First delay in seconds; grows with each attempt").default("2"),
    key("backoffMs", DELAY, "First delay in milliseconds").alias("backoff"),
]);

static RETRY: ObjectShape = ObjectShape::new("retry", "`retry`").keys(&[
    key("maxRetries", COUNT, "Retries after the first attempt").default("3"),
    key("initial", DELAY_SECONDS, "First delay in seconds").default("1"),
    key("initialMs", DELAY, "First delay in milliseconds").alias("initial"),
    key("factor", Number { min: 1.0, max: 100.0 }, "Growth of the delay").default("2"),
    key("maxDelay", DELAY_SECONDS, "Longest delay in seconds").default("30"),
    key("maxDelayMs", DELAY, "Longest delay in milliseconds").alias("maxDelay"),
    key(
        "codes",
        List(&Number { min: -2_147_483_648.0, max: 2_147_483_647.0 }),
        "JSON-RPC errors after which a read-only or idempotent tool is called again, such as -32603",
    ),
]);

static BREAKER: ObjectShape = ObjectShape::new("breaker", "`breaker`").keys(&[
    key("threshold", whole(1, 1_000), "Failures in a row that open it").default("5"),
    key("window", DELAY_SECONDS, "Seconds within which they must fall").default("60"),
    key("windowMs", DELAY, "The same in milliseconds").alias("window"),
    key("cooldown", DELAY_SECONDS, "Seconds until one call is let through to try").default("60"),
    key("cooldownMs", DELAY, "The same in milliseconds").alias("cooldown"),
    key("errors", Flag, "JSON-RPC errors are failures").default("false"),
    key("toolErrors", Flag, "Results with `isError` are failures").default("false"),
]);

static CACHE: ObjectShape = ObjectShape::new("cache", "`cache`").keys(&[
    key("enabled", Flag, "Keep answers at all").default("true"),
    key("ttl", Seconds, "Time to live in seconds, without a hint of the server").default("300"),
    key("ttlMs", Millis, "Time to live in milliseconds").alias("ttl"),
    key("staleIfUnavailable", Flag, "Serve an old answer when the server is down").default("true"),
    key("maxEntries", AMOUNT, "Most entries").default("512"),
    key("maxBytes", Bytes, "Most bytes").default("16777216"),
]);

const ROOT: Shape = Either(&[Folder, Object(&ROOT_OBJECT)]);

static ROOT_OBJECT: ObjectShape = ObjectShape::new("root", "a root")
    .keys(&[
        key("uri", Folder, "A folder, or a `file://` URI"),
        key("name", Text, "A name to show"),
    ])
    .required(&["uri"]);

static TOOLS: ObjectShape = ObjectShape::new("tools", "`tools`").keys(&[
    key("allow", List(&Glob), "Globs; a tool must match one; none allows all"),
    key("deny", List(&Glob), "Globs; a tool must match none; wins over `allow`"),
]);

static DEV: ObjectShape = ObjectShape::new("dev", "`dev`").keys(&[
    key(
        "watch",
        Either(&[List(&Glob), Glob]),
        "Globs below the working directory; a change restarts the server",
    ),
    key("build", Either(&[List(&Text), Text]), "Program and arguments to run before the restart"),
    key("rerun", Flag, "Run the last call again after the restart").default("false"),
    key("debug", Any, "Debugger settings of VS Code"),
]);

static GUARD: ObjectShape = ObjectShape::new("guard", "`guard`").keys(&[
    key("default", Word(GUARD_MODES), "For every tool").default("\"warn\""),
    key("tools", Map(&Word(GUARD_MODES)), "For the named tools"),
]);

static APPROVALS: ObjectShape = ObjectShape::new("approvals", "`approvals`").keys(&[
    key("sampling", RULE, "For sampling/createMessage").default("\"ask\""),
    key("elicitation", RULE, "For elicitation/create").default("\"ask\""),
    key(
        "outsideCalls",
        Word(OUTSIDE_CALLS),
        "For both while no call is in flight, with servers of versions up to 2025-11-25",
    )
    .default("\"deny\""),
    key(
        "askers",
        List(&Glob),
        "Tools, prompts and URIs that ask their caller; callers of them take turns (up to 2025-11-25)",
    ),
]);

const RULE: Shape = Either(&[Word(RULES), Object(&CANNED)]);

static CANNED: ObjectShape = ObjectShape::new("canned", "a canned answer")
    .keys(&[key("canned", Any, "The result every request is answered with")])
    .required(&["canned"]);

static INPUT: ObjectShape = ObjectShape::new("input", "an input")
    .keys(&[
        key("id", Text, "Its name in `${input:id}`"),
        key(
            "type",
            Word(&[
                ("promptString", "free text"),
                ("pickString", "one of `options`"),
                ("command", "refused: it runs a command of an editor"),
            ]),
            "How it is asked for",
        ),
        key("description", Text, "What is asked"),
        key("default", Text, "Offered value"),
        key("password", Flag, "Hide what is typed").default("false"),
        key("options", List(&OPTION), "The choices of `pickString`"),
    ])
    .required(&["id", "type"])
    .foreign(&[("command args", "inputs of type `command` run inside an editor")]);

const OPTION: Shape = Either(&[Text, Object(&OPTION_OBJECT)]);

static OPTION_OBJECT: ObjectShape = ObjectShape::new("option", "an option")
    .keys(&[key("label", Text, "Shown"), key("value", Text, "Used")])
    .required(&["value"]);

/// Keys other hosts write into an entry.
const FOREIGN: &[(&str, &str)] = &[
    ("alwaysAllow autoApprove", "Cline's list of approved tools; see `tools`"),
    ("networkTimeout", "a setting of Cline"),
    ("trust trusted", "trust is never read from a file, only given by its user"),
    ("includeTools excludeTools", "Gemini CLI's list of tools; see `tools`"),
    ("disabledTools", "a list of tools of Windsurf, Kiro and Roo; see `tools`"),
    ("watchPaths", "a setting of Roo; see `dev`"),
    ("targetAudience targetServiceAccount extension", "a setting of Gemini CLI"),
    ("disabled_tools enabled_tools", "Codex's list of tools; see `tools`"),
    ("auth authProviderType", "authorisation is negotiated with the server"),
    ("gallery version sandbox sandboxEnabled", "a setting of VS Code"),
    ("description", "a comment of another host"),
    ("icon", "a setting of another host"),
    ("source settings", "a setting of Zed"),
    ("name", "the key is the name"),
];

// The keys of `limits`: what a process may use and what a server may send. Only the table; the
// values in effect are `ProcessLimits`, `WireLimits` and `ContentLimits`.

static LIMITS: ObjectShape = ObjectShape::new("limits", "`limits`").keys(&[
    key("memory", Bytes, "Private memory of each process"),
    key("cpu", Seconds, "CPU time of the process in seconds"),
    key("cpuMs", Millis, "CPU time of the process in milliseconds").alias("cpu"),
    key("openFiles", whole(16, 1_048_576), "Open files of the process"),
    key("lineBytes", whole(1_024, 256 << 20), "Longest message in bytes").default("4194304"),
    key("depth", whole(8, 512), "Deepest nesting of a message").default("128"),
    key(
        "nodes",
        whole(100, 10_000_000),
        "Most JSON values in a message; results of calls are kept as text beyond it",
    )
    .default("500000"),
    key("stderrLineBytes", whole(80, 1 << 20), "Longest line of stderr in bytes").default("16384"),
    key(
        "stderrBytes",
        whole(4 << 10, 64 << 20),
        "Most bytes of stderr kept to say why the process ended",
    )
    .default("262144"),
    key("maxCall", Seconds, "Longest call in seconds, whatever its progress").default("600"),
    key("maxCallMs", Millis, "Longest call in milliseconds").alias("maxCall"),
    key("listPages", whole(1, 10_000), "Most pages of a list").default("100"),
    key("listEntries", whole(1, 1_000_000), "Most entries of a list").default("5000"),
    key("refetch", Seconds, "Least time between two fetches of a list, in seconds").default("1"),
    key("refetchMs", Millis, "Least time between two fetches, in milliseconds").alias("refetch"),
    key("queueMessages", whole(1, 100_000), "Most messages that wait to be read by the server")
        .default("256"),
    key("queueBytes", whole(64 << 10, 256 << 20), "Most bytes that wait to be read by the server")
        .default("1048576"),
    key("inputRounds", whole(1, 100), "Most rounds of input of a call").default("5"),
    key("inputsPerRound", whole(1, 100), "Most inputs of a round").default("8"),
    key("approvals", whole(1, 10_000), "Most open requests of the server").default("32"),
    key("approvalsPerMinute", whole(1, 1_000_000), "Most requests of the server in a minute")
        .default("600"),
    key("maxWaiting", Seconds, "Longest time a person may hold a call, in seconds").default("3600"),
    key("maxWaitingMs", Millis, "Longest time a person may hold a call, in milliseconds")
        .alias("maxWaiting"),
    key(
        "descriptionBytes",
        whole(1, 16 << 20),
        "Longest description that is not reported, in bytes",
    )
    .default("4096"),
    key("schemaDepth", whole(1, 256), "Deepest nesting of a schema").default("32"),
    key("subschemas", whole(1, 100_000), "Most sub-schemas of a schema").default("2000"),
    key("schemaTime", Seconds, "Longest validation of a value, in seconds").default("0.25"),
    key("schemaTimeMs", Millis, "Longest validation of a value, in milliseconds")
        .alias("schemaTime"),
    key("imagePixels", whole(1, 100_000_000), "Most pixels of a picture that is drawn")
        .default("4000000"),
    key("imageBytes", whole(64 << 10, 1 << 30), "Most memory that a picture may take, in bytes")
        .default("67108864"),
]);

// Keys of servers reached by URL: signing in, certificates.

static OAUTH: ObjectShape = ObjectShape::new("oauth", "how the host signs in").keys(&[
    key("clientId", Text, "Client that was registered manually"),
    key("clientSecret", Text, "Its secret"),
    key("clientMetadataUrl", Text, "Address of a client metadata document"),
    key(
        "redirectUri",
        Text,
        "Where the browser comes back to: an address of this machine, by the name and path that are \
         registered, such as http://localhost:3118/callback",
    ),
    key(
        "callbackPort",
        whole(1, 65_535),
        "Port of http://127.0.0.1:PORT/callback, or of a `redirectUri` that has none; otherwise one \
         is chosen and remembered",
    ),
    key("scopes", List(&Text), "Scopes to ask for, instead of the server's"),
    key(
        "grant",
        Word(&[
            ("authorization_code", "a person signs in with a browser"),
            ("client_credentials", "the client signs in for itself"),
            ("jwt_bearer", "a workload, with the JWT of `assertion` or `assertionFile`"),
            ("identity_provider", "a person, for whom `identityProvider` vouches"),
        ]),
        "Who signs in",
    )
    .default("\"authorization_code\""),
    key("privateKey", Text, "PEM of the key that signs the client's assertions"),
    key("assertion", Text, "JWT that says which workload this is (RFC 7523)"),
    key("assertionFile", Text, "File that holds the JWT, read anew for every token"),
    key(
        "identityProvider",
        Object(&IDENTITY_PROVIDER),
        "Who exchanges the ID token of a person for a grant (enterprise-managed authorization)",
    ),
    key(
        "exchange",
        Object(&TOKEN_EXCHANGE),
        "Callers that have signed in to the gateway use the server as themselves",
    ),
    key(
        "dpop",
        Flag,
        "Whether tokens are bound to a key (RFC 9449); otherwise where the server asks for it",
    ),
]);

static IDENTITY_PROVIDER: ObjectShape =
    ObjectShape::new("identityProvider", "who vouches for a person").keys(&[
        key("tokenEndpoint", Text, "Where tokens are exchanged (RFC 8693)"),
        key("clientId", Text, "Client that the ID token was issued to"),
        key("clientSecret", Text, "Its secret"),
        key("idToken", Text, "ID token of the person"),
        key("idTokenFile", Text, "File that holds the ID token, read anew for every token"),
    ]);

static TOKEN_EXCHANGE: ObjectShape =
    ObjectShape::new("exchange", "a caller's token becomes one for the server alone (RFC 8693)")
        .keys(&[
            key("tokenEndpoint", Text, "Where tokens are exchanged"),
            key("clientId", Text, "Client that exchanges them"),
            key("clientSecret", Text, "Its secret"),
            key("audience", Text, "Name of the server at the authorization server"),
            key("resource", Text, "Address of the server there, instead of the entry's"),
            key("scopes", List(&Text), "Scopes to ask for"),
            key("actorToken", Text, "JWT of the gateway, which acts for the person"),
            key("actorTokenFile", Text, "File that holds the JWT, read anew for every token"),
            key(
                "others",
                Flag,
                "Whether callers that have not signed in use the session of the entry itself",
            )
            .default("false"),
            key("idleTimeout", Seconds, "How long the session of a person is open without use")
                .default("300"),
            key("maxSessions", whole(1, 10_000), "Most sessions of persons at a time")
                .default("100"),
        ]);

static TLS: ObjectShape = ObjectShape::new("tls", "certificates").keys(&[
    key("ca", Text, "PEM file of authorities to trust besides those of the system"),
    key("cert", Text, "PEM file of the certificate the client shows"),
    key("key", Text, "PEM file of its key"),
]);
