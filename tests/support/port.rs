//! Ports for programs that are told where to listen. They lie below those that a system gives to
//! connections, so that none is taken between the choice and the program, and no two are the same.

use std::sync::atomic::{AtomicU16, Ordering};

pub fn free() -> u16 {
    static TAKEN: AtomicU16 = AtomicU16::new(0);
    // Where a process begins differs from that of the next.
    let begin = (std::process::id() % 600) as u16 * 20;
    loop {
        let port = 20_000 + (begin + TAKEN.fetch_add(1, Ordering::Relaxed)) % 12_000;
        if std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
