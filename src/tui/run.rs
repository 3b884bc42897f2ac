//! Runs the dashboard: terminal, input, signals, engine and app around one loop. It drains ready
//! messages, updates, draws at most once, and sleeps until something happens.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use base64::Engine as _;
use futures::future::BoxFuture;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::app::{App, Calls, Redraw, Setup};
#[cfg(unix)]
use crate::attached::AttachedSocket;
use crate::chat::port::{ChatCommand, OpenChat};
use crate::effect::Effect;
use crate::engine::{DashboardSource, Engine, OpenedDeck};
use crate::message::Message;
use crate::pacer::Pacer;
use crate::prelude::*;
use crate::runner::{OpenApp, Runner, SessionFiles, TryServer, forward};
use crate::state::{Places, read_prefs};
use crate::suites::OpenSuites;
use base::LogLevel;
use base::clock::Clock;
use config::error::{Error, ErrorCode};
use deck::{Answers, Clients, History, Operated, Recorder, SavedCalls, follow_news};
use host::{Drafter, Host, TraceContext};
use terminal::graphics::{self, TerminalReply};
use terminal::input::{Input, InputThread};
use terminal::session::{TerminalSession, catch_panics, is_interactive};
use terminal::signal::{Signal, Signals};
use terminal::theme::ColorDepth;

/// Exit code when a signal or a lost terminal ended the run, as for the verbs.
const INTERRUPTED_EXIT_CODE: u8 = 130;

/// Most messages that are handled between two frames.
const MAX_STEP_MESSAGES: usize = 256;

/// Changes the level of the program's own log.
pub type HostLogLevel = Arc<dyn Fn(LogLevel) + Send + Sync>;

pub struct DashboardOptions {
    /// Record everything to this new file.
    pub record: Option<PathBuf>,
    /// Settings from the command line.
    pub setup: Setup,
    /// Overrides the environment's colour setting: `Some(false)` for none.
    pub colour: Option<bool>,
    /// Changes the level of the program's own log, if there is one.
    pub log_level: Option<HostLogLevel>,
    /// Show configuration values (environment, headers) that a server sends back; otherwise they
    /// are masked.
    pub reveal: bool,
    /// Drafts answers to server requests, for the user to approve.
    pub drafter: Option<Arc<dyn Drafter>>,
    /// Other clients of the service, if there is one.
    pub clients: Option<Clients>,
    /// A demonstration that runs until the user does something.
    pub show: Option<Show>,
    /// The trace that the calls of the user belong to.
    pub trace: TraceContext,
    /// Opens a chat with a model, if one is available.
    pub chat: Option<OpenChat>,
    /// Shows results in the apps of their tools, in builds that can.
    pub apps: Option<OpenApp>,
    /// Checks servers before they are added.
    pub tries: Option<TryServer>,
    /// Runs suites of tests, in builds that can.
    pub suites: Option<OpenSuites>,
    /// Tells the user something once the terminal is given back.
    pub complain: fn(&str),
}

/// Acts on the servers until it is stopped.
pub type Show = Box<dyn FnOnce(Host, CancellationToken) -> BoxFuture<'static, ()>>;

