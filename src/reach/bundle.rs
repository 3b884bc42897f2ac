//! Bundles of servers (`.mcpb`, `.dxt`): an archive with a manifest that says how to start it. Owns
//! unpacking, with limits, into the program's own folder; nothing in an archive can leave it.

use std::io::{Cursor, Read as _};
use std::path::{Component, Path, PathBuf};

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::ReachError;
use crate::server_json::ServerInput;
use base::SafeText;
use base::file::hex;
use config::Environment;

/// Largest bundle, and largest content of one, in bytes; most files in it.
const MAX_PACKED_BYTES: u64 = 256 << 20;
const MAX_CONTENT_BYTES: u64 = 1 << 30;
const MAX_FILES: usize = 50_000;
const MAX_MANIFEST_BYTES: u64 = 1 << 20;

/// A bundle that was read, and not yet unpacked.
#[derive(PartialEq)]
pub struct Bundle {
    bytes: Vec<u8>,
    manifest: Value,
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Who made it.
    pub author: SafeText,
    /// What it is for.
    pub description: SafeText,
    /// What it needs.
    pub inputs: Vec<ServerInput>,
}

impl std::fmt::Debug for Bundle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Bundle({} {})", self.name, self.version)
    }
}

impl Bundle {
    /// Reads a bundle from a file.
    ///
    /// # Errors
    /// When it cannot be read, or is no bundle.
    pub fn open(path: &Path) -> Result<Self, ReachError> {
        let at = |error: &dyn std::fmt::Display| {
            ReachError(format!("{}: {error}", base::text::path::spelled(path)))
        };
        let bytes = base::file::read(path, MAX_PACKED_BYTES).map_err(|error| at(&error))?;
        Self::from_bytes(bytes).map_err(|why| at(&why))
    }

