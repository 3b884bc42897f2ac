//! The host is killed with SIGKILL: nothing of its servers is left (fault catalogue, row O1).
//!
//! The host is this test binary, run again with [`ROLE`] in its environment.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Instant;

use mcpdeck::process::{Containment, Grace, containment};

use crate::process::support::{deck, marked, processes, shell, until_blocking};

const ROLE: &str = "MCPDECK_TEST_ROLE";

/// Servers of every kind that is hard to terminate.
const SERVERS: &[&str] = &[
    // polite
    "echo up; cat",
    // stubborn, with a stubborn child
    "trap '' TERM HUP INT; (trap '' TERM HUP; while :; do sleep 1000; done) & echo up; while :; do sleep 1000; done",
    // a wrapper in a wrapper, like npx
    "sh -c 'sh -c \"trap : TERM HUP; echo up; while :; do sleep 1000; done\"; true'; true",
    // a daemon in another session with another parent
    "(setsid sh -c 'trap \"\" TERM HUP; while :; do sleep 1000; done' >/dev/null 2>&1 </dev/null &); echo up; cat",
    // stopped
    "echo up; kill -STOP $$; cat",
    // keeps forking
    "echo up; while :; do sleep 0.01; done",
    // a daemon that moves to a new process every few milliseconds
    "hop='sleep 0.019; setsid sh -c \"$0\" \"$0\" &'; setsid sh -c \"$hop\" \"$hop\" >/dev/null 2>&1 </dev/null & echo up; cat",
];

/// Not a test: the host to be killed. Starts the servers, prints their marks, waits forever.
#[test]
fn host_that_is_killed() {
    if std::env::var_os(ROLE).is_none() {
        return;
    }
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let mut servers = Vec::new();
        for script in SERVERS {
            let mut server = deck("doomed").start(&shell(script)).await;
            assert_eq!(server.line().await, "up");
            writeln!(std::io::stdout(), "\nmark {}", server.mark).unwrap();
            servers.push(server);
        }
        // A line on stdin makes it stop its servers, but not exit.
        let line = tokio::task::spawn_blocking(|| std::io::stdin().lines().next());
        if let Ok(Some(Ok(_))) = line.await {
            let stops = servers.iter().map(|server| server.process.stop(Grace::NONE));
            futures::future::join_all(stops).await;
            writeln!(std::io::stdout(), "\nstopped").unwrap();
        }
        std::future::pending::<()>().await;
    });
}

struct Host {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    marks: Vec<String>,
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn host() -> Host {
    let mut child = Command::new(std::env::current_exe().expect("a host"))
        .args([
            "process::host_death::host_that_is_killed",
            "--exact",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(ROLE, "host")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a host");
    let stdout = child.stdout.take().expect("a host");
    let mut lines = BufReader::new(stdout).lines();
    let marks = lines
        .by_ref()
        .map_while(Result::ok)
        .filter_map(|line| line.strip_prefix("mark ").map(str::to_owned))
        .take(SERVERS.len())
        .collect();
    Host { child, lines, marks }
}

/// The guardians of a host, found by the common prefix of the marks in their arguments.
fn guardians(marks: &[String]) -> Vec<(u32, String)> {
    let (token, _) = marks[0].trim_end_matches('.').rsplit_once('.').expect("a host");
    processes(|line, _| {
        line.windows(token.len()).any(|part| part == token.as_bytes())
            && line.starts_with(b"/bin/sh\0-c\0guardian=$MCPDECK_GUARDIAN")
            && line.len() < 200
    })
}

fn all_gone(marks: &[String]) -> bool {
    marks.iter().all(|mark| marked(mark).is_empty())
}

#[test]
fn nothing_outlives_a_killed_host() {
    let mut host = host();
    assert_eq!(host.marks.len(), SERVERS.len());
    assert!(host.marks.iter().all(|mark| !marked(mark).is_empty()));
    assert_eq!(guardians(&host.marks).len(), 1);
    host.child.kill().unwrap();
    host.child.wait().unwrap();
    let killed = Instant::now();
    until_blocking("nothing is left", || {
        all_gone(&host.marks) && guardians(&host.marks).is_empty()
    });
    writeln!(std::io::stderr(), "all gone {:?} after the host", killed.elapsed()).unwrap();
}

#[test]
fn a_killed_guardian_is_replaced() {
    let mut host = host();
    let [(pid, _)] = guardians(&host.marks)[..] else { panic!("one guardian") };
    crate::process::support::kill(pid);
    until_blocking("another guardian runs", || {
        guardians(&host.marks).first().is_some_and(|(other, _)| *other != pid)
    });
    host.child.kill().unwrap();
    host.child.wait().unwrap();
    until_blocking("nothing is left", || all_gone(&host.marks));
}

/// Makes a host stop its servers and waits for its confirmation.
fn stop(host: &mut Host) {
    host.child.stdin.take().expect("a pipe").write_all(b"stop\n").expect("a host that listens");
    assert!(host.lines.by_ref().map_while(Result::ok).any(|line| line == "stopped"));
}

#[test]
fn the_guardian_goes_with_the_last_server() {
    let mut host = host();
    assert_eq!(guardians(&host.marks).len(), 1);
    stop(&mut host);
    // At once, while the host is alive: no child process remains after a stop.
    assert_eq!(guardians(&host.marks), []);
    assert!(all_gone(&host.marks));
    host.child.kill().unwrap();
    host.child.wait().unwrap();
}

#[test]
fn a_guardian_that_a_server_has_stopped_holds_nobody_up() {
    let mut host = host();
    let [(pid, _)] = guardians(&host.marks)[..] else { panic!("one guardian") };
    crate::process::support::send(pid, rustix::process::Signal::STOP);
    stop(&mut host);
    assert_eq!(guardians(&host.marks), []);
    host.child.kill().unwrap();
    host.child.wait().unwrap();
}

#[tokio::test]
async fn the_level_of_containment_is_reported() {
    let _server = deck("guarded").start(&shell("cat")).await;
    assert_eq!(containment(), Containment::Marked);
    assert!(containment().describe().contains("guardian"));
}
