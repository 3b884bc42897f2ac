//! What each model provider takes as the schema of a tool, in one table. Every line names the
//! document of the provider that says so. The chat adapts schemas by it ([`adapt`](super::adapt)),
//! the check reports by it.

/// The rules of a provider for the definitions of tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToolFormat {
    /// `OpenAI`
    OpenAi,
    /// Anthropic
    Anthropic,
    /// Gemini
    Gemini,
    /// Ollama
    Ollama,
    /// Another provider with the API of `OpenAI`, which may pass requests on to any of the others.
    Compatible,
}

/// A form of schema that some providers refuse or cannot read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SchemaForm {
    /// The root says no `"type": "object"`.
    RootType,
    /// The root has `anyOf`, `oneOf` or `allOf`.
    RootUnion,
    /// The root has no `properties`.
    RootProperties,
    /// A list has no `items`.
    ListItems,
    /// `true` or `false` in place of a schema.
    BooleanSchema,
    /// `items` is a list of schemas.
    TupleItems,
    /// `exclusiveMinimum` or `exclusiveMaximum` is true or false.
    FlagLimit,
    /// A property with a name that is not taken.
    PropertyName,
    /// A reference that leads nowhere within the schema.
    LostReference,
    /// A keyword with a value that it cannot have.
    InvalidValue,
    /// `required` names a property that is not described.
    UndefinedRequired,
    /// `enum` has values that are neither text nor numbers.
    EnumValue,
    /// `type` is a list of more than one type beside `null`.
    TypeList,
}

/// What a provider's documents say about a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Objection {
    by: ToolFormat,
    form: SchemaForm,
    /// Whether the request is refused; otherwise this part of the schema is not read.
    pub is_refused: bool,
    /// The document.
    pub document: &'static str,
}

const OPENAI_FUNCTIONS: &str = "OpenAI API reference, Chat Completions, `function.parameters`";
const OPENAI_ROOT: &str = "OpenAI guide, Structured model outputs, root objects";
const ANTHROPIC_SCHEMA: &str = "Anthropic Messages API reference, `tools.input_schema`";
const ANTHROPIC_KEYS: &str = "Anthropic Messages API, errors, `input_schema.properties`";
const GEMINI_SCHEMA: &str = "Gemini API reference, `FunctionDeclaration.parametersJsonSchema`";
const GEMINI_KEYWORDS: &str = "Gemini API reference, `responseJsonSchema`, supported properties";
const GEMINI_NAMES: &str = "Vertex AI reference, FunctionDeclaration, `parameters`";
const VERTEX_TYPE: &str = "Vertex AI reference, `Schema.type`";
const OLLAMA_TYPES: &str = "Ollama `api/types.go`, `ToolFunction` and `ToolProperty`";

