//! What `.ci/package` makes stands where those who fetch it look.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The manifest's table of this name, its texts by key.
fn table(name: &str) -> BTreeMap<String, String> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let text = std::fs::read_to_string(manifest).expect("a manifest");
    let (_, rest) = text.split_once(&format!("\n[{name}]\n")).expect("a table");
    let lines = rest.lines().take_while(|line| !line.starts_with('['));
    let pairs = lines.filter_map(|line| line.split_once(" = "));
    pairs.map(|(key, value)| (key.to_owned(), value.trim_matches('"').to_owned())).collect()
}

/// A template as `cargo binstall` fills it in; a variable that it does not know fails the test.
fn filled(template: &str, known: &[(&str, &str)]) -> String {
    let mut out = template.to_owned();
    for (name, value) in known {
        out = out.replace(&format!("{{ {name} }}"), value);
    }
    assert!(!out.contains('{'), "{out}");
    out
}

/// Makes the archive for a system of a file that stands for the program; the names in it.
fn archive(target: &str, out: &Path) -> (PathBuf, Vec<String>) {
    let binary = out.join("program");
    std::fs::write(&binary, "program").expect("written");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let run = |command: &mut Command| {
        let done = command.output().expect("python3 runs");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).expect("text")
    };
    let package = root.join(".ci/package");
    let args = ["archive", "--target", target, "--binary"];
    run(Command::new("python3").arg(package).args(args).arg(&binary).arg("--out").arg(out));
    let all = std::fs::read_dir(out).expect("a folder").filter_map(Result::ok);
    let mut found = all.map(|entry| entry.path()).filter(|path| *path != binary);
    let made = found.next().expect("an archive");
    let list = "import sys, shutil; shutil.unpack_archive(sys.argv[1], sys.argv[2])";
    let inside = out.join("inside");
    run(Command::new("python3").args(["-c", list]).arg(&made).arg(&inside));
    let mut names = Vec::new();
    for folder in std::fs::read_dir(&inside).expect("unpacked").filter_map(Result::ok) {
        for file in std::fs::read_dir(folder.path()).expect("a folder").filter_map(Result::ok) {
            let name = file.path().strip_prefix(&inside).expect("within").to_owned();
            names.push(name.to_str().expect("a name").to_owned());
        }
    }
    (made, names)
}

#[test]
fn cargo_binstall_finds_the_archives_and_the_program_in_them() {
    if Command::new("python3").arg("--version").output().is_err() {
        return;
    }
    let settings = table("package.metadata.binstall");
    let windows = table("package.metadata.binstall.overrides.x86_64-pc-windows-msvc");
    for target in ["x86_64-unknown-linux-musl", "aarch64-apple-darwin", "x86_64-pc-windows-msvc"] {
        let is_windows = target.contains("windows");
        let of = |key: &str| windows.get(key).filter(|_| is_windows).or(settings.get(key));
        // The endings that are tried for a format.
        let suffixes: &[&str] = match of("pkg-fmt").map(String::as_str) {
            Some("tgz") => &[".tgz", ".tar.gz"],
            Some("zip") => &[".zip"],
            other => panic!("{other:?} is not made"),
        };
        let (version, out) = (env!("CARGO_PKG_VERSION"), tempfile::tempdir().expect("a folder"));
        let (made, names) = archive(target, out.path());
        let known = |suffix: &'static str| {
            [
                ("name", "mcpdeck"),
                ("repo", "https://forge.example/mcpdeck"),
                ("version", version),
                ("target", target),
                ("bin", "mcpdeck"),
                ("binary-ext", if is_windows { ".exe" } else { "" }),
                ("archive-suffix", suffix),
            ]
        };
        let template = of("pkg-url").expect("an address");
        let mut urls = suffixes.iter().map(|suffix| filled(template, &known(suffix)));
        let name = made.file_name().and_then(|name| name.to_str()).expect("a name");
        let end = format!("/releases/download/v{version}/{name}");
        assert!(urls.any(|url| url.ends_with(&end)), "{end}");
        let program = filled(of("bin-dir").expect("a place"), &known(suffixes[0]));
        assert!(names.contains(&program), "{program} is none of {names:?}");
    }
}

/// The shell installer for this system, made of a program that says its version, with its archive
/// beside it.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn installer(out: &Path) -> PathBuf {
    let binary = out.with_extension("program");
    let says = format!("#!/bin/sh\necho mcpdeck {}\n", env!("CARGO_PKG_VERSION"));
    std::fs::write(&binary, says).expect("written");
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join(".ci/package");
    let base = format!("file://{}", out.display());
    let target = "x86_64-unknown-linux-musl";
    for (format, more) in [
        ("archive", vec!["--target", target, "--binary", binary.to_str().expect("a path")]),
        ("installers", vec!["--base", &base]),
    ] {
        let done = Command::new("python3")
            .arg(&package)
            .arg(format)
            .args(more)
            .arg("--out")
            .arg(out)
            .output();
        let done = done.expect("python3 runs");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
    out.join("install.sh")
}

