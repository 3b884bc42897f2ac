//! `config`: the configuration in effect. Values that may be secret are never printed.

use std::fmt::Write as _;

use serde_json::json;

use super::args::{Common, ConfigArgs};
use super::output::{CommandResult, ExitStatus, problems};
use super::{load, output};
use base::SafeText;
use config::{
    Diagnostic, InputNeed, Loaded, PrintDetail, Severity, dangers, effective, effective_text,
    origin_in_words,
};

/// `mcpdeck config`
pub fn config(common: &Common, args: &ConfigArgs) -> CommandResult {
    let (env, files) = load::here(common)?;
    let loaded = match load::load_files(&files, &env) {
        Ok(loaded) => loaded,
        Err(diagnostics) if args.json => {
            let object =
                json!({"files": spelled(&files), "servers": {}, "diagnostics": diagnostics});
            return Err(output::json(&object, ExitStatus::Usage));
        }
        Err(diagnostics) => return Err(problems(&diagnostics)),
    };
    let exit = if loaded.has_errors() { ExitStatus::Usage } else { ExitStatus::Ok };
    let mut all = loaded.diagnostics.clone();
    // An input that still needs an answer is not an error in the file.
    let note = |need: &InputNeed| Diagnostic { severity: Severity::Note, ..need.problem.clone() };
    all.extend(loaded.needs.iter().map(note));
    if args.json {
        let mut object = effective(&loaded);
        object["files"] = json!(spelled(&files));
        object["origins"] = loaded
            .origins
            .keys()
            .map(|pointer| (pointer.clone(), json!(origin_in_words(&loaded, pointer))))
            .collect();
        object["diagnostics"] = json!(all);
        return Ok(output::json(&object, exit));
    }
    let exit = output::print(&config_text(&loaded, args), exit);
    if !all.is_empty() {
        problems(&all);
    }
    Ok(exit)
}

fn spelled(files: &[std::path::PathBuf]) -> Vec<std::borrow::Cow<'_, str>> {
    files.iter().map(|file| base::text::path::spelled(file)).collect()
}

/// The configuration in effect as commented JSON, with the origin of each value, and what to be
/// careful about.
fn config_text(loaded: &Loaded, args: &ConfigArgs) -> String {
    let detail = if args.all { PrintDetail::All } else { PrintDetail::Set };
    let mut out = effective_text(loaded, detail);
    for name in &loaded.left_out {
        let name = SafeText::line(name.as_str());
        let _ = writeln!(out, "// left out: {name}, whose entry cannot be used");
    }
    if detail == PrintDetail::Set && !loaded.config.servers.is_empty() {
        out.push_str("// everything else has its default; --all shows it\n");
    }
    for server in loaded.config.servers.values() {
        for danger in dangers(server) {
            let name = SafeText::line(server.name.as_str());
            let _ = writeln!(out, "// careful: {name}: {}", SafeText::line(&danger));
        }
    }
    out
}
