//! What the program says about itself: rules, completions, the manual page.

use std::fmt::Write as _;

use clap::CommandFactory;

use super::args::{Cli, ExplainArgs, SchemaKind};
use super::exit::{Done, Exit};
use super::{complete, output, topics};
use crate::base::text::json;
use crate::check::{report, rule};

/// `mcpdeck explain [RULE]`
pub fn explain(args: &ExplainArgs) -> Done {
    let Some(wanted) = &args.rule else {
        return Ok(output::print(&if args.json { all_json() } else { all_text() }, Exit::Ok));
    };
    let id = rule::RuleId::parse(wanted).map_err(|message| output::refuse(&message))?;
    let found = rule::find(id.as_str()).ok_or_else(|| output::refuse("there is no such rule"))?;
    let text = if args.json { json::pretty(&rule_json(found)) + "\n" } else { rule_text(found) };
    Ok(output::print(&text, Exit::Ok))
}

fn rule_text(rule: &rule::Rule) -> String {
    let mut text = format!("{} ({})\n  {}\n\n", rule.id, rule.severity, rule.summary);
    for (head, body) in [("Why", rule.why), ("What to do", rule.fix)] {
        let _ = writeln!(text, "{head}\n{}\n", wrap(body, 78));
    }
    let _ = writeln!(
        text,
        "Ignore it once with `--allow {}`, or set its severity under `rules` in mcp.expect.json.",
        rule.id
    );
    text
}

fn all_text() -> String {
    let width = rule::all().map(|r| r.id.len()).max().unwrap_or(0);
    let mut text = String::new();
    for rule in rule::all() {
        let severity = rule.severity.to_string();
        let _ = writeln!(text, "{:width$}  {severity:7}  {}", rule.id, rule.summary);
    }
    text.push_str("\n`mcpdeck explain RULE` says why it matters and what to do.\n");
    text
}

fn all_json() -> String {
    let rules: Vec<_> = rule::all().map(rule_json).collect();
    json::pretty(&rules) + "\n"
}

fn rule_json(rule: &rule::Rule) -> serde_json::Value {
    serde_json::json!({
        "rule": rule.id, "severity": rule.severity, "summary": rule.summary,
        "why": rule.why, "help": rule.fix,
    })
}

/// Breaks `text` into lines of at most `width` characters, indented by two.
fn wrap(text: &str, width: usize) -> String {
    let mut out = String::from(" ");
    let mut column = 1;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if column + 1 + length > width {
            out.push_str("\n ");
            column = 1;
        }
        out.push(' ');
        out.push_str(word);
        column += 1 + length;
    }
    out
}

/// `mcpdeck completions SHELL`
pub fn completions(shell: clap_complete::Shell) -> Exit {
    output::print(&complete::script(shell), Exit::Ok)
}

/// `mcpdeck man`
pub fn man() -> Exit {
    match topics::manual() {
        Ok(page) => output::print(&page, Exit::Ok),
        Err(error) => output::refuse(&error.to_string()),
    }
}

/// `mcpdeck help [TOPIC]`
pub fn help(topic: Option<&str>) -> Exit {
    let text = match topic {
        None => Ok(format!(
            "{}\nTopics (`mcpdeck help TOPIC`; the help of a command likewise):\n{}",
            Cli::command().render_help(),
            topics::list()
        )),
        #[cfg(feature = "tui")]
        Some("keys") => return keys(),
        Some(topic) => topics::text(topic),
    };
    match text {
        Ok(text) => output::print(&text, Exit::Ok),
        Err(message) => output::refuse(&message),
    }
}

/// `mcpdeck --keys`
#[cfg(feature = "tui")]
pub fn keys() -> Exit {
    match crate::tui::key_table() {
        Ok(table) => output::print(&table, Exit::Ok),
        Err(problem) => output::refuse(&problem),
    }
}

/// `mcpdeck schema`
pub fn schema(which: SchemaKind) -> Exit {
    let schema = match which {
        SchemaKind::Config => crate::config::json_schema(),
        SchemaKind::Report => report::report_schema(),
        SchemaKind::Lock => report::lock_schema(),
        SchemaKind::Expect => report::expectations_schema(),
        SchemaKind::Answers => report::answers_schema(),
        SchemaKind::Policy => crate::deck::policy::policy_schema(),
        SchemaKind::Recording => crate::deck::recording::json_schema(),
    };
    output::print(&(json::pretty(&schema) + "\n"), Exit::Ok)
}
