//! A text to read: fixed, or kept up to date.

use crate::action::ActionPlace;
use crate::intent::Intent;
use crate::keymap::KeyScope;
use crate::model::Model;
use crate::overlay::reader_width;
use crate::pane::{Cx, Gesture, Out, Ui};
use crate::pick::Pick;
use crate::prelude::*;
use crate::screen::{Frame, Screen};
use crate::widget::{Doc, DocView, Pen, TextInput, width};

/// A text to read.
#[derive(Default)]
pub struct TextReader {
    title: Ink,
    /// Its text and scroll position.
    pub text: DocView,
    /// Raw text for copying and saving instead of the drawn one.
    pub raw: Option<String>,
    /// The search text while it is typed, and the unfiltered text.
    search: Option<(TextInput, Doc)>,
    /// Whether these are the keys that work: their key closes them again.
    is_help: bool,
    /// Whether it is about one server, whose keys stand below it too.
    is_of_server: bool,
    /// Writes a text that is kept up to date.
    live: Option<Box<WriteText>>,
    /// Lays a long text out for a width.
    fitted: Option<Box<FitText>>,
    /// What closing it does.
    closed: Option<Box<WhenClosed>>,
}

type WriteText = dyn Fn(Ui<'_>) -> Doc;
type FitText = dyn Fn(u16) -> Doc;
type WhenClosed = dyn Fn(&Model, &mut Out);

impl TextReader {
    /// A fixed text.
    pub fn new(title: Ink, doc: Doc) -> Self {
        Self { title, text: DocView { doc, top: 0 }, ..Self::default() }
    }

    /// The keys that work, laid out in `width` and again when that changes.
    pub fn help(title: Ink, width: u16, text: impl Fn(u16) -> Doc + 'static) -> Self {
        let doc = text(width);
        Self { is_help: true, fitted: Some(Box::new(text)), ..Self::new(title, doc) }
    }

    /// A text that is kept up to date.
    pub fn live(title: Ink, text: impl Fn(Ui<'_>) -> Doc + 'static) -> Self {
        Self { title, live: Some(Box::new(text)), ..Self::default() }
    }

    /// A text that is laid out again only when its width changes; `raw` is what is copied and saved.
    pub fn fitted(title: Ink, raw: String, text: impl Fn(u16) -> Doc + 'static) -> Self {
        Self { title, raw: Some(raw), fitted: Some(Box::new(text)), ..Self::default() }
    }

    /// A text about one server, whose keys stand below it too.
    #[must_use]
    pub fn with_server_keys(self) -> Self {
        Self { is_of_server: true, ..self }
    }

    /// Does this when it is closed.
    #[must_use]
    pub fn closing(self, closed: impl Fn(&Model, &mut Out) + 'static) -> Self {
        Self { closed: Some(Box::new(closed)), ..self }
    }
}

impl TextReader {
    fn close(&self, model: &Model, out: &mut Out) {
        if let Some(closed) = &self.closed {
            closed(model, out);
        }
        out.close();
    }

    fn plain(&self) -> String {
        self.raw.clone().unwrap_or_else(|| self.text.doc.to_text())
    }
}

impl Screen for TextReader {
    fn scopes(&self) -> Vec<KeyScope> {
        match self.search {
            Some(_) => vec![KeyScope::Text],
            None => vec![KeyScope::Reader, KeyScope::List],
        }
    }

    fn frame(&self, whole: Rect) -> Option<Frame> {
        let wanted = u16::try_from(self.text.doc.len()).unwrap_or(u16::MAX).saturating_add(4);
        let height = wanted.clamp(8, whole.height.saturating_sub(2).max(8));
        Some((self.title.clone(), reader_width(whole) + 4, height))
    }

    fn takes_letters(&self) -> bool {
        self.search.is_some()
    }

    fn lets_through(&self, action: Action) -> bool {
        match action {
            Action::Help => !self.is_help,
            // Who reads which keys there are looks at no server.
            action if self.is_help && changes_servers(action) => false,
            // The new text takes the place of this one.
            Action::BlackBox | Action::ServerInfo => self.live.is_none(),
            action => action != Action::Back,
        }
    }

    fn line(&mut self) -> Option<&mut TextInput> {
        self.search.as_mut().map(|(typed, _)| typed)
    }

    fn typed(&mut self) {
        if let Some((typed, whole)) = &self.search {
            self.text = DocView { doc: whole.narrowed(typed.text()), top: 0 };
        }
    }

    fn act(&mut self, action: Action, ui: Ui<'_>, out: &mut Out) {
        let page = isize::try_from(ui.area.height).unwrap_or(1) - 1;
        if let Some(delta) = action.steps(page) {
            return self.text.scroll(delta, ui.area.height);
        }
        match action {
            Action::Back if self.search.is_some() => {
                if let Some((_, whole)) = self.search.take() {
                    self.text.doc = whole;
                }
            }
            Action::Filter if self.is_help => {
                let whole = self.text.doc.clone();
                self.search.get_or_insert((TextInput::default(), whole));
            }
            Action::Filter => out.warn(ink!("filter: there is no list to filter here")),
            Action::Back | Action::Open | Action::Help => self.close(ui.model, out),
            Action::BlackBox | Action::ServerInfo => {
                self.close(ui.model, out);
                out.intend(Intent::Pick(Pick::Action(action)));
            }
            Action::Copy | Action::CopyAll => out.copy(self.plain()),
            Action::Save => out.save("mcpdeck-text.txt", self.plain()),
            _ => {}
        }
    }

    fn mouse(&mut self, gesture: Gesture, ui: Ui<'_>, _out: &mut Out) {
        if let Gesture::Scroll { delta, .. } = gesture {
            self.text.scroll(delta, ui.area.height);
        }
    }

    fn is_passing(&self) -> bool {
        true
    }

    fn prepare(&mut self, ui: Ui<'_>) {
        let area = Rect { width: reader_width(ui.area), ..ui.area };
        if let Some(text) = &self.live {
            self.text.doc = text(Ui { area, ..ui });
        }
        // The scroll bar takes the last column.
        let width = area.width.saturating_sub(1);
        if let Some(text) = &self.fitted
            && self.text.doc.width() != width
        {
            self.text.doc = text(width);
            if let Some((typed, whole)) = &mut self.search {
                *whole = std::mem::take(&mut self.text.doc);
                self.text.doc = whole.narrowed(typed.text());
            }
            self.text.scroll(0, ui.area.height);
        }
    }

    fn render(&self, cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
        if let Some((typed, _)) = &self.search {
            // Beside the title.
            let title = width(&self.title) + 3;
            let line = Rect { x: area.x + title, y: area.y.saturating_sub(2), height: 1, ..area };
            let line = line.intersection(buf.area);
            let mut pen = Pen::new(buf, line);
            pen.put("/ ", cx.style(Role::Accent));
            let room = area.width.saturating_sub(title).min(30);
            let line = Rect { x: line.x + 2, width: room, ..line };
            typed.render(line.intersection(buf.area), buf, cx.style(Role::Input));
        }
        self.text.render(cx, area, buf);
    }

    fn in_footer(&self, _scope: KeyScope, action: Action) -> bool {
        action != Action::Open
            && (self.is_help || action != Action::Filter)
            && (self.is_of_server || !changes_servers(action))
    }
}

/// Whether an action is for a server or its entry in the file.
const fn changes_servers(action: Action) -> bool {
    matches!(action.place(), ActionPlace::Server(_) | ActionPlace::Edit(_))
}
