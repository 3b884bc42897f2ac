//! The policy screen: definitions that differ from what was approved, locked or recorded, and what
//! makes each change risky; clients, grants, limits, denials. Owns its rows and the definitions it
//! compares with.

use crate::effect::{Baseline, ClientOrder, Effect, LockChange, Order, PolicyOrder};
use crate::keymap::{KeyScope, Keymap};
use crate::message::Message;
use crate::model::Model;
use crate::overlay::{NamePrompt, Named, Palette};
use crate::pane::{Cx, Gesture, Out, PaneId, Ui};
use crate::panel::{Division, Panel};
use crate::pick::{Choice, Pick};
use crate::prelude::*;
use crate::screen::{Help, Screen, is_for_all};
use crate::widget::{Browser, Doc, KeyLine, empty_text};
use deck::{ClientView, Drift, DriftPlace, Lock, LockedServer, PolicyView};
use host::{Blocked, Digest, GrantId, HeldReason, PolicyAction, ServerState, ServerView};
use protocol::{Capabilities, FieldChange, ListKind, Risk};

mod detail;

/// Most denials listed.
const MAX_DENIALS: usize = 50;

/// A row; equal if it has the same subject.
#[derive(Clone, Debug, PartialEq)]
enum PolicyRow {
    Title(Section),
    Warning(usize),
    Drift(String, DriftPlace),
    Client(String),
    Grant(GrantId),
    Limits(usize),
    Quota(usize),
    Blocked(Timestamp, SafeText),
}

named! {
    /// A part of the list.
    enum Section {
        Definitions = "definitions that differ",
        Clients = "clients",
        Grants = "grants",
        Limits = "limits",
        Blocked = "blocked",
    }
}

/// A definition that differs.
struct Differs {
    server: String,
    place: DriftPlace,
    /// Why it is withheld from callers, and the digest the decision is about.
    held: Option<(HeldReason, Digest)>,
    changes: Vec<(FieldChange, Vec<Risk>)>,
    renamed_from: Option<String>,
}

#[derive(Default)]
pub struct PolicyScreen {
    browser: Browser<PolicyRow>,
    /// What the definitions are compared with; `None` is what was approved.
    against: Option<Baseline>,
    /// The definitions of the baseline, once they are read.
    known: Option<Result<Lock, SafeText>>,
    differs: Vec<Differs>,
    /// The policy and the lists for which the differences were computed.
    found_for: Option<(Arc<PolicyView>, Vec<Arc<Capabilities>>)>,
    /// When the selected definition changed while it was shown.
    moved: Option<Timestamp>,
}

/// How long a definition that changed under the cursor has to be shown before it can be accepted:
/// the key was meant for the text before.
const GLANCE_WINDOW: Duration = Duration::from_secs(1);

impl PolicyScreen {
    /// A screen that compares with a baseline, which has to be read ([`Effect::Baseline`]).
    pub fn against(baseline: Baseline) -> Self {
        Self { against: Some(baseline), ..Self::default() }
    }

    /// Updates the differences if their inputs changed.
    fn compare(&mut self, model: &Model) {
        let servers = || model.view.servers.values().filter(|server| shows(server, model));
        let lists: Vec<_> = servers().map(|server| Arc::clone(&server.capabilities)).collect();
        if self.found_for.as_ref().is_some_and(|(policy, known)| {
            let same = |(one, other): (&Arc<_>, &Arc<_>)| Arc::ptr_eq(one, other);
            Arc::ptr_eq(policy, &model.policy)
                && known.len() == lists.len()
                && known.iter().zip(&lists).all(same)
        }) {
            return;
        }
        self.found_for = Some((Arc::clone(&model.policy), lists));
        let before = self.selected().map(Differs::shown);
        self.differs = match (&self.against, &self.known) {
            (None, _) => model.policy.held.iter().map(Differs::held).collect(),
            (Some(_), Some(Ok(known))) => {
                let all = servers().flat_map(|server| {
                    let now = LockedServer::from_view(server);
                    let partial = server.capabilities.partial.iter().map(|(list, _)| *list);
                    let partial: Vec<ListKind> = partial.collect();
                    let before = known.servers.get(server.name.as_str());
                    let before = before.cloned().unwrap_or_default();
                    let found = before.drift(&now, &partial).into_iter();
                    let differs = found.map(|(place, drift)| {
                        let changes = match drift {
                            Drift::Changed(changes) => changes,
                            Drift::Added | Drift::Removed => vec![FieldChange {
                                pointer: String::new(),
                                before: before.get(&place).map(|it| it.value),
                                after: now.get(&place).map(|it| it.value),
                            }],
                        };
                        Differs::new(server.name.to_string(), place, changes)
                    });
                    differs.collect::<Vec<_>>()
                });
                all.collect()
            }
            _ => Vec::new(),
        };
        let now = self.selected().map(Differs::shown);
        if before.is_some() && now.is_some() && before != now {
            self.moved = Some(model.now);
        }
    }

