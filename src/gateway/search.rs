//! Search among tools, for clients that are not shown all of them: BM25F over names, titles,
//! descriptions, parameters and their values (Robertson, Zaragoza, Taylor: Simple BM25 extension to
//! multiple weighted fields). Pure.
//!
//! Statistics are taken over the tools that the caller may see alone, so that neither a result nor
//! its rank depends on one that is denied to it.

use std::collections::HashMap;

use serde_json::Value;

use super::vocabulary::{COMMON_VERBS, SYNONYMS, plain_words, words};
use base::ServerName;
use base::text::{cut, nearest};

/// A place of a definition where words stand.
#[derive(Clone, Copy)]
enum WordPlace {
    Name,
    Title,
    Server,
    /// The first sentence of the description.
    Lead,
    /// What follows it: advice, examples, limits.
    Rest,
    Parameter,
    /// The first sentence of the description of a parameter.
    ParameterText,
    /// A value that a parameter may have.
    Value,
}

const FIELD_COUNT: usize = 8;

impl WordPlace {
    /// How much a word counts there.
    const FIELD_WEIGHTS: [f32; FIELD_COUNT] = [3.0, 2.0, 2.0, 2.0, 0.2, 0.4, 0.2, 0.4];
    /// The influence of the length, as a share: names are short anyway.
    const LENGTH_INFLUENCE: [f32; FIELD_COUNT] = [0.3, 0.3, 0.3, 0.5, 0.5, 0.5, 0.5, 0.5];
}

/// How much a synonym counts compared with the word itself: more where no tool has the word.
const SYNONYM_WEIGHT: f32 = 0.5;
const SUBSTITUTE_WEIGHT: f32 = 0.8;
/// How much a word counts that is like one which no tool has.
const LIKE_WEIGHT: f32 = 0.5;
/// How much a verb counts that is said of most things.
const VERB_WEIGHT: f32 = 0.6;
/// The usual constant of BM25 for the saturation of repeated words.
const TERM_SATURATION: f32 = 1.2;
/// How much of a score depends on the share of the query that a tool has, and of its name that the
/// query has.
const QUERY_SHARE: f32 = 0.4;
const NAME_SHARE: f32 = 0.2;

/// The share of the words of a query below which the best tool may be another than was meant.
const VAGUE_SHARE: f32 = 0.66;

/// Maximum number of words of a query that count.
const MAX_QUERY_WORDS: usize = 32;
/// Maximum number of words of one field that are indexed.
const MAX_FIELD_WORDS: usize = 300;
/// Longest first sentence of a tool and of a parameter, in bytes, and the shortest that counts as one.
const MAX_LEAD_BYTES: usize = 160;
const MAX_PARAMETER_TEXT_BYTES: usize = 120;
const MIN_LEAD_BYTES: usize = 25;
/// How deep parameters are indexed, and how many values of one.
const MAX_PARAMETER_DEPTH: usize = 2;
const MAX_INDEXED_VALUES: usize = 40;

/// The words of each tool of a list, in the order of the list.
#[derive(Debug, Default)]
pub(crate) struct ToolIndex {
    tools: Vec<IndexedTool>,
    /// By word, the tools that have it, in the order of the list.
    having: HashMap<String, Vec<Occurrence>>,
}

/// What a search found.
#[derive(Debug, Default)]
pub(crate) struct Ranking {
    /// The tools that match, by their indices, best first.
    pub tools: Vec<usize>,
    /// Whether even the best one lacks much of what was asked for.
    pub is_vague: bool,
}

/// The number of words in each field of a tool, and the words of its name.
#[derive(Debug, Default)]
struct IndexedTool {
    lengths: [f32; FIELD_COUNT],
    name: Vec<String>,
}

/// How often a tool has a word, by field.
#[derive(Debug)]
struct Occurrence {
    tool: usize,
    counts: [f32; FIELD_COUNT],
}

