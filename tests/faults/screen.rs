//! The row on the dashboard, in a pseudo-terminal: text is typed into a form of the healthy
//! server while the faulty one misbehaves; the screen must stay responsive, show the cause, keep
//! the typed text, write no foreign sequences, and restore the terminal.

use std::sync::LazyLock;
use std::time::Duration;

use super::fair;
use super::pty::{Deck, Launch, Size};
use super::row::{Row, ScreenStep, random};
use super::stage::{HOST_SECRET, Stage, secrets};
use super::support::{memory, processor_time};

/// The typed text, which must be kept.
static TYPED: LazyLock<String> = LazyLock::new(|| format!("kept-{}", random("typed").u32(..)));
/// Number of keys whose latency is measured.
const KEYS: usize = 12;

/// The outcome on the screen.
pub struct Seen {
    pub problems: Vec<String>,
    /// Slowest time from key to screen.
    pub slowest: Duration,
}

/// Whether the row applies to the screen.
pub fn applies(row: &Row) -> bool {
    let plain = row.host.prefix.is_empty() && !row.host.lost_folder && !row.host.alone;
    plain && row.config.is_none() && row.screen.skip.is_none()
}

/// Plays the row.
pub fn play(row: &Row, stage: &Stage) -> Seen {
    let mut launch = Launch::new(Size::WIDE, &["--trust", "--config"])
        .arg(&stage.config.to_string_lossy())
        .arg("--log-file")
        .arg(&stage.log.to_string_lossy())
        .env("MCPDECK_CANARY_HOST", &HOST_SECRET);
    for (key, value) in &row.host.env {
        launch = match value {
            Some(value) => launch.env(key, &stage.at(value)),
            None => launch.without_env(key),
        };
    }
    if let Some(cwd) = &row.host.cwd {
        launch = launch.in_folder(&stage.at(cwd));
    }
    let begun = std::time::Instant::now();
    let mut deck = launch.start();
    let mut problems = Vec::new();
    // While servers are still starting: the screen appears within the first second.
    shown(&deck, "the healthy server", |screen| screen.contains("well"));
    // The dashboard rings for requests of servers: muted, every bell is a foreign one. Muting is
    // stored, and in rows about unwritable folders the row must fail to write first.
    if !row.host.env.contains_key("MCPDECK_STATE_DIR") {
        deck.keys("B");
    }
    let slowest = keys(&mut deck, &mut problems);
    shown(&deck, "the healthy server is ready", |screen| {
        screen.lines().any(|line| line.contains(" ready") && !line.contains("0 ready"))
    });
    type_into_form(&mut deck, row);
    if let Some((server, tool)) = row.tool_on_screen() {
        call(&mut deck, row, (server, tool), &mut problems);
    }
    for step in &row.screen.then {
        perform(&mut deck, step, stage, &mut problems);
    }
    if let Some(most) = row.host.cpu_percent {
        let busy = processor_time(deck.pid().unsigned_abs()).as_millis() * 100;
        let used = busy / begun.elapsed().as_millis().max(1);
        // The limit is for release builds; debug builds take a few times as long.
        let most = if cfg!(debug_assertions) { 3 * most } else { most };
        if used >= u128::from(most) {
            problems.push(format!("{used} % of a processor, {most} at most"));
        }
    }
    open(&mut deck, "echo");
    if fair::wait(Duration::from_secs(5), || deck.screen().contains(TYPED.as_str())).is_none() {
        problems.push(format!("I2: what was typed is gone\n{}", deck.screen()));
    }
    deck.keys("\x1b");
    deck.gone("f5 call");
    problems.extend(stage.flaws(&[]));
    let peak = memory(deck.pid().unsigned_abs(), "VmHWM");
    if peak > row.host.peak_mib.unwrap_or(300) << 20 {
        problems.push(format!("I5: peak of {} MiB on the dashboard", peak >> 20));
    }
    leave(&mut deck, row, stage, &mut problems);
    deck.assert_no_foreign_escape();
    let raw = deck.raw();
    for secret in secrets() {
        if raw.contains(secret) {
            problems.push(format!("I8: {secret} on the screen"));
        }
    }
    problems.extend(stage.flaws(&[deck.home()]));
    let left = stage.bench.left_after(Duration::from_secs(1));
    if !left.is_empty() {
        problems.push(format!("I6: the dashboard left behind: {left:#?}"));
    }
    Seen { problems, slowest }
}

