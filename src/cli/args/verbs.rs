//! The commands and their arguments, declared for clap. No logic beyond parsing.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand, ValueEnum, ValueHint};

use ::deck::LoadResult;
use config::{Environment, single_command, single_url};
use protocol::ListKind;

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Show what the servers offer.
    List(ListArgs),
    /// Call a tool, or make a saved call; arguments are JSON, key=value pairs typed by its schema,
    /// @file, or - for stdin.
    #[command(after_help = CALL_EXAMPLES)]
    Call(CallArgs),
    /// Call a tool and show its app, the page that its server offers for the answer, in a browser.
    #[cfg(feature = "apps")]
    #[command(after_help = crate::app::EXAMPLES)]
    App(crate::app::AppArgs),
    /// Call a tool many times in parallel; print rate, latencies and errors.
    Load(LoadArgs),
    /// Run the suites of mcp.tests.json against the servers; report as --check does.
    #[cfg(feature = "bench")]
    #[command(after_help = crate::bench::EXAMPLES)]
    Test(crate::bench::TestArgs),
    /// Read a resource.
    Read(ReadArgs),
    /// Get a prompt.
    Prompt(PromptArgs),
    /// Send any JSON-RPC request, such as `ping`, and print its result.
    Request(RequestArgs),
    /// Start the servers and show the state of each.
    Status(StatusArgs),
    /// Explain a rule of the check, or list all of them.
    Explain(ExplainArgs),
    /// Print the JSON Schema of a file that mcpdeck reads or writes.
    Schema {
        /// The file.
        #[arg(default_value = "config")]
        which: SchemaKind,
    },
    /// Show the configuration in effect: what is set, where it comes from, every problem in it.
    Config(ConfigArgs),
    /// Show which commands may run without asking; approve commands or revoke approvals.
    Trust(TrustArgs),
    /// Show what other callers (gateway clients, web pages, chats) may do; permit or deny it.
    Grants(crate::grants::GrantsArgs),
    /// Store, list, remove and rotate secrets that a configuration uses as ${secret:NAME}.
    Secret(crate::secret::SecretArgs),
    /// Show how the policy decides about a call and which rule applies.
    Policy(crate::policy::PolicyArgs),
    /// Check and show the audit log of a policy: who called what, allowed or not, by which rule.
    Audit(crate::audit::AuditArgs),
    /// Sign in to a server with OAuth, in the browser or by pasting the address it redirects to.
    Login(LoginArgs),
    /// Sign out of a server: revoke its token and delete it.
    Logout {
        /// The server, or its URL.
        #[arg(value_name = "SERVER")]
        server: String,
    },
    /// Look for servers in the registry.
    Search(crate::add::SearchArgs),
    /// Add a server of the registry, a package, a bundle, an address or a command: show what it would
    /// run, ask for what it needs, check it, and write it.
    #[command(after_help = crate::add::EXAMPLES)]
    Add(crate::add::AddServerArgs),
    /// Show what a newer version of a server changes in its tools, and take it.
    Upgrade(crate::upgrade::UpgradeArgs),
    /// Remove servers from the configuration.
    Remove(crate::upgrade::RemoveArgs),
    /// Find configurations of other MCP hosts; print them as one mcp.json or merge them into yours.
    Import(ImportArgs),
    /// Let another MCP client (Claude Code, Cursor, VS Code, Codex ...) reach every server through the
    /// deck; `--list` shows the clients on this machine.
    Connect(crate::connect::ConnectArgs),
    /// Take a connection back: the client's file is as it was before.
    Disconnect(crate::connect::DisconnectArgs),
    /// Keep the copies of `connect --direct` equal to your file; `--check` only compares.
    Sync(crate::connect::SyncArgs),
    /// Chat with a language model that calls the tools of the servers; `-p` for one question.
    #[cfg(feature = "chat")]
    Chat(crate::chat::ChatArgs),
    /// Serve every server to agents, editors and scripts: REST and MCP over HTTP, or MCP over stdio.
    #[cfg(feature = "gateway")]
    Serve(crate::serve::ServeArgs),
    /// Create, list and revoke the tokens of `serve`.
    #[cfg(feature = "gateway")]
    Token(crate::serve::TokenArgs),
    /// Open a dashboard on a running service (`serve`, `--serve`): watch it, restart and stop
    /// servers, answer requests, pause, cut and revoke clients.
    #[cfg(all(unix, feature = "tui"))]
    Attach {
        /// The process id of the service; optional when only one is running.
        #[arg(value_name = "PID", value_parser = process_id)]
        service: Option<u32>,
    },
    /// The bridge that a browser starts for an extension; `native-host install` sets it up.
    #[cfg(unix)]
    NativeHost(crate::native_host::NativeHostArgs),
    /// Show a recording in the dashboard: every pane at any point in time; starts no server.
    Open {
        /// The recording (`--record`).
        #[arg(value_hint = ValueHint::FilePath)]
        file: PathBuf,
    },
    /// Mask sensitive values in a recording before you share it.
    Scrub(crate::recording::ScrubArgs),
    /// Send the requests of a recording to a live server and show where its answers differ.
    Replay(crate::recording::ReplayArgs),
    /// Export a recording, or part of it, as an HTML page for an issue, HAR, OTLP traces or JSONL.
    Report(crate::recording::ReportArgs),
    /// Print the completion script of a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page.
    Man,
    /// Explain a topic (configuration, dashboard, calls, check, tests, dev, trust, oauth, serve,
    /// permissions, clients, registry, chat, recordings, library, keys, environment, protection, systems) or a
    /// command.
    Help {
        /// The topic or command, such as `grants add`; lists all topics when left out.
        topic: Vec<String>,
    },
    /// Play a scripted server, for testing hosts.
    #[cfg(feature = "mock")]
    Mock(mock::MockOptions),
    /// An embedded server of --demo, over stdio.
    #[command(hide = true, name = "demo-server")]
    DemoServer {
        /// Its name.
        name: String,
    },
}

