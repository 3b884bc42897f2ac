//! What runtimes, package runners and programs say when they fail, each with what to do, and with the
//! step that mends it where one does. Data, and the search in it.

use std::sync::LazyLock;

use regex::{Regex, RegexBuilder};

use base::SafeText;

/// Maximum length of a name repeated in a help text, in bytes.
const MAX_NAME_BYTES: usize = 200;
/// Codes and words of the system for what cannot be reached.
const UNREACHABLE: &str = r"\b(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH)\b|name or service not known|temporary failure in name resolution|nodename nor servname|getaddrinfo failed|failed to lookup address|connection refused|no route to host|network is unreachable|no such host|actively refused";

/// What mends it; the names are those of the groups of the saying.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cure {
    /// Only a person can.
    None,
    /// Install the packages of a Node.js project.
    InstallPackages,
    /// Install and build a Node.js project.
    BuildProject,
    /// Build its native modules anew.
    RebuildModules,
    /// Install a Python module.
    InstallModule,
    /// An older Python SDK.
    OlderSdk,
    /// A newer Python.
    NewerPython,
    /// Let npx install.
    AgreeToInstall,
    /// Have npm print no banner.
    SilenceNpm,
    /// A variable with a value.
    SetVariable(&'static str, &'static str),
    /// Run TypeScript.
    RunTypeScript,
    /// Take the terminal of a container away.
    NoTerminal,
    /// Start the container engine.
    StartEngine,
    /// Sign in at the registry of images, or of packages.
    SignInDocker,
    SignInNpm,
    /// Remove the container with a name.
    RemoveContainer,
    /// Show who has a port.
    ShowPort,
    /// Show which disks are full.
    ShowDisks,
    /// Make a folder.
    MakeFolder,
    /// Give Deno a right.
    AllowDeno,
    /// Name the authority of certificates.
    NameAuthority,
}

/// A pattern of output, the help for it, and what mends it.
type SayingRow = (&'static str, &'static str, Cure);

struct Saying {
    words: Regex,
    fix: &'static str,
    cure: Cure,
}

/// What is known of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Advice {
    /// What to do, in words.
    pub(super) help: String,
    /// The step that does it.
    pub(super) cure: Cure,
    /// What the line names: a package, a program, a path, a port; empty if nothing.
    pub(super) name: String,
}

fn compiled(table: &[SayingRow]) -> Vec<Saying> {
    let saying = |(words, fix, cure): &SayingRow| {
        let words = RegexBuilder::new(words).case_insensitive(true).build().ok()?;
        Some(Saying { words, fix, cure: *cure })
    };
    table.iter().filter_map(saying).collect()
}

static CAUSES: LazyLock<Vec<Saying>> = LazyLock::new(|| compiled(SAYINGS));
static ERROR_LINE_CAUSES: LazyLock<Vec<Saying>> = LazyLock::new(|| compiled(ERROR_LINE_SAYINGS));
static GENERAL_CAUSES: LazyLock<Vec<Saying>> = LazyLock::new(|| compiled(GENERAL_SAYINGS));
static REACHABLE: LazyLock<Vec<Saying>> =
    LazyLock::new(|| compiled(&[(UNREACHABLE, NO_PEER, C::None)]));
static NODE_VERSION: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^Node\.js (v\d+\.\d+\.\d+)$").ok());

/// The advice for a line that says what went wrong; `node` is the version that runs it.
pub(super) fn cause(line: &str, node: Option<&str>) -> Option<Advice> {
    let node =
        node.map_or_else(|| "the Node.js that runs it".to_owned(), |it| format!("Node.js {it}"));
    let mut advice = first_of(&CAUSES, line)?;
    advice.help = advice.help.replace("{node}", &node);
    Some(advice)
}

/// The advice for the error line alone: warnings contain the same words.
pub(super) fn error_line_cause(line: &str) -> Option<Advice> {
    first_of(&ERROR_LINE_CAUSES, line)
}

/// The advice for a line that says only in which direction it lies.
pub(super) fn general_cause(line: &str) -> Option<Advice> {
    first_of(&GENERAL_CAUSES, line).or_else(|| first_of(&REACHABLE, line))
}

/// Whether there is help for a line.
pub(super) fn is_known(line: &str) -> bool {
    CAUSES.iter().any(|saying| saying.words.is_match(line))
}

/// Whether a line says that something could not be reached.
pub(super) fn is_unreachable(line: &str) -> bool {
    REACHABLE.iter().any(|saying| saying.words.is_match(line))
}

