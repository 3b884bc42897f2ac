//! The README says what the program does: its key table, its configuration and its commands.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::support::Bench;
use serde_json::json;

/// The text of the README.
pub(crate) fn readme() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    fs::read_to_string(path).expect("there is a README")
}

/// The fenced blocks of one language.
pub(crate) fn blocks<'a>(text: &'a str, language: &str) -> Vec<&'a str> {
    let open = format!("```{language}\n");
    let starts = text.match_indices(&open).map(|(at, found)| at + found.len());
    starts.filter_map(|at| text[at..].find("```").map(|end| &text[at..at + end])).collect()
}

#[cfg(feature = "tui")]
#[test]
fn the_keys_of_the_readme_are_those_the_program_uses() {
    let text = readme();
    let (_, rest) = text.split_once("<!-- keys -->\n").expect("an opening mark");
    let (shown, _) = rest.split_once("<!-- /keys -->").expect("a closing mark");
    let all = mcpdeck::tui::keymap::Keymap::builtin().to_markdown();
    assert!(shown.lines().count() > 12, "the keys to begin with");
    for line in shown.lines() {
        assert!(all.lines().any(|known| known == line), "`mcpdeck --keys` has no line\n{line}");
    }
}

#[cfg(feature = "tui")]
#[test]
fn the_program_prints_that_table_with_the_changes_of_a_person() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let keys = || {
        let out = std::process::Command::new(env!("CARGO_BIN_EXE_mcpdeck"))
            .arg("--keys")
            .env("MCPDECK_CONFIG_DIR", folder.path())
            .output()
            .expect("the program runs");
        (out.status.code(), String::from_utf8_lossy(&out.stdout).into_owned(), out.stderr)
    };
    let (code, table, _) = keys();
    assert_eq!(code, Some(0));
    assert_eq!(table, mcpdeck::tui::keymap::Keymap::builtin().to_markdown());
    let keymap = folder.path().join("keymap.toml");
    fs::write(&keymap, "[answer]\nf9 = \"send\"").expect("a scratch file");
    assert!(keys().1.contains("| answer | `f9` `f5` `ctrl-r` `alt-enter` | Send: make"));
    fs::write(&keymap, "[answer]\nf9 = \"compare\"").expect("a scratch file");
    let (code, table, said) = keys();
    assert_eq!((code, table.as_str()), (Some(2), ""));
    assert!(String::from_utf8_lossy(&said).contains("`compare`"));
}

#[test]
fn the_sample_configuration_is_valid() {
    let text = readme();
    let sample = blocks(&text, "jsonc")[0];
    let folder = tempfile::tempdir().expect("a scratch folder");
    let file = folder.path().join("mcp.json");
    fs::write(&file, sample).expect("a scratch file");
    let out = std::process::Command::new(env!("CARGO_BIN_EXE_mcpdeck"))
        .args(["config", "--config"])
        .arg(&file)
        .env("SEARCH_TOKEN", "a-made-up-token")
        .output()
        .expect("the program runs");
    let shown = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{}{shown}", String::from_utf8_lossy(&out.stderr));
    assert!(!shown.contains("a-made-up-token"), "secrets are masked");
}

#[test]
fn every_command_of_the_readme_is_one_the_program_has() {
    let text = readme();
    let help = std::process::Command::new(env!("CARGO_BIN_EXE_mcpdeck"))
        .arg("--help")
        .output()
        .expect("the program runs");
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    let of_verb = |verb: &str| {
        let out = std::process::Command::new(env!("CARGO_BIN_EXE_mcpdeck"))
            .args([verb, "--help"])
            .output()
            .expect("the program runs");
        String::from_utf8_lossy(&out.stdout).into_owned()
    };
    let lines = blocks(&text, "sh").join("\n");
    let mut checked = 0;
    for line in lines.lines().filter(|line| line.starts_with("mcpdeck ")) {
        let command = line.split('#').next().unwrap_or_default();
        let verb = command.split_whitespace().nth(1).filter(|word| !word.starts_with('-'));
        let options = verb.map_or_else(|| help.clone(), of_verb);
        for word in command.split_whitespace().skip(1).take_while(|word| *word != "--") {
            if word.starts_with("--") {
                let option = word.split('=').next().unwrap_or(word);
                assert!(options.contains(option), "`{word}` of `{line}`");
                checked += 1;
            } else if word.chars().all(char::is_lowercase)
                && command.split_whitespace().nth(1) == Some(word)
            {
                assert!(help.contains(&format!("\n  {word} ")), "`{word}` of `{line}`");
                checked += 1;
            }
        }
    }
    assert!(checked > 8, "the README shows commands");
}