const CALL_EXAMPLES: &str = "\
Examples:
  mcpdeck call time.convert '{\"from\":\"UTC\",\"to\":\"Europe/Rome\"}'
  mcpdeck call math.add a=1 b=2.5
  mcpdeck call notes.save title=today tags='[\"a\",\"b\"]' meta.author=me
  mcpdeck call big.import @arguments.json
  echo '{}' | mcpdeck call echo -
  mcpdeck call echo message=hi -- node server.js
  mcpdeck call @oslo days=3         a saved call, one argument replaced
  mcpdeck call --list               the calls saved in mcp.calls.json

Exit codes: 0 a result, 1 a tool error or failed call, 2 refused arguments or
configuration, 3 the server is unavailable.";

/// A single server for a command, instead of a configuration file.
#[derive(Clone, Debug, Default, Args)]
pub struct OneServer {
    /// Use only the server at this URL.
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url)]
    pub url: Option<String>,

    /// Headers and environment of that server.
    #[command(flatten)]
    pub given: Given,

    /// Use only the server that this command starts.
    #[arg(last = true, value_name = "COMMAND", value_hint = ValueHint::AnyPath)]
    pub command: Vec<String>,
}

/// Headers and environment of a server without a configuration file.
#[derive(Clone, Debug, Default, Args)]
pub struct Given {
    /// Header for the requests to the URL; ${VARIABLE} in it is expanded.
    #[arg(long, short = 'H', value_name = "NAME: VALUE", value_parser = parse_header)]
    pub header: Vec<(String, String)>,

    /// Variable for the command's environment; NAME alone passes your own value.
    #[arg(long, short = 'e', value_name = "NAME[=VALUE]", value_parser = parse_variable, requires = "command")]
    pub env: Vec<(String, String)>,
}

pub fn parse_header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("write NAME: VALUE")?;
    match (name.trim(), value.trim()) {
        ("", _) => Err("the name is missing: write NAME: VALUE".to_owned()),
        (name, value) => Ok((name.to_owned(), value.to_owned())),
    }
}

pub fn parse_variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=').unwrap_or((text, &format!("${{{text}}}"))) {
        ("", _) => Err("the name is missing: write NAME=VALUE".to_owned()),
        (name, value) => Ok((name.to_owned(), value.to_owned())),
    }
}

impl OneServer {
    /// Whether the arguments name a server, so that no file is read.
    pub fn is_named(&self) -> bool {
        self.url.is_some() || !self.command.is_empty()
    }

