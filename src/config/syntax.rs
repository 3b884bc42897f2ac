//! Parses JSON with comments and trailing commas into a tree with positions.
//!
//! Owns the tree, the depth limit and the wording of syntax errors. Must not know any key.

use std::borrow::Cow;
use std::ops::Range;

use jsonc_parser::ast::{ObjectPropName, Value};
use jsonc_parser::common::Ranged;
use jsonc_parser::errors::{ParseError, ParseErrorKind};
use jsonc_parser::tokens::Token;
use jsonc_parser::{
    CollectOptions, ParseOptions, ParseStringErrorKind, Scanner, ScannerOptions, parse_to_ast,
};

use crate::source::SourceText;
use crate::{Diagnostic, Severity};
use base::text::inspect::is_hidden;

/// Deepest nesting of a configuration.
pub const MAX_DEPTH: usize = 64;

/// Maximum number of keys and values in a configuration.
pub const MAX_WORDS: usize = 100_000;

/// A value with its byte range.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SyntaxNode {
    /// Byte offsets in the file.
    pub range: Range<usize>,
    /// What it is.
    pub kind: NodeKind,
}

/// The kind of a value.
#[derive(Clone, Debug)]
pub enum NodeKind {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// As written.
    Number(String),
    /// A string, unescaped.
    Text(String),
    /// An array, in file order.
    List(Vec<SyntaxNode>),
    /// Members in file order; equal keys are all kept.
    Object(Vec<SyntaxMember>),
}

/// A key and its value.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SyntaxMember {
    /// Unescaped.
    pub key: String,
    /// Byte offsets of the key, quotes included.
    pub key_range: Range<usize>,
    /// What the key is set to.
    pub value: SyntaxNode,
}

impl SyntaxNode {
    /// The last value of a key, as JSON parsers commonly choose.
    pub fn get(&self, key: &str) -> Option<&SyntaxNode> {
        self.members().iter().rev().find(|m| m.key == key).map(|m| &m.value)
    }

    /// The members; empty when it is not an object.
    pub fn members(&self) -> &[SyntaxMember] {
        if let NodeKind::Object(members) = &self.kind { members } else { &[] }
    }

    /// The elements; empty when it is not a list.
    pub fn elements(&self) -> &[SyntaxNode] {
        if let NodeKind::List(elements) = &self.kind { elements } else { &[] }
    }

    /// The text, when it is a string.
    pub(crate) fn text(&self) -> Option<&str> {
        if let NodeKind::Text(text) = &self.kind { Some(text) } else { None }
    }

    /// Whether the value of a key is `true`.
    pub(crate) fn is_true(&self, key: &str) -> bool {
        matches!(self.get(key), Some(SyntaxNode { kind: NodeKind::Bool(true), .. }))
    }

    /// Whether the value of a key is `false`.
    pub(crate) fn is_false(&self, key: &str) -> bool {
        matches!(self.get(key), Some(SyntaxNode { kind: NodeKind::Bool(false), .. }))
    }

    /// Whether it is an entry that is listed but not started; `disabled` wins over other spellings.
    pub(crate) fn is_disabled(&self) -> bool {
        match self.get("disabled") {
            Some(_) => self.is_true("disabled"),
            None => self.is_false("enabled") || self.is_false("isActive"),
        }
    }

    /// The text of the value as JSON that any parser takes, numbers as written.
    pub fn to_json_text(&self) -> String {
        let list = |parts: Vec<String>, open, close| format!("{open}{}{close}", parts.join(","));
        match &self.kind {
            NodeKind::Number(number) => number.clone(),
            NodeKind::List(elements) => {
                list(elements.iter().map(Self::to_json_text).collect(), '[', ']')
            }
            NodeKind::Object(members) => {
                let member = |member: &SyntaxMember| {
                    let key = serde_json::Value::from(&*member.key);
                    format!("{key}:{}", member.value.to_json_text())
                };
                list(members.iter().map(member).collect(), '{', '}')
            }
            NodeKind::Null | NodeKind::Bool(_) | NodeKind::Text(_) => self.to_json().to_string(),
        }
    }