/// The command lines of a text that begin with the program's name.
fn commands(text: &str) -> Vec<String> {
    let steps = text.lines().map(|line| line.trim().trim_start_matches("- run: "));
    let lines = steps.map(|line| line.split(" #").next().unwrap_or_default());
    lines.filter(|line| line.starts_with("mcpdeck")).map(|line| line.trim().to_owned()).collect()
}

/// The words of a command line, as a shell splits it: those between single quotes are one.
fn words(line: &str) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for (at, part) in line.split('\'').enumerate() {
        if at % 2 == 0 {
            out.extend(part.split_whitespace().map(str::to_owned));
        } else {
            out.push(part.to_owned());
        }
    }
    out
}

/// The text of a topic of the help.
fn topic(name: &str) -> String {
    let done = Bench::new().run(&["help", name], Duration::from_secs(60));
    assert_eq!(done.code, Some(0), "{name}: {done:?}");
    done.stdout
}

/// A folder in which the commands of the README have what they name.
fn surroundings() -> Bench {
    let bench = Bench::new();
    let search = json!({
        "name": "search_nodes", "description": "Finds nodes that match a text.",
        "inputSchema": {"type": "object", "required": ["query"], "properties": {
            "query": {"type": "string", "description": "What to look for."}}},
    });
    let memory = json!({"tools": [search], "calls": {"search_nodes": {
        "text": "{\"entities\": [{\"name\": \"Ada\"}]}"}}});
    bench.servers(&json!({"memory": bench.mock("memory", &memory, &json!({}))}));
    let call = json!({"tool": "memory.search_nodes", "arguments": {"query": "Ada"}});
    bench.write("mcp.calls.json", &json!({"version": 1, "calls": {"find-ada": call}}).to_string());
    fs::create_dir(bench.path().join(".cursor")).expect("a folder");
    bench.write(".cursor/mcp.json", r#"{"mcpServers": {"other": {"command": "other"}}}"#);
    bench
}

#[test]
fn the_commands_of_the_readme_run() {
    let help = topic("check");
    let workflow = commands(&help).into_iter().find(|line| line.contains("github")).unwrap();
    let mut all = commands(&blocks(&readme(), "sh").join("\n"));
    all.push(workflow);
    // These open the dashboard; the tests in a pseudo-terminal do that.
    let screen = |line: &str| {
        ["mcpdeck", "mcpdeck --demo"].contains(&line) || line.starts_with("mcpdeck -- ")
    };
    let mut run = 0;
    for line in all.iter().filter(|line| !screen(line)) {
        let bench = surroundings();
        let words = words(line);
        let words: Vec<&str> = words.iter().skip(1).map(String::as_str).collect();
        let is_test = words.first() == Some(&"test");
        if is_test && !words.contains(&"--init") {
            let made = bench.run(&["test", "--init"], Duration::from_secs(60));
            assert_eq!(made.code, Some(0), "{made:?}");
        }
        let done = bench.run(&words, Duration::from_secs(60));
        assert_eq!(done.code, Some(0), "{line}: {done:?}");
        if is_test {
            assert!(bench.path().join("mcp.tests.json").exists(), "{line}");
            run += 1;
            continue;
        }
        for (flag, file) in [("--init", "mcp.expect.json"), ("--lock", "mcp.lock.json")] {
            assert_eq!(words.contains(&flag), bench.path().join(file).exists(), "{line}");
        }
        for file in words.iter().filter_map(|word| word.split_once('=')).map(|(_, file)| file) {
            let wanted = line.contains("--format");
            assert!(!wanted || bench.path().join(file).exists(), "{line} wrote no {file}");
        }
        bench.expect_nothing_left(Duration::ZERO);
        run += 1;
    }
    assert!(run >= 12, "{all:#?}");
}

#[test]
fn the_expectations_of_the_help_are_checked_as_it_says() {
    let bench = surroundings();
    let text = topic("check");
    let begin = text.find("  {\n    \"rules\"").unwrap();
    let end = begin + text[begin..].find("\n  }\n").unwrap() + 4;
    let sample = &text[begin..end];
    bench.write("mcp.expect.json", sample);
    let done = bench.run(&["--check", "--format", "json"], Duration::from_secs(60));
    assert_eq!(done.code, Some(0), "{done:?}");
    bench.write("mcp.expect.json", &sample.replace("\"Ada\", \"max", "\"Grace\", \"max"));
    let done = bench.run(&["--check", "--format", "json"], Duration::from_secs(60));
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.stdout.contains("expect/sample"), "{done:?}");
}

