//! What each model provider takes as the schema of a tool, in one table. Every line names the
//! document of the provider that says so, or, of what no document tells, a public thread where the
//! provider's own error stands. The chat adapts schemas by it ([`adapt`](super::adapt)), the check
//! reports by it. Strict modes (`OpenAI` `strict`, Anthropic `strict`) take less; they are not asked for.
//! Limits of nesting, of the values of an `enum` and of the whole size are documented for them alone.

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
    /// The root has `enum`, `const` or `not`.
    RootValue,
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
    /// `enum` lists numbers.
    EnumNumber,
    /// `type` is a list of more than one type beside `null`.
    TypeList,
    /// Neither a type nor alternatives.
    NoType,
    /// `properties`, `required` or `items` beside another type than theirs.
    OtherType,
    /// Other keywords beside `anyOf`.
    UnionSibling,
    /// `enum` lists an empty text.
    EmptyEnum,
    /// A `format` of a text, or a number, that is not among the few that are taken.
    UnknownFormat,
}

/// What a provider's documents say about a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Objection {
    by: ToolFormat,
    form: SchemaForm,
    /// Whether the request is refused; otherwise this part of the schema is not read.
    pub is_refused: bool,
    /// The document, or the thread where it was seen.
    pub document: &'static str,
}

const OPENAI_OBJECT: &str = "seen in github/github-mcp-server#1548";
const OPENAI_ROOT: &str = "seen in nspady/google-calendar-mcp#39";
const OPENAI_ITEMS: &str = "seen in mark3labs/mcphost#35";
const OPENAI_DRAFT: &str = "JSON Schema 2020-12; seen in FoundationAgents/OpenManus#1162";
const OPENAI_REFERENCES: &str =
    "error `reference to component … which was not found in the schema`";
const OPENAI_KEYWORDS: &str = "OpenAI guide, Structured model outputs, supported schemas";
const ANTHROPIC_SCHEMA: &str = "Anthropic Messages API reference, `tools.input_schema`";
const ANTHROPIC_ROOT: &str = "seen in anthropics/claude-code#5319";
const ANTHROPIC_DRAFT: &str = "JSON Schema 2020-12; seen in Dokploy/mcp#74";
const ANTHROPIC_KEYS: &str = "seen in beautyfree/appstore-connect-mcp#2";
const ANTHROPIC_REFERENCES: &str = "Anthropic guide, Self-hosted sandboxes, custom tools";
const GEMINI_SCHEMA: &str = "Gemini API reference, `FunctionDeclaration.parametersJsonSchema`";
const GEMINI_KEYWORDS: &str = "Gemini API reference, `responseJsonSchema`, supported properties";
const GEMINI_NAMES: &str = "Vertex AI reference, FunctionDeclaration, `parameters`";
const GEMINI_REFERENCES: &str = "seen in google-gemini/gemini-cli#13326";
const GEMINI_REQUIRED: &str = "seen in moltis-org/moltis#747";
const GEMINI_TYPE: &str = "Gemini API reference, `Schema.type`; seen in danny-avila/LibreChat#6971";
const GEMINI_ENUM: &str = "Gemini API reference, `Schema.enum`; seen in JetBrains/mcp-jetbrains#71";
const GEMINI_OBJECT: &str = "seen in anomalyco/opencode#11889";
const GEMINI_EMPTY: &str = "seen in sbroenne/mcp-server-excel#607";
const GEMINI_FORMAT: &str =
    "Gemini API reference, `Schema.format`; seen in google-gemini/gemini-cli#2237";
