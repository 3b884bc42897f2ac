//! `native-host`: the bridge that a browser starts for an extension. Relays frames on stdin and
//! stdout as lines on the local socket of the running service; keeps no state.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use clap::{Args, Subcommand, ValueEnum};
use parking_lot::Mutex;
use serde_json::json;

use super::output::{self, ExitStatus};
use ::deck::{MAX_LOCAL_LINE_BYTES, NATIVE_MESSAGES, local_sockets, parse_json};
use base::SafeText;
use base::state::StateFile;
use base::text::cut;
use base::text::json::WrittenValue;
use config::Environment;
use host::OutsideCode;

/// Name of the host in the browser.
const NAME: &str = "mcpdeck";
/// Largest message that a browser accepts, in bytes.
const MAX_MESSAGE_BYTES: usize = 1 << 20;
/// Text in one part of a longer message, in bytes; escaped as JSON it stays below [`MAX_MESSAGE_BYTES`].
const MAX_PART_BYTES: usize = MAX_MESSAGE_BYTES / 8;
/// Largest file of allowed extensions, in bytes.
const MAX_EXTENSIONS_BYTES: u64 = 1 << 20;
/// Maximum number of messages handled concurrently.
const MAX_CONCURRENT_MESSAGES: usize = 16;

/// `mcpdeck native-host`
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct NativeHostArgs {
    #[command(subcommand)]
    verb: Option<NativeHostVerb>,
    /// The caller, as passed by the browser.
    #[arg(value_name = "CALLER", allow_hyphen_values = true)]
    caller: Vec<String>,
}

#[derive(Debug, Subcommand)]
enum NativeHostVerb {
    /// Allow a browser extension to start it.
    Install {
        /// The browser.
        #[arg(long)]
        browser: BrowserKind,
        /// The id of the extension.
        #[arg(long, value_name = "ID", value_parser = extension)]
        extension: String,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum BrowserKind {
    Firefox,
    Chrome,
}

fn extension(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "@.-_{}".contains(c);
    let is_one = !text.is_empty() && text.chars().all(plain);
    is_one.then(|| text.to_owned()).ok_or_else(|| "that is not the id of an extension".to_owned())
}

/// Answers an extension until the browser closes stdin, or installs the bridge.
pub fn native_host(args: &NativeHostArgs) -> ExitStatus {
    let Some(state) = Environment::of_process().state_dir else {
        return output::refuse("there is no state folder: set MCPDECK_STATE_DIR");
    };
    let done = match &args.verb {
        Some(NativeHostVerb::Install { browser, extension }) => {
            install(&state, *browser, extension)
        }
        None if !known(&state).iter().any(|known| args.caller.contains(known)) => {
            return output::refuse(
                "this extension may not call: run `mcpdeck native-host install`",
            );
        }
        None => bridge(&state).map(|()| String::new()),
    };
    match done {
        Ok(said) => output::print(&said, ExitStatus::Ok),
        Err(error) => output::refuse(&SafeText::line(&error.to_string())),
    }
}

/// Extensions that may call, as browsers name them.
fn known(state: &Path) -> Vec<String> {
    extensions(state).load(parse_json).unwrap_or_default()
}

/// The file of the extensions that may start it.
fn extensions(state: &Path) -> StateFile {
    StateFile::new(state.join("extensions.json"), MAX_EXTENSIONS_BYTES).of_rights()
}

fn install(state: &Path, browser: BrowserKind, extension: &str) -> io::Result<String> {
    use std::os::unix::fs::PermissionsExt as _;
    let home = std::env::home_dir().ok_or_else(|| io::Error::other("there is no home folder"))?;
    let mac = cfg!(target_os = "macos");
    let folder = match (browser, mac) {
        (BrowserKind::Firefox, true) => "Library/Application Support/Mozilla/NativeMessagingHosts",
        (BrowserKind::Firefox, false) => ".mozilla/native-messaging-hosts",
        (BrowserKind::Chrome, true) => {
            "Library/Application Support/Google/Chrome/NativeMessagingHosts"
        }
        (BrowserKind::Chrome, false) => ".config/google-chrome/NativeMessagingHosts",
    };
    let (key, caller) = match browser {
        BrowserKind::Firefox => ("allowed_extensions", extension.to_owned()),
        BrowserKind::Chrome => ("allowed_origins", format!("chrome-extension://{extension}/")),
    };
    extensions(state).change(parse_json, |all: Option<Vec<String>>| {
        let mut all = all.unwrap_or_default();
        if !all.contains(&caller) {
            all.push(caller.clone());
        }
        Ok(Some(json!(all).to_string().into_bytes()))
    })?;
    // A manifest cannot pass arguments to its program.
    let script = state.join("native-host.sh");
    let program = std::env::current_exe()?;
    let quoted = format!("'{}'", program.display().to_string().replace('\'', r"'\''"));
    let text = format!("#!/bin/sh\nexec {quoted} native-host \"$@\"\n");
    StateFile::new(&script, MAX_EXTENSIONS_BYTES).of_rights().write(text.as_bytes())?;
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o700))?;
    let folder = home.join(folder);
    std::fs::create_dir_all(&folder)?;
    let file = folder.join(format!("{NAME}.json"));
    let mut manifest = json!({
        "name": NAME, "description": "MCP servers of mcpdeck", "path": script, "type": "stdio",
    });
    manifest[key] = json!([caller]);
    std::fs::write(&file, format!("{manifest:#}\n"))?;
    Ok(format!("{}\n", file.display()))
}