    /// The type with its article, for messages.
    pub(crate) const fn type_name(&self) -> &'static str {
        match self.kind {
            NodeKind::Null => "null",
            NodeKind::Bool(_) => "true or false",
            NodeKind::Number(_) => "a number",
            NodeKind::Text(_) => "a string",
            NodeKind::List(_) => "a list",
            NodeKind::Object(_) => "an object",
        }
    }

    /// The same value without positions. A number that JSON cannot hold becomes null.
    pub fn to_json(&self) -> serde_json::Value {
        use serde_json::Value as Json;
        match &self.kind {
            NodeKind::Null => Json::Null,
            NodeKind::Bool(b) => Json::Bool(*b),
            NodeKind::Number(n) => serde_json::from_str(n).unwrap_or(Json::Null),
            NodeKind::Text(t) => Json::String(t.clone()),
            NodeKind::List(elements) => elements.iter().map(Self::to_json).collect(),
            NodeKind::Object(members) => {
                members.iter().map(|m| (m.key.clone(), m.value.to_json())).collect()
            }
        }
    }
}

/// Parses a source. Returns every syntax error found, and the tree as far as one can be built, so
/// that the rest of the file is checked too; with an error the tree must not be used.
pub(crate) fn parse(source: &SourceText) -> (Option<SyntaxNode>, Vec<Diagnostic>) {
    if let Some(problem) = too_much(source) {
        return (None, vec![problem]);
    }
    match parse_with(source, &strict()) {
        Ok(Some(root)) => (Some(root), Vec::new()),
        Ok(None) => {
            let message = "the file holds no configuration";
            let mut empty = source.diagnostic("config/syntax", Severity::Error, 0..0, message);
            empty.help("start with `{ \"servers\": {} }`");
            (None, vec![empty])
        }
        Err(error) => {
            let mut problems = vec![syntax_error(source, &error)];
            let root = match parse_with(source, &ParseOptions::default()) {
                Ok(root) => root,
                Err(second) => {
                    problems.push(syntax_error(source, &second));
                    None
                }
            };
            if let Some(root) = &root {
                liberties(source, root, &mut problems);
            }
            problems.sort_by_key(|p| (p.at.line, p.at.column));
            problems.dedup_by_key(|p| (p.at.line, p.at.column));
            (root, problems)
        }
    }
}

/// Parses a source of another kind than a configuration; what JSON5 and the like allow is accepted,
/// and so is what is a lone half of a character.
pub fn parse_loosely(source: &SourceText) -> Result<Option<SyntaxNode>, Box<Diagnostic>> {
    let parsed = parse_text(&paired(source.text()), &ParseOptions::default());
    parsed.map_err(|error| Box::new(syntax_error(source, &error)))
}

/// The text of a file of another program with the halves of surrogate pairs that stand alone
/// replaced, each by an escape of the same length: programs in JavaScript cut texts in the middle of
/// a pair, and write and read such halves as escapes (ECMA-262, `JSON.stringify`).
pub(crate) fn paired(text: &str) -> Cow<'_, str> {
    const ESCAPE: &str = "\\ufffd";
    let half = |at: usize| {
        let digits = text.get(at..)?.strip_prefix("\\u")?.get(..4)?;
        u16::from_str_radix(digits, 16).ok().filter(|unit| (0xd800..0xe000).contains(unit))
    };
    let mut out = Cow::Borrowed(text);
    let mut at = 0;
    while let Some(found) = text.get(at..).and_then(|rest| rest.find('\\')) {
        let start = at + found;
        let is_low = |unit: Option<u16>| unit.is_some_and(|unit| unit >= 0xdc00);
        // What follows a backslash belongs to it, whatever it is.
        let next = text.get(start + 1..).and_then(|rest| rest.chars().next());
        at = start + 1 + next.map_or(0, char::len_utf8);
        match half(start) {
            Some(unit) if unit < 0xdc00 && is_low(half(start + ESCAPE.len())) => {
                at = start + 2 * ESCAPE.len();
            }
            Some(_) => out.to_mut().replace_range(start..start + ESCAPE.len(), ESCAPE),
            None => {}
        }
    }
    out
}

/// Parses a source with these options.
fn parse_with(
    source: &SourceText,
    options: &ParseOptions,
) -> Result<Option<SyntaxNode>, ParseError> {
    parse_text(source.text(), options)
}

fn parse_text(text: &str, options: &ParseOptions) -> Result<Option<SyntaxNode>, ParseError> {
    let parsed = parse_to_ast(text, &CollectOptions::default(), options)?;
    Ok(parsed.value.map(convert))
}

fn strict() -> ParseOptions {
    ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    }
}

fn convert(value: Value<'_>) -> SyntaxNode {
    let range = value.range();
    let range = range.start..range.end;
    let kind = match value {
        Value::NullKeyword(_) => NodeKind::Null,
        Value::BooleanLit(b) => NodeKind::Bool(b.value),
        Value::NumberLit(n) => NodeKind::Number(n.value.to_owned()),
        Value::StringLit(s) => NodeKind::Text(s.value.into_owned()),
        Value::Array(a) => NodeKind::List(a.elements.into_iter().map(convert).collect()),
        Value::Object(o) => NodeKind::Object(o.properties.into_iter().map(member).collect()),
    };
    SyntaxNode { range, kind }
}