    /// The server by its address or its command, with its headers or its variables.
    pub fn direct(&self) -> reach::DirectServer {
        let pairs = if self.url.is_some() { &self.given.header } else { &self.given.env };
        reach::DirectServer {
            url: self.url.clone(),
            command: self.command.clone(),
            pairs: pairs.iter().cloned().collect(),
        }
    }

    /// The one server that the arguments name, if they name one.
    ///
    /// # Errors
    /// Every problem of the named server.
    pub fn load(&self, env: &Environment) -> Option<LoadResult> {
        let pairs = |given: &[(String, String)]| given.iter().cloned().collect();
        match &self.url {
            _ if !self.command.is_empty() => {
                Some(single_command(&self.command, &pairs(&self.given.env), env))
            }
            Some(url) => Some(single_url(url, &pairs(&self.given.header), env)),
            None => None,
        }
    }
}

/// `mcpdeck list`
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Only these servers; or the URL of a single server.
    #[arg(value_name = "SERVER|URL")]
    pub servers: Vec<String>,
    /// List only this kind.
    #[arg(long, value_name = "KIND", value_parser = kind())]
    pub only: Option<ListKind>,
    /// Include the parameters of tools and prompts (`*`: required).
    #[arg(long, short = 'l')]
    pub long: bool,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
    /// A single server instead of a file.
    #[command(flatten)]
    pub one: OneServer,
}

fn kind() -> impl TypedValueParser<Value = ListKind> {
    const NAMES: [&str; 4] = ["tools", "prompts", "resources", "templates"];
    PossibleValuesParser::new(NAMES).map(|name| match name.as_str() {
        "tools" => ListKind::Tools,
        "prompts" => ListKind::Prompts,
        "resources" => ListKind::Resources,
        _ => ListKind::ResourceTemplates,
    })
}

/// `mcpdeck call`
#[derive(Debug, Args)]
pub struct CallArgs {
    /// Tool: `server.tool`, or its bare name when only one server has it; `@name` makes the call
    /// saved under that name in mcp.calls.json beside the configuration.
    #[arg(required_unless_present = "list")]
    pub name: Option<String>,
    /// A JSON object, key=value pairs, @file with JSON, or - for JSON on stdin.
    #[arg(value_name = "ARGUMENT")]
    pub arguments: Vec<String>,
    /// List the saved calls instead of making one.
    #[arg(long, conflicts_with_all = ["name", "force", "answers"])]
    pub list: bool,
    /// Send arguments that do not fit the schema, to test the server.
    #[arg(long)]
    pub force: bool,
    /// Write the result, decoded, to this file; with --json the JSON object.
    #[arg(long, short = 'o', value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Options of every operation.
    #[command(flatten)]
    pub ask: AskArgs,
}

/// Options of every operation.
#[derive(Debug, Args)]
pub struct AskArgs {
    /// Scripted answers to requests from the server; what they leave open is asked at the terminal, or
    /// denied without one.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub answers: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
    /// A single server instead of a file.
    #[command(flatten)]
    pub one: OneServer,
}

/// `mcpdeck load`
#[derive(Debug, Args)]
pub struct LoadArgs {
    /// Tool: `server.tool`, or its bare name when only one server has it.
    pub name: String,
    /// A JSON object, key=value pairs, @file with JSON, or - for JSON on stdin.
    #[arg(value_name = "ARGUMENT")]
    pub arguments: Vec<String>,
    /// Number of calls.
    #[arg(long, short = 'n', value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    pub calls: u64,
    /// Number of calls in flight at once.
    #[arg(long, short = 'p', value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub parallel: u64,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
    /// A single server instead of a file.
    #[command(flatten)]
    pub one: OneServer,
}

/// `mcpdeck read`
#[derive(Debug, Args)]
pub struct ReadArgs {
    /// URI of the resource.
    pub uri: String,
    /// The server to ask, when several could have the resource.
    #[arg(long, value_name = "NAME")]
    pub server: Option<String>,
    /// Write the content, decoded, to this file; with --json the JSON object.
    #[arg(long, short = 'o', value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Options of every operation.
    #[command(flatten)]
    pub ask: AskArgs,
}

/// `mcpdeck request`
#[derive(Debug, Args)]
pub struct RequestArgs {
    /// The method, for example `ping` or `tools/list`.
    pub method: String,
    /// Its `params` as in `call`: JSON, key=value pairs, @file, or - for stdin.
    #[arg(value_name = "PARAMS")]
    pub params: Vec<String>,
    /// The server to ask, when there are several.
    #[arg(long, value_name = "NAME")]
    pub server: Option<String>,
    /// Options of every operation.
    #[command(flatten)]
    pub ask: AskArgs,
}

