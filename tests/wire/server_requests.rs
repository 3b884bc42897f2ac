//! Requests of servers.
