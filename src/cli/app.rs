//! `app`: the page of a tool in a browser, with the answer of a call.

use std::time::Instant;

use clap::Args;
use serde_json::json;
use tokio::sync::watch;

use super::args::{AskArgs, Common};
use super::deck::{Invocation, Need, Scene};
use super::operate::{ArgumentWords, Prepared, prepare, trace_context, words};
use super::outcome::{Aside, Printer};
use super::output::{CommandResult, ExitStatus};
use super::{consent, output};
use crate::telemetry::Telemetry;
use ::apps::{AppCall, AppEvent, AppListener, CalledTool};
use ::check::answers::AnswerScript;
use ::deck::open_browser;
use base::SafeText;
use config::error::{Error, ErrorCode};
use host::{CallOptions, Origin, OutsideError, TargetKind, TraceContext};

pub const EXAMPLES: &str = "\
The page runs in a sandbox, at an address of this machine that works once. It reaches nothing
unless its server names the addresses and you allow them on the page. Tools that it calls are
calls of app:SERVER, which the policy binds: the page asks before those that are not annotated as
read-only.

Examples:
  mcpdeck app charts.sales year=2026
  mcpdeck app charts.sales --no-browser      print the address; open it yourself
  mcpdeck app weather.map city=Oslo -- node server.js";

/// `mcpdeck app`
#[derive(Debug, Args)]
pub struct AppArgs {
    /// Tool: `server.tool`, or its bare name when only one server has it.
    pub name: String,
    /// A JSON object, key=value pairs, @file with JSON, or - for JSON on stdin.
    #[arg(value_name = "ARGUMENT")]
    pub arguments: Vec<String>,
    /// Do not open a browser: print the address.
    #[arg(long)]
    pub no_browser: bool,
    /// Options of every operation.
    #[command(flatten)]
    pub ask: AskArgs,
}

/// `mcpdeck app`
pub fn app(common: &Common, args: &AppArgs, telemetry: &Telemetry) -> CommandResult {
    let invocation = Invocation { common, one: &args.ask.one, telemetry };
    let format = args.ask.json.into();
    let printer = Printer { noun: "tool", target: &args.name, format, file: None };
    let answers = args.ask.answers.as_deref().map(AnswerScript::load).transpose();
    let answers = answers.map_err(|why| Error::new(ErrorCode::Validation, why));
    let answers = printer.need(answers)?.unwrap_or_default();
    let words = printer.need(words(&args.arguments))?;
    let need = Need::Owner(TargetKind::Tool, args.name.clone());
    let done = invocation.run(need, answers.clone(), async |scene| {
        match found(scene, invocation, (&args.name, &words)).await {
            Ok(prepared) => show(scene, (args, prepared), &printer, (common, &answers)).await,
            Err(error) => printer.failure(&error),
        }
    });
    done.or_else(|error| Ok(printer.failure(&error)))
}

/// The tool and its arguments; starts the other servers when the one expected no longer has it.
async fn found(
    scene: &Scene<'_>,
    invocation: Invocation<'_>,
    asked: (&str, &ArgumentWords),
) -> Result<Prepared, Error> {
    match prepare(scene.host, invocation, asked) {
        Err(error) if error.code == ErrorCode::ToolNotFound && scene.widen().await? => {
            prepare(scene.host, invocation, asked)
        }
        done => done,
    }
}

