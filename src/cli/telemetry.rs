//! Logging: `tracing` as JSON lines in a rotating file.
//!
//! Owns the subscriber, the file and the filter. Never writes to the terminal, but for what was lost,
//! at the end. Masks secrets in every record again, regardless of what the caller has masked.

mod file;
mod format;

use std::path::PathBuf;
use std::sync::Arc;

use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{EnvFilter, Registry, reload};

use crate::output;
use base::human::count;
use base::text::path::spelled;
use base::{Redactor, ServerName};
use config::Diagnostic;

/// The filter when the user sets none. The SDK's own records contain whole messages, so only its
/// warnings are logged.
pub const DEFAULT_FILTER: &str = "info,rmcp=warn,hyper=warn,reqwest=warn";

/// Capacity of the write queue, in lines; when it is full, lines are dropped and counted, so that a
/// slow disk never slows a server.
const LOG_CAPACITY: usize = 16_384;

/// Size at which the file is rotated, in bytes.
const MAX_BYTES: u64 = 10 << 20;

/// Logging options.
#[derive(Clone, Debug, Default)]
pub struct LogOptions {
    /// The log file; `None` disables logging.
    pub file: Option<PathBuf>,
    /// A level or filter; `None` means [`DEFAULT_FILTER`].
    pub filter: Option<String>,
    /// Whether arguments and results are logged, secrets masked.
    pub payloads: bool,
}

/// Changes the log filter at run time. Cheap to clone.
#[derive(Clone)]
pub struct LogControl(reload::Handle<EnvFilter, Registry>, bool);

impl LogControl {
    /// Replaces the filter.
    ///
    /// # Errors
    /// When the filter is invalid; the old one stays in effect.
    pub fn set_filter(&self, filter: &str) -> Result<(), LogError> {
        let parsed = parse_filter(Some(filter), self.1)?;
        self.0
            .reload(parsed)
            .map_err(|error| LogError::Filter(filter.to_owned(), error.to_string()))
    }
}

/// The running log. Dropping it flushes the queue and reports what could not be written.
pub struct Telemetry {
    control: LogControl,
    redactor: Redactor,
    writer: Option<LogWriter>,
}

/// The thread that writes the log file.
struct LogWriter {
    path: PathBuf,
    guard: WorkerGuard,
    lost: Arc<file::LostLines>,
}

impl Drop for Telemetry {
    fn drop(&mut self) {
        let Some(LogWriter { path, guard, lost }) = self.writer.take() else { return };
        drop(guard);
        if let Some((lines, error)) = lost.take() {
            let (path, lines) = (spelled(&path), count(lines, "line"));
            output::complain(&format!("{path}: {lines} of the log could not be written: {error}"));
        }
    }
}

/// Why logging could not start.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The filter is invalid.
    #[error("--log-level: `{0}` is not a level or filter: {1}")]
    Filter(String, String),
    /// The file cannot be written.
    #[error("--log-file: {0}: {1}")]
    File(PathBuf, std::io::Error),
    /// A global subscriber is already set.
    #[error("logging was set up twice")]
    Twice,
}

impl Telemetry {
    /// Sets up logging for the whole process.
    ///
    /// # Errors
    /// When the filter or the file cannot be used.
    pub fn start(options: &LogOptions) -> Result<Self, LogError> {
        let filter = parse_filter(options.filter.as_deref(), options.payloads)?;
        let (filter, handle) = reload::Layer::new(filter);
        let redactor = Redactor::default();
        let mut writer = None;
        let layer = match &options.file {
            None => None,
            Some(path) => {
                let file = file::RotatingFile::open(path, MAX_BYTES)
                    .map_err(|error| LogError::File(path.clone(), error))?;
                let lost = file.lost();
                let (queue, guard) = NonBlockingBuilder::default()
                    .buffered_lines_limit(LOG_CAPACITY)
                    .lossy(true)
                    .finish(file);
                writer = Some(LogWriter { path: path.clone(), guard, lost });
                let (redactor, payloads) = (redactor.clone(), options.payloads);
                Some(format::JsonLines { queue, redactor, payloads })
            }
        };
        let subscriber = Registry::default().with(filter).with(layer);
        tracing::subscriber::set_global_default(subscriber).map_err(|_| LogError::Twice)?;
        Ok(Self { control: LogControl(handle, options.payloads), redactor, writer })
    }

    /// The handle that changes the filter at run time.
    pub fn control(&self) -> LogControl {
        self.control.clone()
    }

    /// The redactor applied to every log line; values can be added at any time.
    pub fn redactor(&self) -> &Redactor {
        &self.redactor
    }
}

/// Logs problems found before a host exists: a rejected configuration, or a command that is not
/// trusted.
pub fn refused(problems: &[Diagnostic]) {
    for problem in problems {
        let trust = problem.rule.starts_with("trust/") || problem.rule == "start/untrusted";
        let action = if trust { "trustRefused" } else { "configurationRefused" };
        let server = problem.server.as_ref().map(ServerName::as_str);
        let (status, at) = (problem.rule.as_str(), problem.at.to_string());
        tracing::error!(target: "mcpdeck::config", server, action, status, at, "{}", problem.message);
    }
}

/// The log target of arguments and results.
const PAYLOAD_TARGET: &str = "mcpdeck::payload";

/// The level for a word that other programs, or the specification (RFC 5424), use for it.
fn common_level(level: &str) -> &str {
    match level.to_ascii_lowercase().as_str() {
        "warning" => "warn",
        "notice" => "info",
        "critical" | "alert" | "emergency" | "fatal" => "error",
        _ => level,
    }
}

fn parse_filter(filter: Option<&str>, payloads: bool) -> Result<EnvFilter, LogError> {
    let text = match filter {
        None => DEFAULT_FILTER.to_owned(),
        // A bare level applies to mcpdeck only; the SDK stays at `warn`. Any other bare word would
        // be the name of a target: a misspelt level would log nothing.
        Some(level) if !level.contains(['=', ',']) => {
            let level = common_level(level);
            level.parse::<LevelFilter>().map_err(|_| {
                let known = "write error, warning, info, debug, trace, off, or TARGET=LEVEL";
                LogError::Filter(level.to_owned(), known.to_owned())
            })?;
            format!("{level},rmcp=warn,hyper=warn,reqwest=warn")
        }
        Some(filter) => {
            let directive = |part: &str| match part.rsplit_once('=') {
                Some((target, level)) => format!("{target}={}", common_level(level)),
                None => common_level(part).to_owned(),
            };
            filter.split(',').map(directive).collect::<Vec<_>>().join(",")
        }
    };
    let level = if payloads { "trace" } else { "off" };
    EnvFilter::try_new(format!("{text},{PAYLOAD_TARGET}={level}"))
        .map_err(|error| LogError::Filter(filter.unwrap_or_default().to_owned(), error.to_string()))
}
