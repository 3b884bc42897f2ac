//! Calling by hand as people do: the built binary in a pseudo-terminal, forms filled by keys. Every
//! tool of the published servers that needs no network, and the ways results are read.

mod completion;
mod copied;
mod files;
mod results;

use serde_json::{Value, json};

use crate::pty::{Deck, Launch, Size, until};
use crate::support;

const ENTER: &str = "\r";
const DOWN: &str = "\x1b[B";
const ESC: &str = "\x1b";
const F5: &str = "\x1b[15~";

/// A call to make: tool, keys in its form, what the server must have been sent, and something its
/// answer shows.
type Case<'a> = (&'a str, &'a str, Value, &'a str);

/// A dashboard over one of the published servers; its data is in `data` of the home folder.
fn real(server: &str) -> Option<Deck> {
    let launch = Launch::file(Size(139, 44), "{}");
    let data = launch.home().join("data");
    let mut entry = support::published(&data)?[server].take();
    entry.as_object_mut().unwrap().shift_remove("dependencies");
    let launch = launch.write("mcp.json", &json!({"servers": {server: entry}}).to_string());
    std::fs::write(data.join("pixel.gif"), b"GIF89a\x01\0\x01\0\0\0\0;").unwrap();
    let repository = data.join("repository");
    support::git(&repository, &["config", "user.name", "deck"]);
    support::git(&repository, &["config", "user.email", "deck@example.org"]);
    std::fs::write(repository.join("new.txt"), "new").unwrap();
    let mut deck = launch.start();
    deck.wait("1 ready");
    deck.keys("2");
    deck.wait("name  ");
    Some(deck)
}

/// Opens the form of a tool from the list of tools.
fn open(deck: &mut Deck, tool: &str) {
    // The list is filtered to the tool, whatever it was filtered to before.
    fill(deck, &format!("/\x15{tool}\r"));
    let is_it = |line: &str| line.split_whitespace().skip_while(|w| *w != "▸").nth(1) == Some(tool);
    deck.wait_until(tool, |screen| {
        let shown = screen.lines().any(|line| line.contains(&format!("/ {tool} ")));
        shown && screen.lines().any(|line| line.split_whitespace().any(|word| word == tool))
    });
    for _ in 0..12 {
        let screen = deck.screen();
        if screen.lines().any(is_it) {
            break;
        }
        deck.keys(DOWN);
        until("the next row", || deck.screen() != screen);
    }
    deck.keys(ENTER);
    let head = format!(" {tool}   ");
    deck.wait_until(&format!("the form of {tool}"), |screen| {
        screen.contains(" f5 call") && screen.contains(&head)
    });
}

/// Types as a person does who looks up between words and commands: on a busy machine keys arrive
/// together all the same, and what arrives together is a paste, which holds no commands.
fn fill(deck: &mut Deck, keys: &str) {
    let mut rest = keys;
    while let Some(first) = rest.chars().next() {
        let end = if let Some(tail) = rest.strip_prefix("\x1b[") {
            tail.find(|c: char| ('@'..='~').contains(&c)).map_or(rest.len(), |at| at + 3)
        } else if first == '\x1b' {
            rest.char_indices().nth(2).map_or(rest.len(), |(at, _)| at)
        } else if first.is_control() {
            1
        } else {
            rest.find(char::is_control).unwrap_or(rest.len())
        };
        std::thread::park_timeout(std::time::Duration::from_millis(100));
        deck.keys(&rest[..end]);
        rest = &rest[end..];
    }
    std::thread::park_timeout(std::time::Duration::from_millis(100));
}

/// Leaves the result for the form, and the form for the list.
fn leave(deck: &mut Deck) {
    deck.keys(ESC);
    deck.wait("f6 result");
    deck.keys(ESC);
    deck.wait("/ filter");
    deck.gone("f6 result");
}

