//! The environment of a child, and what cannot be put into one.
//!
//! Owns the safe list. Never prints a value. Warnings about allowed but dangerous names are the
//! configuration's responsibility.

use std::ffi::{OsStr, OsString};

use crate::resolve::SpawnError;
use config::StdioConfig;

/// Variable that marks every process of a server, so that those that leave its session are found.
pub(super) const MARK: &str = "MCPDECK_SERVER";

/// Prefix of the variables that answer `${input:...}`. They are meant for the host, for one entry
/// each, and are withheld even under `inheritEnv`.
const INPUTS: &str = "MCPDECK_INPUT_";

/// Exact names passed from the host's environment on every system; `LC_*` as well.
const SAFE: &str = "PATH LANG TZ HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY SSL_CERT_FILE \
                    SSL_CERT_DIR NODE_EXTRA_CA_CERTS REQUESTS_CA_BUNDLE CURL_CA_BUNDLE";

/// Additional names on this system.
#[cfg(not(windows))]
const OWN: &str = "HOME USER LOGNAME SHELL TERM LANGUAGE TMPDIR http_proxy https_proxy all_proxy \
                   no_proxy";

/// Additional names on Windows, where programs do not even start without some of them.
#[cfg(windows)]
const OWN: &str = "PATHEXT COMSPEC SYSTEMROOT SYSTEMDRIVE WINDIR USERPROFILE USERNAME USERDOMAIN \
                   HOMEDRIVE HOMEPATH APPDATA LOCALAPPDATA PROGRAMDATA PROGRAMFILES \
                   PROGRAMFILES(X86) PROGRAMW6432 PROCESSOR_ARCHITECTURE NUMBER_OF_PROCESSORS TEMP \
                   TMP";

/// Whether a variable of the host is passed to every server.
pub fn is_safe_name(name: &str) -> bool {
    let is_safe = |name: &str| {
        let mut known = SAFE.split(' ').chain(OWN.split(' '));
        name.starts_with("LC_") || known.any(|known| known == name)
    };
    if cfg!(windows) { is_safe(&name.to_ascii_uppercase()) } else { is_safe(name) }
}

/// The environment a child gets: the safe list (or everything), then the entry's own.
pub(super) fn build(config: &StdioConfig) -> Result<Vec<(OsString, OsString)>, SpawnError> {
    build_from(config, std::env::vars_os())
}

fn build_from(
    config: &StdioConfig,
    host: impl Iterator<Item = (OsString, OsString)>,
) -> Result<Vec<(OsString, OsString)>, SpawnError> {
    for (name, value) in &config.env {
        check(name, value.expose())?;
    }
    let mut env: Vec<(OsString, OsString)> = host
        .filter(|(name, _)| passes(name, config.inherit_env))
        .filter(|(name, _)| !config.env.keys().any(|own| same_name(OsStr::new(own), name)))
        .collect();
    env.extend(config.env.iter().map(|(k, v)| (k.into(), v.expose().into())));
    Ok(env)
}

fn passes(name: &OsStr, inherit: bool) -> bool {
    let text = name.to_string_lossy();
    let answers =
        text.get(..INPUTS.len()).is_some_and(|head| same_name(head.as_ref(), INPUTS.as_ref()));
    if text.is_empty() || answers || same_name(name, MARK.as_ref()) {
        return false;
    }
    inherit || is_safe_name(&text)
}

/// Windows compares names without case.
fn same_name(a: &OsStr, b: &OsStr) -> bool {
    if cfg!(windows) { a.eq_ignore_ascii_case(b) } else { a == b }
}

fn check(name: &str, value: &str) -> Result<(), SpawnError> {
    let problem = if name.is_empty() {
        "an environment variable without a name".to_owned()
    } else if name.contains('=') || name.contains('\0') {
        format!("the environment variable name {name:?} contains `=` or NUL")
    } else if value.contains('\0') {
        format!("the value of the environment variable {name} contains NUL")
    } else {
        return Ok(());
    };
    Err(SpawnError::new(problem).help("correct `env` or `envFile` of the entry"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::secret::Secret;

    fn config(env: &[(&str, &str)], inherit_env: bool) -> StdioConfig {
        StdioConfig {
            command: "x".into(),
            args: Vec::new(),
            env: env.iter().map(|(k, v)| ((*k).to_owned(), Secret::new(*v))).collect(),
            cwd: None,
            inherit_env,
            limits: config::ProcessLimits::default(),
        }
    }

    fn host() -> impl Iterator<Item = (OsString, OsString)> {
        [
            ("PATH", "/bin"),
            ("AWS_SECRET", "s"),
            ("LC_ALL", "C"),
            ("MCPDECK_INPUT_KEY", "k"),
            ("MCPDECK_SERVER", "outer"),
        ]
        .into_iter()
        .map(|(k, v)| (k.into(), v.into()))
    }

    fn names(env: &[(OsString, OsString)]) -> Vec<&str> {
        env.iter().filter_map(|(k, _)| k.to_str()).collect()
    }

    #[test]
    fn a_child_gets_the_safe_list_and_its_own_variables_only() {
        let env = build_from(&config(&[("TOKEN", "t")], false), host()).unwrap();
        assert_eq!(names(&env), ["PATH", "LC_ALL", "TOKEN"]);
    }

    #[test]
    fn inheriting_passes_everything_but_answers_to_inputs() {
        let env = build_from(&config(&[], true), host()).unwrap();
        assert_eq!(names(&env), ["PATH", "AWS_SECRET", "LC_ALL"]);
    }

    #[cfg(windows)]
    #[test]
    fn names_are_compared_without_case() {
        let host = [
            ("Path", "c"),
            ("SystemRoot", "w"),
            ("mcpdeck_input_key", "k"),
            ("Mcpdeck_Server", "o"),
        ];
        let host = || host.into_iter().map(|(k, v)| (k.into(), v.into()));
        let env = build_from(&config(&[], true), host()).unwrap();
        assert_eq!(names(&env), ["Path", "SystemRoot"]);
        let env = build_from(&config(&[("PATH", "own")], false), host()).unwrap();
        assert_eq!(names(&env), ["SystemRoot", "PATH"]);
    }

    #[test]
    fn an_entrys_own_variable_replaces_the_hosts() {
        let env = build_from(&config(&[("PATH", "/opt")], false), host()).unwrap();
        assert_eq!(names(&env), ["LC_ALL", "PATH"]);
        assert_eq!(env[1].1, "/opt");
    }

    #[test]
    fn impossible_names_and_values_are_refused_without_showing_the_value() {
        for (name, value) in
            [("", "hunter22"), ("A=B", "hunter22"), ("A\0", "hunter22"), ("A", "hunter\x0022")]
        {
            let error = build_from(&config(&[(name, value)], false), host()).unwrap_err();
            assert!(!error.error.to_string().contains("hunter"), "{}", error.error);
        }
    }
}
