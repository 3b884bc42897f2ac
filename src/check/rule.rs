//! The rules by name: id, default severity, and the words that explain them. Decides nothing.

use std::borrow::Cow;
use std::fmt;
use std::sync::LazyLock;

use super::{Finding, Severity};
use crate::base::text::nearest;

/// The id of a rule that exists.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RuleId(&'static str);

impl RuleId {
    /// The id with this spelling.
    ///
    /// # Errors
    /// Names the nearest rule.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Some(rule) = find(text) {
            return Ok(Self(rule.id));
        }
        Err(match nearest(text, all().map(|rule| rule.id), 0.7) {
            Some(id) => format!("there is no rule `{text}`; did you mean `{id}`?"),
            None => format!("there is no rule `{text}`; `mcpdeck explain` lists them"),
        })
    }

    /// Its spelling.
    pub const fn as_str(self) -> &'static str {
        self.0
    }
}

impl fmt::Debug for RuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl fmt::Display for RuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// The rule with this id.
pub fn find(id: &str) -> Option<&'static Rule> {
    SORTED.binary_search_by_key(&id, |rule| rule.id).ok().and_then(|i| SORTED.get(i).copied())
}

/// All rules, by id.
pub fn all() -> impl Iterator<Item = &'static Rule> {
    SORTED.iter().copied()
}

static SORTED: LazyLock<Vec<&'static Rule>> = LazyLock::new(|| {
    let tables = [AGREEMENTS, CONDUCT, DEFINITIONS];
    let mut all: Vec<&'static Rule> = tables.into_iter().flatten().collect();
    all.sort_by_key(|rule| rule.id);
    all
});

/// A finding of `rule` with its default severity and fix.
///
/// An id that is not in the table is a mistake of the caller; it is reported as an error without
/// explanation rather than lost.
pub fn finding(
    rule: &'static str,
    place: impl Into<String>,
    message: impl Into<String>,
) -> Finding {
    let known = find(rule);
    debug_assert!(known.is_some(), "{rule} is not in the table of rules");
    Finding {
        rule: Cow::Borrowed(rule),
        severity: known.map_or(Severity::Error, |r| r.severity),
        message: message.into(),
        place: place.into(),
        help: known.map(|r| r.fix.to_owned()).unwrap_or_default(),
        at: None,
    }
}

// One rule of the check: what it finds, and what to do about it.

/// A rule of the check.
#[derive(Debug, PartialEq, Eq)]
pub struct Rule {
    /// Stable id, `group/name`.
    pub id: &'static str,
    /// Severity unless the expectations file says otherwise.
    pub severity: Severity,
    /// What it finds, in a few words.
    pub summary: &'static str,
    /// Why it matters.
    pub why: &'static str,
    /// What to do.
    pub fix: &'static str,
}

// Rules about what was agreed before: expectations and the lock file. Data only.