fn perform(deck: &mut Deck, step: &ScreenStep, stage: &Stage, problems: &mut Vec<String>) {
    deck.keys(&stage.at(&step.keys));
    let as_wanted = |screen: &str| {
        step.shows.iter().all(|text| screen.contains(text.as_str()))
            && !step.gone.iter().any(|text| screen.contains(text.as_str()))
    };
    if fair::wait(Duration::from_secs(10), || as_wanted(&deck.screen())).is_none() {
        problems.push(format!("the screen is not as {step:?} wants it\n{}", deck.screen()));
    }
}

fn shown(deck: &Deck, what: &str, wanted: impl Fn(&str) -> bool) {
    deck.wait_until(what, wanted);
}

/// Quits. All calls have ended, so there is no confirmation because of them; in rows with
/// `requests_wait`, a pending request of a server causes one.
fn leave(deck: &mut Deck, row: &Row, stage: &Stage, problems: &mut Vec<String>) {
    deck.keys("q");
    let asks = |screen: &str| screen.contains("stop the servers and quit?");
    fair::wait(Duration::from_secs(20), || deck.has_ended() || asks(&deck.screen()));
    let screen = deck.screen();
    if asks(&screen) {
        let waits = screen.contains("waiting request") && !screen.contains("will be cancelled");
        if !(row.screen.requests_wait && waits) {
            let log = std::fs::read_to_string(&stage.log).unwrap_or_default();
            let calls: Vec<&str> = log.lines().filter(|l| l.contains("mcpdeck::call")).collect();
            problems.push(format!("leaving asks\n{screen}\n{calls:#?}"));
        }
        deck.decide("y");
    } else if row.screen.requests_wait {
        problems.push(format!("leaving does not ask about what waits\n{screen}"));
    }
    assert_eq!(deck.exit_code(), 0, "{}", deck.screen());
    deck.assert_restored();
}

/// I4: opens and closes the help repeatedly.
fn keys(deck: &mut Deck, problems: &mut Vec<String>) -> Duration {
    let mut times = Vec::new();
    for _ in 0..KEYS / 2 {
        for (key, opens) in [("?", true), ("\x1b", false)] {
            deck.keys(key);
            let is_open = || deck.screen().contains("keys:");
            let took = fair::wait(Duration::from_secs(20), || is_open() == opens);
            times.push(took.unwrap_or(Duration::from_secs(20)));
        }
    }
    times.sort();
    let middle = times[times.len() / 2];
    // The limit of 100 ms is for release builds; debug builds on a busy machine must only stay
    // responsive.
    let limit = Duration::from_millis(if cfg!(debug_assertions) { 1_000 } else { 100 });
    if middle > limit {
        problems.push(format!("I4: from key to screen {middle:?}\n{}", deck.screen()));
    }
    times[times.len() - 1]
}

/// Opens the form of the tool with this name.
fn open(deck: &mut Deck, tool: &str) {
    deck.keys("2");
    deck.wait_until("the tools", |screen| is_dashboard(screen) && screen.contains("tokens"));
    // Clears the previous filter, so that a new filter line is recognized.
    let gone = (0..4).any(|_| {
        filter(&deck.screen()).is_none() || {
            deck.keys("\x1b");
            fair::wait(Duration::from_secs(5), || filter(&deck.screen()).is_none()).is_some()
        }
    });
    assert!(gone, "the filter of before stays\n{}", deck.screen());
    deck.keys("/");
    deck.wait_until("the filter", |screen| filter(screen) == Some(""));
    deck.keys(tool);
    deck.wait_until("what is typed", |screen| filter(screen) == Some(tool));
    deck.wait("enter keep");
    // Keys that arrive together are treated as a paste, to which this one may seem to belong.
    let kept = (0..4).any(|_| {
        deck.keys("\r");
        fair::wait(Duration::from_secs(5), || !deck.screen().contains("enter keep")).is_some()
    });
    assert!(kept, "the filter is still being typed\n{}", deck.screen());
    // The filter matches more than names, and the selection is kept: so search from the top, one
    // step at a time, each after the previous one is on the screen.
    deck.keys("g");
    deck.wait_until("the first row", |screen| {
        let mut list = screen.lines().skip_while(|line| !line.contains("tokens"));
        list.nth(1).is_some_and(|first| selected(first).is_some())
    });
    let found = (0..30).any(|_| {
        let before = row_of(&deck.screen());
        // After the mark there may be a symbol.
        let here = before.split_whitespace().take(2).any(|word| word == tool);
        if !here {
            deck.keys("j");
            fair::wait(Duration::from_secs(5), || row_of(&deck.screen()) != before);
        }
        here
    });
    assert!(found, "{tool} is not in the list\n{}", deck.screen());
    deck.keys("\r");
    deck.wait("f5 call");
}