/// Runs the dashboard until the user quits; returns the exit code of the program.
///
/// # Errors
/// If the terminal cannot be used: [`io::ErrorKind::Unsupported`] with a text for the user.
pub fn run(source: DashboardSource, options: DashboardOptions) -> io::Result<ExitCode> {
    if let Some(reason) = refuse_terminal(std::env::var("TERM").ok().as_deref()) {
        return Err(io::Error::new(io::ErrorKind::Unsupported, reason));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(Dashboard::run(source, options));
    runtime.shutdown_background();
    outcome
}

fn not_recorded(name: &SafeText, error: &io::Error) -> String {
    format!("cannot record to {name}: {error}")
}

/// Ends a recording; that it failed does not change what the run comes to.
async fn finish_recording(recorder: Option<(SafeText, Recorder)>, complain: fn(&str)) {
    if let Some((name, recorder)) = recorder
        && let Err(error) = recorder.finish().await
    {
        complain(&not_recorded(&name, &error));
    }
}

/// Waits until a recording ends early.
async fn failure(recorder: Option<&(SafeText, Recorder)>) -> io::Error {
    match recorder {
        Some((_, recorder)) => recorder.failure().wait().await,
        None => std::future::pending().await,
    }
}

/// Draws the dashboard as it is now.
fn draw(session: &mut TerminalSession, app: &App) -> io::Result<()> {
    session.draw(
        |size| app.placements(size),
        |area, buf| {
            crate::fault::in_render();
            app.render(area, buf);
        },
    )
}

/// Why the terminal cannot be used, as a text for the user.
fn refuse_terminal(term: Option<&str>) -> Option<&'static str> {
    if !is_interactive() {
        Some("the dashboard needs a terminal on stdin and stdout; `mcpdeck --check` does not")
    } else if term == Some("dumb") {
        Some("this terminal (TERM=dumb) cannot show the dashboard; `mcpdeck --check` needs none")
    } else {
        None
    }
}

/// The state of the loop.
struct Dashboard {
    app: App,
    session: TerminalSession,
    signals: Signals,
    input: InputThread,
    runner: Runner,
    engine: Engine,
    pacer: Pacer,
    clock: Clock,
    messages: mpsc::Sender<Message>,
    options: DashboardOptions,
    leaving: Option<LeavingStage>,
    /// Whether the terminal is still there.
    terminal_lives: bool,
    /// Whether a signal or a lost terminal ends the run, not the user.
    interrupted: bool,
    /// Fires on the first action of the user.
    acted: CancellationToken,
    recorder: Option<(SafeText, Recorder)>,
    chat: Option<mpsc::Sender<ChatCommand>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LeavingStage {
    /// The servers are being stopped; the screen shows it.
    Stopping,
    /// Leave without waiting for anything.
    Now,
}

enum LoopEvent {
    Input(Option<Input>),
    Message(Option<Message>),
    Engine(Option<OpenedDeck>),
    Signal(Signal),
    /// The recording ended early.
    Unrecorded(io::Error),
    Time,
}

impl Dashboard {
    async fn run(source: DashboardSource, mut options: DashboardOptions) -> io::Result<ExitCode> {
        let clock = Clock::system();
        crate::model::use_local_time();
        let places = Places::of_process();
        let mut files = source.files();
        // The file next to which a project's own files are kept: that of highest precedence.
        let is_live = matches!(source, DashboardSource::Deck(_));
        let project = files.last().filter(|_| is_live).cloned();
        if files.is_empty() {
            files.push(PathBuf::from(if options.setup.tour { ":demo" } else { ":command" }));
        }
        let lock = if is_live { project.clone() } else { Some(PathBuf::from("mcp.json")) };
        let prefs = places.prefs_file(&files);
        let files = SessionFiles {
            history: prefs.as_ref().map(|file| file.with_extension("history.jsonl")),
            prefs,
            calls: project.as_deref().map(SavedCalls::path_beside),
            answers: project.as_deref().map(Answers::path_beside),
            lock: lock.map(|config| config.with_file_name(deck::LOCK_FILE)),
        };
        let kept = files.answers.as_deref().map(Answers::load).transpose();
        let history = files.history.as_deref().map(History::load).unwrap_or_default();
        let saved = files.calls.as_deref().map(SavedCalls::load).transpose();
        let saved_problem = saved.as_ref().err().or(kept.as_ref().err()).cloned();
        let mut setup = setup(std::mem::take(&mut options.setup), options.colour, &places);
        setup.plays = options.show.is_some();
        setup.recording = matches!(source, DashboardSource::Recording(..));
        setup.prefs = read_prefs(files.prefs.as_deref());
        setup.own_file = project.clone();
        #[cfg(unix)]
        {
            setup.attached = matches!(source, DashboardSource::Attached(_));
        }
        setup.calls = Calls::new(history, saved.ok().flatten().unwrap_or_default());
        let asks = setup.graphics.asks(std::env::var("TERM").ok().as_deref());
        let question = setup.graphics.question();
        let mut app = App::new(setup, clock.now());
        app.use_kept_answers(kept.ok().flatten().unwrap_or_default());
        app.model.served = options.clients.as_ref().and_then(|clients| clients.place().cloned());
        let (messages, mut incoming) = mpsc::channel(256);
        let reports = messages.clone();
        // If the queue is full, only the notice is lost; the log has the text.
        catch_panics(move |text| _ = reports.try_send(Message::WorkerPanicked(text)));
        let signals = Signals::listen()?;
        let mut session = TerminalSession::enter()?;
        if asks {
            // The reply is not awaited: it comes as input, or never.
            session.write(question)?;
        }
        let (width, height) = session.size()?;
        app.update(Message::Resize(width, height));
        app.prepare();
        draw(&mut session, &app)?;
        let (input_sender, mut inputs) = mpsc::channel(256);
        let (opened_sender, mut opened) = mpsc::channel(1);
        let mut runner = Runner::new(messages.clone(), files, options.reveal);
        runner.apps = options.apps.take();
        runner.tries = options.tries.take();
        runner.trace = std::mem::take(&mut options.trace);
        runner.suites = options.suites.take();
        #[cfg(unix)]
        if let DashboardSource::Attached(socket) = &source {
            runner.remote = Some(AttachedSocket(socket.clone()));
        }
        let mut deck = Self {
            app,
            session,
            signals,
            input: InputThread::spawn(input_sender)?,
            runner,
            engine: Engine::start(source, opened_sender, messages.clone())?,
            pacer: Pacer::default(),
            clock,
            messages,
            options,
            leaving: None,
            terminal_lives: true,
            interrupted: false,
            acted: CancellationToken::new(),
            recorder: None,
            chat: None,
        };
        deck.pacer.drawn(Redraw::Soon, Instant::now());
        tokio::spawn(follow_user_files(places, deck.messages.clone()));
        if let Some(problem) = saved_problem {
            deck.failed(ErrorCode::Configuration, problem).await?;
        }
        if let Some(path) = deck.options.record.take_if(|_| !is_live) {
            deck.record_to(&path).await?;
        }
        let outcome = deck.serve(&mut inputs, &mut incoming, &mut opened).await;
        let (recorder, complain) = (deck.recorder.take(), deck.options.complain);
        // Also ends a thread that waits for room in the message queue.
        drop(incoming);
        drop(deck);
        finish_recording(recorder, complain).await;
        outcome
    }

