//! What the tools of each server cost a model: every request of a model carries the definitions of
//! all tools it is offered. An estimate of four bytes a token.

use crate::model::Model;
use crate::overlay::TextReader;
use crate::pane::Ui;
use crate::prelude::*;
use crate::widget::Doc;
use host::ServerView;

/// Bytes that are taken for a token.
const TOKEN_BYTES: usize = 4;
/// Columns of the bars.
const MAX_BAR_CELLS: usize = 24;

/// A page with the cost of all tools in scope.
pub fn reader() -> TextReader {
    TextReader::live(ink!("tokens: what the tools cost a model"), tokens)
}

/// The cost of one tool, in tokens.
struct ToolCost {
    label: SafeText,
    tokens: usize,
    /// Those of its description.
    description: usize,
}

fn costs(server: &ServerView) -> Vec<ToolCost> {
    let tools = server.capabilities.tools.iter().map(|tool| ToolCost {
        label: tool.label.clone(),
        tokens: tool.raw.to_string().len().div_ceil(TOKEN_BYTES),
        description: tool.description.as_ref().map_or(0, |text| text.len().div_ceil(TOKEN_BYTES)),
    });
    let mut costs: Vec<ToolCost> = tools.collect();
    costs.sort_by(|a, b| b.tokens.cmp(&a.tokens).then_with(|| a.label.cmp(&b.label)));
    costs
}

fn tokens(ui: Ui<'_>) -> Doc {
    let mut doc = Doc::new(ui.area.width);
    let model = ui.model;
    let mut servers: Vec<(&ServerView, Vec<ToolCost>)> = model
        .servers()
        .map(|server| (&**server, costs(server)))
        .filter(|(_, costs)| !costs.is_empty())
        .collect();
    let sum = |costs: &[ToolCost]| costs.iter().map(|cost| cost.tokens).sum::<usize>();
    servers.sort_by_key(|(_, costs)| std::cmp::Reverse(sum(costs)));
    let total: usize = servers.iter().map(|(_, costs)| sum(costs)).sum();
    if total == 0 {
        doc.text(0, &"no server in scope offers a tool", Role::Muted);
        return doc;
    }
    let all: usize = servers.iter().map(|(_, costs)| costs.len()).sum();
    let words = ink!(
        "{} cost about {} tokens of every request to a model that is offered all of them.",
        count(all, "tool"),
        total
    );
    doc.text(0, &words, Role::Text);
    let longest = servers.iter().flat_map(|(server, costs)| costs.iter().map(move |c| (server, c)));
    if let Some((server, cost)) = longest.max_by_key(|(_, cost)| cost.description) {
        let name = Model::name(&server.name);
        let words = ink!(
            "The longest description is that of {}.{}: about {} tokens.",
            name,
            &cost.label,
            cost.description
        );
        doc.text(0, &words, Role::Muted);
    }
    let full = ui.glyphs.lying();
    doc.line(vec![
        (ink!("{} ", full), Role::Accent),
        (ink!("description   "), Role::Muted),
        (ink!("{} ", full), Role::Faint),
        (ink!("name, arguments and results"), Role::Muted),
    ]);
    if model.scope.is_none() {
        profiles(ui, total, all, &mut doc);
    }
    // One scale for all: bars of two servers can be compared.
    let every = servers.iter().flat_map(|(_, costs)| costs);
    let most = every.map(|cost| cost.tokens).max().unwrap_or(1);
    for (server, costs) in &servers {
        let (own, share) = (sum(costs), sum(costs) * 100 / total);
        doc.heading(ink!("{}   {} tokens · {} %", Model::name(&server.name), own, share));
        for cost in costs {
            line(ui, cost, most, &mut doc);
        }
    }
    doc
}

/// What each named profile of the policy saves of that, with a bar for what is left.
fn profiles(ui: Ui<'_>, total: usize, tools: usize, doc: &mut Doc) {
    let offers = &ui.model.policy.offers;
    if offers.is_empty() {
        let text =
            "A profile of the policy offers its callers only some of them, which costs less.";
        doc.text(0, &text, Role::Faint);
        return;
    }
    doc.heading("what a profile saves");
    for offer in offers {
        let tokens = offer.bytes.div_ceil(TOKEN_BYTES);
        let saved = total.saturating_sub(tokens) * 100 / total.max(1);
        let left = (tokens * MAX_BAR_CELLS).div_ceil(total.max(1)).min(MAX_BAR_CELLS);
        let mut bars = [Ink::default(), Ink::default()];
        for cell in 0..MAX_BAR_CELLS {
            bars[usize::from(cell >= left)].push(ui.glyphs.lying());
        }
        let [left, gone] = bars;
        let name = SafeText::cut(&offer.profile, 16);
        let part = ink!("{} of {}", offer.tools, count(tools, "tool"));
        doc.line(vec![
            (ink!("  {}", pad(&name, 16)), Role::Text),
            (ink!(" {:>7}  ", tokens), Role::Muted),
            (ink!("{:>3} % saved  {:<17} ", saved, part), Role::Ok),
            (left, Role::Accent),
            (gone, Role::Faint),
        ]);
    }
}

/// One tool: its name, its cost, and a bar of which the description is the first part.
fn line(ui: Ui<'_>, cost: &ToolCost, most: usize, doc: &mut Doc) {
    let name_width = usize::from(doc.width()).saturating_sub(MAX_BAR_CELLS + 14).clamp(12, 40);
    let cells = |tokens: usize| (tokens * MAX_BAR_CELLS).div_ceil(most.max(1)).min(MAX_BAR_CELLS);
    let (all, described) = (cells(cost.tokens), cells(cost.description).min(cells(cost.tokens)));
    let full = ui.glyphs.lying();
    let bar = |cells: usize| {
        let mut bar = Ink::default();
        for _ in 0..cells {
            bar.push(full);
        }
        bar
    };
    let name = SafeText::cut(&cost.label, name_width);
    doc.line(vec![
        (ink!("  {}", pad(&name, name_width)), Role::Text),
        (ink!(" {:>7}  ", cost.tokens), Role::Muted),
        (bar(described), Role::Accent),
        (bar(all - described), Role::Faint),
    ]);
}

/// A text filled up with blanks.
fn pad(text: &SafeText, cells: usize) -> Ink {
    let mut padded = Ink::from(text);
    for _ in usize::from(crate::widget::width(text))..cells {
        padded.push(" ");
    }
    padded
}
