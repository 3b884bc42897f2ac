//! Sessions over an in-memory pipe against a scripted server, on a paused clock: every broken
//! answer either works or fails its call at once, with the reason.

mod answers;
mod approvals;
mod eras;
mod hostile;
mod http;
mod large;
mod load;
mod peer;
mod requests;
mod server_requests;
mod task_lies;
mod tasks;
mod web;
mod world;
