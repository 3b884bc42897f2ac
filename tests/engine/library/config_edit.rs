//! Editing by pieces: only what is meant changes, every other byte stays.

use std::path::{Path, PathBuf};

use mcpdeck::base::ServerName;
use mcpdeck::config::{
    Edit, EditError, EntryAmendment, Environment, Undo, apply_edit, load_text, read_for_edit,
    write_with_backup,
};
use serde_json::{Value, json};

const FILE: &str = "\
// the team's servers
{
  \"inputs\": [], // none yet
  \"servers\": {
    // first
    \"a\": {
      \"command\": \"x\", // the program
      /* arguments */ \"args\": [ \"1\",   \"2\" ],
      \"vendor\": { \"kept\":true }
    }, // after a

    // second
    \"b\": { \"url\": \"http://localhost:1\" },
    \"c\": { \"command\": \"z\" } // after c
    // the end
  }
}
";

fn name(name: &str) -> ServerName {
    ServerName::new(name)
}

fn edited(text: &str, edit: &Edit) -> String {
    apply_edit(text, edit).unwrap_or_else(|e| panic!("{edit:?}: {e}"))
}

/// The lines that differ, as a patch would show them.
fn difference(old: &str, new: &str) -> Vec<String> {
    let diff = similar::TextDiff::from_lines(old, new);
    diff.iter_all_changes()
        .filter(|change| change.tag() != similar::ChangeTag::Equal)
        .map(|change| format!("{}{}", change.tag(), change.value().trim_end()))
        .collect()
}

#[test]
fn an_entry_is_amended_as_it_is_written_and_its_references_stay() {
    let amend = |text: &str, change| {
        apply_edit(text, &Edit::Amend { name: name("a"), change })
            .map_err(|error| error.to_string())
    };
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    let arguments = |at, removed: &[&str], inserted: &[&str]| EntryAmendment::Arguments {
        at,
        removed: owned(removed),
        inserted: owned(inserted),
    };
    let entry = |entry: Value| json!({"servers": {"a": entry}}).to_string();
    let file = entry(json!({"command": "npx", "args": ["-it", "${KEY}"]}));
    for (change, expected) in [
        (arguments(0, &["-it"], &["-i"]), Some(json!(["-i", "${KEY}"]))),
        (arguments(1, &[], &["x", "y"]), Some(json!(["-it", "x", "y", "${KEY}"]))),
        (arguments(0, &["-it"], &[]), Some(json!(["${KEY}"]))),
        // What is written there is another thing: nothing is touched.
        (arguments(1, &["the-secret-itself"], &[]), None),
        (arguments(3, &[], &["x"]), None),
    ] {
        let after = amend(&file, change.clone()).ok();
        let after = after.map(|text| serde_json::from_str::<Value>(&text).unwrap());
        let args = after.map(|after| after["servers"]["a"]["args"].clone());
        assert_eq!(args, expected, "{change:?}");
    }
    let none = amend(&entry(json!({"command": "npx"})), arguments(0, &[], &["-y"])).unwrap();
    assert!(none.contains("\"-y\""), "{none}");
    let launched = entry(json!({"launch": {"uv": "pkg"}}));
    let refused = amend(&launched, arguments(0, &[], &["x"])).unwrap_err();
    assert!(refused.contains("edit the file"), "{refused}");

    let address = |is_end, removed: &str, inserted: &str| EntryAmendment::Address {
        is_end,
        removed: removed.to_owned(),
        inserted: inserted.to_owned(),
    };
    for (written, change, expected) in [
        ("https://${HOST}/mcp", address(false, "https://", "http://"), Some("http://${HOST}/mcp")),
        ("https://${HOST}/mcp", address(true, "/mcp", "/sse"), Some("https://${HOST}/sse")),
        ("http://h:1", address(true, "/", "/mcp"), Some("http://h:1/mcp")),
        ("http://h:1/", address(true, "/", "/mcp"), Some("http://h:1/mcp")),
        ("${URL}", address(true, "/mcp", "/sse"), None),
    ] {
        for key in ["url", "httpUrl", "serverUrl"] {
            let after = amend(&entry(json!({key: written})), change.clone()).ok();
            let after = after.map(|text| serde_json::from_str::<Value>(&text).unwrap());
            let url = after.map(|after| after["servers"]["a"][key].clone());
            assert_eq!(url, expected.map(Value::from), "{key} {written}");
        }
    }
}

