//! A row of the fault catalogue as data: the servers, the actions and the expectations.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::tcp::TcpTurn;

/// One file of `fixtures/faults`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Row {
    /// Its id in the catalogue, with a letter when a row has several files.
    pub id: String,
    /// Other rows of the catalogue that it covers.
    #[serde(default)]
    pub also: Vec<String>,
    /// The test and the expected outcome, as a sentence.
    pub title: String,
    /// The servers; a healthy one named `well` is added.
    #[serde(default)]
    pub servers: BTreeMap<String, ServerPlan>,
    /// The text of `mcp.json` instead of `servers`.
    pub config: Option<String>,
    /// Files written next to it, by name. `@AT-NAME@` in them and in entries is the origin of a server
    /// that listens.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// How the host is run.
    #[serde(default)]
    pub host: HostPlan,
    /// Runs of the program, in order.
    #[serde(default)]
    pub runs: Vec<Run>,
    /// Steps on one `Deck` of the library, over the same configuration and its policy.
    #[serde(default)]
    pub session: Vec<Step>,
    /// `mcpdeck serve` with the same configuration, and the requests to it.
    pub serve: Option<ServePlan>,
    /// Kills the program with SIGKILL while it runs; no process may be alive two seconds later.
    pub kill: Option<Kill>,
    /// The actions on the dashboard, or why it is skipped.
    #[serde(default)]
    pub screen: ScreenPlan,
    /// Why `--check` and `status` are not compared (invariant I10).
    pub no_verdict: Option<String>,
    /// Played alone, after the others, because it loads the machine.
    #[serde(default)]
    pub alone: bool,
    /// A requirement on the machine; without it the row is skipped.
    pub needs: Option<Need>,
}

/// A requirement that not every machine meets.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Need {
    /// A command that succeeds where the row can be played.
    pub command: Vec<String>,
    /// The message when it fails.
    pub otherwise: String,
}

/// A separate file system for the row, called `@DISK@` in its texts.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DiskPlan {
    /// Its size in KiB. Space that the given files leave is filled up.
    pub kib: u64,
    /// Read-only once the given files are there, instead of full.
    #[serde(default)]
    pub read_only: bool,
    /// Whether `mcp.json` is on it, with all files stored next to that.
    #[serde(default)]
    pub configuration: bool,
}

/// The row on the dashboard.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct ScreenPlan {
    /// Why the dashboard is skipped.
    pub skip: Option<String>,
    /// A tool without arguments to call; the first one of the session when absent.
    pub call: Option<String>,
    /// A request of a server is still pending at the end, so quitting asks for confirmation.
    pub requests_wait: bool,
    /// Texts on the screen while the form of the healthy server is filled in.
    pub typing_shows: Vec<String>,
    /// Texts on the screen after the outcome.
    pub shows: Vec<String>,
    /// The following steps.
    pub then: Vec<ScreenStep>,
}

/// Keys, and their effect on the screen.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScreenStep {
    /// The keys to press.
    pub keys: String,
    /// Texts to wait for.
    #[serde(default)]
    pub shows: Vec<String>,
    /// Texts that must disappear.
    #[serde(default)]
    pub gone: Vec<String>,
}

impl Row {
    /// The tool that is called on the dashboard: `server`, `tool`.
    pub fn tool_on_screen(&self) -> Option<(&str, &str)> {
        let of_session = self.session.iter().find_map(|step| match step {
            Step::Call(call)
                if call.caller.is_none()
                    && call.arguments.is_null()
                    && call.argument_bytes.is_none() =>
            {
                Some(call.tool.as_str())
            }
            _ => None,
        });
        let of_run = self.runs.iter().find_map(|run| match run.args.as_slice() {
            [verb, tool, rest @ ..] if verb == "call" && rest.iter().all(|a| a == "--json") => {
                Some(tool.as_str())
            }
            _ => None,
        });
        self.screen.call.as_deref().or(of_session).or(of_run)?.split_once('.')
    }