    fn rows(&self, model: &Model) -> Vec<PolicyRow> {
        let mut rows: Vec<PolicyRow> =
            (0..model.policy.warnings.len()).map(PolicyRow::Warning).collect();
        for section in Section::ALL {
            if section == Section::Clients && model.served.is_none() {
                continue;
            }
            let title = rows.len();
            rows.push(PolicyRow::Title(section));
            match section {
                Section::Definitions => rows.extend(
                    self.differs
                        .iter()
                        .map(|one| PolicyRow::Drift(one.server.clone(), one.place.clone())),
                ),
                Section::Clients => {
                    let origins = model.clients.iter().map(|client| &client.principal.origin);
                    rows.extend(origins.map(|origin| PolicyRow::Client(origin.to_string())));
                }
                Section::Grants => {
                    rows.extend(model.policy.grants.iter().map(|grant| PolicyRow::Grant(grant.id)));
                }
                Section::Limits => {
                    rows.extend((0..model.policy.limits.len()).map(PolicyRow::Limits));
                    rows.extend((0..model.policy.quotas.len()).map(PolicyRow::Quota));
                }
                Section::Blocked => {
                    let blocked = model.blocked.iter().rev().take(MAX_DENIALS);
                    rows.extend(blocked.map(|one| PolicyRow::Blocked(one.at, one.target.clone())));
                }
            }
            // What is compared with a file is listed also when nothing differs; the rest only if
            // there is something.
            let is_compared = section == Section::Definitions && self.against.is_some();
            if rows.len() == title + 1 && !is_compared {
                rows.pop();
            }
        }
        rows
    }

    fn selected(&self) -> Option<&Differs> {
        let PolicyRow::Drift(server, place) = self.browser.selected()? else { return None };
        self.differing(server, place)
    }

    fn differing(&self, server: &str, place: &DriftPlace) -> Option<&Differs> {
        self.differs.iter().find(|one| one.server == server && one.place == *place)
    }

    fn body(area: Rect) -> Rect {
        let margin = area.width.min(1);
        let height = area.height.saturating_sub(1);
        Rect { x: area.x + margin, width: area.width - margin, height, ..area }
    }

    /// Switches to the next baseline: what was approved, the lock file, an earlier recording.
    fn turn(&mut self, out: &mut Out) {
        (self.known, self.found_for) = (None, None);
        match self.against.take() {
            None => {
                out.effect(Effect::Baseline(Baseline::Lock));
                self.against = Some(Baseline::Lock);
            }
            Some(Baseline::Lock) => out.open(NamePrompt::new(Named::Recording, "", Vec::new())),
            Some(Baseline::Recording(_)) => {}
        }
    }

