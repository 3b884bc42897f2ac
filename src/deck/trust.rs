//! Trust in what a configuration runs (rows C5 and C6 of the fault catalogue): approved once by
//! the user, remembered by content, per file. A pulled branch cannot run something new unseen.
//!
//! What is remembered stands in the user's own folder, never in the project. Values of the
//! environment and of headers are kept as salted hashes. A value that the file takes from the
//! user's own variables or answers counts as it is written: a renewed token is no new command.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::base::ServerName;
use crate::base::file::StateFile;
use crate::base::hash::{file_key, hex};
use crate::base::text::path::spelled;
use crate::config::{Diagnostic, Environment, Loaded, ServerConfig, Severity};

mod content;
mod review;

pub use content::Content;
pub use review::{FieldChange, Review, Verdict, escaped};

/// Format of the store; another one counts as nothing approved.
const VERSION: u32 = 2;

/// Largest file that is read, in bytes.
const LARGEST: u64 = 64 << 20;

/// Where approvals are kept: one file for each configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustStore {
    /// `None` when there is no place to keep anything.
    folder: Option<PathBuf>,
    cwd: PathBuf,
    /// Approvals that count until the program ends.
    session: BTreeMap<PathBuf, Approvals>,
}

/// The approvals for one configuration file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Approvals {
    version: u32,
    /// Spelled by [`spelled`]; the name of the store's file tells apart what is spelled alike.
    file: String,
    salt: String,
    servers: BTreeMap<ServerName, Content>,
}

impl TrustStore {
    /// The store of the user. `None` when there is no folder to keep it in.
    pub fn of(env: &Environment) -> Option<Self> {
        env.state_dir.as_ref()?;
        Some(Self::or_session(env))
    }

    /// The store of the user; without a folder to keep it in, one that forgets everything when the
    /// program ends.
    pub fn or_session(env: &Environment) -> Self {
        let folder = env.state_dir.as_ref().map(|state| state.join("trust"));
        Self { folder, cwd: env.cwd.clone(), session: BTreeMap::new() }
    }

    /// What there is to say about every server that comes from a file, in file order. Servers
    /// named on the command line need no approval and do not appear.
    pub fn review(&self, loaded: &Loaded) -> Vec<Review> {
        let mut known: BTreeMap<PathBuf, Approvals> = BTreeMap::new();
        let from_files = loaded.config.servers.values().filter(|s| has_file(s));
        from_files
            .map(|server| {
                let file = self.absolute(&server.at.file);
                let kept = known.entry(file.clone()).or_insert_with(|| self.read(&file));
                let reviews = [Some(&*kept), self.session.get(&file)].into_iter().flatten();
                let unsalted = Content::of(server, &loaded.origins, "");
                let mut reviews = reviews.map(|approvals| {
                    let content = Content::of(server, &loaded.origins, &approvals.salt);
                    let approved = approvals.servers.get(&server.name);
                    Review::new(server, &content, approved, &unsalted.hash)
                });
                let first = reviews
                    .next()
                    .unwrap_or_else(|| Review::new(server, &unsalted, None, &unsalted.hash));
                // What was approved in either way is approved; what is known to either is no news.
                reviews.fold(first, |best, other| match (&best.verdict, &other.verdict) {
                    (Verdict::Approved, _) | (_, Verdict::New) => best,
                    _ => other,
                })
            })
            .collect()
    }

    /// The servers that may not be started yet.
    pub fn unapproved(&self, loaded: &Loaded) -> Vec<Review> {
        self.review(loaded).into_iter().filter(|r| r.verdict != Verdict::Approved).collect()
    }

    /// The same as errors of the configuration, for `--require-trust`.
    pub fn diagnostics(&self, loaded: &Loaded) -> Vec<Diagnostic> {
        self.unapproved(loaded)
            .into_iter()
            .map(|review| {
                let why = match &review.verdict {
                    Verdict::Changed(fields) => {
                        let names: Vec<&str> = fields.iter().map(|f| f.field.as_str()).collect();
                        format!("has changed since it was approved ({})", names.join(", "))
                    }
                    _ => "was never approved".to_owned(),
                };
                let message = format!("`{}` {why}", review.server);
                let mut out = Diagnostic::new("trust/unapproved", Severity::Error, message);
                out.at = review.at;
                out.server = Some(review.server);
                let name = crate::base::text::SafeText::line(out.server.as_ref().map_or("", ServerName::as_str));
                out.help = Some(format!(
                    "look at it and approve it in the dashboard, or with `mcpdeck trust approve {name}`"
                ));
                out
            })
            .collect()
    }

