//! Development mode: only changed sources rebuild and restart a server.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mcpdeck::McpConfig;
use mcpdeck::base::logs::LogSource;
use mcpdeck::base::text::SafeText;
use mcpdeck::config::{DevConfig, StdioConfig, TransportConfig};
use mcpdeck::host::{BuildEnd, DevView, Host, HostView, ServerState, Startup};
use tempfile::TempDir;

use crate::fake::{World, config, name};

/// Waits for a condition of the view, in real time.
async fn until(host: &Host, mut wanted: impl FnMut(&HostView) -> bool) {
    let mut view = host.view();
    let waiting = view.wait_for(|view| wanted(view));
    let seen = tokio::time::timeout(Duration::from_secs(30), waiting).await.map(drop);
    assert!(seen.is_ok(), "it does not happen: {:#?}", host.view().borrow().servers["a"].dev);
}

/// A deck whose server `a` is built from `src`; `b` is not.
struct Bench {
    dir: TempDir,
    world: World,
    host: Host,
}

/// Fake servers with real files and a real clock.
async fn bench(build: Option<&str>) -> Bench {
    bench_with(build, false).await
}

async fn bench_with(build: Option<&str>, poll_only: bool) -> Bench {
    let dir = tempfile::tempdir().expect("a folder");
    let root = dir.path().canonicalize().expect("a path");
    std::fs::create_dir(root.join("src")).expect("made");
    std::fs::write(root.join("src/a.py"), "0").expect("written");
    let world = World::default();
    for server in ["a", "b"] {
        *world.server(server).start.lock().unwrap() = Duration::ZERO;
    }
    let host = world.host(entry(&root, build)).startup(Startup::All).follow_sources(poll_only);
    let host = host.initialize().await.expect("starts");
    until(&host, |view| dev(view).is_some_and(|dev| dev.files > 0)).await;
    Bench { dir, world, host }
}

fn entry(root: &Path, build: Option<&str>) -> McpConfig {
    let mut config = config(&[("a", &[]), ("b", &[])]);
    let a = config.servers.get_mut("a").unwrap();
    if let TransportConfig::Stdio(StdioConfig { cwd, .. }) = &mut a.transport {
        *cwd = Some(root.to_path_buf());
    }
    let words = |script: &str| vec!["/bin/sh".to_owned(), "-c".to_owned(), script.to_owned()];
    a.dev =
        Some(DevConfig { watch: vec!["src/**".to_owned()], build: build.map(words), rerun: false });
    config
}

fn dev(view: &HostView) -> Option<Arc<DevView>> {
    view.servers.get("a")?.dev.clone()
}

impl Bench {
    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().expect("a path").join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).expect("written");
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Waits for a condition of the view of the sources, with the server ready again.
    async fn until(&self, mut wanted: impl FnMut(&DevView) -> bool) -> Arc<DevView> {
        until(&self.host, |view| dev(view).is_some_and(|dev| wanted(&dev))).await;
        dev(&self.host.view().borrow()).expect("it is watched")
    }

    async fn taken(&self, times: u64) {
        self.until(|dev| dev.taken == times).await;
        until(&self.host, |view| view.servers["a"].state == ServerState::Ready).await;
    }

    fn opens(&self) -> (u32, u32) {
        (self.world.server("a").opens(), self.world.server("b").opens())
    }
}

