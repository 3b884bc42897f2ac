//! Real processes: their environment, how they end, and that nothing of them is left.

mod executable;
mod host_death;
mod stderr;
mod support;

use std::time::Duration;

use mcpdeck::base::text::SafeText;
use mcpdeck::process::{self, Grace};
use support::{Server, deck, shell, until, until_blocking};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Long enough for any machine; a polite server needs milliseconds.
const PATIENT: Grace = Grace { stdin: Duration::from_secs(20), term: Duration::from_secs(20) };
/// For servers that are known to ignore the request to stop.
const SHORT: Grace = Grace { stdin: Duration::from_millis(100), term: Duration::from_millis(100) };

#[tokio::test]
async fn a_server_talks_over_its_pipes_and_exits_when_stdin_closes() {
    let mut server = deck("echo").start(&shell("cat; echo bye >&2; exit 3")).await;
    server.stdin.as_mut().unwrap().write_all(b"hello\n").await.unwrap();
    let mut answer = [0; 6];
    server.stdout.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"hello\n");
    let exit = server.process.stop(PATIENT).await;
    assert_eq!((exit.code, exit.signal, exit.expected), (Some(3), None, true));
    assert_eq!(exit.ladder.as_deref(), Some("stdin"));
    assert_eq!(server.process.stderr_tail(10), [SafeText::line("bye")]);
    assert_eq!(server.survivors(), Vec::<String>::new());
}

#[tokio::test]
async fn an_exit_on_closed_stdin_is_expected_only_when_it_was_announced() {
    for announced in [true, false] {
        let mut server = deck("closed").start(&shell("cat")).await;
        if announced {
            server.process.expect_exit();
        }
        drop(server.stdin.take());
        let exit = server.process.wait().await;
        assert_eq!((exit.code, exit.expected), (Some(0), announced));
        assert_eq!(exit.ladder.is_some(), announced);
    }
}

#[tokio::test]
async fn an_announced_exit_stays_expected_when_the_stop_comes_after_it() {
    let mut server = deck("quick").start(&shell("cat")).await;
    let stat = format!("/proc/{}/stat", server.process.pid());
    server.process.expect_exit();
    drop(server.stdin.take());
    // Blocks the host's tasks: the host sees the exit and the stop request at the same time.
    until_blocking("the end of the process", || {
        std::fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") Z "))
    });
    let exit = server.process.stop(PATIENT).await;
    assert_eq!((exit.code, exit.expected), (Some(0), true));
    assert_eq!(exit.ladder.as_deref(), Some("stdin"));
}