impl ToolIndex {
    /// The index of tools: each the name it has at its server, that server, and its definition.
    pub fn new<'t>(tools: impl Iterator<Item = (&'t ServerName, &'t str, &'t Value)>) -> Self {
        let mut out = Self::default();
        for (server, name, definition) in tools {
            let (tool, mut counts) = (out.tools.len(), HashMap::new());
            let lengths = count_words(server, name, definition, &mut counts);
            let mut name: Vec<String> = words(name).collect();
            name.sort_unstable();
            name.dedup();
            out.tools.push(IndexedTool { lengths, name });
            for (word, counts) in counts {
                out.having.entry(word).or_default().push(Occurrence { tool, counts });
            }
        }
        out
    }

    /// The tools that match a query, best first, among those of these indices.
    pub fn ranked(&self, query: &str, among: &[usize]) -> Ranking {
        let view = IndexView::new(self, among);
        let mut asked: Vec<String> = Vec::new();
        for word in words(&plain_words(query)) {
            if asked.len() < MAX_QUERY_WORDS && !asked.contains(&word) {
                asked.push(word);
            }
        }
        let alternatives: Vec<Vec<(String, f32)>> =
            asked.iter().map(|word| view.alternatives(word)).collect();
        let mut scores = vec![0.0_f32; self.tools.len()];
        let mut matched = vec![0_usize; self.tools.len()];
        // The factor by which each word of the query, or one for it, counts.
        let mut factors: HashMap<&str, f32> = HashMap::new();
        for any in &alternatives {
            let mut best: HashMap<usize, f32> = HashMap::new();
            for (word, factor) in any {
                let known = factors.entry(word.as_str()).or_default();
                *known = known.max(*factor / verb_factor(word));
                let rarity = view.rarity(word);
                for found in view.occurrences(word) {
                    let score = factor * rarity * view.saturated(found);
                    let best = best.entry(found.tool).or_default();
                    *best = best.max(score);
                }
            }
            for (tool, score) in best {
                scores[tool] += score;
                matched[tool] += 1;
            }
        }
        let count = alternatives.len().max(1) as f32;
        let mut scored: Vec<(f32, usize)> = among
            .iter()
            .filter(|tool| scores.get(**tool).is_some_and(|score| *score > 0.0))
            .map(|tool| {
                let share = matched[*tool] as f32 / count;
                let of_query = 1.0 - QUERY_SHARE + QUERY_SHARE * share;
                let share = view.share_of_name(&self.tools[*tool], &factors);
                let of_name = 1.0 - NAME_SHARE + NAME_SHARE * share;
                (scores[*tool] * of_query * of_name, *tool)
            })
            .collect();
        // Equally good ones stay in the order of the list.
        scored.sort_by(|a, b| b.0.total_cmp(&a.0));
        let best = scored.first();
        let is_vague = best.is_some_and(|(_, at)| (matched[*at] as f32) < VAGUE_SHARE * count);
        Ranking { tools: scored.into_iter().map(|(_, at)| at).collect(), is_vague }
    }
}

/// An index as a caller sees it.
struct IndexView<'i> {
    index: &'i ToolIndex,
    is_seen: Vec<bool>,
    count: f32,
    /// The mean number of words, by field.
    means: [f32; FIELD_COUNT],
}

impl<'i> IndexView<'i> {
    fn new(index: &'i ToolIndex, among: &[usize]) -> Self {
        let mut is_seen = vec![false; index.tools.len()];
        let mut means = [0.0; FIELD_COUNT];
        let mut count = 0.0;
        for at in among {
            let Some(tool) = index.tools.get(*at) else { continue };
            is_seen[*at] = true;
            count += 1.0;
            for (sum, length) in means.iter_mut().zip(tool.lengths) {
                *sum += length;
            }
        }
        let means = means.map(|sum| (sum / f32::max(count, 1.0)).max(f32::MIN_POSITIVE));
        Self { index, is_seen, count, means }
    }

