//! What neither the manifests nor the compiler hold of the structure: import cycles inside a crate,
//! types spread over files, words restricted to certain files, headers. Guards invariants 2 and 4 to
//! 7 of `src/lib.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Crates that print through `cli` only, and those that must not.
const SILENT: &[&str] = &["terminal", "tui", "gateway", "chat", "apps"];

fn sources() -> Vec<(PathBuf, String)> {
    fn walk(dir: &Path, found: &mut Vec<(PathBuf, String)>) {
        for entry in fs::read_dir(dir).expect("src is readable") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let text = fs::read_to_string(&path).expect("source is UTF-8");
                found.push((path, text));
            }
        }
    }
    let mut found = Vec::new();
    walk(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
    assert!(found.len() > 20, "the walk found the source tree");
    found
}

fn relative(path: &Path) -> String {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    path.strip_prefix(src).expect("below src").to_string_lossy().replace('\\', "/")
}

/// Code without comments, which may mention forbidden words.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"))
}

/// The first part of a path in `src`: a folder or a file.
fn top(name: &str) -> &str {
    name.split('/').next().unwrap_or(name).trim_end_matches(".rs")
}

#[test]
fn front_ends_do_not_print() {
    let mut broken = Vec::new();
    for (path, text) in sources() {
        let name = relative(&path);
        if !SILENT.contains(&top(&name)) {
            continue;
        }
        for (number, line) in code(&text) {
            if ["println!", "print!"].iter().any(|word| line.contains(word)) {
                broken.push(format!("src/{name}:{}: {line}", number + 1));
            }
        }
    }
    assert!(broken.is_empty(), "printing is for `cli`:\n{}", broken.join("\n"));
}

/// The engine is built without a terminal, an HTTP server, a command line or a model: what its
/// manifests name is all that it can reach.
#[test]
fn the_engine_depends_on_no_front_end() {
    let front = [
        "ratatui",
        "crossterm",
        "clap",
        "axum",
        "terminal",
        "tui",
        "cli",
        "check",
        "gateway",
        "chat",
        "apps",
    ];
    for crate_name in ["base", "schema", "config", "process", "protocol", "mcp", "host", "deck"] {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(crate_name);
        let manifest = fs::read_to_string(file.join("Cargo.toml")).expect("a manifest");
        let named = manifest.lines().filter_map(|line| line.split(['.', ' ', '=']).next());
        let broken: Vec<&str> = named.filter(|name| front.contains(name)).collect();
        assert!(broken.is_empty(), "{crate_name} names {broken:?}");
    }
}

/// The protocol waits for nothing and reads no clock: of tokio it may name channels and wakers, which
/// work without a runtime, and the time comes from the clock that it is given.
#[test]
fn the_protocol_needs_no_runtime_and_no_clock() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/protocol/Cargo.toml");
    let manifest = fs::read_to_string(file).expect("a manifest");
    let own = manifest.split("[dev-dependencies]").next().unwrap_or(&manifest);
    let tokio: Vec<&str> = own.lines().filter(|line| line.starts_with("tokio")).collect();
    let allowed = [
        r#"tokio = { version = "1.54", default-features = false, features = ["sync"] }"#,
        r#"tokio-util = { version = "0.7", default-features = false }"#,
    ];
    assert_eq!(tokio, allowed);
    let mut broken = Vec::new();
    for (path, text) in sources() {
        let name = relative(&path);
        if top(&name) != "protocol" || name.contains("tests") {
            continue;
        }
        for line in product(&text).lines() {
            let runtime = ["tokio::", "tokio_util::"].iter().any(|root| {
                line.split(root).skip(1).any(|path| !path.trim_start().starts_with("sync"))
            });
            let clock = ["Instant::now", "SystemTime", ".elapsed()", "thread::"];
            if runtime || clock.iter().any(|word| line.contains(word)) {
                broken.push(format!("src/{name}: {}", line.trim()));
            }
        }
    }
    assert!(broken.is_empty(), "the protocol waits or reads a clock:\n{}", broken.join("\n"));
}