    /// Accepts or refuses the selected definition.
    fn decide(&self, accept: bool, model: &Model, out: &mut Out) {
        let Some(one) = self.selected() else {
            return out.warn(ink!("select a definition first"));
        };
        if model.playback.is_some() {
            return out.warn(ink!("nothing is accepted from a recording"));
        }
        if accept && self.moved.is_some_and(|at| model.now.since(at) < GLANCE_WINDOW) {
            return out.warn(ink!("{} changed just now: look again", one.name()));
        }
        match (&self.against, one.held) {
            (None, Some((_, digest))) => {
                let tool = match &one.place {
                    DriftPlace::Entry(_, tool) => Some(tool.clone()),
                    _ => None,
                };
                let server = one.server.as_str().into();
                out.effect(Effect::Order(Order::Policy(PolicyOrder::Review {
                    server,
                    tool,
                    digest,
                    accept,
                })));
            }
            (Some(Baseline::Lock), _) if accept => {
                let server = model.view.servers.get(one.server.as_str());
                let now = Box::new(
                    server.map(|server| LockedServer::from_view(server)).unwrap_or_default(),
                );
                out.say(ink!("{} accepted in mcp.lock.json", one.name()));
                let change = LockChange::Accept(one.server.clone(), one.place.clone(), now);
                out.effect(Effect::Lock(change));
            }
            (Some(Baseline::Lock), _) => {
                out.say(ink!("the lock file stays as it is: --check reports the difference"));
            }
            _ => out.notify("{against} first: what was approved, or the lock file", Role::Warning),
        }
    }

    /// The call that was denied, if that is selected.
    fn blocked_call<'a>(&self, model: &'a Model) -> Option<&'a Blocked> {
        let Some(PolicyRow::Blocked(at, target)) = self.browser.selected() else { return None };
        let mut all = model.blocked.iter();
        let found = all.find(|one| one.at == *at && one.target == *target)?;
        (found.action == PolicyAction::Call && !found.principal.is_person()).then_some(found)
    }

    /// Offers to permit the call that was denied.
    fn offer_grant(&self, model: &Model, out: &mut Out) {
        let Some(blocked) = self.blocked_call(model) else { return };
        if model.playback.is_some() {
            return out.warn(ink!("nothing is granted from a recording"));
        }
        let choice = |words: &'static str, seconds| {
            let order = PolicyOrder::Grant {
                origin: blocked.principal.origin.to_string(),
                profile: blocked.principal.profile.to_string(),
                tool: blocked.target.to_string(),
                seconds,
            };
            Choice::new(ink!("{}", words), ink!(""), Pick::Order(Order::Policy(order)))
        };
        let choices = vec![
            choice("for 10 minutes", Some(600)),
            choice("for an hour", Some(3_600)),
            choice("until it is revoked, or the tool changes", None),
        ];
        let origin = Ink::line(&blocked.principal.to_string());
        out.choose(ink!("permit {} to {}", &blocked.target, origin), choices);
    }

    /// Revokes a grant, or offers the actions for a client.
    fn revoke(&self, model: &Model, out: &mut Out) {
        match self.browser.selected() {
            Some(PolicyRow::Grant(id)) => {
                let Some(grant) = detail::grant(model, *id) else { return };
                let (who, what) = detail::grant_words(grant);
                let lines = vec![who, what, ink!("This takes effect at once.")];
                let revoke = Effect::Order(Order::Policy(PolicyOrder::Revoke(*id)));
                out.ask(ink!("revoke grant {}?", id.0), lines, revoke);
            }
            Some(PolicyRow::Client(origin)) => {
                let Some(client) = detail::client(model, origin) else { return };
                let palette = Palette::new(ink!("clients"), choices(client));
                out.open(palette);
            }
            _ => out.warn(ink!("select a grant or a client first")),
        }
    }

    /// The name of the baseline.
    fn basis(&self) -> Ink {
        match &self.against {
            None => ink!("what was approved"),
            Some(Baseline::Lock) => ink!("mcp.lock.json"),
            Some(Baseline::Recording(file)) => Ink::line(&file.display().to_string()),
        }
    }
}

/// Asks before locking everything that is offered now.
fn write_lock(model: &Model, out: &mut Out) {
    if model.playback.is_some() {
        return out.warn(ink!("a recording writes no lock file"));
    }
    let now = Lock::from_view(&model.view);
    let servers = count(now.servers.len(), "server");
    let lines = vec![
        ink!("Everything that {} offer now is accepted.", servers),
        ink!("Entries of other servers stay as they are."),
    ];
    let lock = Effect::Lock(LockChange::All(Box::new(now)));
    out.ask(ink!("write mcp.lock.json?"), lines, lock);
}

