//! State that servers hold for the host: resource subscriptions, and calls that run as tasks. What
//! runs tells them itself; a recording has only its messages. Pure.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::Model;
use crate::pick::{Choice, Pick};
use crate::prelude::*;
use deck::{Order, ResourceUpdates, ServerCommand, UpdatedResource};
use protocol::{Direction, MessageKind, ServerTask, ServerTasks, TrafficRecord};

/// Most subscriptions that are kept; beyond that the first by key are dropped.
const MAX_WATCHED_RESOURCES: usize = 1_000;

/// Subscriptions and tasks, by server and URI or id.
#[derive(Debug, Default)]
pub struct Watched {
    subscriptions: BTreeMap<(ServerName, String), WatchedSubscription>,
    tasks: BTreeMap<ServerName, Vec<ServerTask>>,
    /// The tasks of a recording.
    replayed: BTreeMap<ServerName, ServerTasks>,
}

#[derive(Debug)]
struct WatchedSubscription {
    since: Timestamp,
    updated: Option<Timestamp>,
    updates: u64,
}

impl Watched {
    /// Replaces the subscriptions of all servers.
    pub fn set_subscriptions(&mut self, all: &BTreeMap<ServerName, Vec<Arc<str>>>, now: Timestamp) {
        let is_there = |server: &ServerName, uri: &str| {
            all.get(server).is_some_and(|uris| uris.iter().any(|one| **one == *uri))
        };
        self.subscriptions.retain(|(server, uri), _| is_there(server, uri));
        for (server, uris) in all {
            for uri in uris {
                self.subscribe((server.clone(), uri.to_string()), now);
            }
        }
    }

    /// Replaces the tasks of all servers.
    pub fn set_tasks(&mut self, all: BTreeMap<ServerName, Vec<ServerTask>>) {
        self.tasks = all;
    }

    /// Counts updates of subscribed resources.
    pub fn update(&mut self, updates: &ResourceUpdates, now: Timestamp) {
        for UpdatedResource { server, uri, count } in &updates.resources {
            // An update may name a sub-resource of a subscribed URI.
            for ((of, subscribed), one) in &mut self.subscriptions {
                if of == server && uri.starts_with(subscribed.as_str()) {
                    one.updated = Some(now);
                    one.updates += count;
                }
            }
        }
    }

    /// Learns from a message of a recording.
    pub fn replay(&mut self, record: &TrafficRecord) {
        let method = record.method.as_deref().unwrap_or_default();
        let body = || serde_json::from_str::<Value>(&record.body).unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let at = |uri: String| (record.server.clone(), uri);
        match (record.direction, record.kind, method) {
            (Direction::Out, MessageKind::Request, "resources/subscribe") => {
                self.subscribe(at(text(&body()["params"]["uri"])), record.at);
            }
            (Direction::Out, MessageKind::Request, "resources/unsubscribe") => {
                self.subscriptions.remove(&at(text(&body()["params"]["uri"])));
            }
            (Direction::In, MessageKind::Error, "resources/subscribe") => {
                let uri = record.target.as_deref().unwrap_or_default().to_owned();
                self.subscriptions.remove(&at(uri));
            }
            // Replaces the whole set (MCP 2026-07-28, subscriptions).
            (Direction::Out, MessageKind::Request, "subscriptions/listen") => {
                let body = body();
                let uris = &body["params"]["notifications"]["resourceSubscriptions"];
                let uris: Vec<String> = uris.as_array().into_iter().flatten().map(text).collect();
                self.subscriptions
                    .retain(|(of, uri), _| *of != record.server || uris.contains(uri));
                for uri in uris {
                    self.subscribe(at(uri), record.at);
                }
            }
            (Direction::In, MessageKind::Notification, "notifications/resources/updated") => {
                let uri = text(&body()["params"]["uri"]).into();
                let server = record.server.clone();
                let resources = vec![UpdatedResource { server, uri, count: 1 }];
                self.update(&ResourceUpdates { resources, missed: false }, record.at);
            }
            (Direction::In, MessageKind::Response, "tools/call")
                if record.body.contains("\"taskId\"") =>
            {
                let tool = record.target.clone().unwrap_or_default();
                let task = &body()["result"]["task"];
                let task = ServerTask::from_result(task, tool, record.at);
                self.replay_task(record, |tasks| {
                    if let Some(task) = task {
                        tasks.add(task);
                    }
                });
            }
            (Direction::In, MessageKind::Response, "tasks/get" | "tasks/cancel") => {
                self.replay_task(record, |tasks| tasks.report(&body()["result"]));
            }
            (Direction::In, MessageKind::Notification, "notifications/tasks/status") => {
                self.replay_task(record, |tasks| tasks.report(&body()["params"]));
            }
            _ => {}
        }
    }

    fn replay_task(&mut self, record: &TrafficRecord, learn: impl FnOnce(&ServerTasks)) {
        let tasks = self.replayed.entry(record.server.clone()).or_default();
        learn(tasks);
        let list = tasks.list();
        if !list.is_empty() {
            self.tasks.insert(record.server.clone(), list);
        }
    }

    fn subscribe(&mut self, at: (ServerName, String), since: Timestamp) {
        let fresh = WatchedSubscription { since, updated: None, updates: 0 };
        self.subscriptions.entry(at).or_insert(fresh);
        self.subscriptions.len().gt(&MAX_WATCHED_RESOURCES).then(|| self.subscriptions.pop_first());
    }
}

impl Model {
    /// Rows of the list of subscriptions and tasks, each with its available actions.
    pub fn watched_choices(&self) -> Vec<Choice> {
        let row = |words: &Ink, hint, choices| {
            Choice::new(words.clone(), hint, Pick::Among(words.clone(), choices))
        };
        let does = |words: &'static str, pick| Choice::new(ink!("{}", words), Ink::default(), pick);
        let subscriptions = self.watched.subscriptions.iter().map(|((server, uri), one)| {
            let words = ink!("{}  {}", Self::name(server), Ink::line(uri));
            let mut hint =
                ink!("subscribed {}, {}", self.when(one.since), count(one.updates, "update"));
            if let Some(at) = one.updated {
                hint.push(ink!(", last {}", self.when(at)));
            }
            row(
                &words,
                hint,
                vec![
                    does("Read the resource", Pick::Resource(server.clone(), uri.clone())),
                    does(
                        "Unsubscribe",
                        Pick::Order(Order::Server(
                            server.clone(),
                            ServerCommand::Unsubscribe(uri.clone()),
                        )),
                    ),
                ],
            )
        });
        let tasks = self.watched.tasks.iter();
        let tasks = tasks.flat_map(|(server, tasks)| tasks.iter().map(move |task| (server, task)));
        let tasks = tasks.map(|(server, task)| {
            let words = ink!("{}  {}  {}", Self::name(server), &task.tool, Ink::line(&task.id));
            let ask = |method| {
                let request = json!({"method": method, "params": {"taskId": task.id}});
                Pick::Request(server.clone(), Box::new(request))
            };
            row(
                &words,
                ink!("task {}, began {}", &task.status, self.when(task.began)),
                vec![
                    does("Get the result of the task", ask("tasks/result")),
                    does("Get the state of the task", ask("tasks/get")),
                    does("Cancel the task", ask("tasks/cancel")),
                ],
            )
        });
        subscriptions.chain(tasks).collect()
    }
}
