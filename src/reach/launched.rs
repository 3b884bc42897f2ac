//! The package that a command line fetches and starts: `npx`, `uvx` and their kin. Pure.

use crate::package_way;

/// A program that fetches packages and starts them.
struct Launcher {
    /// The program, and the words after it that make it one.
    words: &'static [&'static str],
    kind: &'static str,
    /// The options that name the package.
    package: &'static [&'static str],
    /// Other options with a value of their own.
    valued: &'static str,
}

const NPM_PACKAGE: &[&str] = &["-p", "--package"];
const NPM_VALUED: &str = "-c --call -w --workspace --registry --prefix --cache --userconfig --globalconfig --loglevel \
     --script-shell --node-options --otp --tag --include --omit --before --https-proxy --proxy -C --dir";
const UV_VALUED: &str = "-w --with --with-editable --with-requirements -c --constraints --constraint -b \
     --build-constraints --build-constraint --overrides --override --env-file --python-platform \
     --torch-backend --index --default-index -i --index-url --extra-index-url -f --find-links \
     --index-strategy --keyring-provider -P --upgrade-package --upgrade-group --resolution \
     --prerelease --prerelease-package --fork-strategy --exclude-newer --exclude-newer-package \
     --no-sources-package --reinstall-package --link-mode -C --config-setting --config-settings \
     --config-settings-package --no-build-isolation-package --no-build-package \
     --no-binary-package --cache-dir --refresh-package -p --python --color \
     --allow-insecure-host --trusted-host --directory --project --config-file --python-preference";
const PIPX_VALUED: &str =
    "--python --pip-args -i --index-url --with --backend --fetch-missing-python";

/// A launcher of npm packages.
const fn npm(words: &'static [&'static str]) -> Launcher {
    Launcher { words, kind: "npm", package: NPM_PACKAGE, valued: NPM_VALUED }
}

const LAUNCHERS: [Launcher; 12] = [
    npm(&["npx"]),
    npm(&["npm", "exec"]),
    npm(&["npm", "x"]),
    npm(&["bunx"]),
    npm(&["bun", "x"]),
    npm(&["pnpx"]),
    npm(&["pnpm", "dlx"]),
    npm(&["pnpm", "exec"]),
    npm(&["yarn", "dlx"]),
    Launcher { words: &["uvx"], kind: "pypi", package: &["--from"], valued: UV_VALUED },
    Launcher {
        words: &["uv", "tool", "run"],
        kind: "pypi",
        package: &["--from"],
        valued: UV_VALUED,
    },
    Launcher { words: &["pipx", "run"], kind: "pypi", package: &["--spec"], valued: PIPX_VALUED },
];

/// A package as a command line names it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LaunchedPackage {
    /// What it is: `npm` or `pypi`.
    pub kind: &'static str,
    /// Its name, without extras (`[cli]`).
    pub name: String,
    /// Its version; `None` where the newest is taken at each start.
    pub version: Option<String>,
    /// The word that names it, as it stands in the command line.
    pub word: String,
    /// The word up to the version, with what parts the two.
    stem: String,
}

impl LaunchedPackage {
    /// What a command line starts; `None` when that is no package, or one that is not named by its
    /// name and a version: a file, an address, a range of versions of a Python package.
    pub fn find(program: &str, args: &[&str]) -> Option<Self> {
        let program = program.rsplit(['/', '\\']).next()?;
        let program = program.trim_end_matches(".cmd").trim_end_matches(".exe");
        if let ("cmd", [option, inner, rest @ ..]) = (program, args)
            && option.eq_ignore_ascii_case("/c")
        {
            return Self::find(inner, rest);
        }
        let rest = |launcher: &Launcher| {
            let (first, more) = launcher.words.split_first()?;
            (*first == program).then(|| args.strip_prefix(more)).flatten()
        };
        let (launcher, args) =
            LAUNCHERS.iter().find_map(|launcher| Some((launcher, rest(launcher)?)))?;
        let mut positional = None;
        let mut words = args.iter();
        while let Some(word) = words.next() {
            if *word == "--" {
                positional = words.next();
                break;
            }
            if !word.starts_with('-') {
                positional = Some(word);
                break;
            }
            if launcher.package.contains(word) {
                return Self::parse(launcher.kind, words.next()?, "", true);
            }
            let (option, _) = word.split_once('=').unwrap_or((word, ""));
            if option.len() < word.len() && launcher.package.contains(&option) {
                return Self::parse(launcher.kind, word, &word[..=option.len()], true);
            }
            if launcher.valued.split(' ').any(|valued| valued == *word) {
                words.next();
            }
        }
        Self::parse(launcher.kind, positional?, "", launcher.words[0] == "pipx")
    }

    /// A Python package as a requirement names it: `NAME`, `NAME==VERSION`.
    pub fn from_requirement(word: &str) -> Option<Self> {
        Self::parse("pypi", word, "", true)
    }