    async fn serve(
        &mut self,
        inputs: &mut mpsc::Receiver<Input>,
        incoming: &mut mpsc::Receiver<Message>,
        opened: &mut mpsc::Receiver<OpenedDeck>,
    ) -> io::Result<ExitCode> {
        let mut engine_lives = true;
        loop {
            match self.step(inputs, incoming, opened, &mut engine_lives).await {
                Ok(None) => {}
                Ok(Some(code)) => return Ok(code),
                // A terminal that cannot be written to is gone; its input may not have ended yet.
                Err(error) => {
                    tracing::warn!(%error, "the terminal is gone");
                    self.terminal_lives = false;
                    self.hang_up();
                }
            }
        }
    }

    /// Handles one event and what else has arrived; returns the exit code at the end.
    async fn step(
        &mut self,
        inputs: &mut mpsc::Receiver<Input>,
        incoming: &mut mpsc::Receiver<Message>,
        opened: &mut mpsc::Receiver<OpenedDeck>,
        engine_lives: &mut bool,
    ) -> io::Result<Option<ExitCode>> {
        let wake = self.next_wake().filter(|_| self.terminal_lives);
        let event = tokio::select! {
            biased;
            signal = self.signals.next() => LoopEvent::Signal(signal),
            input = inputs.recv(), if self.terminal_lives => LoopEvent::Input(input),
            opened = opened.recv(), if *engine_lives => LoopEvent::Engine(opened),
            error = failure(self.recorder.as_ref()) => LoopEvent::Unrecorded(error),
            message = incoming.recv() => LoopEvent::Message(message),
            () = sleep_until(wake.unwrap_or_else(Instant::now)), if wake.is_some() => LoopEvent::Time,
        };
        self.update(Message::Now(self.clock.now())).await?;
        match event {
            LoopEvent::Signal(signal) => self.signal(signal).await?,
            LoopEvent::Input(input) => self.input(input).await?,
            LoopEvent::Engine(Some(opened)) => self.opened(opened).await?,
            LoopEvent::Engine(None) => {
                *engine_lives = false;
                if self.leaving.is_some() {
                    self.leaving = Some(LeavingStage::Now);
                } else {
                    let error = Error::new(ErrorCode::Internal, "the engine ended by itself");
                    self.update(Message::EngineFailed(error)).await?;
                }
            }
            LoopEvent::Message(Some(message)) => self.update(message).await?,
            LoopEvent::Unrecorded(error) => self.unrecorded(&error).await?,
            LoopEvent::Message(None) | LoopEvent::Time => {}
        }
        for _ in 0..MAX_STEP_MESSAGES {
            // A key that arrives among thousands of messages is answered before the rest of them.
            let mut has_input = false;
            while let Ok(input) = inputs.try_recv() {
                self.input(Some(input)).await?;
                has_input = true;
            }
            let Ok(message) = incoming.try_recv() else { break };
            self.update(message).await?;
            if has_input {
                break;
            }
        }
        if self.leaving == Some(LeavingStage::Now) {
            let code = if self.interrupted { INTERRUPTED_EXIT_CODE } else { 0 };
            return Ok(Some(ExitCode::from(code)));
        }
        if self.terminal_lives {
            self.draw_when_due()?;
        }
        Ok(None)
    }

