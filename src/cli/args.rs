//! The arguments of the command line, declared for clap. No logic beyond parsing.

mod verbs;

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, ValueEnum, ValueHint};

pub use self::verbs::*;
use ::check::{
    Severity,
    rule::{self, Rule},
};
use base::human::parse_duration;
use host::Startup;
use schema::ToolFormat;

const EXAMPLES: &str = "\
Examples:
  mcpdeck                                   the dashboard over the mcp.json found here
  mcpdeck team.json                         the dashboard over another file
  mcpdeck -- npx -y some-mcp-server         one server, no file
  mcpdeck http://127.0.0.1:3001/mcp         one server by URL
  mcpdeck --demo                            embedded servers, nothing to install
  mcpdeck --check                           check every server, for people and for CI
  mcpdeck --check --format human --format junit=report.xml
  mcpdeck list                              what every server offers
  mcpdeck call files.read_file path=/tmp/a  call a tool with typed arguments
  mcpdeck call @oslo                        make a saved call again
  mcpdeck help configuration                the keys of an mcp.json; help lists more topics

Exit codes of --check; when several apply, the one lower in this list wins:
  0    ok          nothing at or above --fail-on was found
  1    violated    findings
  3    incomplete  a server could not be started or reached: nothing is known of it
  2    usage       wrong arguments or configuration: nothing was started
  130  Ctrl-C or a signal ended the run; the report says what was known by then";

const ABOUT: &str =
    "The flight deck for MCP servers: start, supervise, watch, call and check every \
server of an mcp.json.

Without arguments the dashboard opens over ./mcp.json, ./.mcp.json, ./.vscode/mcp.json, \
./.cursor/mcp.json or your own file, whichever is found first.";

/// What the user typed.
#[derive(Debug, Parser)]
#[command(
    name = "mcpdeck",
    version,
    about = "The flight deck for MCP servers",
    long_about = ABOUT,
    after_help = EXAMPLES,
    args_conflicts_with_subcommands = false,
    disable_help_subcommand = true,
    subcommand_help_heading = "Commands",
    max_term_width = 100
)]
pub struct Cli {
    /// A command instead of the dashboard.
    #[command(subcommand)]
    pub verb: Option<Verb>,

    /// The configuration to use, as with --config; or the address of one server.
    #[arg(value_name = "FILE|URL", value_hint = ValueHint::FilePath)]
    pub url: Option<String>,

    /// Headers and environment of that one server.
    #[command(flatten, next_help_heading = "One server")]
    pub given: Given,

    /// Options of every command.
    #[command(flatten)]
    pub common: Common,

    /// Options of the dashboard.
    #[command(flatten)]
    pub dashboard: DashboardArgs,

    /// Options of the check.
    #[command(flatten)]
    pub check: CheckArgs,

    /// Inspect the one server that this command starts.
    #[arg(last = true, value_name = "COMMAND", value_hint = ValueHint::AnyPath)]
    pub command: Vec<String>,
}

/// Options every command takes.
#[derive(Clone, Debug, Default, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub struct Common {
    /// Configuration to use; may be given several times, the last wins per server.
    #[arg(long, short = 'c', value_name = "FILE", global = true, help_heading = "Configuration", value_hint = ValueHint::FilePath)]
    pub config: Vec<PathBuf>,

    /// Use the embedded demo servers instead of a configuration. In the dashboard a scripted show
    /// runs until you press a key (not with --quiet); chat has a scripted model unless a provider is
    /// named.
    #[arg(long, global = true, help_heading = "Configuration", conflicts_with = "config")]
    pub demo: bool,

    /// Variables for ${NAME} in the configuration, one NAME=value per line.
    #[arg(long, value_name = "FILE", global = true, help_heading = "Configuration", value_hint = ValueHint::FilePath)]
    pub env_file: Vec<PathBuf>,

    /// When a server fails to start: `all` stops every server, `available` uses the rest
    /// [default: available]. --check starts all, waits for each and reports each.
    #[arg(long, value_name = "WHICH", global = true, value_parser = startup(), help_heading = "Configuration")]
    pub startup: Option<Startup>,

    /// Refuse to start commands that were not approved, in the dashboard or with `trust approve`.
    #[arg(long, global = true, help_heading = "Configuration")]
    pub require_trust: bool,

    /// Time limit for a start and for each request: seconds, or with a unit (1.5, 500ms, 2m).
    #[arg(long, value_name = "TIME", global = true, value_parser = parse_duration, help_heading = "Configuration")]
    pub timeout: Option<Duration>,

    /// Write JSON log lines to this file; it rotates at 10 MiB.
    #[arg(long, value_name = "FILE", global = true, help_heading = "Logging", value_hint = ValueHint::FilePath)]
    pub log_file: Option<PathBuf>,

    /// What is logged: a level, or a filter such as `info,mcpdeck=debug`.
    #[arg(long, value_name = "FILTER", global = true, help_heading = "Logging")]
    pub log_level: Option<String>,

    /// Show values of the configuration (environment, headers) that a server echoes back.
    #[arg(long, global = true, help_heading = "Configuration")]
    pub reveal: bool,

    /// Record every message, log line and event to this new file (JSON lines, secrets masked).
    #[arg(long, value_name = "FILE", global = true, help_heading = "Logging", value_hint = ValueHint::FilePath)]
    pub record: Option<PathBuf>,

    /// Put arguments and results into the log file; secrets stay masked.
    #[arg(long, global = true, help_heading = "Logging")]
    pub log_payloads: bool,

    /// When to use colour.
    #[arg(
        long,
        value_name = "WHEN",
        global = true,
        default_value = "auto",
        help_heading = "Output"
    )]
    pub color: ColorChoice,
}