/// What was sent last, by target, as the history has it.
fn sent(deck: &Deck, target: &str) -> Option<Value> {
    let folder = deck.home().join("state/dashboard");
    let files = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    let history = { files }.find(|path| path.to_string_lossy().ends_with(".history.jsonl"))?;
    let text = std::fs::read_to_string(history).ok()?;
    let records = text.lines().rev().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    { records }.find(|r| r["target"] == target).map(|mut r| r["arguments"].take())
}

/// Tools that are over only when a person has answered; called by keys further below.
const ASKING: [&str; 3] =
    ["trigger-sampling-request", "trigger-elicitation-request", "trigger-url-elicitation"];

/// The tools of the servers of a deck, as the headless program lists them.
fn offered(deck: &Deck) -> Vec<String> {
    let (code, said) = copied::shell("mcpdeck list --only tools --json", deck.home());
    assert_eq!(code, Some(0), "{said}");
    let listed: Value = serde_json::from_str(&said).unwrap();
    let tools = listed["servers"][0]["tools"].as_array().unwrap();
    assert!(!tools.is_empty(), "{said}");
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

/// Makes every call of a server's tools; each must reach the server as it was meant and be answered.
fn calls(server: &str, cases: &[Case<'_>]) {
    let Some(mut deck) = real(server) else { return };
    let mut missing = offered(&deck);
    missing.retain(|tool| !cases.iter().map(|case| case.0).chain(ASKING).any(|one| one == tool));
    assert!(missing.is_empty(), "{server} offers tools that are not called here: {missing:?}");
    let data = deck.home().join("data").to_string_lossy().into_owned();
    for (tool, keys, arguments, shows) in cases {
        open(&mut deck, tool);
        fill(&mut deck, &keys.replace("DATA", &data));
        deck.keys(F5);
        deck.wait_until(&format!("{server}.{tool} shows {shows}"), |screen| {
            screen.contains(" ✓ ") && screen.contains(shows)
        });
        let wanted: Value =
            serde_json::from_str(&arguments.to_string().replace("DATA", &data)).unwrap();
        let target = format!("{server}.{tool}");
        until(&format!("{target} was sent {wanted}, not {:?}", sent(&deck, &target)), || {
            sent(&deck, &target).as_ref() == Some(&wanted)
        });
        leave(&mut deck);
    }
    deck.quit();
}

#[test]
fn every_tool_of_the_memory_server_is_called_by_keys() {
    let ada = json!({"name": "Ada", "entityType": "person", "observations": ["wrote notes"]});
    let bob = json!({"name": "Bob", "entityType": "person", "observations": []});
    let knows = json!({"from": "Ada", "to": "Bob", "relationType": "knows"});
    calls(
        "memory",
        &[
            (
                "create_entities",
                // The list, its first item, name, type, the observations and one of them; then up
                // to the last line and on to a second item.
                "\x1b[B\rAda\tperson\t\t\rwrote notes\x1ba\x1bx\x1b[6~\x1b[A\rBob\tperson\t\x1be",
                json!({"entities": [ada, bob]}),
                "\"Bob\"",
            ),
            ("create_relations", "\x1b[B\rAda\tBob\tknows", json!({"relations": [knows]}), "knows"),
            (
                "add_observations",
                "\x1b[B\rAda\t\t\rcounts",
                json!({"observations": [{"entityName": "Ada", "contents": ["counts"]}]}),
                "addedObservations",
            ),
            ("read_graph", "", json!({}), "relationType"),
            ("search_nodes", "Ada", json!({"query": "Ada"}), "counts"),
            ("open_nodes", "\x1b[B\rBob", json!({"names": ["Bob"]}), "\"Bob\""),
            (
                "delete_observations",
                "\x1b[B\rAda\t\t\rcounts",
                json!({"deletions": [{"entityName": "Ada", "observations": ["counts"]}]}),
                "deleted successfully",
            ),
            (
                "delete_relations",
                "\x1b[B\rAda\tBob\tknows",
                json!({"relations": [knows]}),
                "deleted successfully",
            ),
            (
                "delete_entities",
                "\x1b[B\rBob",
                json!({"entityNames": ["Bob"]}),
                "deleted successfully",
            ),
        ],
    );
}

#[test]
fn every_tool_of_the_filesystem_server_is_called_by_keys() {
    let hello = json!({"path": "DATA/hello.txt"});
    let edit = json!({"oldText": "second", "newText": "third"});
    calls(
        "filesystem",
        &[
            ("read_file", "DATA/hello.txt", hello.clone(), "Hello from the deck"),
            (
                "read_text_file",
                "DATA/hello.txt\t\t1",
                json!({"path": "DATA/hello.txt", "head": 1}),
                "Hello from the deck",
            ),
            ("read_media_file", "DATA/pixel.gif", json!({"path": "DATA/pixel.gif"}), "image/gif"),
            (
                "read_multiple_files",
                "\x1b[B\rDATA/hello.txt",
                json!({"paths": ["DATA/hello.txt"]}),
                "second line",
            ),
            (
                "write_file",
                "DATA/new.txt\tone\x1b\rtwo",
                json!({"path": "DATA/new.txt", "content": "one\ntwo"}),
                "Successfully wrote",
            ),
            (
                "edit_file",
                "DATA/hello.txt\t\t\rsecond\tthird\x1b[6~\x1b[At",
                json!({"path": "DATA/hello.txt", "edits": [edit], "dryRun": true}),
                "+third line",
            ),
            ("create_directory", "DATA/sub", json!({"path": "DATA/sub"}), "Successfully created"),
            ("list_directory", "DATA", json!({"path": "DATA"}), "[DIR] sub"),
            (
                "list_directory_with_sizes",
                "DATA\tsi\r",
                json!({"path": "DATA", "sortBy": "size"}),
                "hello.txt",
            ),
            ("directory_tree", "DATA/sub", json!({"path": "DATA/sub"}), "content"),
            (
                "move_file",
                "DATA/new.txt\tDATA/sub/moved.txt",
                json!({"source": "DATA/new.txt", "destination": "DATA/sub/moved.txt"}),
                "Successfully moved",
            ),
            (
                "search_files",
                "DATA\t**/moved*\t\x1barepository",
                json!({"path": "DATA", "pattern": "**/moved*", "excludePatterns": ["repository"]}),
                "sub/moved.txt",
            ),
            ("get_file_info", "DATA/hello.txt", hello, "isFile"),
            ("list_allowed_directories", "", json!({}), "Allowed directories"),
        ],
    );
}

#[test]
fn every_tool_of_the_git_and_time_servers_is_called_by_keys() {
    let repo = json!({"repo_path": "DATA/repository"});
    let with = |rest: Value| {
        let mut all = repo.clone();
        all.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        all
    };
    calls(
        "git",
        &[
            ("git_status", "DATA/repository", repo.clone(), "On branch main"),
            (
                "git_create_branch",
                "DATA/repository\tside",
                with(json!({"branch_name": "side"})),
                "Created branch",
            ),
            (
                "git_checkout",
                "DATA/repository\tside",
                with(json!({"branch_name": "side"})),
                "Switched to branch",
            ),
            (
                "git_branch",
                "DATA/repository\tlocal",
                with(json!({"branch_type": "local"})),
                "* side",
            ),
            ("git_log", "DATA/repository\t3", with(json!({"max_count": 3})), "first"),
            ("git_show", "DATA/repository\tHEAD", with(json!({"revision": "HEAD"})), "first"),
            (
                "git_diff",
                "DATA/repository\tmain",
                with(json!({"target": "main"})),
                "Diff with main",
            ),
            ("git_diff_unstaged", "DATA/repository", repo.clone(), "Unstaged changes"),
            ("git_diff_staged", "DATA/repository", repo.clone(), "Staged changes"),
            ("git_add", "DATA/repository\t\t\r.", with(json!({"files": ["."]})), "Files staged"),
            (
                "git_commit",
                "DATA/repository\tof the deck",
                with(json!({"message": "of the deck"})),
                "Changes committed",
            ),
            ("git_reset", "DATA/repository", repo.clone(), "reset"),
        ],
    );
    let noon =
        json!({"source_timezone": "Etc/UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"});
    calls(
        "time",
        &[
            ("get_current_time", "Asia/Tokyo", json!({"timezone": "Asia/Tokyo"}), "+09:00"),
            ("convert_time", "Etc/UTC\t12:00\tAsia/Tokyo", noon, "21:00"),
        ],
    );
}

#[test]
fn a_thought_with_a_choice_of_types_and_whole_numbers_is_called_by_keys() {
    calls(
        "sequential-thinking",
        &[(
            "sequentialthinking",
            // The choice between yes/no and text stays at yes/no; a number is stepped up.
            "think\t\tf\t1\x1b[1;5A\t5",
            json!({"thought": "think", "nextThoughtNeeded": false, "thoughtNumber": 2, "totalThoughts": 5}),
            "thoughtHistoryLength",
        )],
    );
}

#[test]
fn every_tool_of_the_everything_server_that_needs_no_answer_is_called_by_keys() {
    calls(
        "everything",
        &[
            ("echo", "over the deck", json!({"message": "over the deck"}), "Echo: over the deck"),
            (
                "get-annotated-message",
                "suc\r\tt",
                json!({"messageType": "success", "includeImage": true}),
                "image/png",
            ),
            ("get-env", "", json!({}), "PATH"),
            ("get-resource-links", "2", json!({"count": 2}), "demo://"),
            (
                "get-resource-reference",
                "blo\r\t1",
                json!({"resourceType": "Blob", "resourceId": 1}),
                "00000000  ",
            ),
            ("get-structured-content", "chi\r", json!({"location": "Chicago"}), "structured ✓"),
            ("get-sum", "2\t3.5", json!({"a": 2, "b": 3.5}), "5.5"),
            ("get-tiny-image", "", json!({}), "▀"),
            (
                "gzip-file-as-resource",
                "a.gz\tdata:text/plain,hello\tresource\r",
                json!({"name": "a.gz", "data": "data:text/plain,hello", "outputType": "resource"}),
                "gzip data",
            ),
            ("toggle-simulated-logging", "", json!({}), "logging"),
            ("toggle-subscriber-updates", "", json!({}), "updates"),
            (
                "trigger-long-running-operation",
                "1\t2",
                json!({"duration": 1, "steps": 2}),
                "completed",
            ),
            ("get-roots-list", "", json!({}), "roots"),
            // It only runs as a task: begun, asked after, its result fetched.
            ("simulate-research-query", "ants", json!({"topic": "ants"}), "Research Report: ants"),
        ],
    );
}

#[test]
fn every_tool_of_the_everything_server_that_asks_is_called_and_answered_by_keys() {
    let Some(mut deck) = real("everything") else { return };
    for (tool, keys, asks, answer, shows) in [
        (ASKING[0], "good morning", "asks for sampling", "Good day\x12", "Good day"),
        // Declined; the others of its kinds are answered in the tests of approvals.
        (ASKING[1], "", "everything asks you", "\x18", "declined"),
        (ASKING[2], "https://a.example/x", "a.example", "\x18", "declin"),
        // It only runs as a task, and asks on the way.
        ("simulate-research-query", "python\t ", "Clarification", "snake\r\x12", "(snake)"),
    ] {
        open(&mut deck, tool);
        fill(&mut deck, keys);
        deck.keys(F5);
        deck.wait("1 waiting");
        deck.keys("\x07");
        deck.wait(asks);
        deck.decide(answer);
        deck.gone("1 waiting");
        deck.wait_until(&format!("{tool} shows {shows}"), |screen| {
            screen.contains(" ✓ ") && screen.contains(shows)
        });
        leave(&mut deck);
    }
    deck.quit();
}
