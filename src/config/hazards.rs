//! Signs that a server's entry is dangerous to run without a review. Pure.

use crate::{ServerConfig, TransportConfig};
use base::address::is_meant_as_loopback;
use base::text::inspect;

/// Variables that make a loader or an interpreter run additional code.
const HOOKS: &str = "\
    LD_PRELOAD LD_AUDIT LD_LIBRARY_PATH GCONV_PATH NODE_OPTIONS PYTHONSTARTUP PYTHONHOME \
    PYTHONINSPECT PERL5OPT PERL5LIB RUBYOPT RUBYLIB JAVA_TOOL_OPTIONS _JAVA_OPTIONS \
    JDK_JAVA_OPTIONS BASH_ENV ENV ZDOTDIR PROMPT_COMMAND DOTNET_STARTUP_HOOKS GIT_SSH_COMMAND \
    GIT_EXTERNAL_DIFF";

/// Whether a variable is a hook of a loader or interpreter. `ENV` counts only with a path-like
/// value: to shells it names a file, elsewhere usually the kind of a deployment.
pub fn is_hook(variable: &str, value: &str) -> bool {
    let upper = variable.to_ascii_uppercase();
    if upper == "ENV" && !value.contains(['/', '\\', '$']) {
        return false;
    }
    HOOKS.split(' ').any(|hook| hook == upper)
        || upper.starts_with("DYLD_")
        || upper.starts_with("LD_AUDIT")
}

/// Programs that raise privileges.
const PRIVILEGE: [&str; 6] = ["sudo", "doas", "su", "pkexec", "runas", "gsudo"];

/// Programs that can run a shell command line.
const SHELLS: &str = "sh bash zsh dash ksh fish cmd powershell pwsh busybox env xargs";

/// Programs that fetch a package and run it.
const FETCHERS: [&str; 7] = ["npx", "bunx", "uvx", "pipx", "dlx", "pnpx", "deno"];

/// Warnings to show beside an entry before it is approved: each names what was found and why it
/// matters. Empty for an ordinary entry. Not sanitised for printing.
pub fn dangers(server: &ServerConfig) -> Vec<String> {
    let mut out = Vec::new();
    match &server.transport {
        TransportConfig::Stdio(stdio) => {
            command_dangers(&stdio.command, &stdio.args, &mut out);
            let hooks = stdio.env.iter().filter(|(name, value)| is_hook(name, value.expose()));
            for (name, _) in hooks {
                out.push(format!("`{name}` makes a loader or interpreter run other code"));
            }
            if stdio.inherit_env {
                out.push("`inheritEnv` hands over every variable of the environment".to_owned());
            }
            let hidden = std::iter::once(&stdio.command)
                .chain(&stdio.args)
                .any(|word| word.chars().any(is_hidden));
            if hidden {
                out.push("the command line holds control or invisible characters".to_owned());
            }
            let length: usize = stdio.args.iter().map(String::len).sum();
            if length > 2_000 {
                out.push(format!("the command line is {length} bytes long"));
            }
        }
        other => {
            if other.http().is_some_and(|http| !http.headers.is_empty() && is_clear_text(&http.url))
            {
                out.push("headers are sent without encryption".to_owned());
            }
        }
    }
    out
}

fn command_dangers(command: &str, args: &[String], out: &mut Vec<String>) {
    let words: Vec<&str> =
        std::iter::once(command).chain(args.iter().map(String::as_str)).collect();
    for (i, word) in words.iter().enumerate() {
        let name = program(word);
        let rest = words.get(i + 1..).unwrap_or_default();
        if i == 0 && PRIVILEGE.contains(&name.as_str()) {
            out.push(format!("`{name}` raises privileges"));
        }
        let line = rest.iter().position(|w| is_line_option(&name, w));
        // A shell counts as the program itself or after a wrapper such as `sudo` or `env`.
        let runs =
            i == 0 || words.get(..i).is_some_and(|before| before.iter().all(|w| is_wrapper(w)));
        if runs && SHELLS.split(' ').any(|shell| shell == name) && line.is_some() {
            out.push(format!("`{name}` runs a line of shell"));
        }
        if runs && FETCHERS.contains(&name.as_str()) {
            let shell = rest
                .iter()
                .take_while(|w| w.starts_with('-'))
                .any(|w| matches!(*w, "-c" | "--call"));
            if shell {
                out.push(format!("`{name} -c` runs a line of shell"));
            }
        }
        if i == 0 && inline_code(&name, rest) {
            out.push(format!("`{name}` runs code from its arguments"));
        }
    }
}

