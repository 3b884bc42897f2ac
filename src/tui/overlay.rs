//! Overlays on top of the panes: texts, palette, questions. A stack; the topmost gets the keys.

use crossterm::event::KeyEvent;
use ratatui::widgets::{Clear, Widget};

use crate::tui::effect::Effect;
use crate::tui::keymap::KeyScope;
use crate::tui::pane::{Cx, Gesture, Out};
use crate::tui::pick::Pick;
use crate::tui::prelude::*;
use crate::tui::widget::{Doc, DocView, Pen, TextInput, width};

mod consent;
mod input;
mod palette;
mod sign_in;
pub use consent::Consent;
pub use input::InputDialog;
pub use palette::{NamePrompt, Named, Palette};
pub use sign_in::SignInDialog;

/// Something over the panes.
#[derive(Clone, Debug)]
pub enum Overlay {
    /// A text to read.
    Reader(TextReader),
    /// A list to search and pick from.
    Palette(Palette),
    /// A question.
    Confirm(Confirm),
    /// Commands that await approval.
    Consent(Consent),
    /// A value the configuration asks for.
    Input(Box<InputDialog>),
    /// A server that needs the user to sign in.
    SignIn(Box<SignInDialog>),
    /// A name to type.
    Ask(NamePrompt),
}

/// A text to read.
#[derive(Clone, Debug)]
pub struct TextReader {
    /// Its title.
    pub title: Ink,
    /// Its text and scroll position.
    pub text: DocView,
    /// Its subject, if it must be kept up to date.
    pub subject: ReaderSubject,
    /// Raw text for copying and saving instead of the drawn one.
    pub raw: Option<String>,
    /// The search text while it is typed, and the unfiltered text.
    pub narrow: Option<(TextInput, Doc)>,
}

/// The subject of a text; the app rebuilds the text when the subject changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReaderSubject {
    /// Fixed text.
    Fixed,
    /// Keys.
    Help,
    /// A server's diagnostics.
    BlackBox(ServerName),
    /// A server's information about itself.
    Info(ServerName),
    /// The tour, at a page.
    Tour(usize),
}

/// A yes/no question; nothing happens without a yes.
#[derive(Clone, Debug)]
pub struct Confirm {
    /// The question.
    pub title: Ink,
    /// What it means.
    pub lines: Vec<Ink>,
    /// What a yes does.
    pub yes: Vec<Effect>,
    /// Opened unprompted: a yes counts only after there was time to read.
    pub by_itself: bool,
}

/// An overlay's reply to an action.
#[derive(Clone, Debug, PartialEq)]
pub enum OverlayReply {
    /// It stays open.
    Stay,
    /// It closes.
    Close,
    /// It closes, and this is picked.
    Pick(Pick),
    /// Perform this action on it, as if by a key.
    Act(Action),
    /// Not handled here; the outer scopes may handle it.
    Pass,
}

/// Width of the yes in cells, and of yes and no together.
const YES: u16 = 10;
const NO: u16 = 20;

impl Confirm {
    /// A question raised by the user's own key.
    pub const fn new(title: Ink, lines: Vec<Ink>, yes: Vec<Effect>) -> Self {
        Self { title, lines, yes, by_itself: false }
    }

    /// Its lines, wrapped in full for a screen of this width.
    fn text(&self, screen: u16) -> Doc {
        let mut doc = Doc::new(screen.saturating_sub(4).min(60));
        for line in &self.lines {
            doc.text(0, line, Role::Text);
        }
        doc
    }
}

impl TextReader {
    /// A fixed text.
    pub fn new(title: Ink, doc: Doc) -> Self {
        let text = DocView { doc, top: 0 };
        Self { title, text, subject: ReaderSubject::Fixed, raw: None, narrow: None }
    }

    /// A text on a subject, which the app fills in before it is drawn.
    pub fn of(subject: ReaderSubject) -> Self {
        let title = match &subject {
            ReaderSubject::BlackBox(server) => ink!("diagnostics: {}", Ink::line(server.as_str())),
            ReaderSubject::Info(server) => ink!("info: {}", Ink::line(server.as_str())),
            ReaderSubject::Tour(_) => ink!("welcome"),
            ReaderSubject::Fixed | ReaderSubject::Help => Ink::default(),
        };
        Self { subject, ..Self::new(title, Doc::default()) }
    }