    /// The longest time that a request to one of its servers may take.
    pub fn timeout(&self) -> Duration {
        let longest = self.servers.values().filter_map(|plan| plan.entry["timeout"].as_f64());
        let longest = longest.fold(0.0, f64::max);
        let seconds = if longest > 0.0 { longest } else { 30.0 };
        Duration::from_secs_f64(seconds).max(Duration::from_secs(2)) + Duration::from_secs(2)
    }
}

/// A server of a row.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct ServerPlan {
    /// Its script.
    pub mock: Option<Value>,
    /// Run over HTTP instead of as a child process.
    pub http: bool,
    /// Connected over HTTP, with scripted bytes for each connection.
    pub tcp: Vec<TcpTurn>,
    /// More keys of its entry, or the whole entry if there is no script.
    pub entry: Value,
    /// Number of copies, named `NAME-N`.
    pub times: Option<u32>,
}

/// How the host is run.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct HostPlan {
    /// Put before the command, for example a shell that sets limits.
    pub prefix: Vec<String>,
    /// Environment; `null` removes a variable.
    pub env: BTreeMap<String, Option<String>>,
    /// Working directory; the folder of the bench when absent.
    pub cwd: Option<String>,
    /// Whether the working directory is deleted before the program runs.
    pub lost_folder: bool,
    /// Path of the log file; a file of the bench when absent.
    pub log_file: Option<String>,
    /// Largest resident set of the program, MiB (default 300).
    pub peak_mib: Option<u64>,
    /// Maximum CPU usage of the dashboard until its steps are done, in percent of one processor.
    pub cpu_percent: Option<u64>,
    /// A full or read-only file system.
    pub disk: Option<DiskPlan>,
    /// Name of the folder that holds configuration and files, as bytes in hexadecimal.
    pub folder_hex: Option<String>,
    /// Without a healthy server next to the faulty ones.
    pub alone: bool,
}

/// One run of the program.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Run {
    /// `check`, `check human` (its report for people), or other arguments.
    pub args: Vec<String>,
    /// Run in a pseudo-terminal, with `NO_COLOR`.
    pub terminal: bool,
    /// Accepted exit codes.
    pub exit: Vec<i32>,
    /// Expected parts of its JSON (see `subset`).
    pub json: Value,
    /// Texts that its output contains.
    pub says: Vec<String>,
    /// Texts that its output does not contain.
    pub never_says: Vec<String>,
    /// Time limit in seconds (default 20).
    pub seconds: Option<u64>,
    /// What happens to files before the run.
    pub harm: Vec<Harm>,
}

/// Something that happens to a file.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Harm {
    /// Its path, from the folder of the row; a `*` in its name stands for anything.
    pub file: String,
    /// What happens.
    pub how: HarmKind,
    /// Waits until the log says this, for a service that follows the file.
    pub logged: Option<String>,
}

/// What happens to a file.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum HarmKind {
    /// It gets this text, in place.
    Text(String),
    /// It grows to this many bytes.
    Large(u64),
    /// It gets these permissions.
    Mode(u32),
    /// It is removed.
    Gone,
    /// A folder takes its place.
    Folder,
    /// A pipe takes its place.
    Pipe,
    /// A link to a file that must not change takes its place.
    Link,
    /// A link to nothing takes its place.
    DanglingLink,
}

/// A step on a `Host`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Step {
    /// Calls a tool.
    Call(Box<CallStep>),
    /// Waits until a server has a finding of this kind.
    Finding(String, String),
    /// Waits until a server is in this state.
    State(String, String),
    /// Waits until the reason of a server's state, or its last error lines, contain this text.
    Reason(String, String),
    /// Restarts a server; must work.
    Restart(String),
    /// Stops a server; must work.
    Stop(String),
    /// Fetches the lists of a server again; must work.
    Refresh(String),
    /// Replaces a text in a file of the row: name, before, after.
    Edit(String, String, String),
    /// Grants a caller (`gateway:t1`) tools (globs; empty for all): `always`, `session` or `deny`.
    Grant(String, Vec<String>, String),
    /// Revokes all grants of a caller.
    Revoke(String),
    /// Waits until a caller sees exactly these tools, `server.tool`.
    Sees(String, Vec<String>),
    /// Waits until exactly these tools are held for review; a server's name stands for its
    /// instructions.
    Held(Vec<String>),
    /// Accepts one of these in its current form.
    Accept(String),
    /// The held tools report these risks, or changed fields.
    Risks(Vec<String>),
    /// Checks a list of a server, such as `tools`, for its number of entries.
    Count(String, String, usize),
}