    /// Reads a bundle.
    ///
    /// # Errors
    /// Which part of it is wrong.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, String> {
        let mut archive = zip::ZipArchive::new(Cursor::new(&bytes))
            .map_err(|error| format!("it is no bundle, which is a ZIP archive: {error}"))?;
        let file = archive
            .by_name("manifest.json")
            .map_err(|_| "there is no manifest.json in it, so it is no bundle".to_owned())?;
        let mut text = String::new();
        file.take(MAX_MANIFEST_BYTES)
            .read_to_string(&mut text)
            .map_err(|error| format!("manifest.json: {error}"))?;
        let manifest: Value =
            serde_json::from_str(&text).map_err(|error| format!("manifest.json: {error}"))?;
        drop(archive);
        let text = |key: &str| manifest.get(key).and_then(Value::as_str).unwrap_or_default();
        let name = text("name").to_owned();
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if name.is_empty() || name.len() > 100 || !name.chars().all(plain) || name.starts_with('.')
        {
            return Err("manifest.json: `name` is not in letters, digits, `.`, `_` and `-`".into());
        }
        let version = text("version").to_owned();
        if version.is_empty()
            || version.len() > 60
            || !version.chars().all(|c| plain(c) || c == '+')
        {
            return Err("manifest.json: `version` is not one version".to_owned());
        }
        if !manifest.pointer("/server/mcp_config").is_some_and(Value::is_object) {
            return Err("manifest.json: `server.mcp_config` is missing".to_owned());
        }
        let author = manifest.pointer("/author/name").and_then(Value::as_str).unwrap_or_default();
        let inputs = inputs(&name, &manifest)?;
        Ok(Self {
            author: SafeText::cut(author, 100),
            description: SafeText::cut(text("description"), 400),
            name,
            version,
            inputs,
            manifest,
            bytes,
        })
    }

    /// The folder that it is unpacked into: of this content alone.
    ///
    /// # Errors
    /// When there is no state folder.
    pub fn folder(&self, env: &Environment) -> Result<PathBuf, ReachError> {
        let nowhere = "there is no folder to unpack a bundle into: set MCPDECK_STATE_DIR";
        let state = env.state_dir.as_ref().ok_or_else(|| ReachError(nowhere.to_owned()))?;
        let tag: String = hex(&Sha256::digest(&self.bytes)).chars().take(16).collect();
        Ok(state.join("bundles").join(format!("{}-{}-{tag}", self.name, self.version)))
    }

    /// How it is started from a folder, with inputs as `${input:ID}`.
    ///
    /// # Errors
    /// Which part of the manifest is wrong.
    pub fn entry(&self, folder: &Path, env: &Environment) -> Result<Value, ReachError> {
        self.written(folder, env).map_err(|why| ReachError(format!("manifest.json: {why}")))
    }

    fn written(&self, folder: &Path, env: &Environment) -> Result<Value, String> {
        let mut config = self.manifest["server"]["mcp_config"].clone();
        let system = if cfg!(windows) {
            "win32"
        } else if cfg!(target_os = "macos") {
            "darwin"
        } else {
            "linux"
        };
        let own = config.pointer(&format!("/platform_overrides/{system}")).cloned();
        for (key, value) in own.as_ref().and_then(Value::as_object).into_iter().flatten() {
            config[key] = value.clone();
        }
        let home = env.home.clone().unwrap_or_default();
        let expand = |text: &str| -> Result<String, String> {
            let mut out = String::new();
            let mut rest = text;
            while let Some((before, after)) = rest.split_once("${") {
                let (name, then) =
                    after.split_once('}').ok_or("a reference in `mcp_config` is not closed")?;
                out.push_str(before);
                match name {
                    "__dirname" => out.push_str(&folder.to_string_lossy().replace("${", "$${")),
                    "HOME" => out.push_str(&home.to_string_lossy()),
                    "DESKTOP" => out.push_str(&home.join("Desktop").to_string_lossy()),
                    "DOCUMENTS" => out.push_str(&home.join("Documents").to_string_lossy()),
                    "DOWNLOADS" => out.push_str(&home.join("Downloads").to_string_lossy()),
                    "pathSeparator" | "/" => out.push(std::path::MAIN_SEPARATOR),
                    _ => {
                        let key = name.strip_prefix("user_config.").ok_or_else(|| {
                            format!("`${{{}}}` is not known", SafeText::cut(name, 60))
                        })?;
                        let id = format!("{}-{key}", self.name);
                        let known = self.inputs.iter().any(|input| input.id == id);
                        if !known {
                            return Err(format!(
                                "`{}` is not in `user_config`",
                                SafeText::cut(key, 60)
                            ));
                        }
                        out.extend(["${input:", &self.name, "-", key, "}"]);
                    }
                }
                rest = then;
            }
            out.push_str(rest);
            Ok(out)
        };
        let command = config["command"].as_str().filter(|command| !command.is_empty());
        let command = expand(command.ok_or("`mcp_config.command` is missing")?)?;
        // A path is one within the bundle.
        let command = if command.contains('/') && Path::new(&command).is_relative() {
            inside(folder, &command)?.to_string_lossy().into_owned()
        } else {
            command
        };
        let mut entry = Map::new();
        entry.insert("command".to_owned(), json!(command));
        let mut args = Vec::new();
        for arg in config["args"].as_array().into_iter().flatten() {
            let arg = arg.as_str().ok_or("`mcp_config.args` is not a list of texts")?;
            args.push(json!(expand(arg)?));
        }
        entry.insert("args".to_owned(), Value::Array(args));
        let mut variables = Map::new();
        for (name, value) in config["env"].as_object().into_iter().flatten() {
            if config::is_hook(name, "") {
                return Err(format!("`{name}` would change how programs are loaded"));
            }
            let value = value.as_str().ok_or("`mcp_config.env` is not texts by name")?;
            variables.insert(name.clone(), json!(expand(value)?));
        }
        if !variables.is_empty() {
            entry.insert("env".to_owned(), Value::Object(variables));
        }
        entry.insert("cwd".to_owned(), json!(folder));
        Ok(Value::Object(entry))
    }

    /// Unpacks it, unless it is there already.
    ///
    /// # Errors
    /// When an entry would leave the folder, there is too much, or a file cannot be written.
    pub fn unpack(&self, folder: &Path) -> Result<(), ReachError> {
        if folder.is_dir() {
            return Ok(());
        }
        let at = |error: &dyn std::fmt::Display| {
            ReachError(format!("{}: {error}", base::text::path::spelled(folder)))
        };
        let parent = folder.parent().unwrap_or(Path::new("."));
        base::atomic::create_private_folder(parent).map_err(|error| at(&error))?;
        let random = base::file::random_hex::<8>().map_err(|error| at(&error))?;
        let temporary = parent.join(format!(".unpacking-{random}"));
        let done = self.unpack_into(&temporary).map_err(|why| at(&why)).and_then(|()| {
            match std::fs::rename(&temporary, folder) {
                // Another one was quicker.
                Err(_) if folder.is_dir() => Ok(()),
                other => other.map_err(|error| at(&error)),
            }
        });
        let _ = std::fs::remove_dir_all(&temporary);
        done
    }

    fn unpack_into(&self, folder: &Path) -> Result<(), String> {
        let mut archive =
            zip::ZipArchive::new(Cursor::new(&self.bytes)).map_err(|error| error.to_string())?;
        if archive.len() > MAX_FILES {
            return Err(format!("more than {MAX_FILES} files are in it"));
        }
        let mut left = MAX_CONTENT_BYTES;
        base::atomic::create_private_folder(folder).map_err(|error| error.to_string())?;
        for at in 0..archive.len() {
            let file = archive.by_index(at).map_err(|error| error.to_string())?;
            let name = file.name().map_err(|error| error.to_string())?.into_owned();
            let shown = SafeText::cut(&name, 100).to_string();
            let path = inside(folder, &name)?;
            if file.is_dir() {
                std::fs::create_dir_all(&path).map_err(|error| format!("{shown}: {error}"))?;
                continue;
            }
            let mode = file.unix_mode().unwrap_or(0o644);
            if mode & 0o170_000 == 0o120_000 {
                return Err(format!("{shown} is a symbolic link, which could lead out of it"));
            }
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent).map_err(|error| format!("{shown}: {error}"))?;
            }
            let mut out = std::fs::OpenOptions::new()
                .write(true)
                .create_new(true)
                .open(&path)
                .map_err(|error| format!("{shown}: {error}"))?;
            let written = std::io::copy(&mut file.take(left + 1), &mut out)
                .map_err(|error| format!("{shown}: {error}"))?;
            left = left
                .checked_sub(written)
                .ok_or_else(|| format!("unpacked it is larger than {MAX_CONTENT_BYTES} bytes"))?;
            #[cfg(unix)]
            if mode & 0o111 != 0 {
                use std::os::unix::fs::PermissionsExt as _;
                out.set_permissions(std::fs::Permissions::from_mode(0o755))
                    .map_err(|error| format!("{shown}: {error}"))?;
            }
        }
        Ok(())
    }
}

