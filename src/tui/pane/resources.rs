//! Resources and resource templates of all servers or of one.

use super::catalog::{Entry, Kind, description, head};
use crate::base::ServerName;
use crate::base::text::SafeText;
use crate::host::ServerView;
use crate::mcp::capabilities::{Capabilities, ListKind};
use crate::tui::ink::{Bytes, Ink, ink};
use crate::tui::keymap::Scope;
use crate::tui::model::Model;
use crate::tui::theme::Role;
use crate::tui::widget::Doc;

/// The resources pane.
pub const KIND: Kind = Kind {
    scopes: &[Scope::Resources, Scope::List],
    noun: "resource",
    number: "size",
    build,
    detail,
};

fn build(_: &ServerView, capabilities: &Capabilities, entries: &mut Vec<Entry>) {
    for resource in &capabilities.resources {
        entries.push(Entry {
            server: ServerName::new(""),
            list: ListKind::Resources,
            wire: resource.uri.clone(),
            label: resource.label.clone(),
            note: Ink::from(resource.title.as_ref().unwrap_or(&resource.name)),
            marks: ink!(""),
            size: resource.size.unwrap_or_default(),
            number: resource.size.map_or_else(|| ink!(""), |size| ink!("{}", Bytes(size))),
            names: names(&resource.name, resource.title.as_ref()),
            description: resource.description.clone(),
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
            size: 0,
            names: names(&template.name, template.title.as_ref()),
            description: template.description.clone(),
            raw: template.raw.clone(),
            change: None,
            unavailable: None,
        });
    }
}

fn names(name: &SafeText, title: Option<&SafeText>) -> String {
    format!("{} {}", name.as_str(), title.map_or("", SafeText::as_str))
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
