//! Markdown as styled, wrapped lines. Only what terminals do well; links show their targets.

mod table;

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use ratatui::style::{Modifier, Style};
use unicode_width::UnicodeWidthStr;

use crate::form::draw::Styles;
use crate::widget::doc::wrap;
use crate::widget::json_line;
use base::text::SafeText;
use table::MarkdownTable;

/// Longest text rendered as Markdown, in bytes.
pub(super) const MAX_MARKDOWN_BYTES: usize = 512 << 10;

/// Most levels of lists and of quotes that are set in; what is nested deeper stands below the last.
const MAX_SET_IN_LEVELS: usize = 8;

/// One piece of a line.
pub type MarkdownSpan = (SafeText, Style);

/// Whether `text` looks like Markdown rather than plain text.
pub(super) fn looks_like(text: &str) -> bool {
    let head: String = text.chars().take(8_000).collect();
    let lines = || head.lines().map(str::trim_start);
    lines().any(|l| {
        l.starts_with("# ") || l.starts_with("## ") || l.starts_with("### ") || l.starts_with("```")
    }) || lines().filter(|l| l.starts_with("- ") || l.starts_with("* ")).count() > 1
        || head.contains("**")
        || (head.contains("](") && head.contains('['))
        || lines().any(|l| l.starts_with('|') && l.ends_with('|') && l.len() > 4)
}

/// Lines of `text` for a region of `width` cells.
pub fn lines(text: &str, width: u16, look: &Styles) -> Vec<Vec<MarkdownSpan>> {
    let mut page = Page {
        look,
        width: usize::from(width.max(8)),
        lines: Vec::new(),
        line: Vec::new(),
        used: 0,
        styles: vec![look.text],
        lists: Vec::new(),
        quote: 0,
        code: false,
        json: false,
        link: None,
        table: None,
    };
    let options = Options::ENABLE_TABLES
        | Options::ENABLE_MATH
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_TASKLISTS
        | Options::ENABLE_YAML_STYLE_METADATA_BLOCKS;
    for event in Parser::new_ext(text, options) {
        page.event(event);
    }
    page.end_line();
    while page.lines.last().is_some_and(Vec::is_empty) {
        page.lines.pop();
    }
    page.lines
}

struct Page<'a> {
    look: &'a Styles,
    width: usize,
    lines: Vec<Vec<MarkdownSpan>>,
    line: Vec<MarkdownSpan>,
    used: usize,
    styles: Vec<Style>,
    lists: Vec<Option<u64>>,
    quote: usize,
    code: bool,
    /// Whether the code is JSON.
    json: bool,
    /// The target of the link that is read, and its text so far.
    link: Option<(String, String)>,
    table: Option<MarkdownTable>,
}

