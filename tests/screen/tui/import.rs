//! Without a configuration: what other programs have is offered, and one key takes it.

use std::path::Path;

use crossterm::event::{KeyCode, KeyModifiers};
use mcpdeck::config::{ImportHost, Imported};
use mcpdeck::tui::FoundServers;
use mcpdeck::tui::app::{App, Setup};
use mcpdeck::tui::effect::{ConfigCommand, Effect, FileChange};
use mcpdeck::tui::message::Message;
use serde_json::{Value, json};

use crate::tui::{app_with, draw, press};

const FILE: &str = "/home/me/.config/mcpdeck/mcp.json";

fn found() -> FoundServers {
    let mut found = FoundServers::default();
    let imported = |servers: &[(&str, Value)]| Imported {
        servers: servers.iter().map(|(name, entry)| ((*name).into(), entry.clone())).collect(),
        ..Imported::default()
    };
    let desktop = [
        ("files", json!({"command": "npx", "args": ["-y", "files-server", "/data"]})),
        (
            "github",
            json!({"command": "npx", "args": ["github-server", "--token", "ghp_s3cret"],
            "env": {"GITHUB_TOKEN": "ghp_s3cret"}}),
        ),
        ("deck", json!({"command": "mcpdeck", "args": ["serve", "--stdio"]})),
    ];
    let host = Some(ImportHost::ClaudeDesktop);
    found.add(host, Path::new("/home/me/claude.json"), imported(&desktop));
    let cursor = [("files", json!({"url": "https://files.example/mcp"}))];
    found.add(Some(ImportHost::Cursor), Path::new("/home/me/mcp.json"), imported(&cursor));
    found
}

fn offering() -> App {
    let setup = Setup {
        themes: mcpdeck::THEMES,
        found: Some(found()),
        own_file: Some(FILE.into()),
        home: Some("/home/me".into()),
        ..Setup::default()
    };
    app_with("empty", setup)
}

fn taken(effects: &[Effect]) -> Vec<String> {
    let taken = effects.iter().find_map(|effect| match effect {
        Effect::Config(ConfigCommand::Change(FileChange::Import(imported))) => Some(imported),
        _ => None,
    });
    let names = taken.into_iter().flat_map(|imported| &imported.servers);
    names.map(|(name, _)| name.to_string()).collect()
}

#[test]
fn what_other_programs_have_is_listed_without_secrets_and_one_key_takes_it() {
    for (width, height) in [(80, 24), (120, 40), (200, 60)] {
        let mut app = offering();
        let screen = draw(&mut app, width, height);
        for said in [
            "3 servers of other programs",
            "~/.config/mcpdeck/mcp.json",
            "files-2",
            "Claude Desktop",
            "Cursor",
            "https://files.example/mcp",
            "you are asked for: GITHUB_TOKEN",
            "`deck` is the deck itself",
            "enter take over",
            "3 of 3 marked",
        ] {
            assert!(screen.contains(said), "{width}: {said}\n{screen}");
        }
        assert!(!screen.contains("s3cret"), "{screen}");
        let effects = press(&mut app, KeyCode::Enter, KeyModifiers::NONE);
        assert_eq!(taken(&effects), ["files", "github", "files-2"]);
        let rest = draw(&mut app, width, height);
        assert!(!rest.contains("marked"), "{rest}");
    }
}

#[test]
fn only_the_marked_ones_are_taken_and_without_any_nothing_is_written() {
    let mut app = offering();
    draw(&mut app, 120, 40);
    press(&mut app, KeyCode::Char(' '), KeyModifiers::NONE);
    let screen = draw(&mut app, 120, 40);
    assert!(screen.contains("2 of 3 marked"), "{screen}");
    press(&mut app, KeyCode::Char(' '), KeyModifiers::NONE);
    assert_eq!(taken(&press(&mut app, KeyCode::Enter, KeyModifiers::NONE)), ["files-2"]);

    let mut app = offering();
    draw(&mut app, 120, 40);
    press(&mut app, KeyCode::Char('*'), KeyModifiers::NONE);
    let effects = press(&mut app, KeyCode::Enter, KeyModifiers::NONE);
    assert_eq!(effects, []);
    assert!(draw(&mut app, 120, 40).contains("mark a server first"));
    press(&mut app, KeyCode::Esc, KeyModifiers::NONE);
    let screen = draw(&mut app, 120, 40);
    assert!(screen.contains("nothing was written"), "{screen}");
    assert!(screen.contains("no servers in this configuration"), "{screen}");
}

#[test]
fn the_palette_looks_again_and_offers_only_what_is_new() {
    let mut app = offering();
    draw(&mut app, 120, 40);
    press(&mut app, KeyCode::Esc, KeyModifiers::NONE);
    for key in ":take over".chars() {
        press(&mut app, KeyCode::Char(key), KeyModifiers::NONE);
    }
    draw(&mut app, 120, 40);
    let effects = press(&mut app, KeyCode::Enter, KeyModifiers::NONE);
    assert_eq!(effects, [Effect::FindServers]);
    app.update(Message::Found(Box::new(found())));
    assert!(draw(&mut app, 120, 40).contains("3 servers of other programs"));
    press(&mut app, KeyCode::Esc, KeyModifiers::NONE);
    app.update(Message::Found(Box::default()));
    let screen = draw(&mut app, 120, 40);
    assert!(screen.contains("no other program on this machine has a server"), "{screen}");
}
