//! The user's defaults for the chat: `chat` in `settings.json` in the configuration folder. Keys
//! must be references to secrets, never literal.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;
use strum::VariantArray as _;
use url::Url;

use crate::llm::ModelPrice;
use crate::provider::MediaKind;
use crate::renewed::RenewedModel;
use crate::{Embedded, LanguageModel, Provider, ProviderModel, RemoteConfig};
use base::secret::Secret;
use base::text::SafeText;
use base::text::path::spelled;
use config::Environment;
use deck::{load_json, parse_json, secret_sources};

/// Name of the file in the user's configuration folder.
pub const SETTINGS: &str = "settings.json";
/// Maximum size of the file, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    chat: ChatSettings,
    /// The registry of servers, which `add` and `search` read.
    #[serde(default, rename = "registry")]
    _registry: IgnoredAny,
}

/// The model and its connection.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct ChatSettings {
    /// The provider; defaults to the first one with a known key.
    pub provider: Option<Provider>,
    /// Base URL of the API, instead of the provider's default.
    pub base_url: Option<String>,
    /// The model; defaults to the provider's default model.
    pub model: Option<String>,
    /// Further models of the provider to offer for selection.
    pub models: Vec<String>,
    /// Call tools by fenced blocks in the text.
    pub fenced: bool,
    /// Context size in tokens: prompt and answer together.
    pub context: Option<u64>,
    /// What the model takes in results of tools beside text, where the provider does not tell.
    pub takes: Option<Vec<MediaKind>>,
    /// How long Ollama keeps the model loaded after an answer: `30m`, `300`, `-1` for ever.
    pub keep_alive: Option<String>,
    /// Keys: `${secret:NAME}`, `${keyring:NAME}`, `${cmd:HELPER:ARGUMENT}`, `${env:NAME}`.
    pub keys: BTreeMap<Provider, String>,
    /// The folder that stores sessions across restarts.
    pub sessions: Option<PathBuf>,
    /// Most that a conversation may cost, in dollars.
    pub max_cost: Option<f64>,
    /// What models cost, by name; a name that ends with `*` is of all that begin so.
    pub prices: BTreeMap<String, ModelPrice>,
}

impl ChatSettings {
    /// Reads the settings; default values when there is no file.
    ///
    /// # Errors
    /// Names the file and what is wrong with it.
    pub fn read(env: &Environment) -> Result<Self, String> {
        let Some(folder) = env.own_config_dir() else { return Ok(Self::default()) };
        let path = folder.join(SETTINGS);
        let file: Option<File> =
            load_json(&path, MAX_FILE_BYTES, |text| parse_json(text.as_bytes()))?;
        let mut settings = file.unwrap_or_default().chat;
        if let Some((provider, _)) = settings.keys.iter().find(|(_, key)| reference(key).is_none())
        {
            let (name, path) = (provider.as_str(), spelled(&path));
            return Err(format!(
                "{path}: `chat.keys.{name}` must name where the key is, such as ${{secret:{name}}} \
                 or ${{env:NAME}}, and not be the key; `mcpdeck secret set {name}` keeps it"
            ));
        }
        if let Some(text) = settings.keep_alive.as_deref().filter(|text| !is_keep_alive(text)) {
            let (text, path) = (SafeText::cut(text, 40), spelled(&path));
            return Err(format!(
                "{path}: `chat.keepAlive` is `{text}`: a time such as `30m`, a number of seconds, or \
                 `-1` for ever is expected"
            ));
        }
        if settings.max_cost.is_some_and(|most| !(most.is_finite() && most > 0.0)) {
            let path = spelled(&path);
            return Err(format!("{path}: `chat.maxCost`: more than zero dollars are expected"));
        }
        let is_price = |price: f64| price.is_finite() && price >= 0.0;
        for (name, price) in &settings.prices {
            let all = [Some(price.input), price.cached, price.written, Some(price.output)];
            if !all.into_iter().flatten().all(is_price) {
                let (name, path) = (SafeText::line(name), spelled(&path));
                return Err(format!(
                    "{path}: `chat.prices.{name}`: dollars for a million tokens, zero or more, are \
                     expected"
                ));
            }
        }
        settings.sessions = settings.sessions.map(|file| path.with_file_name(file));
        Ok(settings)
    }