#[tokio::test]
async fn a_crash_is_reported_with_its_signal_and_the_last_lines() {
    let server = deck("crash").start(&shell("echo one >&2; echo two >&2; kill -SEGV $$")).await;
    let exit = server.process.wait().await;
    assert_eq!((exit.code, exit.signal, exit.expected), (None, Some(11), false));
    assert_eq!(exit.ladder, None);
    let tail: Vec<String> =
        server.process.stderr_tail(10).iter().map(ToString::to_string).collect();
    assert_eq!(tail, ["one", "two"]);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_process_that_a_signal_stopped_is_reported_from_one_that_is_slow() {
    let mut server = deck("stopped").start(&shell("echo up; cat")).await;
    server.line().await;
    let pid = server.process.pid();
    assert!(!mcpdeck::process::is_suspended(pid));
    support::send(pid, rustix::process::Signal::STOP);
    until("it stands", || mcpdeck::process::is_suspended(pid)).await;
    let exit = server.process.stop(SHORT).await;
    assert!(exit.expected, "{exit:?}");
}

#[tokio::test]
async fn a_server_that_ignores_everything_is_killed_with_its_children() {
    let script = "trap '' TERM HUP; (trap '' TERM HUP; while :; do sleep 1000; done) & echo up; while :; do sleep 1000; done";
    let mut server = deck("stubborn").start(&shell(script)).await;
    server.line().await;
    let exit = server.process.stop(SHORT).await;
    assert_eq!(exit.signal, Some(9));
    assert_eq!(exit.ladder.as_deref(), Some("kill"));
    assert_eq!(server.survivors(), Vec::<String>::new());
}

#[tokio::test]
async fn a_grandchild_left_by_a_polite_exit_is_swept_and_counted() {
    let script = "(trap '' TERM HUP; sleep 1000) & echo up; cat; exit 0";
    let mut server = deck("leaver").start(&shell(script)).await;
    server.line().await;
    let exit = server.process.stop(PATIENT).await;
    assert_eq!((exit.code, exit.ladder.as_deref()), (Some(0), Some("stdin")));
    assert!(exit.swept >= 1, "{exit:?}");
    assert_eq!(server.survivors(), Vec::<String>::new());
}

#[tokio::test]
async fn a_daemon_that_left_the_session_is_found_by_its_mark() {
    // Double fork through a subshell that ends at once, in a session of its own.
    let script = "(setsid sh -c 'trap \"\" TERM HUP; while :; do sleep 1000; done' >/dev/null 2>&1 </dev/null &) ; echo up; cat";
    let mut server = deck("daemon").start(&shell(script)).await;
    server.line().await;
    until("the daemon runs", || {
        server.survivors().iter().any(|line| line.contains("setsid") || line.contains("sleep"))
    })
    .await;
    let exit = server.process.stop(PATIENT).await;
    assert_eq!(exit.ladder.as_deref(), Some("stdin"));
    assert!(exit.swept >= 1, "{exit:?}");
    assert_eq!(server.survivors(), Vec::<String>::new());
}

#[tokio::test]
async fn a_crash_sweeps_what_the_server_had_started() {
    let mut server =
        deck("crasher").start(&shell("sleep 1000 & echo up; read x; kill -KILL $$")).await;
    server.line().await;
    server.stdin.as_mut().unwrap().write_all(b"\n").await.unwrap();
    let exit = server.process.wait().await;
    assert_eq!((exit.signal, exit.expected, exit.swept), (Some(9), false, 1));
    assert_eq!(server.survivors(), Vec::<String>::new());
}

#[tokio::test]
async fn dropping_the_last_handle_kills_the_family() {
    let mut server = deck("dropped")
        .start(&shell("trap '' TERM HUP; sleep 1000 & echo up; while :; do sleep 1000; done"))
        .await;
    server.line().await;
    let mark = server.mark.clone();
    drop(server);
    until("the family is gone", || support::marked(&mark).is_empty()).await;
}

#[test]
fn dropping_the_runtime_kills_the_family() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let server = runtime.block_on(async {
        let mut server = deck("orphaned")
            .start(&shell("trap '' TERM HUP; sleep 1000 & echo up; while :; do sleep 1000; done"))
            .await;
        server.line().await;
        server
    });
    let mark = server.mark.clone();
    drop(runtime);
    support::until_blocking("the family is gone", || support::marked(&mark).is_empty());
    drop(server);
}

#[tokio::test]
async fn a_start_that_nobody_waits_for_any_more_leaves_nothing() {
    let mut config = shell("trap '' TERM; while :; do sleep 1000; done");
    config.env.insert("ABANDONED".into(), mcpdeck::base::secret::Secret::new("a start"));
    let context = deck("abandoned").context;
    for _ in 0..20 {
        let launch = process::resolve(&config).unwrap();
        let mut start = Box::pin(process::spawn(launch, context.clone()));
        assert!(futures::poll!(&mut start).is_pending());
    }
    // One thread starts all processes, so the last of them was started before this one.
    let marker = deck("after").start(&shell("cat")).await;
    until("all are gone", || support::marked("ABANDONED=a start").is_empty()).await;
    drop(marker);
}

