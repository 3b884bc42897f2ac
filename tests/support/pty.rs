//! The built binary in a pseudo-terminal: keys go in, a terminal emulator reads the screen, every
//! byte is kept. Use with `#[path = "support/pty.rs"] mod pty;` behind
//! `#![cfg(all(unix, feature = "tui", feature = "demo"))]`.
//!
//! ```ignore
//! let mut deck = Launch::file(Size::WIDE, r#"{"servers": {}}"#).env("NO_COLOR", "1").start();
//! deck.wait("recent output");   // for text, with a deadline; never for time
//! deck.keys("2/airp\r");
//! deck.quit();                  // `q`, exit code 0, terminal as it was before
//! ```
#![allow(dead_code, reason = "every test file uses its own part of these")]

use std::ffi::OsString;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
pub use rustix::process::Signal;

/// How long is waited for anything. Generous: it is only spent when a test fails.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A size in columns and rows.
#[derive(Clone, Copy)]
pub struct Size(pub u16, pub u16);

impl Size {
    /// The smallest size where everything is complete.
    pub const SMALL: Self = Self(80, 24);
    /// Room for everything.
    pub const WIDE: Self = Self(120, 40);
    /// List and detail side by side.
    pub const HUGE: Self = Self(200, 60);
}

/// Waits for something with a deadline.
pub fn until(what: &str, mut happened: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !happened() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::park_timeout(Duration::from_millis(10));
    }
}

/// Lets time pass, as a person does between keys.
fn pass(time: Duration) {
    let end = Instant::now() + time;
    while let Some(left) = end.checked_duration_since(Instant::now()).filter(|t| !t.is_zero()) {
        std::thread::park_timeout(left);
    }
}

/// Sends a signal to a process.
pub fn signal(pid: i32, signal: Signal) {
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

/// Ends a process the hard way.
pub fn kill(pid: i32) {
    signal(pid, Signal::KILL);
}

/// The state letter of a process (`R`, `S`, `T` ...), nothing when it is gone.
pub fn process_state(pid: i32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(')').next()?.trim().chars().next()
}

/// Whether a process is there and no zombie.
pub fn is_alive(pid: i32) -> bool {
    process_state(pid).is_some_and(|state| state != 'Z')
}

/// The program under test: that of this build, or the one that `MCPDECK_TEST_PROGRAM` names.
pub fn program() -> String {
    std::env::var("MCPDECK_TEST_PROGRAM").unwrap_or_else(|_| env!("CARGO_BIN_EXE_mcpdeck").into())
}

/// An entry of `servers` that runs the program under test itself.
pub fn own_server(name: &str, args: &[&str]) -> String {
    let program = program();
    format!("\"{name}\": {{\"command\": {program:?}, \"args\": {args:?}}}")
}

/// How the program is started: a scratch folder is its home and working directory, the
/// environment is empty but for `PATH`, `HOME`, `TERM`, `LANG` and `COLORTERM`.
pub struct Launch {
    size: Size,
    home: tempfile::TempDir,
    folder: Option<PathBuf>,
    args: Vec<OsString>,
    env: Vec<(OsString, Option<OsString>)>,
    through: Through,
}

/// What stands between the terminal and the program.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Through {
    Nothing,
    /// An interactive shell with job control.
    Shell,
    /// A shell that ignores SIGHUP and becomes the program.
    Nohup,
}

impl Launch {
    /// With these arguments.
    pub fn new(size: Size, args: &[&str]) -> Self {
        let home = tempfile::tempdir().unwrap();
        let args = args.iter().map(OsString::from).collect();
        let env = Vec::new();
        Self { size, home, folder: None, args, env, through: Through::Nothing }
            .env("TERM", "xterm-256color")
            .env("LANG", "C.UTF-8")
            .env("COLORTERM", "truecolor")
    }

    /// The demo, without its script.
    pub fn demo(size: Size) -> Self {
        Self::new(size, &["--demo", "--quiet"])
    }

    /// `--config mcp.json --trust` with this text, in the scratch folder: its commands run
    /// without being approved first.
    pub fn file(size: Size, text: &str) -> Self {
        Self::untrusted(size, text).arg("--trust")
    }

    /// `--config mcp.json` with this text, which nobody has approved yet.
    pub fn untrusted(size: Size, text: &str) -> Self {
        Self::new(size, &["--config", "mcp.json"]).write("mcp.json", text)
    }

    /// The demo in a scratch folder that was used before, with what is remembered in it.
    pub fn demo_again(size: Size, home: tempfile::TempDir) -> Self {
        Self { home, ..Self::demo(size) }
    }