fn member(prop: jsonc_parser::ast::ObjectProp<'_>) -> SyntaxMember {
    let (key, range) = match prop.name {
        ObjectPropName::String(lit) => (lit.value, lit.range),
        ObjectPropName::Word(word) => (Cow::Borrowed(word.value), word.range),
    };
    SyntaxMember {
        key: key.into_owned(),
        key_range: range.start..range.end,
        value: convert(prop.value),
    }
}

/// Checks the depth and size limits before anything recursive or costly runs on the text.
fn too_much(source: &SourceText) -> Option<Diagnostic> {
    let mut scanner = Scanner::new(source.text(), &ScannerOptions::default());
    let mut depth = 0_usize;
    let mut words = 0_usize;
    while let Ok(Some(token)) = scanner.scan() {
        words += usize::from(!matches!(
            token,
            Token::Comma
                | Token::Colon
                | Token::CloseBrace
                | Token::CloseBracket
                | Token::CommentLine(_)
                | Token::CommentBlock(_)
        ));
        match token {
            Token::OpenBrace | Token::OpenBracket => depth += 1,
            Token::CloseBrace | Token::CloseBracket => depth = depth.saturating_sub(1),
            _ => {}
        }
        let (rule, message) = if words > MAX_WORDS {
            ("config/too-large", format!("more than {MAX_WORDS} keys and values"))
        } else if depth > MAX_DEPTH {
            ("config/too-deep", format!("nested deeper than {MAX_DEPTH} levels"))
        } else {
            continue;
        };
        let range = scanner.token_start()..scanner.token_end();
        return Some(source.diagnostic(rule, Severity::Error, range, message));
    }
    None
}

/// The message and the help for a file that holds two versions of a part.
pub(crate) const CONFLICT: (&str, &str) = (
    "git could not merge two versions of this part: these are its marks of a conflict",
    "keep one of the versions, and remove the lines with <<<<<<<, ======= and >>>>>>>",
);

/// Where the first line stands with which git begins a conflict that nobody has resolved.
pub(crate) fn conflict_mark(text: &str) -> Option<Range<usize>> {
    let begins = |line: &str, mark: &str| {
        line.strip_prefix(mark)
            .is_some_and(|rest| rest.trim_end().is_empty() || rest.starts_with(' '))
    };
    let mut lines = text.split_inclusive('\n').scan(0, |at, line| {
        let start = *at;
        *at += line.len();
        Some((start, line))
    });
    let (start, line) = lines.find(|(_, line)| begins(line, "<<<<<<<"))?;
    lines.any(|(_, line)| begins(line, ">>>>>>>")).then(|| start..start + line.trim_end().len())
}

fn syntax_error(source: &SourceText, error: &ParseError) -> Diagnostic {
    if let Some(range) = conflict_mark(source.text()) {
        let mut problem = source.diagnostic("config/syntax", Severity::Error, range, CONFLICT.0);
        problem.help(CONFLICT.1);
        return problem;
    }
    let range = error.range();
    let hash = source.text().get(range.start..).is_some_and(|rest| rest.starts_with('#'));
    let quote = source.text().get(range.start..range.end).and_then(typographic_quote);
    let rest = source.text().get(range.start..).unwrap_or_default();
    let (message, help) = if let Some(other) = other_format(source.text()) {
        other
    } else if source.text().trim_start().starts_with('"') && rest.trim_start().starts_with(':') {
        ("the braces around the configuration are missing", "put `{` before it and `}` after it")
    } else if let Some(words) = foreign_word(rest) {
        words
    } else if quote.is_some() {
        ("a typographic quotation mark is not JSON", "use the straight `\"`")
    } else if let Some(words) = source.text().get(range.start..).and_then(foreign_mark) {
        words
    } else if hash {
        ("`#` does not begin a comment in JSON", "write `// ...`")
    } else {
        words(error.kind())
    };
    // An unclosed bracket is marked where it was opened, at the start of the range.
    let range = match error.kind() {
        ParseErrorKind::UnterminatedObject | ParseErrorKind::UnterminatedArray => {
            range.start..range.start + 1
        }
        _ => range.start..range.end,
    };
    let mut problem = source.diagnostic("config/syntax", Severity::Error, range, message);
    problem.help = (!help.is_empty()).then(|| help.to_owned());
    problem
}

