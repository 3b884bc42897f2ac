//! `scrub`, `replay` and `report`: the commands for recordings; and `--record`, which makes one.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueHint};
use serde_json::{Value, json};

use super::args::{Common, OneServer};
use super::deck::{self, Invocation, Need};
use super::output::{self, CommandResult, ExitStatus};
use crate::telemetry::Telemetry;
use ::check::answers::AnswerScript;
use ::deck::{
    ExportFormat, Recorder, Recording, RecordingLine, RecordingLosses, RecordingPart, Scrubber,
    export_recording,
};
use base::human::{count, parse_duration};
use base::masked::{masked_places, may_be};
use base::text::json::WrittenValue;
use base::text::path::spelled;
use base::{Redactor, SafeText};
use host::{CallOptions, Host, Origin};
use protocol::{Direction, MessageKind, every_written_difference};

/// `mcpdeck scrub`
#[derive(Debug, Args)]
pub struct ScrubArgs {
    /// The recording.
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// File for the masked recording.
    #[arg(long, short = 'o', value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,
    /// Mask this text too, wherever it occurs; may be given several times.
    #[arg(long, value_name = "TEXT")]
    mask: Vec<String>,
}

/// `mcpdeck report`
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// The recording.
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Output file.
    #[arg(long, short = 'o', value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,
    /// Format [default: by the extension of the output: .html, .har, .json, .jsonl].
    /// `html` is one self-contained page, `otlp` traces without arguments and results,
    /// `jsonl` a part of the recording.
    #[arg(long, value_name = "FORMAT", value_parser = ["html", "har", "otlp", "jsonl"])]
    format: Option<String>,
    /// Only this server; may be given several times.
    #[arg(long, value_name = "SERVER")]
    server: Vec<String>,
    /// Only from this time after the start of the recording (90, 1.5m).
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    from: Option<Duration>,
    /// Only up to this time after the start of the recording.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    to: Option<Duration>,
}

/// `mcpdeck replay`
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// The recording.
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// The server of the configuration that gets the recorded requests [default: the recorded one].
    #[arg(long, value_name = "SERVER")]
    against: Option<String>,
    /// The recorded server whose requests are sent, when several were recorded.
    #[arg(long, value_name = "SERVER")]
    server: Option<String>,
    /// Send requests with masked values too, also those of a scrubbed recording, with *** in their
    /// place.
    #[arg(long)]
    scrubbed: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// A single server instead of a file.
    #[command(flatten)]
    one: OneServer,
}

/// Starts recording with `--record`; that it ends early is reported when it happens.
///
/// # Errors
/// When the file cannot be created.
pub fn start(common: &Common, host: &Host) -> Result<Option<Recorder>, String> {
    let Some(path) = &common.record else { return Ok(None) };
    let recorder = Recorder::start(host, path).map_err(|error| failed(path, &error))?;
    let (failure, path) = (recorder.failure(), path.clone());
    tokio::spawn(async move { output::complain(&failed(&path, &failure.wait().await)) });
    Ok(Some(recorder))
}

/// Ends a recording; a failure is only reported.
pub async fn finish(common: &Common, recorder: Option<Recorder>) {
    if let (Some(recorder), Some(path)) = (recorder, &common.record)
        && let Err(error) = recorder.finish().await
    {
        output::complain(&failed(path, &error));
    }
}

fn failed(path: &Path, error: &std::io::Error) -> String {
    format!("cannot record to {}: {error}", spelled(path))
}

fn unreadable(path: &Path, error: &std::io::Error) -> ExitStatus {
    output::refuse(&format!("{}: {}", spelled(path), SafeText::line(&error.to_string())))
}

/// Runs `work` on a file that was made for its output; without success the file is removed.
fn written<T>(
    (from, to): (&Path, &Path),
    file: File,
    work: impl FnOnce(BufWriter<File>) -> std::io::Result<T>,
) -> Result<T, ExitStatus> {
    work(BufWriter::new(file)).map_err(|error| {
        // A device stays.
        if to.is_file() {
            let _ = std::fs::remove_file(to);
        }
        let (from, to, error) = (spelled(from), spelled(to), SafeText::line(&error.to_string()));
        output::refuse(&format!("cannot write {to} from {from}: {error}"))
    })
}