/// Options of the dashboard.
#[derive(Clone, Debug, Default, Args)]
pub struct DashboardArgs {
    /// Start everything the configuration names without asking, in this run only: for automation.
    #[arg(long, help_heading = "Dashboard", conflicts_with = "require_trust")]
    pub trust: bool,

    /// Serve the servers to other clients too, as `mcpdeck serve` does, on this address
    /// [default: 127.0.0.1:7337].
    #[cfg(feature = "gateway")]
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        help_heading = "Dashboard",
        num_args = 0..=1,
        require_equals = true,
        value_parser = listen_address,
        default_missing_value = "127.0.0.1:7337"
    )]
    pub serve: Option<std::net::SocketAddr>,

    /// The address of --serve, spelled as in `mcpdeck serve`.
    #[cfg(feature = "gateway")]
    #[arg(long, value_name = "ADDRESS:PORT", hide = true, requires = "serve")]
    pub listen: Option<std::net::SocketAddr>,

    /// Draw with ASCII characters only.
    #[arg(long, help_heading = "Dashboard")]
    pub ascii: bool,

    /// Theme: default, dark, light, high-contrast, catppuccin[-latte], gruvbox, tokyo-night[-light],
    /// nord, solarized[-light], or your own.
    #[arg(long, value_name = "NAME", help_heading = "Dashboard")]
    pub theme: Option<String>,

    /// The built-in themes: names, and sources in TOML.
    #[arg(skip)]
    pub themes: &'static [(&'static str, &'static str)],

    /// Print the key table, including the changes in your keymap.toml.
    #[cfg(feature = "tui")]
    #[arg(long, help_heading = "Dashboard")]
    pub keys: bool,
}

/// Options of the check.
#[derive(Clone, Debug, Default, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub struct CheckArgs {
    /// Start every server, check it, stop it, report, and exit with a verdict.
    #[arg(long, help_heading = "Check")]
    pub check: bool,

    /// Report format, with `=FILE` to write a file; may be given several times
    /// (human, json, junit, sarif, github) [default: human].
    #[arg(long, value_name = "FORMAT[=FILE]", help_heading = "Check", requires = "check")]
    pub format: Vec<String>,

    /// Only these servers, and what they depend on.
    #[arg(long, value_name = "NAME", num_args = 1.., help_heading = "Check", requires = "check")]
    pub server: Vec<String>,

    /// Lowest severity that makes the verdict `violated` [default: warning].
    #[arg(long, value_name = "SEVERITY", value_parser = severity(), help_heading = "Check", requires = "check")]
    pub fail_on: Option<Severity>,

    /// Do not report this rule (see `mcpdeck explain`); may be given several times.
    #[arg(long, value_name = "RULE", value_parser = rule::parse, value_delimiter = ',', help_heading = "Check", requires = "check")]
    pub allow: Vec<&'static Rule>,

    /// Report what these model providers would refuse or not read of the tools (openai, anthropic,
    /// gemini, ollama, compatible).
    #[arg(long = "for", value_name = "PROVIDER", value_parser = tool_formats(), value_delimiter = ',', help_heading = "Check", requires = "check")]
    pub providers: Vec<ToolFormat>,

    /// Expectations to check [default: mcp.expect.json beside the configuration, when it exists].
    #[arg(long, value_name = "FILE", help_heading = "Check", requires = "check", value_hint = ValueHint::FilePath)]
    pub expect: Option<PathBuf>,

    /// Also make every saved call [default: those of mcp.calls.json beside the configuration]; each
    /// must return a result that is not an error.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, help_heading = "Check", requires = "check", value_hint = ValueHint::FilePath)]
    pub calls: Option<Option<PathBuf>>,

    /// Write an initial expectations file from what the servers offer.
    #[arg(long, help_heading = "Check", requires = "check", conflicts_with = "lock")]
    pub init: bool,

    /// Write the lock file with every definition, so that later changes are findings.
    #[arg(long, help_heading = "Check", requires = "check")]
    pub lock: bool,

    /// Lock file [default: mcp.lock.json beside the configuration, when it exists].
    #[arg(long, value_name = "FILE", help_heading = "Check", requires = "check", value_hint = ValueHint::FilePath)]
    pub lock_file: Option<PathBuf>,

    /// Scripted answers to requests from servers; without it they are denied.
    #[arg(long, value_name = "FILE", help_heading = "Check", requires = "check", value_hint = ValueHint::FilePath)]
    pub answers: Option<PathBuf>,

    /// Show every step of every server, not only the problems.
    #[arg(long, short = 'v', help_heading = "Check", requires = "check", conflicts_with = "quiet")]
    pub verbose: bool,

    /// Print nothing on success, and no table on failure. With --demo: do not run the scripted
    /// show.
    #[arg(long, short = 'q', help_heading = "Check")]
    pub quiet: bool,
}