#[test]
fn each_edit_touches_its_lines_alone() {
    let set = |path: &[&str], value: Option<Value>| Edit::Set {
        name: name("a"),
        path: path.iter().map(|p| (*p).to_owned()).collect(),
        value,
    };
    for (edit, expected) in [
        (
            Edit::Add { name: name("d"), entry: json!({ "command": "n", "args": ["-y", "p"] }) },
            vec![
                "-    \"c\": { \"command\": \"z\" } // after c",
                "+    \"c\": { \"command\": \"z\" }, // after c",
                "+    \"d\": {",
                "+      \"command\": \"n\",",
                "+      \"args\": [\"-y\", \"p\"]",
                "+    }",
            ],
        ),
        (
            set(&["args"], Some(json!(["3"]))),
            vec![
                "-      /* arguments */ \"args\": [ \"1\",   \"2\" ],",
                "+      /* arguments */ \"args\": [\"3\"],",
            ],
        ),
        (
            set(&["env", "TOKEN"], Some(json!("t"))),
            vec![
                "-      \"vendor\": { \"kept\":true }",
                "+      \"vendor\": { \"kept\":true },",
                "+      \"env\": {",
                "+        \"TOKEN\": \"t\"",
                "+      }",
            ],
        ),
        (set(&["command"], None), vec!["-      \"command\": \"x\", // the program"]),
        (
            set(&["vendor"], None),
            vec![
                "-      /* arguments */ \"args\": [ \"1\",   \"2\" ],",
                "-      \"vendor\": { \"kept\":true }",
                "+      /* arguments */ \"args\": [ \"1\",   \"2\" ]",
            ],
        ),
        (
            Edit::Disable { name: name("b") },
            vec![
                "-    \"b\": { \"url\": \"http://localhost:1\" },",
                "+    \"b\": { \"url\": \"http://localhost:1\", \"disabled\": true },",
            ],
        ),
        (
            Edit::Duplicate { name: name("b"), copy: name("b2") },
            vec!["+    \"b2\": {", "+      \"url\": \"http://localhost:1\"", "+    },"],
        ),
        (
            Edit::Rename { name: name("b"), to: name("q\"") },
            vec![
                "-    \"b\": { \"url\": \"http://localhost:1\" },",
                "+    \"q\\\"\": { \"url\": \"http://localhost:1\" },",
            ],
        ),
        (
            Edit::Remove { name: name("b") },
            vec!["-    \"b\": { \"url\": \"http://localhost:1\" },"],
        ),
        (
            Edit::Remove { name: name("c") },
            vec![
                "-    \"b\": { \"url\": \"http://localhost:1\" },",
                "-    \"c\": { \"command\": \"z\" } // after c",
                "+    \"b\": { \"url\": \"http://localhost:1\" }",
            ],
        ),
        (
            Edit::Replace {
                name: name("a"),
                entry: json!({ "command": "x", "args": ["1", "2"], "vendor": { "kept": false } }),
            },
            vec!["-      \"vendor\": { \"kept\":true }", "+      \"vendor\": { \"kept\":false }"],
        ),
        (
            Edit::AddInput { input: json!({ "id": "k", "type": "promptString" }) },
            vec![
                "-  \"inputs\": [], // none yet",
                "+  \"inputs\": [",
                "+    {",
                "+      \"id\": \"k\",",
                "+      \"type\": \"promptString\"",
                "+    }",
                "+  ], // none yet",
            ],
        ),
    ] {
        assert_eq!(difference(FILE, &edited(FILE, &edit)), expected, "{edit:?}");
    }
}

fn fixtures() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/configs/valid");
    let mut out: Vec<String> = std::fs::read_dir(folder)
        .expect("the fixtures")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .map(|path| std::fs::read_to_string(path).expect("text"))
        .collect();
    assert!(out.len() > 8);
    out.push(FILE.to_owned());
    out.push("{\"servers\":{\"a\":{\"command\":\"x\"},\"b\":{\"command\":\"y\"}}}".to_owned());
    out.push("{ \"servers\": {\n\t\"a\": { \"command\": \"x\", },\n}, }".to_owned());
    let windows: Vec<String> =
        out.iter().map(|t| t.replace("\r\n", "\n").replace('\n', "\r\n")).collect();
    out.extend(windows);
    out
}