fn alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.trim().starts_with('Z'))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_source_restarts_its_server_and_no_other() {
    let bench = bench(None).await;
    bench.write("src/a.py", "1");
    bench.taken(1).await;
    assert_eq!(bench.opens(), (2, 1));
    let dev = bench.until(|dev| dev.is_taken).await;
    assert_eq!(dev.changed_words().as_str(), "src/a.py");
    bench.host.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn where_nothing_is_reported_sources_are_looked_at_by_the_clock() {
    let bench = bench_with(None, true).await;
    let dev = bench.until(|_| true).await;
    assert!(dev.watch_note.as_ref().is_some_and(|note| note.contains("polled")));
    bench.write("src/a.py", "11");
    bench.taken(1).await;
    bench.host.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_build_runs_before_the_restart_with_its_output_in_the_logs() {
    let bench =
        bench(Some("echo from stdout; echo warning: from stderr >&2; cp src/a.py built")).await;
    bench.write("src/a.py", "1");
    bench.taken(1).await;
    assert_eq!(bench.read("built"), "1");
    let logs = bench.host.logs().read(0, 1000).items;
    let said: Vec<&str> = logs
        .iter()
        .filter(|line| line.source == LogSource::Build)
        .map(|line| line.text.as_str())
        .collect();
    assert!(said.contains(&"from stdout") && said.contains(&"warning: from stderr"), "{said:?}");
    let dev = bench.until(|dev| dev.is_taken).await;
    let build = dev.build.clone().expect("there was a build");
    assert!(matches!(build.end, Some((BuildEnd::Done, _))), "{build:?}");
    bench.host.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_build_leaves_the_server_running_and_says_why() {
    let bench = bench(Some("echo broken beyond repair; test \"$(cat src/a.py)\" = good")).await;
    bench.write("src/a.py", "bad");
    let dev = bench.until(|dev| dev.build.as_ref().is_some_and(|build| build.end.is_some())).await;
    let build = dev.build.clone().expect("a build");
    let Some((BuildEnd::Failed(exit), _)) = &build.end else { panic!("{build:?}") };
    assert_eq!(exit.code, Some(1));
    assert_eq!(build.tail.last().map(SafeText::as_str), Some("broken beyond repair"));
    assert_eq!(bench.opens(), (1, 1), "nothing restarted");
    assert_eq!(bench.host.view().borrow().servers["a"].state, ServerState::Ready);
    bench.write("src/a.py", "good");
    bench.taken(1).await;
    bench.host.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_that_cannot_be_started_says_so() {
    let bench = bench(None).await;
    let mut next = entry(&bench.path(""), Some("x"));
    next.servers.get_mut("a").unwrap().dev.as_mut().unwrap().build =
        Some(vec!["no-such-builder".to_owned()]);
    bench.host.reload(next).await.expect("valid");
    bench.until(|dev| dev.files > 0).await;
    bench.write("src/a.py", "1");
    let dev = bench.until(|dev| dev.build.is_some()).await;
    let dev = if dev.build.as_ref().is_some_and(|b| b.end.is_some()) {
        dev
    } else {
        bench.until(|dev| dev.build.as_ref().is_some_and(|b| b.end.is_some())).await
    };
    let Some((BuildEnd::Refused(reason), _)) = &dev.build.as_ref().unwrap().end else {
        panic!("{dev:?}")
    };
    assert!(reason.contains("command not found: no-such-builder"), "{reason}");
    bench.host.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_change_ends_a_running_build_with_everything_it_started() {
    let script = "echo $$ > pid; sleep 600 & echo $! > child; \
                  if [ \"$(cat src/a.py)\" = slow ]; then echo > waiting; wait; fi; kill $(cat child)";
    let bench = bench(Some(script)).await;
    bench.write("src/a.py", "slow");
    while !bench.path("waiting").exists() {
        tokio::task::yield_now().await;
    }
    let (shell, child) = (bench.read("pid"), bench.read("child"));
    assert!(alive(&shell) && alive(&child));
    bench.write("src/a.py", "quick");
    bench.taken(1).await;
    assert!(!alive(&shell) && !alive(&child), "both are gone before the next build began");
    assert_eq!(bench.opens(), (2, 1), "one restart for both changes");
    bench.host.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_stops_ends_a_running_build_first() {
    let bench = bench(Some("echo $$ > pid; trap '' TERM; sleep 600")).await;
    bench.write("src/a.py", "1");
    while bench.read("pid").is_empty() {
        tokio::task::yield_now().await;
    }
    bench.host.shutdown().await;
    assert!(!alive(&bench.read("pid")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_stopped_by_hand_stays_so_and_a_broken_one_comes_back() {
    let bench = bench(None).await;
    bench.host.stop(&name("a")).await.expect("stops");
    bench.write("src/a.py", "1");
    let dev = bench.until(|dev| dev.note.is_some()).await;
    assert!(dev.note.as_ref().unwrap().contains("stays stopped"), "{dev:?}");
    assert_eq!(bench.opens(), (1, 1));
    bench.host.start(&name("a")).await.expect("starts");
    bench.world.server("a").die(1);
    until(&bench.host, |view| view.servers["a"].state == ServerState::Unavailable).await;
    bench.write("src/a.py", "22");
    bench.taken(1).await;
    assert_eq!(bench.opens(), (3, 1));
    bench.host.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_that_writes_what_is_watched_comes_to_rest() {
    let bench = bench(Some("echo . >> rounds; cp src/a.py src/out.py")).await;
    bench.write("src/a.py", "1");
    bench.until(|dev| dev.changed_words().as_str() == "src/out.py" && dev.is_taken).await;
    // An endless loop would have built again before this manual change was processed.
    bench.write("b", "not a source");
    let rounds = bench.read("rounds").lines().count();
    assert!((2..=3).contains(&rounds), "{rounds}");
    bench.host.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dev_of_a_reloaded_entry_is_followed_and_that_of_a_removed_one_is_not() {
    let bench = bench(None).await;
    std::fs::create_dir(bench.path("lib")).expect("made");
    bench.write("lib/b.py", "0");
    let mut next = entry(&bench.path(""), None);
    next.servers.get_mut("a").unwrap().dev.as_mut().unwrap().watch = vec!["lib/*".to_owned()];
    std::fs::write(bench.path("lib/c.py"), "0").expect("written");
    bench.host.reload(next).await.expect("valid");
    bench.until(|dev| dev.files == 2).await;
    assert_eq!(bench.opens(), (1, 1), "the server itself runs on");
    bench.write("src/a.py", "no source any more");
    bench.write("lib/b.py", "11");
    bench.taken(1).await;
    let dev = bench.until(|_| true).await;
    assert_eq!(dev.changed_words().as_str(), "lib/b.py");
    let mut without = entry(&bench.path(""), None);
    without.servers.get_mut("a").unwrap().dev = None;
    bench.host.reload(without).await.expect("valid");
    until(&bench.host, |view| view.servers["a"].dev.is_none()).await;
    assert_eq!(bench.opens(), (2, 1), "one restart, for the changed source");
    bench.host.shutdown().await;
}