    fn act(&mut self, action: Action, inner: Rect, out: &mut Out) -> OverlayReply {
        let page = isize::try_from(inner.height).unwrap_or(1) - 1;
        if let Some(delta) = action.steps(page) {
            self.text.scroll(delta, inner.height);
            return OverlayReply::Stay;
        }
        match action {
            Action::Open | Action::Right if matches!(self.subject, ReaderSubject::Tour(_)) => {
                return OverlayReply::Pick(Pick::TourPage(1));
            }
            Action::Left if matches!(self.subject, ReaderSubject::Tour(_)) => {
                return OverlayReply::Pick(Pick::TourPage(-1));
            }
            Action::Back if self.narrow.is_some() => {
                if let Some((_, whole)) = self.narrow.take() {
                    self.text.doc = whole;
                }
            }
            Action::Filter if self.subject == ReaderSubject::Help => {
                let whole = self.text.doc.clone();
                self.narrow.get_or_insert((TextInput::default(), whole));
            }
            Action::Back | Action::Open => return OverlayReply::Close,
            Action::Help if self.subject == ReaderSubject::Help => return OverlayReply::Close,
            Action::Copy | Action::CopyAll => out.copy(self.plain()),
            Action::Save => out.save("mcpdeck-text.txt", self.plain()),
            _ => return OverlayReply::Pass,
        }
        OverlayReply::Stay
    }

    /// Applies the changed search text.
    fn search(&mut self) {
        if let Some((typed, whole)) = &self.narrow {
            self.text = DocView { doc: whole.narrowed(typed.text()), top: 0 };
        }
    }

    fn plain(&self) -> String {
        self.raw.clone().unwrap_or_else(|| self.text.doc.to_text())
    }
}