/// A path of an archive within a folder.
fn inside(folder: &Path, name: &str) -> Result<PathBuf, String> {
    let shown = || SafeText::cut(name, 100);
    let is_odd = name.contains(['\\', '\0']) || name.contains(':');
    let path = Path::new(name);
    let stays =
        path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if is_odd || !stays || name.is_empty() {
        return Err(format!("{} would be outside of the folder", shown()));
    }
    Ok(folder.join(path))
}

/// What the user is asked for.
fn inputs(name: &str, manifest: &Value) -> Result<Vec<ServerInput>, String> {
    let mut out = Vec::new();
    let all = manifest.get("user_config").and_then(Value::as_object);
    for (id, of) in all.into_iter().flatten() {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if id.is_empty() || id.len() > 60 || !id.chars().all(plain) {
            return Err("manifest.json: a name in `user_config` is not plain".to_owned());
        }
        let text = |key: &str| of.get(key).and_then(Value::as_str).unwrap_or_default();
        let title = [text("title"), text("description")].join(": ");
        let default = match of.get("default") {
            Some(Value::String(text)) => Some(text.clone()),
            Some(value @ (Value::Number(_) | Value::Bool(_))) => Some(value.to_string()),
            _ => None,
        };
        out.push(ServerInput {
            id: format!("{name}-{id}"),
            description: SafeText::cut(title.trim_matches([':', ' ']), 400),
            is_required: of["required"] == true,
            is_secret: of["sensitive"] == true || config::is_secret_name(id),
            default,
            choices: Vec::new(),
        });
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use zip::write::SimpleFileOptions;

    fn packed(files: &[(&str, &str, u32)]) -> Vec<u8> {
        let mut out = zip::ZipWriter::new(Cursor::new(Vec::new()));
        for (name, text, mode) in files {
            let options = SimpleFileOptions::default().unix_permissions(*mode);
            out.start_file(*name, options).expect("started");
            out.write_all(text.as_bytes()).expect("written");
        }
        out.finish().expect("finished").into_inner()
    }

    fn manifest() -> String {
        json!({
            "manifest_version": "0.3", "name": "notes", "version": "1.0.0",
            "description": "Notes", "author": {"name": "Ada"},
            "server": {"type": "node", "entry_point": "server/index.js", "mcp_config": {
                "command": "node", "args": ["${__dirname}/server/index.js", "${user_config.folder}"],
                "env": {"KEY": "${user_config.key}"}}},
            "user_config": {
                "folder": {"type": "directory", "title": "Folder", "required": true, "default": "x"},
                "key": {"type": "string", "title": "Key", "sensitive": true}},
        })
        .to_string()
    }

    fn scene() -> (tempfile::TempDir, Environment) {
        let dir = tempfile::tempdir().expect("a folder");
        let state_dir = Some(dir.path().join("state"));
        (dir, Environment { state_dir, ..Environment::default() })
    }

    #[test]
    fn a_bundle_is_unpacked_and_becomes_an_entry() {
        let (_dir, env) = scene();
        let bytes = packed(&[
            ("manifest.json", &manifest(), 0o644),
            ("server/index.js", "// server", 0o644),
            ("bin/run", "#!/bin/sh", 0o755),
        ]);
        let bundle = Bundle::from_bytes(bytes).expect("a bundle");
        let folder = bundle.folder(&env).expect("a folder");
        bundle.unpack(&folder).expect("unpacked");
        bundle.unpack(&folder).expect("it is there already");
        assert_eq!(
            std::fs::read_to_string(folder.join("server/index.js")).expect("read"),
            "// server"
        );
        let entry = bundle.entry(&folder, &env).expect("an entry");
        assert_eq!(entry["args"][1], "${input:notes-folder}");
        assert_eq!(entry["env"]["KEY"], "${input:notes-key}");
        assert!(entry["args"][0].as_str().expect("text").ends_with("/server/index.js"));
        assert!(bundle.inputs[1].is_secret && bundle.inputs[0].is_required);
    }

    #[test]
    fn nothing_in_a_bundle_can_leave_its_folder() {
        for name in ["../evil", "/etc/evil", "a/../../evil", "C:\\evil", "a\\..\\evil"] {
            let (_dir, env) = scene();
            let bytes = packed(&[("manifest.json", &manifest(), 0o644), (name, "x", 0o644)]);
            let bundle = Bundle::from_bytes(bytes).expect("a bundle");
            let folder = bundle.folder(&env).expect("a folder");
            assert!(bundle.unpack(&folder).is_err(), "{name}");
            assert!(!folder.exists(), "{name}");
        }
        for (text, words) in [
            ("no zip".to_owned(), "ZIP"),
            (manifest().replace("\"notes\"", "\"../notes\""), "`name`"),
            (manifest().replace("mcp_config", "other"), "mcp_config"),
            ("{".to_owned(), "manifest.json"),
        ] {
            let bytes = if words == "ZIP" {
                text.into_bytes()
            } else {
                packed(&[("manifest.json", &text, 0o644)])
            };
            let why = Bundle::from_bytes(bytes).expect_err("refused");
            assert!(why.contains(words), "{why}");
        }
        let hook = manifest().replace("\"KEY\"", "\"LD_PRELOAD\"");
        let bundle =
            Bundle::from_bytes(packed(&[("manifest.json", &hook, 0o644)])).expect("a bundle");
        let (_dir, env) = scene();
        assert!(bundle.entry(Path::new("/x"), &env).is_err());
    }
}