#[test]
fn every_file_says_what_it_owns() {
    let mut broken = Vec::new();
    for (path, text) in sources() {
        let name = relative(&path);
        if !text.starts_with("//!") {
            broken.push(format!("src/{name}: does not open with `//!`"));
        }
        if name.ends_with("/mod.rs") {
            broken.push(format!("src/{name}: write it as the folder's name with `.rs`"));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// Words restricted to certain places: the word, where it is forbidden, and the excepted files (or
/// folders). Do not extend the exceptions.
const CONFINED: &[(&str, &[&str], &[&str])] = &[
    // Only `HostView::apply` changes the view (invariant 4), which a configuration does not know.
    (
        "make_mut",
        &[""],
        &[
            "host/view",
            "host/dev/view.rs",
            "host/server/slot.rs",
            "tui/model.rs",
            "config/servers.rs",
            "config/schema/shared.rs",
        ],
    ),
    // `update` is pure (invariant 5).
    ("now()", UPDATE, &[]),
    ("current_dir", UPDATE, &[]),
    // Queues are bounded (invariant 6).
    (
        "unbounded",
        &[
            "base", "schema", "config", "protocol", "mcp", "process", "host", "deck", "gateway",
            "chat", "apps",
        ],
        &[],
    ),
    // Codes of JSON-RPC have names.
    ("Some(-32", &[""], &["protocol/rpc_code.rs"]),
    ("=> -32", &[""], &["protocol/rpc_code.rs"]),
    (": -32", &[""], &["protocol/rpc_code.rs"]),
    (", -32", &[""], &["protocol/rpc_code.rs"]),
    // stdout belongs to the command line, to the terminal session and to `serve --stdio`
    // (invariant 7).
    (
        "stdout()",
        &[""],
        &[
            "cli",
            "gateway/pipe.rs",
            "terminal/session.rs",
            "mock",
            "process/ladder.rs",
            "process/windows",
        ],
    ),
];

/// The code that handles keys and messages of the dashboard.
const UPDATE: &[&str] = &["tui/app", "tui/call/", "tui/form", "tui/approval", "tui/overlay"];

/// Code without comments and without the tests at its end.
fn product(text: &str) -> String {
    let inline = |(at, _): &(usize, &str)| {
        text[*at..].lines().nth(2).is_some_and(|line| line.ends_with('{'))
    };
    let inline = text.match_indices("\n#[cfg(test)]\nmod ").find(inline).map(|(at, _)| at);
    let others = ["\n#[cfg(test)]\npub", "\n#[cfg(all(test"];
    let others = others.iter().filter_map(|begin| text.find(begin));
    let end = others.chain(inline).min().unwrap_or(text.len());
    code(&text[..end]).fold(String::new(), |out, (_, line)| out + line + "\n")
}

#[test]
fn words_stay_where_they_belong() {
    let mut broken = Vec::new();
    for (path, text) in sources() {
        let name = relative(&path);
        if name.contains("tests") {
            continue;
        }
        let text = product(&text);
        for (word, places, exceptions) in CONFINED {
            let within = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
            if text.contains(word) && within(places) && !within(exceptions) {
                broken.push(format!("src/{name}: `{word}`"));
            }
        }
    }
    assert!(broken.is_empty(), "words in places where they do not belong:\n{}", broken.join("\n"));
}

#[test]
fn the_methods_of_a_type_lie_in_at_most_three_files() {
    let mut files: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
    for (path, text) in sources() {
        let name = relative(&path);
        for own in types_with_methods(&product(&text)) {
            files.entry((top(&name).to_owned(), own)).or_default().insert(name.clone());
        }
    }
    let mut broken = Vec::new();
    for ((folder, name), files) in files {
        if files.len() > 3 {
            broken.push(format!("{folder}: `{name}` in {} files: {files:?}", files.len()));
        }
    }
    assert!(broken.is_empty(), "types with methods in too many files:\n{}", broken.join("\n"));
}

/// The types that a text implements methods for, but for those of traits. A header goes on to its `{`,
/// on whichever line that stands, and may name its type by a path.
fn types_with_methods(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let starts =
        text.match_indices("impl").filter(|(at, _)| *at == 0 || text[..*at].ends_with('\n'));
    for (at, word) in starts {
        let rest = &text[at + word.len()..];
        let header = rest.split('{').next().unwrap_or(rest);
        let header = if header.starts_with('<') { after_generics(header) } else { header };
        let header = header.split_whitespace().collect::<Vec<_>>().join(" ");
        let named = header.split(" where ").next().unwrap_or(&header);
        let path: String = named.chars().take_while(|c| is_word(*c) || *c == ':').collect();
        let own = path.rsplit("::").next().unwrap_or_default();
        if !own.is_empty() && !named.contains(" for ") {
            found.push(own.to_owned());
        }
    }
    found
}

#[test]
fn headers_of_methods_are_found_in_every_form() {
    let text = "impl A {\n}\nimpl<T> Trait for B<T>\nwhere\n    T: Copy,\n{\n}\n\
        impl<F: for<'a> Fn(&'a str) -> u8>\n    C<F>\nwhere\n    F: Send,\n{\n}\n\
        impl\n    super::D<u8>\n{\n}\nimpl E {}\n    impl F {\n}\n";
    assert_eq!(types_with_methods(text), ["A", "C", "D", "E"]);
}

/// Where a match over an enum of ours names every variant, so that a new one cannot be forgotten
/// there. Only extend it.
const EXHAUSTIVE: &[&str] = &[
    "apps/",
    "clients/",
    "demo/",
    "mcp/",
    "process/",
    "protocol/",
    "reach/",
    "tui/action.rs",
    "tui/app.rs",
    "tui/app/",
];

#[test]
fn enums_of_ours_are_matched_exhaustively() {
    let sources = sources();
    let enums = enums(sources.iter().map(|(_, text)| text.as_str()));
    let mut broken = Vec::new();
    for (path, text) in &sources {
        let name = relative(path);
        let strict = EXHAUSTIVE.iter().any(|place| name.starts_with(place));
        if strict && !name.contains("tests") {
            let arms = wildcards(&product(text), &enums);
            broken.extend(arms.into_iter().map(|(own, arm)| format!("src/{name}: {own}: `{arm}`")));
        }
    }
    assert!(broken.is_empty(), "variants that can be forgotten:\n{}", broken.join("\n"));
}

/// The enums that are declared in these texts, but for those that other crates cannot match
/// exhaustively.
fn enums<'a>(texts: impl Iterator<Item = &'a str>) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    for text in texts {
        let mut is_open = false;
        for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
            let declared = line
                .split_once("enum ")
                .filter(|(before, _)| before.trim().is_empty() || before.trim().starts_with("pub"));
            if let Some((_, rest)) = declared.filter(|_| !is_open) {
                found.extend(rest.split(|c| !is_word(c)).next());
            }
            is_open = line.trim() == "#[non_exhaustive]" || is_open && line.starts_with("#[");
        }
    }
    found
}