/// The version of Node.js, as it prints it after an error.
pub(super) fn node_version(lines: &[SafeText]) -> Option<&str> {
    let version = NODE_VERSION.as_ref()?;
    let found = lines.iter().rev().find_map(|line| version.captures(line.trim()))?;
    found.get(1).map(|version| version.as_str())
}

fn first_of(table: &[Saying], line: &str) -> Option<Advice> {
    table.iter().find_map(|Saying { words, fix, cure }| {
        let found = words.captures(line)?;
        let name = found.iter().skip(1).flatten().next().map_or("", |name| name.as_str());
        let is_short = name.len() <= MAX_NAME_BYTES;
        let advice =
            || Advice { help: fix.replace("{}", name), cure: *cure, name: name.to_owned() };
        is_short.then(advice)
    })
}

use Cure as C;

const NO_PACKAGE: &str =
    "there is no such package: check its name in `args`, its scope (@name/) too";
const NO_REGISTRY: &str =
    "npm cannot reach its registry: check the network and the proxy, or install the package first";
const NO_PEER: &str = "it cannot reach what it works with: check the network, the proxy, and the \
                       address and credentials in its `env`";
const OLD_NODE: &str = "{node} is too old for it: install a newer one, or name a newer `node` by its \
                        path (its documentation says which)";
const NO_COMPILER: &str = "a part of it has to be compiled, and that failed: take a version that is \
                           built for this system, or install what its output asks for (a compiler, \
                           headers)";
const OTHER_BUILD: &str = "a compiled part of it is missing, or built for another Node.js: install \
                           it again with the one that runs it (`npm rebuild`; for npx, remove its \
                           folder in ~/.npm/_npx)";
const OLD_PYTHON: &str = "the Python that runs it is too old for it: name a newer one (`uvx --python \
                          3.13 ...`, or the python of a newer virtual environment)";
const NEW_PYTHON: &str = "the Python that runs it no longer has `{}`: name an older one (`uvx \
                          --python 3.11 ...`), or take a newer version of the server";
const NOT_ON_PATH: &str =
    "`{}` is not on the PATH that the server gets: install it, or set PATH in the entry's `env`";
const NO_FILE: &str = "there is no {}: correct the path in its `args` or `env`, or create it; \
                       relative paths start in `cwd`, the folder of the configuration when it is \
                       not set";
const NOT_ALLOWED: &str = "it may not use {}: change its owner or mode, or name another place in \
                           `args` or `env`";
const NO_TRUST: &str = "it does not trust the certificate that it is shown (a company's proxy may \
                        put in its own): name the file of that authority in its `env`, as \
                        NODE_EXTRA_CA_CERTS for Node.js and npm, as SSL_CERT_FILE for Python and uv";
const NO_PROXY: &str = "its proxy does not answer, or refuses: correct HTTP_PROXY and HTTPS_PROXY in \
                        its `env`, or put the host into NO_PROXY";
const NO_ACCESS: &str = "what it works with refuses its credentials: check those in its `env`";
const NO_MEMORY: &str = "it ran out of memory: give it less to do, or more (Node.js: \"env\": { \
                         \"NODE_OPTIONS\": \"--max-old-space-size=4096\" })";
const TAKEN_PORT: &str = "another process has its port: end that one, or give this one another";
const NO_IMAGE: &str =
    "there is no such image, or it needs `docker login`: check its name in `args`";
const BAD_ARGUMENTS: &str = "it refuses its arguments: correct `args` of its entry";
const NO_SDK: &str = "it was written for another major version of the Python SDK than the one that \
                      is installed (`{}`): install it with `mcp<2` (`uvx --with 'mcp<2' PACKAGE`), or \
                      a newer version of the server";
const NO_MODULE: &str = "the Python that runs here has no `{}`: install it there (`python -m pip \
                         install`), or set `command` to the Python of the virtual environment that \
                         has it (.venv/bin/python)";
const OTHER_SYSTEM: &str = "the program was built for another system or processor: take the one for \
                            this machine (a script begins with `#!` and its interpreter)";

