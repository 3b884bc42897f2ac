//! A server that needs the user to sign in: who asks, for what, and the full address with its host
//! highlighted. No browser opens unasked; without one, the address is opened on another device and
//! the address the browser ends at is pasted back.

use qrcode::{Color, QrCode};
use serde_json::json;
use url::Url;

use crate::effect::{Effect, Order};
use crate::keymap::KeyScope;
use crate::model::{Model, Todo};
use crate::pane::{Cx, Out, Ui};
use crate::prelude::*;
use crate::screen::{Frame, Screen};
use crate::widget::{Doc, Pen, TextInput};
use deck::{UrlReading, read_url};
use host::ApprovalRequest;
use mcp::{StepKind, scopes_in_words};
use protocol::Answer;

/// An open sign-in request.
pub struct SignInDialog {
    /// Who asks for what.
    request: Arc<ApprovalRequest>,
    address: String,
    url: UrlReading,
    /// The address the browser ended at, as it is pasted.
    pasted: TextInput,
    is_qr: bool,
    /// What came to the redirect address and is not the answer.
    stray: Option<SafeText>,
}

/// Rows below the text: what was done, the pasted address, keys.
const FOOT_ROWS: u16 = 4;

impl SignInDialog {
    /// Shows a sign-in.
    pub fn new(request: Arc<ApprovalRequest>) -> Self {
        let address = request.params["url"].as_str().unwrap_or_default().to_owned();
        Self {
            url: read_url(&address),
            address,
            request,
            pasted: TextInput::of_secret(),
            is_qr: false,
            stray: None,
        }
    }

    fn answers(&self, result: Value) -> Effect {
        Effect::Order(Order::Answer(self.request.id, Answer::Result(result)))
    }

    fn text(&self, width: u16) -> Doc {
        let mut doc = Doc::new(width.max(8));
        if self.is_qr {
            for row in qr(&self.address) {
                doc.line(vec![(ink!("  {}", row), Role::Text)]);
            }
            return doc;
        }
        let params = &self.request.params;
        let issuer = params.get("issuer").and_then(Value::as_str).unwrap_or_default();
        doc.field("signs you in", Ink::line(issuer), Role::Foreign);
        let scopes = params.get("scopes").and_then(Value::as_array).into_iter().flatten();
        let scopes = scopes_in_words(scopes.filter_map(Value::as_str));
        doc.field("asks for", Ink::line(&scopes), Role::Foreign);
        doc.field("goes to", Ink::from(&self.url.host), Role::Attention);
        for warning in self.url.refusals.iter().chain(&self.url.warnings) {
            doc.text(0, &Ink::line(warning), Role::Warning);
        }
        doc.gap();
        let UrlReading { before, host, after, .. } = &self.url;
        doc.text(0, &ink!("{}{}{}", before, host, after), Role::Foreign);
        if let Some(stray) = &self.stray {
            doc.gap();
            doc.text(0, &Ink::from(stray), Role::Warning);
        }
        doc
    }
}

impl Screen for SignInDialog {
    fn scopes(&self) -> Vec<KeyScope> {
        vec![KeyScope::SignIn]
    }

    fn frame(&self, whole: Rect) -> Option<Frame> {
        let width = super::reader_width(whole);
        let rows = self.text(width).len() as u16 + FOOT_ROWS + 3;
        let title = ink!("{} asks you to sign in", Model::name(&self.request.server));
        Some((title, width + 4, rows.clamp(8, whole.height.max(8))))
    }

    fn line(&mut self) -> Option<&mut TextInput> {
        Some(&mut self.pasted)
    }

    fn act(&mut self, action: Action, _ui: Ui<'_>, out: &mut Out) {
        match action {
            Action::OpenBrowser if self.pasted.text().trim().is_empty() => {
                let open = self.url.open.as_deref().and_then(|url| Url::parse(url).ok());
                if let Some(url) = open {
                    out.effect(Effect::OpenUrl(self.request.id, url));
                } else {
                    let why = Ink::line(&self.url.refusals.join("; "));
                    out.warn(ink!("not opened: {}", why));
                }
            }
            Action::OpenBrowser => {
                let address = self.pasted.text().trim();
                let content = json!({"address": address});
                out.effect(self.answers(json!({"action": "accept", "content": content})));
            }
            Action::CopyUrl => out.copy(self.address.clone()),
            Action::QrCode => self.is_qr = !self.is_qr,
            Action::Decline => out.effect(self.answers(json!({"action": "decline"}))),
            Action::Back => {
                out.notify("it keeps waiting; {show-inbox} lists it", Role::Warning);
                out.close();
            }
            _ => {}
        }
    }