const AGREEMENTS: &[Rule] = &[
    Rule {
        id: "expect/forbidden-tool",
        severity: Severity::Error,
        summary: "a forbidden tool is offered",
        why: "The expectations file names this tool as one that must not exist.",
        fix: "remove the tool, hide it with `tools.deny`, or take it off `forbidden`",
    },
    Rule {
        id: "expect/missing-prompt",
        severity: Severity::Error,
        summary: "an expected prompt is missing",
        why: "The expectations file says that this prompt must exist.",
        fix: "restore the prompt, or correct mcp.expect.json",
    },
    Rule {
        id: "expect/missing-resource",
        severity: Severity::Error,
        summary: "an expected resource is missing",
        why: "The expectations file says that this resource or template must exist.",
        fix: "restore the resource, or correct mcp.expect.json",
    },
    Rule {
        id: "expect/missing-server",
        severity: Severity::Error,
        summary: "an expected server is missing",
        why: "The expectations file names a server that the configuration does not have.",
        fix: "add the server to the configuration, or correct mcp.expect.json",
    },
    Rule {
        id: "expect/missing-tool",
        severity: Severity::Error,
        summary: "an expected tool is missing",
        why: "The expectations file says that this tool must exist.",
        fix: "restore the tool, or correct mcp.expect.json",
    },
    Rule {
        id: "expect/parameter",
        severity: Severity::Error,
        summary: "a parameter is not as expected",
        why: "The expectations file says which parameters a tool takes, of which type, and which are required; a caller written for that breaks.",
        fix: "restore the parameter, or correct mcp.expect.json",
    },
    Rule {
        id: "expect/sample",
        severity: Severity::Error,
        summary: "a sample call did not give what was expected",
        why: "The call is in the expectations file with what its result must be.",
        fix: "compare the result with the expectation; correct the one that is wrong",
    },
    Rule {
        id: "lock/added",
        severity: Severity::Warning,
        summary: "something new that is not in the lock file",
        why: "A tool, prompt or resource appeared since the lock file was written. Nobody has reviewed it.",
        fix: "review it, then run `mcpdeck --check --lock`",
    },
    Rule {
        id: "lock/authorization",
        severity: Severity::Error,
        summary: "signing in leads to another place than was reviewed",
        why: "The server names another authorization server, or that one other endpoints, than when the lock file was written. Who signs in there hands over their consent.",
        fix: "make sure that the move is the server's own, then run `mcpdeck --check --lock`",
    },
    Rule {
        id: "lock/changed",
        severity: Severity::Warning,
        summary: "a definition differs from the lock file",
        why: "The server's definition changed since it was reviewed. The message names the field with its old and new value.",
        fix: "review the change, then run `mcpdeck --check --lock`",
    },
    Rule {
        id: "lock/hidden-characters",
        severity: Severity::Error,
        summary: "a changed text now hides characters",
        why: "A definition changed since it was reviewed, and the new text holds invisible or control characters that the old one did not: a common way to slip instructions past a reviewer.",
        fix: "do not accept it before the server's author has explained it",
    },
    Rule {
        id: "lock/hint-flipped",
        severity: Severity::Error,
        summary: "a behaviour hint changed",
        why: "A tool that was reviewed as read-only (or not destructive, idempotent, closed) says otherwise now. Approvals given for the old behaviour do not cover the new one.",
        fix: "review the tool again, then run `mcpdeck --check --lock`",
    },
    Rule {
        id: "lock/instruction",
        severity: Severity::Error,
        summary: "a changed text now instructs the model",
        why: "A definition changed since it was reviewed, and the new text contains words that instruct the model which the old one did not.",
        fix: "read the new text in full before accepting it with `mcpdeck --check --lock`",
    },
    Rule {
        id: "lock/new-url",
        severity: Severity::Error,
        summary: "a changed text now holds a new URL",
        why: "A definition changed since it was reviewed and names an address that it did not name before.",
        fix: "make sure that the address is the author's before running `mcpdeck --check --lock`",
    },
    Rule {
        id: "lock/removed",
        severity: Severity::Error,
        summary: "something in the lock file is gone",
        why: "A tool, prompt or resource that was reviewed and is perhaps relied upon is no longer offered.",
        fix: "restore it, or run `mcpdeck --check --lock` if it was meant to go",
    },
    Rule {
        id: "lock/schema-loosened",
        severity: Severity::Error,
        summary: "a schema accepts more than before",
        why: "A constraint that was reviewed is gone: a required parameter became optional, a type or enum got wider, a limit was lifted, or extra properties became allowed.",
        fix: "review what the tool does with the wider input, then run `mcpdeck --check --lock`",
    },
    Rule {
        id: "lock/stale",
        severity: Severity::Warning,
        summary: "the lock file names a server that is gone",
        why: "The lock file is out of date: it has an entry for a server that does not exist.",
        fix: "run `mcpdeck --check --lock` to write the file anew",
    },
    Rule {
        id: "lock/unlocked",
        severity: Severity::Warning,
        summary: "a server is not in the lock file",
        why: "The lock file exists, so servers are meant to be reviewed; this one was not.",
        fix: "review it, then run `mcpdeck --check --lock`",
    },
];

