//! The binary in a pseudo-terminal, and what its screen shows.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};

const PATIENCE: Duration = Duration::from_secs(30);

/// A size in columns and rows.
#[derive(Clone, Copy)]
pub struct Size(pub u16, pub u16);

impl Size {
    /// Room for everything.
    pub const WIDE: Self = Self(120, 40);
}

/// A running dashboard.
pub struct Deck {
    master: Option<Box<dyn MasterPty + Send>>,
    writer: Option<Box<dyn Write + Send>>,
    child: Box<dyn Child + Send + Sync>,
    seen: Arc<Mutex<Seen>>,
    before: String,
    closing: Arc<AtomicBool>,
    reader: Option<std::thread::JoinHandle<()>>,
    /// Kept until the end: what the program remembers is in it.
    home: tempfile::TempDir,
}

struct Seen {
    parser: vt100::Parser,
    raw: Vec<u8>,
}

/// Waits for something with a deadline.
pub fn until(what: &str, mut happened: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !happened() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::yield_now();
        std::thread::park_timeout(Duration::from_millis(10));
    }
}

/// Ends a process the hard way.
pub fn kill(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

/// Whether a process is there and no zombie.
pub fn is_alive(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.trim().starts_with('Z'))
}

impl Deck {
    /// The demo with the tour already taken.
    pub fn demo(size: Size) -> Self {
        Self::demo_with(size, &[("LANG", "C.UTF-8"), ("COLORTERM", "truecolor")])
    }

    /// A configuration file with this text; gives the file too.
    pub fn file(size: Size, text: &str) -> (Self, std::path::PathBuf) {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("mcp.json");
        std::fs::write(&file, text).unwrap();
        let env = [("LANG", "C.UTF-8"), ("COLORTERM", "truecolor")];
        (Self::start(size, home, &["--config", "mcp.json"], &env), file)
    }

    /// The demo under an environment.
    pub fn demo_with(size: Size, env: &[(&str, &str)]) -> Self {
        let mut deck = Self::start(size, tempfile::tempdir().unwrap(), &["--demo"], env);
        deck.wait("1 of 4");
        deck.keys("\x1b");
        deck.gone("1 of 4");
        deck
    }

    fn start(size: Size, home: tempfile::TempDir, args: &[&str], env: &[(&str, &str)]) -> Self {
        let pair = native_pty_system()
            .openpty(PtySize { cols: size.0, rows: size.1, pixel_width: 0, pixel_height: 0 })
            .unwrap();
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_mcpdeck"));
        command.args(args);
        command.env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", home.path());
        command.env("TERM", "xterm-256color");
        command.env("MCPDECK_STATE_DIR", home.path().join("state"));
        command.env("MCPDECK_CONFIG_DIR", home.path().join("config"));
        command.cwd(home.path());
        for (key, value) in env {
            command.env(key, value);
        }
        let before = termios(&*pair.master);
        let child = pair.slave.spawn_command(command).unwrap();
        drop(pair.slave);
        let parser = vt100::Parser::new(cells(size.1), cells(size.0), 0);
        let seen = Arc::new(Mutex::new(Seen { parser, raw: Vec::new() }));
        let theirs = Arc::clone(&seen);
        let mut reader = pair.master.try_clone_reader().unwrap();
        let closing = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&closing);
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 8_192];
            while let Ok(n) = reader.read(&mut bytes) {
                if n == 0 || stop.load(Ordering::SeqCst) {
                    break;
                }
                let mut seen = theirs.lock().unwrap();
                seen.parser.process(&bytes[..n]);
                seen.raw.extend_from_slice(&bytes[..n]);
            }
        });
        let writer = pair.master.take_writer().unwrap();
        Self {
            master: Some(pair.master),
            writer: Some(writer),
            child,
            seen,
            before,
            closing,
            reader: Some(reader),
            home,
        }
    }

    /// What the screen shows.
    pub fn screen(&self) -> String {
        self.seen.lock().unwrap().parser.screen().contents()
    }

    /// Every byte that was written.
    pub fn raw(&self) -> String {
        String::from_utf8_lossy(&self.seen.lock().unwrap().raw).into_owned()
    }

    /// Waits until the screen shows a text.
    pub fn wait(&self, text: &str) {
        self.wait_until(text, |screen| screen.contains(text));
    }

    /// Waits until the screen shows a text no more.
    pub fn gone(&self, text: &str) {
        self.wait_until(text, |screen| !screen.contains(text));
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

    /// Types.
    pub fn keys(&mut self, keys: &str) {
        let writer = self.writer.as_mut().unwrap();
        writer.write_all(keys.as_bytes()).unwrap();
        writer.flush().unwrap();
    }

    /// Another size.
    pub fn resize(&mut self, cols: u16, rows: u16) {
        self.seen.lock().unwrap().parser.screen_mut().set_size(cells(rows), cells(cols));
        let size = PtySize { cols, rows, pixel_width: 0, pixel_height: 0 };
        self.master.as_ref().unwrap().resize(size).unwrap();
    }

    /// Where themes and keymap are looked for.
    pub fn config_dir(&self) -> std::path::PathBuf {
        self.home.path().join("config")
    }

    /// The program's process id.
    pub fn pid(&self) -> i32 {
        self.child.process_id().unwrap().try_into().unwrap()
    }

    /// The process id that the card of a server shows.
    pub fn pid_of(&self, server: &str) -> i32 {
        let screen = self.screen();
        let line = screen.lines().find(|l| l.contains(server) && l.contains("pid ")).unwrap();
        let digits = line.rsplit("pid ").next().unwrap();
        digits.split_whitespace().next().unwrap().parse().unwrap()
    }

    /// Types ctrl-c.
    pub fn ctrl_c(&mut self) {
        self.keys("\x03");
    }

    /// Asks the program to end.
    pub fn terminate(&mut self) {
        let pid = rustix::process::Pid::from_raw(self.pid()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
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

    /// Closes the terminal under the program; the child is reaped in the background.
    pub fn close_terminal(mut self) -> impl Sized {
        // The reader holds the terminal too: the next frame lets it go.
        self.closing.store(true, Ordering::SeqCst);
        self.keys("2");
        self.reader.take().unwrap().join().unwrap();
        self.writer = None;
        self.master = None;
        let mut child = self.child;
        std::thread::spawn(move || child.wait());
        self.home
    }

    /// The terminal is as it was before: its settings, the main screen, the cursor, no reporting.
    pub fn assert_restored(&self) {
        assert_eq!(termios(&**self.master.as_ref().unwrap()), self.before);
        until("the main screen is back", || {
            !self.seen.lock().unwrap().parser.screen().alternate_screen()
        });
        let seen = self.seen.lock().unwrap();
        let screen = seen.parser.screen();
        assert!(!screen.hide_cursor() && !screen.bracketed_paste());
        assert_eq!(screen.mouse_protocol_mode(), vt100::MouseProtocolMode::None);
    }
}

/// The settings of the terminal, as text to compare.
fn termios(master: &dyn MasterPty) -> String {
    format!("{:?}", master.get_termios())
}

fn cells(n: u16) -> std::num::NonZero<u16> {
    std::num::NonZero::new(n).unwrap()
}
