//! A row of the fault catalogue as data: the servers, what is done, what is expected.

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
    /// Other rows of the catalogue that it plays too.
    #[serde(default)]
    pub also: Vec<String>,
    /// What is tried, and what is expected, as a sentence.
    pub title: String,
    /// The servers; a healthy one named `well` is added.
    #[serde(default)]
    pub servers: BTreeMap<String, ServerPlan>,
    /// The text of `mcp.json` instead of `servers`.
    pub config: Option<String>,
    /// Files written beside it, by name.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// How the host is run.
    #[serde(default)]
    pub host: HostPlan,
    /// Runs of the program, one after the other.
    #[serde(default)]
    pub runs: Vec<Run>,
    /// Steps on one `Deck` of the library, over the same configuration and its policy.
    #[serde(default)]
    pub session: Vec<Step>,
    /// `mcpdeck serve` over the same configuration, and what is sent to it.
    pub serve: Option<ServePlan>,
    /// The program is killed with SIGKILL in the middle; nothing may live two seconds later.
    pub kill: Option<Kill>,
    /// What is done on the dashboard, or why it is not shown.
    #[serde(default)]
    pub screen: ScreenPlan,
    /// Why `--check` and `status` are not compared (invariant I10).
    pub no_verdict: Option<String>,
    /// Played after the others, with the machine to itself: it fills it.
    #[serde(default)]
    pub alone: bool,
    /// What the machine must permit; the row is skipped where it does not.
    pub needs: Option<Need>,
}

/// Something that not every machine permits.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Need {
    /// A command that works where the row can be played.
    pub command: Vec<String>,
    /// What is said where it does not.
    pub otherwise: String,
}

/// A file system of the row's own, called `@DISK@` in its texts.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DiskPlan {
    /// Its size. What the given files leave of it is taken.
    pub kib: u64,
    /// Read-only once the given files are there, instead of full.
    #[serde(default)]
    pub read_only: bool,
    /// `mcp.json` is on it, and with it all that is kept beside that.
    #[serde(default)]
    pub configuration: bool,
}

/// The row on the dashboard.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct ScreenPlan {
    /// Why there is nothing to see.
    pub skip: Option<String>,
    /// A tool without arguments to call; the first one of the session when absent.
    pub call: Option<String>,
    /// A request of a server still waits for the person at the end: leaving asks.
    pub requests_wait: bool,
    /// What the screen says while the form of the healthy server is filled in.
    pub typing_shows: Vec<String>,
    /// What the screen shows of its outcome.
    pub shows: Vec<String>,
    /// What is done next.
    pub then: Vec<ScreenStep>,
}

/// Keys, and what the screen shows soon after them.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScreenStep {
    /// What is pressed.
    pub keys: String,
    /// What is waited for.
    #[serde(default)]
    pub shows: Vec<String>,
    /// What goes.
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

    /// The longest that a request to one of its servers may take.
    pub fn patience(&self) -> Duration {
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
    /// Played over HTTP instead of as a child.
    pub http: bool,
    /// Reached over HTTP; what it sends on each connection is given byte by byte.
    pub tcp: Vec<TcpTurn>,
    /// More keys of its entry, or the whole entry when there is no script.
    pub entry: Value,
    /// So many of them, named `NAME-N`.
    pub times: Option<u32>,
}

/// How the host is run.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct HostPlan {
    /// Put before the command, for example a shell that sets limits.
    pub prefix: Vec<String>,
    /// Environment; `null` takes a variable away.
    pub env: BTreeMap<String, Option<String>>,
    /// Working directory; the folder of the bench when absent.
    pub cwd: Option<String>,
    /// Working directory is gone when the program runs.
    pub lost_folder: bool,
    /// Where the log file goes; a file of the bench when absent.
    pub log_file: Option<String>,
    /// Largest resident set of the program, MiB (default 300).
    pub peak_mib: Option<u64>,
    /// Most of a processor that the dashboard may use until its steps are done, in percent.
    pub cpu_percent: Option<u64>,
    /// A file system that nothing can be written to.
    pub disk: Option<DiskPlan>,
    /// Name of the folder that holds configuration and files, as bytes in hexadecimal.
    pub folder_hex: Option<String>,
    /// No healthy server beside the faulty ones.
    pub alone: bool,
}

/// One run of the program.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Run {
    /// `check`, `check human` (its report for people), or other arguments.
    pub args: Vec<String>,
    /// Run on a terminal, without colours of our own.
    pub terminal: bool,
    /// Exit codes that are right.
    pub exit: Vec<i32>,
    /// What its JSON holds (see `subset`).
    pub json: Value,
    /// Texts its output holds.
    pub says: Vec<String>,
    /// Texts its output does not hold.
    pub never_says: Vec<String>,
    /// Seconds it may take (default 20).
    pub seconds: Option<u64>,
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
    /// Waits until the reason of a server's state, or its last error lines, hold this text.
    Reason(String, String),
    /// Restarts a server; must work.
    Restart(String),
    /// Stops a server; must work.
    Stop(String),
    /// Fetches the lists of a server again; must work.
    Refresh(String),
    /// Replaces a text in a file of the row: name, before, after.
    Edit(String, String, String),
    /// Gives a caller (`gateway:t1`) tools (globs, all when empty): `always`, `session` or `deny`.
    Grant(String, Vec<String>, String),
    /// Takes back everything that was given to a caller.
    Revoke(String),
    /// Waits until a caller is shown exactly these tools, `server.tool`.
    Sees(String, Vec<String>),
    /// Waits until exactly these tools are held for review; a server's name stands for its
    /// instructions.
    Held(Vec<String>),
    /// Accepts one of these as it is now.
    Accept(String),
    /// What is held names these risks, or changed fields.
    Risks(Vec<String>),
    /// Checks the lists of a server: `tools`, and so many entries.
    Count(String, String, usize),
}

