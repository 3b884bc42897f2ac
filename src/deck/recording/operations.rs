//! Operations, folded from messages: each request with its times, what it caused, and how long it
//! waited for the user. The same for live traffic and recordings. Pure.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use serde_json::Value;

use base::{SafeText, ServerName, Timestamp};
use host::{Fact, Record};
use protocol::{CallId, Direction, MessageKind, TrafficRecord};

/// How an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordedOutcome {
    /// It has not ended.
    Open,
    /// With a result.
    Ok,
    /// With a result that has `isError` set.
    ToolError,
    /// With an error.
    Error,
    /// Without an answer: it was cancelled, or its server ended.
    Lost,
}

impl RecordedOutcome {
    /// Whether something went wrong.
    pub const fn is_bad(self) -> bool {
        matches!(self, Self::ToolError | Self::Error | Self::Lost)
    }

    /// The word on the screen.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Ok => "ok",
            Self::ToolError => "tool error",
            Self::Error => "error",
            Self::Lost => "no answer",
        }
    }
}

/// One request and its outcome.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RecordedOperation {
    /// The server.
    pub server: ServerName,
    /// Its method.
    pub method: SafeText,
    /// Tool, prompt or URI.
    pub target: Option<SafeText>,
    /// Who sent it: [`Direction::Out`] is the host.
    pub direction: Direction,
    /// When it was requested, before it was checked and permitted.
    pub asked: Timestamp,
    /// When it was sent.
    pub sent: Timestamp,
    /// When the first progress arrived.
    pub progress: Option<Timestamp>,
    /// When the answer arrived, or it became clear that none will.
    pub ended: Option<Timestamp>,
    /// How it ended.
    pub outcome: RecordedOutcome,
    /// Why there is no answer.
    pub loss: Option<SafeText>,
    /// The operation during which it was requested.
    pub parent: Option<u64>,
    /// Nesting depth below other operations.
    pub depth: u8,
    /// Whether it continues its parent: an answer to a question, a poll, a retry.
    pub is_round: bool,
    /// Operations that it caused, in order.
    pub children: Vec<u64>,
    /// Spans, each with start and end, in which it only waited for the user.
    pub waiting: Vec<(Timestamp, Timestamp)>,
}

/// The first question to a server, which those of earlier protocol versions do not know.
const DISCOVER_METHOD: &str = "server/discover";

impl RecordedOperation {
    /// Whether something went wrong, as [`has_failed`](super::has_failed) says of a message.
    pub fn has_failed(&self) -> bool {
        let loss = self.loss.as_deref();
        self.outcome.is_bad()
            && (self.outcome == RecordedOutcome::ToolError || !is_ordinary(&self.method, loss))
    }

    /// Whether it lasts as long as its server.
    pub fn lasts(&self) -> bool {
        is_lasting(&self.method)
    }

    /// `ok`, `no answer: the server went away`
    pub fn ending(&self) -> String {
        match &self.loss {
            Some(loss) => format!("{}: {loss}", self.outcome.as_str()),
            None => self.outcome.as_str().to_owned(),
        }
    }

    /// `tools/call echo`
    pub fn name(&self) -> String {
        match &self.target {
            Some(target) => format!("{} {target}", self.method),
            None => self.method.to_string(),
        }
    }

    /// Time from the request to the end, or to `now` while it is open.
    pub fn took(&self, now: Timestamp) -> Duration {
        self.ended.unwrap_or(now).since(self.asked)
    }
}

/// Whether it is no failure that a request with this method is answered by an error, or by nothing for
/// the reason `loss`. A server of an earlier protocol version does not know the first question, and the
/// session goes on with `initialize`; no answer to it is wanted once another was answered first. A
/// subscription lasts until one side ends it.
pub(super) fn is_ordinary(method: &str, loss: Option<&str>) -> bool {
    match loss {
        Some(reason) => is_lasting(method) || reason == TrafficRecord::OVERTAKEN,
        None => method == DISCOVER_METHOD,
    }
}

/// Whether a request with this method is answered only when what it asks for ends.
fn is_lasting(method: &str) -> bool {
    method.starts_with("subscriptions/")
}

/// The effect of a message on the operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationStep {
    /// It began this one.
    Began(u64),
    /// It ended this one.
    Ended(u64),
    /// Neither.
    Other,
}