    /// `--config mcp.json` in a scratch folder that was used before, with what is remembered in it.
    pub fn again(size: Size, home: tempfile::TempDir) -> Self {
        Self { home, ..Self::new(size, &["--config", "mcp.json"]) }
    }

    /// One more argument.
    pub fn arg(mut self, arg: &str) -> Self {
        self.args.push(arg.into());
        self
    }

    /// A variable of the environment.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.into(), Some(value.into())));
        self
    }

    /// Without a variable that is set otherwise.
    pub fn without_env(mut self, name: &str) -> Self {
        self.env.push((name.into(), None));
        self
    }

    /// A file in the scratch folder, with the folders it needs.
    pub fn write(self, path: &str, text: &str) -> Self {
        let path = self.home.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        self
    }

    /// The scratch folder.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// In another folder than the scratch folder.
    pub fn in_folder(mut self, path: &str) -> Self {
        self.folder = Some(path.into());
        self
    }

    /// As a job of an interactive shell, so that there is something to suspend to.
    pub fn in_shell(mut self) -> Self {
        self.through = Through::Shell;
        self
    }

    /// With SIGHUP ignored, as `nohup` leaves it.
    pub fn ignoring_hangup(mut self) -> Self {
        self.through = Through::Nohup;
        self
    }

    /// Starts it.
    pub fn start(self) -> Deck {
        let pair = native_pty_system().openpty(pty_size(self.size)).unwrap();
        let before = termios(&*pair.master);
        let child = pair.slave.spawn_command(self.command()).unwrap();
        drop(pair.slave);
        let Size(cols, rows) = self.size;
        let parser = vt100::Parser::new(cells(rows), cells(cols), 0);
        let seen = Arc::new(Mutex::new(Seen { parser, raw: Vec::new() }));
        let closing = Arc::new(AtomicBool::new(false));
        let reader = pair.master.try_clone_reader().unwrap();
        let reader = read_on(reader, Arc::clone(&seen), Arc::clone(&closing));
        let writer = Some(pair.master.take_writer().unwrap());
        let master = Some(pair.master);
        let mut deck = Deck {
            master,
            writer,
            child,
            seen,
            before,
            closing,
            reader: Some(reader),
            typed: Instant::now(),
            home: self.home,
        };
        if self.through == Through::Shell {
            deck.wait("$ ");
            // The shell's editor may have changed the terminal: what counts is what the job got.
            deck.before = termios(&**deck.master.as_ref().unwrap());
            let words: Vec<_> =
                self.args.iter().map(|arg| format!("'{}'", arg.to_str().unwrap())).collect();
            deck.keys(&format!("'{}' {}\r", program(), words.join(" ")));
        }
        deck
    }

    fn command(&self) -> CommandBuilder {
        let program = program();
        let mut command = match self.through {
            Through::Nothing => CommandBuilder::new(&program),
            Through::Shell | Through::Nohup => CommandBuilder::new("sh"),
        };
        match self.through {
            Through::Nothing => command.args(&self.args),
            Through::Shell => command.arg("-im"),
            Through::Nohup => {
                command.args(["-c", "trap '' HUP; exec \"$0\" \"$@\"", &program]);
                command.args(&self.args);
            }
        }
        command.env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", self.home.path());
        command.env("PS1", "$ ");
        // Where a measured build writes what was executed.
        if let Some(profile) = std::env::var_os("LLVM_PROFILE_FILE") {
            command.env("LLVM_PROFILE_FILE", profile);
        }
        // Nobody is there to answer what the terminal can draw.
        command.env("MCPDECK_IMAGES", "blocks");
        command.env("MCPDECK_STATE_DIR", self.home.path().join("state"));
        command.env("MCPDECK_CONFIG_DIR", self.home.path().join("config"));
        command.cwd(self.folder.as_deref().unwrap_or(self.home.path()));
        for (name, value) in &self.env {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            }
        }
        command
    }
}

/// The program as it runs.
pub struct Deck {
    master: Option<Box<dyn MasterPty + Send>>,
    writer: Option<Box<dyn Write + Send>>,
    child: Box<dyn Child + Send + Sync>,
    seen: Arc<Mutex<Seen>>,
    before: String,
    closing: Arc<AtomicBool>,
    reader: Option<std::thread::JoinHandle<()>>,
    /// When the last key was read.
    typed: Instant,
    /// Kept until the end: what the program remembers is in it.
    home: tempfile::TempDir,
}

struct Seen {
    parser: vt100::Parser,
    raw: Vec<u8>,
}