#[tokio::test]
async fn a_second_order_skips_the_grace_of_the_first() {
    let server = deck("hurried").start(&shell("trap '' TERM; while :; do sleep 1000; done")).await;
    let process = server.process.clone();
    let stop = tokio::spawn(async move { process.stop(PATIENT).await });
    tokio::task::yield_now().await;
    server.process.kill();
    assert_eq!(stop.await.unwrap().signal, Some(9));
    // Both calls, and any later one, report the same exit.
    assert_eq!(server.process.stop(PATIENT).await.signal, Some(9));
}

#[tokio::test]
async fn a_stopped_process_is_woken_to_hear_that_it_should_end() {
    let mut server = deck("frozen").start(&shell("echo up; kill -STOP $$; exit 0")).await;
    server.line().await;
    let exit = server.process.stop(Grace { stdin: Duration::from_millis(50), ..PATIENT }).await;
    assert_eq!(exit.ladder.as_deref(), Some("term"));
}

#[tokio::test]
async fn stdin_can_be_closed_while_a_write_to_it_is_blocked() {
    let mut server = deck("wedged").start(&shell("exec sleep 1000")).await;
    let mut stdin = server.stdin.take().unwrap();
    let writer = tokio::spawn(async move { stdin.write_all(&vec![b'x'; 10 << 20]).await });
    tokio::task::yield_now().await;
    server.process.close_stdin();
    assert!(writer.await.unwrap().is_err());
    assert_eq!(server.process.stop(SHORT).await.ladder.as_deref(), Some("term"));
}

#[tokio::test]
async fn stdout_ends_with_the_server_although_somebody_holds_it_open() {
    // The holder sheds session, group, parent and mark: nothing can find it, unless another test
    // reads the process table in the meantime.
    let script = "(setsid env -i /bin/sh -c 'trap \"\" TERM; sleep 1007.25' &); echo up; cat";
    let holds = || !support::processes(|own, _| own == b"sleep\x001007.25\0").is_empty();
    for _ in 0..5 {
        let mut server = deck("held").start(&shell(script)).await;
        server.line().await;
        until("it is what nothing finds", holds).await;
        server.process.stop(PATIENT).await;
        let mut rest = Vec::new();
        let read = server.stdout.read_to_end(&mut rest);
        let ended = tokio::time::timeout(Duration::from_secs(20), read).await;
        let held = holds();
        support::end_escaped(b"sleep\x001007.25\0");
        ended.expect("it ends all the same").unwrap();
        if held {
            return;
        }
    }
    panic!("nobody ever held it open");
}

#[tokio::test]
async fn a_server_has_no_controlling_terminal_and_leads_its_own_session() {
    let mut server = deck("session")
        .start(&shell("(: </dev/tty) 2>/dev/null && echo tty || echo none; cat"))
        .await;
    assert_eq!(server.line().await, "none");
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.process.pid())).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let pid = server.process.pid().to_string();
    assert_eq!((fields[2], fields[3]), (pid.as_str(), pid.as_str()));
}

#[tokio::test]
async fn a_server_starts_with_every_signal_let_through() {
    // This program ignores SIGPIPE, as programs in Rust do, and handles another signal.
    let _handled = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::child());
    let mask = |process: &str, key: &str| {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(key)).expect("it is there");
        u64::from_str_radix(line.trim(), 16).expect("hexadecimal")
    };
    let sigpipe = 1 << 12;
    let ignored = mask("self", "SigIgn:");
    assert!(ignored & sigpipe != 0 && mask("self", "SigCgt:") != 0);
    let server = deck("signals").start(&shell("exec cat")).await;
    let pid = server.process.pid().to_string();
    let expected = [("SigBlk:", 0), ("SigIgn:", ignored & !sigpipe), ("SigCgt:", 0)];
    // Until the shell has become the program, it has handlers of its own.
    until("all is as it was before this program", || {
        expected.iter().all(|(key, signals)| mask(&pid, key) == *signals)
    })
    .await;
}