    /// The occurrences of a word that the caller sees.
    fn occurrences(&self, word: &str) -> impl Iterator<Item = &'i Occurrence> {
        let all = self.index.having.get(word).into_iter().flatten();
        all.filter(move |found| self.is_seen[found.tool])
    }

    /// Whether the caller sees a tool with a word.
    fn is_had(&self, word: &str) -> bool {
        self.occurrences(word).next().is_some()
    }

    /// How much a word tells: less the more tools have it.
    fn rarity(&self, word: &str) -> f32 {
        let having = self.occurrences(word).count() as f32;
        (1.0 + (self.count - having + 0.5) / (having + 0.5)).ln()
    }

    /// What an occurrence counts.
    fn saturated(&self, found: &Occurrence) -> f32 {
        let lengths = &self.index.tools[found.tool].lengths;
        let weight: f32 = (0..FIELD_COUNT)
            .filter(|field| found.counts[*field] > 0.0)
            .map(|field| {
                let influence = WordPlace::LENGTH_INFLUENCE[field];
                let long = 1.0 - influence + influence * lengths[field] / self.means[field];
                WordPlace::FIELD_WEIGHTS[field] * found.counts[field] / long
            })
            .sum();
        weight * (TERM_SATURATION + 1.0) / (weight + TERM_SATURATION)
    }

    /// The words that may stand for a word of a query, each with what it counts. A synonym tells no
    /// more than the word itself would.
    fn alternatives(&self, word: &str) -> Vec<(String, f32)> {
        let (is_known, factor) = (self.is_had(word), verb_factor(word));
        let mut any = vec![(word.to_owned(), factor)];
        let weight = if is_known { SYNONYM_WEIGHT } else { SUBSTITUTE_WEIGHT };
        let most = if is_known { self.rarity(word) } else { f32::INFINITY };
        let others = SYNONYMS.get(word).into_iter().flatten().filter(|other| self.is_had(other));
        any.extend(others.map(|other| {
            let share = (most / self.rarity(other)).min(1.0);
            (other.clone(), factor * weight * share)
        }));
        if word.len() >= 4 && !is_known {
            let like = self.index.having.keys().filter(|other| is_like(word, other));
            let like = like.filter(|other| self.is_had(other));
            any.extend(like.map(|other| (other.clone(), LIKE_WEIGHT)));
            if any.len() == 1 {
                any.extend(self.spelled_like(word).map(|other| (other, SUBSTITUTE_WEIGHT)));
            }
        }
        any
    }

    /// The word of a tool that one which no tool has may be a misspelling of.
    fn spelled_like(&self, word: &str) -> Option<String> {
        const MIN_TYPO_CHARS: usize = 5;
        const MIN_TYPO_SIMILARITY: f64 = 0.92;
        if word.len() < MIN_TYPO_CHARS {
            return None;
        }
        // Few misspell the first letter, and many words differ by it alone.
        let first = word.chars().next();
        let known = self.index.having.keys();
        let known = known.filter(|other| other.chars().next() == first && other.len() >= 4);
        let mut known: Vec<&String> = known.filter(|other| self.is_had(other)).collect();
        known.sort_unstable();
        nearest(word, known, MIN_TYPO_SIMILARITY).cloned()
    }

    /// The share of the name of a tool that a query has, by what its words tell.
    fn share_of_name(&self, tool: &IndexedTool, factors: &HashMap<&str, f32>) -> f32 {
        let (mut had, mut all) = (0.0, f32::MIN_POSITIVE);
        for word in &tool.name {
            let rarity = self.rarity(word);
            all += rarity;
            had += rarity * factors.get(word.as_str()).copied().unwrap_or_default().min(1.0);
        }
        had / all
    }
}

/// How much a word of a query counts.
fn verb_factor(word: &str) -> f32 {
    if COMMON_VERBS.contains(word) { VERB_WEIGHT } else { 1.0 }
}

/// Whether a word that tools have may be what a longer or shorter one means: `folder` in
/// `subfolder`, `vulnerable` for `vulnerability`.
fn is_like(word: &str, known: &str) -> bool {
    const MIN_COMMON_CHARS: usize = 5;
    if known.starts_with(word)
        || known.len() >= 4 && (word.starts_with(known) || word.ends_with(known))
    {
        return true;
    }
    let common = word.chars().zip(known.chars()).take_while(|(one, other)| one == other).count();
    let longer = word.chars().count().max(known.chars().count());
    common >= MIN_COMMON_CHARS && common * 3 >= longer * 2
}