static OBJECTIONS: &[Objection] = {
    use SchemaForm as F;
    use ToolFormat as T;
    const fn refused(by: ToolFormat, form: SchemaForm, document: &'static str) -> Objection {
        Objection { by, form, is_refused: true, document }
    }
    const fn unread(by: ToolFormat, form: SchemaForm, document: &'static str) -> Objection {
        Objection { by, form, is_refused: false, document }
    }
    &[
        refused(T::OpenAi, F::RootType, OPENAI_ROOT),
        refused(T::OpenAi, F::RootUnion, OPENAI_ROOT),
        refused(T::OpenAi, F::RootProperties, OPENAI_FUNCTIONS),
        refused(T::OpenAi, F::ListItems, OPENAI_FUNCTIONS),
        refused(T::OpenAi, F::BooleanSchema, OPENAI_FUNCTIONS),
        refused(T::OpenAi, F::TupleItems, OPENAI_FUNCTIONS),
        refused(T::OpenAi, F::FlagLimit, OPENAI_FUNCTIONS),
        refused(T::OpenAi, F::LostReference, OPENAI_FUNCTIONS),
        refused(T::OpenAi, F::InvalidValue, OPENAI_FUNCTIONS),
        refused(T::Anthropic, F::RootType, ANTHROPIC_SCHEMA),
        refused(T::Anthropic, F::RootUnion, ANTHROPIC_SCHEMA),
        refused(T::Anthropic, F::TupleItems, ANTHROPIC_SCHEMA),
        refused(T::Anthropic, F::FlagLimit, ANTHROPIC_SCHEMA),
        refused(T::Anthropic, F::PropertyName, ANTHROPIC_KEYS),
        refused(T::Anthropic, F::LostReference, ANTHROPIC_SCHEMA),
        refused(T::Anthropic, F::InvalidValue, ANTHROPIC_SCHEMA),
        refused(T::Gemini, F::RootType, GEMINI_SCHEMA),
        refused(T::Gemini, F::PropertyName, GEMINI_NAMES),
        refused(T::Gemini, F::LostReference, GEMINI_KEYWORDS),
        refused(T::Gemini, F::InvalidValue, GEMINI_KEYWORDS),
        refused(T::Gemini, F::UndefinedRequired, GEMINI_SCHEMA),
        unread(T::Gemini, F::RootUnion, GEMINI_SCHEMA),
        unread(T::Gemini, F::ListItems, GEMINI_KEYWORDS),
        unread(T::Gemini, F::BooleanSchema, GEMINI_KEYWORDS),
        unread(T::Gemini, F::TupleItems, GEMINI_KEYWORDS),
        unread(T::Gemini, F::FlagLimit, GEMINI_KEYWORDS),
        unread(T::Gemini, F::EnumValue, GEMINI_KEYWORDS),
        refused(T::Ollama, F::BooleanSchema, OLLAMA_TYPES),
        refused(T::Ollama, F::InvalidValue, OLLAMA_TYPES),
        unread(T::Ollama, F::RootType, OLLAMA_TYPES),
        unread(T::Ollama, F::RootUnion, OLLAMA_TYPES),
        unread(T::Ollama, F::TupleItems, OLLAMA_TYPES),
        unread(T::Ollama, F::LostReference, OLLAMA_TYPES),
        refused(T::Compatible, F::TypeList, VERTEX_TYPE),
    ]
};

/// The keywords that are read by those who take the whole of JSON Schema.
const STANDARD: &[&str] = &[
    "type",
    "title",
    "description",
    "default",
    "examples",
    "enum",
    "const",
    "format",
    "minLength",
    "maxLength",
    "pattern",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "items",
    "minItems",
    "maxItems",
    "uniqueItems",
    "properties",
    "patternProperties",
    "additionalProperties",
    "required",
    "minProperties",
    "maxProperties",
    "anyOf",
    "oneOf",
];
const GEMINI: &[&str] = &[
    "type",
    "title",
    "description",
    "enum",
    "format",
    "minimum",
    "maximum",
    "items",
    "prefixItems",
    "minItems",
    "maxItems",
    "properties",
    "additionalProperties",
    "required",
    "anyOf",
    "oneOf",
];
const OLLAMA: &[&str] =
    &["type", "description", "enum", "items", "properties", "required", "anyOf"];
/// What all of them read.
const COMMON: &[&str] = &[
    "type",
    "title",
    "description",
    "enum",
    "format",
    "minimum",
    "maximum",
    "items",
    "minItems",
    "maxItems",
    "properties",
    "additionalProperties",
    "required",
    "anyOf",
];