#[tokio::test]
async fn a_server_sees_the_safe_list_its_own_variables_and_its_mark_only() {
    let mut config = shell("env | sed 's/=.*//' | sort | tr '\\n' ' '; echo; cat");
    config.env.insert("MINE".into(), mcpdeck::base::secret::Secret::new("1"));
    let mut server = deck("env").start(&config).await;
    let line = server.line().await;
    for name in line.split_whitespace() {
        let known = ["MINE", "MCPDECK_SERVER", "PWD", "OLDPWD", "SHLVL", "_"].contains(&name);
        assert!(known || mcpdeck::process::is_safe_name(name), "{name} leaked");
    }
    let names: Vec<&str> = line.split_whitespace().collect();
    assert!(names.contains(&"PATH") && names.contains(&"MINE"), "{line}");
    assert!(!names.contains(&"CARGO_MANIFEST_DIR"), "{line}");
}

#[tokio::test]
async fn arguments_are_passed_literally() {
    let mut config = shell("for a in \"$@\"; do printf '[%s]' \"$a\"; done; echo; cat");
    let odd = ["; rm -rf x", "$(id)", "a  b", "", "*", "| > <", "é\u{202e}", "'\"\\"];
    config.args.push("argv0".into());
    config.args.extend(odd.iter().map(|s| (*s).to_owned()));
    let mut server = deck("args").start(&config).await;
    assert_eq!(server.line().await, format!("[{}]", odd.join("][")));
}

#[tokio::test]
async fn limits_of_the_entry_hold_in_the_server() {
    let mut config = shell("ulimit -n; ulimit -t; ulimit -d; cat");
    config.limits = mcpdeck::config::ProcessLimits {
        memory: Some(512 << 20),
        cpu_time: Some(Duration::from_millis(2500)),
        open_files: Some(64),
    };
    let mut server = deck("limits").start(&config).await;
    assert_eq!(server.line().await, "64");
    assert_eq!(server.line().await, "3");
    assert_eq!(server.line().await, (512 << 10).to_string());
}

#[tokio::test]
async fn a_server_that_burns_its_cpu_time_is_ended_by_the_limit() {
    let mut config = shell("while :; do :; done");
    config.limits.cpu_time = Some(Duration::from_secs(1));
    let server = deck("burner").start(&config).await;
    assert_eq!(server.process.wait().await.signal, Some(24));
}

#[tokio::test]
async fn usage_is_that_of_the_whole_family() {
    let mut server = deck("usage").start(&shell("sleep 1000 & sleep 1000 & echo up; cat")).await;
    server.line().await;
    let usage = server.process.usage().unwrap();
    assert!(usage.processes >= 3, "{usage:?}");
    assert!(usage.memory > 100_000, "{usage:?}");
    server.process.stop(PATIENT).await;
    until("nothing is used", || server.process.usage().is_none()).await;
}

#[tokio::test]
async fn a_swarm_of_processes_in_sessions_of_their_own_is_swept() {
    let script = "for i in $(seq 150); do setsid sleep 1000 & done; \
                  for i in $(seq 150); do sleep 1000 & done; echo up; cat";
    let mut server = deck("swarm").start(&shell(script)).await;
    server.line().await;
    until("all run", || server.survivors().len() >= 301).await;
    let exit = server.process.stop(PATIENT).await;
    assert!(exit.swept >= 300, "{exit:?}");
    assert_eq!(server.survivors(), Vec::<String>::new());
}

#[tokio::test]
async fn what_a_server_writes_while_it_ends_does_not_end_it() {
    let dir = tempfile::tempdir().unwrap();
    let saved = dir.path().join("saved");
    // More than a pipe buffers, so that the host has to read it.
    let script = format!(
        "echo up; cat; sleep 0.3; head -c 700000 /dev/zero && echo kept > '{}' && exit 11",
        saved.display()
    );
    let mut server = deck("writer").start(&shell(&script)).await;
    server.line().await;
    let Server { stdin, stdout, process, mark } = server;
    // The session is closed before the process is told to stop.
    drop((stdin, stdout));
    let exit = process.stop(PATIENT).await;
    assert_eq!((exit.code, exit.signal), (Some(11), None), "{exit:?}");
    assert_eq!(std::fs::read_to_string(saved).unwrap(), "kept\n");
    assert_eq!(support::marked(&mark), Vec::<String>::new());
}

