//! What programs say of failures that one step mends, each with that step, and with a help text for
//! where [`super::sayings`] has none. Data, and the search in it.

use std::sync::LazyLock;

use regex::{Captures, Regex};

/// Maximum length of a name repeated in a help text, in bytes.
const MAX_NAME_BYTES: usize = 200;

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

/// Which lines may say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Where {
    /// Any line.
    Anywhere,
    /// The error line alone: warnings contain the same words.
    ErrorLine,
}

/// A saying that was found.
pub(super) struct Recognized {
    help: &'static str,
    pub(super) cure: Cure,
    /// The first group that took part; empty without groups.
    pub(super) name: String,
}

impl Recognized {
    /// The help text with the name in it.
    pub(super) fn help(&self) -> String {
        self.help.replace("{}", &self.name)
    }
}

/// The most specific saying among the lines; `why` is the error line.
pub(super) fn recognized(lines: &[&str], why: Option<&str>) -> Option<Recognized> {
    SAYINGS.iter().zip(&*PATTERNS).find_map(|((place, _, help, cure), pattern)| {
        let pattern = pattern.as_ref()?;
        let captured = |line: &&str| pattern.captures(line.trim()).map(|found| first_group(&found));
        let name = match place {
            Where::Anywhere => lines.iter().find_map(captured),
            Where::ErrorLine => why.as_ref().and_then(captured),
        }?;
        (name.len() <= MAX_NAME_BYTES).then_some(Recognized { help, cure: *cure, name })
    })
}

/// The patterns of the sayings, in their order.
static PATTERNS: LazyLock<Vec<Option<Regex>>> = LazyLock::new(|| {
    SAYINGS.iter().map(|(_, saying, ..)| Regex::new(&format!("(?i){saying}")).ok()).collect()
});

fn first_group(found: &Captures<'_>) -> String {
    found.iter().skip(1).flatten().next().map_or("", |name| name.as_str()).to_owned()
}

use Cure as C;
use Where::{Anywhere, ErrorLine};

