//! A tool call that runs as a task (MCP 2025-11-25, tasks): begun, asked after until it is over, and
//! its result fetched. One operation for whoever called, with one clock.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::live::{Core, Limits};
use super::trip::Trip;
use crate::host::payload::Node;
use crate::host::server::wire::exchange::{Exchange, Operation};
use crate::host::server::wire::tap::method_name;
use crate::host::{Error, ErrorCode, Payload};

/// How often a task is asked after when its server does not say, and what it may say.
const PAUSE: Duration = Duration::from_millis(500);
const SHORTEST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(5);
/// How long the server may take to hear that nobody wants the result any more.
const FAREWELL: Duration = Duration::from_secs(1);

/// A task as the server tells of it.
struct Told {
    status: String,
    message: Option<String>,
    pause: Duration,
}

impl Told {
    fn read(task: Node<'_>) -> Self {
        let pause = task.get("pollInterval").and_then(|pause| pause.to_value().as_f64());
        let pause = pause.filter(|millis| millis.is_finite() && *millis > 0.0);
        Self {
            status: task.text("status").map(Cow::into_owned).unwrap_or_default(),
            message: task.text("statusMessage").map(Cow::into_owned),
            pause: pause.map_or(PAUSE, |millis| {
                Duration::from_secs_f64((millis / 1e3).min(60.0)).clamp(SHORTEST, LONGEST)
            }),
        }
    }
}

impl Core {
    /// Calls a tool that only runs as a task. A server that answers at once is taken at its word.
    pub(super) async fn run_task(
        &self,
        name: Arc<str>,
        arguments: Arc<Value>,
        operation: &Arc<Operation>,
        limits: &Limits,
    ) -> Result<Payload, Error> {
        let mut trip = Trip::named("tools/call", Arc::clone(&name), arguments);
        if let Some(params) = &mut trip.params {
            params.insert("task", json!({}));
        }
        let begun = self.round_trip(trip, operation, limits).await?;
        let Some(task) = begun.root().get("task") else { return Ok(begun) };
        let Some(id) = task.text("taskId").map(Cow::into_owned) else {
            let error = Error::new(ErrorCode::Protocol, "the task that was begun has no `taskId`");
            return Err(error
                .server(&self.tap.context.server)
                .request(format!("tools/call {name}")));
        };
        let told = Told::read(task);
        let done = self.attend(&name, &id, told, operation, limits).await;
        if done.is_err() && !self.tap.over.is_cancelled() {
            // Nobody fetches its result: it need not go on. What the server says to that is its own.
            let farewell = about_task("tasks/cancel", &name, &id);
            let own = Operation::own(self.tap.context.clock);
            let _ = self.round_trip(farewell, &own, &Limits::own(FAREWELL)).await;
        }
        done
    }

    /// Asks after a task until it is over or waits for input, and fetches its result.
    async fn attend(
        &self,
        name: &Arc<str>,
        id: &str,
        mut told: Told,
        operation: &Arc<Operation>,
        limits: &Limits,
    ) -> Result<Payload, Error> {
        let mut steps = 0.0;
        while matches!(&*told.status, "working" | "submitted" | "") {
            steps += 1.0;
            operation.progressed(steps, None, told.message.as_deref());
            let target = Some(crate::text::SafeText::line(name));
            let exchange = Exchange::new(Arc::clone(operation), method_name("tasks/get"), target);
            let pause = tokio::time::sleep(told.pause);
            self.bounded(pause, &exchange, limits).await?;
            let asked = about_task("tasks/get", name, id);
            let answer = self.round_trip(asked, operation, limits).await?;
            told = Told::read(answer.root());
        }
        // The answer comes when the task is over; what it needs until then is asked meanwhile.
        operation.progressed(steps + 1.0, None, told.message.as_deref());
        self.round_trip(about_task("tasks/result", name, id), operation, limits).await
    }
}

fn about_task(method: &'static str, name: &str, id: &str) -> Trip {
    Trip::new(method, Some(name), Some(json!({"taskId": id})))
}