/// Whether a server is compared: its definitions must be known.
fn shows(server: &ServerView, model: &Model) -> bool {
    let is_known = server.state == ServerState::Ready || model.playback.is_some();
    is_known && server.session.is_some() && model.in_scope(&server.name)
}

/// How a definition differs from what is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DriftChange {
    New,
    Gone,
    Differs,
}

impl DriftChange {
    const fn sign(self) -> (&'static str, Role) {
        match self {
            Self::New => ("+", Role::Added),
            Self::Gone => ("-", Role::Removed),
            Self::Differs => ("~", Role::Changed),
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Self::New => "is new",
            Self::Gone => "is gone",
            Self::Differs => "differs",
        }
    }
}

impl Differs {
    fn new(server: String, place: DriftPlace, changes: Vec<FieldChange>) -> Self {
        let weigh = |change: FieldChange| {
            let risks = change.risks();
            (change, risks)
        };
        let changes = changes.into_iter().map(weigh).collect();
        Self { server, place, held: None, changes, renamed_from: None }
    }

    fn held(tool: &host::HeldTool) -> Self {
        let place = match &tool.tool {
            Some(name) => DriftPlace::Entry(ListKind::Tools, name.clone()),
            None => DriftPlace::Instructions,
        };
        Self {
            held: Some((tool.held, tool.digest)),
            renamed_from: tool.renamed_from.clone(),
            ..Self::new(tool.server.clone(), place, tool.changes.clone())
        }
    }

    /// What a decision about it is made by: the same as long as the same is shown.
    fn shown(&self) -> (Option<(HeldReason, Digest)>, Vec<FieldChange>) {
        (self.held, self.changes.iter().map(|(change, _)| change.clone()).collect())
    }

    fn risks(&self) -> usize {
        self.changes.iter().map(|(_, risks)| risks.len()).sum()
    }

    fn name(&self) -> Ink {
        let name = match &self.place {
            DriftPlace::Instructions => format!("{} instructions", self.server),
            DriftPlace::ServerInfo => format!("{} serverInfo", self.server),
            DriftPlace::Authorization => format!("{} signing in", self.server),
            DriftPlace::Entry(_, id) => format!("{}.{id}", self.server),
        };
        Ink::line(&name)
    }

    /// Whether it is new, or gone, as a whole.
    fn change(&self) -> DriftChange {
        match self.changes.first() {
            Some((FieldChange { pointer, before: None, .. }, _)) if pointer.is_empty() => {
                DriftChange::New
            }
            Some((FieldChange { pointer, after: None, .. }, _)) if pointer.is_empty() => {
                DriftChange::Gone
            }
            _ => DriftChange::Differs,
        }
    }
}

/// The actions for a client.
fn choices(client: &ClientView) -> Vec<Choice> {
    let origin = client.principal.origin.to_string();
    let is_person = client.principal.is_person();
    let name = || detail::client_name(client);
    let choice = |order: ClientOrder| Choice {
        words: match order {
            ClientOrder::Pause if client.is_paused => ink!("resume {}", name()),
            ClientOrder::Pause => ink!("pause {}: its calls wait", name()),
            ClientOrder::Cut => ink!("cut {}: calls and streams end, it may reconnect", name()),
            ClientOrder::Revoke => ink!("revoke {}: its token stops working", name()),
        },
        hint: ink!("{} now", count(client.active.len(), "call")),
        pick: Pick::Order(Order::Client(order, origin.clone())),
        disabled: if client.is_revoked {
            Some(ink!("its token has ended"))
        } else {
            (is_person && order == ClientOrder::Revoke)
                .then(|| ink!("your own token: delete its file and start again"))
        },
    };
    [ClientOrder::Pause, ClientOrder::Cut, ClientOrder::Revoke].map(choice).into()
}

impl Screen for PolicyScreen {
    fn scopes(&self) -> Vec<KeyScope> {
        vec![KeyScope::Policy, KeyScope::List]
    }

