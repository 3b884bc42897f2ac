//! The command line: what the arguments ask for, and which front end does it. Writes to stdout.

pub mod args;
mod docs;
mod exit;
mod output;

use clap::Parser;

use self::args::{Cli, Verb};
use self::exit::Exit;
use crate::telemetry::{LogOptions, Payloads, Telemetry};

/// Runs the program; gives its exit code.
pub fn main() -> std::process::ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // `--help | head` closes the pipe early; that is no failure.
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage } else { Exit::Ok }.into();
        }
    };
    let telemetry = match Telemetry::start(&log_options(&cli)) {
        Ok(telemetry) => telemetry,
        Err(error) => return output::refuse(&error.to_string()).into(),
    };
    let exit = run(cli, &telemetry);
    drop(telemetry);
    exit.into()
}

fn log_options(cli: &Cli) -> LogOptions {
    LogOptions {
        file: cli.common.log_file.clone(),
        filter: cli.common.log_level.clone(),
        payloads: if cli.common.log_payloads { Payloads::Include } else { Payloads::Omit },
    }
}

fn run(cli: Cli, telemetry: &Telemetry) -> Exit {
    let _ = telemetry;
    match cli.verb {
        Some(Verb::Explain(args)) => docs::explain(&args),
        Some(Verb::Completions { shell }) => docs::completions(shell),
        Some(Verb::Man) => docs::man(),
        Some(_) => output::refuse("this command is not built yet"),
        None if cli.check.check => output::refuse("--check is not built yet"),
        None => output::refuse("the dashboard is not built yet"),
    }
}
