//! The effective configuration: whole, masked, with the origin of each value.

use std::path::Path;

use mcpdeck::config::{
    Environment, Loaded, changed_settings, effective, effective_text, load_text,
};
use mcpdeck::secret::{Redactor, Secret};

fn environment() -> Environment {
    let mut env = Environment {
        cwd: Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/configs/valid"),
        home: Some("/home/user".into()),
        ..Environment::default()
    };
    for (name, value) in [("A", "plain"), ("TOKEN", "canary-token"), ("REGION", "eu")] {
        env.vars.insert(name.into(), Secret::new(value));
    }
    env.inputs.insert("key".into(), Secret::new("canary-input"));
    env
}

fn load(text: &str) -> Loaded {
    load_text(Path::new("mcp.json"), text, &environment()).expect("loads")
}

const TEXT: &str = r#"{
  "inputs": [{ "id": "key", "type": "promptString", "password": true }],
  "servers": {
    "a": {
      "command": "x",
      "args": ["--region=${REGION}", "--api-key", "canary-literal", "${TOKEN}", "k=${input:key}"],
      "env": { "E": "canary-env", "F": "${A}" },
      "timeoutMs": 1500
    },
    "b": { "url": "https://u:canary-user@example.com/?token=canary-query&x=${input:key}" }
  }
}"#;

#[test]
fn every_value_has_its_origin_and_no_secret_is_shown() {
    let text = effective_text(&load(TEXT));
    assert!(!text.contains("canary"), "{text}");
    for line in [
        r#""command": "x", // mcp.json:5:18"#,
        r#""--region=eu", // env:REGION, mcp.json:6:16"#,
        r#""E": "***", // mcp.json:7:21"#,
        r#""F": "***" // env:A, mcp.json:7:40"#,
        r#""timeout": 1.5, // mcp.json:8:20"#,
        r#""startupTimeout": 30, // default"#,
        r#""k=***" // input:key, mcp.json:6:81"#,
    ] {
        assert!(text.contains(line), "{line}\nis not in\n{text}");
    }
}

#[test]
fn what_is_printed_loads_again_to_the_same_servers() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/configs/valid");
    for name in ["every-key.json", "older-spelling.json", "dependencies.json", "expansion.json"] {
        let text = std::fs::read_to_string(folder.join(name)).expect("text");
        let first = load(&text);
        if name == "every-key.json" {
            let full = &effective(&first)["servers"]["full"];
            assert_eq!(full["approvals"]["outsideCalls"], "allow", "{full}");
        }
        let printed = effective_text(&first).replace("${", "$${");
        let second = load(&printed);
        assert_eq!(second.diagnostics, [], "{name}\n{printed}");
        for (server, config) in &first.config.servers {
            let again = second.config.servers.get(server).expect("there");
            let mut fields = changed_settings(config, again);
            fields.retain(|field| !field.starts_with("env."));
            assert_eq!(fields, [""; 0], "{name}: {server}");
        }
        assert_eq!(effective(&first), effective(&second));
    }
}

#[test]
fn secrets_within_arguments_and_addresses_are_known_to_the_redactor() {
    let loaded = load(TEXT);
    let secrets = loaded.config.servers.values().flat_map(mcpdeck::config::ServerConfig::secrets);
    let redactor = Redactor::new(secrets);
    let told = "canary-literal canary-token canary-input canary-env canary-user canary-query";
    assert!(!redactor.redact(told).contains("canary"), "{}", redactor.redact(told));
    assert_eq!(redactor.redact("eu x"), "eu x");
}