/// Case-insensitive patterns of server output and their help texts, most specific first. `{}` is
/// replaced by the first group; since servers control that text, groups only match what looks like
/// a package, a program or a path. Each pattern is a sentence that means one thing in any line.
const SAYINGS: &[SayingRow] = &[
    // npm and npx.
    ("^npm (?:error|err!) code e404$", NO_PACKAGE, C::None),
    (
        "^npm (?:error|err!) code e(?:40[13]|needauth)$",
        "the registry refuses: sign in with `npm login`, or check the name of the package",
        C::SignInNpm,
    ),
    (
        "^npm (?:error|err!) code etarget$|^npm (?:error|err!) notarget no matching version",
        "there is no such version of the package: correct what follows the last `@` in `args`",
        C::None,
    ),
    ("^npm (?:error|err!) code (?:self_signed|unable_to|depth_zero|cert_)", NO_TRUST, C::None),
    (
        "^npm (?:error|err!) code (?:e(?:notfound|ai_again|timedout|connrefused|connreset|notcached)\
         |err_socket_timeout)$",
        NO_REGISTRY,
        C::None,
    ),
    (
        "^npm (?:error|err!) code (?:enotempty|ecompromised|eexist)$",
        "what npx installed is broken, perhaps because two started at once: remove its folder in \
         ~/.npm/_npx, and start it again",
        C::None,
    ),
    (
        "^npm (?:error|err!) code e(?:acces|perm)$",
        "npm may not write its cache or its folder: make them yours (`sudo chown -R \"$USER\" \
         ~/.npm`)",
        C::None,
    ),
    (
        "^npm (?:error|err!) code eresolve$",
        "its packages want versions that do not fit together: ask its author, or install it with \
         `npm install --legacy-peer-deps` and start that",
        C::None,
    ),
    (
        "^npm (?:error|err!) enoent could not read package\\.json",
        "there is no package.json in its folder: set `cwd` to that of the server",
        C::None,
    ),
    (
        r#"^npm (?:error|err!) missing script: "([\w:.-]+)""#,
        "the package.json in its folder has no script `{}`: is `cwd` that of the server?",
        C::None,
    ),
    (
        "^npm (?:error|err!) code eintegrity$",
        "what npm downloaded is damaged: run `npm cache clean --force`, and start it again",
        C::None,
    ),
    (
        "^npm (?:error|err!) code ebadplatform$",
        "it is not made for this system or processor",
        C::None,
    ),
    (
        "^npm (?:error|err!) code einvalid(?:tagname|packagename)$",
        "this is no name or version of a package: correct it in `args`",
        C::None,
    ),
    (
        r#"^npm (?:error|err!) notsup required: \{"node":"([^"{}`]+)""#,
        "it wants Node.js {}: install that, or name a fitting `node` by its path",
        C::None,
    ),
    (r"^npm (?:error|err!) gyp err!|^gyp err! |prebuild-install err!", NO_COMPILER, C::None),
    (
        "^npm (?:error|err!) .*could not determine executable to run",
        "the package brings no program of its name: check it, or name both: \
         \"args\": [\"-y\", \"-p\", \"PACKAGE\", \"PROGRAM\"]",
        C::None,
    ),
    (
        "canceled due to missing packages and no yes option",
        "npx wanted to ask whether it may install: put \"-y\" first in `args`",
        C::AgreeToInstall,
    ),
    // Node.js, Bun, Deno.
    (
        r"was compiled against a different node\.js version|ERR_DLOPEN_FAILED|could not locate the bindings file|No native build was found for platform=",
        OTHER_BUILD,
        C::RebuildModules,
    ),
    (
        "Cannot find module '(?:[^'{}`]*[/\\\\])?([\\w@.+~ -]+\\.node)'",
        "its compiled part {} was not built or downloaded when it was installed: install it again \
         and let its install scripts run (`npm rebuild`, without `--ignore-scripts`)",
        C::RebuildModules,
    ),
    (
        "Cannot find module '((?:@[\\w.-]+/)?[\\w.-]+-(?:linux|darwin|win32|freebsd)-[\\w-]+)'\
         |Could not load the \"([\\w@/.-]+)\" module using the [\\w-]+ runtime",
        "the part of it that is compiled for this system, `{}`, is missing: install it again on \
         this system, with optional dependencies",
        C::None,
    ),
    (
        r"^SyntaxError: Unexpected token '(?:\?\?=|\|\|=|&&=|\?\?|\?\.|\.|\?|with)'$",
        OLD_NODE,
        C::None,
    ),
    (
        r"^ReferenceError: (?:fetch|File|Headers|FormData|Request|Response|WebSocket|Blob|structuredClone|CustomEvent|AbortController|ReadableStream|TransformStream|crypto) is not defined$",
        OLD_NODE,
        C::None,
    ),
    (
        r"^TypeError: (?:Promise\.withResolvers|Object\.(?:hasOwn|groupBy)|Array\.fromAsync|AbortSignal\.(?:any|timeout)|process\.loadEnvFile|[\w.]+\.(?:at|findLast|toSorted|toReversed|replaceAll)) is not a function$",
        OLD_NODE,
        C::None,
    ),
    (r"requires? (?:at least )?Node(?:\.js)? ?(?:version )?(?:>=? ?|v)?\d", OLD_NODE, C::None),
    (r"^node: bad option: --", OLD_NODE, C::None),
    (r"\[ERR_REQUIRE_ESM\]", OLD_NODE, C::None),
    (r"\[ERR_UNKNOWN_BUILTIN_MODULE\]|No such built-in module: node:", OLD_NODE, C::None),
    (
        "^SyntaxError: Unexpected identifier 'assert'$",
        "it is written for an older Node.js than {node} (`assert` in an import): take a newer \
         version of the server, or an older Node.js",
        C::None,
    ),
    (
        "Cannot find (?:package|module) '[^']*' imported from .*[/\\\\]node_modules[/\\\\]",
        "a file of its own packages is missing: install it again (`npm ci`; for npx, remove its \
         folder in ~/.npm/_npx), or ask its author",
        C::None,
    ),
    (
        "Cannot find package '([\\w@/.+~: ()-]+)'\
         |Error: Cannot find module '([\\w@][\\w@/.+~-]*)'\
         |^error: Cannot find (?:package|module) [\"']([\\w@][\\w@/.+~-]*)[\"'] from",
        "run `npm install` in the server's folder: it has no `{}`",
        C::InstallPackages,
    ),
    (
        "Cannot find module '(\\.{1,2}[/\\\\][\\w@/.+~\\\\ ()-]*)'",
        "its own file {} is missing: is the server built (`npm run build`), and installed \
         completely?",
        C::BuildProject,
    ),
    (
        "Cannot find module '((?:[/.\\\\]|\\w:\\\\)[\\w@/.+~:\\\\ ()-]*)'\
         |can't open file '([\\w@/.+~:\\\\ ()-]+)'.*No such file\
         |Module not found \"(?:file://)?([\\w@/.+~:\\\\ ()-]+)\"",
        "there is no {}: relative paths start in `cwd`, which is the folder of the configuration \
         when it is not set; is the server built?",
        C::BuildProject,
    ),
    (
        "unknown file extension \"\\.ts\"|SyntaxError: Missing initializer in const declaration\
         |ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX",
        "node does not run TypeScript: build it and name the .js file, or start it with \
         `npx -y tsx FILE`",
        C::RunTypeScript,
    ),
    (
        "cannot use import statement outside a module",
        "add \"type\": \"module\" to the server's package.json, or name the file .mjs",
        C::None,
    ),
    (
        "require is not defined in es module scope",
        "its package.json says \"type\": \"module\": use import, or name the file .cjs",
        C::None,
    ),
    (
        r"(?:Requires|No) \w+ access.*(--allow-\w+)",
        "Deno does not let it: put \"{}\" before the file in `args`",
        C::AllowDeno,
    ),
    // Python and uv.
    (
        "'(?:Server|FastMCP|MCPServer)' object has no attribute '(\\w+)'\
         |No module named 'mcp\\.([\\w.]+)'(?:$|\\. This is mcp)\
         |cannot import name '(\\w+)' from 'mcp[\\w.]*'",
        NO_SDK,
        C::OlderSdk,
    ),
    ("requires a different Python: ", OLD_PYTHON, C::NewerPython),
    (r"^TypeError: unsupported operand type\(s\) for \|: 'type' and ", OLD_PYTHON, C::NewerPython),
    (
        r"^ImportError: cannot import name '\w+' from '(?:typing|datetime|enum|asyncio|contextlib)'",
        OLD_PYTHON,
        C::NewerPython,
    ),
    (
        r"^ModuleNotFoundError: No module named '(?:tomllib|zoneinfo|graphlib|annotationlib)'$",
        OLD_PYTHON,
        C::NewerPython,
    ),
    (
        "^ModuleNotFoundError: No module named '(distutils|imp|cgi|asyncore|asynchat|pipes|telnetlib)'$",
        NEW_PYTHON,
        C::None,
    ),
    (
        r"cannot import name '(\w+)' from .*site-packages",
        "two of its Python packages do not fit together (`{}` is missing): install it again, with \
         the versions that it names",
        C::None,
    ),
    (
        r"^ModuleNotFoundError: No module named '(src|app|server|main|tools|utils|lib|config|common)'$",
        "its own folder `{}` is not found: start it in its project (`cwd`, or PYTHONPATH in `env`), \
         or install the project",
        C::None,
    ),
    (
        // Anchored at the end, because some packages append advice that is better than this. A dot
        // means that the package is there.
        r"ModuleNotFoundError: No module named '([\w-]+)'$|python[\d.]*(?:\.exe)?: No module named ([\w-]+)$",
        NO_MODULE,
        C::InstallModule,
    ),
    (
        r"ModuleNotFoundError: No module named '(\w[\w-]*\.[\w.-]+)'$",
        "what is installed has no `{}`: another version of that package is wanted, or one that adds \
         to it; install the server again, with the versions that it names",
        C::None,
    ),
    (
        r"python[\d.]*(?:\.exe)?: No module named ([\w-]+)\.__main__;",
        "`python -m {}` is no program: name the module or the program that its documentation names",
        C::None,
    ),
    (
        "attempted relative import with no known parent package",
        "a file of a package was started by itself: write \"args\": [\"-m\", \"PACKAGE.MODULE\"], \
         with `cwd` the folder above it",
        C::None,
    ),
    (
        "^error: failed to spawn: ",
        "uv does not find what it should run: give it the project, \
         \"args\": [\"--directory\", \"FOLDER\", \"run\", ...]",
        C::None,
    ),
    (
        "^error: No `?pyproject\\.toml`? found",
        "uv finds no project: give it the folder, \
         \"args\": [\"--directory\", \"FOLDER\", \"run\", ...]",
        C::None,
    ),
    (
        "could not find a pyproject\\.toml|could not find `Cargo\\.toml`|go\\.mod file not found",
        "its project is not where it starts: set `cwd` to the folder of the project",
        C::None,
    ),
    (
        "was not found in the package registry",
        "there is no such package: check its name in `args`",
        C::None,
    ),
    (
        "there is no version of [\\w.-]+(?:\\[[\\w,]*\\])?==|only the following versions of \\S+ are available",
        "there is no such version of the package: correct it in `args`",
        C::None,
    ),
    (
        r"does not satisfy Python\s*([><=~!\d.,]+)",
        "it needs Python {}: name one (`uvx --python VERSION ...`, or `--python` of `uv run`)",
        C::NewerPython,
    ),
    (
        r"no interpreter found for Python ([\d.><=~]+)",
        "uv finds no Python {}: install it (`uv python install`), or name another",
        C::None,
    ),
    (
        "^An executable named .* is not provided by package",
        "the package brings no program of its name: name both: \
         \"args\": [\"--from\", \"PACKAGE\", \"PROGRAM\"]",
        C::None,
    ),
    ("invalid peer certificate", NO_TRUST, C::None),
    (
        "^error: (?:Failed to fetch|Request failed after)|^error: Could not connect, are you offline",
        "uv cannot reach the index of packages: check the network and the proxy, or install the \
         package first",
        C::None,
    ),
    (
        r"^(?:error: )?Failed to (?:build|download and build) `|pg_config executable not found|Failed building wheel for",
        NO_COMPILER,
        C::None,
    ),
    (
        "Using SOCKS proxy, but the '?socksio'? package",
        "a variable names a SOCKS proxy, which it cannot use: set ALL_PROXY to \"\" in its `env`, or \
         install the package that it names",
        C::None,
    ),
    // Programs that are missing, or do not run here.
    (
        r"^(?:/usr/bin/)?env: .*\\r['’]?: No such file|\$'\\r': command not found",
        "its file has the line ends of Windows: save it with those of Unix (`dos2unix`)",
        C::None,
    ),
    (
        "^(?:/usr/bin/)?env: ['‘`]?([\\w.+/-]+)['’`]?: No such file\
         |^(?:\\S+: )?(?:line )?(?:\\d+: )?([\\w.+/-]+): (?:command )?not found$\
         |^(?:zsh|bash)[\\w:.]*(?: line \\d+:)? command not found: ([\\w.+/-]+)$\
         |\\bspawn ([\\w.+/-]+) ENOENT\
         |^'([\\w.+/-]+)' is not recognized as an internal or external command",
        NOT_ON_PATH,
        C::None,
    ),
    (
        r"^(?:\S+: )?(?:line )?(?:\d+: )?(\.{0,2}/[\w@/.+~-]+|[\w.+-]+\.\w+): Permission denied$",
        "{} is not executable: run `chmod +x` on it, or name its interpreter as `command`",
        C::None,
    ),
    (
        "exec format error|cannot execute binary file|invalid elf header|wrong elf class|bad cpu type",
        OTHER_SYSTEM,
        C::None,
    ),
    (
        r"version `(GLIBC(?:XX)?_[\d.]+)' not found",
        "the program was built for a newer system ({}): take a build for this one",
        C::None,
    ),
    (
        r"(lib[\w.+-]+\.so[\w.]*): cannot open shared object file",
        "the system lacks the library {}: install the package that brings it",
        C::None,
    ),
    // Docker.
    (
        "cannot connect to the docker daemon|failed to connect to the docker api\
         |error during connect: .*docker|cannot connect to podman",
        "start Docker, then try again",
        C::StartEngine,
    ),
    (
        "permission denied while trying to connect to the docker",
        "you may not use Docker: add yourself to the group `docker`, and sign in to the system again",
        C::None,
    ),
    (
        "the input device is not a tty",
        "take `-t` out of `args`: a server needs `docker run -i`, without a terminal",
        C::NoTerminal,
    ),
    ("pull access denied|repository does not exist or may require", NO_IMAGE, C::SignInDocker),
    ("manifest unknown|manifest for \\S+ not found", NO_IMAGE, C::None),
    (
        "no matching manifest for ([\\w/]+)",
        "the image is not built for {}: try \"--platform\", \"linux/amd64\" in `args`, or another \
         image",
        C::None,
    ),
    (
        r#"exec: "([\w.+/-]+)": (?:executable file not found|stat )"#,
        "the image has no program `{}`: correct what follows the image in `args`",
        C::None,
    ),
    (
        "^docker: (?:invalid reference format|open \\S+: no such file)\
         |'\\w+' is not a docker command|docker: unknown command",
        "Docker refuses its arguments: correct `args` of its entry",
        C::None,
    ),
    (
        r#"the container name "/([\w.-]+)" is already in use"#,
        "a container `{}` exists: remove that (`docker rm -f {}`), and take \"--name\" out \
         of `args` or add \"--rm\"",
        C::RemoveContainer,
    ),
    (
        r"bind source path does not exist: ([\w@/.+~: ()-]+?)\.?$",
        "there is no {} to mount: create it, or correct the path in `args`",
        C::MakeFolder,
    ),
    // Java and .NET.
    (
        "UnsupportedClassVersionError|class file version \\d+",
        "the Java that runs it is too old for it: install a newer one, or name it in `command`",
        C::None,
    ),
    (r"Unable to access jarfile ([\w@/.+~:\\ ()-]+)$", NO_FILE, C::None),
    (
        "You must install or update \\.NET to run this application|No frameworks were found",
        "it needs another version of .NET: install the one that its output names",
        C::None,
    ),
    // The memory, the disk, files and ports.
    (
        "JavaScript heap out of memory|Reached heap limit",
        NO_MEMORY,
        C::SetVariable("NODE_OPTIONS", "--max-old-space-size=4096"),
    ),
    (
        "heap out of memory|Reached heap limit|^MemoryError$|OutOfMemoryError|std::bad_alloc|cannot allocate memory|\\bENOMEM\\b",
        NO_MEMORY,
        C::None,
    ),
    (
        "system limit for number of file watchers reached",
        "the system lets it watch no more files: raise fs.inotify.max_user_watches, or let it watch \
         less",
        C::None,
    ),
    (
        "ENOSPC: no space left|No space left on device|\\[Errno 28\\]|disk quota exceeded|database or disk is full",
        "the disk is full: free some space",
        C::ShowDisks,
    ),
    (
        "EMFILE: too many open files|\\[Errno 24\\]",
        "it has too many files open: raise the limit (`ulimit -n`)",
        C::None,
    ),
    (
        "listen EACCES|bind.*permission denied|\\[Errno 13\\] error while attempting to bind",
        "it may not open that port (below 1024 only the administrator may): give it another",
        C::None,
    ),
    (
        r"(?:EACCES|EPERM): [\w ]+, \w+ '([\w@/.+~:\\ ()-]+)'|^PermissionError: \[Errno \d+\] [\w ]+: '([\w@/.+~:\\ ()-]+)'",
        NOT_ALLOWED,
        C::None,
    ),
    (
        r"EROFS: read-only file system, \w+ '([\w@/.+~:\\ ()-]+)'|\[Errno 30\] Read-only file system: '([\w@/.+~:\\ ()-]+)'",
        "{} cannot be written here: name another place in `args` or `env`",
        C::None,
    ),
    (
        r"^(?:\[|Error: )?Error: ENOENT: no such file or directory, (?:open|stat|lstat|access|scandir|opendir|realpath|chdir|readlink) '([\w@/.+~:\\ ()-]+)'",
        NO_FILE,
        C::MakeFolder,
    ),
    (
        r"^Error accessing directory ([\w@/.+~:\\()-]+): ENOENT|Cannot access directory ([\w@/.+~:\\ ()-]+), skipping|No such directory: ([\w@/.+~:\\ ()-]+)$",
        NO_FILE,
        C::MakeFolder,
    ),
    (
        r"^FileNotFoundError: \[Errno 2\] No such file or directory: '([\w@/.+~:\\ ()-]+)'",
        NO_FILE,
        C::MakeFolder,
    ),
    (
        r"(?:EADDRINUSE|address (?:is )?already in use|port is already allocated).*?[:( ](\d{2,5})(?:$|[^\d.])|[:,] ?(\d{2,5})\b.*(?:address already in use|port is already allocated)|\bport (\d{2,5}) (?:was|is) (?:already )?(?:in use|taken)|eaddrinuse|address already in use|port is already allocated|only one usage of each socket address",
        TAKEN_PORT,
        C::ShowPort,
    ),
    // What servers drive and talk to.
    (
        "Executable doesn't exist at .*ms-playwright|browserType\\.launch: Executable doesn't exist",
        "the browser that it drives is not installed: run `npx playwright install chromium`",
        C::None,
    ),
    (
        "Chromium distribution 'chrome' is not found",
        "the browser that it drives is not installed: run `npx playwright install chrome`",
        C::None,
    ),
    (
        "Could not find (?:Chrome|Chromium|Firefox) \\(",
        "the browser that it drives is not installed: run `npx puppeteer browsers install chrome`",
        C::None,
    ),
    (
        "Missing X server or \\$DISPLAY|cannot open display|could not connect to display",
        "it wants a screen: let it work without one (`--headless`), or set DISPLAY in its `env`",
        C::None,
    ),
    (
        "^fatal: not a git repository",
        "it wants a git repository: correct its path in `args`, or `cwd`",
        C::None,
    ),
    (
        "NoCredentialsError|NoRegionError|Could not load credentials from any providers|CredentialsProviderError",
        "it finds no credentials or region of AWS: run `aws configure`, or pass AWS_PROFILE and \
         AWS_REGION in its `env`",
        C::None,
    ),
    (
        "DefaultCredentialsError|Could not load the default credentials",
        "it finds no credentials of Google: run `gcloud auth application-default login`, or pass \
         GOOGLE_APPLICATION_CREDENTIALS in its `env`",
        C::None,
    ),
    (
        "invalid configuration: no configuration has been provided|Invalid kube-config file|Configuration not found.*kube",
        "it finds no cluster: pass KUBECONFIG in its `env`",
        C::None,
    ),
    // Certificates and proxies.
    (
        "SELF_SIGNED_CERT|self[- ]signed certificate|UNABLE_TO_GET_ISSUER_CERT|UNABLE_TO_VERIFY_LEAF|unable to (?:verify the first|get local issuer) certificate|CERTIFICATE_VERIFY_FAILED.*(?:self|issuer)|certificate signed by unknown authority|unable to find valid certification path",
        NO_TRUST,
        C::NameAuthority,
    ),
    (
        "CERT_HAS_EXPIRED|certificate has expired",
        "the certificate of what it connects to has expired: tell who runs that, and check the clock",
        C::None,
    ),
    (
        "ERR_TLS_CERT_ALTNAME_INVALID|Hostname/IP does not match certificate|hostname mismatch, certificate",
        "the certificate of what it connects to is for another name: correct the address in its `env`",
        C::None,
    ),
    (
        "SSL: WRONG_VERSION_NUMBER|ssl3_get_record:wrong version number|http: server gave HTTP response to HTTPS client",
        "what it connects to does not speak TLS: write http:// in the address in its `env`",
        C::None,
    ),
    (
        "ProxyError|Cannot connect to proxy|tunneling socket could not be established|Proxy Authentication Required|ERR_PROXY|Proxy response \\(\\d+\\)",
        NO_PROXY,
        C::None,
    ),
    // What is printed on stdout.
    (
        r"^> [\w@/.-]+@\d[\w.+-]* \w",
        "npm prints its banner on stdout, which is for messages alone: put \"--silent\" first in \
         `args`",
        C::SilenceNpm,
    ),
    (
        r"^\[dotenv@\d",
        "dotenv prints on stdout, which is for messages alone: set DOTENV_CONFIG_QUIET to \"true\" \
         in `env`",
        C::SetVariable("DOTENV_CONFIG_QUIET", "true"),
    ),
    (
        ":: Spring Boot ::",
        "Spring Boot prints its banner on stdout, which is for messages alone: set \
         SPRING_MAIN_BANNER_MODE to \"off\" in `env`, and have it log to stderr",
        C::SetVariable("SPRING_MAIN_BANNER_MODE", "off"),
    ),
    // What it reads and writes.
    (
        r"^\{'(?:jsonrpc|id)'",
        "it prints a Python dictionary, which is not JSON: write json.dumps(...)",
        C::None,
    ),
    (
        r"^HTTP/1\.[01] \d{3}\b",
        "it speaks HTTP on its stdin and stdout: start it yourself and give its address as `url`, or \
         find the option that makes it a stdio server",
        C::None,
    ),
    // Interpreters, and their prompts, that were given messages for commands.
    (
        r"\bid:\d+(?:,jsonrpc:.*)?: (?:command )?not found$",
        "what runs is a shell, which takes messages for commands: name the program of the server in \
         `args` (\"-c\" before a command line)",
        C::None,
    ),
    (
        r"^NameError: name '(?:true|false|null)' is not defined|^Type .help., .copyright.",
        "what runs is the prompt of Python, which takes messages for commands: name the file of the \
         server in `args`, or its module after \"-m\"",
        C::None,
    ),
    (
        "^Welcome to (Node\\.js|Bun|Deno) v|^(Deno|Bun) \\d+\\.\\d+\\.\\d+$|^(SQLite) version \\d\
         |^Welcome to the (MySQL|MariaDB) monitor|^(psql) \\(\\d|^(GNU gdb) ",
        "what runs is the prompt of {}, which takes messages for commands: name the program of the \
         server in `command` and `args`",
        C::None,
    ),
    (
        "content-length header|header:? content-length|^content-length:",
        "it frames its messages as language servers do (`Content-Length`): MCP over stdio is one \
         JSON message on each line",
        C::None,
    ),
    (
        "the following arguments are required|unrecognized arguments|unexpected argument\
         |unknown option|unknown argument|unknown flag|unknown shorthand flag|unrecognized option\
         |flag provided but not defined|no such option|invalid choice: |expected one argument\
         |required option '|missing required argument|missing option '|^error: unknown command\
         |^error: invalid value '|(?:^|\\] )usage: |must specify (?:one of |either )?--",
        BAD_ARGUMENTS,
        C::None,
    ),
];