/// Serves the page, makes the call, and waits until the page is closed. Exits as the call does.
async fn show(
    scene: &Scene<'_>,
    (args, prepared): (&AppArgs, Prepared),
    printer: &Printer<'_>,
    (common, answers): (&Common, &AnswerScript),
) -> ExitStatus {
    let (host, server) = (scene.host, prepared.server.clone());
    let tool = match host.find_tool(&prepared.canonical) {
        Ok((_, tool)) => tool,
        Err(error) => return printer.failure(&error),
    };
    let (said, state) = watch::channel(CalledTool::Running);
    let (arguments, origin) = (prepared.arguments.value, Origin::Cli);
    let trace = trace_context();
    let call = AppCall {
        server: server.clone(),
        tool,
        arguments: arguments.clone(),
        origin: origin.clone(),
        trace: trace.clone(),
        state,
    };
    let (page, mut events) = match AppListener::open(host.clone(), call).await {
        Ok(opened) => opened,
        Err(error) => return printer.failure(&error),
    };
    announce(args, &page).await;
    let called = async {
        let options = CallOptions {
            origin,
            server: Some(server),
            numbers: Some(prepared.arguments.numbers.into()),
            asker: Some(page.asker(consent::at_terminal())),
            trace: trace.parent,
            meta: trace.more,
            ..CallOptions::default()
        };
        let began = Instant::now();
        let outcome = host.call_tool_with(&prepared.canonical, arguments, options).await;
        said.send_replace(match &outcome {
            Ok(outcome) => CalledTool::Answered((*outcome.result).clone()),
            Err(error) => CalledTool::Failed(OutsideError::from_error(error).message),
        });
        // The object with the address is all that a program reads.
        match outcome {
            Ok(outcome) if args.ask.json => {
                if outcome.is_error {
                    ExitStatus::Failed
                } else {
                    ExitStatus::Ok
                }
            }
            outcome => {
                printer.finish(outcome, &Aside::from_host(host, common, answers, began.elapsed()))
            }
        }
    };
    let watched = async {
        while let Some(event) = events.recv().await {
            match event {
                AppEvent::Opened => {}
                AppEvent::Logged(text) => output::complain(&format!("the app: {text}")),
            }
        }
        std::future::pending().await
    };
    tokio::select! {
        exit = async {
            let exit = called.await;
            page.finished().await;
            exit
        } => exit,
        never = watched => never,
    }
}

/// Says where the page is, and opens it.
async fn announce(args: &AppArgs, page: &AppListener) {
    let (url, domains) = (page.url(), page.domains());
    let named: Vec<&str> = domains.named().collect();
    if args.ask.json {
        let object = json!({
            "url": url, "uri": page.uri(), "asksToReach": named, "refused": domains.refused,
        });
        output::json_line(&object, ExitStatus::Ok);
    }
    for refused in &domains.refused {
        output::complain(&format!("the app names no address that can be allowed: {refused}"));
    }
    if !named.is_empty() {
        let named = SafeText::line(&named.join(", "));
        output::complain(&format!("the app asks to reach {named}; answer on its page"));
    }
    let shown = SafeText::line(url.as_str());
    if args.no_browser {
        if !args.ask.json {
            output::complain(&format!("the app: {shown} (works once)"));
        }
    } else if let Err(why) = open_browser(url.clone()).await {
        output::complain(&format!("{why}: open {shown} yourself (works once)"));
    } else {
        output::complain("the app is open in your browser; closing it ends this command");
    }
}

/// Shows results of the dashboard in the apps of their tools, whose calls belong to this trace.
#[cfg(feature = "tui")]
pub fn in_dashboard(trace: TraceContext) -> tui::OpenApp {
    use futures::FutureExt as _;
    std::sync::Arc::new(move |host: host::Host, request: tui::AppRequest| {
        let trace = trace.clone();
        async move {
            let tui::AppRequest { server, tool: name, arguments, result } = request;
            let view = host.snapshot();
            let tools = view.servers.get(&server).map(|server| &server.capabilities.tools);
            let tool = tools.and_then(|tools| tools.iter().find(|tool| tool.name == name));
            let gone = || {
                let message = "its server no longer lists this tool";
                Error::new(ErrorCode::ToolNotFound, message).server(&server)
            };
            let tool = tool.cloned().ok_or_else(gone)?;
            let (_answered, state) = watch::channel(CalledTool::Answered(result));
            let origin = Origin::Dashboard;
            let call = AppCall { server, tool, arguments, origin, trace, state };
            let (page, mut events) = AppListener::open(host, call).await?;
            let url = page.url().clone();
            // Served until it is closed. What it logs is in the log file.
            tokio::spawn(async move {
                let read = async { while events.recv().await.is_some() {} };
                tokio::select! {
                    () = page.finished() => {}
                    () = read => {}
                }
            });
            open_browser(url.clone()).await.map_err(|why| {
                let message = format!("{why}: open {url} yourself (works once)");
                Error::new(ErrorCode::Internal, message)
            })
        }
        .boxed()
    })
}