#[test]
fn the_policy_of_the_readme_decides_as_it_says() {
    let bench = surroundings();
    bench.write("mcpdeck.policy.json", blocks(&readme(), "json")[0]);
    let why = ["policy", "why", "--profile", "agent", "gateway:x", "memory.search_nodes"];
    let done = bench.run(&why, Duration::from_secs(60));
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.stdout.contains("offered as `remember`, `query` is \"Ada\""), "{done:?}");
}

#[cfg(all(feature = "chat", feature = "demo"))]
#[test]
fn the_first_example_of_the_chat_gives_what_the_tool_says() {
    let shell = blocks(&readme(), "sh").join("\n");
    let all = commands(&shell);
    let line = all.iter().find(|line| line.starts_with("mcpdeck chat")).unwrap();
    let words = words(line);
    let words: Vec<&str> = words.iter().skip(1).map(String::as_str).collect();
    let done = Bench::new().run(&words, Duration::from_secs(60));
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.stdout.contains("**atlas__weather** gave:"), "{done:?}");
    assert!(done.stdout.contains("celsius"), "{done:?}");
}

#[test]
fn the_readme_is_short_and_every_picture_and_file_of_it_is_there() {
    let text = readme();
    assert!(text.lines().count() <= 250, "{} lines: move some to a topic", text.lines().count());
    for (at, found) in text.match_indices("](") {
        let rest = &text[at + found.len()..];
        let target = &rest[..rest.find(')').unwrap()];
        let is_there = Path::new(env!("CARGO_MANIFEST_DIR")).join(target).exists();
        assert!(is_there || target.starts_with("https://"), "{target}");
    }
}

#[test]
fn the_table_of_exit_codes_is_the_one_of_the_help() {
    let help = Bench::new().run(&["--help"], Duration::from_secs(60)).stdout;
    for (code, verdict) in [("0", "ok"), ("1", "violated"), ("3", "incomplete"), ("2", "usage")] {
        assert!(readme().contains(&format!("| {code} | `{verdict}` |")), "{verdict}");
        assert!(help.contains(&format!("  {code}    {verdict}")), "{verdict} in {help}");
        let topic = Bench::new().run(&["help", "check"], Duration::from_secs(60)).stdout;
        assert!(topic.contains(&format!("  {code}    {verdict}")), "{verdict} in {topic}");
    }
}

#[test]
fn every_topic_is_named_and_what_is_named_is_there() {
    let text = readme();
    let named = text.match_indices("mcpdeck help ").map(|(at, found)| {
        let rest = &text[at + found.len()..];
        &rest[..rest.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(rest.len())]
    });
    let mut topics: Vec<&str> = named.collect();
    let (_, list) = text.split_once("and topics: `mcpdeck help ").expect("the list of topics");
    let list = list.split("`.").next().unwrap_or_default();
    topics.extend(list.split('`').skip(2).step_by(2));
    assert!(topics.len() > 20, "{topics:?}");
    for name in &topics {
        topic(name);
    }
    let help = Bench::new().run(&["help"], Duration::from_secs(60)).stdout;
    let (_, listed) = help.split_once("\nTopics").expect("the topics");
    for line in listed.lines().skip(1) {
        let name = line.split_whitespace().next().unwrap_or_default();
        assert!(topics.contains(&name), "the README does not name `mcpdeck help {name}`");
    }
}

#[test]
fn the_topics_write_keys_as_the_screen_does() {
    let help = Bench::new().run(&["help"], Duration::from_secs(60)).stdout;
    let (_, listed) = help.split_once("\nTopics").expect("the topics");
    let names = listed.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    for name in names {
        let text = topic(name);
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
        let is_foreign = |word: &&str| {
            let number = word.strip_prefix('F').is_some_and(|n| n.parse::<u8>().is_ok());
            number || ["Enter", "Esc", "Escape", "PgUp", "PgDn"].contains(word)
        };
        let foreign: Vec<&str> = words.filter(is_foreign).collect();
        assert!(foreign.is_empty(), "{name}: {foreign:?}");
    }
}