fn servers(text: &str) -> Vec<ServerName> {
    let mut env = Environment { home: Some("/h".into()), ..Environment::default() };
    env.vars.insert("A".into(), mcpdeck::base::secret::Secret::new("v"));
    env.vars.insert("TOKEN".into(), mcpdeck::base::secret::Secret::new("v"));
    let loaded = load_text(Path::new("mcp.json"), text, &env).expect("loads");
    loaded.config.servers.keys().chain(&loaded.left_out).cloned().collect()
}

#[test]
fn what_is_done_and_taken_back_leaves_the_same_bytes() {
    let mut edits = 0;
    for text in fixtures() {
        for server in servers(&text) {
            edits += 1;
            let copy = name("a copy");
            let doubled =
                edited(&text, &Edit::Duplicate { name: server.clone(), copy: copy.clone() });
            assert_eq!(edited(&doubled, &Edit::Remove { name: copy }), text, "{server}");
            let renamed = edited(&text, &Edit::Rename { name: server.clone(), to: name("other") });
            let back = Edit::Rename { name: name("other"), to: server.clone() };
            assert_eq!(edited(&renamed, &back), text, "{server}");
            if !text.contains("disabled") {
                let off = edited(&text, &Edit::Disable { name: server.clone() });
                assert_eq!(edited(&off, &Edit::Enable { name: server.clone() }), text, "{server}");
            }
            let without = edited(&text, &Edit::Remove { name: server.clone() });
            assert!(!servers(&without).contains(&server));
        }
        let added =
            edited(&text, &Edit::Add { name: name("new"), entry: json!({ "command": "n" }) });
        assert!(servers(&added).contains(&name("new")));
        if servers(&text).is_empty() {
            continue;
        }
        assert_eq!(edited(&added, &Edit::Remove { name: name("new") }), text);
    }
    assert!(edits > 30, "{edits}");
}

#[test]
fn servers_that_depend_on_a_renamed_one_depend_on_its_new_name() {
    let text = r#"{"servers": {
  "db": { "command": "d" },
  "web": { "command": "w", "dependencies": [ "db", "other" ] }, // "db"
  "cron": { "command": "c", "dependsOn": ["db"] }
}}"#;
    let renamed = edited(text, &Edit::Rename { name: name("db"), to: name("store") });
    assert_eq!(
        renamed,
        text.replace(r#""db""#, r#""store""#).replace(r#"// "store""#, r#"// "db""#)
    );
}

#[test]
fn an_empty_file_becomes_a_configuration() {
    let entry = json!({ "url": "http://localhost" });
    let text = edited("", &Edit::Add { name: name("a"), entry });
    assert_eq!(
        text,
        "{\n  \"servers\": {\n    \"a\": {\n      \"url\": \"http://localhost\"\n    }\n  }\n}\n"
    );
}

#[test]
fn what_makes_no_sense_is_refused() {
    let entry = json!({ "command": "x" });
    let add = |n: &str, entry: &Value| Edit::Add { name: name(n), entry: entry.clone() };
    assert_eq!(apply_edit(FILE, &add("a", &entry)), Err(EditError::Exists(name("a"))));
    assert!(matches!(apply_edit(FILE, &add("", &entry)), Err(EditError::Refused(_))));
    assert!(matches!(apply_edit(FILE, &add("n", &json!([]))), Err(EditError::Refused(_))));
    assert!(matches!(apply_edit("{\"servers\":7}", &add("n", &entry)), Err(EditError::Refused(_))));
    assert!(matches!(apply_edit("{ \"servers\": {", &add("n", &entry)), Err(EditError::Syntax(_))));
    let gone = Edit::Remove { name: name("none") };
    assert_eq!(apply_edit(FILE, &gone), Err(EditError::NoSuchServer(name("none"))));
}

fn place() -> (tempfile::TempDir, PathBuf, Environment) {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("mcp.json");
    let env = Environment { state_dir: Some(dir.path().join("state")), ..Environment::default() };
    (dir, file, env)
}

