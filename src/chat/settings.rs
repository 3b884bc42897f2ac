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
use crate::{Embedded, LanguageModel, Provider, ProviderModel, RemoteConfig};
use base::secret::Secret;
use base::text::SafeText;
use base::text::path::spelled;
use config::Environment;
use deck::{load_json, parse_json};

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
    /// Keys: `${secret:NAME}`, `${keyring:NAME}`, `${cmd:HELPER:ARGUMENT}`, `${env:NAME}`.
    pub keys: BTreeMap<Provider, String>,
    /// The folder that stores sessions across restarts.
    pub sessions: Option<PathBuf>,
    /// What models cost, by name; a name that ends with `*` is of all that begin so.
    pub prices: BTreeMap<String, ModelPrice>,
}

impl ChatSettings {
    /// Reads the settings; default values when there is no file.
    ///
    /// # Errors
    /// Names the file and what is wrong with it.
    pub fn read(env: &Environment) -> Result<Self, String> {
        let Some(folder) = &env.config_dir else { return Ok(Self::default()) };
        let path = folder.join("mcpdeck").join(SETTINGS);
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
        let (base_url, variables, model) = provider.defaults();
        let base_url = self.base_url.as_deref().unwrap_or(base_url);
        let base_url = Url::parse(base_url).map_err(|error| format!("`{base_url}`: {error}"))?;
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
        config.context = self.context.unwrap_or(config.context);
        config.price = self.price(name);
        Ok(Arc::new(ProviderModel::new(config)?))
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
