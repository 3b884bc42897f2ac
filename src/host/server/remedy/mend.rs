//! What mends a server, as steps that can be taken for the user. Pure: an entry, why it is down and
//! what it said, in; changes and command lines, out. Offers nothing that it is not sure to fit.

use std::path::Path;

use serde_json::Value;

use super::sayings::Cure;
use super::{FailureOutput, missing_variable, other_advice, own_advice};
use crate::failure::{AddressAdvice, StartCause};
use base::SafeText;
use base::text::quoted;
use config::{EntryAmendment, ServerConfig, StdioConfig, TransportConfig};
use process::LaunchAdvice;

/// What a server says about a failure, and what is known of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Complaint<'a> {
    /// Lines of the server, oldest first.
    pub lines: &'a [SafeText],
    /// Why it is down, which may quote what it wrote to stdout.
    pub reason: Option<&'a str>,
    /// Why its start failed, if that is why it is down.
    pub cause: Option<&'a StartCause>,
}

/// Something that mends a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mend {
    /// What it does.
    pub words: String,
    /// How.
    pub step: MendStep,
}

/// How a server is mended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MendStep {
    /// Pass it an environment variable.
    PassVariable(String),
    /// Change its entry.
    Change(Vec<EntryAmendment>),
    /// Run a command line with the terminal.
    Run {
        /// The line, for a shell.
        line: String,
        /// Whether the server is started again afterwards.
        starts: bool,
    },
}

/// What mends a server, the likeliest first. Nothing that would show a secret of its entry.
pub fn mends(entry: &ServerConfig, complaint: Complaint<'_>) -> Vec<Mend> {
    let mut mends = Vec::new();
    if let Some(variable) = missing_variable(complaint.lines) {
        let words = format!("add {variable} to \"env\" of its entry");
        mends.push(Mend { words, step: MendStep::PassVariable(variable) });
    }
    match &entry.transport {
        TransportConfig::Stdio(launch) => {
            let place = LaunchPlace { launch, file: &entry.at.file };
            mends.extend(place.by_its_words(complaint));
            if let Some(StartCause::Launch(Some(advice))) = complaint.cause {
                mends.extend(place.by_the_launch(advice));
            }
        }
        TransportConfig::Http(http) | TransportConfig::Sse(http) => {
            if let Some(StartCause::Address(advice)) = complaint.cause {
                mends.extend(address_mends(&http.url, *advice));
            }
        }
        TransportConfig::WebSocket(_) | TransportConfig::OpenApi(_) => {}
    }
    let is_shown = |mend: &Mend| !entry.hidden.iter().any(|one| mend.words.contains(one.expose()));
    mends.retain(is_shown);
    mends
}

fn change(words: impl Into<String>, changes: Vec<EntryAmendment>) -> Mend {
    Mend { words: words.into(), step: MendStep::Change(changes) }
}

fn run(line: String) -> Mend {
    Mend { words: format!("run `{line}`"), step: MendStep::Run { line, starts: true } }
}

fn look(words: impl Into<String>, line: impl Into<String>) -> Mend {
    Mend { words: words.into(), step: MendStep::Run { line: line.into(), starts: false } }
}

fn set(key: &str, value: impl Into<Value>) -> EntryAmendment {
    EntryAmendment::Set { path: vec![key.to_owned()], value: Some(value.into()) }
}

fn insert(at: usize, texts: &[&str]) -> EntryAmendment {
    let inserted = texts.iter().map(|text| (*text).to_owned()).collect();
    EntryAmendment::Arguments { at, removed: Vec::new(), inserted }
}

fn replace(at: usize, removed: &str, inserted: Option<&str>) -> EntryAmendment {
    let inserted = inserted.into_iter().map(str::to_owned).collect();
    EntryAmendment::Arguments { at, removed: vec![removed.to_owned()], inserted }
}

/// How a server is launched, and the file that says so.
#[derive(Clone, Copy)]
struct LaunchPlace<'a> {
    launch: &'a StdioConfig,
    file: &'a Path,
}

