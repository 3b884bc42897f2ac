//! Starts the dashboard over what the arguments name: files, one server, or the demo.

use std::process::ExitCode;

use std::sync::Arc;

use super::args::{Cli, ColorChoice};
use super::exit::Exit;
use super::{load, output};
use crate::config::render::{Colour, render_all};
use crate::config::{Diagnostic, Loaded, LogLevel, McpConfig, discover};
use crate::telemetry::Telemetry;
use crate::tui::{HostLogLevel, Options, Source};

/// Runs the dashboard until the person leaves.
pub fn run(cli: &Cli, telemetry: &Telemetry) -> Result<ExitCode, Exit> {
    let source = source(cli)?;
    match &source {
        Source::Config(config) => telemetry.mask(load::redactor(config)),
        Source::Files(files, env) => {
            if let Ok(loaded) = crate::config::load(files, env) {
                telemetry.mask(load::redactor(&loaded.config));
            }
        }
    }
    let options = Options {
        source,
        ascii: cli.dashboard.ascii,
        theme: cli.dashboard.theme.clone(),
        colour: match cli.common.color {
            ColorChoice::Auto => None,
            ColorChoice::Always => Some(true),
            ColorChoice::Never => Some(false),
        },
        tour: cli.dashboard.demo,
        log_level: Some(log_level(telemetry)),
    };
    crate::tui::run(options).map_err(|error| {
        output::complain(&error.to_string());
        output::refuse("without a terminal there are --check, list, call and status")
    })
}

fn source(cli: &Cli) -> Result<Source, Exit> {
    #[cfg(feature = "demo")]
    if cli.dashboard.demo {
        let exe = std::env::current_exe()
            .map_err(|error| output::refuse(&format!("cannot find this program: {error}")))?;
        return Ok(Source::Config(Box::new(crate::demo::config(&exe))));
    }
    let env = load::environment(&cli.common).map_err(|problems| refused(&problems))?;
    let one = match &cli.url {
        Some(url) => Some(discover::single_url(url, &env)),
        None if cli.command.is_empty() => None,
        None => Some(discover::single_command(&cli.command, &env)),
    };
    if let Some(loaded) = one {
        let config = loaded.and_then(Loaded::complete).map_err(|p| refused(&p))?;
        return Ok(Source::Config(Box::new(McpConfig { files: Vec::new(), ..config })));
    }
    let files = load::files(&cli.common, &env);
    if files.is_empty() {
        return Err(output::refuse(
            "no mcp.json found here; write one, name one with `--config FILE`, inspect one server \
             with `mcpdeck -- COMMAND`, or look around with `mcpdeck --demo`",
        ));
    }
    Ok(Source::Files(files, Box::new(env)))
}

/// Shows what is wrong with the configuration before the screen is taken.
fn refused(problems: &[Diagnostic]) -> Exit {
    output::refuse(render_all(problems, Colour::Never).trim_end())
}

/// Changes the level of the log file from the Logs pane.
fn log_level(telemetry: &Telemetry) -> HostLogLevel {
    let control = telemetry.control();
    Arc::new(move |level: LogLevel| {
        let word = match level {
            LogLevel::Trace => "trace",
            LogLevel::Debug => "debug",
            LogLevel::Info | LogLevel::Notice => "info",
            LogLevel::Warning => "warn",
            LogLevel::Error | LogLevel::Critical | LogLevel::Alert | LogLevel::Emergency => "error",
        };
        // A level of ours is always understood.
        let _ = control.set_filter(word);
    })
}