/// What the program writes goes through the emulator and is kept.
fn read_on(
    mut reader: Box<dyn Read + Send>,
    seen: Arc<Mutex<Seen>>,
    closing: Arc<AtomicBool>,
) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let mut bytes = [0; 8_192];
        while let Ok(n) = reader.read(&mut bytes) {
            if n == 0 || closing.load(Ordering::SeqCst) {
                break;
            }
            let mut seen = seen.lock().unwrap();
            seen.parser.process(&bytes[..n]);
            seen.raw.extend_from_slice(&bytes[..n]);
        }
    })
}

/// What is seen.
impl Deck {
    /// The text of the screen.
    pub fn screen(&self) -> String {
        self.seen.lock().unwrap().parser.screen().contents()
    }

    /// The screen with its cells, colours and modes.
    pub fn look<T>(&self, look: impl FnOnce(&vt100::Screen) -> T) -> T {
        look(self.seen.lock().unwrap().parser.screen())
    }

    /// Every byte that was written so far.
    pub fn raw_bytes(&self) -> Vec<u8> {
        self.seen.lock().unwrap().raw.clone()
    }

    /// Every byte that was written so far, as text.
    pub fn raw(&self) -> String {
        String::from_utf8_lossy(&self.seen.lock().unwrap().raw).into_owned()
    }

    /// How many bytes were written so far: a place to look from later.
    pub fn written(&self) -> usize {
        self.seen.lock().unwrap().raw.len()
    }

    /// What was written after that place, as text.
    pub fn raw_since(&self, place: usize) -> String {
        String::from_utf8_lossy(&self.seen.lock().unwrap().raw[place..]).into_owned()
    }

    /// Waits until the screen shows a text.
    pub fn wait(&self, text: &str) {
        self.wait_until(text, |screen| screen.contains(text));
    }

    /// Waits until the screen shows a text no more.
    pub fn gone(&self, text: &str) {
        self.wait_until(&format!("no {text}"), |screen| !screen.contains(text));
    }

    /// Waits until the screen is as wanted.
    pub fn wait_until(&self, what: &str, wanted: impl Fn(&str) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let screen = self.screen();
            if wanted(&screen) {
                return;
            }
            assert!(Instant::now() < deadline, "never shown: {what}\n{screen}");
            std::thread::park_timeout(Duration::from_millis(10));
        }
    }

    /// Waits until something was written after a place.
    pub fn wait_raw(&self, place: usize, text: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !self.raw_since(place).contains(text) {
            assert!(Instant::now() < deadline, "never written: {text:?}\n{}", self.screen());
            std::thread::park_timeout(Duration::from_millis(10));
        }
    }

    /// Fails on any control sequence but those that the program draws with: no title, no
    /// hyperlink, no device control string, no C1 control, no bell. The clipboard (OSC 52) counts
    /// as foreign too; where a test copies, look at the bytes before that.
    pub fn assert_no_foreign_escape(&self) {
        let foreign = foreign_escapes(&self.raw());
        assert!(foreign.is_empty(), "not ours: {foreign:?}\n{}", self.screen());
    }

    /// The terminal is as it was before: its settings, the main screen, the cursor, no reporting.
    pub fn assert_restored(&self) {
        until("the terminal has its settings back", || {
            termios(&**self.master.as_ref().unwrap()) == self.before
        });
        until("the main screen is back", || !self.look(vt100::Screen::alternate_screen));
        self.look(|screen| {
            assert!(!screen.hide_cursor() && !screen.bracketed_paste());
            assert_eq!(screen.mouse_protocol_mode(), vt100::MouseProtocolMode::None);
        });
        let empty = "\x1b[?2026h\x1b[?2026l";
        assert_eq!(self.raw_since(0).matches(empty).count(), 0, "frames in which nothing changed");
    }
}

/// What is done to it.
impl Deck {
    /// The demo, without its script.
    pub fn demo(size: Size) -> Self {
        Launch::demo(size).start()
    }

    /// Types, key by key: what comes faster than a person types counts as pasted.
    pub fn keys(&mut self, keys: &str) {
        let mut rest = keys;
        // An escape and the key after it are two keys.
        pass(Duration::from_millis(30).saturating_sub(self.typed.elapsed()));
        while !rest.is_empty() {
            let csi = rest.strip_prefix("\x1b[").or_else(|| rest.strip_prefix("\x1bO"));
            let end = if let Some(tail) = csi {
                3 + tail.find(|c: char| ('@'..='~').contains(&c)).unwrap_or(0)
            } else {
                let keys = 1 + usize::from(rest.starts_with('\x1b'));
                rest.char_indices().nth(keys).map_or(rest.len(), |(at, _)| at)
            };
            self.bytes(&rest[..end]);
            self.read();
            self.typed = Instant::now();
            rest = &rest[end..];
            if !rest.is_empty() {
                pass(Duration::from_millis(30));
            }
        }
    }