fn save(file: &Path, edits: &[Edit], env: &Environment) -> Result<Undo, EditError> {
    let before = read_for_edit(file)?;
    let start = before.clone().unwrap_or_default();
    let after = edits.iter().try_fold(start, |text, edit| apply_edit(&text, edit))?;
    write_with_backup(file, before, after, env)
}

#[test]
fn saving_keeps_a_copy_and_can_be_undone_until_somebody_else_writes() {
    let (_dir, file, env) = place();
    std::fs::write(&file, FILE).expect("written");
    let undo = save(&file, &[Edit::Disable { name: name("a") }], &env).expect("saved");
    let backup = undo.backup.clone().expect("a copy");
    assert_eq!(std::fs::read_to_string(backup).expect("read"), FILE);
    assert_ne!(std::fs::read_to_string(&file).expect("read"), FILE);
    undo.undo().expect("undone");
    assert_eq!(std::fs::read_to_string(&file).expect("read"), FILE);
    let undo = save(&file, &[Edit::Remove { name: name("a") }], &env).expect("saved");
    std::fs::write(&file, "{}").expect("written by another");
    assert_eq!(undo.undo(), Err(EditError::ChangedSince(file.clone())));
    assert_eq!(std::fs::read_to_string(&file).expect("read"), "{}");
}

#[test]
fn an_edit_that_cannot_be_saved_names_the_place_and_what_to_do() {
    let (dir, file, env) = place();
    std::fs::write(&file, FILE).expect("written");
    // No copy can be kept below what is no folder.
    std::fs::write(dir.path().join("state"), "").expect("written");
    let edit = Edit::Disable { name: name("a") };
    let Err(EditError::Io(message)) = save(&file, &[edit], &env) else { panic!("it is not saved") };
    let place = dir.path().join("state").display().to_string();
    assert!(message.starts_with(&place) && message.contains("nothing was changed"), "{message}");
    assert!(message.contains("then save again"), "{message}");
    assert_eq!(std::fs::read_to_string(&file).expect("read"), FILE);
}

#[test]
fn several_edits_are_made_all_or_none() {
    let (_dir, file, env) = place();
    std::fs::write(&file, FILE).expect("written");
    let edits = [Edit::Remove { name: name("a") }, Edit::Remove { name: name("none") }];
    save(&file, &edits, &env).expect_err("the second makes no sense");
    assert_eq!(std::fs::read_to_string(&file).expect("read"), FILE);
}

#[test]
fn a_new_file_is_made_and_its_undo_takes_it_away() {
    let (_dir, file, env) = place();
    let add = Edit::Add { name: name("a"), entry: json!({ "command": "x" }) };
    let undo = save(&file, &[add], &env).expect("saved");
    assert!(file.exists() && undo.backup.is_none());
    undo.undo().expect("undone");
    assert!(!file.exists());
}

#[test]
fn a_file_that_is_no_configuration_is_refused_and_left_alone() {
    for text in ["0", "[]", "\"x\"", "null // nothing", "{\"servers\":0}", "{\"servers\":\"ü\"}"] {
        for edit in [
            Edit::Add { name: name("a"), entry: json!({"command": "x"}) },
            Edit::AddInput { input: json!({"id": "i", "type": "promptString"}) },
            Edit::Remove { name: name("a") },
        ] {
            if text.contains("servers") && matches!(edit, Edit::AddInput { .. }) {
                continue;
            }
            apply_edit(text, &edit).expect_err(text);
        }
    }
}

#[test]
fn line_ends_of_a_file_are_those_of_what_is_added_to_it() {
    let text = "{\r\n  \"servers\": {\r\n    \"a\": { \"command\": \"x\" } // last\r\n  }\r\n}\r\n";
    let entry = json!({"command": "y", "env": {"K": "v"}});
    let more = edited(text, &Edit::Add { name: name("b"), entry });
    assert_eq!(more.matches('\n').count(), more.matches("\r\n").count(), "{more:?}");
    assert!(more.contains("{ \"command\": \"x\" }, // last\r\n    \"b\": {\r\n"), "{more:?}");
    let less = edited(&more, &Edit::Remove { name: name("b") });
    assert_eq!(less, text);
}