    fn help(&self) -> Option<Help> {
        Some(("keys: policy", &[(KeyScope::Policy, "policy"), (KeyScope::List, "in the list")]))
    }

    fn takes_letters(&self) -> bool {
        false
    }

    fn lets_through(&self, action: Action) -> bool {
        is_for_all(action)
            || matches!(action, Action::Answer | Action::Quit | Action::Theme)
            || PaneId::ALL.into_iter().any(|pane| pane.action() == action)
    }

    fn act(&mut self, action: Action, ui: Ui<'_>, out: &mut Out) {
        match action {
            Action::Accept if self.blocked_call(ui.model).is_some() => {
                self.offer_grant(ui.model, out);
            }
            Action::Accept => self.decide(true, ui.model, out),
            Action::Refuse => self.decide(false, ui.model, out),
            Action::Revoke => self.revoke(ui.model, out),
            Action::Against => self.turn(out),
            Action::WriteLock => write_lock(ui.model, out),
            Action::Copy | Action::CopyAll => out.copy(self.browser.detail.doc.to_text()),
            Action::Filter => out.warn(ink!("this list has no filter")),
            Action::Back if !self.browser.act(action, Self::body(ui.area)) => out.close(),
            action => _ = self.browser.act(action, Self::body(ui.area)),
        }
    }

    fn mouse(&mut self, gesture: Gesture, ui: Ui<'_>, _out: &mut Out) {
        if self.browser.mouse(gesture, Self::body(ui.area)) {
            self.browser.split.open(Self::body(ui.area));
        }
        self.browser.filter.editing = false;
    }

    fn receive(&mut self, message: &Message, _out: &mut Out) -> bool {
        let Message::Baseline(of, known) = message else { return false };
        // A recording was named in a dialog, the lock file may have been changed only.
        if self.against.as_ref() == Some(of) || matches!(of, Baseline::Recording(_)) {
            (self.known, self.found_for) = (Some(known.clone()), None);
            self.against = Some(of.clone());
        }
        true
    }

    fn prepare(&mut self, ui: Ui<'_>) {
        let body = Self::body(ui.area);
        self.compare(ui.model);
        self.browser.set_rows(self.rows(ui.model), body);
        let width = self.browser.detail_width(body);
        if width > 0 {
            let mut doc = Doc::new(width);
            let _ = self.detail(&ui, &mut doc);
            self.browser.set_doc(doc, body);
        }
    }

    fn render(&self, cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
        let body = Self::body(area).intersection(buf.area);
        let summary = ink!("definitions against {}", self.basis());
        self.browser.render_frame(cx, &summary, 0, body, buf);
        if self.browser.rows.is_empty() {
            let text = "no definition differs from what was approved, and there is no client, grant, \
                        limit or denial; {against} compares with the lock file or a recording";
            let text = cx.spelled(&[KeyScope::Policy], text);
            empty_text(cx, &text, self.browser.regions(body).list, buf);
        }
        let room = self.browser.regions(body).list.width;
        self.browser.render_rows(cx, body, buf, |pen, row| self.row(cx, row, room, pen));
    }

    fn panels(&self, area: Rect) -> Vec<Panel> {
        let body = Self::body(area);
        let (regions, part) = (self.browser.regions(body), self.browser.split.part);
        Division::from_browser(&regions, part, body).panels(ink!("policy"))
    }

    fn key_line(&self, keymap: &Keymap) -> KeyLine {
        let mut labels = keymap.labels(&self.scopes()[..1]);
        labels.retain(|(.., action)| match action {
            Action::Accept if matches!(self.browser.selected(), Some(PolicyRow::Blocked(..))) => {
                true
            }
            Action::Accept | Action::Refuse => self.selected().is_some(),
            Action::Revoke => {
                matches!(self.browser.selected(), Some(PolicyRow::Grant(_) | PolicyRow::Client(_)))
            }
            Action::Open => !self.browser.rows.is_empty(),
            _ => true,
        });
        let keys = labels.into_iter().map(|(key, word, _)| (key, word)).collect();
        KeyLine::new(keys, keymap.help_label())
    }
}