    /// Waits until the program has read what was typed, for a second at most: one that is busy or
    /// stopped reads later, and would take what comes meanwhile for a paste.
    fn read(&self) {
        let name = self.master.as_ref().and_then(|master| master.tty_name());
        let options = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NOCTTY;
        let Some(name) = name else { return };
        let Ok(tty) = rustix::fs::open(&name, options, rustix::fs::Mode::empty()) else { return };
        for _ in 0..1_000 {
            if rustix::io::ioctl_fionread(&tty).map_or(true, |unread| unread == 0) {
                return;
            }
            pass(Duration::from_millis(1));
        }
    }

    /// Types what decides something, after the half a second in which it is to be read.
    pub fn decide(&mut self, keys: &str) {
        pass(Duration::from_millis(800));
        self.keys(keys);
    }

    /// Sends bytes all at once.
    pub fn bytes(&mut self, keys: &str) {
        let writer = self.writer.as_mut().unwrap();
        writer.write_all(keys.as_bytes()).unwrap();
        writer.flush().unwrap();
    }

    /// Pastes, as a terminal with bracketed paste does.
    pub fn paste(&mut self, text: &str) {
        self.bytes(&format!("\x1b[200~{text}\x1b[201~"));
    }

    /// Presses and releases the left button on a cell (from 0).
    pub fn click(&mut self, col: u16, row: u16) {
        let (col, row) = (col + 1, row + 1);
        self.keys(&format!("\x1b[<0;{col};{row}M\x1b[<0;{col};{row}m"));
    }

    /// Turns the wheel down over a cell (from 0).
    pub fn wheel_down(&mut self, col: u16, row: u16) {
        self.keys(&format!("\x1b[<65;{};{}M", col + 1, row + 1));
    }

    /// The first cell (column and row from 0) of a text on the screen.
    pub fn place_of(&self, text: &str) -> (u16, u16) {
        self.look(|screen| {
            let (_, cols) = screen.size();
            for (row, line) in screen.rows(0, cols.get()).enumerate() {
                if let Some(at) = line.find(text) {
                    let col = line[..at].chars().count();
                    return (col.try_into().unwrap(), row.try_into().unwrap());
                }
            }
            panic!("not on the screen: {text}\n{}", screen.contents());
        })
    }

    /// Another size.
    pub fn resize(&mut self, cols: u16, rows: u16) {
        self.seen.lock().unwrap().parser.screen_mut().set_size(cells(rows), cells(cols));
        self.master.as_ref().unwrap().resize(pty_size(Size(cols, rows))).unwrap();
    }

    /// Another size of the terminal alone: for storms that the emulator need not follow.
    pub fn resize_terminal(&mut self, cols: u16, rows: u16) {
        self.master.as_ref().unwrap().resize(pty_size(Size(cols, rows))).unwrap();
    }

    /// The scratch folder.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// Where themes and keymap are looked for.
    pub fn config_dir(&self) -> PathBuf {
        self.home.path().join("config")
    }

    /// The process id of the program (of the shell, when it is a job of one).
    pub fn pid(&self) -> i32 {
        self.child.process_id().unwrap().try_into().unwrap()
    }

    /// The process id of the shell's job.
    pub fn job_pid(&self) -> i32 {
        let shell = self.pid();
        let children = std::fs::read_to_string(format!("/proc/{shell}/task/{shell}/children"));
        children.unwrap().split_whitespace().next().expect("a job").parse().unwrap()
    }

    /// Selects a running server in the servers pane, so that its card is shown.
    pub fn card_of(&mut self, server: &str) {
        let shown = |screen: &str| {
            screen.lines().any(|line| line.contains(server) && line.contains("pid "))
        };
        // `▸ ● NAME`
        let selected = |screen: &str| {
            let row = screen.lines().find(|line| line.contains('▸'))?;
            row.split_whitespace().nth(2).map(str::to_owned)
        };
        self.keys("g");
        for _ in 0..50 {
            if shown(&self.screen()) {
                return;
            }
            let before = selected(&self.screen());
            self.keys("j");
            until("the next card", || {
                let screen = self.screen();
                let is_titled = |name: &String| {
                    screen.lines().any(|line| line.trim_start().starts_with(name.as_str()))
                };
                let now = selected(&screen);
                // Its card has no process while it restarts, and below the last there is no next.
                shown(&screen) || now != before && now.as_ref().is_some_and(is_titled)
            });
        }
        panic!("no card of {server}\n{}", self.screen());
    }

