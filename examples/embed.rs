//! A program that embeds a deck: it opens a configuration, edits the file on disk, and sees the
//! reload and the tools of the servers that are new.
//!
//! ```text
//! cargo run --example embed -- mcp.json "$(cat edited.json)"
//! ```

use std::error::Error;

use mcpdeck::host::ServerState;
use mcpdeck::{Deck, DeckEvent};

/// Saves other text over the configuration; gives the tools of the servers that this adds.
pub async fn edit(file: &str, edited: &str) -> Result<Vec<String>, Box<dyn Error>> {
    let mut deck = Deck::open(file).await?;
    std::fs::write(file, edited)?;
    let mut tools = Vec::new();
    while let Some(event) = deck.next().await {
        let DeckEvent::Reloaded(plan) = event else { continue };
        for name in &plan.added {
            let mut view = deck.host().view();
            let view = view.wait_for(|view| view.servers[name].state == ServerState::Ready).await?;
            tools.extend(view.servers[name].capabilities.tools.iter().map(|t| t.label.to_string()));
        }
        break;
    }
    deck.shutdown().await;
    Ok(tools)
}

#[tokio::main(flavor = "current_thread")]
#[allow(dead_code, reason = "a test uses the rest")]
async fn main() -> Result<(), Box<dyn Error>> {
    let [file, edited] = [1, 2].map(|n| std::env::args().nth(n).unwrap_or_default());
    let tools = edit(&file, &edited).await?;
    std::io::Write::write_all(&mut std::io::stdout(), tools.join("\n").as_bytes())?;
    Ok(())
}