/// `mcpdeck prompt`
#[derive(Debug, Args)]
pub struct PromptArgs {
    /// Prompt: `server.prompt`, or its bare name when only one server has it.
    pub name: String,
    /// Arguments as key=value; @file and - as in `call`.
    #[arg(value_name = "KEY=VALUE")]
    pub arguments: Vec<String>,
    /// Options of every operation.
    #[command(flatten)]
    pub ask: AskArgs,
}

/// `mcpdeck status`
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Only these servers and their dependencies; or the URL of a single server.
    #[arg(value_name = "SERVER|URL")]
    pub servers: Vec<String>,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
    /// A single server instead of a file.
    #[command(flatten)]
    pub one: OneServer,
}

/// `mcpdeck login`
#[derive(Debug, Args)]
pub struct LoginArgs {
    /// The server, or its URL.
    #[arg(value_name = "SERVER")]
    pub server: String,
    /// Do not open a browser: print the address, and read the one it redirects to from stdin.
    #[arg(long)]
    pub no_browser: bool,
    /// Request this scope; may be given several times [default: those the server names].
    #[arg(long, value_name = "SCOPE")]
    pub scope: Vec<String>,
}

/// `mcpdeck explain`
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// The rule; lists all rules when left out.
    pub rule: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Files with a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SchemaKind {
    /// mcp.json
    Config,
    /// The JSON report of --check.
    Report,
    /// mcp.lock.json
    Lock,
    /// mcp.expect.json
    Expect,
    /// The file of --answers.
    Answers,
    /// mcp.tests.json
    #[cfg(feature = "bench")]
    Tests,
    /// The JSON report of `test`.
    #[cfg(feature = "bench")]
    TestReport,
    /// `policy` of mcp.json, and mcpdeck.policy.json.
    Policy,
    /// One line of a recording.
    Recording,
    /// The messages of browser extensions (`native-host`).
    #[cfg(unix)]
    Native,
    /// The messages of the chat's WebSocket (`serve --chat`).
    #[cfg(all(feature = "chat", feature = "gateway"))]
    Ws,
}

/// `mcpdeck config`
#[derive(Debug, Args)]
pub struct ConfigArgs {
    /// Every value, including defaults (`--json` always has all of them).
    #[arg(long, short = 'a')]
    pub all: bool,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// `mcpdeck trust`
#[derive(Debug, Args)]
pub struct TrustArgs {
    /// What to do.
    #[command(subcommand)]
    pub verb: Option<TrustVerb>,
    /// Print one JSON object.
    #[arg(long, global = true)]
    pub json: bool,
}

/// What `mcpdeck trust` does.
#[derive(Debug, Subcommand)]
pub enum TrustVerb {
    /// Show what every server runs and whether it was approved; exits with 1 when any was not.
    List,
    /// Approve servers as the file defines them now.
    Approve(Chosen),
    /// Revoke approvals.
    Revoke(Chosen),
}

/// The servers to approve or revoke.
#[derive(Debug, Args)]
pub struct Chosen {
    /// The servers.
    #[arg(value_name = "SERVER")]
    pub servers: Vec<String>,
    /// All of them.
    #[arg(long, conflicts_with = "servers")]
    pub all: bool,
}

/// `mcpdeck import`
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// Files to import [default: those of the known hosts on this machine].
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub files: Vec<PathBuf>,
    /// Only list the files found.
    #[arg(long)]
    pub list: bool,
    /// Show what would change in this file instead of printing a new one.
    #[arg(long, value_name = "FILE", conflicts_with = "list", value_hint = ValueHint::FilePath)]
    pub into: Option<PathBuf>,
    /// Make the change; the old file is kept as a copy.
    #[arg(long, requires = "into")]
    pub write: bool,
    /// Replace servers of the same name in that file; without it they are kept.
    #[arg(long, requires = "into")]
    pub replace: bool,
}

/// The process id of a service.
fn process_id(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| {
        "a process id is a number, as `mcpdeck serve` logs it; leave it out when one service runs"
            .to_owned()
    })
}