    fn follow(&mut self, model: &Model) -> bool {
        let server = model.server(&self.request.server);
        let last = server.and_then(|server| server.auth_steps.last());
        let stray = last.filter(|step| step.kind == StepKind::Redirect);
        self.stray = stray.and_then(|step| step.refused.clone());
        model.view.pending.contains_key(&self.request.id)
    }

    fn shows(&self, todo: &Todo) -> bool {
        *todo == Todo::Request(self.request.id)
    }

    fn decision(&self) -> Option<String> {
        Some(self.request.id.0.to_string())
    }

    fn decides(&self, action: Action) -> bool {
        action == Action::OpenBrowser
    }

    fn render(&self, cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
        let text = Rect { height: area.height.saturating_sub(FOOT_ROWS), ..area };
        self.text(area.width).render(cx, 0, text, buf);
        let mut pen = Pen::new(buf, area).ellipsis(cx.glyphs.ellipsis);
        pen.at(0, area.height.saturating_sub(3));
        pen.put("browser elsewhere? paste the address it ends at: ", cx.style(Role::Muted));
        let used = pen.position();
        let line = Rect {
            x: area.x + used,
            y: area.y + area.height.saturating_sub(3),
            width: area.width.saturating_sub(used),
            height: area.height.min(1),
        };
        self.pasted.render(line.intersection(area), buf, cx.style(Role::Input));
        let mut pen = Pen::new(buf, area).ellipsis(cx.glyphs.ellipsis);
        pen.at(0, area.height.saturating_sub(1));
        super::keys(cx, KeyScope::SignIn, &mut pen, |action| {
            Some(match action {
                Action::OpenBrowser if self.pasted.text().trim().is_empty() => "open",
                Action::OpenBrowser => "use it",
                Action::QrCode if self.is_qr => "address",
                Action::Back => "not now",
                action => action.label(),
            })
        });
    }

    fn in_footer(&self, scope: KeyScope, _action: Action) -> bool {
        scope == KeyScope::Global
    }
}

/// A QR code as lines of half blocks, two rows of modules each, with its quiet zone.
fn qr(text: &str) -> Vec<Ink> {
    const QUIET_STEPS: usize = 2;
    let Ok(code) = QrCode::with_error_correction_level(text, qrcode::EcLevel::L) else {
        return vec![ink!("the address is too long for a QR code")];
    };
    let width = code.width();
    // Light modules are drawn, because most terminals are dark.
    let is_light = |x: usize, y: usize| {
        let inside = |at: usize| (QUIET_STEPS..QUIET_STEPS + width).contains(&at);
        !(inside(x) && inside(y)) || code[(x - QUIET_STEPS, y - QUIET_STEPS)] == Color::Light
    };
    let side = width + 2 * QUIET_STEPS;
    let block = |x: usize, y: usize| match (is_light(x, y), y + 1 < side && is_light(x, y + 1)) {
        (true, true) => '█',
        (true, false) => '▀',
        (false, true) => '▄',
        (false, false) => ' ',
    };
    let row = |y: usize| Ink::line(&(0..side).map(|x| block(x, y)).collect::<String>());
    (0..side).step_by(2).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_qr_code_is_square_and_what_is_too_long_says_so() {
        let rows = qr("https://issuer.example/authorize?response_type=code&state=abc");
        let wide = rows[0].as_str().chars().count();
        assert_eq!(rows.len(), wide.div_ceil(2));
        assert!(rows[0].as_str().chars().all(|c| c == '█'), "the quiet zone");
        assert!(qr(&"x".repeat(4_000))[0].as_str().contains("too long"));
    }
}