    async fn input(&mut self, input: Option<Input>) -> io::Result<()> {
        use crossterm::event::Event::{Key, Mouse};
        use crossterm::event::MouseEventKind::Moved;
        match input {
            None | Some(Input::Gone) => {
                self.terminal_lives = false;
                self.hang_up();
                Ok(())
            }
            Some(Input::Event(event)) => {
                match &event {
                    Mouse(mouse) if mouse.kind == Moved => {}
                    Key(_) | Mouse(_) => self.acted.cancel(),
                    _ => {}
                }
                self.update(Message::Input(event)).await
            }
            Some(Input::Reply(reply)) => self.update(Message::Terminal(reply)).await,
        }
    }

    async fn update(&mut self, message: Message) -> io::Result<()> {
        for effect in self.app.update(message) {
            self.perform(effect).await?;
        }
        Ok(())
    }

    /// Shows an error.
    async fn failed(&mut self, code: ErrorCode, why: impl Into<String>) -> io::Result<()> {
        Box::pin(self.update(Message::Failed(Error::new(code, why)))).await
    }

    /// The deck is open: starts whatever needs its engine.
    async fn opened(&mut self, (host, policy): OpenedDeck) -> io::Result<()> {
        self.engine.attach(host.clone());
        let clients = self.options.clients.take();
        let deck = Operated { host: host.clone(), clients, policy };
        self.runner.opened = Some(deck.clone());
        if let Some(drafter) = self.options.drafter.take() {
            host.set_drafter(drafter);
        }
        if let Some(path) = self.options.record.take() {
            self.record_to(&path).await?;
        }
        let drafter = host.drafter_name();
        self.open_chat(&host);
        if let Some(show) = self.options.show.take() {
            tokio::spawn(show(host.clone(), self.acted.clone()));
        }
        tokio::spawn(follow_news(deck, self.messages.clone()));
        self.update(Message::Drafter(drafter)).await
    }

    fn open_chat(&mut self, host: &Host) {
        let Some(open) = self.options.chat.take() else { return };
        let (sender, news) = mpsc::channel(256);
        self.chat = open(host.clone(), sender);
        tokio::spawn(forward(news, self.messages.clone(), Message::Chat));
    }

