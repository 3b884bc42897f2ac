//! The script of a mock server: plain data, its JSON Schema and its parser.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use base::text::path::spelled;
use deck::WrittenText;

/// Everything a mock server is and does. Every field has a default; `{}` is a polite server
/// without tools.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct ServerScript {
    /// Address of the schema, for editors.
    #[serde(rename = "$schema")]
    pub schema: Option<String>,
    /// What the script plays, for its reader.
    pub about: Option<String>,
    /// `serverInfo` of the handshake.
    pub server_info: Option<Value>,
    /// `instructions` of the handshake (template).
    pub instructions: Option<Value>,
    /// Versions spoken, oldest first. `2026-07-28` and later make `server/discover` work; without
    /// an older one, `initialize` is refused. Default: the four versions of the `initialize` era.
    pub versions: Vec<String>,
    /// `capabilities` of the handshake; made from the lists when absent.
    pub capabilities: Option<Value>,
    /// `tools/list` (list template).
    pub tools: Option<Value>,
    /// `prompts/list` (list template).
    pub prompts: Option<Value>,
    /// `resources/list` (list template).
    pub resources: Option<Value>,
    /// `resources/templates/list` (list template).
    pub resource_templates: Option<Value>,
    /// Entries per page of every list; everything at once when absent.
    pub page_size: Option<usize>,
    /// `ttlMs` of lists and reads in the modern era (default 0).
    pub ttl_ms: Option<i64>,
    /// `cacheScope` of lists and reads in the modern era (default `private`).
    pub cache_scope: Option<String>,
    /// Values that an argument of a prompt or of a template may take, by its name: completion
    /// returns those that begin with the typed text.
    pub complete: BTreeMap<String, Vec<String>>,
    /// Reactions to `tools/call`, by tool name.
    pub calls: BTreeMap<String, Reaction>,
    /// Reactions to `resources/read`, by URI.
    pub reads: BTreeMap<String, Reaction>,
    /// Reactions to `prompts/get`, by prompt name.
    pub gets: BTreeMap<String, Reaction>,
    /// Reactions to any method, and to `start`, `stdinClosed`, `SIGTERM`, `SIGINT`,
    /// `answer` (a response of the host), `POST`, `GET`, `DELETE` and `*` (whatever has no other).
    pub on: BTreeMap<String, Reaction>,
    /// What a request in progress does when the host cancels it.
    pub cancellation: Cancellation,
    /// How answers travel over HTTP.
    pub http: HttpStyle,
    /// File that every received line is appended to (text template).
    pub record: Option<String>,
}

/// What happens: one action or several in a row.
#[derive(Clone, Debug, JsonSchema)]
#[serde(untagged)]
pub enum Reaction {
    /// Several, one after the other.
    Many(Vec<ScriptAction>),
    /// One.
    One(Box<ScriptAction>),
}

/// By hand, because a derived untagged enum reports every error as no variant matching.
impl<'de> Deserialize<'de> for Reaction {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        match Value::deserialize(deserializer)? {
            Value::Array(items) => items
                .into_iter()
                .enumerate()
                .map(|(index, item)| {
                    let action = serde_json::from_value(item);
                    action.map_err(|error| Error::custom(format!("action {index}: {error}")))
                })
                .collect::<Result<_, _>>()
                .map(Self::Many),
            one => serde_json::from_value(one).map(Self::One).map_err(Error::custom),
        }
    }
}

impl Reaction {
    /// Its actions.
    pub fn actions(&self) -> &[ScriptAction] {
        match self {
            Self::Many(actions) => actions,
            Self::One(action) => std::slice::from_ref(action),
        }
    }
}

/// What cancelling does to a reaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Cancellation {
    /// It ends at its next delay, without an answer.
    #[default]
    Obey,
    /// It goes on, and answers late.
    Ignore,
}

/// How answers travel over HTTP.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct HttpStyle {
    /// Always answer with an event stream; otherwise only when more than the answer is sent.
    pub stream: bool,
    /// `Mcp-Session-Id` given at `initialize`; none when empty.
    pub session: String,
    /// Port to listen on, when the command line names none; 0 picks one.
    pub port: u16,
}

impl ServerScript {
    /// Reads a script from a file: JSON with comments and trailing commas.
    ///
    /// # Errors
    /// When it cannot be read or is not a script.
    pub fn read(path: &Path) -> Result<Self, String> {
        let origin = spelled(path);
        let text = std::fs::read_to_string(path).map_err(|error| format!("{origin}: {error}"))?;
        Self::parse(&text, &origin).map_err(|problem| match deck::kind_of_file(path) {
            Some(kind) => format!("{origin}: it is not a script; it is {kind}"),
            None => problem,
        })
    }

