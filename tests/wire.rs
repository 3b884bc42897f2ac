//! Sessions over an in-memory pipe against a server that does what it is told, on a paused clock:
//! every broken answer either works or fails its call at once, with the reason.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

#[path = "wire/answers.rs"]
mod answers;
#[path = "wire/approvals.rs"]
mod approvals;
#[path = "wire/eras.rs"]
mod eras;
#[path = "wire/hostile.rs"]
mod hostile;
#[path = "wire/large.rs"]
mod large;
#[path = "wire/load.rs"]
mod load;
#[path = "wire/peer.rs"]
mod peer;
#[path = "wire/requests.rs"]
mod requests;
#[path = "wire/server_requests.rs"]
mod server_requests;
#[path = "wire/task_lies.rs"]
mod task_lies;
#[path = "wire/tasks.rs"]
mod tasks;
#[path = "wire/web.rs"]
#[expect(dead_code, reason = "other tests need the rest")]
mod web;
#[path = "wire/world.rs"]
mod world;