/// Arms that take whatever is left (`_ =>`, `_ if`) beside arms that name a variant of one of these
/// enums, or of `Self`: the name of the enum, and the arm.
fn wildcards(text: &str, enums: &BTreeSet<&str>) -> Vec<(String, String)> {
    let depth = |line: &str| line.len() - line.trim_start().len();
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let arm = line.trim_start();
        if !(arm.starts_with("_ =>") || arm.starts_with("_ if ")) {
            continue;
        }
        let inside = |other: &&&str| other.is_empty() || depth(other) >= depth(line);
        let before = lines[..at].iter().rev().take_while(inside);
        let after = lines[at + 1..].iter().take_while(inside);
        let beside = before.chain(after).filter(|other| depth(other) == depth(line));
        let named = beside.filter_map(|arm| {
            let pattern = arm.split("=>").next()?.split(" if ").next()?;
            pattern.split(|c| !(is_word(c) || c == ':')).find_map(|path| {
                let (head, variant) = path.rsplit_once("::")?;
                let own = head.rsplit("::").next()?;
                let is_variant = variant.chars().any(|c| c.is_ascii_lowercase());
                (is_variant && (own == "Self" || enums.contains(own))).then(|| own.to_owned())
            })
        });
        found.extend(named.take(1).map(|own| (own, arm.to_owned())));
    }
    found
}

