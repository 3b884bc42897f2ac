//! `launch`: packages by uv and containers, with programs in their place that note what they were
//! given; and servers that start on demand.

use serde_json::{Value, json};

use super::{AT_MOST, run};
use crate::support::{Bench, Finished, MARK, bin, finish, wait_for};

/// A bench with a program on its PATH that notes its arguments in `NAME.log`.
fn with_program(name: &str, body: &str) -> Bench {
    let bench = Bench::new();
    let (folder, bin) = (bench.path().display().to_string(), bin().display().to_string());
    let body = body.replace("BIN", &bin).replace("FOLDER", &folder);
    let script = format!("#!/bin/sh\necho \"$*\" >> {folder}/{name}.log\n{body}\n");
    let path = bench.write(name, &script);
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("a file of ours");
    bench
}

fn on_path(bench: &Bench, args: &[&str]) -> Finished {
    let mut command = bench.command(args);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", bench.path().display()));
    finish(command, AT_MOST)
}

fn logged_lines(bench: &Bench, name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(bench.path().join(format!("{name}.log")));
    text.unwrap_or_default().lines().map(str::to_owned).collect()
}

const DOCKER: &str = r#"case "$1" in
ps) cat FOLDER/left;;
run) while [ $# -gt 0 ]; do case "$1" in
  --cidfile) printf abc123 > "$2"; shift 2;;
  image:1) shift; exec BIN mock "$@";;
  *) shift;;
  esac; done;;
esac"#;

fn container(bench: &Bench) {
    let script = bench.write("in.mock.json", r#"{"calls": {"fine": {"text": "fine"}}}"#);
    let docker = json!({"image": "image:1", "memory": "512MiB", "cpus": 1.5, "network": "none",
        "mounts": ["/data:/data:ro"]});
    bench.servers(&json!({"boxed": {
        "launch": {"docker": docker}, "args": [script],
        "env": {MARK: bench.mark(), "API_KEY": "hush-hush"},
    }}));
}

#[test]
fn a_container_is_limited_ended_by_its_id_and_what_an_earlier_host_left_is_ended_first() {
    let bench = with_program("docker", DOCKER);
    container(&bench);
    let ours = std::process::id();
    bench.write("left", &format!("dead01 4194999\nbeef02 {ours}\n"));
    let done = on_path(&bench, &["call", "boxed.fine"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let said = logged_lines(&bench, "docker");
    let entry = said[0].split("mcpdeck.entry=").nth(1).expect("by its label");
    let entry = entry.split(' ').next().unwrap();
    assert!(said[0].starts_with("ps ") && said[1] == "kill dead01", "{said:?}");
    assert_eq!(said.last().unwrap(), "kill abc123", "{said:?}");
    assert_eq!(said.len(), 4, "the container of a host that lives is left alone: {said:?}");
    let (start, rest) = said[2].split_once("--cidfile ").unwrap();
    let (file, rest) = rest.split_once(' ').unwrap();
    let (label, rest) = rest.split_once(" --security-opt ").unwrap();
    assert_eq!(start, "run --init --rm -i ");
    assert!(!std::path::Path::new(file).exists(), "{file} is gone");
    let (of, host) = label.split_once(" --label mcpdeck.host=").unwrap();
    assert_eq!(of, format!("--label mcpdeck.entry={entry}"));
    assert!(host.parse::<u32>().is_ok(), "{host}");
    let script = bench.path().join("in.mock.json");
    let expected = format!(
        "no-new-privileges --cpus 1.5 --memory 536870912b --network none --volume /data:/data:ro \
         --env {MARK} --env API_KEY image:1 {}",
        script.display()
    );
    assert_eq!(rest, expected);
}

/// An engine that keeps its containers, a line each, whatever becomes of the program that ran them.
const ENGINE: &str = r#"cd FOLDER
case "$1" in
ps) cat containers;;
kill) grep -v "^$2 " containers > rest; mv rest containers;;
run) id=$(printf %012x $$)
  while [ $# -gt 0 ]; do case "$1" in
  --cidfile) printf $id > "$2"; shift 2;;
  mcpdeck.host=*) { cat containers; echo "$id ${1#*=}"; } > "seen.$$"; cp "seen.$$" containers; shift;;
  image:1) shift; exec BIN mock "$@";;
  *) shift;;
  esac; done;;
esac"#;