/// A call.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct CallStep {
    /// `server.tool`
    pub tool: String,
    /// The caller, such as `gateway:t1`; the user when absent.
    #[serde(rename = "as")]
    pub caller: Option<String>,
    /// Its arguments.
    pub arguments: Value,
    /// Size of a text argument in bytes, instead of `arguments`.
    pub argument_bytes: Option<usize>,
    /// Deadline in milliseconds; the server's own when absent.
    pub timeout: Option<u64>,
    /// Sent even if it does not match the schema.
    pub force: bool,
    /// Expected parts of the result.
    pub result: Option<Value>,
    /// Code of the error, or its code for outside callers (`ERR_...`); `*` for any.
    pub error: Option<String>,
    /// Texts that the error contains.
    pub says: Vec<String>,
    /// Accepts a result, or an error that satisfies the invariants.
    pub either: bool,
}

/// `mcpdeck serve`, and its clients.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ServePlan {
    /// More arguments of `serve`; with `--admin`, `@ADMIN@` in requests is the link it prints.
    #[serde(default)]
    pub args: Vec<String>,
    /// Tokens by name, each with the arguments of `token new`.
    #[serde(default)]
    pub tokens: BTreeMap<String, Vec<String>>,
    /// Arguments of each `grants add`, in order; `@NAME@` is the origin of a token.
    #[serde(default)]
    pub grants: Vec<Vec<String>>,
    /// The requests, in order.
    pub requests: Vec<Exchange>,
    /// Streams that are open when the service is stopped.
    #[serde(default)]
    pub streams: usize,
}

/// A request to the service, on its own connection, and its answer.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Exchange {
    /// `GET /tools`
    pub send: String,
    /// What happens to a file before the request.
    pub harm: Option<Harm>,
    /// The name of the token; the operator's own when absent, none when empty.
    pub token: Option<String>,
    /// Header lines, with `@PORT@` replaced; a line replaces the default header of the same name.
    #[serde(default)]
    pub headers: Vec<String>,
    /// The body, as JSON or text.
    #[serde(default)]
    pub body: Value,
    /// Bytes that follow the head, in hexadecimal.
    #[serde(default)]
    pub hex: String,
    /// Number of concurrent copies, each with its own number for `@N@`, also in `says`.
    pub times: Option<usize>,
    /// Accepted status codes of the answers.
    pub status: Vec<u16>,
    /// Whether to retry until the answer is as expected, for at most a minute.
    #[serde(default)]
    pub until: bool,
    /// Expected number of answers with the first status, for several requests.
    pub count: Option<usize>,
    /// Texts that an answer contains, including its head.
    #[serde(default)]
    pub says: Vec<String>,
    /// Texts that it does not contain.
    #[serde(default)]
    pub never_says: Vec<String>,
    /// Header of the answer to store for later requests, as `@HEADER@`.
    pub keep: Option<String>,
}

/// A kill of the running program.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Kill {
    /// Arguments of the run.
    pub args: Vec<String>,
    /// Killed once this many server processes are alive.
    pub processes: usize,
    /// The next run, which must find no problem.
    pub again: Option<Run>,
}

/// Floods last three seconds, or 100 MB; with `MCPDECK_FAULTS_FULL` in the environment as long as
/// the catalogue says: ten seconds, a gigabyte.
fn at_length(text: &str) -> String {
    let full = std::env::var_os("MCPDECK_FAULTS_FULL").is_some();
    let (millis, bytes) = if full { ("10000", "1073741824") } else { ("3000", "104857600") };
    text.replace("@FLOOD_MILLIS@", millis).replace("@FLOOD_BYTES@", bytes)
}

