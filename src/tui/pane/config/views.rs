//! The views of the configuration that are no file: sources, values in effect, reloads. Pure: model
//! in, text out.

use crate::base::ServerName;
use crate::config::Hold;
use crate::config::discover::Scope;
use crate::config::overview::{EffectiveValue, SourceFile};
use crate::host::{Fact, ReloadPlan};
use crate::tui::ink::{Ink, ink};
use crate::tui::model::{InputState, InputView, Model};
use crate::tui::theme::Role;
use crate::tui::widget::Doc;
use crate::tui::widget::doc::wrap;

/// Where servers come from, and what is asked for.
pub(super) fn sources(model: &Model, doc: &mut Doc) {
    let situation = &model.situation;
    if situation.sources.is_empty() {
        doc.text(0, &"no file: the servers come from the demo or the command line", Role::Muted);
        return;
    }
    for source in &situation.sources {
        source_lines(source, doc);
    }
    doc.gap();
    match &situation.polling {
        Some(reason) => {
            doc.text(0, &ink!("the files are polled for changes: {}", reason), Role::Muted);
        }
        None => {
            doc.text(0, &"the files are watched for changes", Role::Muted);
        }
    }
    doc.gap();
    let awaiting = situation.awaiting.len();
    if awaiting > 0 {
        doc.line(vec![
            (ink!("{} await your approval   ", awaiting), Role::Attention),
            (ink!("t"), Role::Key),
            (ink!(" shows them"), Role::Muted),
        ]);
    }
    if !situation.inputs.is_empty() {
        doc.heading("inputs");
        for input in &situation.inputs {
            input_line(input, doc);
        }
    }
}

fn source_lines(source: &SourceFile, doc: &mut Doc) {
    let path = Ink::line(&source.path.display().to_string());
    let whose: &'static str = match source.scope {
        Scope::Project => "project",
        Scope::User => "user",
    };
    doc.gap();
    let (standing, role) = match source.rank {
        Some(1) => (ink!("used; wins"), Role::Ok),
        Some(rank) => (ink!("used; number {} in precedence", rank), Role::Ok),
        None => (ink!("found, not used"), Role::Faint),
    };
    doc.line(vec![(path, Role::Heading), (ink!("   {}   ", whose), Role::Muted), (standing, role)]);
    let verb: &'static str = if source.rank.is_some() { "gives" } else { "would add" };
    if let Some(problem) = &source.problem {
        doc.text(2, &Ink::line(problem), Role::Error);
    } else {
        doc.text(2, &ink!("{}  {}", verb, names(&source.servers)), Role::Text);
    }
    if !source.replaced.is_empty() {
        let text = ink!("replaced by a file above  {}", names(&source.replaced));
        doc.text(2, &text, Role::Muted);
    }
}

fn names(servers: &[ServerName]) -> Ink {
    if servers.is_empty() {
        return ink!("nothing");
    }
    let all: Vec<&str> = servers.iter().map(ServerName::as_str).collect();
    Ink::line(&all.join(", "))
}

fn input_line(view: &InputView, doc: &mut Doc) {
    let (word, role): (Ink, Role) = match view.state {
        InputState::Open if view.servers.is_empty() => (ink!("not answered"), Role::Muted),
        InputState::Open => (ink!("{} waits for it", names(&view.servers)), Role::Attention),
        InputState::Answered => (ink!("answered, until mcpdeck quits"), Role::Ok),
        InputState::Kept => (ink!("answered, in the keyring"), Role::Ok),
        InputState::Variable => {
            let name = crate::config::input_variable(&view.input.id);
            (ink!("from {}", Ink::line(&name)), Role::Ok)
        }
    };
    doc.line(vec![
        (ink!("  {:<20}", Ink::line(&view.input.id)), Role::Text),
        (word, role),
        (ink!("   {}", Ink::line(&view.input.description)), Role::Foreign),
    ]);
}

/// Every value in effect: what a file says first, then what is left to its default.
pub(super) fn effective(model: &Model, doc: &mut Doc) {
    let situation = &model.situation;
    if situation.values.is_empty() {
        doc.text(0, &"not known yet", Role::Muted);
        return;
    }
    for server in situation.values.iter().filter(|server| model.in_scope(&server.name)) {
        doc.heading(Model::name(&server.name));
        let config = model.config.as_ref().and_then(|c| c.servers.get(&server.name));
        let hold = config.and_then(|config| config.hold.as_ref()).map(Hold::to_string);
        if let Some(hold) = hold {
            doc.text(2, &Ink::line(&hold), Role::Attention);
        } else if situation.awaiting(&server.name).is_some_and(|a| a.runs_as_before) {
            let text = "as approved; the changed entry in the file awaits approval";
            doc.text(2, &text, Role::Attention);
        }
        let (defaults, set): (Vec<_>, Vec<_>) =
            server.values.iter().partition(|value| value.is_default());
        for value in set {
            value_lines(value, doc);
        }
        let mut line = Vec::new();
        for value in defaults {
            line.push(format!("{} {}", value.key, value.value));
        }
        doc.text(2, &ink!("default  {}", Ink::line(&line.join(" · "))), Role::Faint);
    }
}