/// Operations by number, in the order in which they were sent. Overflow policy: beyond the limit
/// the oldest are dropped and counted.
#[derive(Clone, Debug)]
pub struct RecordedOperations {
    items: VecDeque<RecordedOperation>,
    first: u64,
    most: usize,
    open: HashMap<(ServerName, Direction, SafeText), u64>,
    calls: HashMap<CallId, u64>,
    /// The call during which a server reported that its lists changed.
    changed: HashMap<ServerName, u64>,
    names: HashMap<SafeText, SafeText>,
    servers: BTreeSet<ServerName>,
    latest: Timestamp,
    version: u64,
}

impl Default for RecordedOperations {
    fn default() -> Self {
        Self::new(Self::MAX_LIVE_OPERATIONS)
    }
}

impl RecordedOperations {
    /// Most operations kept of running servers.
    const MAX_LIVE_OPERATIONS: usize = 100_000;
    /// Most targets whose text is shared.
    const MAX_SHARED_NAMES: usize = 4_096;
    /// Deepest nesting of operations.
    const MAX_OPERATION_DEPTH: u8 = 8;

    /// An empty list that keeps the newest `most` operations.
    pub fn new(most: usize) -> Self {
        Self {
            items: VecDeque::new(),
            first: 0,
            most: most.max(1),
            open: HashMap::new(),
            calls: HashMap::new(),
            changed: HashMap::new(),
            names: HashMap::new(),
            servers: BTreeSet::new(),
            latest: Timestamp(0),
            version: 0,
        }
    }

    /// Changes whenever one of them begins or ends.
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// Number of the oldest kept operation, which is also how many were dropped.
    pub const fn first(&self) -> u64 {
        self.first
    }

    /// Number after the newest.
    pub fn end(&self) -> u64 {
        self.first + self.items.len() as u64
    }

    /// The time of the latest message.
    pub const fn latest(&self) -> Timestamp {
        self.latest
    }