/// A new file; one that exists is kept, devices aside.
fn created(path: &Path) -> Result<File, ExitStatus> {
    let is_device = path.metadata().is_ok_and(|meta| !meta.is_file() && !meta.is_dir());
    let file = if is_device { File::create(path) } else { File::create_new(path) };
    file.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            let path = spelled(path);
            output::refuse(&format!("{path} exists: name another file or move it away"))
        }
        _ => unreadable(path, &error),
    })
}

/// Says what could not be read of a recording.
pub fn told(losses: &RecordingLosses, file: &Path) {
    if let Some(lost) = losses.words() {
        output::complain(&format!("{}: {lost}", spelled(file)));
    }
}

/// Masks a recording.
pub fn scrub(args: &ScrubArgs) -> CommandResult {
    let recording = Recording::open(&args.file).map_err(|e| unreadable(&args.file, &e))?;
    let losses = recording.losses();
    let file = created(&args.output)?;
    let done = written((&args.file, &args.output), file, |file| {
        Scrubber::new(args.mask.iter().cloned()).scrub(recording, file)
    })?;
    told(&losses, &args.file);
    let by_key: u64 = done.by_key.values().sum();
    let mut text = format!(
        "{} lines; masked {by_key} values by their name, {} by pattern, {} by --mask\n",
        done.lines, done.by_pattern, done.by_word
    );
    for (key, count) in &done.by_key {
        let _ = writeln!(text, "  {count:6}  {}", SafeText::line(key));
    }
    Ok(output::print(&text, ExitStatus::Ok))
}

/// Writes a recording, or a part of it, in another format.
pub fn report(args: &ReportArgs) -> CommandResult {
    let end = args.output.extension().and_then(|end| end.to_str()).unwrap_or_default();
    let format = match args.format.as_deref().unwrap_or(end) {
        "html" | "htm" => ExportFormat::Html,
        "har" => ExportFormat::Har,
        "otlp" | "json" => ExportFormat::Otlp,
        "jsonl" => ExportFormat::Jsonl,
        _ => return Err(output::refuse("name a format with --format: html, har, otlp or jsonl")),
    };
    if args.to.is_some_and(|to| args.from.is_some_and(|from| from > to)) {
        return Err(output::refuse("--from is after --to: nothing lies between them"));
    }
    let recording = Recording::open(&args.file).map_err(|e| unreadable(&args.file, &e))?;
    let losses = recording.losses();
    let file = created(&args.output)?;
    let part = RecordingPart { servers: args.server.clone(), from: args.from, to: args.to };
    let unknown = written((&args.file, &args.output), file, |mut file| {
        export_recording(recording, &part, format, &mut file)
    })?;
    told(&losses, &args.file);
    for server in unknown {
        output::complain(&format!("nothing of `{}` was recorded", SafeText::line(&server)));
    }
    Ok(ExitStatus::Ok)
}

/// Longest reason why a request is not sent, in characters.
const MAX_REASON_CHARS: usize = 400;

/// One recorded operation.
pub struct DiffedOperation {
    method: String,
    params: WrittenValue,
    result: Result<WrittenValue, WrittenValue>,
}

#[cfg(feature = "bench")]
impl DiffedOperation {
    /// The same for a test.
    pub fn into_call(self, server: &str) -> ::bench::init::RecordedCall {
        let is_error = self.result.as_ref().map_or(true, |result| result["isError"] == true);
        let Self { method, params, .. } = self;
        ::bench::init::RecordedCall { server: server.to_owned(), method, params, is_error }
    }
}

/// The recorded operations of the server that `args` names, or of the only one that has any.
fn recorded(args: &ReplayArgs) -> Result<(String, Vec<DiffedOperation>), ExitStatus> {
    let recording = Recording::open(&args.file).map_err(|e| unreadable(&args.file, &e))?;
    if recording.header().scrubbed && !args.scrubbed {
        let file = spelled(&args.file);
        return Err(output::refuse(&format!(
            "{file}: it was scrubbed, so requests may hold *** instead of values; send them anyway \
             with --scrubbed"
        )));
    }
    let mut all = operations(&args.file).map_err(|e| unreadable(&args.file, &e))?;
    let named = args.server.clone().or_else(|| match all.keys().collect::<Vec<_>>().as_slice() {
        [only] => Some((*only).clone()),
        _ => None,
    });
    if let Some((name, found)) = named.and_then(|name| all.remove_entry(&name)) {
        return Ok((name, found));
    }
    let names: Vec<&str> = all.keys().map(String::as_str).collect();
    let names = SafeText::line(&names.join(", "));
    Err(output::refuse(&match &args.server {
        _ if all.is_empty() => "no call, read or prompt was answered in the recording".to_owned(),
        Some(name) => {
            let name = SafeText::line(name);
            format!("no call, read or prompt of `{name}` was recorded; there are those of {names}")
        }
        None => format!("several servers were recorded: name one with --server ({names})"),
    }))
}