fn value_lines(value: &EffectiveValue, doc: &mut Doc) {
    const KEY: u16 = 24;
    let origin = ink!("   {}", Ink::line(&value.origin));
    let room = doc.width().saturating_sub(KEY + 2).max(16);
    let text = Ink::line(&value.value);
    let mut lead = ink!("  {:<22} ", Ink::line(&value.key));
    let mut parts = wrap(text.as_str(), room).peekable();
    while let Some(part) = parts.next() {
        let mut line = vec![(lead, Role::Muted), (Ink::line(part), Role::Text)];
        if parts.peek().is_none() {
            line.push((origin.clone(), Role::Faint));
        }
        doc.line(line);
        lead = ink!("{:25}", "");
    }
}

/// What a changed file that waits would do, and what the last reload did.
pub(super) fn reload(model: &Model, doc: &mut Doc) {
    if let Some(plan) = &model.situation.plan {
        doc.heading("a changed file awaits your confirmation");
        planned(plan, doc);
        doc.line(vec![(ink!("P"), Role::Key), (ink!(" shows what would change"), Role::Muted)]);
        doc.gap();
    }
    if !model.situation.sources.is_empty() {
        let (how, turn) = if model.situation.asks {
            ("changes are shown before they are applied", "applies them at once")
        } else {
            ("changes are applied at once", "shows them first")
        };
        let key = (ink!("   A"), Role::Key);
        doc.line(vec![(ink!("{how}"), Role::Muted), key, (ink!(" {turn}"), Role::Muted)]);
        doc.gap();
    }
    let Some((at, Fact::Reloaded { added, removed, changed, kept, followed })) = &model.view.reload
    else {
        doc.text(0, &"the file has not changed since the start", Role::Muted);
        return;
    };
    doc.line(vec![(ink!("{}", model.when(*at)), Role::Muted)]);
    doc.gap();
    for name in added {
        doc.line(vec![(ink!("+ started    {}", Model::name(name)), Role::Added)]);
    }
    for name in removed {
        doc.line(vec![(ink!("- stopped    {}", Model::name(name)), Role::Removed)]);
    }
    for (name, fields) in changed {
        let fields = Ink::line(&fields.join(", "));
        doc.line(vec![
            (ink!("~ restarted  {}", Model::name(name)), Role::Changed),
            (ink!("   because of {}", fields), Role::Muted),
        ]);
    }
    for (name, fields) in followed {
        let fields = Ink::line(&fields.join(", "));
        doc.line(vec![
            (ink!("~ kept       {}", Model::name(name)), Role::Changed),
            (ink!("   with another {}", fields), Role::Muted),
        ]);
    }
    for name in kept.iter().filter(|name| !followed.iter().any(|(other, _)| other == *name)) {
        doc.line(vec![(ink!("  kept       {}", Model::name(name)), Role::Faint)]);
    }
}

fn planned(plan: &ReloadPlan, doc: &mut Doc) {
    for name in &plan.added {
        doc.line(vec![(ink!("+ start      {}", Model::name(name)), Role::Added)]);
    }
    for name in &plan.removed {
        doc.line(vec![(ink!("- stop       {}", Model::name(name)), Role::Removed)]);
    }
    for (name, fields) in &plan.changed {
        let fields = Ink::line(&fields.join(", "));
        doc.line(vec![
            (ink!("~ restart    {}", Model::name(name)), Role::Changed),
            (ink!("   because of {}", fields), Role::Muted),
        ]);
    }
    for (name, fields) in &plan.followed {
        let fields = Ink::line(&fields.join(", "));
        doc.line(vec![
            (ink!("~ keep       {}", Model::name(name)), Role::Changed),
            (ink!("   with another {}", fields), Role::Muted),
        ]);
    }
    let followed = |name: &ServerName| plan.followed.iter().any(|(other, _)| other == name);
    for name in plan.kept.iter().filter(|name| !followed(name)) {
        doc.line(vec![(ink!("  keep       {}", Model::name(name)), Role::Faint)]);
    }
}