#[test]
fn arms_that_take_whatever_is_left_are_found() {
    let text = "pub enum Own {\n}\n    enum Inner { A }\n\
        #[non_exhaustive]\n#[derive(Debug)]\npub enum Open {\n}\n";
    let enums = enums([text].into_iter());
    assert_eq!(enums, BTreeSet::from(["Own", "Inner"]));
    let found = |arms: &str| wildcards(&format!("match a {{\n{arms}}}\n"), &enums).len();
    assert_eq!(found("    Own::First => 1,\n    _ => 2,\n"), 1);
    assert_eq!(
        found("    Own::First\n    | Own::Second => 1,\n    _ if b => 2,\n    _ => 3,\n"),
        2
    );
    assert_eq!(found("    _ if b => 2,\n    Some((x::Own::First, _)) => 1,\n"), 1);
    assert_eq!(found("    Self::First => 1,\n    _ => 2,\n"), 1);
    assert_eq!(found("    Foreign::First => Own::Second,\n    _ => Own::First,\n"), 0);
    assert_eq!(found("    Self::LIMIT => 1,\n    _ => 2,\n"), 0);
    assert_eq!(found("    Own::First => match b {\n        1 => 1,\n        _ => 2,\n    }\n"), 0);
}

#[test]
fn no_two_types_share_a_name() {
    let mut files: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (path, text) in sources() {
        let name = relative(&path);
        // The versions of a type for a platform, and for a build without a feature, share its name.
        if ["tests", "windows", "no_http"].iter().any(|word| name.contains(word)) {
            continue;
        }
        for line in product(&text).lines() {
            // An indented `type` belongs to a trait or its implementation.
            let kinds: &[&str] =
                if line.starts_with(' ') { &["struct ", "enum ", "trait "] } else { TYPES };
            let line = line.trim_start();
            let line = match line.strip_prefix("pub") {
                Some(rest) if rest.starts_with('(') => rest.split_once(") ").map_or("", |(_, r)| r),
                Some(rest) => rest.trim_start(),
                None => line,
            };
            if let Some(rest) = kinds.iter().find_map(|kind| line.strip_prefix(kind)) {
                let own = rest.chars().take_while(|c| is_word(*c)).collect();
                files.entry(own).or_default().insert(name.clone());
            }
        }
    }
    let shared = files.iter().filter(|(_, files)| files.len() > 1);
    let shared: Vec<String> = shared.map(|(name, files)| format!("{name}: {files:?}")).collect();
    assert!(shared.is_empty(), "names of several types:\n{}", shared.join("\n"));
}

/// Keywords that declare a type.
const TYPES: &[&str] = &["struct ", "enum ", "trait ", "type "];

#[test]
fn layers_are_used_through_their_facades() {
    let mut broken = Vec::new();
    for folder in ["schema", "config", "protocol", "mcp", "process", "host", "deck"] {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(folder).join("lib.rs");
        let text = fs::read_to_string(file).expect("the file of a layer");
        let open = code(&text).filter(|(_, line)| {
            line.starts_with("pub mod ") && !line.starts_with("pub mod error;")
        });
        broken.extend(open.map(|(at, line)| format!("src/{folder}/lib.rs:{}: {line}", at + 1)));
    }
    assert!(broken.is_empty(), "modules that others can see:\n{}", broken.join("\n"));
}

/// A reader outside has no list of requirements or decisions to look a number up in.
#[test]
fn texts_cite_no_numbers_of_other_papers() {
    let numbered = |text: &str| {
        let mut letters = text.chars();
        letters.next().is_some_and(|c| c.is_ascii_uppercase())
            && letters.next().is_some_and(|c| c.is_ascii_digit())
    };
    let cites = |line: &str| {
        ["decision ", "decisions ", "requirement ", "requirements "].iter().any(|word| {
            line.split(word).skip(1).any(|rest| numbered(rest) || rest.starts_with("section "))
        })
    };
    let mut broken = Vec::new();
    for (path, text) in sources() {
        for (at, line) in text.lines().enumerate().filter(|(_, line)| cites(line)) {
            broken.push(format!("src/{}:{}: {line}", relative(&path), at + 1));
        }
    }
    assert!(broken.is_empty(), "numbers that nobody can look up:\n{}", broken.join("\n"));
}