    /// Reads a script from text; `origin` names it in errors.
    ///
    /// # Errors
    /// When it is not a script.
    pub fn parse(text: &str, origin: &str) -> Result<Self, String> {
        let value = WrittenText::new(origin, text).value()?;
        serde_json::from_value(value).map_err(|error| format!("{origin}: {error}"))
    }

    /// The initial lists; a script with reactions to calls but without tools lists those as tools.
    pub(crate) fn lists(&self) -> ScriptedLists {
        let tool = |name: &String| {
            json!({
                "name": name,
                "description": format!("Plays what the script says for {name}"),
                "inputSchema": {"type": "object"},
            })
        };
        let of_calls = || (!self.calls.is_empty()).then(|| self.calls.keys().map(tool).collect());
        ScriptedLists {
            tools: self.tools.clone().or_else(of_calls),
            prompts: self.prompts.clone(),
            resources: self.resources.clone(),
            resource_templates: self.resource_templates.clone(),
            instructions: self.instructions.clone(),
        }
    }

    /// The JSON Schema of scripts.
    pub fn json_schema() -> Value {
        schemars::schema_for!(Self).to_value()
    }

    /// Versions of the `initialize` era this server speaks.
    pub(crate) fn legacy_versions(&self) -> Vec<&str> {
        const ALL: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
        if self.versions.is_empty() {
            return ALL.to_vec();
        }
        self.versions.iter().map(String::as_str).filter(|v| !is_modern(v)).collect()
    }

    /// Versions of the `server/discover` era this server speaks.
    pub(crate) fn modern_versions(&self) -> Vec<&str> {
        self.versions.iter().map(String::as_str).filter(|v| is_modern(v)).collect()
    }
}

/// Dated versions sort as text; the era of `server/discover` begins with 2026-07-28.
fn is_modern(version: &str) -> bool {
    version >= "2026-07-28"
}

// Actions: the statements of a script. Plain data; the player performs them.
//
// Where an action holds a JSON value, that value is a template; where it holds text, `${...}` in
// it is replaced.

/// One thing a server does.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ScriptAction {
    /// What a polite server would do here.
    Default,
    /// Answer the request with this result.
    Answer(Value),
    /// Answer the request with this error object.
    Error(Value),
    /// Answer `tools/call` with one block of text.
    Text(String),
    /// Answer `tools/call` with one block of text and `isError`.
    ToolError(String),
    /// Send any message, as one line.
    Send(Value),
    /// Write a line to stdout; need not be JSON.
    Line(String),
    /// Write bytes, in pieces if wanted.
    Write(Write),
    /// Write a line to stderr.
    Stderr(String),
    /// Send a notification.
    Notify(Notify),
    /// Report progress on the request, step by step.
    Progress(ScriptedProgress),
    /// Send a request to the host and wait for its answer, kept as `${saved.NAME}`.
    Ask(HostRequest),
    /// Replace lists or `instructions`, without a notification.
    Set(ScriptedLists),
    /// Keep values as `${saved.NAME}`.
    Save(BTreeMap<String, Value>),
    /// Do nothing for this many milliseconds (a number, or a placeholder for one).
    Delay(Value),
    /// Do nothing until something happens.
    Wait(Until),
    /// Do something several times; `${i}` counts from 0.
    Repeat(Repeat),
    /// Play the first reaction the first time, the next the second time; the last one repeats.
    Turns(Vec<Reaction>),
    /// Choose by a value.
    Switch(Switch),
    /// Start a reaction in the background.
    Background(Arc<Reaction>),
    /// Write large amounts of output.
    Flood(ScriptedFlood),
    /// Close a standard stream.
    Close(StandardStream),
    /// Read nothing more from stdin.
    StopReading,
    /// Exit with this code (a number, or a placeholder for one).
    Exit(Value),
    /// Send this signal to the server's own process, for example `SEGV`.
    Signal(String),
    /// Ignore this signal from now on, for example `TERM`.
    Ignore(String),
    /// Start a process.
    Spawn(Spawn),
    /// Leave the session: become the leader of a new one.
    Setsid,
    /// Write to the controlling terminal; the outcome is kept as `${saved.tty}`.
    Tty(String),
    /// Write a file.
    WriteFile(WriteFile),
    /// Allocate and use this many bytes of memory.
    Allocate(u64),
    /// Open this many files.
    OpenFiles(u64),
    /// Keep a processor busy for this many milliseconds.
    Burn(u64),
    /// HTTP: answer with this status, these headers and this body.
    Respond(Respond),
    /// HTTP: add headers to the following answer.
    Headers(BTreeMap<String, String>),
    /// HTTP: write raw text into the event stream.
    Sse(String),
    /// HTTP: end the event stream without an answer.
    EndStream,
    /// HTTP: cut the connection.
    Disconnect,
}

/// Bytes to write.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Write {
    /// Where to.
    pub to: StandardStream,
    /// What, one part after the other; no newline is added.
    pub parts: Vec<ScriptPart>,
    /// Bytes per piece; all at once when 0.
    pub chunk: usize,
    /// Milliseconds between pieces.
    pub pause: u64,
}

