//! Resources and resource templates of all servers or of one.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::catalog::{Catalog, Entry, description, head};
use crate::config::ServerName;
use crate::host::ServerView;
use crate::host::capabilities::{Capabilities, ListKind};
use crate::tui::action::Action;
use crate::tui::ink::{Bytes, Ink, ink};
use crate::tui::keymap::Scope;
use crate::tui::model::Model;
use crate::tui::pane::{Availability, Cx, Gesture, Out, Pane, Ui};
use crate::tui::theme::Role;
use crate::tui::widget::browser::Keep;
use crate::tui::widget::{Doc, TextInput};

/// The resources pane.
#[derive(Default)]
pub struct ResourcesPane {
    catalog: Catalog,
}

impl ResourcesPane {
    /// The server of the selected entry.
    pub fn server(&self) -> Option<ServerName> {
        self.catalog.browser.selected().map(|entry| entry.server.clone())
    }

    /// Selects a resource when it is listed.
    pub fn go_to(&mut self, server: &ServerName, uri: &str) {
        self.catalog.go_to(server, uri);
    }
}

fn build(_: &ServerView, capabilities: &Capabilities, entries: &mut Vec<Entry>) {
    for resource in &capabilities.resources {
        entries.push(Entry {
            server: ServerName::new(""),
            list: ListKind::Resources,
            wire: resource.uri.clone(),
            label: resource.label.clone(),
            note: Ink::from(resource.title.as_ref().unwrap_or(&resource.name)),
            marks: ink!(""),
            number: resource.size.map_or_else(|| ink!(""), |size| ink!("{}", Bytes(size))),
            search: format!("{} {}", resource.label.as_str(), resource.name.as_str()),
            raw: resource.raw.clone(),
            change: None,
            unavailable: None,
        });
    }
    for template in &capabilities.templates {
        entries.push(Entry {
            server: ServerName::new(""),
            list: ListKind::ResourceTemplates,
            wire: template.uri_template.clone(),
            label: template.label.clone(),
            note: Ink::from(template.title.as_ref().unwrap_or(&template.name)),
            marks: ink!("template"),
            number: ink!(""),
            search: format!("{} {}", template.label.as_str(), template.name.as_str()),
            raw: template.raw.clone(),
            change: None,
            unavailable: None,
        });
    }
}

fn detail(entry: &Entry, server: &ServerView, _: &Model, doc: &mut Doc) {
    let lists = &server.capabilities;
    let resource = lists.resources.iter().find(|r| r.uri == entry.wire);
    let template = lists.templates.iter().find(|t| t.uri_template == entry.wire);
    if let (ListKind::Resources, Some(resource)) = (entry.list, resource) {
        head(entry, resource.title.as_ref(), doc);
        doc.gap();
        doc.field("server", Model::name(&entry.server), Role::Text);
        doc.field("name", &resource.name, Role::Foreign);
        if let Some(mime) = &resource.mime_type {
            doc.field("type", mime, Role::Text);
        }
        if let Some(size) = resource.size {
            doc.field("size", ink!("{}", Bytes(size)), Role::Text);
        }
        description(resource.description.as_ref(), doc);
    } else if let Some(template) = template {
        head(entry, template.title.as_ref(), doc);
        doc.gap();
        doc.field("server", Model::name(&entry.server), Role::Text);
        doc.field("name", &template.name, Role::Foreign);
        if let Some(mime) = &template.mime_type {
            doc.field("type", mime, Role::Text);
        }
        description(template.description.as_ref(), doc);
    }
    doc.heading("as sent").json(0, &entry.raw);
}

impl Pane for ResourcesPane {
    fn scopes(&self) -> &'static [Scope] {
        &[Scope::Resources, Scope::List]
    }

    fn sync(&mut self, ui: Ui<'_>) {
        self.catalog.sync(ui, build, detail);
    }

    fn act(&mut self, action: Action, ui: Ui<'_>, out: &mut Out) -> bool {
        self.catalog.act(action, ui, out)
    }

    fn availability(&self, action: Action, _: &Model) -> Option<Availability> {
        self.catalog.availability(action)
    }

    fn mouse(&mut self, gesture: Gesture, ui: Ui<'_>, out: &mut Out) {
        self.catalog.mouse(gesture, ui, out);
    }

    fn render(&self, cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
        self.catalog.render(cx, "resources", "size", area, buf);
    }

    fn typing(&mut self) -> Option<&mut TextInput> {
        self.catalog.typing()
    }

    fn end_typing(&mut self, keep: Keep) {
        self.catalog.end_typing(keep);
    }

    fn focus_next(&mut self, ui: Ui<'_>) -> bool {
        self.catalog.focus_next(ui)
    }

    fn filter_text(&self) -> &str {
        self.catalog.browser.filter.text()
    }

    fn set_filter(&mut self, text: &str) {
        self.catalog.browser.filter.set(text);
    }
}
