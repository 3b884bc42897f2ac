//! The command line: parses the arguments and runs the requested front end. Writes to stdout.

#![cfg_attr(not(test), warn(clippy::expect_used))]
#![allow(
    missing_docs,
    reason = "its readers are its authors: a doc stands where it says more than the name"
)]

mod add;
#[cfg(feature = "apps")]
mod app;
pub mod args;
mod audit;
#[cfg(feature = "bench")]
mod bench;
#[cfg(feature = "chat")]
mod chat;
mod check;
mod complete;
mod configuration;
mod connect;
mod consent;
#[cfg(feature = "tui")]
mod dashboard;
mod deck;
mod docs;
mod grants;
mod import;
mod in_use;
mod load;
mod load_test;
mod login;
mod look;
mod memory;
mod mistake;
#[cfg(unix)]
mod native_host;
mod operate;
mod outcome;
mod output;
mod policy;
mod questions;
mod recording;
mod respell;
mod secret;
#[cfg(feature = "gateway")]
mod serve;
mod signals;
#[cfg(all(feature = "bench", feature = "tui"))]
mod suites;
mod target_file;
pub mod telemetry;
mod trust;
mod typed;
mod upgrade;
mod values;

use clap::{CommandFactory, FromArgMatches};

use self::args::{Cli, OneServer, Verb};
use crate::telemetry::{LogOptions, Telemetry};
use output::ExitStatus;

/// Runs the program and returns its exit code. `themes` are those it brings with it, for the
/// dashboard: names, and sources in TOML.
pub fn main(themes: &'static [(&'static str, &'static str)]) -> std::process::ExitCode {
    memory::set_up();
    // Shell completion requests are answered first, without any other setup.
    if let Some(exit) = complete::answer() {
        return exit.into();
    }
    let mut command = Cli::command();
    let parsed = command.try_get_matches_from_mut(std::env::args_os());
    let misplaced = parsed.as_ref().ok().and_then(load::misplaced);
    let parsed = parsed.and_then(|matches| {
        Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
    });
    let mut cli = match parsed {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() => return mistake::answer(error).into(),
        Err(error) => {
            // `--help | head` closes the pipe early; that is not an error.
            let text = error.render();
            let is_styled = output::colour(args::ColorChoice::Auto);
            let text = if is_styled { text.ansi().to_string() } else { text.to_string() };
            return output::print(&docs::in_groups(&text), ExitStatus::Ok).into();
        }
    };
    if let Some(message) = misplaced {
        return output::refuse(&message).into();
    }
    cli.dashboard.themes = themes;
    // Mock and demo servers own their standard streams and must start fast: no logging.
    match cli.verb {
        #[cfg(feature = "mock")]
        Some(Verb::Mock(options)) if options.schema => {
            return output::json(&mock::script::ServerScript::json_schema(), ExitStatus::Ok).into();
        }
        #[cfg(feature = "mock")]
        Some(Verb::Mock(options)) => return mock::run(options),
        #[cfg(feature = "demo")]
        Some(Verb::DemoServer { name }) => return demo::run(&name),
        _ => {}
    }
    let no_command = std::env::args_os().next_back().is_some_and(|last| last == "--");
    let settled = match load::settle(&mut cli) {
        Ok(()) if no_command => Err("no command follows the two dashes".to_owned()),
        settled => settled,
    };
    if let Err(message) = settled {
        return output::refuse(&message).into();
    }
    if let Err(message) = in_use::check_outputs(&cli) {
        return output::refuse(&message).into();
    }
    signals::outlive_file_limits();
    let options = LogOptions {
        file: cli.common.log_file.clone(),
        filter: cli.common.log_level.clone(),
        payloads: cli.common.log_payloads,
    };
    let telemetry = match Telemetry::start(&options) {
        Ok(telemetry) => telemetry,
        Err(error) => return output::refuse(&error.to_string()).into(),
    };
    let exit = run(cli, &telemetry);
    output::notices();
    drop(telemetry);
    exit
}

