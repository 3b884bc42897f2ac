//! The built-in documentation: rules, topics, schemas, completions, the manual page.

use std::fmt::Write as _;

use clap::CommandFactory;

use super::args::{Cli, ExplainArgs, SchemaKind};
use super::output::{CommandResult, ExitStatus};
use super::{complete, output};
use ::check::answers::Answers;
use ::check::expect::Expectations;
use ::check::{report, rule};
use ::deck::{Lock, schema_of};
use base::text::nearest;

/// `mcpdeck explain [RULE]`
pub fn explain(args: &ExplainArgs) -> CommandResult {
    let wanted = args.rule.as_deref().map(rule::parse).transpose();
    Ok(match wanted.map_err(|message| output::refuse(&message))? {
        Some(rule) if args.json => output::json(&rule_json(rule), ExitStatus::Ok),
        Some(rule) => output::print(&rule_text(rule), ExitStatus::Ok),
        None if args.json => {
            let all: serde_json::Value = rule::all().map(rule_json).collect();
            output::json(&all, ExitStatus::Ok)
        }
        None => output::print(&all_text(), ExitStatus::Ok),
    })
}

fn rule_text(rule: &rule::Rule) -> String {
    let mut text = format!("{} ({})\n  {}\n\n", rule.id, rule.severity, rule.summary);
    for (head, body) in [("Why", rule.why), ("What to do", rule.fix)] {
        let _ = writeln!(text, "{head}\n  {body}\n");
    }
    // What `mcpdeck test` finds is not a matter of the check.
    if !rule.id.starts_with("fuzz/") && !rule.id.starts_with("test/") {
        let _ = writeln!(
            text,
            "Ignore it once with `--allow {}`, or set its severity under `rules` in mcp.expect.json.",
            rule.id
        );
    }
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

fn rule_json(rule: &rule::Rule) -> serde_json::Value {
    serde_json::json!({
        "rule": rule.id, "severity": rule.severity, "summary": rule.summary,
        "why": rule.why, "help": rule.fix,
    })
}

/// `mcpdeck completions SHELL`
pub fn completions(shell: clap_complete::Shell) -> ExitStatus {
    output::print(&complete::script(shell), ExitStatus::Ok)
}

/// `mcpdeck man`
pub fn man() -> ExitStatus {
    shown(manual().map_err(|error| error.to_string()))
}

fn shown(text: Result<String, String>) -> ExitStatus {
    match text {
        Ok(text) => output::print(&text, ExitStatus::Ok),
        Err(message) => output::refuse(&message),
    }
}

/// The commands by what they are for; one that is not named here is in the last group.
const GROUPS: [(&str, &[&str]); 6] = [
    (
        "Use the servers",
        &["list", "call", "app", "read", "prompt", "request", "status", "login", "logout", "chat"],
    ),
    ("Find and add servers", &["search", "add", "upgrade", "remove", "import"]),
    ("Check and test", &["test", "load", "explain", "replay", "mock"]),
    ("Look back and share", &["open", "report", "scrub", "schema"]),
    ("Serve them to others", &["serve", "attach", "connect", "disconnect", "sync"]),
    (
        "Administer",
        &[
            "config",
            "trust",
            "policy",
            "audit",
            "grants",
            "token",
            "secret",
            "native-host",
            "completions",
            "man",
            "help",
        ],
    ),
];

/// The help of the program, as clap renders it, with its commands in groups. Other texts are left as
/// they are.
pub fn in_groups(help: &str) -> String {
    const TITLE: &str = "Commands:";
    let lines: Vec<(&str, String)> = help.lines().map(|line| (line, unstyled(line))).collect();
    let is_heading = |line: &str| !line.is_empty() && !line.starts_with(' ');
    let Some(begin) = lines.iter().position(|(_, plain)| plain == TITLE) else {
        return help.to_owned();
    };
    let rest = &lines[begin + 1..];
    let end = begin + 1 + rest.iter().position(|(_, it)| is_heading(it)).unwrap_or(rest.len());
    // Each command with the lines of its description.
    let mut commands: Vec<(String, Vec<&str>)> = Vec::new();
    for (line, plain) in &lines[begin + 1..end] {
        match plain.strip_prefix("  ").filter(|rest| !rest.starts_with(' ') && !rest.is_empty()) {
            Some(entry) => {
                let name = entry.split_whitespace().next().unwrap_or_default();
                commands.push((name.to_owned(), vec![line]));
            }
            None if plain.is_empty() => {}
            None => commands.iter_mut().last().into_iter().for_each(|(_, all)| all.push(line)),
        }
    }
    if !["list", "call"].iter().all(|own| commands.iter().any(|(name, _)| name == own)) {
        return help.to_owned();
    }
    let mut out: Vec<String> = lines[..begin].iter().map(|(line, _)| (*line).to_owned()).collect();
    for (at, (title, names)) in GROUPS.iter().enumerate() {
        let is_last = at + 1 == GROUPS.len();
        let known = |name: &str| GROUPS.iter().any(|(_, names)| names.contains(&name));
        let mut own: Vec<_> = commands
            .iter()
            .filter(|(name, _)| names.contains(&&**name) || (is_last && !known(name)))
            .collect();
        own.sort_by_key(|(name, _)| names.iter().position(|known| known == name));
        if own.is_empty() {
            continue;
        }
        out.push(lines[begin].0.replace(TITLE, &format!("{title}:")));
        out.extend(own.iter().flat_map(|(_, all)| all).map(|line| (*line).to_owned()));
        out.push(String::new());
    }
    out.extend(lines[end..].iter().map(|(line, _)| (*line).to_owned()));
    out.join("\n") + "\n"
}

/// A line without the sequences that style it.
fn unstyled(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("\x1b[") {
        out.push_str(before);
        rest = after.split_once('m').map_or("", |(_, rest)| rest);
    }
    out + rest
}

/// `mcpdeck help [TOPIC]...`
pub fn help(topic: &str) -> ExitStatus {
    shown(match topic {
        "" => Ok(format!(
            "{}\nTopics (`mcpdeck help TOPIC`; the help of a command likewise):\n{}",
            in_groups(&Cli::command().render_help().to_string()),
            list()
        )),
        #[cfg(feature = "tui")]
        "keys" => return keys(),
        topic => text(topic),
    })
}

/// `mcpdeck --keys`
#[cfg(feature = "tui")]
pub fn keys() -> ExitStatus {
    shown(tui::key_table())
}

/// `mcpdeck schema`
pub fn schema(which: SchemaKind) -> ExitStatus {
    let schema = match which {
        SchemaKind::Config => config::json_schema(),
        SchemaKind::Report => report::report_schema(),
        SchemaKind::Lock => schema_of::<Lock>(),
        SchemaKind::Expect => schema_of::<Expectations>(),
        SchemaKind::Answers => schema_of::<Answers>(),
        #[cfg(feature = "bench")]
        SchemaKind::Tests => schema_of::<::bench::TestFile>(),
        #[cfg(feature = "bench")]
        SchemaKind::TestReport => ::bench::outcome::report_schema(),
        SchemaKind::Policy => ::deck::policy_schema(),
        SchemaKind::Recording => ::deck::recording_schema(),
        #[cfg(unix)]
        SchemaKind::Native => ::deck::native_schema(),
        #[cfg(all(feature = "chat", feature = "gateway"))]
        SchemaKind::Ws => ::chat::socket::ws_schema(),
    };
    output::json(&schema, ExitStatus::Ok)
}

// Topics of `mcpdeck help TOPIC`, for what is too long for `--help`; also in the manual page.

/// One topic.
pub struct Topic {
    /// Its name.
    pub name: &'static str,
    /// What it is about, in a few words.
    pub about: &'static str,
    /// The text, at most 79 characters wide; begins with its name in capitals.
    pub text: &'static str,
}

/// The topic of this name, with the text from the file of that name.
macro_rules! topic {
    ($name:literal, $about:literal) => {
        Topic { name: $name, about: $about, text: include_str!(concat!("topics/", $name, ".txt")) }
    };
}

/// Every topic with a text of its own.
pub const TOPICS: [Topic; 18] = [
    topic!("configuration", "mcp.json: its keys, references, inputs"),
    topic!("dashboard", "the screen: tabs, keys of your own, signing in"),
    topic!("calls", "calling tools, answering servers"),
    topic!("check", "checks for CI: formats, verdicts, expectations"),
    topic!("tests", "suites of steps, fuzzing, coverage"),
    topic!("dev", "what happens while you edit a file or a server"),
    topic!("trust", "what may run without asking"),
    topic!("oauth", "servers elsewhere, and signing in to them"),
    topic!("serve", "the gateway to all servers: clients, tokens, grants, the operator"),
    topic!("permissions", "who may do what: rules, grants, reviews"),
    topic!("clients", "other MCP clients: connect them, take their servers over"),
    topic!("registry", "find, add, upgrade and remove servers"),
    topic!("chat", "chat with a model that calls the tools"),
    topic!("recordings", "record, look back, replay, share"),
    topic!("library", "from Rust, Python, Node and any other language"),
    topic!("environment", "variables, files, exit codes"),
    topic!("protection", "what is protected, and what is not"),
    topic!("systems", "Windows and macOS, completion, what measures it"),
];

/// The topics as a list, including `keys`, which is generated.
pub fn list() -> String {
    let topics = TOPICS.iter().map(|topic| (topic.name, topic.about));
    let all = topics.chain([("keys", "every key of the dashboard, with your changes")]);
    all.fold(String::new(), |mut out, (name, about)| {
        let _ = writeln!(out, "  {name:14} {about}");
        out
    })
}

/// The text of a topic or the help of a command.
///
/// # Errors
/// When there is no such topic or command; suggests the nearest topic or lists all.
pub fn text(wanted: &str) -> Result<String, String> {
    if let Some(topic) = TOPICS.iter().find(|topic| topic.name == wanted) {
        return Ok(topic.text.to_owned());
    }
    let mut command = Cli::command();
    command.build();
    let found = wanted.split(' ').try_fold(&mut command, |command, word| {
        command.find_subcommand_mut(word).filter(|verb| !verb.is_hide_set())
    });
    if let Some(verb) = found {
        return Ok(verb.render_long_help().to_string());
    }
    let names = TOPICS.iter().map(|topic| topic.name).chain(["keys"]);
    let near = nearest(wanted, names, 0.7);
    let shown = base::text::SafeText::line(wanted);
    Err(match near {
        Some(name) => format!("there is no help on `{shown}`; did you mean `{name}`?"),
        None => format!(
            "there is no help on `{shown}`; there is help on these, and on every command\n{}",
            list().trim_end()
        ),
    })
}

/// The manual page: the command, then each verb and each topic as a section, since there are no
/// other pages.
///
/// # Errors
/// Only when writing to memory fails.
pub fn manual() -> std::io::Result<String> {
    let mut page = Vec::new();
    clap_mangen::Man::new(Cli::command()).render(&mut page)?;
    let mut out = String::from_utf8_lossy(&page).into_owned();
    let mut command = Cli::command().term_width(72);
    command.build();
    let verbs = command.get_subcommands_mut().filter(|verb| !verb.is_hide_set());
    for verb in verbs {
        let name = verb.get_name().to_owned();
        out = out.replace(&format!("mcpdeck\\-{name}(1)"), &format!("mcpdeck {name}"));
        section(&mut out, &format!("MCPDECK {}", name.to_uppercase()));
        // Global options are described once, above.
        let own = |arg: clap::Arg| if arg.is_global_set() { arg.hide(true) } else { arg };
        verbatim(&mut out, &verb.clone().mut_args(own).render_long_help().to_string());
    }
    for topic in &TOPICS {
        verbatim(&mut out, topic.text);
    }
    out.push_str(".fi\n");
    Ok(out)
}

fn section(out: &mut String, title: &str) {
    let _ = write!(out, ".fi\n.SH {title}\n.nf\n");
}

/// Lines as they are; those in capitals begin sections.
fn verbatim(out: &mut String, text: &str) {
    for line in text.lines() {
        if !line.is_empty() && line.chars().all(|c| c.is_ascii_uppercase() || c == ' ') {
            section(out, line);
            continue;
        }
        // A dot or quote at the beginning of a line would be a roff request.
        if line.starts_with(['.', '\'']) {
            out.push_str("\\&");
        }
        out.push_str(&line.replace('\\', "\\e").replace('-', "\\-"));
        out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_topic_fits_a_terminal_and_begins_with_its_name() {
        for topic in &TOPICS {
            let first = topic.text.lines().next();
            assert_eq!(first, Some(topic.name.to_uppercase().as_str()));
            for line in topic.text.lines() {
                assert!(line.chars().count() <= 80 && line.is_ascii(), "{}: {line}", topic.name);
            }
            assert_eq!(text(topic.name).as_deref(), Ok(topic.text));
        }
    }

    #[test]
    fn commands_have_their_help_and_a_misspelt_topic_is_found() {
        assert!(text("call").is_ok_and(|text| text.contains("mcpdeck call @oslo")));
        assert!(text("grants add").is_ok_and(|text| text.contains("--always")));
        assert!(text("grants ad").is_err());
        assert!(text("configuraton").is_err_and(|e| e.contains("did you mean `configuration`?")));
        assert!(text("xyzzy").is_err_and(|e| e.contains("environment")));
        assert!(text("demo-server").is_err());
    }

    #[test]
    fn the_manual_holds_every_topic_and_no_stray_request() {
        let manual = manual().expect("memory");
        assert!(!manual.contains("(1)\n.br") && !manual.contains("\\-call(1)"), "one page");
        assert!(manual.contains(".SH MCPDECK CALL\n"));
        let option = "\\fB\\-\\-log\\-payloads\\fR";
        assert_eq!(manual.matches(option).count(), 2, "in the synopsis and the options");
        let ours = manual.find(".SH MCPDECK LIST").expect("the verbs");
        for topic in &TOPICS {
            assert!(manual.contains(&format!(".SH {}\n", topic.name.to_uppercase())));
        }
        let requests = manual[ours..].lines().filter(|line| line.starts_with(['.', '\'']));
        assert!(requests.into_iter().all(|l| l.starts_with(".SH ") || l == ".nf" || l == ".fi"));
    }
}

#[cfg(test)]
mod group_tests {
    use super::*;

    #[test]
    fn every_command_is_in_one_group_and_its_description_goes_with_it() {
        let mut command = Cli::command().term_width(80);
        for plain in [command.render_help().to_string(), command.render_long_help().to_string()] {
            let grouped = in_groups(&plain);
            assert!(!grouped.contains("\nCommands:\n"), "{grouped}");
            let sorted = |text: &str| {
                let mut lines: Vec<_> = text.split_whitespace().map(str::to_owned).collect();
                lines.sort();
                lines
            };
            let titles: String = GROUPS.iter().flat_map(|(title, _)| [" ", title, ":"]).collect();
            let all = format!("{}{titles}", plain.replace("\nCommands:\n", "\n"));
            assert_eq!(sorted(&grouped), sorted(&all));
            let at = |what: &str| grouped.find(what).expect(what);
            assert!(at("\n  list ") < at("\n  serve ") && at("\n  serve ") < at("\n  grants "));
        }
        let ungrouped: Vec<_> = command
            .get_subcommands()
            .filter(|verb| !verb.is_hide_set())
            .map(|verb| verb.get_name().to_owned())
            .filter(|name| !GROUPS.iter().any(|(_, names)| names.contains(&&**name)))
            .collect();
        assert_eq!(ungrouped, [""; 0]);
    }

    #[test]
    fn styles_and_other_texts_are_kept() {
        let styled = "\x1b[1mUsage:\x1b[0m\n\n\x1b[1mCommands:\x1b[0m\n  \x1b[1mserve\x1b[0m  S\n  \
                      \x1b[1mcall\x1b[0m  C\n         more\n  \x1b[1mlist\x1b[0m  L\n\nOptions:\n";
        assert_eq!(
            in_groups(styled),
            "\x1b[1mUsage:\x1b[0m\n\n\x1b[1mUse the servers:\x1b[0m\n  \x1b[1mlist\x1b[0m  L\n  \
             \x1b[1mcall\x1b[0m  C\n         more\n\n\x1b[1mServe them to others:\x1b[0m\n  \
             \x1b[1mserve\x1b[0m  S\n\nOptions:\n"
        );
        let other = "Usage: x\n\nCommands:\n  list  L\n";
        assert_eq!(in_groups(other), other);
    }
}