/// The first quotation mark that an editor for prose, not for code, has put into a text.
fn typographic_quote(text: &str) -> Option<char> {
    text.chars()
        .find(|c| "\u{201c}\u{201d}\u{201e}\u{2018}\u{2019}\u{201a}\u{ab}\u{bb}".contains(*c))
}

/// The message and the help for a mark that looks like one of JSON, or like nothing, but is another
/// character: input methods and word processors write such marks.
fn foreign_mark(rest: &str) -> Option<(&'static str, &'static str)> {
    let wide = ("a full-width character is not JSON", "type it with a Latin keyboard");
    match rest.chars().next()? {
        '\0' => Some((
            "a NUL character is not JSON",
            "save the file anew, as UTF-8: it is damaged, or UTF-16",
        )),
        '\u{ff01}'..='\u{ff5e}' | '\u{3001}' | '\u{3002}' | '\u{300c}' | '\u{300d}' => Some(wide),
        c if is_hidden(c) => Some(("an invisible character is not JSON", "remove it")),
        _ => None,
    }
}

/// The message and the help for a constant as other languages spell it.
fn foreign_word(rest: &str) -> Option<(&'static str, &'static str)> {
    let end = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
    Some(match rest.get(..end)? {
        "True" | "TRUE" | "yes" | "Yes" | "on" | "On" => ("this word is not JSON", "write `true`"),
        "False" | "FALSE" | "no" | "No" | "off" | "Off" => {
            ("this word is not JSON", "write `false`")
        }
        "None" | "nil" | "NULL" | "Null" | "undefined" => {
            ("this word is not JSON", "write `null`, or leave the key out")
        }
        "NaN" | "Infinity" => ("this is not a JSON number", "write it in plain decimal digits"),
        _ => return None,
    })
}

/// Whether a line sets a variable, as in an env file: `NAME=value`, `export NAME=value`.
fn is_env_line(line: &str) -> bool {
    let set = line.strip_prefix("export ").unwrap_or(line);
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_uppercase() || c == '_')
            && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
    };
    set.split_once('=').is_some_and(|(name, _)| is_name(name))
}

/// The message and the help for a text in another format than JSON, by its first line.
fn other_format(text: &str) -> Option<(&'static str, &'static str)> {
    // Two bytes for a character, without a mark of their order.
    if text.bytes().take(64).filter(|byte| *byte == 0).count() > 8 {
        return Some(("this is UTF-16, not JSON in UTF-8", "save it as UTF-8"));
    }
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.find(|line| !line.starts_with(['#', ';']) && *line != "---")?;
    if first.starts_with('<') {
        let help = "give the file itself: was a web page saved in its place?";
        return Some(("this is HTML or XML, not JSON", help));
    }
    if first.starts_with("```") {
        return Some(("this is Markdown, not JSON", "remove the lines with the ```"));
    }
    if is_env_line(first) {
        let help = "name it as `envFile` in the entry of a server; this file lists the servers";
        return Some(("these are lines of an env file, not JSON", help));
    }
    let is_script =
        ["module.exports", "export default", "export ", "import ", "const ", "let ", "var "]
            .iter()
            .any(|word| first.starts_with(word));
    if is_script {
        return Some(("this is JavaScript, not JSON", "write the object alone, as JSON"));
    }
    let is_key = |key: &str| {
        let key = key.trim().trim_matches('"');
        !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || "_-.\" ".contains(c))
    };
    let table = first.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let table = table.is_some_and(|(name, rest)| {
        is_key(name.trim_start_matches('['))
            && name.contains(char::is_alphabetic)
            && !name.contains('"')
            && rest.trim_start_matches(']').is_empty()
    });
    if table || first.split_once('=').is_some_and(|(key, _)| is_key(key)) {
        return Some((
            "this is TOML, not JSON",
            "`mcpdeck import` reads the configuration of Codex; write others as `{ \"servers\": { ... } }`",
        ));
    }
    let is_yaml = first.split_once(':').is_some_and(|(key, rest)| {
        is_key(key) && !key.starts_with('"') && (rest.is_empty() || rest.starts_with(' '))
    });
    let help = "`mcpdeck import` reads the configuration of Goose and Continue; write others as \
                `{ \"servers\": { ... } }`";
    is_yaml.then_some(("this is YAML, not JSON", help))
}