impl Overlay {
    /// Where its keys are bound, innermost first.
    pub fn scopes(&self) -> &'static [KeyScope] {
        match self {
            Self::Reader(reader) if reader.narrow.is_some() => &[KeyScope::Text],
            Self::Reader(_) => &[KeyScope::Reader, KeyScope::List],
            Self::Palette(palette) => palette.scopes,
            Self::Ask(_) => &[KeyScope::Ask],
            Self::Confirm(_) => &[KeyScope::Confirm],
            Self::Consent(_) => &[KeyScope::Consent, KeyScope::List],
            Self::Input(_) => &[KeyScope::Input],
            Self::SignIn(_) => &[KeyScope::SignIn],
        }
    }

    /// Whether plain keys are text.
    pub const fn is_typing(&self) -> bool {
        match self {
            Self::Reader(reader) => reader.narrow.is_some(),
            _ => matches!(self, Self::Palette(_) | Self::Input(_) | Self::Ask(_) | Self::SignIn(_)),
        }
    }

    /// Its region on a screen.
    pub fn area(&self, whole: Rect) -> Rect {
        let (width, height) = match self {
            Self::Reader(reader) => {
                let wanted =
                    u16::try_from(reader.text.doc.len()).unwrap_or(u16::MAX).saturating_add(4);
                (reader_width(whole) + 4, wanted.clamp(8, whole.height.saturating_sub(2).max(8)))
            }
            Self::Palette(palette) => {
                (if palette.is_watched { 104 } else { 72 }, (whole.height * 2 / 3).max(8))
            }
            Self::Confirm(confirm) => (64, confirm.text(whole.width).len() as u16 + 6),
            Self::Input(dialog) => (76, dialog.height()),
            Self::Ask(_) => (64, 8),
            Self::Consent(consent) => consent.size(whole),
            Self::SignIn(dialog) => dialog.size(whole),
        };
        centred(whole, width, height)
    }

    fn title(&self) -> Ink {
        match self {
            Self::Reader(TextReader { title, .. })
            | Self::Palette(Palette { title, .. })
            | Self::Confirm(Confirm { title, .. })
            | Self::Consent(Consent { title, .. })
            | Self::Ask(NamePrompt { title, .. }) => title.clone(),
            Self::Input(dialog) => dialog.palette.title.clone(),
            Self::SignIn(dialog) => dialog.title(),
        }
    }

    /// Brings it up to date with the screen before a frame.
    pub fn prepare(&mut self, whole: Rect) {
        if let Self::Consent(consent) = self {
            consent.prepare(reader_width(whole).min(whole.width.saturating_sub(4)));
        }
    }

    /// Performs an action.
    pub fn act(&mut self, action: Action, whole: Rect, out: &mut Out) -> OverlayReply {
        let inner = inner(self.area(whole));
        let passes =
            matches!(action, Action::QuitNow | Action::Help | Action::Redraw | Action::Suspend);
        match self {
            Self::Input(_) | Self::SignIn(_) | Self::Ask(_) if passes => OverlayReply::Pass,
            Self::Reader(reader) => reader.act(action, inner, out),
            Self::Palette(palette) => {
                palette.act(action, usize::from(inner.height.saturating_sub(1)))
            }
            Self::Consent(consent) => consent.act(action, inner, out),
            Self::Input(dialog) => dialog.act(action, out),
            Self::SignIn(dialog) => dialog.act(action, out),
            Self::Ask(ask) => ask.act(action, out),
            Self::Confirm(confirm) => match action {
                Action::Confirm => {
                    out.effects.append(&mut confirm.yes);
                    OverlayReply::Close
                }
                Action::Back => OverlayReply::Close,
                Action::QuitNow | Action::Suspend | Action::Redraw => OverlayReply::Pass,
                _ => OverlayReply::Stay,
            },
        }
    }

    /// Handles a typed key; the list below is filtered again.
    pub fn key(&mut self, key: KeyEvent) -> bool {
        let taken = self.typing().is_some_and(|typed| typed.key(key));
        match self {
            Self::Palette(palette) => palette.search(),
            Self::Reader(reader) => reader.search(),
            Self::Input(dialog) => dialog.palette.search(),
            _ => {}
        }
        taken
    }

    /// The line being typed, when one is.
    pub fn typing(&mut self) -> Option<&mut TextInput> {
        match self {
            Self::Palette(palette) => Some(&mut palette.input),
            Self::Input(dialog) => Some(&mut dialog.palette.input),
            Self::SignIn(dialog) => Some(&mut dialog.pasted),
            Self::Ask(ask) => Some(&mut ask.input),
            Self::Reader(reader) => reader.narrow.as_mut().map(|(typed, _)| typed),
            _ => None,
        }
    }

    /// Reacts to the mouse.
    pub fn mouse(&mut self, gesture: Gesture, whole: Rect) -> OverlayReply {
        let area = self.area(whole);
        if !area.contains(gesture.position()) {
            return match gesture {
                Gesture::Click(_)
                    if matches!(self, Self::Reader(_) | Self::Palette(_) | Self::Ask(_)) =>
                {
                    OverlayReply::Close
                }
                _ => OverlayReply::Stay,
            };
        }
        let inner = inner(area);
        match (self, gesture) {
            (Self::Reader(reader), Gesture::Scroll { delta, .. }) => {
                reader.text.scroll(delta, inner.height);
            }
            (Self::Reader(reader), _) if matches!(reader.subject, ReaderSubject::Tour(_)) => {
                return OverlayReply::Act(Action::Open);
            }
            (Self::Confirm(_), Gesture::Click(at)) if at.y + 1 == inner.bottom() => {
                match at.x - inner.x {
                    0..YES => return OverlayReply::Act(Action::Confirm),
                    YES..NO => return OverlayReply::Act(Action::Back),
                    _ => {}
                }
            }
            (Self::Consent(consent), gesture) => consent.mouse(gesture, inner),
            (Self::Input(dialog), gesture) => dialog.mouse(gesture, inner),
            (Self::Palette(palette), gesture) => return palette.mouse(gesture, inner),
            _ => {}
        }
        OverlayReply::Stay
    }

    /// Draws it over what is there.
    pub fn render(&self, cx: &Cx<'_>, whole: Rect, buf: &mut Buffer) {
        let area = self.area(whole).intersection(buf.area);
        Clear.render(area, buf);
        buf.set_style(area, cx.style(Role::Text));
        frame(cx, &self.title(), area, buf);
        let inner = inner(area);
        match self {
            Self::Reader(reader) => {
                if let Some((typed, _)) = &reader.narrow {
                    let start = width(&reader.title) + 5;
                    let mut pen = Pen::new(buf, Rect { height: area.height.min(1), ..area });
                    pen.column(start).put("/ ", cx.style(Role::Accent));
                    let room = area.width.saturating_sub(start + 4).min(30);
                    let line = Rect { x: area.x + start + 2, width: room, height: 1, ..area };
                    typed.render(line.intersection(area), buf, cx.style(Role::Input));
                }
                reader.text.render(cx, inner, buf);
            }
            Self::Palette(palette) => palette.render(cx, inner, buf),
            Self::Input(dialog) => dialog.render(cx, inner, buf),
            Self::SignIn(dialog) => dialog.render(cx, inner, buf),
            Self::Ask(ask) => ask.render(cx, inner, buf),
            Self::Consent(consent) => consent.render(cx, inner, buf),
            Self::Confirm(confirm) => {
                let text = Rect { height: inner.height.saturating_sub(1), ..inner };
                confirm.text(whole.width).render(cx, 0, text, buf);
                let mut pen = Pen::new(buf, inner).ellipsis(cx.glyphs.ellipsis);
                pen.at(0, inner.height.saturating_sub(1));
                for (column, name, word) in [(0, "{confirm}", " yes"), (YES, "{back}", " no")] {
                    pen.column(column);
                    pen.put(cx.spelled(&[KeyScope::Confirm], name), cx.style(Role::Key));
                    pen.put(word, cx.style(Role::Muted));
                }
            }
        }
    }
}

