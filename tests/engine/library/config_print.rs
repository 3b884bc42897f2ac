//! The effective configuration: whole, masked, with the origin of each value.

use std::path::Path;

use mcpdeck::base::secret::{Redactor, Secret};
use mcpdeck::config::{
    Environment, Loaded, PrintDetail, Sources, changed_settings, effective, effective_text,
    load_text,
};

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
      "env": { "E_KEY": "canary-env", "F": "${A}" },
      "timeoutMs": 1500
    },
    "b": { "url": "https://u:canary-user@example.com/?token=canary-query&x=${input:key}" }
  }
}"#;

#[test]
fn every_value_has_its_origin_and_no_secret_is_shown() {
    let text = effective_text(&load(TEXT), PrintDetail::All);
    assert!(!text.contains("canary"), "{text}");
    for line in [
        r#""command": "x", // mcp.json:5:18"#,
        r#""--region=eu", // env:REGION, mcp.json:6:16"#,
        r#""E_KEY": "***", // mcp.json:7:25"#,
        r#""F": "plain" // env:A, mcp.json:7:44"#,
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
        for detail in [PrintDetail::All, PrintDetail::Set] {
            let printed = effective_text(&first, detail).replace("${", "$${");
            let second = load(&printed);
            assert_eq!(second.diagnostics, [], "{name}\n{printed}");
            for (server, config) in &first.config.servers {
                let again = second.config.servers.get(server).expect("there");
                let mut fields = changed_settings(config, again);
                fields.retain(|field| !field.starts_with("env."));
                assert_eq!(fields, [""; 0], "{name}: {server}\n{printed}");
            }
            assert_eq!(effective(&first), effective(&second), "{printed}");
        }
    }
}

#[test]
fn what_nobody_set_is_left_out_unless_it_is_asked_for() {
    let text = effective_text(&load(TEXT), PrintDetail::Set);
    let expected = r#"{
  "servers": {
    "a": {
      "command": "x", // mcp.json:5:18
      "args": [
        "--region=eu", // env:REGION, mcp.json:6:16
        "--api-key", // mcp.json:6:38
        "***", // mcp.json:6:51
        "***", // env:TOKEN, mcp.json:6:69
        "k=***" // input:key, mcp.json:6:81
      ],
      "env": {
        "E_KEY": "***", // mcp.json:7:25
        "F": "plain" // env:A, mcp.json:7:44
      },
      "timeout": 1.5 // mcp.json:8:20
    },
    "b": {
      "url": "https://***@example.com/?token=***&x=***" // input:key, mcp.json:10:19
    }
  }
}
"#;
    assert_eq!(text, expected);
}

#[test]
fn one_word_for_a_whole_object_shows_what_it_changes() {
    let text = r#"{"reload": "ask", "servers": {"a": {"command": "x", "cache": false, "disabled": false,
        "restart": {"policy": "on-failure"}, "roots": ["."]}}}"#;
    let shown = effective_text(&load(text), PrintDetail::Set);
    for (part, there) in [
        (r#""enabled": false"#, true),
        (r#""policy": "on-failure""#, true),
        (r#""disabled": false"#, true),
        (r#""reload": "ask""#, true),
        ("roots", true),
        (r#""max": 3"#, false),
        ("retry", false),
        (r#""ttl""#, false),
        ("// default", false),
    ] {
        assert_eq!(shown.contains(part), there, "{part}\n{shown}");
    }
}

#[test]
fn a_setting_that_is_given_in_part_loads_again() {
    let text = r#"{"servers": {
        "a": {"command": "x", "start": "onDemand", "stop": {"stdin": 1}, "limits": {"cpu": 2}},
        "b": {"url": "https://h/", "tls": {"ca": "/ca.pem"}, "stop": {"term": 2}}}}"#;
    let first = load(text);
    for detail in [PrintDetail::All, PrintDetail::Set] {
        let printed = effective_text(&first, detail);
        let second = load(&printed);
        assert_eq!(second.diagnostics, [], "{printed}");
        assert_eq!(effective(&first), effective(&second), "{printed}");
        for (name, config) in &first.config.servers {
            let again = second.config.servers.get(name).expect("there");
            assert_eq!(changed_settings(config, again), [""; 0], "{name}\n{printed}");
        }
    }
}

#[test]
fn a_word_that_sets_several_values_is_the_origin_of_each() {
    let text = r#"{"servers": {"a": {"command": "x", "cache": false}}}"#;
    let values = mcpdeck::config::effective_values(&load(text)).remove(0);
    let all = || values.set.iter().chain(values.defaults.iter());
    let of = |key: &str| all().find(|value| value.key == key).expect("there");
    assert_eq!(of("cache.enabled").origin, "mcp.json:1:45");
    assert!(of("cache.ttl").is_default());
}

#[test]
fn looking_at_a_file_that_is_not_used_asks_nobody_for_a_secret() {
    let dir = tempfile::tempdir().expect("a folder");
    let (used, other) = (dir.path().join("mcp.json"), dir.path().join("mcpdeck/mcp.json"));
    std::fs::create_dir(dir.path().join("mcpdeck")).expect("made");
    std::fs::write(&used, r#"{"servers": {"a": {"command": "x"}}}"#).expect("written");
    std::fs::write(&other, r#"{"servers": {"b": {"command": "${cmd:op:x}"}}}"#).expect("written");
    let env = Environment {
        config_dir: Some(dir.path().to_path_buf()),
        sources: Sources::new(|scheme, _| panic!("{scheme} was asked")),
        ..environment()
    };
    let files = [used];
    let loaded = mcpdeck::config::load(&files, &env).expect("loads");
    let sources = mcpdeck::config::source_files(&files, &env, &loaded);
    let found: Vec<_> = sources.iter().filter(|source| source.path == other).collect();
    assert_eq!(found[0].servers, ["b".into()]);
}

#[test]
fn secrets_within_arguments_and_addresses_are_known_to_the_redactor() {
    // A plain word of the environment is none by itself.
    let loaded = load(&TEXT.replace("\"timeoutMs\"", "\"secrets\": [\"E\"], \"timeoutMs\""));
    let secrets = loaded.config.servers.values().flat_map(mcpdeck::config::ServerConfig::secrets);
    let redactor = Redactor::new(secrets);
    let secrets = "canary-literal canary-token canary-input canary-env canary-user canary-query";
    assert!(!redactor.redact(secrets).contains("canary"), "{}", redactor.redact(secrets));
    assert_eq!(redactor.redact("eu x"), "eu x");
}
