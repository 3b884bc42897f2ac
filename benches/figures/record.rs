//! The cost of recording: calls at 20,000 messages per second (10,000 calls, ten per millisecond),
//! with and without a recorder, alternating in one run on a current-thread runtime. The p99 is also
//! taken per 50 ms window, so that a stall of the machine affects only one of them. Prints p50 and
//! p99 over all calls, then the quartiles of the p99 of the windows and their ratios; the goal is
//! within 1.1.
//!
//! `cargo bench --bench figures -- record`; `open [MEGABYTES]` writes a recording of that size (default
//! 1,000) and prints the time to the first screen, to read all of it and to seek to a moment, and
//! the memory afterwards; `waterfall` prints the time of a waterfall frame over 1,000 and
//! 100,000 operations, with and without a new one.

use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use mcpdeck::base::Timestamp;
use mcpdeck::base::ring::Batch;
use mcpdeck::base::text::SafeText;
use mcpdeck::deck::{News, Recorder, Scan};
use mcpdeck::tui::app::{App, Setup};
use mcpdeck::tui::message::Message;
use mcpdeck::tui::player::play;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use serde_json::json;

use crate::place::Place;
use crate::report::{Figure, Goal, at};
use crate::ways::Deck;

const TICK: Duration = Duration::from_millis(1);
const PER_TICK: usize = 10;
const TURN: Duration = Duration::from_millis(500);
const TURNS: usize = 40;
/// Number of calls in a 50 ms window.
const WINDOW: usize = 50 * PER_TICK;

