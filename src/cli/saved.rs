//! Saved calls on the command line: where they are, which there are. Makes none.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::args::{CallArgs, Common};
use super::exit::Exit;
use super::{load, output};
use crate::base::text::{SafeText, json as safe};
use crate::deck::saved::FILE_NAME;
use crate::deck::{SavedCall, SavedCalls, SavedTarget};
use crate::error::{Error, ErrorCode};

/// The file of saved calls that belongs to a configuration; the one in this folder without one.
pub fn path(config: Option<&Path>) -> PathBuf {
    config.map_or_else(|| PathBuf::from(FILE_NAME), SavedCalls::path_beside)
}

/// The saved call of this name.
///
/// # Errors
/// [`ErrorCode::Validation`] when the file cannot be used or has no such call.
pub fn find(common: &Common, name: &str) -> Result<SavedCall, Error> {
    let (path, calls) = load(common)?;
    calls.get(name).cloned().map_err(|error| {
        let help = if calls.calls.is_empty() {
            format!("{} has no calls; the dashboard saves them there", path.display())
        } else {
            "`mcpdeck call --list` shows the saved calls".to_owned()
        };
        Error::new(ErrorCode::Validation, error.to_string()).help(help)
    })
}

/// The saved calls by name; none where they cannot be read.
pub fn all(common: &Common) -> SavedCalls {
    load(common).map(|(_, calls)| calls).unwrap_or_default()
}

fn load(common: &Common) -> Result<(PathBuf, SavedCalls), Error> {
    let env = load::environment(common).map_err(|all| {
        let mut error = Error::new(ErrorCode::Configuration, "the environment cannot be used");
        error.diagnostics = all;
        error
    })?;
    let path = path(load::files(common, &env).last().map(PathBuf::as_path));
    let calls = SavedCalls::load(&path);
    calls.map(|calls| (path, calls)).map_err(|e| Error::new(ErrorCode::Validation, e.to_string()))
}

/// `mcpdeck call --list`
pub fn list(common: &Common, args: &CallArgs) -> Exit {
    let (path, saved) = match load(common) {
        Ok(found) => found,
        Err(error) => {
            super::deck::complain(&error);
            return Exit::Usage;
        }
    };
    if args.json {
        let object = json!({"path": crate::base::text::path::spelled(&path), "calls": saved.calls});
        return output::print(&(safe::compact(&object) + "\n"), Exit::Ok);
    }
    if saved.calls.is_empty() {
        output::complain(&format!("{} has no calls", path.display()));
        return Exit::Ok;
    }
    output::print(&table(&saved), Exit::Ok)
}

fn table(saved: &SavedCalls) -> String {
    let rows: Vec<[String; 3]> = saved
        .calls
        .iter()
        .map(|(name, call)| {
            let (kind, target) = match &call.target {
                SavedTarget::Tool { tool } => ("tool", tool.clone()),
                SavedTarget::Prompt { prompt } => ("prompt", prompt.clone()),
                SavedTarget::Resource { resource, server: None } => ("resource", resource.clone()),
                SavedTarget::Resource { resource, server: Some(server) } => {
                    ("resource", format!("{resource} of {server}"))
                }
            };
            // Values may be anybody's business; the names of the arguments tell calls apart.
            let keys: Vec<&str> = call.arguments.keys().map(String::as_str).collect();
            [line(&format!("@{name}")), line(&format!("{kind} {target}")), line(&keys.join(", "))]
        })
        .collect();
    let width = |column: usize| {
        let widths = rows.iter().map(|row| row[column].chars().count());
        widths.max().unwrap_or(0).min(48)
    };
    let (first, second) = (width(0), width(1));
    rows.iter().fold(String::new(), |mut out, [name, target, keys]| {
        let row = format!("{name:first$}  {target:second$}  {keys}");
        let _ = writeln!(out, "{}", row.trim_end());
        out
    })
}

fn line(text: &str) -> String {
    SafeText::line(text).as_str().to_owned()
}