    /// The process id that the card of a server shows.
    pub fn pid_of(&mut self, server: &str) -> i32 {
        self.card_of(server);
        let screen = self.screen();
        let line = screen.lines().find(|l| l.contains(server) && l.contains("pid ")).unwrap();
        let digits = line.rsplit("pid ").next().unwrap();
        digits.split_whitespace().next().unwrap().parse().unwrap()
    }

    /// Leaves the call screen, and what lies over it.
    pub fn leave_call(&mut self) {
        while !at_panes(&self.screen()) {
            let place = self.written();
            self.keys("\x1b");
            until("escape does something", || self.written() > place || at_panes(&self.screen()));
        }
    }

    /// Types ctrl-c.
    pub fn ctrl_c(&mut self) {
        self.keys("\x03");
    }

    /// Asks the program to end.
    pub fn terminate(&mut self) {
        signal(self.pid(), Signal::TERM);
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits for the end; gives the exit code.
    pub fn exit_code(&mut self) -> u32 {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.exit_code();
            }
            assert!(Instant::now() < deadline, "it does not end\n{}", self.screen());
            std::thread::park_timeout(Duration::from_millis(10));
        }
    }

    /// Quits as a person does, from a screen where nothing is typed: exit code 0, terminal as
    /// before.
    pub fn quit(&mut self) {
        self.keys("q");
        assert_eq!(self.exit_code(), 0, "{}", self.screen());
        self.assert_restored();
    }

    /// Quits as a person does; gives the scratch folder with what is remembered in it.
    pub fn quit_and_keep(mut self) -> tempfile::TempDir {
        self.quit();
        self.home
    }

    /// Ends the program the hard way; gives the scratch folder with what is remembered in it.
    pub fn kill_and_keep(mut self) -> tempfile::TempDir {
        kill(self.pid());
        let _ = self.child.wait();
        self.home
    }

    /// Closes the terminal under the program; the child is reaped in the background.
    pub fn close_terminal(mut self) -> (impl Sized, std::thread::JoinHandle<u32>) {
        // The reader holds the terminal too: the next frame lets it go.
        self.closing.store(true, Ordering::SeqCst);
        self.keys("2");
        self.reader.take().unwrap().join().unwrap();
        self.writer = None;
        self.master = None;
        let mut child = self.child;
        let ended = std::thread::spawn(move || child.wait().map_or(u32::MAX, |s| s.exit_code()));
        (self.home, ended)
    }
}

/// Whether the panes have the keys: a call or an answer, which may be beside a list, has others.
pub fn at_panes(screen: &str) -> bool {
    screen.contains("q quit")
}

/// The control sequences of a text that the program itself never writes.
pub fn foreign_escapes(raw: &str) -> Vec<String> {
    let mut foreign = Vec::new();
    let mut rest = raw;
    while let Some(at) = rest.find(|c: char| c.is_control() && !"\r\n\t".contains(c)) {
        rest = &rest[at..];
        // The end of what was read so far may cut a sequence of our own.
        let begun = rest.strip_prefix("\x1b").map(|tail| tail.strip_prefix('[').unwrap_or(tail));
        if begun.is_some_and(|tail| tail.chars().all(|c| "0123456789;:?".contains(c))) {
            break;
        }
        let own = rest.strip_prefix("\x1b[").and_then(|tail| {
            let end = tail.find(|c: char| !"0123456789;:?".contains(c))?;
            let (number, last) = (&tail[..end], tail[end..].chars().next()?);
            // Cursor, erasing, colours, and the modes of a full-screen program.
            let known = match last {
                'H' | 'J' | 'K' | 'm' | 'A' | 'B' | 'C' | 'D' | 'G' => !number.contains('?'),
                'h' | 'l' => [
                    "?25", "?1000", "?1002", "?1003", "?1004", "?1006", "?1015", "?1049", "?2004",
                    "?2026",
                ]
                .contains(&number),
                _ => false,
            };
            known.then_some(2 + end + 1)
        });
        if own.is_none() {
            foreign.push(rest.chars().take(24).collect());
        }
        rest = &rest[own.unwrap_or_else(|| rest.chars().next().map_or(0, char::len_utf8))..];
    }
    foreign
}

/// The settings of the terminal, as text to compare.
fn termios(master: &dyn MasterPty) -> String {
    format!("{:?}", master.get_termios())
}

fn pty_size(Size(cols, rows): Size) -> PtySize {
    PtySize { cols, rows, pixel_width: 0, pixel_height: 0 }
}

fn cells(n: u16) -> std::num::NonZero<u16> {
    std::num::NonZero::new(n).unwrap()
}
