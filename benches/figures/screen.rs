//! Responsiveness of the dashboard, measured in a pseudo-terminal: the first frame against the time of
//! a bare exec, ten idle seconds, key presses during floods and in a list of 5,000 tools, and memory.
//!
//! `cargo bench --bench figures -- screen [first] [idle] [flood] [tools] [memory]`.

use std::time::{Duration, Instant};

use crate::pty::{Deck, Launch, PATIENCE, Size, own_server};
use crate::report::{Figure, Goal};

/// Number of starts for the first frame.
const STARTS: usize = 41;
/// Number of dashboards whose memory is looked at.
const DASHBOARDS: usize = 7;
/// Time after which the first look at a dashboard is over.
const AFTER_READY: Duration = Duration::from_secs(2);
/// Number of key presses measured in each flood scenario.
const KEYS: usize = 300;
/// Duration of the idle measurement.
const IDLE: Duration = Duration::from_secs(10);
/// End of a frame: each frame is one synchronized update.
const FRAME_END: &[u8] = b"\x1b[?2026l";

/// Runs the measurements named by the words, or all.
pub fn measure(words: &[String]) {
    let wants = |name: &str| words.is_empty() || words.iter().any(|word| word == name);
    if wants("first") {
        first_frame();
    }
    if wants("idle") {
        idle();
    }
    if wants("memory") {
        memory_of_dashboards();
    }
    if wants("flood") {
        flood();
    }
    if wants("tools") {
        tools();
    }
}

/// Polls until `done` holds; returns the time that took.
fn time_until(deck: &Deck, what: &str, mut done: impl FnMut(&Deck) -> bool) -> Duration {
    let begun = Instant::now();
    while !done(deck) {
        assert!(begun.elapsed() < PATIENCE, "never: {what}\n{}", deck.screen());
        std::thread::park_timeout(Duration::from_micros(200));
    }
    begun.elapsed()
}

struct Times(Vec<Duration>);

impl Times {
    fn at(&mut self, share: f64) -> f64 {
        self.0.sort_unstable();
        self.0[((self.0.len() - 1) as f64 * share).round() as usize].as_secs_f64() * 1e3
    }
}

fn first_frame() {
    let servers: Vec<String> = ["one", "two", "three", "four"]
        .iter()
        .map(|name| own_server(name, &["demo-server", "atlas"]))
        .collect();
    let file = format!("{{\"servers\": {{{}}}}}", servers.join(", "));
    let mut nothing = Times(Vec::new());
    let mut version = Times(Vec::new());
    let mut project = Times(Vec::new());
    let mut demo = Times(Vec::new());
    for _ in 0..STARTS {
        nothing.0.push(exit_of("/bin/true", &[]));
        version.0.push(exit_of(&crate::pty::program(), &["--version"]));
        for (times, launch) in [
            (&mut project, Launch::file(Size::WIDE, &file)),
            (&mut demo, Launch::new(Size::WIDE, &["--demo", "--quiet"])),
        ] {
            let begun = Instant::now();
            let mut deck = launch.start();
            time_until(&deck, "a first frame", |deck| {
                deck.raw_bytes().windows(FRAME_END.len()).any(|bytes| bytes == FRAME_END)
            });
            times.0.push(begun.elapsed());
            deck.keys("\x03\x03");
            deck.exit_code();
        }
    }
    println!("first frame after exec in a terminal of 120x40, {STARTS} starts, median (p95) in ms");
    for (what, times) in [
        ("exec floor: /bin/true", &mut nothing),
        ("exec floor: mcpdeck --version", &mut version),
        ("four servers", &mut project),
        ("demo", &mut demo),
    ] {
        println!("  {what:32} {:6.1} ({:.1})", times.at(0.5), times.at(0.95));
    }
    for (what, times) in [("four servers", &project), ("demo", &demo)] {
        let mut starts: Vec<f64> = times.0.iter().map(|time| time.as_secs_f64() * 1e3).collect();
        let what = format!("first frame in a terminal, {what}");
        Figure { what: &what, against: "", unit: "ms", goal: Goal::AtMost(12.0) }
            .state(&mut starts);
    }
}

/// Runs a program in its own pseudo-terminal; returns the time until it exits.
fn exit_of(program: &str, args: &[&str]) -> Duration {
    let begun = Instant::now();
    let pair = portable_pty::native_pty_system().openpty(portable_pty::PtySize::default()).unwrap();
    let mut command = portable_pty::CommandBuilder::new(program);
    command.args(args);
    let mut child = pair.slave.spawn_command(command).unwrap();
    child.wait().unwrap();
    begun.elapsed()
}

fn idle() {
    let mut deck = Deck::demo(Size::WIDE);
    deck.wait("4 ready");
    settle(&deck);
    for (key, pane) in [("1", "servers"), ("v", "metrics"), ("5", "logs")] {
        deck.keys(key);
        settle(&deck);
        let (place, cpu) = (deck.written(), cpu_seconds(deck.pid()));
        linger(IDLE);
        let frames = deck.raw_since(place).matches("\x1b[?2026l").count();
        let used = cpu_seconds(deck.pid()) - cpu;
        println!("idle for {} s on {pane}: {frames} frames, {used:.2} s of CPU", IDLE.as_secs());
    }
    deck.quit();
}