/// The operations of a recording that were answered, by server.
pub fn operations(file: &Path) -> std::io::Result<BTreeMap<String, Vec<DiffedOperation>>> {
    let mut open: Vec<((String, Value), String, WrittenValue)> = Vec::new();
    let mut out: BTreeMap<String, Vec<DiffedOperation>> = BTreeMap::new();
    let recording = Recording::open(file)?;
    let losses = recording.losses();
    let mut unread = 0;
    for line in recording {
        let RecordingLine::Frame(frame) = line? else { continue };
        let plain = || serde_json::from_str::<Value>(&frame.body).ok().map(WrittenValue::from);
        let Some(message) = WrittenValue::parse(&frame.body).ok().or_else(plain) else {
            let is_needed = !matches!(frame.kind, MessageKind::Junk | MessageKind::Notification);
            unread += usize::from(is_needed && !frame.body.is_empty());
            continue;
        };
        let id = (frame.server.to_string(), message["id"].clone());
        match (frame.direction, frame.kind, frame.method.as_deref()) {
            (
                Direction::Out,
                MessageKind::Request,
                Some(method @ ("tools/call" | "prompts/get" | "resources/read")),
            ) => open.push((id, method.to_owned(), message.part("/params"))),
            (Direction::In, MessageKind::Response | MessageKind::Error, _) => {
                let Some(at) = open.iter().rposition(|(asked, ..)| *asked == id) else {
                    continue;
                };
                let ((server, _), method, params) = open.remove(at);
                let is_result = message.get("result").is_some();
                let result = if is_result {
                    Ok(message.part("/result"))
                } else {
                    Err(message.part("/error"))
                };
                out.entry(server).or_default().push(DiffedOperation { method, params, result });
            }
            _ => {}
        }
    }
    told(&losses, file);
    if unread > 0 {
        let (file, unread) = (spelled(file), count(unread, "message"));
        output::complain(&format!("{file}: {unread} without whole JSON left out"));
    }
    Ok(out)
}

/// Sends the recorded requests to a live server and shows where its answers differ. 0 when none
/// does, 1 when one does.
pub fn replay(common: &Common, args: &ReplayArgs, telemetry: &Telemetry) -> CommandResult {
    let (recorded, operations) = recorded(args)?;
    let server = args.against.clone().unwrap_or(recorded);
    let names = if args.one.is_named() { Vec::new() } else { vec![server.clone()] };
    let invocation = Invocation { common, one: &args.one, telemetry };
    let ran = invocation.run(Need::Servers(names), AnswerScript::default(), async |scene| {
        let name = match scene.host.snapshot().servers.keys().next() {
            Some(only) if args.one.is_named() => only.clone(),
            _ => base::ServerName::new(&server),
        };
        let (mut rows, mut left_out) = (Vec::new(), Vec::new());
        for operation in &operations {
            let masked = masked_places(&operation.params.value);
            if masked.is_empty() || args.scrubbed {
                rows.push(compared(scene.host, &name, operation).await);
            } else {
                output::complain(&operation.why_left_out(&masked));
                left_out.push(json!({
                    "method": operation.method, "params": *operation.params, "masked": masked,
                }));
            }
        }
        let differing = rows.iter().filter(|row| row["same"] == false).count();
        // Without any answer nothing was found to be the same.
        let is_same = differing == 0 && !rows.is_empty();
        let exit = if is_same { ExitStatus::Ok } else { ExitStatus::Failed };
        if args.json {
            let whole = json!({
                "requests": rows.len(), "differing": differing, "results": rows,
                "notReplayed": left_out,
            });
            return output::json(&whole, exit);
        }
        let mut text = String::new();
        for row in rows.iter().filter(|row| row["same"] == false) {
            let title = format!("{} {}", row["method"].as_str().unwrap_or(""), row["params"]);
            let _ = writeln!(text, "{}", SafeText::cut(&title, 200));
            for found in row["differences"].as_array().into_iter().flatten() {
                let place = found["pointer"].as_str().unwrap_or_default();
                let line = format!(
                    "  {}: {} -> {}",
                    if place.is_empty() { "/" } else { place },
                    found["recorded"],
                    found["now"]
                );
                let _ = writeln!(text, "{}", SafeText::cut(&line, 300));
            }
        }
        let requests = count(rows.len(), "request");
        let rest = match left_out.len() {
            0 => String::new(),
            many => format!(", {many} not replayed"),
        };
        let _ = writeln!(text, "{requests}, {differing} answered differently{rest}");
        output::print(&text, exit)
    });
    deck::ended(ran)
}