// Rules about how a server behaves, and about the configuration that starts it. Data only.

const CONDUCT: &[Rule] = &[
    Rule {
        id: "answers/denied",
        severity: Severity::Note,
        summary: "a request of the server was denied",
        why: "A server asked for sampling or elicitation during the check and no scripted answer matched, so it was refused as the specification says. What the server does after a refusal is what was checked.",
        fix: "add an entry for it to the file of --answers",
    },
    Rule {
        id: "config/problem",
        severity: Severity::Error,
        summary: "a problem of the configuration",
        why: "The file, or the entry of a server in it, is not what mcpdeck understands. Ids that begin with `config/` name the exact problem; `mcpdeck config` shows it with its line.",
        fix: "correct the configuration; `mcpdeck schema config` prints what editors need to complete it",
    },
    Rule {
        id: "protocol/deprecated",
        severity: Severity::Note,
        summary: "a feature deprecated for the negotiated version",
        why: "It works today with hosts that still know it; newer hosts will not.",
        fix: "use what replaced it; the message names it",
    },
    Rule {
        id: "protocol/flood",
        severity: Severity::Error,
        summary: "the server sends more requests than a host will hold",
        why: "Requests beyond the limit are refused so that one server cannot flood a person with requests.",
        fix: "ask only while a call is running, one question at a time",
    },
    Rule {
        id: "protocol/late-answer",
        severity: Severity::Note,
        summary: "an answer came after its deadline",
        why: "The call had already failed when the answer came; nobody saw it.",
        fix: "answer faster, send progress, or raise `timeout` for this server",
    },
    Rule {
        id: "protocol/malformed",
        severity: Severity::Error,
        summary: "a message is not valid JSON-RPC",
        why: "Strict clients drop it, and the call it belongs to hangs until its timeout.",
        fix: "send exactly one JSON-RPC 2.0 object per line, UTF-8, no line breaks inside",
    },
    Rule {
        id: "protocol/not-allowed",
        severity: Severity::Warning,
        summary: "a message the negotiated version does not allow",
        why: "Clients refuse it, or close the connection.",
        fix: "send only what the negotiated version defines, and only after the handshake",
    },
    Rule {
        id: "protocol/too-large",
        severity: Severity::Error,
        summary: "a message is larger than hosts accept",
        why: "A message over the limits is refused, and the call it belongs to fails.",
        fix: "page the list or the result; the limits can be raised per server",
    },
    Rule {
        id: "protocol/unknown-answer",
        severity: Severity::Error,
        summary: "an answer to something that was not asked",
        why: "Ids that were never sent, or were already answered, mean that calls and results can be mixed up.",
        fix: "answer each request once, with its own id and the id's own type",
    },
    Rule {
        id: "protocol/version",
        severity: Severity::Warning,
        summary: "the version negotiated is unknown",
        why: "A host cannot know which rules hold.",
        fix: "answer with a dated version that the specification has published",
    },
    Rule {
        id: "protocol/wrong-shape",
        severity: Severity::Error,
        summary: "a result does not have the shape of its method",
        why: "Typed clients fail to decode it.",
        fix: "send the result as the specification defines it for this method",
    },
    Rule {
        id: "run/interrupted",
        severity: Severity::Error,
        summary: "the check was interrupted before it was done with the server",
        why: "Ctrl-C or a signal ended the run. What had been seen until then is reported; nothing can be said about the rest.",
        fix: "run the check again, or raise the time limit of the job that ended it",
    },
    Rule {
        id: "run/nothing",
        severity: Severity::Warning,
        summary: "there was nothing to check",
        why: "A check over no server finds nothing wrong. In a pipeline that is a mistake more often than not: another file was meant, or the servers were taken out of it.",
        fix: "name the file with --config, add or enable servers, or allow it with `--allow run/nothing`",
    },
    Rule {
        id: "start/dependency",
        severity: Severity::Error,
        summary: "a server it depends on is not available",
        why: "It was not started, because the configuration says that it needs the other one.",
        fix: "make the other server start; its own findings say why it does not",
    },
    Rule {
        id: "start/executable",
        severity: Severity::Error,
        summary: "the executable was not found or cannot be run",
        why: "Nothing could be started, so nothing is known of the server.",
        fix: "install the program, correct `command`, or extend PATH",
    },
    Rule {
        id: "start/exited",
        severity: Severity::Error,
        summary: "the process ended before it was ready",
        why: "The last lines of its stderr usually say why.",
        fix: "read the stderr lines; run the command manually",
    },
    Rule {
        id: "start/failed",
        severity: Severity::Error,
        summary: "the server could not be started or reached",
        why: "Nothing could be established about it.",
        fix: "the detail of the failed step says what was seen",
    },
    Rule {
        id: "start/timeout",
        severity: Severity::Error,
        summary: "the server did not become ready in time",
        why: "It did not answer within `startupTimeout`: it hangs, waits for something, or is still downloading.",
        fix: "run the command manually; raise `startupTimeout` or --timeout if it is only slow",
    },
    Rule {
        id: "start/unauthorized",
        severity: Severity::Error,
        summary: "the server asks for authorisation",
        why: "It answered 401 and no token is at hand. A headless run cannot open a browser.",
        fix: "sign in once with `mcpdeck login SERVER`, or set a header in the configuration",
    },
    Rule {
        id: "start/untrusted",
        severity: Severity::Error,
        summary: "the command was not approved",
        why: "--require-trust starts only what was approved before, and this command, its arguments or environment are new or changed.",
        fix: "open the dashboard and approve the server, or run without --require-trust",
    },
    Rule {
        id: "stdout/pollution",
        severity: Severity::Warning,
        summary: "lines on stdout that are not JSON-RPC",
        why: "stdout belongs to the protocol; a banner or a log line there breaks strict clients.",
        fix: "write logs to stderr",
    },
    Rule {
        id: "stop/exit-code",
        severity: Severity::Note,
        summary: "the process ended with an error when it was stopped",
        why: "Closing stdin is the ordinary end of a stdio session; a server that fails then loses what it had not written.",
        fix: "exit with code 0 when stdin closes",
    },
    Rule {
        id: "stop/ignored-stdin",
        severity: Severity::Error,
        summary: "the server does not exit when its stdin closes",
        why: "Every host that ends leaves this server running; this one had to send signals.",
        fix: "exit when reading from stdin gives end of file",
    },
    Rule {
        id: "stop/leftover",
        severity: Severity::Error,
        summary: "processes were left running",
        why: "They keep ports, files and memory after the host is gone. They were ended now.",
        fix: "end child processes before exiting, and start them in the same process group",
    },
    Rule {
        id: "stop/unexpected-exit",
        severity: Severity::Error,
        summary: "the process exited unexpectedly",
        why: "It was ready and then died while it was being checked.",
        fix: "read the stderr lines and the exit code",
    },
    Rule {
        id: "stop/waits-for-answer",
        severity: Severity::Note,
        summary: "the server waited for an answer that could no longer come",
        why: "It asked its client something after its stdin was closed, and waited; a signal ended it.",
        fix: "give up open requests and exit when reading from stdin gives end of file",
    },
];