    /// The provider to use.
    ///
    /// # Errors
    /// When none is configured and no key is known.
    pub fn provider(&self, env: &Environment) -> Result<Provider, String> {
        let is_known = |provider: &Provider| {
            self.keys.contains_key(provider) || variable(env, *provider).is_some()
        };
        self.provider.or_else(|| Provider::VARIANTS.iter().copied().find(is_known)).ok_or_else(|| {
            "no model: set GEMINI_API_KEY, ANTHROPIC_API_KEY or OPENAI_API_KEY, or name one with \
             --provider (ollama and embedded need no key)"
                .to_owned()
        })
    }

    /// Creates the model. May block on a keyring or a helper program.
    ///
    /// # Errors
    /// Describes what is missing or wrong, without the key.
    pub fn model(&self, env: &Environment) -> Result<Arc<dyn LanguageModel>, String> {
        let provider = self.provider(env)?;
        if provider == Provider::Embedded {
            return Ok(Arc::new(Embedded));
        }
        if let Some(("cmd", _)) = self.keys.get(&provider).and_then(|key| reference(key)) {
            let (first, settings, mut env) = (self.remote(env)?, self.clone(), env.clone());
            let again = move || {
                // What was printed before is remembered for a while.
                env.sources = secret_sources(&env);
                settings.remote(&env)
            };
            return Ok(Arc::new(RenewedModel::new(first, Box::new(again))));
        }
        Ok(Arc::new(self.remote(env)?))
    }

    /// The names of the models that the provider offers, or that Ollama has installed. Without a
    /// network: the names in the settings.
    ///
    /// # Errors
    /// When the provider cannot be asked, or does not tell.
    pub async fn offered(&self, env: &Environment) -> Result<Vec<String>, String> {
        if self.provider(env)? == Provider::Embedded {
            return Ok(self.choices(env));
        }
        // Getting the key may block on a keyring or a helper program.
        let (settings, env) = (self.clone(), env.clone());
        let making = tokio::task::spawn_blocking(move || settings.remote(&env));
        let model = making.await.map_err(|error| error.to_string())??;
        model.offered().await.map_err(|error| error.to_string())
    }

    /// Creates a model that is reached over HTTP. May block on a keyring or a helper program.
    fn remote(&self, env: &Environment) -> Result<ProviderModel, String> {
        let provider = self.provider(env)?;
        let (base_url, variables, model) = provider.defaults();
        let base_url = match (&self.base_url, env.var("OLLAMA_HOST")) {
            (Some(url), _) => url.clone(),
            (None, Some(host)) if provider == Provider::Ollama => ollama_url(host),
            (None, _) => base_url.to_owned(),
        };
        let base_url = Url::parse(&base_url).map_err(|error| format!("`{base_url}`: {error}"))?;
        let key = match self.keys.get(&provider).and_then(|key| reference(key)) {
            Some(("env", name)) => env.var(name).map(Secret::new),
            Some((scheme, name)) => Some(env.sources.get(scheme, name)?),
            None => variable(env, provider),
        };
        if key.is_none() && provider != Provider::Ollama && self.base_url.is_none() {
            return Err(format!("set {} to your key", variables[0]));
        }
        let name = self.model.as_deref().unwrap_or(model);
        let mut config = RemoteConfig::new(provider, base_url, name);
        config.key = key;
        config.fenced = self.fenced;
        config.context = self.context;
        config.takes.clone_from(&self.takes);
        config.keep_alive.clone_from(&self.keep_alive);
        config.price = self.price(name);
        ProviderModel::new(config)
    }

    /// The most that a conversation with this model may cost, in dollars: `asked`, else as the settings
    /// say, but for models on this machine, which cost nothing.
    ///
    /// # Errors
    /// When the model has no price.
    pub fn most_cost(
        &self,
        asked: Option<f64>,
        model: &dyn LanguageModel,
        env: &Environment,
    ) -> Result<Option<f64>, String> {
        let is_free =
            || matches!(self.provider(env), Ok(Provider::Ollama | Provider::Embedded) | Err(_));
        let (most, place) = match asked {
            Some(most) => (most, "--max-cost"),
            None => match self.max_cost.filter(|_| model.price().is_some() || !is_free()) {
                Some(most) => (most, "chat.maxCost in settings.json"),
                None => return Ok(None),
            },
        };
        if model.price().is_some() {
            return Ok(Some(most));
        }
        let name = SafeText::line(model.name());
        Err(format!(
            "{place}: the price of {name} is not known; give it in settings.json: {{\"chat\": \
             {{\"prices\": {{\"{name}\": {{\"input\": DOLLARS, \"output\": DOLLARS}}}}}}}}, for a \
             million tokens"
        ))
    }

