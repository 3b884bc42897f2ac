//! Finding in a result, and taking out of it: search, copy, save.

use serde_json::Value;

use super::content::{BlockKind, bytes_at};
use super::markdown;
use super::rows::find;
use super::view::{Laid, ResultView, Tab, Wants};

impl ResultView {
    /// Looks for `needle` from here on.
    pub fn search(&mut self, needle: &str) -> Option<Wants> {
        needle.clone_into(&mut self.needle);
        self.search_next()
    }

    pub(super) fn search_next(&mut self) -> Option<Wants> {
        let needle = self.needle.clone();
        if needle.is_empty() {
            return None;
        }
        let found = match self.with_tree(|tree, value| tree.search(value, &needle)) {
            Some(found) => found,
            None => self.search_text(&needle),
        };
        (!found).then(|| Wants::Say(format!("not found: {needle}")))
    }

    fn search_text(&mut self, needle: &str) -> bool {
        if self.tab == Tab::Compare {
            let lines = self.comparison.as_ref().map_or(&[][..], |c| &c.lines);
            let wanted = needle.to_lowercase();
            let hit = |from: usize| {
                lines
                    .iter()
                    .skip(from)
                    .position(|l| l.text.to_lowercase().contains(&wanted))
                    .map(|i| from + i)
            };
            let found = hit(self.scroll + 1).or_else(|| hit(0));
            self.scroll = found.unwrap_or(self.scroll);
            return found.is_some();
        }
        let blocks = self.blocks.len();
        let mut above = 0;
        let mut hits = Vec::new();
        for index in 0..blocks {
            let title = usize::from(self.has_title(index));
            if let Some(Laid::Rows(rows, text)) = self.laid.get(index) {
                let text = text.as_str();
                let local = self.scroll.saturating_sub(above + title);
                let from = if self.scroll >= above {
                    rows.slice(text, local + 1..local + 2)
                        .first()
                        .map(|r| r.as_ptr() as usize - text.as_ptr() as usize)
                } else {
                    Some(0)
                };
                let found = find(text, needle, from.unwrap_or(text.len()));
                hits.extend(found.map(|offset| above + title + rows.row_of(text, offset)));
            } else if let Some(Laid::Lines(lines)) = self.laid.get(index) {
                let wanted = needle.to_lowercase();
                let holds = |line: &Vec<markdown::Span>| {
                    line.iter()
                        .map(|(t, _)| t.as_str())
                        .collect::<String>()
                        .to_lowercase()
                        .contains(&wanted)
                };
                hits.extend(
                    lines
                        .iter()
                        .enumerate()
                        .filter(|(_, l)| holds(l))
                        .map(|(i, _)| above + title + i),
                );
            }
            above += self.block_rows(index);
        }
        let next = hits.iter().copied().filter(|row| *row > self.scroll).min();
        let Some(row) = next.or_else(|| hits.into_iter().min()) else { return false };
        self.scroll = row;
        true
    }

    pub(super) fn copied(&self) -> String {
        if let Some((tree, value)) = self.tree() {
            return match tree.current(value) {
                Value::String(text) => text.clone(),
                other => serde_json::to_string_pretty(other).unwrap_or_default(),
            };
        }
        match self.blocks.get(self.block).map(|b| (&b.kind, &b.pointer)) {
            Some((BlockKind::Text(text), _)) => text.as_str().to_owned(),
            Some((BlockKind::Link { uri, .. }, _)) => uri.clone(),
            Some((_, pointer)) => {
                self.result.pointer(pointer).map(ToString::to_string).unwrap_or_default()
            }
            None => self.result.to_string(),
        }
    }

    pub(super) fn saved(&self) -> Wants {
        let block = self.blocks.get(self.block).filter(|_| self.tab == Tab::Content);
        match block.map(|b| (&b.kind, &b.pointer)) {
            Some((BlockKind::Text(text), _)) => {
                Wants::Save("mcpdeck-result.txt".to_owned(), text.as_str().as_bytes().to_vec())
            }
            Some((BlockKind::Data { name, encoded, .. }, _)) => {
                match bytes_at(&self.result, encoded) {
                    Ok(bytes) => Wants::Save(name.clone(), bytes),
                    Err(reason) => Wants::Say(reason),
                }
            }
            Some((BlockKind::Picture(_), pointer)) => {
                let block = self.result.pointer(pointer).unwrap_or(&Value::Null);
                let mime = block.get("mimeType").and_then(Value::as_str).unwrap_or_default();
                let key = if block.get("data").is_some() { "data" } else { "blob" };
                match bytes_at(&self.result, &format!("{pointer}/{key}")) {
                    Ok(bytes) => Wants::Save(
                        format!("mcpdeck-result.{}", super::content::suffix(mime)),
                        bytes,
                    ),
                    Err(reason) => Wants::Say(reason),
                }
            }
            _ => Wants::Save("mcpdeck-result.json".to_owned(), self.copied().into_bytes()),
        }
    }
}