fn tool_formats() -> impl TypedValueParser<Value = ToolFormat> {
    let names = PossibleValuesParser::new(ToolFormat::ALL.map(ToolFormat::as_str));
    let unknown = || "one of the listed providers is expected".to_owned();
    names.try_map(move |name| ToolFormat::parse(&name).ok_or_else(unknown))
}

fn startup() -> impl TypedValueParser<Value = Startup> {
    let names = PossibleValuesParser::new(["all", "available"]);
    names.map(|name| if name == "all" { Startup::All } else { Startup::Background })
}

impl Common {
    /// How a host starts its servers; by default a failed one does not affect the others.
    pub fn startup_mode(&self) -> Startup {
        self.startup.unwrap_or(Startup::Background)
    }
}

/// When to use colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ColorChoice {
    /// On a terminal that supports it, unless `NO_COLOR` is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

fn severity() -> impl TypedValueParser<Value = Severity> {
    let names = PossibleValuesParser::new(["note", "warning", "error"]);
    names.try_map(|name| name.parse::<Severity>().map_err(|_| "there is no such severity"))
}

/// The address of a listener.
///
/// # Errors
/// When it is none; with the address that was meant.
#[cfg(feature = "gateway")]
pub fn listen_address(text: &str) -> Result<std::net::SocketAddr, String> {
    text.parse().map_err(|_| {
        let (host, port) = text.rsplit_once(':').unwrap_or(("", text));
        match port.parse::<u16>() {
            Ok(port) if ["", "localhost"].contains(&host) => {
                format!("an address belongs to it: write 127.0.0.1:{port}")
            }
            _ => "write ADDRESS:PORT in numbers, such as 127.0.0.1:7337 or [::1]:7337".to_owned(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_declaration_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_command_after_two_dashes_a_url_and_a_verb_are_distinguished() {
        let parse = |args: &[&str]| {
            Cli::try_parse_from([&["mcpdeck"], args].concat()).expect("these arguments are valid")
        };
        let cli = parse(&["--", "node", "s.js", "--flag"]);
        assert_eq!(cli.command, ["node", "s.js", "--flag"]);
        assert_eq!(parse(&["http://127.0.0.1/mcp"]).url.as_deref(), Some("http://127.0.0.1/mcp"));
        let Some(Verb::Call(call)) =
            parse(&["call", "a.b", "x=1", "y=2", "--", "sh", "-c", "s"]).verb
        else {
            panic!("a verb")
        };
        assert_eq!((call.arguments.len(), call.ask.one.command.len()), (2, 3));
    }

    #[test]
    fn options_of_the_check_need_the_check() {
        assert!(Cli::try_parse_from(["mcpdeck", "--lock"]).is_err());
        assert!(Cli::try_parse_from(["mcpdeck", "--check", "--lock"]).is_ok());
        assert!(Cli::try_parse_from(["mcpdeck", "--check", "--allow", "no-such-rule"]).is_err());
    }
}