/// Patterns that are looked for once nothing else is known.
const GENERAL_SAYINGS: &[SayingRow] = &[
    (
        "\\bEBADENGINE +required: \\{ node: '([^'{}`]+)' \\}",
        "it wants Node.js {}: install that, or name a fitting `node` by its path",
        C::None,
    ),
    (
        "status code 40[13]\\b|\\b401 Unauthorized|\\b403 Forbidden|invalid (?:api[ -]?key|access token|credentials)|bad credentials|password authentication failed|authentication failed|access denied for user",
        NO_ACCESS,
        C::None,
    ),
];

/// Patterns for the error line alone.
const ERROR_LINE_SAYINGS: &[SayingRow] = &[
    ("CERTIFICATE_VERIFY_FAILED", NO_TRUST, C::NameAuthority),
    ("407 Proxy|unable to connect to proxy|proxyconnect ", NO_PROXY, C::None),
    (
        r"(?:status(?: ?code)?|HTTP(?: error)?|HTTP/[\d.]+|error|api)\W{1,3}40[13]\b|\b40[13] Client Error|incorrect api key|\binvalid_auth\b|token (?:has|is) expired|invalid_grant",
        NO_ACCESS,
        C::None,
    ),
    (
        r"(?:status(?: code)?|HTTP(?: error)?|HTTP/[\d.]+|error)\W{1,3}429\b|Too Many Requests|rate limit (?:exceeded|reached)",
        "what it works with is asked too often: wait, then try again",
        C::None,
    ),
    (
        r"(?:status(?: code)?|HTTP(?: error)?|HTTP/[\d.]+)\W{1,3}(50[0234])\b|\b(50[0234]) (?:Internal Server Error|Bad Gateway|Service Unavailable|Gateway Time-?out|Server Error)",
        "what it works with fails by itself ({}): try again later",
        C::None,
    ),
    (
        r"(?:status(?: code)?|HTTP(?: error)?|HTTP/[\d.]+)\W{1,3}404\b|\b404 (?:Client Error|Not Found for url)",
        "what it works with has no such address (404): correct the address in its `env` or `args`",
        C::None,
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_is_one() {
        for table in [SAYINGS, GENERAL_SAYINGS, ERROR_LINE_SAYINGS] {
            assert_eq!(compiled(table).len(), table.len());
        }
    }
}