/// Types of limits, waits and capacities.
const NUMBERS: &[&str] =
    &["usize", "u64", "u32", "u16", "u8", "i64", "i32", "f64", "f32", "Duration"];

/// How the name of a wait, or of how long something lasts, ends.
const WAITS: &[&str] = &["_TIMEOUT", "_INTERVAL", "_LIFETIME", "_AGE", "_WINDOW"];

/// A limit is `MAX_NOUN_UNIT`, a wait `NOUN_TIMEOUT` or `NOUN_INTERVAL`, a queue `NOUN_CAPACITY`: at
/// the place of use the name says what it limits.
#[test]
fn names_of_limits_say_what_they_limit() {
    let mut broken = Vec::new();
    for (path, text) in sources() {
        let name = relative(&path);
        if name.contains("tests") {
            continue;
        }
        for line in product(&text).lines() {
            let Some((before, rest)) = line.split_once("const ") else { continue };
            let declares = before.trim().is_empty() || before.trim().starts_with("pub");
            let Some((own, value)) = rest.split_once(": ").filter(|_| declares) else { continue };
            let kind = value.split(" =").next().unwrap_or(value);
            let kind = kind.rsplit("::").next().unwrap_or(kind);
            let vague = NUMBERS.contains(&kind) && !own.contains('_');
            let is_wait = |own: &str| WAITS.iter().any(|end| own.ends_with(end));
            // In a number the unit stands behind.
            let number = ["_SECONDS", "_MILLIS"].iter().find_map(|unit| own.strip_suffix(unit));
            let is_bound = |own: &str| own.starts_with("MAX_") || own.starts_with("MIN_");
            let number = number.filter(|own| NUMBERS.contains(&kind) && !is_bound(own));
            let wait =
                kind == "Duration" && !is_wait(own) || number.is_some_and(|own| !is_wait(own));
            if own.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
                && (vague || wait)
            {
                broken.push(format!("src/{name}: {own}: {kind}"));
            }
        }
    }
    assert!(broken.is_empty(), "constants that do not say what they limit:\n{}", broken.join("\n"));
}

/// Names that do not say what a function does: a constructor is `new`, `from_x` or `parse`, the rest
/// verbs, or nouns that say what is given.
const VAGUE: &[&str] = &["of", "said", "asked", "kept", "note", "own"];

#[test]
fn names_of_functions_say_what_they_do() {
    let mut broken = Vec::new();
    for (path, text) in sources() {
        for (at, line) in code(&text) {
            for (before, _) in
                line.match_indices("fn ").filter(|(at, _)| !line[..*at].ends_with(is_word))
            {
                let named: String =
                    line[before + 3..].chars().take_while(|c| is_word(*c)).collect();
                if VAGUE.contains(&named.as_str()) {
                    broken.push(format!("src/{}:{}: `{named}`", relative(&path), at + 1));
                }
            }
        }
    }
    assert!(broken.is_empty(), "functions that do not say what they do:\n{}", broken.join("\n"));
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The text after a leading `<...>`.
fn after_generics(text: &str) -> &str {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '<' => depth += 1,
            '>' if !text[..at].ends_with('-') => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &text[at + 1..];
        }
    }
    ""
}

#[test]
fn files_of_a_folder_do_not_go_round_in_circles() {
    let texts: BTreeMap<String, String> = sources()
        .into_iter()
        .map(|(path, text)| {
            let name = relative(&path);
            (
                name.trim_end_matches(".rs").trim_end_matches("/lib").replace('/', "::"),
                product(&text),
            )
        })
        .collect();
    let names: BTreeSet<&str> = texts.keys().map(String::as_str).collect();
    let edges: BTreeMap<&str, BTreeSet<&str>> = texts
        .iter()
        .map(|(own, text)| {
            let named = paths(own, text).into_iter().filter_map(|path| module(&path, &names));
            // Cycles across folders violate the layers, which another test checks.
            let same = |other: &&str| *other != own && first(other) == first(own);
            (own.as_str(), named.filter(same).collect())
        })
        .collect();
    let reach: BTreeMap<&str, BTreeSet<&str>> =
        names.iter().map(|name| (*name, reached(name, &edges))).collect();
    let mut largest: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for name in &names {
        let circle: BTreeSet<&str> =
            reach[name].iter().filter(|other| reach[*other].contains(name)).copied().collect();
        let so_far = largest.entry(first(name)).or_default();
        if circle.len() > so_far.len() {
            *so_far = circle;
        }
    }
    let mut broken = Vec::new();
    for (folder, circle) in largest {
        if circle.len() > 2 {
            broken.push(format!("{folder}: {} files: {circle:?}", circle.len()));
        }
    }
    assert!(broken.is_empty(), "files that name each other in a circle:\n{}", broken.join("\n"));
}