impl<'a> LaunchPlace<'a> {
    /// The program that is launched, if it is one that is known here.
    fn program(self) -> &'static str {
        let stem = Path::new(&self.launch.command).file_stem().and_then(|stem| stem.to_str());
        let stem = stem.unwrap_or_default();
        let is_python = |rest: &str| rest.chars().all(|c| c.is_ascii_digit() || c == '.');
        if stem.strip_prefix("python").is_some_and(is_python) {
            return "python";
        }
        PROGRAMS.iter().find(|known| **known == stem).copied().unwrap_or_default()
    }

    fn argument(self, at: usize) -> &'a str {
        self.launch.args.get(at).map_or("", String::as_str)
    }

    /// The first argument that names a file with one of these extensions, and its index.
    fn script(self, extensions: &[&str]) -> Option<(usize, &'a str)> {
        let is_script = |(_, arg): &(usize, &String)| {
            let end = Path::new(arg.as_str()).extension().and_then(|end| end.to_str());
            end.is_some_and(|end| extensions.contains(&end))
        };
        let found = self.launch.args.iter().enumerate().find(is_script);
        found.map(|(at, arg)| (at, arg.as_str()))
    }

    /// The folder of a Node.js project, by the script that is started: npm looks for its package
    /// from there upwards.
    fn project(self) -> Option<String> {
        if !["node", "npm", "npx", "tsx", "bun", "ts-node"].contains(&self.program()) {
            return None;
        }
        let start = self.launch.cwd.as_deref().or_else(|| self.file.parent())?;
        let script =
            self.script(&["js", "mjs", "cjs", "ts", "mts"]).map(|(_, arg)| start.join(arg));
        let folder = script.as_deref().and_then(Path::parent).unwrap_or(start);
        Some(folder.display().to_string())
    }

    /// What mends it by what it says itself.
    fn by_its_words(self, complaint: Complaint<'_>) -> Vec<Mend> {
        let (stderr, junk) = (complaint.lines, complaint.reason);
        let words = FailureOutput { exit: None, stderr, junk, was_ready: false };
        let Some(known) = own_advice(words).or_else(|| other_advice(words)) else {
            return Vec::new();
        };
        self.cure(known.cure, &known.name).into_iter().collect()
    }

    fn cure(self, cure: Cure, name: &str) -> Option<Mend> {
        let program = self.program();
        match cure {
            Cure::None => None,
            Cure::InstallPackages => self.in_project("npm install"),
            Cure::RebuildModules => self.in_project("npm rebuild"),
            Cure::BuildProject => self.build(name),
            Cure::InstallModule => self.with_package(package_of(name)),
            Cure::OlderSdk => self.with_package("mcp<2"),
            Cure::NewerPython => self.uv_option(&["--python", "3.13"]),
            Cure::AgreeToInstall => {
                let asks = program == "npx" && !["-y", "--yes"].contains(&self.argument(0));
                asks.then(|| change("put \"-y\" first in \"args\"", vec![insert(0, &["-y"])]))
            }
            Cure::SilenceNpm => {
                let is_npm = ["npm", "pnpm", "yarn"].contains(&program);
                let is_loud = is_npm && self.argument(0) != "--silent";
                let words = "put \"--silent\" first in \"args\"";
                is_loud.then(|| change(words, vec![insert(0, &["--silent"])]))
            }
            Cure::SetVariable(key, value) => {
                let path = vec!["env".to_owned(), key.to_owned()];
                let set = EntryAmendment::Set { path, value: Some(value.into()) };
                let words = format!("set {key} to \"{value}\" in \"env\" of its entry");
                (!self.launch.env.contains_key(key)).then(|| change(words, vec![set]))
            }
            Cure::RunTypeScript => {
                let is_first =
                    self.script(&["ts", "mts", "cts", "tsx"]).is_some_and(|(at, _)| at == 0);
                let changes = vec![set("command", "npx"), insert(0, &["-y", "tsx"])];
                let fits = program == "node" && is_first;
                fits.then(|| change("start it with `npx -y tsx` instead of node", changes))
            }
            Cure::NoTerminal => self.without_terminal(),
            Cure::StartEngine => match (program, cfg!(target_os = "macos")) {
                ("docker", true) => Some(run("open -a Docker".to_owned())),
                ("podman", true) => Some(run("podman machine start".to_owned())),
                ("docker", false) if cfg!(target_os = "linux") => {
                    Some(run("systemctl start docker".to_owned()))
                }
                _ => None,
            },
            Cure::SignInDocker => Some(run("docker login".to_owned())),
            Cure::SignInNpm => Some(run("npm login".to_owned())),
            Cure::RemoveContainer => {
                let engine = ["docker", "podman"].contains(&program).then_some(program)?;
                Some(run(format!("{engine} rm -f {}", quoted(name))))
            }
            Cure::ShowPort => (!name.is_empty()).then(|| {
                let line =
                    format!("lsof -nP -iTCP:{name} -sTCP:LISTEN || ss -ltnp 'sport = :{name}'");
                look(format!("see which process has port {name}"), line)
            }),
            Cure::ShowDisks => Some(look("see how full the disks are (`df -h`)", "df -h")),
            Cure::MakeFolder => self.make_folder(name),
            Cure::AllowDeno => {
                let run = self.launch.args.iter().position(|arg| arg == "run");
                let at = run.filter(|_| program == "deno")? + 1;
                let words = format!("put \"{name}\" before the script in \"args\"");
                Some(change(words, vec![insert(at, &[name])]))
            }
            Cure::NameAuthority => {
                let is_node = ["node", "npx", "npm", "tsx", "bun"].contains(&program);
                let key = if is_node { "NODE_EXTRA_CA_CERTS" } else { "SSL_CERT_FILE" };
                let words = format!("add {key} to \"env\" of its entry");
                let step = MendStep::PassVariable(key.to_owned());
                (!self.launch.env.contains_key(key)).then_some(Mend { words, step })
            }
        }
    }

    fn in_project(self, command: &str) -> Option<Mend> {
        let folder = self.project()?;
        let line = format!("cd {} && {command}", quoted(&folder));
        let words = format!("run `{command}` in {folder}");
        Some(Mend { words, step: MendStep::Run { line, starts: true } })
    }

    /// Builds the project of a script that is not there, if it lies where builds are put.
    fn build(self, missing: &str) -> Option<Mend> {
        const BUILD_FOLDERS: [&str; 4] = ["dist", "build", "out", "lib"];
        let (_, script) = self.script(&["js", "mjs", "cjs"])?;
        let is_script = Path::new(missing).file_name() == Path::new(script).file_name();
        let folder = self.project().filter(|_| self.program() == "node" && is_script)?;
        let is_build = |part: &Path| {
            part.file_name()
                .and_then(|name| name.to_str())
                .is_some_and(|n| BUILD_FOLDERS.contains(&n))
        };
        let above = Path::new(&folder).ancestors().take(3).find(|part| is_build(part))?.parent()?;
        let folder = above.display().to_string();
        let line = format!("cd {} && npm install && npm run build", quoted(&folder));
        let words = format!("run `npm install` and `npm run build` in {folder}");
        Some(Mend { words, step: MendStep::Run { line, starts: true } })
    }

    /// Adds a Python package to what runs the server.
    fn with_package(self, package: &str) -> Option<Mend> {
        if self.program() != "python" {
            return self.uv_option(&["--with", package]);
        }
        let python = quoted(&self.launch.command);
        let cwd = self.launch.cwd.as_deref().or_else(|| self.file.parent())?;
        // A relative path of the interpreter starts where the server does.
        let to_folder =
            if self.launch.command.contains('/') && !self.launch.command.starts_with('/') {
                format!("cd {} && ", quoted(&cwd.display().to_string()))
            } else {
                String::new()
            };
        Some(run(format!("{to_folder}{python} -m pip install {}", quoted(package))))
    }

    /// Gives uv an option.
    fn uv_option(self, option: &[&str]) -> Option<Mend> {
        let at = match self.program() {
            "uvx" => 0,
            "uv" => self.launch.args.iter().position(|arg| arg == "run")? + 1,
            _ => return None,
        };
        let words = format!("put \"{}\" into \"args\"", option.join("\", \""));
        Some(change(words, vec![insert(at, option)]))
    }

    fn without_terminal(self) -> Option<Mend> {
        let is_terminal = |arg: &&str| ["-it", "-ti", "-t", "--tty"].contains(arg);
        let mut args = self.launch.args.iter().map(String::as_str).enumerate();
        let (at, flag) = args.find(|(_, arg)| is_terminal(arg))?;
        let rest = flag.contains('i').then_some("-i");
        let words = match rest {
            Some(rest) => format!("write \"{rest}\" instead of \"{flag}\" in \"args\""),
            None => format!("take \"{flag}\" out of \"args\""),
        };
        Some(change(words, vec![replace(at, flag, rest)]))
    }

    /// Makes a folder that an argument names.
    fn make_folder(self, missing: &str) -> Option<Mend> {
        let names = |arg: &String| {
            let is_mount = || arg.split(&[':', '=', ','][..]).any(|part| part == missing);
            arg == missing || is_mount()
        };
        let is_file = Path::new(missing).extension().is_some();
        let is_named = Path::new(missing).is_absolute() && self.launch.args.iter().any(names);
        (is_named && !is_file).then(|| run(format!("mkdir -p {}", quoted(missing))))
    }

    /// What mends it by why it could not be launched at all.
    fn by_the_launch(self, advice: &LaunchAdvice) -> Vec<Mend> {
        let executable = |file: &String| run(format!("chmod +x {}", quoted(file)));
        match advice {
            LaunchAdvice::SplitCommand { program, rest } => {
                // Only a shell would know where an argument with these ends.
                if rest.contains(['"', '\'', '\\']) {
                    return Vec::new();
                }
                let rest: Vec<&str> = rest.split_whitespace().collect();
                let words =
                    format!("write \"{program}\" as its \"command\" and the rest as \"args\"");
                vec![change(words, vec![insert(0, &rest), set("command", &**program)])]
            }
            LaunchAdvice::UseInterpreter { interpreter, file } => {
                let changes =
                    vec![insert(0, &[&self.launch.command]), set("command", &**interpreter)];
                let with = change(format!("start it with {interpreter}"), changes);
                std::iter::once(with).chain(file.as_ref().map(executable)).collect()
            }
            LaunchAdvice::MakeExecutable { file } => vec![executable(file)],
            LaunchAdvice::Rename { name, .. } => {
                let words = format!("write \"{name}\" as its \"command\"");
                vec![change(words, vec![set("command", &**name)])]
            }
            LaunchAdvice::WorkingDirectory { is_missing } => {
                let unset = EntryAmendment::Set { path: vec!["cwd".to_owned()], value: None };
                let words = "take \"cwd\" out: it then starts in the folder of the file";
                let made = self.launch.cwd.as_deref().filter(|_| *is_missing);
                let made =
                    made.map(|cwd| run(format!("mkdir -p {}", quoted(&cwd.display().to_string()))));
                std::iter::once(change(words, vec![unset])).chain(made).collect()
            }
        }
    }
}