    async fn signal(&mut self, signal: Signal) -> io::Result<()> {
        self.interrupted |= matches!(signal, Signal::Terminate | Signal::Interrupt | Signal::Quit);
        match signal {
            Signal::Terminate | Signal::Interrupt if self.leaving.is_some() => self.quit_now(),
            Signal::Terminate | Signal::Interrupt => self.update(Message::Terminate).await?,
            Signal::HangUp => self.hang_up(),
            Signal::Quit => self.quit_now(),
            Signal::Suspend => self.suspend().await?,
            Signal::Resized | Signal::Continued => {
                if signal == Signal::Continued {
                    self.session.resume()?;
                }
                if let Some(cell) = cell_pixels() {
                    // The font may have changed: pictures are fitted to cells.
                    self.update(Message::Terminal(TerminalReply::Cell(cell))).await?;
                }
                let (width, height) = self.session.size()?;
                self.update(Message::Resize(width, height)).await?;
            }
        }
        Ok(())
    }

    async fn perform(&mut self, effect: Effect) -> io::Result<()> {
        match effect {
            Effect::Quit if self.leaving.is_none() => {
                self.leaving = Some(LeavingStage::Stopping);
                self.runner.stop_suites();
                self.app.stopping();
                self.engine.stop();
            }
            Effect::Quit | Effect::QuitNow => self.quit_now(),
            Effect::Config(command) => {
                if !self.engine.ask(command) {
                    let busy = "busy: try again in a moment";
                    self.failed(ErrorCode::RateLimited, busy).await?;
                }
            }
            Effect::HostLogLevel(level) => {
                if let Some(change) = &self.options.log_level {
                    change(level);
                }
            }
            Effect::Play(command) => self.engine.command(command),
            Effect::ToggleRecording => Box::pin(self.record()).await?,
            Effect::Chat(command) => {
                if let (ChatCommand::Say(text, _), Some((_, recorder))) = (&command, &self.recorder)
                {
                    recorder.record_chat(text);
                }
                if let Some(chat) = &self.chat {
                    // A user does not fill the queue; if it is full, commands are dropped.
                    let _ = chat.try_send(command);
                }
            }
            Effect::Bell => self.session.write(b"\x07")?,
            Effect::Copy(text) => self.copy(&text)?,
            Effect::Redraw => {
                crate::fault::set_off();
                self.session.redraw()?;
                self.resized()?;
            }
            Effect::Suspend => Box::pin(self.suspend()).await?,
            Effect::EditFile(path, line) => {
                let done = self.lend(crate::editor::open(&path, line)).await?;
                self.lent(done).await?;
                Box::pin(self.update(Message::FileEdited)).await?;
            }
            Effect::Edit { token, text, suffix } => {
                let edited = self.lend(crate::editor::edit(&text, suffix)).await?;
                Box::pin(self.update(Message::Edited(token, edited))).await?;
            }
            Effect::Run(run) if run.command.terminal => {
                let done = self.lend(run.in_terminal()).await?;
                self.lent(done).await?;
            }
            Effect::Run(run) => self.runner.run(*run),
            Effect::Order(order) => self.runner.order(order),
            Effect::Call(token, request) => self.runner.call(token, request),
            Effect::CancelCall(token) => self.runner.cancel_call(token),
            Effect::Draft(id, params) => self.runner.draft(id, params),
            Effect::KeepAnswer(answer, existing) => self.runner.keep_answer(*answer, existing),
            Effect::OpenApp(request) => self.runner.open_app(*request),
            Effect::OpenUrl(id, url) => self.runner.open_url(id, url),
            Effect::Suites(order) => self.runner.order_suites(*order),
            Effect::CacheDrop(key) => self.runner.cache_drop(key.as_ref()),
            Effect::CacheContent(key) => self.runner.cache_content(key),
            Effect::Check(token, job) => self.runner.check(token, job),
            Effect::Picture(token, job) => self.runner.picture(token, job),
            Effect::Save { name, content } => self.runner.save(&name, &content),
            Effect::SaveAs { path, content, existing } => {
                self.runner.save_as(path, content, existing);
            }
            Effect::SavePrefs(prefs) => self.runner.save_prefs(&prefs),
            Effect::Record(record) => self.runner.record(&record),
            Effect::SaveCall(name, call, existing) => {
                self.runner.save_call(name, *call, existing);
            }
            Effect::ReadFile(token, path) => self.runner.read_file(token, path),
            Effect::Baseline(baseline) => self.runner.read_baseline(baseline),
            Effect::FindServers => self.runner.find_servers(),
            Effect::FindServer(words, file) => self.runner.find_server(words, file),
            Effect::TryServer(request) => self.runner.try_server(*request),
            Effect::Lock(change) => self.runner.change_lock(change),
        }
        Ok(())
    }

