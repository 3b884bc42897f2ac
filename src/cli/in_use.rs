//! Files that a command reads or that the program keeps: none of them is a place for output.
//!
//! What every option that names a file for output is checked by, before any work.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use super::args::{AskArgs, Cli, Common, Verb};
use super::load;
#[cfg(feature = "bench")]
use ::bench::file::TESTS_FILE;
use ::check::expect;
use ::deck::{LOCK_FILE, POLICY_FILE, SAVED_CALLS_FILE};
use base::SafeText;
use base::atomic::resolved;
use config::Environment;

/// Most files of the state folder that are compared.
const MAX_STATE_FILES: usize = 20_000;
/// Folders of the state folder in which the program keeps something.
const STATE_FOLDERS: &str =
    "audit backups chats connections definitions gateway inputs policy services tokens trust";

const CONFIGURATION: &str = "the configuration";
#[cfg(feature = "bench")]
const TESTS: &str = "the file of tests";
const EXPECTATIONS: &str = "the file of expectations";
const LOCK: &str = "the lock file";
const RECORDING: &str = "the recording that is read";

/// Files in use, each with what it is.
#[derive(Debug, Default)]
pub struct FilesInUse(Vec<(&'static str, PathBuf)>);

impl FilesInUse {
    /// Those of every command: the configuration, what lies beside it, and what the program keeps.
    pub fn of_common(common: &Common) -> Self {
        let env = load::environment(common).unwrap_or_else(|_| Environment::of_process());
        let mut out = Self::default();
        let files: Vec<PathBuf> =
            load::files(common, &env).iter().map(|file| env.absolute(file)).collect();
        for file in &files {
            out.add(CONFIGURATION, file);
            out.add("the policy", &file.with_file_name(POLICY_FILE));
        }
        out.add_all("the file of --env-file", &common.env_file);
        let beside = files.last().cloned().unwrap_or_else(|| env.cwd.join("mcp.json"));
        for (what, name) in [
            (EXPECTATIONS, expect::FILE),
            (LOCK, LOCK_FILE),
            ("the file of saved calls", SAVED_CALLS_FILE),
        ] {
            out.add(what, &beside.with_file_name(name));
        }
        out.add("the file of saved answers", &::deck::Answers::path_beside(&beside));
        #[cfg(feature = "bench")]
        out.add_tests(&beside.with_file_name(TESTS_FILE));
        out.add_state(&env);
        out
    }

    /// Adds the files that an operation reads: scripted answers, and arguments in a file.
    pub fn add_operation(&mut self, ask: &AskArgs, words: &[String]) {
        self.add_all("the file of --answers", ask.answers.iter());
        let named = words.first().and_then(|word| word.strip_prefix('@'));
        self.add_all("the file of arguments", named.map(Path::new));
    }

    /// Adds what options of every command write.
    pub fn add_outputs(&mut self, common: &Common) {
        self.add_all("the log file", &common.log_file);
        self.add_all("the new recording", &common.record);
    }

    fn add(&mut self, what: &'static str, file: &Path) {
        self.0.push((what, file.to_owned()));
    }

    fn add_all(&mut self, what: &'static str, files: impl IntoIterator<Item = impl AsRef<Path>>) {
        files.into_iter().for_each(|file| self.add(what, file.as_ref()));
    }

    #[cfg(feature = "bench")]
    fn add_tests(&mut self, file: &Path) {
        self.add(TESTS, file);
        self.add("the file of snapshots", &file.with_extension("snapshots.json"));
    }

    /// Adds what the program keeps for the user: its state, settings and keys.
    fn add_state(&mut self, env: &Environment) {
        let kept = |path: &Path| path.extension().is_some_and(|end| end == "json" || end == "key");
        let own = env.own_config_dir();
        for folder in [env.state_dir.as_ref(), own.as_ref()].into_iter().flatten() {
            let files = entries(folder).filter(|path| path.is_file() && kept(path));
            files.for_each(|file| self.add("a file of the program's state", &file));
        }
        let Some(state) = &env.state_dir else { return };
        let mut folders: VecDeque<PathBuf> =
            STATE_FOLDERS.split(' ').map(|name| state.join(name)).collect();
        while let Some(folder) = folders.pop_front() {
            for path in entries(&folder) {
                if self.0.len() >= MAX_STATE_FILES {
                    return;
                }
                match path.symlink_metadata() {
                    Ok(meta) if meta.is_dir() => folders.push_back(path),
                    Ok(_) => self.add("a file of the program's state", &path),
                    Err(_) => {}
                }
            }
        }
    }

    /// Refuses a file for output that is one of these, under whatever name; `option` names it.
    ///
    /// # Errors
    /// Names both files.
    pub fn check(&self, option: &str, path: &Path) -> Result<(), String> {
        self.check_except(option, path, None)
    }

    fn check_except(
        &self,
        option: &str,
        path: &Path,
        own: Option<&'static str>,
    ) -> Result<(), String> {
        // A device or a pipe keeps nothing that could be lost.
        if path.metadata().is_ok_and(|meta| !meta.is_file() && !meta.is_dir()) {
            return Ok(());
        }
        let identity = FileIdentity::at(path);
        let others = self.0.iter().filter(|(what, _)| Some(*what) != own);
        for (what, used) in others {
            if FileIdentity::at(used) == identity {
                let shown = SafeText::line(&path.display().to_string());
                let used = SafeText::line(&used.display().to_string());
                return Err(format!(
                    "{option} {shown}: it is {what} {used}; name another file; nothing was done"
                ));
            }
        }
        Ok(())
    }
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> {
    std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}

/// Which file a path names: two names of one file are equal.
#[derive(Debug)]
struct FileIdentity {
    path: PathBuf,
    /// Device and inode of a regular file: it may have several names.
    #[cfg(unix)]
    node: Option<(u64, u64)>,
}

impl FileIdentity {
    fn at(path: &Path) -> Self {
        let target = resolved(path);
        let in_real_folder = || {
            let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
            let folder = folder.unwrap_or(Path::new(".")).canonicalize().ok()?;
            Some(folder.join(target.file_name()?))
        };
        let path = target.canonicalize().ok().or_else(in_real_folder);
        #[cfg(unix)]
        let node = {
            use std::os::unix::fs::MetadataExt as _;
            let meta = target.metadata().ok().filter(std::fs::Metadata::is_file);
            meta.map(|meta| (meta.dev(), meta.ino()))
        };
        Self {
            path: path.unwrap_or(target),
            #[cfg(unix)]
            node,
        }
    }
}

impl PartialEq for FileIdentity {
    fn eq(&self, other: &Self) -> bool {
        #[cfg(unix)]
        if self.node.is_some() && self.node == other.node {
            return true;
        }
        self.path == other.path
    }
}

/// A file that an option names for output.
struct Output {
    option: &'static str,
    path: PathBuf,
    /// What it is, where the command reads it too.
    own: Option<&'static str>,
}

/// Refuses a command that would write to a file in use, or to one file for two options.
///
/// # Errors
/// Names both files.
pub fn check_outputs(cli: &Cli) -> Result<(), String> {
    let outputs = outputs(cli);
    if outputs.is_empty() {
        return Ok(());
    }
    let mut used = FilesInUse::of_common(&cli.common);
    add_read(&mut used, cli);
    for Output { option, path, own } in outputs {
        used.check_except(option, &path, own)?;
        used.add("written by another option too:", &path);
    }
    Ok(())
}

/// The files that options name for output. That of `call` and `read` is checked where a refusal is
/// printed as their object.
fn outputs(cli: &Cli) -> Vec<Output> {
    let mut out = Vec::new();
    let mut add = |option, path: &Path, own| {
        out.push(Output { option, path: path.to_owned(), own });
    };
    for (option, file) in [("--log-file", &cli.common.log_file), ("--record", &cli.common.record)] {
        if let Some(file) = file {
            add(option, file, None);
        }
    }
    let reports = |formats: &[String]| -> Vec<PathBuf> {
        let files = formats.iter().filter_map(|text| text.split_once('='));
        files.filter(|(_, file)| !file.is_empty()).map(|(_, file)| file.into()).collect()
    };
    match &cli.verb {
        Some(Verb::Scrub(args)) => add("--output", &args.output, None),
        Some(Verb::Report(args)) => add("--output", &args.output, None),
        #[cfg(feature = "bench")]
        Some(Verb::Test(args)) => {
            for file in reports(&args.format) {
                add("--format", &file, None);
            }
            if args.init || args.save {
                let option = if args.init { "--init" } else { "--save" };
                args.file.iter().for_each(|file| add(option, file, Some(TESTS)));
            }
            #[cfg(feature = "chat")]
            args.eval.cassette.iter().for_each(|file| add("--cassette", file, None));
        }
        None if cli.check.check => {
            for file in reports(&cli.check.format) {
                add("--format", &file, None);
            }
            if cli.check.lock {
                let file = cli.check.lock_file.iter();
                file.for_each(|file| add("--lock-file", file, Some(LOCK)));
            }
            if cli.check.init {
                let file = cli.check.expect.iter();
                file.for_each(|file| add("--expect", file, Some(EXPECTATIONS)));
            }
        }
        _ => {}
    }
    out
}

/// Adds the files that the verb reads.
fn add_read(used: &mut FilesInUse, cli: &Cli) {
    match &cli.verb {
        Some(Verb::Call(args)) => used.add_operation(&args.ask, &args.arguments),
        Some(Verb::Read(args)) => used.add_operation(&args.ask, &[]),
        Some(Verb::Prompt(args)) => used.add_operation(&args.ask, &args.arguments),
        Some(Verb::Request(args)) => used.add_operation(&args.ask, &args.params),
        #[cfg(feature = "apps")]
        Some(Verb::App(args)) => used.add_operation(&args.ask, &args.arguments),
        Some(Verb::Scrub(args)) => used.add(RECORDING, &args.file),
        Some(Verb::Report(args)) => used.add(RECORDING, &args.file),
        Some(Verb::Replay(args)) => used.add(RECORDING, &args.file),
        Some(Verb::Open { file }) => used.add(RECORDING, file),
        #[cfg(feature = "chat")]
        Some(Verb::Chat(args)) => {
            used.add_all(RECORDING, &args.replay);
            used.add_all("the file of --answers", &args.answers);
        }
        #[cfg(feature = "bench")]
        Some(Verb::Test(args)) => {
            args.file.iter().for_each(|file| used.add_tests(file));
            used.add_all(RECORDING, &args.from);
            #[cfg(feature = "chat")]
            used.add_all("the report of --compare", &args.eval.compare);
        }
        None => {
            let args = &cli.check;
            used.add_all(EXPECTATIONS, &args.expect);
            used.add_all(LOCK, &args.lock_file);
            used.add_all("the file of saved calls", args.calls.iter().flatten());
            used.add_all("the file of --answers", &args.answers);
        }
        Some(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_in_use_is_no_place_for_output_under_any_of_its_names() {
        let dir = tempfile::tempdir().expect("a folder");
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("mcp.json"), "{}").expect("written");
        std::fs::write(at("same.txt"), "{}").expect("written");
        let mut used = FilesInUse::default();
        used.add(CONFIGURATION, &at("mcp.json"));
        used.add(LOCK, &at("mcp.lock.json"));
        used.check("-o", &at("same.txt")).expect("another file");
        used.check("-o", &at("new")).expect("a new file");
        #[cfg(unix)]
        {
            // Named by another option too.
            used.add(RECORDING, Path::new("/dev/null"));
            used.check("-o", Path::new("/dev/null")).expect("a device");
        }
        let mut names = vec![at("mcp.json"), at("./mcp.json"), at("mcp.lock.json")];
        #[cfg(unix)]
        {
            std::fs::hard_link(at("mcp.json"), at("hard")).expect("linked");
            std::os::unix::fs::symlink(at("mcp.json"), at("soft")).expect("linked");
            std::os::unix::fs::symlink("mcp.lock.json", at("to be made")).expect("linked");
            names.extend(["hard", "soft", "to be made"].map(at));
        }
        for name in names {
            let why = used.check("-o", &name).expect_err(&name.display().to_string());
            let shown = [name.display().to_string(), dir.path().display().to_string()];
            assert!(shown.iter().all(|part| why.contains(part)) && why.contains(".json"), "{why}");
        }
        used.check_except("--lock", &at("mcp.lock.json"), Some(LOCK)).expect("its own");
    }
}