/// Reads frames from stdin and answers each on stdout, in order of completion.
fn bridge(state: &Path) -> io::Result<()> {
    let mut input = io::stdin().lock();
    let (output, open) = (Arc::new(Mutex::new(io::stdout())), Arc::new(AtomicUsize::new(0)));
    while let Some(frame) = frame(&mut input)? {
        if open.fetch_add(1, Ordering::SeqCst) >= MAX_CONCURRENT_MESSAGES {
            send(&output, &error(&frame, OutsideCode::RateLimited, "too many messages at once"))?;
            open.fetch_sub(1, Ordering::SeqCst);
            continue;
        }
        let (output, open, state) = (Arc::clone(&output), Arc::clone(&open), state.to_owned());
        // Replies that are pending when the browser closes stdin are dropped at exit.
        std::thread::spawn(move || {
            let _ = send(&output, &reply(&state, &frame));
            open.fetch_sub(1, Ordering::SeqCst);
        });
    }
    Ok(())
}

/// Reads one frame: its length in four bytes of native byte order, then JSON.
fn frame(input: &mut impl Read) -> io::Result<Option<WrittenValue>> {
    let mut length = [0; 4];
    match input.read_exact(&mut length) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        done => done?,
    }
    let length = u32::from_ne_bytes(length);
    if u64::from(length) >= MAX_LOCAL_LINE_BYTES {
        return Err(io::Error::other(format!("a message of {length} bytes is too long")));
    }
    let mut text = vec![0; length as usize];
    input.read_exact(&mut text)?;
    let text = str::from_utf8(&text).unwrap_or_default();
    Ok(Some(WrittenValue::parse(text).unwrap_or_default()))
}

fn error(request: &WrittenValue, code: OutsideCode, message: &str) -> WrittenValue {
    let error = json!({"code": code, "message": message});
    let mut reply = WrittenValue::from(json!({"type": "error", "error": error}));
    reply.insert_written("request_id", request.part("/request_id"));
    reply
}

fn reply(state: &Path, request: &WrittenValue) -> WrittenValue {
    let kind = request["type"].as_str().unwrap_or_default();
    // The socket accepts more message types than an extension may send.
    if !NATIVE_MESSAGES.contains(&kind) {
        let message = format!("`type` is one of {}", NATIVE_MESSAGES.join(", "));
        return error(request, OutsideCode::ProtocolError, &message);
    }
    let reply = local_sockets(state).first().and_then(|socket| ask(socket, request).ok());
    let missing = "no service is running: start `mcpdeck serve`";
    reply.unwrap_or_else(|| error(request, OutsideCode::ServerUnavailable, missing))
}

fn ask(socket: &Path, request: &WrittenValue) -> io::Result<WrittenValue> {
    let mut stream = UnixStream::connect(socket)?;
    stream.write_all(format!("{}\n", serde_json::to_string(request)?).as_bytes())?;
    let mut line = String::new();
    BufReader::new(stream.take(MAX_LOCAL_LINE_BYTES)).read_line(&mut line)?;
    WrittenValue::parse(&line).map_err(io::Error::other)
}

/// Sends a message; one above [`MAX_MESSAGE_BYTES`] is sent in parts whose texts concatenate to it.
fn send(output: &Mutex<io::Stdout>, reply: &WrittenValue) -> io::Result<()> {
    let text = serde_json::to_string(reply)?;
    let write = |text: &str| {
        let mut output = output.lock();
        output.write_all(&(text.len() as u32).to_ne_bytes())?;
        output.write_all(text.as_bytes())?;
        output.flush()
    };
    if text.len() <= MAX_MESSAGE_BYTES {
        return write(&text);
    }
    let mut parts = Vec::new();
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let part = cut(rest, MAX_PART_BYTES);
        parts.push(part);
        rest = &rest[part.len()..];
    }
    for (index, part) in parts.iter().enumerate() {
        let part = json!({"type": "host_part", "index": index, "count": parts.len(), "text": part});
        let mut part = WrittenValue::from(part);
        part.insert_written("request_id", reply.part("/request_id"));
        write(&serde_json::to_string(&part)?)?;
    }
    Ok(())
}
