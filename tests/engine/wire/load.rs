//! Load: many concurrent calls, and servers that write unsolicited data.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mcpdeck::error::ErrorCode;
use mcpdeck::mcp::{Attempt, Endpoint, connect};
use mcpdeck::protocol::FindingKind;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::time::Instant;

use crate::wire::peer::{Counting, Peer, call, echo, pipe, rig, text};

#[tokio::test(start_paused = true)]
async fn calls_made_together_go_out_together_and_a_single_one_does_not_wait() {
    let rig = rig();
    let writes = Arc::new(AtomicUsize::new(0));
    let (Endpoint::Pipe { read, write }, mut peer) = pipe(1 << 20) else { panic!("a pipe") };
    let write = Box::new(Counting(write, Arc::clone(&writes)));
    let endpoint = Endpoint::Pipe { read, write };
    let attempt = Attempt::Legacy(None);
    let connecting = connect(endpoint, &attempt, rig.context.clone());
    let (connected, _) = tokio::join!(connecting, peer.initialize());
    let session = connected.unwrap().session;
    // A single call is written at the first poll, without a turn of another task.
    writes.store(0, Ordering::Relaxed);
    let mut single = session.request(echo("alone"), call(1).context);
    assert!(futures::poll!(&mut single).is_pending());
    assert_eq!(writes.load(Ordering::Relaxed), 1);
    let request = peer.recv().await;
    peer.reply(&request, text("alone")).await;
    single.await.unwrap();
    writes.store(0, Ordering::Relaxed);
    let all = (0..50).map(|n| session.request(echo("x"), call(n + 2).context));
    let answering = async {
        for _ in 0..50 {
            let request = peer.recv().await;
            peer.reply(&request, text("x")).await;
        }
    };
    let (results, ()) = tokio::join!(futures::future::join_all(all), answering);
    assert!(results.iter().all(Result::is_ok));
    let writes = writes.load(Ordering::Relaxed);
    assert!(writes <= 5, "{writes} writes for 50 calls made together");
}

/// Writes `megabytes` of lines that are not messages.
async fn flood(peer: &mut Peer, megabytes: usize) {
    let lines = "a line of forty bytes, as logs have them\n".repeat(25_000);
    for _ in 0..megabytes {
        peer.raw(&lines).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_flood_is_read_at_a_limited_rate_reported_once_and_hides_no_answer() {
    let mut rig = rig();
    let (Endpoint::Pipe { read, write }, mut peer) = pipe(64 << 10) else { panic!("a pipe") };
    let endpoint = Endpoint::Pipe { read, write };
    let attempt = Attempt::Legacy(None);
    let connecting = connect(endpoint, &attempt, rig.context.clone());
    let (connected, _) = tokio::join!(connecting, peer.initialize());
    let session = connected.unwrap().session;
    let began = Instant::now();
    let calling = session.request(echo("x"), call(1).context);
    let answering = async {
        let request = peer.recv().await;
        flood(&mut peer, 150).await;
        peer.reply(&request, text("after the flood")).await;
    };
    let (result, ()) = tokio::join!(calling, answering);
    assert_eq!(*result.unwrap(), text("after the flood"));
    // 150 MB, of which 16 MiB are unlimited: 3.5 seconds at 40 MiB per second.
    let took = began.elapsed().as_secs_f64();
    assert!((2.5..5.0).contains(&took), "{took} s");
    let findings = rig.findings().await;
    let told = findings.iter().filter(|finding| finding.kind == FindingKind::Flood).count();
    assert_eq!(told, 1, "{findings:?}");
    let junk = rig.context.traffic.read(0, usize::MAX).items;
    assert!(junk.len() < 1_000, "{} records of a flood", junk.len());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_asks_without_reading_its_answers_is_cut_off() {
    let mut rig = rig();
    let (Endpoint::Pipe { read, write }, mut peer) = pipe(4 << 10) else { panic!("a pipe") };
    let endpoint = Endpoint::Pipe { read, write };
    let attempt = Attempt::Legacy(None);
    let connecting = connect(endpoint, &attempt, rig.context.clone());
    let (connected, _) = tokio::join!(connecting, peer.initialize());
    let session = connected.unwrap().session;
    // Reads one answer per forty pings, so that the backlog keeps growing.
    let mut sent = 0;
    for n in 0..20_000 {
        let ping = json!({"jsonrpc": "2.0", "id": format!("p{n}"), "method": "ping"});
        if peer.writer.write_all(format!("{ping}\n").as_bytes()).await.is_err() {
            break;
        }
        sent += 1;
        if n % 40 == 0 {
            peer.recv().await;
        }
    }
    assert!(sent < 4_000, "{sent} pings were taken from a server that reads so few answers");
    let findings = rig.findings().await;
    let told = findings.iter().filter(|f| f.message.contains("does not read")).map(|f| f.count);
    assert_eq!(told.sum::<u64>(), 1, "told once: {findings:?}");
    let error = session.request(echo("x"), call(1).context).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::ServerUnavailable);
    assert!(error.message.contains("does not read the answers"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn answers_are_never_held_back_however_large() {
    let mut rig = rig();
    let (connected, mut peer) = rig.legacy().await;
    let big = "x".repeat(1 << 20);
    let began = Instant::now();
    for n in 0..60 {
        let calling = connected.session.request(echo("x"), call(n).context);
        let answering = async {
            let request = peer.recv().await;
            peer.reply(&request, json!({"content": [{"type": "text", "text": big}]})).await;
        };
        let (result, ()) = tokio::join!(calling, answering);
        assert!(result.is_ok());
    }
    assert!(began.elapsed() < Duration::from_millis(1), "no pause for what was asked for");
    assert!(rig.findings().await.is_empty());
}