/// Measures recording, or what the words say.
pub fn measure(words: &[String]) {
    if words.iter().any(|word| word == "open") {
        return open(words);
    }
    if words.iter().any(|word| word == "waterfall") {
        return waterfall();
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(record());
}

/// Makes the calls of one turn, ten per millisecond; returns the time of each in microseconds.
async fn turn(host: &Deck) -> Vec<f64> {
    let arguments = json!({"text": "hello"});
    let mut tick = tokio::time::interval(TICK);
    let mut times = Vec::new();
    for _ in 0..TURN.as_millis() / TICK.as_millis() {
        tick.tick().await;
        let began = Instant::now();
        let calls = (0..PER_TICK).map(|_| async {
            host.call(0, &arguments).await;
            began.elapsed().as_secs_f64() * 1e6
        });
        times.extend(futures::future::join_all(calls).await);
    }
    times
}

async fn record() {
    let folder = tempfile::tempdir().unwrap();
    let host = Deck::start(1, Place::Spread).await;
    let (mut plain, mut recorded) = (Vec::new(), Vec::new());
    let mut ends = [Vec::new(), Vec::new()];
    for n in 0..=TURNS {
        let file = folder.path().join(format!("{n}.jsonl"));
        for half in 0..2 {
            let records = (n + half) % 2 == 1;
            let recorder = records.then(|| Recorder::start(&host.0, &file).unwrap());
            let mut times = turn(&host).await;
            if let Some(recorder) = recorder {
                recorder.finish().await.unwrap();
            }
            // The first turn warms up.
            if n > 0 {
                let windows = times.chunks_exact_mut(WINDOW).map(|window| at(window, 0.99));
                ends[usize::from(records)].extend(windows);
                if records { &mut recorded } else { &mut plain }.append(&mut times);
            }
        }
        std::fs::remove_file(&file).unwrap();
    }
    for (name, times) in [("without", &mut plain), ("with", &mut recorded)] {
        println!("{name:<8} p50 {:>7.1} us  p99 {:>7.1} us", at(times, 0.5), at(times, 0.99));
    }
    let [without, with] = &ends;
    let mut ratios: Vec<f64> =
        without.iter().zip(with).map(|(without, with)| with / without).collect();
    let goal = Goal::AtMost(1.1);
    Figure { what: "p99 of 50 ms, recorded", against: "not recorded", unit: "", goal }
        .state(&mut ratios);
    host.0.shutdown().await;
}

fn open(words: &[String]) {
    let megabytes = words.iter().find_map(|word| word.parse().ok()).unwrap_or(1_000_u64);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large.jsonl");
    let mut file = std::io::BufWriter::new(std::fs::File::create(&path).unwrap());
    writeln!(file, r#"{{"type":"header","version":1,"product":"mcpdeck 0","began":1}}"#).unwrap();
    let text = "lorem ipsum ".repeat(150);
    let (mut bytes, mut at) = (0, 1_u64);
    while bytes < megabytes * 1_000_000 {
        for (direction, kind, body) in [
            ("out", "request", format!(r#"{{"jsonrpc":"2.0","id":{at},"method":"tools/call"}}"#)),
            ("in", "response", format!(r#"{{"jsonrpc":"2.0","id":{at},"result":"{text}"}}"#)),
        ] {
            let line = json!({
                "type": "frame", "at": at * 1_000, "server": "files", "direction": direction,
                "kind": kind, "method": "tools/call", "target": "read", "id": at.to_string(),
                "call": at, "bytes": body.len(), "latency": null, "body": body, "cut": false,
                "problem": null,
            });
            let line = line.to_string();
            bytes += line.len() as u64 + 1;
            writeln!(file, "{line}").unwrap();
        }
        at += 1;
    }
    file.flush().unwrap();
    drop(file);
    let before = resident();
    first_screen(&path);
    let began = Instant::now();
    let mut scan = Scan::open(&path).unwrap();
    while scan.advance().unwrap() {}
    let mut player = scan.finish();
    println!("{} MB, {} messages: read in {:.2?}", bytes / 1_000_000, 2 * at, began.elapsed());
    for share in [0.5, 0.999, 0.1] {
        let began = Instant::now();
        let news = player.seek(Timestamp((at as f64 * 1_000.0 * share) as u64)).unwrap();
        let count = news.frames.items.len();
        println!("at {share}: {count} messages shown after {:.1?}", began.elapsed());
    }
    println!("memory: {:.1} MB more than before", resident() - before);
}

/// Measures the time until the dashboard shows the first part of a recording.
fn first_screen(path: &std::path::Path) {
    let began = Instant::now();
    let scan = Scan::open(path).unwrap();
    let (_commands, asked) = std::sync::mpsc::channel();
    let (reported, news) = std::sync::mpsc::sync_channel(1);
    let player = std::thread::spawn(move || {
        play(SafeText::line("large.jsonl"), scan, &asked, &|event| reported.send(event).is_ok());
    });
    let mut app = App::new(Setup { themes: mcpdeck::THEMES, ..Setup::default() }, Timestamp(1));
    app.update(Message::Resize(120, 40));
    app.update(Message::Played(news.recv().unwrap().unwrap()));
    app.prepare();
    let area = Rect::new(0, 0, 120, 40);
    app.render(area, &mut Buffer::empty(area));
    println!("first screen after {:.1?}", began.elapsed());
    drop(news);
    player.join().unwrap();
}

fn waterfall() {
    let frame = |n: u64| {
        let line = json!({
            "at": n * 1_000, "server": "files", "direction": "out", "kind": "request",
            "method": "tools/call", "target": "read", "id": n.to_string(), "call": n, "bytes": 2,
            "latency": null, "body": "{}", "cut": false, "problem": null,
        });
        Arc::new(serde_json::from_value(line).unwrap())
    };
    let mut medians = Vec::new();
    for count in [1_000, 100_000] {
        let mut app = App::new(Setup { themes: mcpdeck::THEMES, ..Setup::default() }, Timestamp(1));
        app.update(Message::Resize(120, 40));
        let take = |app: &mut App, first: u64, next: u64| {
            let items = (first..next).map(frame).collect();
            app.update(Message::News(News::Traffic(Batch { items, first, next, missed: 0 }, 0)));
        };
        take(&mut app, 0, count);
        for key in ['5', 'v'] {
            let key = KeyEvent::new(KeyCode::Char(key), KeyModifiers::NONE);
            app.update(Message::Input(Event::Key(key)));
        }
        let area = Rect::new(0, 0, 120, 40);
        for more in [1, 0] {
            let mut times = Vec::new();
            for n in 0..200 {
                take(&mut app, count + n * more, count + (n + 1) * more);
                let began = Instant::now();
                app.prepare();
                app.render(area, &mut Buffer::empty(area));
                times.push(began.elapsed().as_secs_f64() * 1e3);
            }
            let what = if more == 1 { "one more" } else { "none more" };
            println!("{count} operations, {what}: {:.3} ms a frame", at(&mut times, 0.5));
            medians.push(at(&mut times, 0.5));
        }
    }
    println!("100,000 to 1,000 when none has come: {:.2}", medians[3] / medians[1]);
}

/// Resident memory of this process in MB; 0 where it is unavailable.
fn resident() -> f64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = pages.split(' ').nth(1).and_then(|pages| pages.parse::<f64>().ok());
    pages.unwrap_or_default() * 4096.0 / 1e6
}
