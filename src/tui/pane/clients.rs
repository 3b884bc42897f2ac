//! Who uses the servers from outside while the dashboard serves them: each client with its calls,
//! what was denied, and what the operator can do about it.

use crate::deck::clients::ClientView;
use crate::tui::effect::ClientOrder;
use crate::tui::ink::{Dur, Ink, count, ink};
use crate::tui::model::Model;
use crate::tui::overlay::{Choice, Pick};
use crate::tui::theme::Role;
use crate::tui::widget::Doc;

/// Most denials that are shown.
const DENIED: usize = 20;

/// Everything about the clients, as a text that is drawn anew when something changes.
pub fn doc(model: &Model, width: u16) -> Doc {
    let mut doc = Doc::new(width);
    if let Some(place) = &model.served {
        doc.field("serving", Ink::from(place), Role::Text);
    }
    if model.clients.is_empty() {
        doc.gap();
        doc.text(0, &"nobody has come yet", Role::Muted);
    }
    for client in &model.clients {
        doc.gap();
        let mut title = vec![(name(client), Role::Heading)];
        if client.is_paused {
            title.push((ink!("   paused: its calls wait"), Role::Warning));
        }
        doc.line(title);
        if let Some(own) = &client.name {
            let speaks = client.protocol.as_ref().map(Ink::from).unwrap_or_default();
            doc.field("program", ink!("{}   {}", Ink::from(own), speaks), Role::Text);
        }
        let seen = model.ago(client.seen);
        doc.field(
            "seen",
            ink!("{}   since {}", seen, Model::time_of_day(client.since)),
            Role::Text,
        );
        let failed = if client.failed == 0 { Role::Text } else { Role::Warning };
        doc.field("calls", ink!("{}   {} failed", client.calls, client.failed), failed);
        let times = ink!("servers {}   people {}", Dur(client.busy), Dur(client.human));
        doc.field("time", times, Role::Text);
        for call in &client.active {
            doc.field("now", Ink::from(call), Role::Busy);
        }
    }
    if !model.blocked.is_empty() {
        doc.heading("denied lately");
    }
    for blocked in model.blocked.iter().rev().take(DENIED) {
        doc.line(vec![
            (ink!("  {} ", Model::time_of_day(blocked.at)), Role::Faint),
            (ink!("{} ", Ink::line(&blocked.principal.to_string())), Role::Text),
            (ink!("{}  ", Ink::from(&blocked.target)), Role::Text),
            (Ink::from(&blocked.why), Role::Muted),
        ]);
    }
    doc
}

/// What can be done about each client.
pub fn choices(model: &Model) -> Vec<Choice> {
    let orders = [ClientOrder::Pause, ClientOrder::Cut, ClientOrder::Revoke];
    let of = |client: &ClientView| {
        let origin = client.principal.origin.to_string();
        let name = || name(client);
        let (paused, person) = (client.is_paused, client.principal.is_person());
        orders.map(|order| Choice {
            words: match order {
                ClientOrder::Pause if paused => ink!("let {} go on", name()),
                ClientOrder::Pause => ink!("pause {}: its calls wait", name()),
                ClientOrder::Cut => {
                    ink!("cut {}: its calls and streams end, it may come again", name())
                }
                ClientOrder::Revoke => ink!("revoke {}: its token ends for good", name()),
            },
            hint: ink!("{} now", count(client.active.len(), "call")),
            pick: Pick::Client(Some((order, origin.clone()))),
            disabled: (person && order == ClientOrder::Revoke)
                .then(|| ink!("your own token: delete its file and start again")),
        })
    };
    model.clients.iter().flat_map(of).collect()
}

fn name(client: &ClientView) -> Ink {
    Ink::line(&client.principal.to_string())
}