/// E22
#[test]
fn a_container_whose_host_was_killed_is_ended_by_the_next_start_and_there_is_never_a_second() {
    let bench = with_program("docker", ENGINE);
    container(&bench);
    let script = json!({"calls": {"fine": {"text": "fine"}, "long": [{"wait": "forever"}]}});
    bench.write("in.mock.json", &script.to_string());
    let containers = bench.write("containers", "");
    let count = || std::fs::read_to_string(&containers).unwrap_or_default().lines().count();
    let mut command = bench.command(&["call", "boxed.long"]);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", bench.path().display()));
    let mut host = command.spawn().expect("the program starts");
    wait_for("the container", AT_MOST, || (count() == 1).then_some(()));
    host.kill().expect("SIGKILL");
    host.wait().expect("a child of ours");
    assert_eq!(count(), 1, "an engine knows nothing of hosts");
    let done = on_path(&bench, &["call", "boxed.fine"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(count(), 0);
    let files = std::fs::read_dir(bench.path()).expect("its folder").flatten();
    let seen = files.filter(|file| file.file_name().to_string_lossy().starts_with("seen."));
    let seen: Vec<String> =
        seen.map(|file| std::fs::read_to_string(file.path()).expect("a file")).collect();
    assert_eq!(seen.len(), 2);
    assert!(seen.iter().all(|seen| seen.lines().count() == 1), "{seen:?}");
}

#[test]
fn the_command_line_of_a_container_is_what_is_approved() {
    let bench = with_program("docker", DOCKER);
    container(&bench);
    let shown = on_path(&bench, &["trust"]).stdout;
    for word in ["docker", "no-new-privileges", "{cidfile}", "image:1", "--env API_KEY"] {
        assert!(shown.contains(word), "{word}: {shown}");
    }
    assert!(logged_lines(&bench, "docker").is_empty(), "nothing ran");
}

#[test]
fn a_package_is_run_by_uvx_with_its_version() {
    let uvx = r#"shift 3; exec BIN mock "$@""#;
    let bench = with_program("uvx", uvx);
    let script = bench.write("in.mock.json", r#"{"calls": {"fine": {"text": "fine"}}}"#);
    let entry = |more: Value| {
        let mut entry = json!({"launch": {"uv": "some-server==1.2"}, "args": [script],
            "env": {MARK: bench.mark()}});
        entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        entry
    };
    bench.servers(&json!({"a": entry(json!({})), "b": entry(json!({"command": "other-name"}))}));
    for (server, program) in [("a", "some-server"), ("b", "other-name")] {
        let done = on_path(&bench, &["call", &format!("{server}.fine")]);
        assert_eq!(done.code, Some(0), "{done:?}");
        let line = format!("--from some-server==1.2 {program} {}", script.display());
        assert_eq!(logged_lines(&bench, "uvx").last(), Some(&line));
    }
    bench.servers(&json!({"a": {"launch": {}}}));
    let refused = bench.run(&["config"], AT_MOST);
    assert!(refused.stderr.contains("`launch` needs either `uv` or `docker`"), "{refused:?}");
}

#[test]
fn a_server_on_demand_is_listed_without_a_start_and_started_by_a_call() {
    let bench = Bench::new();
    let started = json!({"on": {"start": {"writeFile": {"path": "started", "text": "x"}}},
        "tools": [{"name": "fine", "inputSchema": {"type": "object"}}],
        "calls": {"fine": {"text": "fine"}}});
    let more = json!({"start": "onDemand", "idleStop": 60});
    bench.servers(&json!({"lazy": bench.mock("lazy", &started, &more)}));
    let marker = bench.path().join("started");
    let lists = || run(&bench, &["list", "--json"]).json()["servers"][0].clone();
    let first = lists();
    assert!(marker.exists(), "what nothing is known of starts: {first}");
    std::fs::remove_file(&marker).unwrap();
    let later = lists();
    assert!(!marker.exists(), "its lists are those of its last session");
    assert_eq!((&later["state"], &later["tools"]), (&json!("sleeping"), &first["tools"]));
    let done = run(&bench, &["call", "lazy.fine"]);
    assert!(done.code == Some(0) && marker.exists(), "{done:?}");
    // Without a last session its definitions are those of the lock file.
    std::fs::remove_file(&marker).unwrap();
    std::fs::remove_dir_all(bench.path().join(".state")).unwrap();
    let locked = run(&bench, &["--check", "--lock"]);
    assert!(marker.exists() && bench.path().join("mcp.lock.json").exists(), "{locked:?}");
    std::fs::remove_file(&marker).unwrap();
    let listed = lists();
    assert!(!marker.exists(), "nothing was started: {listed}");
    assert_eq!(listed["tools"][0]["name"], "fine");
}