fn run(cli: Cli, telemetry: &Telemetry) -> std::process::ExitCode {
    let exit: ExitStatus = match cli.verb {
        Some(Verb::Explain(args)) => docs::explain(&args).into(),
        Some(Verb::Completions { shell }) => docs::completions(shell),
        Some(Verb::Man) => docs::man(),
        Some(Verb::Help { topic }) => docs::help(&topic.join(" ")),
        Some(Verb::List(args)) => look::list(&cli.common, &args, telemetry),
        Some(Verb::Status(args)) => look::status(&cli.common, &args, telemetry),
        Some(Verb::Call(args)) => operate::call(&cli.common, &args, telemetry).into(),
        #[cfg(feature = "apps")]
        Some(Verb::App(args)) => app::app(&cli.common, &args, telemetry).into(),
        #[cfg(feature = "bench")]
        Some(Verb::Test(args)) => bench::test(&cli.common, &args, telemetry),
        Some(Verb::Load(args)) => load_test::load_test(&cli.common, &args, telemetry),
        Some(Verb::Read(args)) => operate::read(&cli.common, &args, telemetry).into(),
        Some(Verb::Request(args)) => operate::request(&cli.common, &args, telemetry).into(),
        Some(Verb::Prompt(args)) => operate::prompt(&cli.common, &args, telemetry).into(),
        Some(Verb::Config(args)) => configuration::config(&cli.common, &args).into(),
        Some(Verb::Trust(args)) => trust::trust(&cli.common, &args).into(),
        Some(Verb::Secret(args)) => secret::secret(&cli.common, &args).into(),
        Some(Verb::Grants(args)) => grants::grants(&cli.common, &args).into(),
        Some(Verb::Audit(args)) => audit::audit(&cli.common, &args).into(),
        Some(Verb::Policy(args)) => policy::policy(&cli.common, &args).into(),
        Some(Verb::Login(args)) => login::login(&cli.common, &args).into(),
        Some(Verb::Logout { server }) => login::logout(&cli.common, &server).into(),
        Some(Verb::Search(args)) => add::search(&args).into(),
        Some(Verb::Add(args)) => add::add(&cli.common, &args, telemetry).into(),
        Some(Verb::Upgrade(args)) => upgrade::upgrade(&cli.common, &args, telemetry).into(),
        Some(Verb::Remove(args)) => upgrade::remove(&cli.common, &args).into(),
        Some(Verb::Import(args)) => import::import(&args).into(),
        Some(Verb::Connect(args)) => connect::connect(&cli.common, &args, telemetry).into(),
        Some(Verb::Disconnect(args)) => connect::disconnect(&cli.common, &args).into(),
        Some(Verb::Sync(args)) => connect::sync(&cli.common, &args).into(),
        #[cfg(feature = "chat")]
        Some(Verb::Chat(args)) => chat::chat(&cli.common, &args, telemetry).into(),
        #[cfg(feature = "gateway")]
        Some(Verb::Serve(args)) => serve::serve(&cli.common, &args, telemetry).into(),
        #[cfg(feature = "gateway")]
        Some(Verb::Token(args)) => serve::token(&args).into(),
        Some(Verb::Scrub(args)) => recording::scrub(&args).into(),
        Some(Verb::Report(args)) => recording::report(&args).into(),
        Some(Verb::Replay(args)) => recording::replay(&cli.common, &args, telemetry).into(),
        Some(Verb::Schema { which }) => docs::schema(which),
        #[cfg(unix)]
        Some(Verb::NativeHost(args)) => native_host::native_host(&args),
        #[cfg(all(unix, feature = "tui"))]
        Some(Verb::Attach { service }) => {
            return dashboard::attach(&cli, telemetry, service).unwrap_or_else(Into::into);
        }
        #[cfg(feature = "tui")]
        Some(Verb::Open { ref file }) => {
            return dashboard::open(&cli, telemetry, file).unwrap_or_else(Into::into);
        }
        Some(_) => output::refuse("this build was made without this command"),
        None if cli.check.check => {
            let one = OneServer { url: cli.url, given: cli.given, command: cli.command };
            let demo = cli.common.demo;
            let request =
                check::CheckRequest { common: &cli.common, args: &cli.check, one: &one, demo };
            check::check(&request, telemetry)
        }
        #[cfg(feature = "tui")]
        None if cli.dashboard.keys => docs::keys(),
        None => return dashboard(&cli, telemetry),
    };
    exit.into()
}

/// The dashboard, in builds that have one.
fn dashboard(cli: &Cli, telemetry: &Telemetry) -> std::process::ExitCode {
    #[cfg(feature = "tui")]
    return dashboard::run(cli, telemetry).unwrap_or_else(Into::into);
    #[cfg(not(feature = "tui"))]
    let _ = (cli, telemetry);
    #[cfg(not(feature = "tui"))]
    output::refuse("this build has no dashboard; see `mcpdeck --help` for what it has").into()
}