    /// Starts a recording in the working directory, or ends the current one.
    async fn record(&mut self) -> io::Result<()> {
        let Some((name, recorder)) = self.recorder.take() else {
            let now = crate::model::zoned(self.clock.now());
            let name = now.strftime("mcpdeck-%Y%m%d-%H%M%S.jsonl.gz").to_string();
            return self.record_to(name.as_ref()).await;
        };
        self.update(Message::Recording(None)).await?;
        match recorder.finish().await {
            Ok(()) => {
                let said = format!("recorded to {name}");
                self.update(Message::Done(SafeText::line(&said))).await
            }
            Err(error) => self.not_recorded(&name, &error).await,
        }
    }

    /// Nothing more can be written to the recording.
    async fn unrecorded(&mut self, error: &io::Error) -> io::Result<()> {
        let Some((name, _)) = self.recorder.take() else { return Ok(()) };
        self.update(Message::Recording(None)).await?;
        self.not_recorded(&name, error).await
    }

    async fn record_to(&mut self, path: &Path) -> io::Result<()> {
        let deck = match self.runner.deck() {
            Ok(deck) => deck,
            Err(error) => return Box::pin(self.update(Message::Failed(error))).await,
        };
        let name = SafeText::line(&path.display().to_string());
        match Recorder::start(&deck.host, path) {
            Ok(recorder) => {
                self.recorder = Some((name.clone(), recorder));
                self.update(Message::Recording(Some(name))).await
            }
            Err(error) => self.not_recorded(&name, &error).await,
        }
    }

    async fn not_recorded(&mut self, name: &SafeText, error: &io::Error) -> io::Result<()> {
        let text = SafeText::line(&not_recorded(name, error));
        Box::pin(self.update(Message::NotDone(text))).await
    }

    fn quit_now(&mut self) {
        self.engine.stop();
        self.engine.force();
        self.leaving = Some(LeavingStage::Now);
    }

    /// The screen is lost: stops the servers in order, each with its grace period. A lost terminal
    /// and the signal that comes with it are one request, in whatever order.
    fn hang_up(&mut self) {
        self.interrupted = true;
        self.leaving.get_or_insert(LeavingStage::Stopping);
        self.engine.stop();
    }

    /// When the loop has to wake up by itself: for a frame or a relative time.
    fn next_wake(&self) -> Option<Instant> {
        let now = Instant::now();
        let frame = self.pacer.due(self.app.redraw(), now);
        let change = self.app.wake().map(|at| now + at.since(self.clock.now()));
        [frame, change].into_iter().flatten().min()
    }

    fn draw_when_due(&mut self) -> io::Result<()> {
        let (now, wanted) = (Instant::now(), self.app.redraw());
        if self.pacer.due(wanted, now).is_none_or(|due| due > now) {
            return Ok(());
        }
        debug_assert!(wanted > Redraw::None);
        self.app.prepare();
        draw(&mut self.session, &self.app)?;
        self.pacer.drawn(wanted, now);
        Ok(())
    }

    // Direct use of the terminal by the loop: clipboard, shell, editor.