#[test]
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn the_installer_installs_what_was_published_and_nothing_else() {
    let has = |name: &str| Command::new(name).arg("--version").output().is_ok();
    if !has("python3") || !has("curl") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (out, own) = (folder.path().join("out"), folder.path().join("own"));
    let script = installer(&out);
    let run = |script: &Path| {
        let mut command = Command::new("sh");
        command.arg(script).env("MCPDECK_INSTALL_DIR", &own).output().expect("sh runs")
    };
    // Of a download that was cut short, nothing is done.
    let whole = std::fs::read_to_string(&script).expect("a script");
    let part = folder.path().join("part.sh");
    for lines in 0..whole.lines().count() - 1 {
        let begun: Vec<&str> = whole.lines().take(lines).collect();
        std::fs::write(&part, begun.join("\n")).expect("written");
        run(&part);
        assert!(!own.exists(), "after {lines} lines");
    }
    let done = run(&script);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    let version = format!("installed mcpdeck {} in ", env!("CARGO_PKG_VERSION"));
    assert!(said.starts_with(&version) && own.join("mcpdeck").exists(), "{said}");
    // Another archive in the place of the published one.
    std::fs::remove_dir_all(&own).expect("removed");
    let mut archives = std::fs::read_dir(&out).expect("a folder").flatten().map(|it| it.path());
    let archive = archives.find(|it| it.extension().is_some_and(|end| end == "gz"));
    std::fs::write(archive.expect("an archive"), "something else").expect("written");
    let refused = run(&script);
    assert!(!refused.status.success() && !own.exists());
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(why.contains("is not what was published"), "{why}");
    // A small system has nothing that fetches.
    let few = folder.path().join("few");
    std::fs::create_dir(&few).expect("a folder");
    for name in ["uname", "mktemp", "rm"] {
        let mut places = ["/usr/bin", "/bin"].iter().map(|place| Path::new(place).join(name));
        let found = places.find(|path| path.exists()).expect("a command of every system");
        std::os::unix::fs::symlink(found, few.join(name)).expect("linked");
    }
    let refused = Command::new("/bin/sh").arg(&script).env("PATH", &few).output().expect("sh runs");
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && why.contains("curl or wget is needed"), "{why}");
}

#[test]
fn workflows_run_actions_of_one_commit_and_leave_no_token_in_the_checkout() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(".github/workflows");
    let files = std::fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path());
    let mut actions = 0;
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a workflow");
        for (number, line) in text.lines().enumerate() {
            let Some((_, action)) = line.split_once("uses: ") else { continue };
            let place = format!("{}:{}: {action}", file.display(), number + 1);
            let (_, pin) = action.split_once('@').expect(&place);
            let (commit, version) = pin.split_once(" # v").expect(&place);
            let is_commit = commit.len() == 40 && commit.chars().all(|c| c.is_ascii_hexdigit());
            assert!(is_commit && version.starts_with(|c: char| c.is_ascii_digit()), "{place}");
            let mut below = text.lines().skip(number + 1).take(2);
            let is_bare = !below.any(|line| line.trim() == "persist-credentials: false");
            assert!(!action.starts_with("actions/checkout@") || !is_bare, "{place}");
            actions += 1;
        }
        // What a run is given goes by the environment, never into the text of a script.
        let mut scripts =
            text.lines().filter(|line| line.contains("${{ matrix.") && line.contains("run:"));
        assert_eq!(scripts.next(), None, "{}", file.display());
    }
    assert!(actions > 10, "{actions}");
}

#[test]
fn a_package_says_no_older_c_library_than_its_program_needs() {
    let folder = tempfile::tempdir().expect("a folder");
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join(".ci/package");
    for (needs, is_made) in [("GLIBC_2.34 GLIBC_2.2.5", true), ("GLIBC_2.17 GLIBC_2.35", false)] {
        let binary = folder.path().join("program");
        std::fs::write(&binary, needs).expect("written");
        let mut command = Command::new("python3");
        command.arg(&package).args(["wheel", "--target", "x86_64-unknown-linux-gnu", "--binary"]);
        let Ok(done) = command.arg(&binary).arg("--out").arg(folder.path()).output() else {
            return;
        };
        let why = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.success(), is_made, "{needs}: {why}");
        assert!(is_made || why.contains("needs glibc 2.35"), "{why}");
    }
}

/// What Windows refuses in names of files, and what macOS and Windows take for the same name.
#[test]
fn every_file_can_be_checked_out_on_every_system() {
    let root = env!("CARGO_MANIFEST_DIR");
    let Ok(done) = Command::new("git").args(["-C", root, "ls-files", "-z"]).output() else {
        return;
    };
    let listed = String::from_utf8(done.stdout).expect("names in UTF-8");
    let mut known = BTreeMap::new();
    for file in listed.split('\0').filter(|file| !file.is_empty()) {
        for part in file.split('/') {
            let stem = part.split('.').next().unwrap_or_default().to_ascii_lowercase();
            let is_device = matches!(&*stem, "con" | "prn" | "aux" | "nul")
                || matches!(stem.strip_prefix("com").or(stem.strip_prefix("lpt")),
                    Some(number) if number.len() == 1 && number.parse::<u8>().is_ok());
            let is_odd = part.contains([':', '?', '*', '<', '>', '|', '"', '\\']);
            assert!(!is_device && !is_odd && !part.ends_with(['.', ' ']), "{file}");
        }
        assert!(file.len() <= 150, "{file}");
        if let Some(other) = known.insert(file.to_lowercase(), file) {
            panic!("{file} and {other} differ in case alone");
        }
    }
}