/// Seed of the constants of this run. Fixed by default, so that a failing row means a change of the
/// program; `MCPDECK_FAULTS_SEED` sets another, or a random one with `random`.
pub static SEED: LazyLock<u64> = LazyLock::new(|| {
    let given = std::env::var("MCPDECK_FAULTS_SEED").ok();
    match given.as_deref() {
        None => 735_972,
        Some("random") => fastrand::u64(..1_000_000),
        Some(seed) => seed.parse().expect("a number, or `random`"),
    }
});

/// Random numbers for one purpose, independent of the other rows played.
pub fn random(of: &str) -> fastrand::Rng {
    let mixed = of.bytes().fold(*SEED, |sum, byte| sum.wrapping_mul(31) + u64::from(byte));
    fastrand::Rng::with_seed(mixed)
}

/// Replaces each `@name:least..most@` by a random number, and `@name@` by the same number.
fn drawn(text: &str, random: &mut fastrand::Rng) -> String {
    let mut known = BTreeMap::new();
    let mut parts = text.split('@');
    let mut out = parts.next().unwrap_or_default().to_owned();
    let mut closed = false;
    for part in parts {
        // The previous `@` closed a placeholder, so this part is plain text.
        if std::mem::take(&mut closed) {
            out.push_str(part);
            continue;
        }
        let range =
            part.split_once(':').and_then(|(name, range)| Some((name, range.split_once("..")?)));
        let number = match range {
            Some((name, (least, most))) => {
                let bound = |text: &str| text.parse::<u64>().ok();
                bound(least).zip(bound(most)).map(|(least, most)| {
                    *known.entry(name.to_owned()).or_insert_with(|| random.u64(least..=most))
                })
            }
            None => known.get(part).copied(),
        };
        closed = number.is_some();
        let shown = number.map_or_else(|| format!("@{part}"), |number| number.to_string());
        out.push_str(&shown);
    }
    out
}

/// Reads all rows whose id begins with one of the filters, or all without filters.
pub fn read_all(folder: &Path, filters: &[String], canary: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the folder of the rows") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a file");
        let stem = path.file_stem().expect("a name").to_string_lossy();
        let text = drawn(&text, &mut random(&stem));
        let text = at_length(&text).replace("@CANARY@", canary).replace(
            "@BIN@",
            &serde_json::to_string(env!("CARGO_BIN_EXE_mcpdeck")).expect("JSON").replace('"', ""),
        );
        let row: Row = serde_json::from_str(&text)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert_eq!(row.id, stem, "a row's file is named by its id");
        let named = |filter: &String| row.id == *filter || row.also.contains(filter);
        if filters.is_empty() || filters.iter().any(named) {
            rows.push(row);
        }
    }
    rows.sort_by_key(|row| {
        let split = row.id.find(|c: char| c.is_ascii_digit()).unwrap_or(0);
        let (letter, rest) = row.id.split_at(split);
        let number: String = rest.chars().take_while(char::is_ascii_digit).collect();
        (letter.to_owned(), number.parse::<u32>().unwrap_or(0), row.id.clone())
    });
    rows
}

/// Whether the actual value contains the expected one: objects by key, arrays by element in any
/// order, texts in full or, after `~`, as a part; `null` also matches a missing value.
pub fn subset(expected: &Value, actual: &Value) -> bool {
    match (expected, actual) {
        (Value::Object(expected), _) => expected.iter().all(|(key, value)| match actual.get(key) {
            Some(actual) => subset(value, actual),
            None => value.is_null(),
        }),
        (Value::Array(expected), Value::Array(actual)) => {
            expected.iter().all(|want| actual.iter().any(|have| subset(want, have)))
        }
        (Value::String(expected), _) if expected.starts_with('~') => {
            let text = actual.as_str().map_or_else(|| actual.to_string(), str::to_owned);
            text.contains(&expected[1..])
        }
        (expected, actual) => expected == actual,
    }
}