fn is_wrapper(word: &str) -> bool {
    let name = program(word);
    word.starts_with('-')
        || word.contains('=')
        || PRIVILEGE.contains(&name.as_str())
        || matches!(
            name.as_str(),
            "env" | "nohup" | "setsid" | "nice" | "timeout" | "stdbuf" | "xargs" | "busybox"
        )
}

fn is_line_option(shell: &str, word: &str) -> bool {
    match shell {
        "cmd" => word.eq_ignore_ascii_case("/c") || word.eq_ignore_ascii_case("/k"),
        "powershell" | "pwsh" => {
            let word = word.trim_start_matches(['-', '/']).to_ascii_lowercase();
            word.starts_with('c') || word.starts_with("enc") || word == "e" || word == "ec"
        }
        "env" => word.starts_with("-S") || word.starts_with("--split-string"),
        "busybox" | "xargs" => false,
        _ => word.starts_with('-') && !word.starts_with("--") && word.contains('c'),
    }
}

fn inline_code(name: &str, rest: &[&str]) -> bool {
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let first_options = rest.iter().take_while(|w| w.starts_with('-'));
    let has = |wanted: &[&str]| first_options.clone().any(|w| wanted.contains(w));
    match plain {
        "node" | "bun" => has(&["-e", "--eval", "-p", "--print"]),
        "python" | "pypy" => has(&["-c"]),
        "perl" | "ruby" => has(&["-e", "-E"]),
        "php" => has(&["-r"]),
        "deno" => rest.first() == Some(&"eval"),
        _ => false,
    }
}

/// The name of a program without its folder and its `.exe`, in lower case.
fn program(word: &str) -> String {
    let name = word.rsplit(['/', '\\']).next().unwrap_or(word).to_ascii_lowercase();
    let name = [".exe", ".cmd", ".bat"].iter().find_map(|e| name.strip_suffix(e)).unwrap_or(&name);
    name.to_owned()
}

/// Whether a character is invisible or a control character.
pub fn is_hidden(c: char) -> bool {
    c.is_control() || inspect::is_hidden(c)
}

/// Whether requests to this address leave the machine unencrypted.
pub(crate) fn is_clear_text(url: &url::Url) -> bool {
    matches!(url.scheme(), "http" | "ws") && !is_meant_as_loopback(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(line: &[&str]) -> usize {
        let args: Vec<String> = line.iter().skip(1).map(|w| (*w).to_owned()).collect();
        let mut out = Vec::new();
        command_dangers(line[0], &args, &mut out);
        out.len()
    }

    #[test]
    fn dangerous_command_lines_are_marked() {
        for line in [
            &["sudo", "node", "x.js"][..],
            &["sh", "-c", "curl x | sh"],
            &["/bin/bash", "-lc", "x"],
            &["cmd.exe", "/C", "x"],
            &["powershell", "-EncodedCommand", "x"],
            &["npx", "-y", "-c", "x"],
            &["npx", "--call", "x"],
            &["env", "A=1", "sh", "-c", "x"],
            &["env", "-S", "sh -c x"],
            &["node", "-e", "x"],
            &["python3", "-c", "x"],
        ] {
            assert!(marks(line) > 0, "{line:?}");
        }
    }

    #[test]
    fn ordinary_command_lines_are_not() {
        for line in [
            &["npx", "-y", "@scope/server", "-c", "conf.json"][..],
            &["uvx", "mcp-server-git", "--repository", "sh"],
            &["node", "server.js", "-e", "x"],
            &["bash", "server.sh"],
            &["python", "-m", "server", "-c", "x"],
            &["docker", "run", "-i", "--rm", "img"],
        ] {
            assert_eq!(marks(line), 0, "{line:?}");
        }
    }

    #[test]
    fn hooks_are_known_in_any_case() {
        assert!(
            is_hook("LD_PRELOAD", "x")
                && is_hook("dyld_insert_libraries", "x")
                && is_hook("node_options", "x")
                && is_hook("ENV", "/tmp/env.sh")
        );
        for (name, value) in
            [("PATH", "/x"), ("GITHUB_TOKEN", "x"), ("ENVIRONMENT", "x"), ("ENV", "production")]
        {
            assert!(!is_hook(name, value), "{name}");
        }
    }
}