    /// The operation with this number, if it is still kept.
    pub fn get(&self, number: u64) -> Option<&RecordedOperation> {
        self.items.get(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    /// All of them with their numbers, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, &RecordedOperation)> {
        self.items.iter().enumerate().map(|(at, item)| (self.first + at as u64, item))
    }

    /// What the end of an operation depended on, in the order requested, each with its own share of
    /// the time: backwards from the end, always the child that ended last. List fetches are left
    /// out, because nothing waits for them.
    pub fn critical_path(&self, number: u64) -> Vec<(u64, Duration)> {
        let mut path = Vec::new();
        if let Some(operation) = self.get(number) {
            self.depended(number, operation.ended.unwrap_or(self.latest), &mut path);
        }
        path.sort_by_key(|(number, _)| *number);
        path
    }

    fn depended(&self, number: u64, mut until: Timestamp, path: &mut Vec<(u64, Duration)>) {
        let Some(operation) = self.get(number) else { return };
        let end = |of: &RecordedOperation| of.ended.unwrap_or(self.latest);
        let children =
            operation.children.iter().filter(|_| operation.depth < Self::MAX_OPERATION_DEPTH);
        let children = children.filter_map(|child| Some((*child, self.get(*child)?)));
        let mut children: Vec<_> =
            children.filter(|(_, child)| !child.method.ends_with("/list")).collect();
        children.sort_by_key(|(_, child)| std::cmp::Reverse(end(child)));
        let mut own = Duration::ZERO;
        for (number, child) in children {
            if end(child) <= until {
                own += until.since(end(child));
                self.depended(number, end(child), path);
                until = child.asked;
            }
        }
        path.push((number, own + until.since(operation.asked)));
    }

    fn get_mut(&mut self, number: u64) -> Option<&mut RecordedOperation> {
        self.items.get_mut(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    /// Adds a message; callers must keep the order of the wire.
    pub fn frame(&mut self, record: &TrafficRecord) -> OperationStep {
        self.latest = self.latest.max(record.at);
        match record.kind {
            MessageKind::Request => self.request(record),
            MessageKind::Response | MessageKind::Error => {
                let Some(number) = self.take_open(record) else { return OperationStep::Other };
                let outcome = match record.kind {
                    _ if record.unanswered().is_some() => RecordedOutcome::Lost,
                    MessageKind::Error => RecordedOutcome::Error,
                    _ if says_error(&record.body) => RecordedOutcome::ToolError,
                    _ => RecordedOutcome::Ok,
                };
                if let Some(reason) = record.unanswered() {
                    self.lose(number, SafeText::line(reason));
                }
                self.end_of(number, record.at, outcome);
                OperationStep::Ended(number)
            }
            MessageKind::Notification => self.notification(record),
            MessageKind::Junk => OperationStep::Other,
        }
    }

    /// Adds a fact: the end of a process ends its open operations.
    pub fn fact(&mut self, record: &Record) {
        if let (Fact::Exited { .. } | Fact::Crashed { .. }, Some(server)) =
            (&record.fact, &record.server)
        {
            self.lost(server, record.at);
        }
    }

    /// The process or connection of a server ended: nothing that is open will be answered.
    pub fn lost(&mut self, server: &ServerName, at: Timestamp) {
        let lost: Vec<u64> =
            self.open.extract_if(|(of, ..), _| of == server).map(|(_, number)| number).collect();
        for number in lost {
            self.lose(number, SafeText::line("the server went away"));
            self.end_of(number, at, RecordedOutcome::Lost);
        }
    }

    /// An operation gets no answer, for this reason.
    fn lose(&mut self, number: u64, reason: SafeText) {
        let reason = self.shared(reason);
        if let Some(operation) = self.get_mut(number) {
            operation.loss = Some(reason);
        }
    }

    fn request(&mut self, record: &TrafficRecord) -> OperationStep {
        let number = self.end();
        let of_call = record.call.and_then(|call| self.calls.get(&call)).copied();
        let parent = of_call.or_else(|| self.cause(record)).filter(|number| *number >= self.first);
        let depth = parent.and_then(|parent| self.get(parent)).map_or(0, |of| of.depth + 1);
        let target = record.target.clone().map(|target| self.shared(target));
        // In a recording every line has its own copy of the name.
        let server = self.servers.get(&record.server).cloned().unwrap_or_else(|| {
            self.servers.insert(record.server.clone());
            record.server.clone()
        });
        let operation = RecordedOperation {
            server,
            method: self.shared(record.method.clone().unwrap_or_default()),
            target,
            direction: record.direction,
            asked: Timestamp(record.at.0 - micros(record.queued).min(record.at.0)),
            sent: record.at,
            progress: None,
            ended: None,
            outcome: RecordedOutcome::Open,
            loss: None,
            parent: parent.filter(|_| depth <= Self::MAX_OPERATION_DEPTH),
            depth: depth.min(Self::MAX_OPERATION_DEPTH),
            is_round: of_call.is_some() && record.direction == Direction::Out,
            children: Vec::new(),
            waiting: Vec::new(),
        };
        let is_round = operation.is_round;
        if let Some(parent) = operation.parent
            && let Some(parent) = self.get_mut(parent)
        {
            if let (Some(ended), true) = (parent.ended, is_round) {
                // The answer asked for input of the user, which this request carries.
                if parent.outcome == RecordedOutcome::Ok
                    && Some(&parent.method) == record.method.as_ref()
                {
                    parent.waiting.push((ended, record.at));
                }
                (parent.ended, parent.outcome) = (None, RecordedOutcome::Open);
            }
            parent.children.push(number);
        }
        if let (Some(call), Direction::Out) = (record.call, record.direction) {
            self.calls.entry(call).or_insert(number);
        }
        if let Some(id) = &record.id {
            self.open.insert((record.server.clone(), record.direction, id.clone()), number);
        }
        self.version += 1;
        self.items.push_back(operation);
        if self.items.len() > self.most {
            self.items.pop_front();
            self.first += 1;
            if self.first.is_multiple_of(4_096) {
                let first = self.first;
                self.open.retain(|_, number| *number >= first);
                self.calls.retain(|_, number| *number >= first);
            }
        }
        OperationStep::Began(number)
    }

    /// The cause of a request that belongs to no call: the call during which the lists changed, or
    /// the only open one when a server sends a request.
    fn cause(&self, record: &TrafficRecord) -> Option<u64> {
        let lists = record.method.as_ref().is_some_and(|method| method.ends_with("/list"));
        match record.direction {
            Direction::Out if lists => self.changed.get(&record.server).copied(),
            Direction::Out => None,
            Direction::In => self.only_open(&record.server),
        }
    }

    fn only_open(&self, server: &ServerName) -> Option<u64> {
        let is_call = |number: &&u64| {
            self.get(**number).is_some_and(|of| !of.method.starts_with("subscriptions/"))
        };
        let mine = |((of, direction, _), number): (&(ServerName, Direction, SafeText), _)| {
            (of == server && *direction == Direction::Out).then_some(number)
        };
        let mut open = self.open.iter().filter_map(mine).filter(is_call);
        let only = *open.next()?;
        open.next().is_none().then_some(only)
    }

    fn notification(&mut self, record: &TrafficRecord) -> OperationStep {
        let method = record.method.as_ref().map_or("", |method| method.as_str());
        match (method, record.direction) {
            ("notifications/progress", Direction::In) => {
                let number = record.call.and_then(|call| self.calls.get(&call)).copied();
                if let Some(operation) = number.and_then(|number| self.get_mut(number)) {
                    operation.progress.get_or_insert(record.at);
                }
            }
            ("notifications/cancelled", direction) => {
                let message: Value = serde_json::from_str(&record.body).unwrap_or_default();
                let id = match &message["params"]["requestId"] {
                    Value::String(id) => SafeText::line(id),
                    id => SafeText::line(&id.to_string()),
                };
                if let Some(number) = self.open.remove(&(record.server.clone(), direction, id)) {
                    self.lose(number, SafeText::line("cancelled"));
                    self.end_of(number, record.at, RecordedOutcome::Lost);
                    return OperationStep::Ended(number);
                }
            }
            (changed, Direction::In) if changed.ends_with("/list_changed") => {
                match self.only_open(&record.server) {
                    Some(call) => self.changed.insert(record.server.clone(), call),
                    None => self.changed.remove(&record.server),
                };
            }
            _ => {}
        }
        OperationStep::Other
    }

    fn take_open(&mut self, record: &TrafficRecord) -> Option<u64> {
        let asked = match record.direction {
            Direction::In => Direction::Out,
            Direction::Out => Direction::In,
        };
        self.open.remove(&(record.server.clone(), asked, record.id.clone()?))
    }

    fn end_of(&mut self, number: u64, at: Timestamp, outcome: RecordedOutcome) {
        self.version += 1;
        let Some(operation) = self.get_mut(number) else { return };
        (operation.ended, operation.outcome) = (Some(at), outcome);
        let (parent, sent, is_round) = (operation.parent, operation.sent, operation.is_round);
        let asked_by_server = operation.direction == Direction::In;
        let Some(parent) = parent.and_then(|parent| self.get_mut(parent)) else { return };
        if asked_by_server {
            // The clock of the parent was paused meanwhile.
            parent.waiting.push((sent, at));
        } else if is_round {
            (parent.ended, parent.outcome) = (Some(at), outcome);
        }
    }

    /// Interns a text, up to [`Self::MAX_SHARED_NAMES`] distinct ones.
    fn shared(&mut self, text: SafeText) -> SafeText {
        if let Some(known) = self.names.get(&text) {
            return known.clone();
        }
        if self.names.len() < Self::MAX_SHARED_NAMES {
            self.names.insert(text.clone(), text.clone());
        }
        text
    }
}

fn micros(span: Option<Duration>) -> u64 {
    span.map_or(0, |span| span.as_micros() as u64)
}

/// Whether the message of a result has `isError` set (MCP, tools, error handling), in the two usual
/// JSON spellings.
pub fn says_error(body: &str) -> bool {
    ["\"isError\":true", "\"isError\": true"]
        .iter()
        .any(|word| memchr::memmem::find(body.as_bytes(), word.as_bytes()).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(at: u64, direction: Direction, kind: MessageKind, text: &str) -> TrafficRecord {
        let mut words = text.split(' ');
        let mut word = || words.next().filter(|word| *word != "-").map(SafeText::line);
        TrafficRecord {
            at: Timestamp(at),
            server: ServerName::new("s"),
            direction,
            kind,
            id: word(),
            method: word(),
            call: word().and_then(|call| call.parse().ok()).map(CallId),
            target: None,
            bytes: 0,
            latency: None,
            queued: None,
            body: "{}".into(),
            cut: false,
            problem: None,
            tolerated: false,
        }
    }

    /// `id method call`
    fn fold(frames: &[(u64, Direction, MessageKind, &str)]) -> RecordedOperations {
        let mut operations = RecordedOperations::new(100);
        for (at, direction, kind, text) in frames {
            operations.frame(&frame(*at, *direction, *kind, text));
        }
        operations
    }

    #[test]
    fn a_question_of_the_server_stands_below_its_call_and_its_time_is_a_persons() {
        use Direction::{In, Out};
        use MessageKind::{Notification, Request, Response};
        let all = fold(&[
            (10, Out, Request, "1 tools/call 7"),
            (12, In, Notification, "- notifications/progress 7"),
            (20, In, Request, "1 sampling/createMessage -"),
            (90, Out, Response, "1 - -"),
            (95, In, Notification, "- notifications/tools/list_changed -"),
            (96, Out, Request, "2 tools/list -"),
            (97, In, Response, "2 - -"),
            (99, In, Response, "1 - -"),
        ]);
        let call = all.get(0).unwrap();
        assert_eq!((call.progress, call.ended), (Some(Timestamp(12)), Some(Timestamp(99))));
        assert_eq!(call.waiting, [(Timestamp(20), Timestamp(90))]);
        assert_eq!(call.children, [1, 2], "the question, and the lists that changed meanwhile");
        assert_eq!(all.get(1).unwrap().depth, 1);
    }

    #[test]
    fn the_rounds_of_a_call_are_one_operation_with_the_wait_between_them() {
        use Direction::{In, Out};
        use MessageKind::{Error, Request, Response};
        let all = fold(&[
            (10, Out, Request, "1 tools/call 7"),
            (20, In, Response, "1 - -"),
            (80, Out, Request, "2 tools/call 7"),
            (90, In, Error, "2 - -"),
        ]);
        let call = all.get(0).unwrap();
        assert_eq!((call.ended, call.outcome), (Some(Timestamp(90)), RecordedOutcome::Error));
        assert_eq!(call.waiting, [(Timestamp(20), Timestamp(80))]);
    }

    #[test]
    fn what_stands_for_an_answer_ends_its_request_and_the_end_of_a_subscription_is_no_failure() {
        use Direction::{In, Out};
        use MessageKind::{Error, Request};
        let mut all = RecordedOperations::new(10);
        let (late, first) = ("timed out", TrafficRecord::OVERTAKEN);
        for (id, method, why) in [
            (1, "tools/call", late),
            (2, "subscriptions/listen", late),
            (3, "server/discover", first),
            (4, "server/discover", late),
        ] {
            all.frame(&frame(id, Out, Request, &format!("{id} {method} -")));
            let text = format!("{id} {method} -");
            let problem = Some(SafeText::line(&format!("no answer: {why}")));
            let none = TrafficRecord { problem, ..frame(id + 10, In, Error, &text) };
            assert_eq!(all.frame(&none), OperationStep::Ended(id - 1));
            let failed = id == 1 || id == 4;
            assert_eq!(crate::has_failed(&none), failed, "{method}");
            let ended = all.get(id - 1).unwrap();
            assert_eq!((ended.ending(), ended.has_failed()), (format!("no answer: {why}"), failed));
        }
    }

    #[test]
    fn what_is_open_when_a_server_goes_is_lost_and_old_ones_give_way() {
        use Direction::{In, Out};
        use MessageKind::{Request, Response};
        let mut all = RecordedOperations::new(2);
        for id in 1..=3 {
            all.frame(&frame(id, Out, Request, &format!("{id} ping -")));
        }
        let server = ServerName::new("s");
        let fact = Fact::Crashed { reason: SafeText::line("gone") };
        all.fact(&Record { seq: 1, at: Timestamp(9), server: Some(server), fact });
        assert_eq!((all.first(), all.end()), (1, 3));
        let lost = all.get(2).unwrap();
        assert_eq!(lost.outcome, RecordedOutcome::Lost);
        assert_eq!(lost.ending(), "no answer: the server went away");
        assert_eq!(all.frame(&frame(10, In, Response, "3 - -")), OperationStep::Other);
    }
}
