//! `GET /events`: what changes, as server-sent events: states of servers, lists, and questions to
//! this client.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use axum::Extension;
use axum::extract::{RawQuery, State};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures::{Stream, StreamExt as _};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::follow::{ListHashes, visible_lists};
use super::outside::Outside;
use super::questions::ProgramName;
use super::rest::unprocessable;
use super::state::Gateway;
use super::tokens::Client;
use base::SafeText;
use host::HostView;

/// Events that wait for a slow reader; further changes wait and are then told in their latest state.
const EVENTS_CAPACITY: usize = 64;

/// The state of a server, as events tell it.
type KnownStates = BTreeMap<String, Value>;

/// `GET /events`; with `for`, with the questions of the calls that this program made.
pub(crate) async fn events(
    State(gateway): State<Arc<Gateway>>,
    Extension(client): Extension<Client>,
    RawQuery(query): RawQuery,
) -> Result<Response, Outside> {
    let mut program = ProgramName::default();
    for (key, value) in url::form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
        if key != "for" {
            let key = SafeText::line(&key);
            return Err(unprocessable(format!("`{key}` is not one of: for")));
        }
        program = ProgramName::parse(&value).map_err(unprocessable)?;
    }
    let stop = gateway.streams.clone();
    let (sender, mut inbox) = mpsc::channel(EVENTS_CAPACITY);
    let following = AbortOnDropHandle::new(tokio::spawn(follow(gateway, client, program, sender)));
    let events = futures::stream::poll_fn(move |context| {
        let _ = &following;
        inbox.poll_recv(context)
    });
    let events = events.take_until(stop.cancelled_owned());
    Ok(sse(events.map(|(kind, data): (&'static str, Value)| {
        Ok(Event::default().event(kind).data(data.to_string()))
    })))
}

fn sse(events: impl Stream<Item = Result<Event, Infallible>> + Send + 'static) -> Response {
    Sse::new(events).keep_alive(KeepAlive::default()).into_response()
}

/// Sends the present state, and every change until the client leaves or the host shuts down.
async fn follow(
    gateway: Arc<Gateway>,
    client: Client,
    program: ProgramName,
    to: mpsc::Sender<(&'static str, Value)>,
) -> Option<()> {
    let (mut view, mut policy) = (gateway.host.view(), gateway.host.follow_policy());
    let mut asked = gateway.questions.follow();
    let (mut states, mut lists) = (KnownStates::new(), None::<ListHashes>);
    let mut questions: Vec<Value> = Vec::new();
    loop {
        let now = Arc::clone(&view.borrow_and_update());
        let current = states_of(&gateway, &client, &now);
        for (name, state) in &current {
            if states.get(name) != Some(state) {
                to.send(("server", state.clone())).await.ok()?;
            }
        }
        for name in states.keys().filter(|name| !current.contains_key(*name)) {
            to.send(("server", json!({"name": name, "state": "removed"}))).await.ok()?;
        }
        states = current;
        let hashes = visible_lists(&gateway, &client, &now);
        for (at, list) in ["tools", "prompts", "resources"].into_iter().enumerate() {
            if lists.is_some_and(|lists| lists[at] != hashes[at]) {
                to.send(("list", json!({"list": list}))).await.ok()?;
            }
        }
        lists = Some(hashes);
        let open = gateway.questions.list(&client, &program);
        for question in open.iter().filter(|question| !questions.contains(question)) {
            to.send(("request", question.clone())).await.ok()?;
        }
        questions = open;
        tokio::select! {
            changed = view.changed() => changed.ok()?,
            changed = policy.changed() => changed.ok()?,
            changed = asked.changed() => changed.ok()?,
            () = to.closed() => return None,
        }
    }
}

/// The states of the servers that a client may see.
fn states_of(gateway: &Gateway, client: &Client, view: &HostView) -> KnownStates {
    let principal = client.principal();
    let seen = view.servers.values().filter_map(|server| {
        gateway.host.visible(&principal, &server.name)?;
        let outage = gateway.host.outage(&server.name);
        let reason = outage.as_ref().and_then(|outage| outage.outage.as_deref());
        let state = json!({"name": server.name, "state": server.state, "reason": reason});
        Some((server.name.to_string(), state))
    });
    seen.collect()
}