    /// Approves servers as they are loaded now.
    ///
    /// # Errors
    /// When the store cannot be written; nothing is approved then.
    pub fn approve(&self, loaded: &Loaded, servers: &[ServerName]) -> io::Result<()> {
        for (file, servers) in self.by_file(loaded, servers) {
            self.change(&file, |approvals| {
                approvals.add(&servers, loaded);
                true
            })?;
        }
        Ok(())
    }

    /// Changes what is kept about a file, alone: another window may approve at the same moment.
    /// Gives what `change` gives, whether there is anything to write.
    fn change(&self, file: &Path, change: impl FnOnce(&mut Approvals) -> bool) -> io::Result<bool> {
        let missing =
            || io::Error::new(io::ErrorKind::NotFound, "there is no folder to keep it in");
        let kept = self.kept(file).ok_or_else(missing)?;
        kept.change(
            |bytes| Approvals::parse(bytes, file),
            |approvals| {
                let mut approvals = approvals.unwrap_or_else(|| Approvals::none(file));
                if !change(&mut approvals) {
                    return Ok(None);
                }
                serde_json::to_vec_pretty(&approvals).map(Some).map_err(io::Error::other)
            },
        )
    }

    /// Approves servers as they are loaded now, until the program ends: nothing is written.
    pub fn approve_for_session(&mut self, loaded: &Loaded, servers: &[ServerName]) {
        for (file, servers) in self.by_file(loaded, servers) {
            let approvals =
                self.session.entry(file.clone()).or_insert_with(|| Approvals::none(&file));
            approvals.add(&servers, loaded);
        }
    }

    fn by_file<'l>(
        &self,
        loaded: &'l Loaded,
        servers: &[ServerName],
    ) -> BTreeMap<PathBuf, Vec<&'l ServerConfig>> {
        let mut out: BTreeMap<PathBuf, Vec<&ServerConfig>> = BTreeMap::new();
        for server in servers.iter().filter_map(|name| loaded.config.servers.get(name)) {
            if has_file(server) {
                out.entry(self.absolute(&server.at.file)).or_default().push(server);
            }
        }
        out
    }

    /// Takes an approval back; gives whether there was one.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn revoke(&self, file: &Path, server: &ServerName) -> io::Result<bool> {
        let file = self.absolute(file);
        if !self.read(&file).servers.contains_key(server) {
            return Ok(false);
        }
        self.change(&file, |approvals| approvals.servers.remove(server).is_some())
    }

    /// The servers approved for a file.
    pub fn approved(&self, file: &Path) -> Vec<ServerName> {
        self.read(&self.absolute(file)).servers.into_keys().collect()
    }

    fn absolute(&self, file: &Path) -> PathBuf {
        crate::config::environment::clean(&self.cwd.join(file))
    }

    /// Where the approvals for a file stand.
    fn kept(&self, file: &Path) -> Option<StateFile> {
        let name = file_key(file);
        Some(StateFile::new(self.folder.as_ref()?.join(format!("{name}.json")), LARGEST))
    }

    /// What cannot be used counts as nothing approved.
    fn read(&self, file: &Path) -> Approvals {
        let kept = self.kept(file).and_then(|kept| kept.load(|b| Approvals::parse(b, file)));
        kept.unwrap_or_else(|| Approvals::none(file))
    }
}

impl Approvals {
    fn none(file: &Path) -> Self {
        Self {
            version: VERSION,
            file: spelled(file).into_owned(),
            salt: hex(&random_bytes()),
            servers: BTreeMap::new(),
        }
    }

    fn parse(bytes: &[u8], file: &Path) -> Result<Self, String> {
        let all: Self = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        match all {
            all if all.version != VERSION => Err(format!("it has format {}", all.version)),
            all if all.file != spelled(file) => Err("it is about another file".to_owned()),
            all if all.salt.len() < 32 => Err("it has no salt".to_owned()),
            all => Ok(all),
        }
    }

    fn add(&mut self, servers: &[&ServerConfig], loaded: &Loaded) {
        for server in servers {
            let content = Content::of(server, &loaded.origins, &self.salt);
            self.servers.insert(server.name.clone(), content);
        }
    }
}

fn has_file(server: &ServerConfig) -> bool {
    !server.at.file.as_os_str().is_empty()
}

/// Enough to keep equal secrets of two files from having equal hashes, and tables from working.
fn random_bytes() -> [u8; 32] {
    let mut out = [0; 32];
    for chunk in out.chunks_mut(8) {
        chunk.copy_from_slice(&fastrand::u64(..).to_le_bytes());
    }
    out
}
