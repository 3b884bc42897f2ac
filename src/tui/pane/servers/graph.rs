//! The order in which servers start, as a tree with their states.

use crate::base::ServerName;
use crate::tui::app::text::state_role;
use crate::tui::glyph::Glyphs;
use crate::tui::ink::ink;
use crate::tui::model::Model;
use crate::tui::theme::Role;
use crate::tui::widget::Doc;
use crate::tui::widget::doc::DocLine;

const MAX_DEPTH: usize = 12;
const MAX_LINES: usize = 60;

/// Draws the order when any server depends on another.
pub fn draw(model: &Model, glyphs: &Glyphs, doc: &mut Doc) {
    let servers = &model.view.servers;
    if servers.values().all(|server| server.dependencies.is_empty()) {
        return;
    }
    doc.gap();
    doc.heading("start order");
    let end = doc.len() + MAX_LINES;
    for server in servers.values().filter(|server| server.dependencies.is_empty()) {
        if dependents(model, &server.name).next().is_some() {
            doc.line(node(model, glyphs, &server.name, ink!("  ")));
            branch(model, glyphs, &server.name, &mut Vec::new(), doc, end);
        }
    }
}

fn dependents<'a>(model: &'a Model, name: &'a ServerName) -> impl Iterator<Item = &'a ServerName> {
    model.view.servers.values().filter(|s| s.dependencies.contains(name)).map(|s| &s.name)
}

fn branch(
    model: &Model,
    glyphs: &Glyphs,
    name: &ServerName,
    trunk: &mut Vec<bool>,
    doc: &mut Doc,
    end: usize,
) {
    if trunk.len() >= MAX_DEPTH || doc.len() >= end {
        return;
    }
    let children: Vec<&ServerName> = dependents(model, name).collect();
    for (n, child) in children.iter().enumerate() {
        let last = n + 1 == children.len();
        let mut lead = ink!("  ");
        for more in trunk.iter() {
            lead.push(if *more { glyphs.vertical } else { " " }).push("  ");
        }
        lead.push(if last { glyphs.last_branch } else { glyphs.branch });
        lead.push(glyphs.horizontal).push(glyphs.arrow).push(" ");
        doc.line(node(model, glyphs, child, lead));
        trunk.push(!last);
        branch(model, glyphs, child, trunk, doc, end);
        trunk.pop();
    }
}

fn node(model: &Model, glyphs: &Glyphs, name: &ServerName, lead: crate::tui::ink::Ink) -> DocLine {
    let mut line = vec![(lead, Role::Rule), (Model::name(name), Role::Text)];
    if let Some(server) = model.server(name) {
        let text = ink!("  {} {}", glyphs.state(server.state), server.state.as_str());
        line.push((text, state_role(server.state)));
    }
    line
}