/// A part of the bytes to write.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ScriptPart {
    /// Text, with placeholders.
    Text(String),
    /// Bytes in hexadecimal, blanks allowed.
    Hex {
        /// The digits.
        hex: String,
    },
    /// A template, as JSON.
    Json {
        /// The template.
        json: Value,
    },
    /// Repeated text.
    Times {
        /// The text.
        text: String,
        /// How often.
        times: u64,
    },
}

/// A standard stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum StandardStream {
    /// What the host reads.
    #[default]
    Stdout,
    /// What the host keeps as log.
    Stderr,
    /// What the host writes.
    Stdin,
}

/// A notification.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Notify {
    /// For example `notifications/tools/list_changed`.
    pub method: String,
    /// Its parameters.
    pub params: Option<Value>,
}

/// Progress in steps.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct ScriptedProgress {
    /// How many notifications.
    pub steps: u64,
    /// Milliseconds between them.
    pub every: u64,
    /// Total to report; none when absent.
    pub total: Option<Value>,
    /// Message; `${i}` counts from 1.
    pub message: Option<String>,
    /// Value instead of the counter.
    pub value: Option<Value>,
    /// Token instead of the request's.
    pub token: Option<Value>,
}

impl Default for ScriptedProgress {
    fn default() -> Self {
        Self { steps: 10, every: 0, total: None, message: None, value: None, token: None }
    }
}

/// A request to the host.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HostRequest {
    /// For example `sampling/createMessage`.
    pub method: String,
    /// Its parameters.
    pub params: Option<Value>,
    /// Its id; `mock-N` when absent.
    pub id: Option<Value>,
    /// Name under which the answer (`{"result": ...}` or `{"error": ...}`) is kept: `answer` when
    /// absent.
    #[serde(rename = "as")]
    pub save_as: Option<String>,
    /// Longest wait for the answer, milliseconds; then `${saved.NAME}` is null. No limit when
    /// absent, no wait when 0.
    pub wait: Option<u64>,
    /// After that wait, notify the host that the request is cancelled, with this reason.
    pub cancel: Option<String>,
}

/// Lists that change.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct ScriptedLists {
    /// New tools.
    pub tools: Option<Value>,
    /// New prompts.
    pub prompts: Option<Value>,
    /// New resources.
    pub resources: Option<Value>,
    /// New resource templates.
    pub resource_templates: Option<Value>,
    /// New instructions.
    pub instructions: Option<Value>,
}

/// Something to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Until {
    /// The host cancels the request.
    Cancelled,
    /// The host closes stdin.
    StdinClosed,
    /// Nothing: wait forever.
    Forever,
}

/// Something done several times.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Repeat {
    /// How often (a number, or a placeholder for one); endlessly when absent.
    pub times: Option<Value>,
    /// Milliseconds between two repetitions.
    #[serde(default)]
    pub every: u64,
    /// What to do.
    #[serde(rename = "do")]
    pub actions: Reaction,
}

/// A choice.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Switch {
    /// Text to compare, for example `${arguments.mode}`.
    pub on: String,
    /// What to do, by value.
    pub cases: BTreeMap<String, Reaction>,
    /// What to do otherwise.
    #[serde(rename = "else")]
    pub otherwise: Option<Reaction>,
}

/// Large amounts of output.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct ScriptedFlood {
    /// Where to.
    pub to: StandardStream,
    /// The line, with `${i}`; a newline is added.
    pub line: Option<String>,
    /// The line as JSON template, with `${i}`.
    pub json: Option<Value>,
    /// Bytes without any newline, instead of lines.
    pub bytes: u64,
    /// How many lines; no limit when 0.
    pub lines: u64,
    /// How many milliseconds; no limit when 0.
    pub millis: u64,
    /// Lines per second; as fast as possible when 0.
    pub per_second: u64,
}

/// A process to start.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Spawn {
    /// A program with its arguments.
    pub command: Vec<String>,
    /// Alternatively, a process that performs these actions and exits.
    #[serde(rename = "do")]
    pub actions: Option<Value>,
    /// Whether it keeps our stdout open.
    pub keep_stdout: bool,
    /// Whether it keeps our stderr open.
    pub keep_stderr: bool,
    /// Wait until it has ended.
    pub wait: bool,
}

/// A file to write.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WriteFile {
    /// Its path.
    pub path: String,
    /// Its content, replaced as a whole.
    pub text: String,
}

/// An HTTP answer.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Respond {
    /// Status code.
    pub status: u16,
    /// Headers.
    pub headers: BTreeMap<String, String>,
    /// Body: text as it is, anything else as JSON.
    pub body: Option<Value>,
}

impl Default for Respond {
    fn default() -> Self {
        Self { status: 200, headers: BTreeMap::new(), body: None }
    }
}