impl Page<'_> {
    fn style(&self) -> Style {
        self.styles.last().copied().unwrap_or_default()
    }

    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) if self.code => {
                for line in text.split_terminator('\n') {
                    self.code_line(line);
                    self.end_line();
                }
            }
            Event::Text(text) => self.words(&text, self.style()),
            Event::Code(text) => self.words(&text, self.look.json_string),
            // As they are written.
            Event::InlineMath(text) => self.words(&format!("${text}$"), self.style()),
            Event::DisplayMath(text) => {
                for (n, line) in format!("$${text}$$").lines().enumerate() {
                    if n > 0 {
                        self.end_line();
                    }
                    self.words(line, self.style());
                }
            }
            Event::Html(text) | Event::InlineHtml(text) => self.words(&text, self.look.faint),
            Event::SoftBreak => self.words(" ", self.style()),
            Event::HardBreak => self.end_line(),
            Event::Rule => {
                self.blank();
                let rule = self.look.sign("─", "-").repeat(self.width.min(40));
                self.raw(&rule, self.look.rule);
                self.end_line();
            }
            Event::TaskListMarker(done) => {
                self.words(if done { "[x] " } else { "[ ] " }, self.look.muted);
            }
            Event::FootnoteReference(_) => {}
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        let base = self.style();
        match tag {
            Tag::Heading { level, .. } => {
                self.blank();
                let mut style = self.look.accent.add_modifier(Modifier::BOLD);
                if level == HeadingLevel::H1 {
                    style = style.add_modifier(Modifier::UNDERLINED);
                }
                self.styles.push(style);
            }
            Tag::Paragraph if self.lists.is_empty() => self.blank(),
            Tag::BlockQuote(_) => self.quote += 1,
            Tag::CodeBlock(kind) => {
                self.blank();
                self.code = true;
                self.json = match kind {
                    CodeBlockKind::Fenced(language) => language.starts_with("json"),
                    CodeBlockKind::Indented => false,
                };
            }
            // What skills and pages begin with.
            Tag::MetadataBlock(_) => {
                self.blank();
                (self.code, self.json) = (true, false);
            }
            Tag::List(first) => {
                if self.lists.is_empty() {
                    self.blank();
                } else {
                    self.end_line();
                }
                self.lists.push(first);
            }
            Tag::Item => {
                self.end_line();
                let depth = self.lists.len().saturating_sub(1).min(MAX_SET_IN_LEVELS);
                let bullet = self.look.sign("•", "*").to_owned();
                let mark = match self.lists.last_mut() {
                    Some(Some(number)) => {
                        *number += 1;
                        format!("{}. ", *number - 1)
                    }
                    _ => format!("{bullet} "),
                };
                self.raw(&format!("{}{mark}", "  ".repeat(depth)), self.look.muted);
            }
            Tag::Emphasis => self.styles.push(base.add_modifier(Modifier::ITALIC)),
            Tag::Strong | Tag::TableHead => self.styles.push(base.add_modifier(Modifier::BOLD)),
            Tag::Strikethrough => self.styles.push(base.add_modifier(Modifier::CROSSED_OUT)),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.link = Some((dest_url.into_string(), String::new()));
                self.styles.push(self.look.accent.add_modifier(Modifier::UNDERLINED));
            }
            Tag::Table(alignments) => {
                self.blank();
                self.table = Some(MarkdownTable::new(alignments));
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Heading(_) => {
                self.styles.pop();
                self.end_line();
            }
            TagEnd::Paragraph | TagEnd::Item => self.end_line(),
            TagEnd::TableCell => {
                if let Some(table) = &mut self.table {
                    table.end_cell();
                }
            }
            TagEnd::TableHead | TagEnd::TableRow => {
                if tag == TagEnd::TableHead {
                    self.styles.pop();
                }
                if let Some(table) = &mut self.table {
                    table.end_row();
                }
            }
            TagEnd::Table => self.end_table(),
            TagEnd::BlockQuote(_) => self.quote = self.quote.saturating_sub(1),
            TagEnd::CodeBlock | TagEnd::MetadataBlock(_) => self.code = false,
            TagEnd::List(_) => {
                self.lists.pop();
            }
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => {
                self.styles.pop();
            }
            TagEnd::Link | TagEnd::Image => {
                self.styles.pop();
                // The target of a link is shown, because its text may claim another one.
                if let Some((url, _)) = self.link.take().filter(|(url, text)| url != text) {
                    self.words(&format!(" ({url})"), self.look.faint);
                }
            }
            _ => {}
        }
    }

    /// Adds a line of code; JSON is coloured by kind.
    fn code_line(&mut self, line: &str) {
        if !self.json {
            return self.raw(&format!("  {line}"), self.look.json_string);
        }
        self.raw("  ", self.look.text);
        for (part, role) in json_line(line) {
            self.raw(part, self.look.json(role));
        }
    }

    /// Adds text to the line; what is wider than the page continues in the next lines.
    fn raw(&mut self, text: &str, style: Style) {
        self.margin();
        let safe = SafeText::line(text);
        let room = self.width.saturating_sub(self.used).max(8);
        let parts = if safe.trim_end().width() > room {
            wrap(&safe, room as u16).map(SafeText::line).collect()
        } else {
            vec![safe]
        };
        for (n, part) in parts.into_iter().enumerate() {
            if n > 0 {
                self.end_line();
                self.margin();
            }
            // A blank after the last word of a line is not drawn: it would not fit.
            let over = self.used + part.width() > self.width;
            let part = if over { SafeText::line(part.trim_end()) } else { part };
            self.used += part.width();
            self.line.push((part, style));
        }
    }

    fn words(&mut self, text: &str, style: Style) {
        if let Some((_, so_far)) = &mut self.link {
            so_far.push_str(text);
        }
        if let Some(table) = &mut self.table {
            return table.push((SafeText::line(text), style));
        }
        for word in text.split_inclusive(' ') {
            let width = SafeText::line(word).trim_end().width();
            if self.used + width > self.width && self.used > 0 {
                let indent = "  ".repeat(self.lists.len().min(MAX_SET_IN_LEVELS));
                self.end_line();
                if !indent.is_empty() {
                    self.raw(&indent, style);
                }
            }
            self.raw(word, style);
        }
    }

    fn end_table(&mut self) {
        let Some(table) = self.table.take() else { return };
        for line in table.lines(self.width.saturating_sub(2 * self.bars())) {
            self.margin();
            self.line.extend(line);
            self.lines.push(std::mem::take(&mut self.line));
            self.used = 0;
        }
    }

    /// Bars in front of a line within quotes.
    fn bars(&self) -> usize {
        self.quote.min(MAX_SET_IN_LEVELS)
    }

    fn margin(&mut self) {
        if self.line.is_empty() && self.quote > 0 {
            let bar = self.look.sign("│ ", "| ").repeat(self.bars());
            self.used += bar.width();
            self.line.push((SafeText::line(&bar), self.look.rule));
        }
    }

    fn end_line(&mut self) {
        if !self.line.is_empty() {
            self.lines.push(std::mem::take(&mut self.line));
        }
        self.used = 0;
    }

    fn blank(&mut self) {
        self.end_line();
        if self.lines.last().is_some_and(|line| !line.is_empty()) {
            self.lines.push(Vec::new());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str, width: u16) -> Vec<String> {
        let lines = lines(text, width, &Styles::default()).into_iter();
        lines.map(|line| line.iter().map(|(text, _)| text.as_str()).collect()).collect()
    }

    #[test]
    fn no_line_is_wider_than_its_region_and_no_word_is_lost() {
        let text = "Write call NAME {\"key\": \"value\"} to make a **call** of the tool.";
        for width in 8..80 {
            let lines = texts(text, width);
            assert!(
                lines.iter().all(|line| line.width() <= usize::from(width)),
                "{width}: {lines:?}"
            );
            let words = lines.join(" ");
            let plain = text.replace("**", "");
            for word in plain.split(' ').filter(|word| word.len() <= usize::from(width)) {
                assert!(words.contains(word), "{width}: {word} of {lines:?}");
            }
        }
    }

    #[test]
    fn the_columns_of_a_table_are_aligned_and_no_cell_is_lost_at_any_width() {
        let table = "| a | n |\n| --- | ---: |\n| wind | 7 |\n| `x` | **1200** |";
        assert_eq!(texts(table, 40), ["  a        n", "  wind     7", "  x     1200"]);
        // A head that is empty is none.
        let plain = "| | |\n| - | - |\n| pressure | 1012 hPa |\n| sky | clear |";
        assert_eq!(texts(plain, 40), ["  pressure  1012 hPa", "  sky       clear"]);
        let wide = "| name | what it does |\n| - | - |\n| first | words that go on for long |\n\
                    | anothernamethatislong | https://example.org/a/b/c |";
        for width in 8..80 {
            let lines = texts(wide, width);
            assert!(
                lines.iter().all(|line| line.width() <= usize::from(width)),
                "{width}: {lines:?}"
            );
            let all: String = lines.concat().split_whitespace().collect();
            for word in ["first", "words", "long"] {
                assert!(all.contains(word), "{width}: {lines:?}");
            }
        }
        let narrow = texts(wide, 14);
        assert_eq!(narrow[0], "name: first");
    }

    #[test]
    fn a_link_tells_its_target_once_and_formulas_stay_as_they_are_written() {
        assert_eq!(texts("<https://a.example>", 60), ["https://a.example"]);
        let named = texts("[here](https://a.example) $x_1 \\, y$", 60);
        assert_eq!(named, ["here (https://a.example) $x_1 \\, y$"]);
        assert_eq!(texts("$$\na_1 \\, b\n$$", 60), ["$$", "a_1 \\, b", "$$"]);
        assert_eq!(texts("$5 and $6", 60), ["$5 and $6"]);
    }

    #[test]
    fn lists_and_quotes_nested_without_end_take_no_more_room_than_their_text() {
        let levels = 2_000;
        for mark in ["- ", "> ", "1. "] {
            let nested = format!("{}{}", mark.repeat(levels), "words and words ".repeat(levels));
            let lines = texts(&nested, 60);
            assert!(lines.len() <= 3 * levels, "{mark}: {}", lines.len());
            assert!(lines.iter().all(|line| line.width() <= 60), "{mark}");
            assert!(lines.last().is_some_and(|line| line.contains("words")), "{mark}");
        }
    }

    #[test]
    fn json_in_a_code_block_is_coloured_by_kind() {
        let look = Styles { json_key: Style::new().bold(), ..Styles::default() };
        let lines = lines("```json\n{\"a\": 1}\n```", 40, &look);
        let key = lines.iter().flatten().find(|(text, _)| text.as_str() == "\"a\"");
        assert_eq!(key.map(|(_, style)| *style), Some(look.json_key));
    }
}