/// A region of this size in the middle of the screen.
fn centred(whole: Rect, width: u16, height: u16) -> Rect {
    // A few remaining columns of the pane beside it would only be noise.
    let width = if width + 8 > whole.width { whole.width } else { width };
    let height = height.min(whole.height);
    Rect {
        x: whole.x + (whole.width - width) / 2,
        y: whole.y + (whole.height - height) / 3,
        width,
        height,
    }
}

/// Width of a reader's text on a screen.
pub fn reader_width(whole: Rect) -> u16 {
    whole.width.saturating_sub(8).clamp(20, 104)
}

fn inner(area: Rect) -> Rect {
    Rect {
        x: area.x + 2.min(area.width),
        y: area.y + 2.min(area.height),
        width: area.width.saturating_sub(4),
        height: area.height.saturating_sub(3),
    }
}

/// Draws the keys of a dialog at its foot, each with its label; `None` leaves one out.
fn keys(
    cx: &Cx<'_>,
    scope: KeyScope,
    pen: &mut Pen<'_>,
    word: impl Fn(Action) -> Option<&'static str>,
) {
    for row in cx.keymap.rows(&[scope]).into_iter().filter(|row| row.footer > 0) {
        if let Some(word) = word(row.action) {
            pen.put(Ink::line(&row.chords[0].to_string()), cx.style(Role::Key));
            pen.put(ink!(" {}   ", word), cx.style(Role::Muted));
        }
    }
}

/// Rules above and below, and the title in the upper one.
fn frame(cx: &Cx<'_>, title: &Ink, area: Rect, buf: &mut Buffer) {
    let style = cx.style(Role::Accent);
    let mut pen = Pen::new(buf, area).ellipsis(cx.glyphs.ellipsis);
    pen.rule(cx.glyphs.horizontal, style);
    pen.at(0, area.height.saturating_sub(1)).rule(cx.glyphs.horizontal, style);
    pen.at(2, 0).put(" ", cx.style(Role::Text)).put(title, style);
    pen.put(" ", cx.style(Role::Text));
}