// Rules about what a server offers: names, texts, schemas, hints, size. Data only.

const DEFINITIONS: &[Rule] = &[
    Rule {
        id: "context/budget",
        severity: Severity::Warning,
        summary: "definitions cost more context than budgeted",
        why: "Every tool, prompt and resource definition is put in front of a model on every turn. The size is exact in bytes; the tokens are an estimate (a token for every four bytes) because every model counts its own way.",
        fix: "shorten descriptions and schemas, hide tools with `tools.deny`, or raise `budgets` in mcp.expect.json",
    },
    Rule {
        id: "describe/long",
        severity: Severity::Warning,
        summary: "a description is very long",
        why: "Long descriptions cost context on every turn and hide what stands at their end from the person who approves them.",
        fix: "keep it under 4 KB and move the rest to documentation or to a prompt; `limits.descriptionBytes` of the server allows more",
    },
    Rule {
        id: "describe/missing",
        severity: Severity::Note,
        summary: "a tool or prompt has no description",
        why: "Without a description a model has only the name to choose by.",
        fix: "add a sentence that says what it does and when to use it",
    },
    Rule {
        id: "describe/parameter",
        severity: Severity::Note,
        summary: "a parameter has no description",
        why: "A model fills parameters it does not understand with guesses.",
        fix: "add a `description` to the parameter in `inputSchema`",
    },
    Rule {
        id: "describe/short",
        severity: Severity::Note,
        summary: "a description is a single word",
        why: "One word rarely tells a model more than the name did.",
        fix: "write a sentence that says what it does and when to use it",
    },
    Rule {
        id: "hint/contradiction",
        severity: Severity::Warning,
        summary: "annotations contradict each other or the name",
        why: "Hosts decide by these hints whether to ask a person first. A tool that says it only reads and also that it destroys, or that is named `delete` and claims to be read-only, is trusted wrongly.",
        fix: "set `readOnlyHint`, `destructiveHint` and `idempotentHint` to what the tool does",
    },
    Rule {
        id: "list/bad-entry",
        severity: Severity::Error,
        summary: "a list entry is malformed",
        why: "Hosts drop such an entry, or with strict decoders the whole list.",
        fix: "send the entry as the specification has it; the message says which field is wrong",
    },
    Rule {
        id: "list/partial",
        severity: Severity::Error,
        summary: "a list could not be fetched completely",
        why: "A later page failed, a cursor repeated, or the list was longer than the limits allow: tools are missing and nobody can tell which.",
        fix: "answer every page, end with no `nextCursor`, and never repeat a cursor",
    },
    Rule {
        id: "list/unstable",
        severity: Severity::Warning,
        summary: "definitions changed during the check",
        why: "What is reviewed, locked or approved is one of several definitions that come and go; the next start may bring another.",
        fix: "list the same definition every time; what a lock file holds of it is the one seen last",
    },
    Rule {
        id: "name/duplicate",
        severity: Severity::Error,
        summary: "two entries of one server have the same name",
        why: "A caller cannot tell which one answers.",
        fix: "give each entry of a list its own name",
    },
    Rule {
        id: "name/duplicate-across",
        severity: Severity::Note,
        summary: "several servers offer the same name",
        why: "The full name `server.tool` stays unambiguous, but a host that flattens names will pick one.",
        fix: "rename one of them, or hide it with `tools.deny`",
    },
    Rule {
        id: "name/length",
        severity: Severity::Warning,
        summary: "a name is longer than 128 characters",
        why: "The specification limits tool names to 128 characters, and several model providers to 64.",
        fix: "choose a shorter name",
    },
    Rule {
        id: "name/look-alike",
        severity: Severity::Error,
        summary: "a name looks like another one",
        why: "Two names differ only in characters that look the same, in letter case or in separators: a person who approves one may get the other.",
        fix: "rename one of them, so that more than case, separators or look-alike letters tell them apart",
    },
    Rule {
        id: "name/pattern",
        severity: Severity::Warning,
        summary: "a name has characters that callers refuse",
        why: "The specification allows ASCII letters, digits, `_`, `-`, `.` and `/`-free names; model providers refuse the rest.",
        fix: "use only A-Z, a-z, 0-9, `_`, `-` and `.`",
    },
    Rule {
        id: "name/shadow",
        severity: Severity::Warning,
        summary: "a text refers to another server's tool",
        why: "A description that speaks about a tool of another server can steer how a model uses that one, without ever being called itself.",
        fix: "remove the reference, or separate the two servers",
    },
    Rule {
        id: "schema/dialect",
        severity: Severity::Warning,
        summary: "a schema declares a dialect that is not supported",
        why: "The specification names 2020-12 as default; draft-07 is common. Others are not checked by most hosts, so arguments go unvalidated.",
        fix: "drop `$schema`, or declare 2020-12 or draft-07",
    },
    Rule {
        id: "schema/invalid",
        severity: Severity::Error,
        summary: "a schema is not valid JSON Schema",
        why: "Hosts and model providers refuse the tool, often together with every other tool of the request.",
        fix: "correct the schema at the place named",
    },
    Rule {
        id: "schema/remote-ref",
        severity: Severity::Error,
        summary: "a schema refers to a file or an address",
        why: "The specification forbids fetching it: whoever controls the address would control the schema, and the fetch itself tells where it runs.",
        fix: "put the definition into `$defs` and refer to it with `#/$defs/NAME`",
    },
    Rule {
        id: "schema/root",
        severity: Severity::Error,
        summary: "the root of a schema is not an object",
        why: "Arguments and structured content are objects; the specification requires `\"type\": \"object\"` at the root.",
        fix: "set `\"type\": \"object\"` at the root of the schema",
    },
    Rule {
        id: "schema/too-complex",
        severity: Severity::Warning,
        summary: "a schema is too deep or too large to check",
        why: "Validation against it could take longer than any caller waits.",
        fix: "make it flatter; the limits are 32 levels and 2,000 sub-schemas",
    },
    Rule {
        id: "schema/unresolved-ref",
        severity: Severity::Error,
        summary: "a schema refers to a definition it does not have",
        why: "Validators refuse the whole schema.",
        fix: "add the definition, or correct the pointer",
    },
    Rule {
        id: "text/buried",
        severity: Severity::Error,
        summary: "text is hidden below blank lines",
        why: "Many empty lines push text out of sight of the person who reviews it, while a model still reads it.",
        fix: "remove the empty lines",
    },
    Rule {
        id: "text/control",
        severity: Severity::Error,
        summary: "control characters or terminal escapes in a text",
        why: "They can move a terminal's cursor, recolour or overwrite what is shown, or set the clipboard.",
        fix: "send plain text; line breaks and tabs are fine",
    },
    Rule {
        id: "text/hidden",
        severity: Severity::Error,
        summary: "invisible or direction-changing characters in a text",
        why: "Tag characters, zero-width characters, bidi overrides and the like are read by a model but not seen by a person.",
        fix: "remove them; the message names the code points",
    },
    Rule {
        id: "text/instruction",
        severity: Severity::Warning,
        summary: "a text instructs the model",
        why: "Descriptions should say what a tool does. Words that tell a model to ignore, to hide, to always call something first or to pass on secrets are how poisoned tools work.",
        fix: "describe what the tool does, and leave what the model should do to the user",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_sorted_and_spelt_as_group_and_name() {
        let ids: Vec<&str> = all().map(|r| r.id).collect();
        assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
        for id in ids {
            let (group, name) = id.split_once('/').expect("group/name");
            let plain =
                |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_lowercase() || b == b'-');
            assert!(plain(group) && plain(name), "{id}");
        }
    }

    #[test]
    fn every_rule_says_what_why_and_what_to_do() {
        for rule in all() {
            for text in [rule.summary, rule.why, rule.fix] {
                assert!(text.len() > 15, "{}: {text:?}", rule.id);
            }
        }
    }

    #[test]
    fn a_misspelt_rule_names_the_nearest() {
        let error = RuleId::parse("name/patern").expect_err("no such rule");
        assert!(error.contains("`name/pattern`"), "{error}");
    }
}