/// What mends an address that does not answer as a server does.
fn address_mends(url: &url::Url, advice: AddressAdvice) -> Vec<Mend> {
    let begins = |removed: &str, inserted: &str| {
        let change_scheme = EntryAmendment::Address {
            is_end: false,
            removed: removed.to_owned(),
            inserted: inserted.to_owned(),
        };
        change(format!("write {inserted} instead of {removed} in its \"url\""), vec![change_scheme])
    };
    match advice {
        AddressAdvice::UseHttp => vec![begins("https://", "http://")],
        AddressAdvice::UseHttps => vec![begins("http://", "https://")],
        AddressAdvice::OtherPath => other_paths(url),
        AddressAdvice::Proxy
        | AddressAdvice::StartServer
        | AddressAdvice::CorrectHost
        | AddressAdvice::Rights
        | AddressAdvice::Wait
        | AddressAdvice::AskOperator
        | AddressAdvice::Unreachable => Vec::new(),
    }
}

/// The other usual paths of an endpoint.
fn other_paths(url: &url::Url) -> Vec<Mend> {
    if url.query().is_some() || url.fragment().is_some() {
        return Vec::new();
    }
    let path = url.path();
    let ends = |removed: &str, inserted: &str| {
        let kind = if inserted == "/sse" { "sse" } else { "http" };
        let mut address = url.clone();
        address.set_path(&format!("{}{inserted}", path.strip_suffix(removed).unwrap_or(path)));
        let end = EntryAmendment::Address {
            is_end: true,
            removed: removed.to_owned(),
            inserted: inserted.to_owned(),
        };
        let spoken = if kind == "sse" { "HTTP+SSE" } else { "Streamable HTTP" };
        let words = format!("try the path {} ({spoken})", address.path());
        change(words, vec![end, set("type", kind)])
    };
    let last = if path.ends_with('/') { "/" } else { "" };
    if path.trim_end_matches('/').ends_with("/sse") {
        vec![ends(&format!("/sse{last}"), "/mcp")]
    } else if path.trim_end_matches('/').ends_with("/mcp") {
        vec![ends(&format!("/mcp{last}"), "/sse")]
    } else {
        vec![ends(last, "/mcp"), ends(last, "/sse")]
    }
}