/// The filter of the list, or the part typed so far.
fn filter(screen: &str) -> Option<&str> {
    let parts = screen.lines().filter(|line| line.contains('│')).flat_map(|line| line.split('│'));
    let typed = parts.map(str::trim_start).find_map(|part| part.strip_prefix("/ "))?;
    Some(typed.split("  ").next().unwrap_or_default().trim())
}

/// The lines of all panels, which may stand side by side.
fn panels(screen: &str) -> impl Iterator<Item = &str> {
    screen.lines().flat_map(|line| line.split('│'))
}

/// The text after the mark of the selected row.
fn selected(line: &str) -> Option<&str> {
    line.strip_prefix(" ▸")
}

fn row_of(screen: &str) -> String {
    screen.lines().find_map(selected).unwrap_or_default().to_owned()
}

fn type_into_form(deck: &mut Deck, row: &Row) {
    open(deck, "echo");
    deck.keys("\t");
    // On a busy machine both would arrive together, like a paste.
    let at_text = || panels(&deck.screen()).any(|part| part.starts_with("▎note"));
    let _ = fair::wait(Duration::from_secs(5), at_text);
    deck.keys(&TYPED);
    deck.wait(&TYPED);
    for text in &row.screen.typing_shows {
        deck.wait(text);
        // It covers the key hints, which show whether the form is open.
        deck.gone(text);
    }
    deck.keys("\x1b");
    deck.gone("f5 call");
}

/// I1: the outcome appears on the screen in time, with its cause.
fn call(deck: &mut Deck, row: &Row, (server, tool): (&str, &str), problems: &mut Vec<String>) {
    deck.keys("2");
    let listed = fair::wait(Duration::from_secs(20), || {
        is_dashboard(&deck.screen()) && deck.screen().contains("tokens")
    });
    if listed.is_none() {
        problems.push(format!("the tools of {server} are not listed\n{}", deck.screen()));
        return;
    }
    open(deck, tool);
    deck.keys("\x1b[15~");
    let over = |screen: &str| panels(screen).any(is_outcome);
    let took = fair::wait(row.timeout(), || over(&deck.screen()));
    if took.is_none() {
        problems.push(format!("I1: no outcome of {tool} on the screen\n{}", deck.screen()));
    }
    for text in &row.screen.shows {
        // Some content appears after the outcome: images are decoded in the background.
        let shown = || deck.screen().contains(text.as_str());
        if fair::wait(row.timeout(), shown).is_none() {
            problems.push(format!("the screen does not show {text:?}\n{}", deck.screen()));
        }
    }
    // Goes back step by step: from the result to the form, and then to the list.
    let back = (0..5).any(|_| {
        deck.keys("\x1b");
        fair::wait(Duration::from_secs(1), || is_dashboard(&deck.screen())).is_some()
    });
    assert!(back, "{tool} is not left\n{}", deck.screen());
}

/// Whether the panes are shown without a call screen over them.
fn is_dashboard(screen: &str) -> bool {
    screen.contains("q quit")
}

fn is_outcome(line: &str) -> bool {
    // A panel beside another one is indented once more.
    [" ✗ ", " ✓ ", "  ✗ ", "  ✓ "].iter().any(|start| line.starts_with(start))
}