/// A call.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct CallStep {
    /// `server.tool`
    pub tool: String,
    /// Who calls, `gateway:t1`; the person when absent.
    #[serde(rename = "as")]
    pub caller: Option<String>,
    /// Its arguments.
    pub arguments: Value,
    /// A text argument of so many bytes, instead of `arguments`.
    pub argument_bytes: Option<usize>,
    /// Deadline in milliseconds; the server's own when absent.
    pub timeout: Option<u64>,
    /// Sent although it does not fit the schema.
    pub force: bool,
    /// What the result holds.
    pub result: Option<Value>,
    /// Code of the error, or the one that callers outside are told (`ERR_...`); `*` for any.
    pub error: Option<String>,
    /// Texts that the error holds.
    pub says: Vec<String>,
    /// Either is right: a result, or an error that keeps the invariants.
    pub either: bool,
}

/// `mcpdeck serve`, and its clients.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ServePlan {
    /// More arguments of `serve`.
    #[serde(default)]
    pub args: Vec<String>,
    /// Tokens by name, each with the arguments of `token new`.
    #[serde(default)]
    pub tokens: BTreeMap<String, Vec<String>>,
    /// Arguments of `grants add`, one after the other; `@NAME@` is the origin of a token.
    #[serde(default)]
    pub grants: Vec<Vec<String>>,
    /// What is sent, in order.
    pub requests: Vec<Exchange>,
    /// Streams that are open when the service is told to end.
    #[serde(default)]
    pub streams: usize,
}

/// A request to the service, each on a connection of its own, and its answer.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Exchange {
    /// `GET /tools`
    pub send: String,
    /// The name of the token; the operator's own when absent, none when empty.
    pub token: Option<String>,
    /// Header lines, `@PORT@` in them replaced; one that is usual is replaced by the first of its
    /// name.
    #[serde(default)]
    pub headers: Vec<String>,
    /// Its JSON, or its text.
    #[serde(default)]
    pub body: Value,
    /// Bytes that follow the head, in hexadecimal.
    #[serde(default)]
    pub hex: String,
    /// So many of them at once, each with its own number for `@N@`, in `says` too.
    pub times: Option<usize>,
    /// Status of the answers; several where either is right.
    pub status: Vec<u16>,
    /// It is sent again until it is answered so, for a minute at most.
    #[serde(default)]
    pub until: bool,
    /// How many answers have the first status, of several requests.
    pub count: Option<usize>,
    /// Texts that an answer holds, heads included.
    #[serde(default)]
    pub says: Vec<String>,
    /// Texts that it does not hold.
    #[serde(default)]
    pub never_says: Vec<String>,
    /// Header of the answer that is kept for the requests that follow, as `@HEADER@`.
    pub keep: Option<String>,
}

/// A kill in the middle.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Kill {
    /// Arguments of the run.
    pub args: Vec<String>,
    /// Killed when so many processes of servers live.
    pub processes: usize,
    /// The next start, which must find nothing amiss.
    pub again: Option<Run>,
}

/// Floods last three seconds, or 100 MB; with `MCPDECK_FAULTS_FULL` in the environment as long as
/// the catalogue says: ten seconds, a gigabyte.
fn at_length(text: &str) -> String {
    let full = std::env::var_os("MCPDECK_FAULTS_FULL").is_some();
    let (millis, bytes) = if full { ("10000", "1073741824") } else { ("3000", "104857600") };
    text.replace("@FLOOD_MILLIS@", millis).replace("@FLOOD_BYTES@", bytes)
}

/// What the constants of this run are drawn from: the same each time, so that a red row is a change
/// of the program; `MCPDECK_FAULTS_SEED` gives another, and `random` any.
pub static SEED: LazyLock<u64> = LazyLock::new(|| {
    let given = std::env::var("MCPDECK_FAULTS_SEED").ok();
    match given.as_deref() {
        None => 735_972,
        Some("random") => fastrand::u64(..1_000_000),
        Some(seed) => seed.parse().expect("a number, or `random`"),
    }
});

/// Numbers for one use of them, the same whatever else is played.
pub fn random(of: &str) -> fastrand::Rng {
    let mixed = of.bytes().fold(*SEED, |sum, byte| sum.wrapping_mul(31) + u64::from(byte));
    fastrand::Rng::with_seed(mixed)
}

/// Puts a number in the place of each `@name:least..most@`; `@name@` is the same one again.
fn drawn(text: &str, random: &mut fastrand::Rng) -> String {
    let mut known = BTreeMap::new();
    let mut parts = text.split('@');
    let mut out = parts.next().unwrap_or_default().to_owned();
    let mut closed = false;
    for part in parts {
        // What stood before this `@` was a placeholder, or this begins one.
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

/// Reads every row whose id begins with one of the filters; all without a filter.
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

/// Whether the actual value holds the expected one: objects by key, arrays element by element in
/// any order, texts as a whole or, after `~`, as a part; `null` also stands for nothing.
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