/// How long the last messages of a start stay on the screen, at most.
const SPARK_TIMEOUT: Duration = Duration::from_secs(120);

/// Waits until there was no output for two and a half seconds: the bars of the last messages move
/// every other second, until they have left the screen.
fn settle(deck: &Deck) {
    let begun = Instant::now();
    let (mut written, mut since) = (deck.written(), Instant::now());
    while since.elapsed() < Duration::from_millis(2_500) {
        assert!(begun.elapsed() < SPARK_TIMEOUT, "it never gets quiet\n{}", deck.screen());
        std::thread::park_timeout(Duration::from_millis(50));
        if deck.written() != written {
            (written, since) = (deck.written(), Instant::now());
        }
    }
}

/// Resident memory: with one server, and with the demo after a look at every pane.
fn memory_of_dashboards() {
    let one = format!("{{\"servers\": {{{}}}}}", own_server("one", &["demo-server", "atlas"]));
    let (mut small, mut large) = (Vec::new(), Vec::new());
    for _ in 0..DASHBOARDS {
        let mut deck = Launch::file(Size::WIDE, &one).start();
        deck.wait("1 ready");
        linger(AFTER_READY);
        small.push(memory(deck.pid(), "VmRSS"));
        deck.quit();
        let mut deck = Deck::demo(Size::WIDE);
        deck.wait("4 ready");
        for key in ["2", "3", "v", "v", "4", "5", "6", "7", "1", "v"] {
            deck.keys(key);
            linger(AFTER_READY / 10);
        }
        large.push(memory(deck.pid(), "VmRSS"));
        deck.quit();
    }
    for (with, most, mut values) in [("one server", 14.0, small), ("the demo", 18.0, large)] {
        let (what, goal) = (format!("dashboard, memory with {with}"), Goal::AtMost(most));
        Figure { what: &what, against: "", unit: "MB", goal }.state(&mut values);
    }
}

/// Floods: 100,000 lines per second on stderr, 20,000 notifications per second on stdout.
fn flood() {
    let stderr = r#"{"on": {"notifications/initialized": {"flood":
        {"to": "stderr", "perSecond": 100000, "line": "flood ${i}: a line as programs write them"}}}}"#;
    let messages = r#"{"on": {"notifications/initialized": {"flood": {"to": "stdout", "perSecond": 20000,
        "json": {"jsonrpc": "2.0", "method": "notifications/message",
                 "params": {"level": "info", "data": "message ${i}"}}}}}}"#;
    let file = format!(
        "{{\"servers\": {{{}, {}, {}}}}}",
        own_server("stderr", &["mock", "stderr.json"]),
        own_server("messages", &["mock", "messages.json"]),
        own_server("quiet", &["demo-server", "beacon"]),
    );
    let mut deck = Launch::file(Size::WIDE, &file)
        .write("stderr.json", stderr)
        .write("messages.json", messages)
        .start();
    deck.wait("3 ready");
    let (begun, cpu) = (Instant::now(), cpu_seconds(deck.pid()));
    println!("floods of 100,000 stderr lines/s and 20,000 messages/s, {KEYS} keys each, in ms");
    for (pane, shows, what) in
        [("1", "60 s", "servers"), ("4", "messages", "traffic"), ("5", "lines", "logs")]
    {
        deck.keys(pane);
        deck.wait(shows);
        let place = deck.written();
        let since = Instant::now();
        let mut times = Times(Vec::new());
        for n in 0..KEYS / 2 {
            look_at_help(&mut deck, &mut times);
            // Varies the phase relative to the frames.
            linger(Duration::from_millis(5 + n as u64 % 29));
        }
        report(&format!("beside floods, {what}"), &mut times);
        let frames = deck.raw_since(place).matches("\x1b[?2026l").count();
        println!(
            "  {:.0} frames/s, {:.1} MB (peak {:.1})",
            frames as f64 / since.elapsed().as_secs_f64(),
            memory(deck.pid(), "VmRSS"),
            memory(deck.pid(), "VmHWM"),
        );
    }
    let used = (cpu_seconds(deck.pid()) - cpu) / begun.elapsed().as_secs_f64();
    println!("  host CPU {:.0} %; on the screen:", used * 100.0);
    let reported = |screen: &str| {
        screen.lines().filter(|line| line.contains("drop")).map(str::to_owned).collect::<Vec<_>>()
    };
    for line in reported(&deck.screen()) {
        println!("  | {}", line.trim());
    }
    assert!(!reported(&deck.screen()).is_empty(), "drops are counted on the screen");
    deck.keys("\x03\x03");
    deck.exit_code();
}