/// The message and the help for a syntax error.
fn words(kind: &ParseErrorKind) -> (&'static str, &'static str) {
    use ParseErrorKind as K;
    use ParseStringErrorKind as S;
    match kind {
        K::ExpectedComma => ("a comma is missing here", "put `,` after this value"),
        K::ExpectedColonAfterObjectKey => {
            ("a colon is missing after the key", "write `\"key\": value`")
        }
        K::ExpectedObjectValue => ("the key has no value", "put a value after the colon"),
        K::ExpectedStringObjectProperty => ("the key has no quotes", "put it in double quotes"),
        K::SingleQuotedStringsNotAllowed => ("single quotes are not JSON", "use double quotes"),
        K::UnterminatedObject => ("this `{` is never closed", "add the missing `}`"),
        K::UnterminatedArray => ("this `[` is never closed", "add the missing `]`"),
        K::UnterminatedCommentBlock => ("this comment is never closed", "add `*/`"),
        K::MultipleRootJsonValues => (
            "there is text after the end of the configuration",
            "remove it, or an extra `}` before it",
        ),
        K::UnexpectedCloseBrace => ("an extra `}`, or a value is missing before it", ""),
        K::UnexpectedCloseBracket => ("an extra `]`, or a value is missing before it", ""),
        K::UnexpectedComma => ("a comma without a value before it", "remove it"),
        K::UnexpectedColon => ("a colon is not expected here", "keys are strings, in objects only"),
        K::UnexpectedWord => ("this word is not JSON", "put text in double quotes"),
        K::UnexpectedTokenInObject => ("a key is expected here", "write `\"key\": value`"),
        K::HexadecimalNumbersNotAllowed
        | K::UnaryPlusNumbersNotAllowed
        | K::BareDecimalPointNumbersNotAllowed
        | K::NonFiniteNumbersNotAllowed
        | K::ExpectedDigit
        | K::ExpectedDigitFollowingNegativeSign
        | K::ExpectedPlusMinusOrDigitInNumberLiteral => {
            ("this is not a JSON number", "write it in plain decimal digits")
        }
        K::NestingDepthExceeded => ("nested too deep", ""),
        K::String(S::UnterminatedStringLiteral) => {
            ("this string is never closed", "add the missing `\"`")
        }
        K::String(S::InvalidUnicodeEscapeSequence(_) | S::ExpectedFourHexDigits) => {
            ("this `\\u` escape is not a character", "write four hexadecimal digits")
        }
        K::String(_) => ("this backslash is not a JSON escape", "write `\\\\` for one backslash"),
        _ => ("this is not expected here", "a quote, a comma or a colon may be missing before it"),
    }
}

/// Reports what only the lenient parser accepts, beyond the one error the strict one stopped at.
fn liberties(source: &SourceText, node: &SyntaxNode, out: &mut Vec<Diagnostic>) {
    let mut report = |range: Range<usize>, kind: &ParseErrorKind| {
        let (message, help) = words(kind);
        let mut problem = source.diagnostic("config/syntax", Severity::Error, range, message);
        problem.help = Some(help.to_owned());
        out.push(problem);
    };
    let starts_with = |range: &Range<usize>, c: char| {
        source.text().get(range.clone()).is_some_and(|s| s.starts_with(c))
    };
    let mut ends: Vec<(usize, usize)> = Vec::new();
    match &node.kind {
        NodeKind::Text(_) if starts_with(&node.range, '\'') => {
            report(node.range.clone(), &ParseErrorKind::SingleQuotedStringsNotAllowed);
        }
        NodeKind::Object(members) => {
            for m in members {
                if starts_with(&m.key_range, '\'') {
                    report(m.key_range.clone(), &ParseErrorKind::SingleQuotedStringsNotAllowed);
                } else if !starts_with(&m.key_range, '"') {
                    report(m.key_range.clone(), &ParseErrorKind::ExpectedStringObjectProperty);
                }
            }
            ends =
                members.windows(2).map(|w| (w[0].value.range.end, w[1].key_range.start)).collect();
        }
        NodeKind::List(elements) => {
            ends = elements.windows(2).map(|w| (w[0].range.end, w[1].range.start)).collect();
        }
        _ => {}
    }
    for (end, next) in ends {
        if comma_in(source.text(), end..next).is_none() {
            report(end..end, &ParseErrorKind::ExpectedComma);
        }
    }
    for child in node.elements() {
        liberties(source, child, out);
    }
    for child in node.members() {
        liberties(source, &child.value, out);
    }
}

/// Offset of the first comma in a range, ignoring comments.
pub(crate) fn comma_in(text: &str, range: Range<usize>) -> Option<usize> {
    let part = text.get(range.clone())?;
    let mut scanner = Scanner::new(part, &ScannerOptions::default());
    while let Ok(Some(token)) = scanner.scan() {
        if token == Token::Comma {
            return Some(range.start + scanner.token_start());
        }
    }
    None
}