impl ToolFormat {
    /// All, in the order in which they are offered.
    pub const ALL: [Self; 5] =
        [Self::OpenAi, Self::Anthropic, Self::Gemini, Self::Ollama, Self::Compatible];

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::Ollama => "ollama",
            Self::Compatible => "compatible",
        }
    }

    /// The one with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.as_str() == name)
    }

    /// What its documents say against a form; for a compatible one what those of any say.
    pub fn objects(self, form: SchemaForm) -> Option<Objection> {
        let is_here =
            |row: &&Objection| row.form == form && (row.by == self || self == Self::Compatible);
        // Refusals first.
        OBJECTIONS.iter().filter(is_here).min_by_key(|row| !row.is_refused).copied()
    }

    /// Whether a keyword is read.
    pub fn reads(self, keyword: &str) -> bool {
        match self {
            Self::OpenAi => STANDARD.contains(&keyword),
            Self::Anthropic => STANDARD.contains(&keyword) || keyword == "prefixItems",
            Self::Gemini => GEMINI.contains(&keyword),
            Self::Ollama => OLLAMA.contains(&keyword),
            Self::Compatible => COMMON.contains(&keyword),
        }
    }

    /// The document that lists the keywords that are read.
    pub const fn keywords_document(self) -> &'static str {
        match self {
            Self::OpenAi => OPENAI_FUNCTIONS,
            Self::Anthropic => ANTHROPIC_SCHEMA,
            Self::Gemini | Self::Compatible => GEMINI_KEYWORDS,
            Self::Ollama => OLLAMA_TYPES,
        }
    }

    /// Whether a property may have this name: for Anthropic `^[a-zA-Z0-9_.-]{1,64}$`, for Gemini
    /// `^[a-zA-Z_][a-zA-Z0-9_]{0,63}$`, for others any.
    pub fn is_property_name(self, name: &str) -> bool {
        let is_short = (1..=64).contains(&name.len());
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        match self {
            Self::OpenAi | Self::Ollama => true,
            Self::Anthropic => is_short && name.chars().all(|c| plain(c) || matches!(c, '.' | '-')),
            Self::Gemini | Self::Compatible => {
                is_short
                    && name.chars().all(plain)
                    && !name.starts_with(|c: char| c.is_ascii_digit())
            }
        }
    }

    /// The document that says that a tool may not have this name, if it may not: `OpenAI` and
    /// Anthropic take `^[a-zA-Z0-9_-]{1,64}$`, Gemini 128 characters with dots and colons.
    pub fn refuses_tool_name(self, name: &str) -> Option<&'static str> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        let narrow = (1..=64).contains(&name.len()) && name.chars().all(plain);
        let wide = (1..=128).contains(&name.len())
            && name.chars().all(|c| plain(c) || matches!(c, '.' | ':'))
            && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        match self {
            Self::OpenAi | Self::Compatible if !narrow => {
                Some("OpenAI API reference, Chat Completions, `function.name`")
            }
            Self::Anthropic if !narrow => {
                Some("Anthropic guide, How to implement tool use, `name`")
            }
            Self::Gemini if !wide => Some("Gemini API reference, `FunctionDeclaration.name`"),
            _ => None,
        }
    }

    /// Maximum number of tools in a request (`OpenAI` API reference, Chat Completions, `tools`).
    pub const fn max_tools(self) -> Option<usize> {
        match self {
            Self::OpenAi => Some(128),
            Self::Anthropic | Self::Gemini | Self::Ollama | Self::Compatible => None,
        }
    }
}

impl SchemaForm {
    /// What is wrong with it, as a predicate of the place.
    pub const fn problem(self) -> &'static str {
        match self {
            Self::RootType => "the root has no `\"type\": \"object\"`",
            Self::RootUnion => "the root has `anyOf`, `oneOf` or `allOf`",
            Self::RootProperties => "the root has no `properties`",
            Self::ListItems => "a list has no `items`",
            Self::BooleanSchema => "true or false stands in place of a schema",
            Self::TupleItems => "`items` is a list of schemas",
            Self::FlagLimit => "an exclusive limit is true or false",
            Self::PropertyName => "the name of the property has characters or a length it refuses",
            Self::LostReference => "the reference leads nowhere within the schema",
            Self::InvalidValue => "a keyword has a value that it cannot have",
            Self::UndefinedRequired => "`required` names a property that is not described",
            Self::EnumValue => "`enum` has values that are neither text nor numbers",
            Self::TypeList => "`type` lists several types",
        }
    }
}