    /// A word that names a package after `lead`. A Python package without a version is given one in
    /// the way of requirements where `is_requirement` says so.
    fn parse(kind: &'static str, word: &str, lead: &str, is_requirement: bool) -> Option<Self> {
        let named = word.strip_prefix(lead)?;
        let separators: &[&str] = if kind == "pypi" { &["==", "@"] } else { &["@"] };
        let found = separators.iter().find_map(|separator| {
            let at = named.rfind(separator).filter(|at| *at > 0)?;
            Some((&named[..at], *separator, &named[at + separator.len()..]))
        });
        let usual = if kind == "pypi" && is_requirement { "==" } else { "@" };
        let (whole, separator, version) = found.unwrap_or((named, usual, ""));
        let name = match whole.split_once('[').filter(|_| kind == "pypi") {
            Some((name, extras)) if extras.ends_with(']') => name,
            _ => whole,
        };
        // A name, and no path, address or range.
        package_way(kind, name, "1.0.0").ok()?;
        if version.contains([',', ' ', ';', '/', ':']) {
            return None;
        }
        let version = Some(version).filter(|version| !matches!(*version, "" | "latest"));
        Some(Self {
            kind,
            name: name.to_owned(),
            version: version.map(str::to_owned),
            word: word.to_owned(),
            stem: format!("{lead}{whole}{separator}"),
        })
    }

    /// The word for another version.
    pub fn word_for(&self, version: &str) -> String {
        format!("{}{version}", self.stem)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_package_is_found_among_the_options_of_what_starts_it() {
        for (line, kind, name, version, renewed) in [
            ("npx -y @a/b@1.0.0 --x y@2", "npm", "@a/b", Some("1.0.0"), "@a/b@9"),
            ("/usr/bin/npx -y @a/b", "npm", "@a/b", None, "@a/b@9"),
            ("npx.cmd -y b@latest", "npm", "b", None, "b@9"),
            ("npx -y -- b@1.0.0 -p c", "npm", "b", Some("1.0.0"), "b@9"),
            (
                "npx --package=@a/b@1.0.0 -y -- run",
                "npm",
                "@a/b",
                Some("1.0.0"),
                "--package=@a/b@9",
            ),
            ("npx -p a@1.0.0 b", "npm", "a", Some("1.0.0"), "a@9"),
            ("npx --registry https://h.example -y b@1.0.0", "npm", "b", Some("1.0.0"), "b@9"),
            ("npm exec -y b@1.0.0 -- -p c", "npm", "b", Some("1.0.0"), "b@9"),
            ("bunx b@1.0.0", "npm", "b", Some("1.0.0"), "b@9"),
            ("pnpm dlx @a/b@1.0.0", "npm", "@a/b", Some("1.0.0"), "@a/b@9"),
            ("cmd /c npx -y b@1.0.0", "npm", "b", Some("1.0.0"), "b@9"),
            ("uvx p@1.2", "pypi", "p", Some("1.2"), "p@9"),
            ("uvx --with mcp<2 p@1.2 --with q", "pypi", "p", Some("1.2"), "p@9"),
            ("uvx -p 3.12 --with=x p==1.2", "pypi", "p", Some("1.2"), "p==9"),
            ("uvx --from p==1.2 run", "pypi", "p", Some("1.2"), "p==9"),
            ("uvx --from p run", "pypi", "p", None, "p==9"),
            ("uvx --from=p[cli]==1.2 run", "pypi", "p", Some("1.2"), "--from=p[cli]==9"),
            ("uv tool run --python 3.12 p@latest", "pypi", "p", None, "p@9"),
            ("pipx run --spec p==1.2 run", "pypi", "p", Some("1.2"), "p==9"),
            ("pipx run p", "pypi", "p", None, "p==9"),
        ] {
            let words: Vec<&str> = line.split(' ').collect();
            let found = LaunchedPackage::find(words[0], &words[1..]).expect(line);
            assert_eq!((found.kind, found.name.as_str()), (kind, name), "{line}");
            assert_eq!(found.version.as_deref(), version, "{line}");
            assert_eq!(found.word_for("9"), renewed, "{line}");
            assert!(words.contains(&found.word.as_str()), "{line}");
        }
    }

    #[test]
    fn what_is_no_package_with_a_version_is_left_alone() {
        for line in [
            "node x@1",
            "npx",
            "npx -y",
            "npx -y ./server",
            "npx -y github:a/b",
            "npx -y https://h.example/a.tgz",
            "npm run x@1",
            "uv run server.py",
            "uvx ./p",
            "uvx --from git+https://h.example/p@v1 p",
            "uvx p>=1.2,<2",
            "uvx --from",
            "pipx install p",
        ] {
            let words: Vec<&str> = line.split(' ').collect();
            assert_eq!(LaunchedPackage::find(words[0], &words[1..]), None, "{line}");
        }
    }
}
