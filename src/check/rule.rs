//! The table of rules: id, default severity, and the texts that explain them. Checks nothing.

use std::borrow::Cow;

use super::{CheckFinding, Severity};
use base::text::nearest;

/// The rule with this id.
pub fn find(id: &str) -> Option<&'static Rule> {
    RULES.binary_search_by_key(&id, |rule| rule.id).ok().map(|i| &RULES[i])
}

/// The rule a user named.
///
/// # Errors
/// When there is no such rule; suggests the nearest.
pub fn parse(text: &str) -> Result<&'static Rule, String> {
    find(text).ok_or_else(|| match nearest(text, all().map(|rule| rule.id), 0.7) {
        Some(id) => format!("there is no rule `{text}`; did you mean `{id}`?"),
        None => format!("there is no rule `{text}`; `mcpdeck explain` lists them"),
    })
}

/// All rules, by id.
pub fn all() -> impl Iterator<Item = &'static Rule> {
    RULES.iter()
}

/// A finding of `rule` with its default severity and fix.
///
/// An id that is not in the table is a bug of the caller; it is reported as an error without
/// explanation rather than lost.
pub fn finding(
    rule: &'static str,
    place: impl Into<String>,
    message: impl Into<String>,
) -> CheckFinding {
    let known = find(rule);
    debug_assert!(known.is_some(), "{rule} is not in the table of rules");
    CheckFinding {
        rule: Cow::Borrowed(rule),
        severity: known.map_or(Severity::Error, |r| r.severity),
        message: message.into(),
        place: place.into(),
        help: known.map(|r| r.fix.to_owned()).unwrap_or_default(),
        at: None,
    }
}