/// States the times from a key to its frame, in ms.
fn report(what: &str, times: &mut Times) {
    let mut keys: Vec<f64> = times.0.iter().map(|time| time.as_secs_f64() * 1e3).collect();
    let title = format!("key to frame, {what}");
    Figure { what: &title, against: "", unit: "ms", goal: Goal::AtMost(16.0) }.state(&mut keys);
    let (p50, p99, worst) = (times.at(0.5), times.at(0.99), times.at(1.0));
    println!("  {what:32} p50 {p50:5.1}  p99 {p99:5.1}  worst {worst:5.1}");
}

/// The number of tools that one server offers.
const TOOLS: usize = 5_000;

/// Keys in a list of 5,000 tools, alone and while another server sends notifications as fast as it
/// can: moving, filtering as one types, opening and closing.
fn tools() {
    let schema = r#"{"type": "object", "properties": {"path": {"type": "string", "description": "where"},
        "count": {"type": "integer", "minimum": 1}, "deep": {"type": "boolean"}}, "required": ["path"]}"#;
    let tool = |n: usize| {
        format!(
            "{{\"name\": \"tool_{n:04}\", \"description\": \"Does what number {n} is there for\", \"inputSchema\": {schema}}}"
        )
    };
    let all: Vec<String> = (0..TOOLS).map(tool).collect();
    let many = format!("{{\"tools\": [{}]}}", all.join(", "));
    let messages = r#"{"on": {"notifications/initialized": {"flood": {"to": "stdout",
        "json": {"jsonrpc": "2.0", "method": "notifications/message",
                 "params": {"level": "info", "data": "message ${i}"}}}}}}"#;
    for floods in [false, true] {
        let mut servers = vec![own_server("many", &["mock", "many.json"])];
        if floods {
            servers.push(own_server("messages", &["mock", "messages.json"]));
        }
        let file = format!("{{\"servers\": {{{}}}}}", servers.join(", "));
        let launch = Launch::file(Size::WIDE, &file).write("many.json", &many);
        let mut deck = launch.write("messages.json", messages).start();
        deck.wait(&format!("{} ready", servers.len()));
        deck.keys("2");
        deck.wait(&format!("{TOOLS} tools"));
        let beside = if floods { "5,000 tools beside a flood" } else { "5,000 tools" };
        let mut times = Times(Vec::new());
        for n in 1..KEYS / 2 {
            let row = format!("▸  tool_{n:04}");
            times.0.push(key(&mut deck, "j", |screen| screen.contains(&row)));
            linger(Duration::from_millis(5 + n as u64 % 29));
        }
        report(&format!("{beside}, moving"), &mut times);
        let mut times = Times(Vec::new());
        for n in 0..KEYS / 10 {
            deck.keys("/");
            deck.wait("enter keep");
            let mut typed = String::new();
            for letter in format!("{:04}", n * 157 % TOOLS).chars() {
                typed.push(letter);
                let shown = format!("/ {typed}");
                let counted = format!("of {TOOLS}");
                let done = |screen: &str| screen.contains(&shown) && screen.contains(&counted);
                times.0.push(key(&mut deck, &letter.to_string(), done));
                linger(Duration::from_millis(5 + n as u64 % 29));
            }
            deck.keys("\x1b");
            deck.gone("enter keep");
        }
        report(&format!("{beside}, filtering"), &mut times);
        let mut times = Times(Vec::new());
        for n in 0..KEYS / 10 {
            look_at_help(&mut deck, &mut times);
            linger(Duration::from_millis(5 + n as u64 % 29));
        }
        report(&format!("{beside}, help"), &mut times);
        println!("  {:.1} MB", memory(deck.pid(), "VmRSS"));
        deck.keys("\x03\x03");
        deck.exit_code();
    }
}

/// Opens the help and closes it again; not by Esc, which is a key only when nothing follows it for 25 ms.
fn look_at_help(deck: &mut Deck, times: &mut Times) {
    times.0.push(key(deck, "?", |screen| screen.contains("keys: ")));
    times.0.push(key(deck, "?", |screen| !screen.contains("keys: ")));
}

/// Time from one key to the frame that shows what it does. Written as it is: [`Deck::keys`] first waits
/// until nothing can be taken for a paste.
fn key(deck: &mut Deck, keys: &str, done: impl Fn(&str) -> bool) -> Duration {
    let begun = Instant::now();
    deck.bytes(keys);
    time_until(deck, keys, |deck| done(&deck.screen()));
    begun.elapsed()
}

/// Sleeps; the elapsed time is part of the measurement.
fn linger(time: Duration) {
    let until = Instant::now() + time;
    while let Some(left) = until.checked_duration_since(Instant::now()) {
        std::thread::park_timeout(left);
    }
}

fn cpu_seconds(pid: i32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let rest = stat.rsplit(')').next().unwrap_or_default();
    let ticks: f64 =
        rest.split_whitespace().skip(11).take(2).filter_map(|n| n.parse::<f64>().ok()).sum();
    ticks / rustix::param::clock_ticks_per_second() as f64
}

/// A memory field of `/proc/PID/status`, in MB.
fn memory(pid: i32, field: &str) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<f64>().ok()).unwrap_or(0.0) / 1024.0
}
