//! stderr of real servers: lines, secrets, floods.

use mcpdeck::base::LogLevel::{self, Error, Info, Warning};

use crate::process::support::{deck, masking, shell, until};

#[tokio::test]
async fn lines_are_cut_made_safe_and_given_a_level() {
    let script = "printf 'plain\\n\\033[31mred\\n\\377bad\\n2026 ERROR broke\\r\\nTypeError: x\\nWARNING: y\\n' >&2; \
                  head -c 5000 /dev/zero | tr '\\0' x >&2; echo >&2; printf 'no end' >&2";
    let deck = deck("lines");
    let server = deck.start(&shell(script)).await;
    server.process.wait().await;
    let log = deck.log();
    assert_eq!(log[..3], ["plain", "red", "\u{fffd}bad"]);
    assert_eq!(log[3], "2026 ERROR broke");
    assert!(log[6].starts_with("xxxx") && log[6].ends_with("… 3976 bytes more"), "{}", log[6]);
    assert_eq!(log[7], "no end");
    let levels: Vec<LogLevel> = deck.logs.tail(10).iter().map(|record| record.level).collect();
    assert_eq!(levels, [Info, Info, Info, Error, Error, Warning, Info, Info]);
}

#[tokio::test]
async fn a_line_without_an_end_is_shown_while_the_server_waits() {
    let deck = deck("prompt");
    let server = deck.start(&shell("printf 'Password: ' >&2; cat")).await;
    until("the prompt is shown", || deck.log() == ["Password: "]).await;
    drop(server);
}

#[tokio::test]
async fn a_secret_is_masked_also_where_a_line_is_cut() {
    let secret = "canary-0123456789";
    // The line limit of the tests is 1024 bytes; the secret lies across it.
    let script = format!(
        "echo 'key={secret}' >&2; head -c 1015 /dev/zero | tr '\\0' x >&2; echo '{secret} end' >&2"
    );
    let deck = masking("secret", &[secret]);
    let server = deck.start(&shell(&script)).await;
    server.process.wait().await;
    let all = format!("{:?} {:?}", deck.log(), server.process.stderr_tail(10));
    assert!(deck.log()[0] == "key=***", "{all}");
    assert!(!all.contains("canary"), "{all}");
}

#[tokio::test]
async fn a_flood_is_counted_and_its_last_lines_are_exact() {
    // 20 MB in 2,000,000 lines, followed by the relevant one.
    let script = "yes 123456789 | head -n 2000000 >&2; echo 'Error: the reason' >&2; exit 7";
    let deck = deck("flood");
    let server = deck.start(&shell(script)).await;
    let exit = server.process.wait().await;
    assert_eq!(exit.code, Some(7));
    let view = server.process.stderr();
    assert_eq!((view.bytes, view.lines), (20_000_018, 2_000_001));
    assert!(view.dropped > 1_900_000, "{view:?}");
    let tail = server.process.stderr_tail(2);
    assert_eq!((&*tail[0], &*tail[1]), ("123456789", "Error: the reason"));
    let log = deck.log();
    assert!(log.len() < 60_000, "{}", log.len());
    let kept = log.iter().filter(|line| *line == "123456789" || line.starts_with("Error")).count();
    assert_eq!(kept as u64 + view.dropped, view.lines);
    let counted: u64 = log
        .iter()
        .filter_map(|line| {
            line.strip_prefix("stderr flood: ")?.split(' ').next()?.parse::<u64>().ok()
        })
        .sum();
    assert_eq!(counted, view.dropped, "every dropped line is counted");
}

#[tokio::test]
async fn a_grandchild_that_holds_stderr_open_does_not_delay_the_end() {
    let script = "(setsid env -i /bin/sh -c 'trap \"\" TERM; sleep 7.5' &); echo last >&2; exit 1";
    let server = deck("held-stderr").start(&shell(script)).await;
    assert_eq!(server.process.wait().await.code, Some(1));
    // The shell may still report that the grandchild was killed.
    assert!(server.process.stderr_tail(2).iter().any(|line| &**line == "last"));
    crate::process::support::end_escaped(b"sleep\x007.5\0");
}

#[tokio::test]
async fn last_words_reach_back_as_far_as_their_limit_lets_them() {
    let script = "printf 'far back\\n' >&2; head -c 20000 /dev/zero | tr '\\0' x >&2; printf '\\nlast\\n' >&2";
    for (kept, first) in [(32 << 10, Some("far back")), (8 << 10, None)] {
        let mut deck = deck("chatty");
        deck.context.stderr_bytes = kept;
        let server = deck.start(&shell(script)).await;
        server.process.wait().await;
        let tail = server.process.stderr_tail(3);
        assert_eq!(tail.last().map(|line| &**line), Some("last"));
        assert_eq!(tail.first().map(|line| &**line).filter(|line| *line == "far back"), first);
    }
}