const VERTEX_UNION: &str = "seen in BerriAI/litellm#11164 and google/adk-python#3281";
const VERTEX_TYPE: &str = "Vertex AI reference, `Schema.type`";
const OLLAMA_TYPES: &str = "Ollama `api/types.go`, `ToolFunction` and `ToolProperty`";
const OLLAMA_VALUES: &str = "seen in ollama/ollama#18051";

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
        refused(T::OpenAi, F::RootValue, OPENAI_ROOT),
        refused(T::OpenAi, F::RootProperties, OPENAI_OBJECT),
        refused(T::OpenAi, F::ListItems, OPENAI_ITEMS),
        refused(T::OpenAi, F::TupleItems, OPENAI_DRAFT),
        refused(T::OpenAi, F::FlagLimit, OPENAI_DRAFT),
        refused(T::OpenAi, F::InvalidValue, OPENAI_DRAFT),
        refused(T::OpenAi, F::LostReference, OPENAI_REFERENCES),
        refused(T::Anthropic, F::RootType, ANTHROPIC_SCHEMA),
        refused(T::Anthropic, F::RootUnion, ANTHROPIC_ROOT),
        refused(T::Anthropic, F::TupleItems, ANTHROPIC_DRAFT),
        refused(T::Anthropic, F::FlagLimit, ANTHROPIC_DRAFT),
        refused(T::Anthropic, F::InvalidValue, ANTHROPIC_DRAFT),
        refused(T::Anthropic, F::PropertyName, ANTHROPIC_KEYS),
        refused(T::Anthropic, F::LostReference, ANTHROPIC_REFERENCES),
        refused(T::Gemini, F::RootType, GEMINI_SCHEMA),
        refused(T::Gemini, F::PropertyName, GEMINI_NAMES),
        refused(T::Gemini, F::LostReference, GEMINI_REFERENCES),
        refused(T::Gemini, F::InvalidValue, GEMINI_KEYWORDS),
        refused(T::Gemini, F::UndefinedRequired, GEMINI_REQUIRED),
        unread(T::Gemini, F::RootUnion, GEMINI_SCHEMA),
        unread(T::Gemini, F::ListItems, GEMINI_KEYWORDS),
        unread(T::Gemini, F::BooleanSchema, GEMINI_KEYWORDS),
        unread(T::Gemini, F::TupleItems, GEMINI_KEYWORDS),
        unread(T::Gemini, F::FlagLimit, GEMINI_KEYWORDS),
        unread(T::Gemini, F::EnumValue, GEMINI_KEYWORDS),
        refused(T::Ollama, F::BooleanSchema, OLLAMA_TYPES),
        refused(T::Ollama, F::InvalidValue, OLLAMA_VALUES),
        unread(T::Ollama, F::RootType, OLLAMA_TYPES),
        unread(T::Ollama, F::RootUnion, OLLAMA_TYPES),
        unread(T::Ollama, F::TupleItems, OLLAMA_TYPES),
        unread(T::Ollama, F::LostReference, OLLAMA_TYPES),
        refused(T::Compatible, F::TypeList, VERTEX_TYPE),
        refused(T::Compatible, F::NoType, GEMINI_TYPE),
        refused(T::Compatible, F::EnumNumber, GEMINI_ENUM),
        refused(T::Compatible, F::OtherType, GEMINI_OBJECT),
        refused(T::Compatible, F::UnionSibling, VERTEX_UNION),
        refused(T::Gemini, F::EmptyEnum, GEMINI_EMPTY),
        refused(T::Compatible, F::UnknownFormat, GEMINI_FORMAT),
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
            Self::OpenAi => OPENAI_KEYWORDS,
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

    /// The document that says that a tool may not have this name, if it may not: `OpenAI` takes
    /// `^[a-zA-Z0-9_-]{1,64}$`, Anthropic the same with 128, Gemini 128 characters with dots and colons.
    pub fn refuses_tool_name(self, name: &str) -> Option<&'static str> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        let is_plain = name.chars().all(plain);
        let (short, long) = ((1..=64).contains(&name.len()), (1..=128).contains(&name.len()));
        let dotted = name.chars().all(|c| plain(c) || matches!(c, '.' | ':'))
            && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        match self {
            Self::OpenAi | Self::Compatible if !(short && is_plain) => {
                Some("OpenAI API reference, Chat Completions, `function.name`")
            }
            Self::Anthropic if !(long && is_plain) => Some("seen in anthropics/claude-code#96152"),
            Self::Gemini if !(long && dotted) => {
                Some("Gemini API reference, `FunctionDeclaration.name`")
            }
            _ => None,
        }
    }

    /// Maximum number of tools in a request, if there is one that is documented: `OpenAI` 128 (API
    /// reference, Chat Completions, `tools`), Gemini 512 (Vertex AI reference,
    /// `Tool.functionDeclarations`).
    pub const fn max_tools(self) -> Option<usize> {
        match self {
            Self::OpenAi => Some(128),
            Self::Gemini => Some(512),
            Self::Anthropic | Self::Ollama | Self::Compatible => None,
        }
    }

    /// Maximum length of the description of a tool, in characters, if there is one: 1,024 with
    /// `OpenAI` (error `string_above_max_length`, seen in getsentry/sentry-mcp#106).
    pub const fn max_description_chars(self) -> Option<usize> {
        match self {
            Self::OpenAi | Self::Compatible => Some(1_024),
            Self::Anthropic | Self::Gemini | Self::Ollama => None,
        }
    }
}

impl SchemaForm {
    /// What is wrong with it, as a predicate of the place.
    pub const fn problem(self) -> &'static str {
        match self {
            Self::RootType => "the root has no `\"type\": \"object\"`",
            Self::RootUnion => "the root has `anyOf`, `oneOf` or `allOf`",
            Self::RootValue => "the root has `enum`, `const` or `not`",
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
            Self::EnumNumber => "`enum` lists numbers",
            Self::TypeList => "`type` lists several types",
            Self::NoType => "there is neither a type nor alternatives",
            Self::OtherType => "keywords of another type stand beside the type",
            Self::UnionSibling => "other keywords stand beside `anyOf`",
            Self::EmptyEnum => "`enum` lists an empty text",
            Self::UnknownFormat => "`format` is not one of the few that are taken",
        }
    }
}