/// Case-insensitive patterns of server output, most specific first. `{}` is replaced by the first
/// group; since servers control that text, groups only match what looks like a package, a program
/// or a path.
const SAYINGS: &[(Where, &str, &str, Cure)] = &[
    // npm and npx.
    (
        Anywhere,
        "^npm (?:error|err!) code e404$",
        "there is no such package: check its name in `args`, its scope (@name/) too",
        C::None,
    ),
    (
        Anywhere,
        "^npm (?:error|err!) code e40[13]$",
        "the registry refuses: sign in with `npm login`, or check the name of the package",
        C::SignInNpm,
    ),
    (
        Anywhere,
        "^npm (?:error|err!) code e(?:notfound|ai_again|timedout|connrefused|connreset|notcached)$",
        "npm cannot reach its registry: check the network and the proxy, or install the package \
         first",
        C::None,
    ),
    (
        Anywhere,
        "^npm (?:error|err!) .*could not determine executable to run",
        "the package brings no program of its name: check it, or name both: \
         \"args\": [\"-y\", \"-p\", \"PACKAGE\", \"PROGRAM\"]",
        C::None,
    ),
    (
        Anywhere,
        "^npm (?:error|err!) missing script: \"?([\\w:.-]+)",
        "its package.json has no script `{}`: correct `args`, or set `cwd` to the folder of the \
         server",
        C::None,
    ),
    (
        Anywhere,
        "^npm (?:error|err!) .*could not read package\\.json|no `?pyproject\\.toml`? found\
         |could not find a pyproject\\.toml|could not find `Cargo\\.toml`|go\\.mod file not found",
        "its project is not where it starts: set `cwd` to the folder of the project",
        C::None,
    ),
    (
        Anywhere,
        r"^> [\w@/.-]+@\d[\w.+-]* \w",
        "npm prints its banner on stdout, which is for messages alone: put \"--silent\" first in \
         `args`",
        C::SilenceNpm,
    ),
    (
        Anywhere,
        r"^\[dotenv@\d",
        "dotenv prints on stdout, which is for messages alone: set DOTENV_CONFIG_QUIET to \"true\" \
         in `env`",
        C::SetVariable("DOTENV_CONFIG_QUIET", "true"),
    ),
    (
        Anywhere,
        ":: Spring Boot ::",
        "Spring Boot prints its banner on stdout, which is for messages alone: set \
         SPRING_MAIN_BANNER_MODE to \"off\" in `env`, and have it log to stderr",
        C::SetVariable("SPRING_MAIN_BANNER_MODE", "off"),
    ),
    // Python.
    (
        Anywhere,
        "'(?:Server|FastMCP|MCPServer)' object has no attribute '(\\w+)'\
         |No module named 'mcp\\.([\\w.]+)'(?:$|\\. This is mcp)\
         |cannot import name '(\\w+)' from 'mcp[\\w.]*'",
        "it was written for another major version of the Python SDK than the one that is installed \
         (`{}`): install it with `mcp<2` (`uvx --with 'mcp<2' PACKAGE`), or a newer version of the \
         server",
        C::OlderSdk,
    ),
    (
        Anywhere,
        r"cannot import name '(\w+)' from .*site-packages",
        "two of its Python packages do not fit together (`{}` is missing): install it again, with \
         the versions that it names",
        C::None,
    ),
    (
        Anywhere,
        r"current Python version \(([\d.]+)\) does not satisfy|requires a different Python: ([\d.]+)",
        "it needs another Python than {}: name one in `command` (for uvx, \"--python\", \"3.13\" \
         first in `args`)",
        C::NewerPython,
    ),
    (
        Anywhere,
        r"No module named [\w.]+\.__main__",
        "the package cannot be started by its name: name the module or the program that starts it",
        C::None,
    ),
    (
        Anywhere,
        "attempted relative import with no known parent package",
        "the file is a part of a package: start it as a module, \"-m\", \"PACKAGE.MODULE\", with \
         `cwd` set to the folder that holds the package",
        C::None,
    ),
    (
        // Anchored at the end, because some packages append advice that is better than this.
        Anywhere,
        r"ModuleNotFoundError: No module named '([\w-]+)[\w.-]*'$|^\S*python[\d.]*(?:\.exe)?: No module named '?([\w-]+)[\w.-]*'?$",
        "the Python that runs here has no `{}`: install it there (`python -m pip install`), or set \
         `command` to the Python of the virtual environment that has it (.venv/bin/python)",
        C::InstallModule,
    ),
    // Node.js.
    (
        Anywhere,
        "was compiled against a different Node\\.js version",
        "its native modules were built for another Node.js: run `npm rebuild` in its folder",
        C::RebuildModules,
    ),
    (
        Anywhere,
        "requires? (?:at least )?Node(?:\\.js)? ?(?:version )?(?:>=? ?|v)?\\d\
         |SyntaxError: Unexpected token '(?:\\?\\?=|\\|\\|=|&&=|\\?|\\.)'\
         |ReferenceError: (?:fetch|Headers|File|FormData|ReadableStream|WebSocket|CustomEvent\
         |structuredClone) is not defined|No such built-in module: node:|^\\S*node: bad option",
        "the Node.js that runs here is too old for it: name a newer one in `command` (`node \
         --version` shows which one it is)",
        C::None,
    ),
    (
        Anywhere,
        "Cannot find (?:package|module) '[^']*' imported from .*[/\\\\]node_modules[/\\\\]",
        "a file of its own packages is missing: install it again (`npm ci`; for npx, remove its \
         folder in ~/.npm/_npx), or ask its author",
        C::None,
    ),
    (
        Anywhere,
        "Cannot find package '([\\w@/.+~: ()-]+)'\
         |Error: Cannot find module '([\\w@][\\w@/.+~-]*)'",
        "run `npm install` in the server's folder: it has no `{}`",
        C::InstallPackages,
    ),
    (
        Anywhere,
        "Cannot find module '((?:[/.\\\\]|\\w:\\\\)[\\w@/.+~:\\\\ ()-]*)'\
         |can't open file '([\\w@/.+~:\\\\ ()-]+)'.*No such file\
         |Unable to access jarfile ([\\w@/.+~:\\\\ ()-]+)\
         |Module not found \"file://([\\w@/.+~: ()-]+)\"",
        "there is no {}: relative paths start in `cwd`, which is the folder of the configuration \
         when it is not set; is the server built?",
        C::BuildProject,
    ),
    (
        Anywhere,
        "^(?:/usr/bin/)?env: ['‘`]?([\\w.+/-]+)['’`]?: No such file\
         |^(?:/bin/)?(?:ba|z|da|a)?sh: (?:line )?(?:\\d+: )?([\\w.+/-]+): (?:command )?not found$",
        "`{}` is not on the PATH that the server gets: install it, or set PATH in the entry's `env`",
        C::None,
    ),
    (
        Anywhere,
        "canceled due to missing packages and no yes option",
        "npx wanted to ask whether it may install: put \"-y\" first in `args`",
        C::AgreeToInstall,
    ),
    (
        Anywhere,
        "unknown file extension \"\\.ts\"|SyntaxError: Missing initializer in const declaration\
         |ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX",
        "node does not run TypeScript: build it and name the .js file, or start it with \
         `npx -y tsx FILE`",
        C::RunTypeScript,
    ),
    (
        Anywhere,
        "cannot use import statement outside a module",
        "add \"type\": \"module\" to the server's package.json, or name the file .mjs",
        C::None,
    ),
    (
        Anywhere,
        "require is not defined in es module scope",
        "its package.json says \"type\": \"module\": use import, or name the file .cjs",
        C::None,
    ),
    (
        Anywhere,
        "JavaScript heap out of memory",
        "Node.js ran out of memory: give it more, NODE_OPTIONS as \"--max-old-space-size=4096\" in \
         `env`",
        C::SetVariable("NODE_OPTIONS", "--max-old-space-size=4096"),
    ),
    (
        Anywhere,
        r"(?:Requires|No) \w+ access.*(--allow-\w+)",
        "Deno lets it do nothing that it is not told: put \"{}\" before the script in `args`",
        C::AllowDeno,
    ),
    (
        Anywhere,
        "UnsupportedClassVersionError",
        "the Java that runs here is too old for it: name a newer one in `command`",
        C::None,
    ),
    (
        Anywhere,
        r"version .?GLIBC(?:XX)?_([\d.]+).? not found",
        "it was built for a newer system (GLIBC {}): use a build for this one, or its container \
         image",
        C::None,
    ),
    // What is printed on stdout.
    (
        Anywhere,
        r"^\{'(?:jsonrpc|id)'",
        "it prints a Python dictionary, which is not JSON: write json.dumps(...)",
        C::None,
    ),
    (
        Anywhere,
        "^content-length:",
        "it frames its messages as language servers do (`Content-Length`): MCP over stdio is one \
         JSON message on each line",
        C::None,
    ),
    // uv.
    (
        Anywhere,
        "error: failed to spawn: ",
        "uv does not find what it should run: give it the project, \
         \"args\": [\"--directory\", \"FOLDER\", \"run\", ...]",
        C::None,
    ),
    (
        Anywhere,
        r"An executable named .?([\w.-]+?).? is not provided by package",
        "the package brings no program `{}`: name both, \"args\": [\"--from\", \"PACKAGE\", \
         \"PROGRAM\"]",
        C::None,
    ),
    (
        Anywhere,
        "was not found in the package registry",
        "there is no such package: check its name in `args`",
        C::None,
    ),
    // Containers.
    (
        Anywhere,
        "cannot connect to the docker daemon|failed to connect to the docker api\
         |error during connect: .*docker|cannot connect to podman",
        "start Docker, then try again",
        C::StartEngine,
    ),
    (
        Anywhere,
        "permission denied while trying to connect to the docker",
        "this user may not use Docker: add it to the group `docker`, and sign in to the system anew",
        C::None,
    ),
    (
        Anywhere,
        "the input device is not a tty",
        "take `-t` out of `args`: a server needs `docker run -i`, without a terminal",
        C::NoTerminal,
    ),
    (
        Anywhere,
        "pull access denied",
        "there is no such image, or it needs `docker login`: check its name in `args`",
        C::SignInDocker,
    ),
    (
        Anywhere,
        "manifest unknown|manifest for \\S+ not found|invalid reference format",
        "there is no such image: check its name and its tag in `args`",
        C::None,
    ),
    (
        Anywhere,
        "no matching manifest for (\\w+/\\w+)|image's platform .* does not match",
        "the image is not for this machine ({}): name another, or add \"--platform\", \
         \"linux/amd64\"",
        C::None,
    ),
    (
        Anywhere,
        "The container name \"/([\\w.-]+)\" is already in use",
        "a container `{}` is left of another run: remove it, or take `--name` out of `args`",
        C::RemoveContainer,
    ),
    (
        Anywhere,
        "bind source path does not exist: ([\\w@/.+~: ()-]+?)\\.?$",
        "there is no {} to mount: create it, or correct the path in `args`",
        C::MakeFolder,
    ),
    // The system.
    (
        Anywhere,
        "system limit for number of file watchers",
        "this system watches no more files: raise fs.inotify.max_user_watches (sysctl)",
        C::None,
    ),
    (
        Anywhere,
        r"ENOSPC|No space left on device|\[Errno 28\]|disk quota exceeded|database or disk is full",
        "the disk it writes to is full: make room there",
        C::ShowDisks,
    ),
    (
        Anywhere,
        r"listen EACCES|bind.*permission denied|\[Errno 13\] error while attempting to bind",
        "this user may not open that port (those below 1024 are for administrators): give it \
         another one",
        C::None,
    ),
    (
        Anywhere,
        "(?:EADDRINUSE|address (?:is )?already in use|port is already allocated).*?[:( ](\\d{2,5})(?:$|[^\\d.])\
         |[:,] ?(\\d{2,5})\\b.*(?:address already in use|port is already allocated)\
         |port (\\d{2,5}) is (?:already )?in use|eaddrinuse|address already in use\
         |only one usage of each socket address",
        "another process has its port: end that one, or give this one another",
        C::ShowPort,
    ),
    (
        Anywhere,
        "EMFILE|too many open files",
        "it has too many files open: raise `ulimit -n` where mcpdeck is started",
        C::None,
    ),
    (
        Anywhere,
        r"ENOENT: no such file or directory, \w+ '([\w@/.+~:\\ ()-]+)'|FileNotFoundError: \[Errno 2\] No such file or directory: '([\w@/.+~:\\ ()-]+)'|Cannot access directory ([\w@/.+~:\\ ()-]+), skipping|No such directory: ([\w@/.+~:\\ ()-]+)$",
        "there is no {}: create it, or correct the path in `args` or `env`",
        C::MakeFolder,
    ),
    (
        Anywhere,
        r"EACCES: permission denied, \w+ '([\w@/.+~:\\ ()-]+)'|PermissionError: \[Errno 13\] Permission denied: '([\w@/.+~:\\ ()-]+)'|EROFS: read-only file system, \w+ '([\w@/.+~:\\ ()-]+)'",
        "this user may not use {}: change its owner or its rights, or name another path",
        C::None,
    ),
    (
        Anywhere,
        "the following arguments are required|unrecognized arguments|unexpected argument\
         |unknown option|no such option|invalid choice: |^usage: ",
        "it refuses its arguments: correct `args` of its entry",
        C::None,
    ),
    // What a server works with.
    (
        ErrorLine,
        "certificate has expired|CERT_HAS_EXPIRED",
        "the certificate of what it connects to has expired: have it renewed, or set the clock of \
         this machine right",
        C::None,
    ),
    (
        ErrorLine,
        "self[- _]signed|unable to get (?:local )?issuer cert|UNABLE_TO_(?:GET_ISSUER|VERIFY)\
         |unable to verify the first certificate|CERTIFICATE_VERIFY_FAILED\
         |certificate signed by unknown authority",
        "it does not trust the certificate of what it connects to (a private authority, or a proxy \
         that reads along): pass it the file of the authority, in NODE_EXTRA_CA_CERTS for Node.js, \
         in SSL_CERT_FILE for others",
        C::NameAuthority,
    ),
    (
        ErrorLine,
        "ProxyError|proxyconnect |407 Proxy|tunneling socket could not be established\
         |unable to connect to proxy|ERR_PROXY",
        "it does not get through its proxy: correct HTTP_PROXY and HTTPS_PROXY in its `env`, or put \
         the host into NO_PROXY",
        C::None,
    ),
    (
        Anywhere,
        r"\b(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH)\b",
        "it cannot reach what it works with ({}): check the network, the proxy, and the address and \
         credentials in its `env`",
        C::None,
    ),
    (
        ErrorLine,
        "(Connection refused)|(getaddrinfo failed)|(Name or service not known)\
         |(Temporary failure in name resolution)|(no such host)|(Network is unreachable)",
        "it cannot reach what it works with ({}): check the network, the proxy, and the address and \
         credentials in its `env`",
        C::None,
    ),
    (
        ErrorLine,
        r"(?:status(?: ?code)?|HTTP(?: error)?|HTTP/[\d.]+|error|api)\W{1,3}(40[13])\b|\b(40[13]) (?:Unauthorized|Forbidden|Client Error)|(Bad credentials)|(invalid[_ ]api[_ ]key)|(incorrect api key)|(invalid_auth)\b|(password authentication failed)|(Access denied for user)|(token (?:has|is) expired)|(invalid_grant)",
        "what it works with refuses its credentials ({}): correct them in its `env`; a token may \
         have expired, or lack a right",
        C::None,
    ),
    (
        ErrorLine,
        r"(?:status(?: code)?|HTTP(?: error)?|HTTP/[\d.]+|error)\W{1,3}429\b|Too Many Requests|rate limit (?:exceeded|reached)",
        "what it works with is asked too often: wait, then try again",
        C::None,
    ),
    (
        ErrorLine,
        r"(?:status(?: code)?|HTTP(?: error)?|HTTP/[\d.]+)\W{1,3}(50[0234])\b|\b(50[0234]) (?:Internal Server Error|Bad Gateway|Service Unavailable|Gateway Time-?out|Server Error)",
        "what it works with fails by itself ({}): try again later",
        C::None,
    ),
    (
        ErrorLine,
        r"(?:status(?: code)?|HTTP(?: error)?|HTTP/[\d.]+)\W{1,3}404\b|\b404 (?:Client Error|Not Found for url)",
        "what it works with has no such address (404): correct the address in its `env` or `args`",
        C::None,
    ),
    (
        Anywhere,
        r"Field required \[type=missing",
        "one of its settings is missing; the line above names it: add it to `env`, in capitals",
        C::None,
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_is_one() {
        let wrong = SAYINGS.iter().zip(&*PATTERNS).find(|(_, pattern)| pattern.is_none());
        assert!(wrong.is_none(), "{:?}", wrong.map(|((_, saying, ..), _)| saying));
    }
}