/// Programs that are told apart.
const PROGRAMS: [&str; 14] = [
    "node", "npm", "npx", "pnpm", "yarn", "tsx", "ts-node", "bun", "deno", "uv", "uvx", "docker",
    "podman", "java",
];

/// The package of a Python module that is called otherwise.
fn package_of(module: &str) -> &str {
    let known = MODULE_PACKAGES.iter().find(|(name, _)| *name == module);
    known.map_or(module, |(_, package)| package)
}

const MODULE_PACKAGES: [(&str, &str); 10] = [
    ("PIL", "pillow"),
    ("bs4", "beautifulsoup4"),
    ("cv2", "opencv-python"),
    ("dateutil", "python-dateutil"),
    ("docx", "python-docx"),
    ("dotenv", "python-dotenv"),
    ("fitz", "PyMuPDF"),
    ("serial", "pyserial"),
    ("sklearn", "scikit-learn"),
    ("yaml", "PyYAML"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn launched(command: &str, args: &[&str]) -> ServerConfig {
        let mut entry = ServerConfig::stdio("s", command, args.iter().copied());
        entry.at.file = "/srv/mcp.json".into();
        entry
    }

    /// What is offered, by the words of a server.
    fn offered(entry: &ServerConfig, stderr: &str) -> Vec<Mend> {
        let lines: Vec<SafeText> = stderr.lines().map(SafeText::line).collect();
        mends(entry, Complaint { lines: &lines, ..Complaint::default() })
    }

    fn arguments(at: usize, removed: &[&str], inserted: &[&str]) -> EntryAmendment {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        EntryAmendment::Arguments { at, removed: owned(removed), inserted: owned(inserted) }
    }

    fn env(key: &str, value: &str) -> EntryAmendment {
        let path = vec!["env".to_owned(), key.to_owned()];
        EntryAmendment::Set { path, value: Some(value.into()) }
    }

    #[test]
    fn what_a_program_says_leads_to_the_change_of_its_entry() {
        let npx_asks = "npm error npx canceled due to missing packages and no YES option: [\"x\"]";
        let ts = "TypeError [ERR_UNKNOWN_FILE_EXTENSION]: Unknown file extension \".ts\" for /s.ts";
        let sdk = "ImportError: cannot import name 'FastMCP' from 'mcp.server' (/x/__init__.py)";
        let deno = "error: Uncaught (in promise) NotCapable: Requires net access to \"api.example:443\", run again with the --allow-net flag";
        for (command, args, said, changes) in [
            ("npx", &["some-server"][..], npx_asks, vec![arguments(0, &[], &["-y"])]),
            (
                "node",
                &["src/server.ts", "--port"],
                ts,
                vec![set("command", "npx"), arguments(0, &[], &["-y", "tsx"])],
            ),
            (
                "docker",
                &["run", "-it", "--rm", "image"],
                "the input device is not a TTY",
                vec![arguments(1, &["-it"], &["-i"])],
            ),
            (
                "docker",
                &["run", "-i", "--tty", "image"],
                "the input device is not a TTY",
                vec![arguments(2, &["--tty"], &[])],
            ),
            ("uvx", &["a-server"], sdk, vec![arguments(0, &[], &["--with", "mcp<2"])]),
            (
                "uv",
                &["--directory", "/s", "run", "a"],
                "ModuleNotFoundError: No module named 'yaml'",
                vec![arguments(3, &[], &["--with", "PyYAML"])],
            ),
            (
                "uvx",
                &["a"],
                "  Because the current Python version (3.8.18) does not satisfy Python>=3.10 and",
                vec![arguments(0, &[], &["--python", "3.13"])],
            ),
            (
                "npm",
                &["run", "start"],
                "> weather@1.0.0 start",
                vec![arguments(0, &[], &["--silent"])],
            ),
            (
                "node",
                &["s.js"],
                "[dotenv@17.2.0] injecting env (3) from .env",
                vec![env("DOTENV_CONFIG_QUIET", "true")],
            ),
            (
                "node",
                &["s.js"],
                "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory",
                vec![env("NODE_OPTIONS", "--max-old-space-size=4096")],
            ),
            ("deno", &["run", "s.ts"], deno, vec![arguments(1, &[], &["--allow-net"])]),
        ] {
            let found = offered(&launched(command, args), said);
            let found = found.into_iter().find_map(|mend| match mend.step {
                MendStep::Change(changes) => Some(changes),
                MendStep::PassVariable(_) | MendStep::Run { .. } => None,
            });
            assert_eq!(found, Some(changes), "{command} {args:?}: {said}");
        }
    }

    #[test]
    fn what_a_program_says_leads_to_the_command_that_mends_it() {
        let module = "ModuleNotFoundError: No module named 'dotenv'";
        let other_node = "Error: The module '/s/x.node'\nwas compiled against a different Node.js version using\nNODE_MODULE_VERSION 108.";
        let name = "docker: Error response from daemon: Conflict. The container name \"/mcp-db\" is already in use by container \"0123\".";
        for (command, args, said, line) in [
            ("python3", &["s.py"][..], module, "python3 -m pip install python-dotenv"),
            (
                ".venv/bin/python",
                &["s.py"],
                module,
                "cd /srv && .venv/bin/python -m pip install python-dotenv",
            ),
            (
                "/usr/bin/python3.12",
                &["-m", "my_server"],
                "/usr/bin/python3.12: No module named my_server",
                "/usr/bin/python3.12 -m pip install my_server",
            ),
            (
                "node",
                &["app/dist/index.js"],
                "Error: Cannot find module '/srv/app/dist/index.js'",
                "cd /srv/app && npm install && npm run build",
            ),
            (
                "node",
                &["app/index.js"],
                "Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'zod' imported from /srv/app/index.js",
                "cd /srv/app && npm install",
            ),
            ("node", &["app/index.js"], other_node, "cd /srv/app && npm rebuild"),
            (
                "node",
                &["fs.js", "/data/notes"],
                "Error: ENOENT: no such file or directory, scandir '/data/notes'",
                "mkdir -p /data/notes",
            ),
            (
                "docker",
                &["run", "-v", "/data/my notes:/notes:ro", "image"],
                "docker: Error response from daemon: invalid mount config for type \"bind\": bind source path does not exist: /data/my notes.",
                "mkdir -p '/data/my notes'",
            ),
            ("docker", &["run", "--name", "mcp-db", "image"], name, "docker rm -f mcp-db"),
            (
                "node",
                &["s.js"],
                "Error: listen EADDRINUSE: address already in use :::3000",
                "lsof -nP -iTCP:3000 -sTCP:LISTEN || ss -ltnp 'sport = :3000'",
            ),
            (
                "python",
                &["s.py"],
                "OSError: [Errno 98] error while attempting to bind on address ('127.0.0.1', 8000): address already in use",
                "lsof -nP -iTCP:8000 -sTCP:LISTEN || ss -ltnp 'sport = :8000'",
            ),
            ("node", &["s.js"], "Error: ENOSPC: no space left on device, write", "df -h"),
        ] {
            let found = offered(&launched(command, args), said);
            let found = found.into_iter().find_map(|mend| match mend.step {
                MendStep::Run { line, .. } => Some(line),
                MendStep::PassVariable(_) | MendStep::Change(_) => None,
            });
            assert_eq!(found.as_deref(), Some(line), "{command} {args:?}: {said}");
        }
    }

    #[test]
    fn nothing_is_offered_that_does_not_fit_the_entry() {
        for (command, args, said) in [
            (
                "npx",
                &["-y", "x"][..],
                "npm error npx canceled due to missing packages and no YES option",
            ),
            ("deno", &["run", "--allow-net", "x"], "Unknown file extension \".ts\""),
            (
                "node",
                &["fs.js", "/data"],
                "Error: ENOENT: no such file or directory, open '/etc/x'",
            ),
            (
                "node",
                &["fs.js", "/data/a.db"],
                "Error: ENOENT: no such file or directory, open '/data/a.db'",
            ),
            ("docker", &["run", "-i", "image"], "the input device is not a TTY"),
            ("java", &["-jar", "s.jar"], "Cannot find package 'zod' imported from x"),
            ("node", &["s.js"], "docker: The container name \"/--all\" is already in use"),
            ("./server", &[], "ModuleNotFoundError: No module named 'x'"),
        ] {
            assert_eq!(offered(&launched(command, args), said), [], "{command} {args:?}: {said}");
        }
        // A secret of the entry is not shown.
        let mut entry = launched("node", &["fs.js", "/data/hunter2-folder"]);
        entry.hidden.push(base::Secret::new("hunter2".to_owned()));
        let said = "Error: ENOENT: no such file or directory, scandir '/data/hunter2-folder'";
        assert_eq!(offered(&entry, said), []);
    }

    #[test]
    fn a_variable_is_passed_however_its_lack_is_told() {
        for said in [
            "Error: GITHUB_TOKEN is not set",
            "KeyError: 'GITHUB_TOKEN'",
            "Error: Please provide GITHUB_TOKEN",
            "Missing required environment variable: GITHUB_TOKEN",
            "Error: environment variable `GITHUB_TOKEN` not found",
            "thread 'main' panicked at src/main.rs:3: GITHUB_TOKEN must be set: NotPresent",
            "Error: GITHUB_TOKEN environment variable is empty",
            "Fatal: you must set GITHUB_TOKEN",
        ] {
            let found = offered(&launched("node", &["s.js"]), said);
            let passes = MendStep::PassVariable("GITHUB_TOKEN".to_owned());
            assert_eq!(found.first().map(|mend| &mend.step), Some(&passes), "{said}");
        }
        let found = offered(&launched("./s", &[]), "Error: environment variable TOKEN not found");
        assert_eq!(found[0].step, MendStep::PassVariable("TOKEN".to_owned()));
        let said = "Error: self-signed certificate in certificate chain";
        let passed = |command| offered(&launched(command, &["x"]), said)[0].step.clone();
        assert_eq!(passed("npx"), MendStep::PassVariable("NODE_EXTRA_CA_CERTS".to_owned()));
        assert_eq!(passed("uvx"), MendStep::PassVariable("SSL_CERT_FILE".to_owned()));
    }

    /// What is offered when it cannot be launched.
    fn refused(entry: &ServerConfig) -> Vec<Mend> {
        let TransportConfig::Stdio(launch) = &entry.transport else { panic!("no process") };
        let advice = process::resolve(launch).err().expect("refused").advice;
        let cause = StartCause::Launch(advice);
        let cause = Some(&cause);
        mends(entry, Complaint { cause, ..Complaint::default() })
    }

    #[cfg(unix)]
    #[test]
    fn what_cannot_be_launched_is_mended_in_its_entry() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("server.py");
        std::fs::write(&file, "print()").unwrap();
        std::fs::write(folder.path().join("tool"), "#!/bin/sh\n").unwrap();
        let entry = |command: &str, args: &[&str]| {
            let mut entry = launched(command, args);
            if let TransportConfig::Stdio(launch) = &mut entry.transport {
                launch.cwd = Some(folder.path().to_owned());
            }
            entry
        };
        let steps = |entry: &ServerConfig| -> Vec<MendStep> {
            refused(entry).into_iter().map(|mend| mend.step).collect()
        };
        let split = vec![arguments(0, &[], &["-y", "pkg"]), set("command", "npx")];
        assert_eq!(steps(&entry("npx -y pkg", &[])), [MendStep::Change(split)]);
        let near = vec![set("command", "./tool")];
        let found = steps(&entry("tool", &[]));
        assert_eq!(found, [MendStep::Change(near)], "a file of the folder");
        let with = vec![arguments(0, &[], &["./server.py"]), set("command", "python3")];
        let line = format!("chmod +x {}", folder.path().join("./server.py").display());
        let found = steps(&entry("./server.py", &[]));
        assert_eq!(found, [MendStep::Change(with), MendStep::Run { line, starts: true }]);
        let mut lost = entry("sh", &[]);
        if let TransportConfig::Stdio(launch) = &mut lost.transport {
            launch.cwd = Some(folder.path().join("gone"));
        }
        let line = format!("mkdir -p {}", folder.path().join("gone").display());
        let unset = EntryAmendment::Set { path: vec!["cwd".to_owned()], value: None };
        let made = MendStep::Run { line, starts: true };
        assert_eq!(steps(&lost), [MendStep::Change(vec![unset]), made]);
        // The directory is named, and is not what is wrong.
        assert_eq!(steps(&entry("./no-such-file", &[])), []);
        let mut unset = entry("./no-such-file", &[]);
        if let TransportConfig::Stdio(launch) = &mut unset.transport {
            launch.cwd = None;
        }
        assert_eq!(steps(&unset), []);
        // The first line of a script is not its entry.
        let script = folder.path().join("script");
        std::fs::write(&script, "#!/usr/bin/env pythonn\n").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&script, mode).unwrap();
        assert_eq!(steps(&entry("./script", &[])), []);
    }

    #[test]
    fn an_address_is_tried_at_the_other_usual_paths() {
        let ends = |removed: &str, inserted: &str, kind: &str| {
            let (removed, inserted) = (removed.to_owned(), inserted.to_owned());
            let change = EntryAmendment::Address { is_end: true, removed, inserted };
            MendStep::Change(vec![change, set("type", kind)])
        };
        let offered = |url: &str, advice: AddressAdvice| -> Vec<MendStep> {
            let url = url::Url::parse(url).unwrap();
            address_mends(&url, advice).into_iter().map(|mend| mend.step).collect()
        };
        let gone = AddressAdvice::OtherPath;
        assert_eq!(offered("http://h:1/mcp", gone), [ends("/mcp", "/sse", "sse")]);
        assert_eq!(offered("http://h:1/a/sse/", gone), [ends("/sse/", "/mcp", "http")]);
        let both = [ends("/", "/mcp", "http"), ends("/", "/sse", "sse")];
        assert_eq!(offered("http://h:1", gone), both);
        assert_eq!(offered("http://h:1/mcp?key=1", gone), []);
        assert_eq!(offered("http://h:1/mcp", AddressAdvice::Rights), []);
        let change = EntryAmendment::Address {
            is_end: false,
            removed: "https://".to_owned(),
            inserted: "http://".to_owned(),
        };
        let plain = [MendStep::Change(vec![change])];
        assert_eq!(offered("https://h:1/mcp", AddressAdvice::UseHttp), plain);
    }
}