    /// OSC 52: the terminal sets its clipboard, also over ssh. The text is base64, so it cannot
    /// inject a terminal sequence.
    fn copy(&mut self, text: &str) -> io::Result<()> {
        let encoded = base64::engine::general_purpose::STANDARD.encode(text);
        self.session.write(format!("\x1b]52;c;{encoded}\x07").as_bytes())
    }

    fn resized(&mut self) -> io::Result<()> {
        let (width, height) = self.session.size()?;
        self.app.update(Message::Resize(width, height));
        Ok(())
    }

    async fn suspend(&mut self) -> io::Result<()> {
        self.input.pause();
        self.session.leave()?;
        self.signals.stop_job().await;
        self.session.resume()?;
        self.input.resume()?;
        self.resized()
    }

    /// Hands the terminal to another program and takes it back. Both are one job: they are stopped
    /// and continued together.
    async fn lend<T>(&mut self, work: impl Future<Output = T>) -> io::Result<T> {
        self.input.pause();
        self.session.leave()?;
        tokio::pin!(work);
        let mut end = None;
        let done = loop {
            tokio::select! {
                biased;
                signal = self.signals.next() => match signal {
                    Signal::Suspend => self.signals.stop_job().await,
                    Signal::Terminate | Signal::HangUp => end = Some(signal),
                    // Keys signal every program of the job: these were meant for the other one.
                    Signal::Interrupt | Signal::Quit | Signal::Resized | Signal::Continued => {}
                },
                done = &mut work => break done,
            }
        };
        self.session.resume()?;
        self.input.resume()?;
        self.resized()?;
        if let Some(signal) = end {
            Box::pin(self.signal(signal)).await?;
        }
        Ok(done)
    }

    /// Shows what failed while another program had the terminal.
    async fn lent(&mut self, done: Result<(), SafeText>) -> io::Result<()> {
        match done {
            Ok(()) => Ok(()),
            Err(reason) => Box::pin(self.update(Message::NotDone(reason))).await,
        }
    }
}

// Sets up the app from the options, the environment and the user's files, which are polled while it
// runs.

/// Poll interval for themes and keymap, which are few and small.
const USER_FILES_INTERVAL: Duration = Duration::from_secs(2);

/// Sends the user's themes and keymap whenever they change.
async fn follow_user_files(places: Places, messages: mpsc::Sender<Message>) {
    let read = |places: Places| tokio::task::spawn_blocking(move || places.user_files());
    let Ok(mut known) = read(places.clone()).await else { return };
    loop {
        tokio::time::sleep(USER_FILES_INTERVAL).await;
        let Ok(files) = read(places.clone()).await else { return };
        if files != known {
            known = files.clone();
            if messages.send(Message::UserFiles(files)).await.is_err() {
                return;
            }
        }
    }
}

/// The app's setup from the options, the environment and the user's files.
fn setup(mut setup: Setup, colour: Option<bool>, places: &Places) -> Setup {
    setup.depth = match colour {
        Some(false) => ColorDepth::None,
        _ => ColorDepth::from_env(|name| std::env::var(name).ok()),
    };
    let utf8 = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
        .is_none_or(|value| {
            let value = value.to_ascii_lowercase();
            value.contains("utf-8") || value.contains("utf8")
        });
    setup.ascii |= !utf8;
    let variable = |name: &str| std::env::var(name).ok();
    let support = graphics::Support::from_env(variable, setup.depth, setup.ascii);
    setup.graphics = support.with_cell(cell_pixels());
    setup.user = places.user_files();
    setup.home = dirs::home_dir();
    setup
}

/// The size of a cell as reported by the operating system; many terminals report zero.
fn cell_pixels() -> Option<graphics::CellPixels> {
    let size = crossterm::terminal::window_size().ok()?;
    let cell =
        |pixels: u16, cells: u16| pixels.checked_div(cells).filter(|n| (2..=256).contains(n));
    let (width, height) = (cell(size.width, size.columns)?, cell(size.height, size.rows)?);
    Some(graphics::CellPixels { width, height })
}