/// Counts the words of a tool by field; returns how many there are in each.
fn count_words(
    server: &ServerName,
    name: &str,
    definition: &Value,
    counts: &mut HashMap<String, [f32; FIELD_COUNT]>,
) -> [f32; FIELD_COUNT] {
    let mut lengths = [0.0; FIELD_COUNT];
    let mut add = |field: WordPlace, text: &str| {
        let at = field as usize;
        for word in words(text) {
            if lengths[at] >= MAX_FIELD_WORDS as f32 {
                return;
            }
            counts.entry(word).or_default()[at] += 1.0;
            lengths[at] += 1.0;
        }
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    add(WordPlace::Name, name);
    add(WordPlace::Server, server.as_str());
    add(WordPlace::Title, &text(&definition["title"]));
    add(WordPlace::Title, &text(&definition["annotations"]["title"]));
    let description = text(&definition["description"]);
    let (lead, rest) = first_sentence(&description, MAX_LEAD_BYTES);
    add(WordPlace::Lead, lead);
    add(WordPlace::Rest, rest);
    let mut schemas = vec![(&definition["inputSchema"], 0)];
    while let Some((schema, depth)) = schemas.pop() {
        for (parameter, about) in schema["properties"].as_object().into_iter().flatten() {
            add(WordPlace::Parameter, parameter);
            let description = text(&about["description"]);
            add(WordPlace::ParameterText, first_sentence(&description, MAX_PARAMETER_TEXT_BYTES).0);
            let values = about["enum"].as_array().into_iter().flatten();
            for value in values.take(MAX_INDEXED_VALUES).filter_map(Value::as_str) {
                add(WordPlace::Value, value);
            }
            if depth < MAX_PARAMETER_DEPTH {
                schemas.extend([(about, depth + 1), (&about["items"], depth + 1)]);
            }
        }
    }
    lengths
}

/// The first sentence of a text, cut at a length in bytes, and the rest.
fn first_sentence(text: &str, most: usize) -> (&str, &str) {
    let text = text.trim_start();
    let end = text.char_indices().take_while(|(at, _)| *at < most).find_map(|(at, c)| {
        let after = at + c.len_utf8();
        let is_over = text[after..].starts_with(char::is_whitespace);
        (matches!(c, '.' | '!' | '?' | ':') && is_over && after >= MIN_LEAD_BYTES).then_some(after)
    });
    let end = end.unwrap_or_else(|| cut(text, most).len());
    text.split_at(end)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fixture(name: &str) -> Vec<Vec<String>> {
        let path = format!("{}/../../fixtures/search/{name}", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).expect("a fixture");
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines.map(|line| line.split('|').map(|part| part.trim().to_owned()).collect()).collect()
    }

    /// The tools of a fixture, as definitions.
    fn tools(name: &str) -> Vec<(ServerName, String, Value)> {
        let rows = fixture(name).into_iter().map(|row| {
            let [server, name, description, parameters] = row.try_into().expect("four columns");
            let names = parameters.split(',').map(str::trim).filter(|name| !name.is_empty());
            let (mut properties, mut required) = (json!({}), Vec::new());
            for name in names {
                let plain = name.trim_end_matches('?');
                properties[plain] = json!({"type": "string"});
                if plain == name {
                    required.push(plain);
                }
            }
            let schema = json!({"type": "object", "properties": properties, "required": required});
            let definition =
                json!({"name": name, "description": description, "inputSchema": schema});
            (ServerName::new(&server), name, definition)
        });
        rows.collect()
    }

    /// The tools that published servers list, as they define them.
    fn published() -> Vec<(ServerName, String, Value)> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/check/published.json");
        let all: Value = serde_json::from_str(&std::fs::read_to_string(path).expect("a fixture"))
            .expect("what servers answered");
        let tools_of = |server: &Value| {
            let name = ServerName::new(server["name"].as_str().expect("a name"));
            let tools = server["tools"].as_array().cloned().unwrap_or_default();
            let named = |tool: Value| {
                (name.clone(), tool["name"].as_str().expect("a name").to_owned(), tool)
            };
            tools.into_iter().map(named).collect::<Vec<_>>()
        };
        all["servers"].as_array().expect("servers").iter().flat_map(tools_of).collect()
    }

    fn index(tools: &[(ServerName, String, Value)]) -> ToolIndex {
        ToolIndex::new(tools.iter().map(|(server, name, raw)| (server, name.as_str(), raw)))
    }

    /// How many of the questions find a tool that would do among the first five, and as the first;
    /// and those that do not.
    fn found(
        tools: &[(ServerName, String, Value)],
        questions: &str,
    ) -> (f64, f64, Vec<(String, Vec<String>)>) {
        let index = index(tools);
        let all: Vec<usize> = (0..tools.len()).collect();
        let (mut found, mut first, mut missed) = (0, 0, Vec::new());
        let questions = fixture(questions);
        assert!(tools.len() > 400 && questions.len() > 90);
        for question in &questions {
            let wanted: Vec<&str> = question[1].split(' ').collect();
            let best: Vec<String> = index
                .ranked(&question[0], &all)
                .tools
                .into_iter()
                .take(5)
                .map(|at| format!("{}.{}", tools[at].0, tools[at].1))
                .collect();
            let place = best.iter().position(|name| wanted.contains(&name.as_str()));
            found += usize::from(place.is_some());
            first += usize::from(place == Some(0));
            if place.is_none() {
                missed.push((question[0].clone(), best));
            }
        }
        let share = |count: usize| count as f64 / questions.len() as f64;
        (share(found), share(first), missed)
    }

    #[test]
    fn most_questions_find_a_tool_that_would_do_among_the_first_five() {
        let (written, published) = (tools("tools.txt"), published());
        for (tools, name, least, least_first) in [
            (&written, "questions.txt", 0.9, 0.7),
            (&written, "spoken.txt", 0.9, 0.6),
            (&written, "unseen.txt", 0.9, 0.6),
            // Servers as they are published: longer and looser texts, near-duplicates side by side.
            (&published, "published-models.txt", 0.95, 0.9),
            (&published, "published-spoken.txt", 0.88, 0.65),
            (&published, "published-unseen.txt", 0.78, 0.45),
        ] {
            let (share, first, missed) = found(tools, name);
            assert!(share >= least, "{name}: {share:.2}, missed: {missed:#?}");
            assert!(first >= least_first, "{name}: {first:.2}");
        }
    }

    #[test]
    fn only_the_tools_that_may_be_seen_are_found_and_the_rank_depends_on_no_other() {
        let tools = tools("tools.txt");
        let whole = index(&tools);
        let seen: Vec<usize> = (0..tools.len()).filter(|at| at % 3 == 0).collect();
        let part: Vec<_> = seen.iter().map(|at| tools[*at].clone()).collect();
        let alone = index(&part);
        let all: Vec<usize> = (0..part.len()).collect();
        for question in fixture("questions.txt").into_iter().chain(fixture("spoken.txt")) {
            let found = whole.ranked(&question[0], &seen);
            let alone = alone.ranked(&question[0], &all);
            let expected: Vec<usize> = alone.tools.into_iter().map(|at| seen[at]).collect();
            let wanted = (expected, alone.is_vague);
            assert_eq!((found.tools, found.is_vague), wanted, "{}", question[0]);
        }
    }

    #[test]
    fn a_query_without_a_word_in_common_finds_nothing() {
        let tools = tools("tools.txt");
        let all: Vec<usize> = (0..tools.len()).collect();
        let index = index(&tools);
        for query in ["", "zzzqqq", "the", "\u{202e}", "🙂"] {
            assert!(index.ranked(query, &all).tools.is_empty(), "{query}");
        }
        assert!(index.ranked("issue", &[]).tools.is_empty());
        assert!(!index.ranked(&"issue ".repeat(100_000), &all).tools.is_empty());
    }

    #[test]
    fn a_misspelled_word_finds_what_was_meant() {
        let tools = tools("tools.txt");
        let all: Vec<usize> = (0..tools.len()).collect();
        let index = index(&tools);
        for (query, meant) in [
            ("create refnud", "create refund"),
            ("list kuberentes pods", "list kubernetes pods"),
            ("add calender event", "add calendar event"),
            ("search repositroy code", "search repository code"),
            ("create invioce", "create invoice"),
        ] {
            let (found, wanted) = (index.ranked(query, &all), index.ranked(meant, &all));
            assert_eq!(found.tools[0], wanted.tools[0], "{query}");
            assert_eq!(found.is_vague, wanted.is_vague, "{query}");
        }
        // A word that is like none stands for none.
        assert!(index.ranked("xylophonist", &all).tools.is_empty());
    }

    #[test]
    fn a_query_that_the_best_tool_has_little_of_is_vague() {
        let tools = tools("tools.txt");
        let all: Vec<usize> = (0..tools.len()).collect();
        let index = index(&tools);
        for (query, is_vague) in [
            ("create github issue", false),
            ("send email", false),
            ("refund a payment", false),
            ("issue of zzzqqq wwwxxx yyyzzz", true),
            ("zzzqqq", false),
        ] {
            assert_eq!(index.ranked(query, &all).is_vague, is_vague, "{query}");
        }
    }
}