#[tokio::test]
async fn a_daemon_that_is_another_process_every_few_milliseconds_is_caught() {
    for pause in ["0.007", "0.023", "0.041"] {
        let dir = tempfile::tempdir().unwrap();
        let hop = dir.path().join("hop");
        std::fs::write(&hop, format!("sleep {pause}\nsetsid sh \"$0\" &\n")).unwrap();
        let script =
            format!("setsid sh '{}' >/dev/null 2>&1 </dev/null & echo up; cat", hop.display());
        let mut server = deck("hopper").start(&shell(&script)).await;
        server.line().await;
        let exit = server.process.stop(PATIENT).await;
        assert!(exit.swept >= 1 && exit.escaped.is_empty(), "{exit:?}");
        for _ in 0..20 {
            assert_eq!(server.survivors(), Vec::<String>::new(), "{pause}");
        }
    }
}

#[tokio::test]
async fn daemons_that_hear_no_signal_and_are_others_every_few_milliseconds_are_caught() {
    for pause in ["0.013", "0.031"] {
        let dir = tempfile::tempdir().unwrap();
        let hop = dir.path().join("hop");
        std::fs::write(&hop, format!("sleep {pause}\nsetsid sh \"$0\" &\n")).unwrap();
        let script = format!(
            "(trap '' TERM HUP; for i in 1 2 3 4; do setsid sh '{}' & done) >/dev/null 2>&1 \
             </dev/null; echo up; cat",
            hop.display()
        );
        let mut server = deck("hoppers").start(&shell(&script)).await;
        server.line().await;
        let exit = server.process.stop(PATIENT).await;
        assert!(exit.swept >= 1 && exit.escaped.is_empty(), "{exit:?}");
        for _ in 0..20 {
            assert_eq!(server.survivors(), Vec::<String>::new(), "{pause}");
        }
    }
}

#[test]
fn a_budget_is_a_third_on_closed_stdin_at_most_three_seconds_and_the_rest_after_sigterm() {
    for (budget, stdin, term) in [(10, 3_000, 7_000), (45, 3_000, 42_000), (6, 2_000, 4_000)] {
        let grace = Grace::within(Duration::from_secs(budget));
        assert_eq!((grace.stdin.as_millis(), grace.term.as_millis()), (stdin, term));
    }
}

#[tokio::test]
async fn many_servers_are_stopped_at_once_without_a_leftover() {
    let deck = deck("many");
    let mut servers = Vec::new();
    for _ in 0..12 {
        let mut server =
            deck.start(&shell("trap '' TERM; echo up; while :; do sleep 1000; done")).await;
        server.line().await;
        servers.push(server);
    }
    let one = Grace { stdin: Duration::from_millis(400), term: Duration::from_millis(400) };
    let exits = futures::future::join_all(servers.iter().map(|s| s.process.stop(one))).await;
    assert!(exits.iter().all(|exit| exit.signal == Some(9)));
    assert!(servers.iter().all(|server| server.survivors().is_empty()));
}

#[tokio::test]
async fn a_helper_that_ends_soon_after_its_server_is_not_left_behind() {
    let script = "exec 3<&0; (cat <&3; sleep 0.3) >/dev/null 2>&1 & exec 3<&-; echo up; cat";
    let mut server = deck("helped").start(&shell(script)).await;
    server.line().await;
    let exit = server.process.stop(PATIENT).await;
    assert_eq!((exit.code, exit.swept), (Some(0), 0), "{exit:?}");
}