fn first(module: &str) -> &str {
    module.split("::").next().unwrap_or(module)
}

/// All modules reachable from a module through imports.
fn reached<'a>(from: &'a str, edges: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::new();
    let mut open = vec![from];
    while let Some(next) = open.pop() {
        for other in &edges[next] {
            if seen.insert(*other) {
                open.push(other);
            }
        }
    }
    seen
}

/// The module that a path refers to: its longest prefix that is a file.
fn module<'a>(path: &[String], names: &BTreeSet<&'a str>) -> Option<&'a str> {
    (1..=path.len()).rev().find_map(|n| names.get(path[..n].join("::").as_str()).copied())
}

/// All paths that a file uses, from the root, except re-exports (`pub use`).
fn paths(own: &str, text: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut rest = String::new();
    let mut statement: Option<(bool, String)> = None;
    for line in text.lines() {
        let start = line.trim_start();
        if statement.is_none() {
            let public = start.starts_with("pub");
            let body = start.split_once("use ").filter(|(before, _)| {
                before.is_empty() || (public && before.trim_end().ends_with([')', 'b']))
            });
            match body {
                Some((_, body)) => statement = Some((public, body.to_owned())),
                None => rest.push_str(&(line.to_owned() + "\n")),
            }
        } else if let Some((_, body)) = &mut statement {
            body.push_str(start);
        }
        if let Some((public, body)) = statement.take_if(|(_, body)| body.ends_with(';'))
            && !public
        {
            tree(&mut Vec::new(), body.trim_end_matches(';'), &mut found);
        }
    }
    let mut word = String::new();
    for c in rest.chars().chain([' ']) {
        if is_word(c) || c == ':' {
            word.push(c);
        } else {
            let parts: Vec<String> = word.split("::").map(str::to_owned).collect();
            if parts.len() > 1 {
                found.push(parts);
            }
            word.clear();
        }
    }
    found.sort();
    found.dedup();
    let own: Vec<String> = own.split("::").map(str::to_owned).collect();
    found.into_iter().map(|path| absolute(&own, &path)).collect()
}

/// Expands `a::{b, c::{d}}`.
fn tree(prefix: &mut Vec<String>, text: &str, found: &mut Vec<Vec<String>>) {
    let (mut depth, mut from) = (0, 0);
    let mut parts = Vec::new();
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[from..]);
    for part in parts.into_iter().map(str::trim).filter(|part| !part.is_empty()) {
        let length = prefix.len();
        let (head, inner) = match part.split_once('{') {
            Some((head, inner)) => (head, Some(inner.trim_end_matches('}'))),
            None => (part.split(" as ").next().unwrap_or(part), None),
        };
        prefix.extend(head.split("::").filter(|word| !word.is_empty()).map(str::to_owned));
        match inner {
            Some(inner) => tree(prefix, inner, found),
            None => found.push(prefix.clone()),
        }
        prefix.truncate(length);
    }
}

/// Resolves a path written in module `own` to one from the root.
fn absolute(own: &[String], path: &[String]) -> Vec<String> {
    let ups = path.iter().take_while(|word| *word == "super").count();
    let rest = &path[ups..];
    let base = match path.first().map(String::as_str) {
        Some("crate") => return [&own[..1], &rest[1..]].concat(),
        Some("self") => return [own, &rest[1..]].concat(),
        _ => &own[..own.len().saturating_sub(ups)],
    };
    [base, rest].concat()
}