/// The first `most` findings; the last of them gives the number of the others.
pub(super) fn capped(mut found: Vec<CheckFinding>, most: usize, rest: &str) -> Vec<CheckFinding> {
    let more = found.len().saturating_sub(most);
    found.truncate(most);
    if let Some(last) = found.last_mut().filter(|_| more > 0) {
        last.message = format!("{} (and {more} more {rest})", last.message);
    }
    found
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

/// Rules in the order of their ids: severity, id and summary, then why it matters, then what to do.
macro_rules! rules {
    ($($severity:ident $id:literal $summary:literal $why:literal $fix:literal)*) => {
        &[$(Rule {
            id: $id,
            severity: Severity::$severity,
            summary: $summary,
            why: $why,
            fix: $fix,
        }),*]
    };
}

static RULES: &[Rule] = rules! {
    Note "answers/denied" "a request of the server was denied"
        "A server asked for sampling or elicitation during the check and no scripted answer matched, so it was refused as the specification says. What the server does after a refusal is what was checked."
        "add an entry for it to the file of --answers"

    Warning "card/differs" "the card of a server says something else than the server"
        "Clients and registries read the card (SEP-2127) before they connect: who the server is, at which address, what it offers. What it says and the server does not hold to misleads them, and may be the card of another server."
        "have the server's card made from the same source as its answers, or correct it"
    Warning "card/unusable" "the card of a server cannot be used"
        "The server has a card (SEP-2127) where clients look for one, and they cannot read it."
        "correct the card; its schema is named in its `$schema`"

    Error "config/problem" "a problem of the configuration"
        "The file, or the entry of a server in it, is not what mcpdeck understands. Ids that begin with `config/` name the exact problem; `mcpdeck config` shows it with its line."
        "correct the configuration; `mcpdeck schema config` prints what editors need to complete it"

    Warning "context/budget" "definitions cost more context than budgeted"
        "Every tool, prompt and resource definition is put in front of a model on every turn. The size is exact in bytes; the tokens are an estimate (a token for every four bytes) because every model counts its own way."
        "shorten descriptions and schemas, hide tools with `tools.deny`, or raise `budgets` in mcp.expect.json"

    Warning "describe/long" "a description is very long"
        "Long descriptions cost context on every turn and hide what stands at their end from the person who approves them."
        "keep it under 4 KB and move the rest to documentation or to a prompt; `limits.descriptionBytes` of the server allows more"
    Note "describe/missing" "a tool or prompt has no description"
        "Without a description a model has only the name to choose by."
        "add a sentence that says what it does and when to use it"
    Note "describe/parameter" "a parameter has no description"
        "A model fills parameters it does not understand with guesses."
        "add a `description` to the parameter in `inputSchema`"
    Note "describe/short" "a description is a single word"
        "One word rarely tells a model more than the name did."
        "write a sentence that says what it does and when to use it"

    Error "expect/forbidden-tool" "a forbidden tool is offered"
        "The expectations file names this tool as one that must not exist."
        "remove the tool, hide it with `tools.deny`, or take it off `forbidden`"
    Error "expect/missing-prompt" "an expected prompt is missing"
        "The expectations file says that this prompt must exist."
        "restore the prompt, or correct mcp.expect.json"
    Error "expect/missing-resource" "an expected resource is missing"
        "The expectations file says that this resource or template must exist."
        "restore the resource, or correct mcp.expect.json"
    Error "expect/missing-server" "an expected server is missing"
        "The expectations file names a server that the configuration does not have."
        "add the server to the configuration, or correct mcp.expect.json"
    Error "expect/missing-tool" "an expected tool is missing"
        "The expectations file says that this tool must exist."
        "restore the tool, or correct mcp.expect.json"
    Error "expect/parameter" "a parameter is not as expected"
        "The expectations file says which parameters a tool takes, of which type, and which are required; a caller written for that breaks."
        "restore the parameter, or correct mcp.expect.json"
    Error "expect/sample" "a sample call did not give what was expected"
        "The call is in the expectations file with what its result must be."
        "compare the result with the expectation; correct the one that is wrong"

    Note "fuzz/accepted" "arguments that the schema forbids are accepted"
        "A model is told by the schema what it may send. A tool that takes more hides mistakes of the model until they do harm."
        "check the arguments against the schema before using them, or loosen the schema; `fuzz.accepted` in the file of tests says how much it matters"
    Warning "fuzz/carryover" "an answer depends on earlier calls"
        "A read-only tool that answers the same arguments otherwise after it was called with others shows one caller what another did, or goes on with options that nobody gave."
        "make the calls that are shown, one after the other on one server; keep what belongs to a call out of what the server keeps"
    Error "fuzz/claim" "an annotation of a tool is not true"
        "Hosts call tools annotated read-only without asking, and repeat idempotent ones after a lost answer."
        "correct the annotation, or the tool"
    Error "fuzz/concurrency" "the server crashes when calls are under way at once"
        "Hosts send calls without waiting for earlier ones (JSON-RPC allows it), and one caller's calls end the server for everybody."
        "send the calls that are shown without waiting between them; guard what they share, or answer one after the other"
    Error "fuzz/crash" "the server crashes"
        "One call ends the server for every caller, with whatever it held."
        "make the call that is shown (`mcpdeck call --force`), and answer with an error instead"
    Error "fuzz/hang" "the server does not answer"
        "A caller waits until its time is over, and the server may stay blocked for everybody else."
        "make the call that is shown; give slow work a time limit, and report progress"
    Error "fuzz/leak" "an error shows what it must not"
        "Errors go to the model and to its provider: stack traces tell how the server is built, credentials open it."
        "answer with what went wrong in a sentence, and write the details to stderr"
    Warning "fuzz/memory" "the memory of the server keeps growing"
        "A server runs for as long as its host does; what every call leaves behind ends in a crash."
        "look for what is kept for every call: caches without a bound, open files, listeners"
    Error "fuzz/output" "a result does not fit the `outputSchema`"
        "Clients check structured content and refuse what does not fit: the call is lost."
        "correct the result or the schema"
    Error "fuzz/protocol" "an answer breaks the protocol"
        "Clients drop what they cannot read, or end the connection."
        "write messages of the protocol to stdout and nothing else, and results as the specification has them"
    Warning "fuzz/refused" "arguments that fit the schema are refused"
        "The schema is all that a model knows. What it does not say costs a failed call each time."
        "say the rule in the schema, or accept the value"
    Warning "fuzz/slow" "the time of a call grows faster than its text"
        "A text that is twice as long takes four times as long or more: one long text keeps the server from everybody else."
        "make the call that is shown, with the text cut to half of it; look for a loop within a loop over the text, or a pattern that goes back and forth in it"
    Error "fuzz/state" "a call leaves the server broken"
        "Later calls of anybody fail although nothing is wrong with them."
        "undo what was begun when a call fails: locks, transactions, open files"

    Warning "hint/contradiction" "annotations contradict each other or the name"
        "Hosts decide by these hints whether to ask a person first. A tool that says it only reads and also that it destroys, or that is named `delete` and claims to be read-only, is trusted wrongly."
        "set `readOnlyHint`, `destructiveHint` and `idempotentHint` to what the tool does"

    Error "list/bad-entry" "a list entry is malformed"
        "Hosts drop such an entry, or with strict decoders the whole list."
        "send the entry as the specification has it; the message says which field is wrong"
    Error "list/partial" "a list could not be fetched completely"
        "A later page failed, a cursor repeated, or the list was longer than the limits allow: tools are missing and nobody can tell which."
        "answer every page, end with no `nextCursor`, and never repeat a cursor"
    Error "list/unreachable" "the server cannot reach what its list comes from"
        "Something behind the server is down, or not reached with this configuration: nothing is known of the list, and the server may well be right."
        "start what it connects to, and check the network, the proxy, and the address and credentials in its `env`"
    Warning "list/unstable" "definitions changed during the check"
        "What is reviewed, locked or approved is one of several definitions that come and go; the next start may bring another."
        "list the same definition every time; what a lock file holds of it is the one seen last"

    Warning "lock/added" "something new that is not in the lock file"
        "A tool, prompt or resource appeared since the lock file was written. Nobody has reviewed it."
        "review it, then run `mcpdeck --check --lock`"
    Error "lock/authorization" "signing in leads to another place than was reviewed"
        "The server names another authorization server, or that one other endpoints, than when the lock file was written. A user who signs in there consents to the change."
        "make sure that the move is the server's own, then run `mcpdeck --check --lock`"
    Warning "lock/changed" "a definition differs from the lock file"
        "The server's definition changed since it was reviewed. The message names the field with its old and new value."
        "review the change, then run `mcpdeck --check --lock`"
    Error "lock/hidden-characters" "a changed text now hides characters"
        "A definition changed since it was reviewed, and the new text holds invisible or control characters that the old one did not: a common way to slip instructions past a reviewer."
        "do not accept it before the server's author has explained it"
    Error "lock/hint-flipped" "a behaviour hint changed"
        "A tool that was reviewed as read-only (or not destructive, idempotent, closed) says otherwise now. Approvals given for the old behaviour do not cover the new one."
        "review the tool again, then run `mcpdeck --check --lock`"
    Error "lock/instruction" "a changed text now instructs the model"
        "A definition changed since it was reviewed, and the new text contains words that instruct the model which the old one did not."
        "read the new text in full before accepting it with `mcpdeck --check --lock`"
    Error "lock/new-url" "a changed text now holds a new URL"
        "A definition changed since it was reviewed and names an address that it did not name before."
        "make sure that the address is the author's before running `mcpdeck --check --lock`"
    Error "lock/removed" "something in the lock file is gone"
        "A tool, prompt or resource that was reviewed and is perhaps relied upon is no longer offered."
        "restore it, or run `mcpdeck --check --lock` if it was meant to go"
    Error "lock/schema-loosened" "a schema accepts more than before"
        "A constraint that was reviewed is gone: a required parameter became optional, a type or enum got wider, a limit was lifted, or extra properties became allowed."
        "review what the tool does with the wider input, then run `mcpdeck --check --lock`"
    Warning "lock/stale" "the lock file names a server that is gone"
        "The lock file is out of date: it has an entry for a server that does not exist."
        "run `mcpdeck --check --lock` to write the file anew"
    Warning "lock/unlocked" "a server is not in the lock file"
        "The lock file exists, so servers are meant to be reviewed; this one was not."
        "review it, then run `mcpdeck --check --lock`"

    Error "name/duplicate" "two entries of one server have the same name"
        "A caller cannot tell which one answers."
        "give each entry of a list its own name"
    Note "name/duplicate-across" "several servers offer the same name"
        "The full name `server.tool` stays unambiguous, but a host that flattens names will pick one."
        "rename one of them, or hide it with `tools.deny`"
    Warning "name/length" "a name is longer than 128 characters"
        "The specification limits tool names to 128 characters, and several model providers to 64."
        "choose a shorter name"
    Error "name/look-alike" "a name looks like another one"
        "Two names differ only in characters that look the same, in letter case or in separators: a person who approves one may get the other."
        "rename one of them, so that more than case, separators or look-alike letters tell them apart"
    Warning "name/pattern" "a name has characters that callers refuse"
        "The specification allows ASCII letters, digits, `_`, `-` and `.`; model providers refuse the rest."
        "use only A-Z, a-z, 0-9, `_`, `-` and `.`"
    Warning "name/shadow" "a text refers to another server's tool"
        "A description that speaks about a tool of another server can steer how a model uses that one, without ever being called itself."
        "remove the reference, or separate the two servers"

    Note "protocol/deprecated" "a feature deprecated for the negotiated version"
        "It works today with hosts that still know it; newer hosts will not."
        "use what replaced it; the message names it"
    Error "protocol/flood" "the server sends more requests than a host will hold"
        "Requests beyond the limit are refused so that one server cannot flood a person with requests."
        "ask only while a call is running, one question at a time"
    Note "protocol/late-answer" "an answer came after its deadline"
        "The call had already failed when the answer came; nobody saw it."
        "answer faster, send progress, or raise `timeout` for this server"
    Error "protocol/malformed" "a message is not valid JSON-RPC"
        "Strict clients drop it, and the call it belongs to hangs until its timeout."
        "send exactly one JSON-RPC 2.0 object per line, UTF-8, no line breaks inside"
    Warning "protocol/not-allowed" "a message the negotiated version does not allow"
        "Clients refuse it, or close the connection."
        "send only what the negotiated version defines, and only after the handshake"
    Note "protocol/tolerated" "something that a strict client may refuse"
        "It was read all the same, and nothing was lost by it."
        "answer a notification with 202 and no body, and compress nothing that was not asked for"
    Error "protocol/too-large" "a message is larger than hosts accept"
        "A message over the limits is refused, and the call it belongs to fails."
        "page the list or the result; the limits can be raised per server"
    Error "protocol/unknown-answer" "an answer to something that was not asked"
        "Ids that were never sent, or were already answered, mean that calls and results can be mixed up."
        "answer each request once, with its own id and the id's own type"
    Warning "protocol/version" "the version negotiated is unknown"
        "A host cannot know which rules hold."
        "answer with a dated version that the specification has published"
    Error "protocol/wrong-shape" "a result does not have the shape of its method"
        "Typed clients fail to decode it."
        "send the result as the specification defines it for this method"

    Note "provider/ignored" "a provider does not read a part of a tool's schema"
        "With `--for`: the tool is taken, but its model never sees this part, and will write arguments that do not fit it."
        "say it in the description of the parameter as well"
    Error "provider/refused" "a provider refuses a tool as it is listed"
        "With `--for`: a request with such a tool fails as a whole, whatever was asked, in every client that passes definitions on as they are. The chat of mcpdeck adapts them."
        "write the schema or the name as the provider's document, named in the message, has it"
    Error "provider/too-many" "there are more tools than a provider takes"
        "With `--for`: a request with more tools than the limit fails, or tools are left out of it."
        "disable servers, or hide tools with `tools.deny`"

    Error "run/interrupted" "the check was interrupted before it was done with the server"
        "Ctrl-C or a signal ended the run. What had been seen until then is reported; nothing can be said about the rest."
        "run the check again, or raise the time limit of the job that ended it"
    Warning "run/nothing" "there was nothing to check"
        "A check over no server finds nothing wrong. In a pipeline that is a mistake more often than not: another file was meant, or the servers were taken out of it."
        "name the file with --config, add or enable servers, or allow it with `--allow run/nothing`"

    Warning "schema/dialect" "a schema declares a dialect that is not supported"
        "The specification names 2020-12 as default; draft-07 is common. Others are not checked by most hosts, so arguments go unvalidated."
        "drop `$schema`, or declare 2020-12 or draft-07"
    Error "schema/invalid" "a schema is not valid JSON Schema"
        "Hosts and model providers refuse the tool, often together with every other tool of the request."
        "correct the schema at the place named"
    Note "schema/older-draft" "a schema without `$schema` is written for an older draft"
        "The specification means 2020-12 then. This program reads the schema as the draft it is written for; other hosts may refuse the tool or not check its arguments."
        "declare the draft in `$schema`, or write `prefixItems` for a list of schemas and a number for `exclusiveMinimum`"
    Error "schema/remote-ref" "a schema refers to a file or an address"
        "The specification forbids fetching it: whoever controls the address would control the schema, and the fetch itself reveals where it runs."
        "put the definition into `$defs` and refer to it with `#/$defs/NAME`"
    Error "schema/root" "the root of a schema is not an object"
        "Arguments and structured content are objects; the specification requires `\"type\": \"object\"` at the root."
        "set `\"type\": \"object\"` at the root of the schema"
    Warning "schema/too-complex" "a schema is too deep or too large to check"
        "Validation against it could take longer than any caller waits."
        "make it flatter; the limits are 32 levels and 2,000 sub-schemas"
    Error "schema/unresolved-ref" "a schema refers to a definition it does not have"
        "Validators refuse the whole schema."
        "add the definition, or correct the pointer"

    Error "start/dependency" "a server it depends on is not available"
        "It was not started, because the configuration says that it needs the other one."
        "make the other server start; its own findings say why it does not"
    Error "start/executable" "the executable was not found or cannot be run"
        "Nothing could be started, so nothing is known of the server."
        "install the program, correct `command`, or extend PATH"
    Error "start/exited" "the process ended before it was ready"
        "The last lines of its stderr usually say why."
        "read the stderr lines; run the command manually"
    Error "start/failed" "the server could not be started or reached"
        "Nothing could be established about it."
        "the detail of the failed step says what was seen"
    Error "start/timeout" "the server did not become ready in time"
        "It did not answer within `startupTimeout`: it hangs, waits for something, or is still downloading."
        "run the command manually; raise `startupTimeout` or --timeout if it is only slow"
    Error "start/unauthorized" "the server asks for authorisation"
        "It answered 401 and no token is at hand. A headless run cannot open a browser."
        "sign in once with `mcpdeck login` and the server's name or URL, or set a header in the configuration"
    Error "start/untrusted" "the command was not approved"
        "--require-trust starts only what was approved before, and this command, its arguments or environment are new or changed."
        "open the dashboard and approve the server, or run without --require-trust"

    Warning "stdout/pollution" "lines on stdout that are not JSON-RPC"
        "stdout belongs to the protocol; a banner or a log line there breaks strict clients."
        "write logs to stderr"

    Note "stop/exit-code" "the process ended with an error when it was stopped"
        "Closing stdin is the ordinary end of a stdio session; a server that fails then loses what it had not written."
        "exit with code 0 when stdin closes"
    Error "stop/ignored-stdin" "the server does not exit when its stdin closes"
        "Every host that ends leaves this server running; this one had to send signals."
        "exit when reading from stdin gives end of file, and give up what is under way; `stop.stdin` of its entry gives a server more time that needs it"
    Error "stop/leftover" "processes were left running"
        "They keep ports, files and memory after the host is gone. They were ended now."
        "end child processes before exiting, and start them in the same process group"
    Error "stop/unexpected-exit" "the process exited unexpectedly"
        "It was ready and then died while it was being checked."
        "read the stderr lines and the exit code"
    Note "stop/waits-for-answer" "the server waited for an answer that could no longer come"
        "It asked its client something after its stdin was closed, so its time to exit by itself was cut short and a signal ended it."
        "give up open requests and exit when reading from stdin gives end of file"

    Error "test/failed" "a step did not give what it must"
        "A step of `mcpdeck test` says what a call must give; it gave something else. The place is that of the step in the file of tests."
        "read the message, then correct the server, or the step in the file of tests"
    Note "test/flaky" "a step passed only when it was tried again"
        "What passes only sometimes hides faults: the next run may fail without a change."
        "find what differs from try to try: time, order, what an earlier step left behind"
    Error "test/not-run" "a suite could not be run"
        "A server of the suite did not start or was lost, so nothing is known of its steps."
        "`mcpdeck --check -v` shows every step of the start of a server"

    Error "text/buried" "text is hidden below blank lines"
        "Many empty lines push text out of sight of the person who reviews it, while a model still reads it."
        "remove the empty lines"
    Error "text/control" "control characters or terminal escapes in a text"
        "They can move a terminal's cursor, recolour or overwrite what is shown, or set the clipboard."
        "send plain text; line breaks and tabs are fine"
    Error "text/hidden" "invisible or direction-changing characters in a text"
        "Tag characters, zero-width characters, bidi overrides and the like are read by a model but not seen by a person."
        "remove them; the message names the code points"
    Warning "text/instruction" "a text instructs the model"
        "Descriptions should say what a tool does. Words that tell a model to ignore, to hide, to always call something first or to pass on secrets are how poisoned tools work."
        "describe what the tool does, and leave what the model should do to the user"
};

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
        let error = parse("name/patern").expect_err("no such rule");
        assert!(error.contains("`name/pattern`"), "{error}");
    }
}