impl DiffedOperation {
    /// What it asks for.
    fn target(&self) -> &str {
        let key = if self.method == "resources/read" { "uri" } else { "name" };
        self.params[key].as_str().unwrap_or_default()
    }

    /// Why it is not sent: what stands at these places of its parameters was hidden.
    fn why_left_out(&self, masked: &[String]) -> String {
        let places = masked.iter().map(|place| {
            let argument = place.strip_prefix("/arguments/").unwrap_or(place);
            format!("`{argument}`")
        });
        let (places, target) = (places.collect::<Vec<_>>().join(", "), self.target());
        let text = format!(
            "{} {target}: not replayed: the recording has *** in place of a secret in {places}; call \
             it with the value (`mcpdeck call`), or send *** with --scrubbed",
            self.method
        );
        SafeText::cut(&text, MAX_REASON_CHARS).to_string()
    }
}

/// How a live server answers an operation now, beside how it did. The secrets of its entry are masked
/// in both: a recording has none. What is masked in the recording may be anything.
async fn compared(host: &Host, server: &base::ServerName, operation: &DiffedOperation) -> Value {
    let options = CallOptions {
        server: Some(server.clone()),
        bypass_cache: true,
        origin: Origin::Cli,
        validation: host::Validation::Force,
        numbers: Some(Arc::new(operation.params.numbers.below("/arguments"))),
        ..CallOptions::default()
    };
    let params = &operation.params.value;
    let arguments = params.get("arguments").cloned().unwrap_or_else(|| json!({}));
    let name = params["name"].as_str().unwrap_or_default();
    let outcome = match operation.method.as_str() {
        "tools/call" => host.call_tool_with(name, arguments, options).await,
        "prompts/get" => host.get_prompt_with(name, arguments, options).await,
        _ => {
            let uri = params["uri"].as_str().unwrap_or_default();
            host.get_resource_with(uri, options).await
        }
    };
    let masks = Redactor::new(host.secrets(server));
    let now = match outcome {
        Ok(outcome) => {
            let result = outcome.result.redacted(&masks).unwrap_or(outcome.result);
            Ok(result.into_written())
        }
        Err(error) => Err(WrittenValue::from(error.rpc.as_ref().map_or_else(
            || json!({"message": error.message}),
            |rpc| json!({"code": rpc.code, "message": rpc.message}),
        ))),
    };
    let found = match (&operation.result, &now) {
        (Err(before), Err(now)) if before["code"] == now["code"] => Vec::new(),
        (Ok(before) | Err(before), Ok(now) | Err(now)) => {
            let value = masks.redact_json(before).unwrap_or_else(|| before.value.clone());
            let before = WrittenValue { value, numbers: before.numbers.clone() };
            every_written_difference(&before, now)
        }
    };
    let found: Vec<Value> = found
        .into_iter()
        // `_meta` describes one run and differs in each.
        .filter(|f| !f.pointer.split('/').any(|step| step == "_meta"))
        .filter(|f| match (&f.before, &f.after) {
            (Some(before), Some(after)) => !may_be(before, after),
            _ => true,
        })
        .map(|f| json!({"pointer": f.pointer, "recorded": f.before, "now": f.after}))
        .collect();
    json!({
        "method": operation.method, "params": params, "same": found.is_empty(),
        "differences": found,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_not_be_written_whole_is_not_left_behind() {
        let dir = tempfile::tempdir().unwrap();
        let to = dir.path().join("out.jsonl");
        let file = created(&to).unwrap();
        let work =
            |_: BufWriter<File>| -> std::io::Result<()> { Err(ErrorKind::StorageFull.into()) };
        assert!(written((Path::new("a.jsonl"), &to), file, work).is_err());
        assert!(!to.exists());
        std::fs::write(&to, "mine").unwrap();
        assert!(created(&to).is_err(), "a file that exists is kept");
        assert_eq!(std::fs::read(&to).unwrap(), b"mine");
    }
}