    /// What a model costs: by its name, else by the longest beginning of it.
    fn price(&self, model: &str) -> Option<ModelPrice> {
        let begins = |name: &&String| {
            name.strip_suffix('*').is_some_and(|beginning| model.starts_with(beginning))
        };
        let by_beginning = || self.prices.keys().filter(begins).max_by_key(|name| name.len());
        let price = self.prices.get(model);
        price.or_else(|| self.prices.get(by_beginning()?)).copied()
    }

    /// The models to choose from, the configured one first.
    pub fn choices(&self, env: &Environment) -> Vec<String> {
        let Ok(provider) = self.provider(env) else { return Vec::new() };
        let first = self.model.clone().unwrap_or_else(|| provider.defaults().2.to_owned());
        let more = self.models.iter().filter(|name| **name != first).cloned();
        std::iter::once(first.clone()).chain(more).collect()
    }
}

/// The address that `OLLAMA_HOST` names, as Ollama itself reads it: a host, a port, or an address.
fn ollama_url(host: &str) -> String {
    let host = host.trim().trim_end_matches('/');
    let (scheme, rest) = host.split_once("://").unwrap_or(("http", host));
    let rest = match rest.strip_prefix(':') {
        Some(port) => format!("127.0.0.1:{port}"),
        None if rest.is_empty() => "127.0.0.1".to_owned(),
        None => rest.to_owned(),
    };
    // What a server listens on everywhere is reached here.
    let rest = rest.replacen("0.0.0.0", "127.0.0.1", 1).replacen("[::]", "[::1]", 1);
    let has_port = rest.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    // With a scheme, the port is that of the scheme.
    let port = if has_port || host.contains("://") { "" } else { ":11434" };
    format!("{scheme}://{rest}{port}")
}

/// Whether Ollama takes this as a time: Go's durations, or a number of seconds.
fn is_keep_alive(text: &str) -> bool {
    if text.parse::<i64>().is_ok() {
        return true;
    }
    let units = ["ns", "us", "ms", "s", "m", "h"];
    let mut rest = text.strip_prefix('-').unwrap_or(text);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let end = rest[digits..].find(|c: char| c.is_ascii_digit()).map(|at| digits + at);
        let end = end.unwrap_or(rest.len());
        if rest[..digits].parse::<f64>().is_err() || !units.contains(&&rest[digits..end]) {
            return false;
        }
        rest = &rest[end..];
    }
    !text.is_empty() && text != "-"
}

/// The key from the provider's usual environment variables.
fn variable(env: &Environment, provider: Provider) -> Option<Secret> {
    let keys = provider.defaults().1.iter().filter_map(|name| env.var(name));
    keys.map(str::trim).find(|key| !key.is_empty()).map(Secret::new)
}

/// Scheme and name of a reference to a secret.
fn reference(text: &str) -> Option<(&str, &str)> {
    let (scheme, name) = text.strip_prefix("${")?.strip_suffix('}')?.split_once(':')?;
    (["secret", "keyring", "cmd", "env"].contains(&scheme) && !name.is_empty())
        .then_some((scheme, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_of_ollama_is_read_as_ollama_reads_it() {
        for (host, url) in [
            ("box", "http://box:11434"),
            ("box:8080", "http://box:8080"),
            (":8080", "http://127.0.0.1:8080"),
            ("0.0.0.0", "http://127.0.0.1:11434"),
            ("0.0.0.0:9", "http://127.0.0.1:9"),
            ("http://box", "http://box"),
            ("https://box.example/", "https://box.example"),
            ("", "http://127.0.0.1:11434"),
        ] {
            assert_eq!(ollama_url(host), url, "{host}");
        }
    }

    #[test]
    fn times_of_ollama_are_told_from_other_words() {
        for text in ["30m", "1h30m", "-1", "300", "0", "1.5h", "-1m", "500ms"] {
            assert!(is_keep_alive(text), "{text}");
        }
        for text in ["", "-", "soon", "5 m", "5min", "m", "1x"] {
            assert!(!is_keep_alive(text), "{text}");
        }
    }
}
