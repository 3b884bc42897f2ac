//! Search among tools, for clients that are not shown all of them: BM25 over names, titles,
//! descriptions and the names of parameters. Pure.
//!
//! Statistics are taken over the tools that the caller may see alone, so that neither a result nor
//! its rank depends on one that is denied to it.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use serde_json::Value;

use base::ServerName;

/// How much a word counts, by the place where it stands.
const NAME_WEIGHT: f32 = 3.0;
const TITLE_WEIGHT: f32 = 2.0;
const SERVER_WEIGHT: f32 = 2.0;
const DESCRIPTION_WEIGHT: f32 = 1.5;
const PARAMETER_WEIGHT: f32 = 0.5;
/// How much a synonym counts compared with the word itself: more where no tool has the word.
const SYNONYM_WEIGHT: f32 = 0.4;
const SUBSTITUTE_WEIGHT: f32 = 0.8;
/// How much a word counts that is like one which no tool has.
const LIKE_WEIGHT: f32 = 0.5;
/// How much a verb counts that is said of most things.
const VERB_WEIGHT: f32 = 0.6;
/// The usual constants of BM25: saturation of repeated words, and the influence of the length.
const TERM_SATURATION: f32 = 1.2;
const LENGTH_INFLUENCE: f32 = 0.75;

/// Maximum number of words of a query that count.
const MAX_QUERY_WORDS: usize = 32;
/// Maximum number of words of one description that are indexed.
const MAX_TEXT_WORDS: usize = 2_000;

/// The words of each tool of a list, in the order of the list.
#[derive(Debug, Default)]
pub(crate) struct ToolIndex(Vec<ToolWords>);

/// The words of a tool with their weights, and the sum of these.
#[derive(Debug, Default)]
struct ToolWords {
    weights: HashMap<String, f32>,
    length: f32,
}

impl ToolIndex {
    /// The index of tools: each the name it has at its server, that server, and its definition.
    pub fn new<'t>(tools: impl Iterator<Item = (&'t ServerName, &'t str, &'t Value)>) -> Self {
        Self(tools.map(|(server, name, definition)| words_of(server, name, definition)).collect())
    }

    /// The tools that match a query, best first, among those of these indices.
    pub fn ranked(&self, query: &str, among: &[usize]) -> Vec<usize> {
        let seen: Vec<(usize, &ToolWords)> =
            among.iter().filter_map(|at| Some((*at, self.0.get(*at)?))).collect();
        let count = seen.len() as f32;
        let mean = seen.iter().map(|(_, tool)| tool.length).sum::<f32>() / count.max(1.0);
        let mut having: HashMap<&str, usize> = HashMap::new();
        for word in seen.iter().flat_map(|(_, tool)| tool.weights.keys()) {
            *having.entry(word).or_default() += 1;
        }
        let mut asked: Vec<String> = Vec::new();
        for word in words(&plain_words(query)) {
            if asked.len() < MAX_QUERY_WORDS && !asked.contains(&word) {
                asked.push(word);
            }
        }
        let alternatives: Vec<Vec<(String, f32)>> = asked
            .iter()
            .map(|word| {
                let (is_known, factor) = (having.contains_key(word.as_str()), verb_factor(word));
                let mut any = vec![(word.clone(), factor)];
                let others = SYNONYMS.get(word).into_iter().flatten();
                let weight = if is_known { SYNONYM_WEIGHT } else { SUBSTITUTE_WEIGHT };
                any.extend(others.map(|other| (other.clone(), factor * weight)));
                if word.len() >= 4 && !is_known {
                    let like = having.keys().filter(|other| is_like(word, other));
                    any.extend(like.map(|other| ((*other).to_owned(), LIKE_WEIGHT)));
                }
                any
            })
            .collect();
        let rarity = |word: &str| {
            let having = having.get(word).copied().unwrap_or_default() as f32;
            (1.0 + (count - having + 0.5) / (having + 0.5)).ln()
        };
        let rarities: HashMap<&str, f32> =
            alternatives.iter().flatten().map(|(word, _)| (word.as_str(), rarity(word))).collect();
        let score = |tool: &ToolWords| {
            let one = |(word, factor): &(String, f32)| {
                let weight = tool.weights.get(word)?;
                let long = 1.0 - LENGTH_INFLUENCE + LENGTH_INFLUENCE * tool.length / mean;
                let often = weight * (TERM_SATURATION + 1.0) / (weight + TERM_SATURATION * long);
                Some(factor * rarities.get(word.as_str())? * often)
            };
            let best = |any: &Vec<(String, f32)>| any.iter().filter_map(one).fold(0.0, f32::max);
            alternatives.iter().map(best).sum::<f32>()
        };
        let mut scored: Vec<(f32, usize)> =
            seen.iter().map(|(at, tool)| (score(tool), *at)).filter(|it| it.0 > 0.0).collect();
        // Equally good ones stay in the order of the list.
        scored.sort_by(|a, b| b.0.total_cmp(&a.0));
        scored.into_iter().map(|(_, at)| at).collect()
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

fn words_of(server: &ServerName, name: &str, definition: &Value) -> ToolWords {
    let mut out = ToolWords::default();
    let mut add = |text: &str, weight: f32| {
        for word in words(text).take(MAX_TEXT_WORDS) {
            *out.weights.entry(word).or_default() += weight;
            out.length += weight;
        }
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    add(name, NAME_WEIGHT);
    add(server.as_str(), SERVER_WEIGHT);
    add(&text(&definition["title"]), TITLE_WEIGHT);
    add(&text(&definition["annotations"]["title"]), TITLE_WEIGHT);
    add(&text(&definition["description"]), DESCRIPTION_WEIGHT);
    for parameter in definition["inputSchema"]["properties"].as_object().into_iter().flatten() {
        add(parameter.0, PARAMETER_WEIGHT);
    }
    out
}

/// The words of a text as they are compared: parts of `camelCase` and `snake_case` apart, in lower
/// case, without endings, without those that every text has. Scripts without spaces: every two
/// characters that follow each other.
fn words(text: &str) -> impl Iterator<Item = String> {
    let parts = text.split(|c: char| !c.is_alphanumeric()).filter(|part| !part.is_empty());
    parts.flat_map(humps).flat_map(|part| {
        let part = part.to_lowercase();
        if STOP_WORDS.contains(part.as_str()) {
            return Vec::new();
        }
        if part.chars().any(is_unspaced) {
            let chars: Vec<char> = part.chars().collect();
            return chars.windows(chars.len().min(2)).map(|pair| pair.iter().collect()).collect();
        }
        vec![stem(part)]
    })
}

/// Whether words are not set apart in the script of a character (Chinese, Japanese, Thai).
const fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{0e00}'..='\u{0e7f}' | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}')
}

/// The parts of a `camelCase` or `HTTPServer` word.
fn humps(word: &str) -> Vec<&str> {
    let chars: Vec<(usize, char)> = word.char_indices().collect();
    let mut cuts = vec![0];
    for at in 1..chars.len() {
        let (before, here) = (chars[at - 1].1, chars[at].1);
        let next = chars.get(at + 1).map(|next| next.1);
        let is_begun = !before.is_uppercase() && here.is_uppercase();
        let is_ended =
            before.is_uppercase() && here.is_uppercase() && next.is_some_and(char::is_lowercase);
        if is_begun || is_ended {
            cuts.push(chars[at].0);
        }
    }
    cuts.push(word.len());
    cuts.windows(2).filter_map(|cut| word.get(cut[0]..cut[1])).collect()
}

/// An English word without the endings that make no difference here.
fn stem(mut word: String) -> String {
    if !word.is_ascii() || word.len() < 4 {
        return word;
    }
    let cut = |word: &mut String, ending: &str| word.truncate(word.len() - ending.len());
    if word.ends_with("ies") && word.len() > 4 {
        cut(&mut word, "ies");
        word.push('y');
    } else if ["sses", "xes", "ches", "shes"].iter().any(|ending| word.ends_with(ending)) {
        cut(&mut word, "es");
    } else if word.ends_with('s') && !["ss", "us", "is"].iter().any(|end| word.ends_with(end)) {
        cut(&mut word, "s");
    }
    let ending = [("ing", 6), ("ed", 5)];
    if let Some((ending, _)) =
        ending.iter().find(|(ending, least)| word.ends_with(ending) && word.len() >= *least)
    {
        cut(&mut word, ending);
        let bytes = word.as_bytes();
        if let [.., before, last] = bytes
            && bytes.len() > 3
            && before == last
            && !b"lsz".contains(last)
        {
            word.pop();
        }
    }
    if word.ends_with("ion") && word.len() > 6 {
        cut(&mut word, "ion");
    }
    if word.ends_with('e') && word.len() > 3 {
        word.pop();
    }
    word
}

/// Words that say nothing about what is looked for.
static STOP_WORDS: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    let words = "a an the of to in on for and or is are was were be been do does did how what \
                 which who why when where with my me i we us our you your it its this that \
                 these those from by at as all any some can could would will should want need \
                 please have has had into than then there here if not no so up out about tool \
                 tools let them they he she his her their im one just also s everything \
                 something anything nothing everybody somebody anybody everyone someone anyone \
                 things stuff now really very much many more most lot lots know known tell give \
                 got going go put again yet still already ever soon lately currently today \
                 itself myself am being because while during through mine whats hows ive dont \
                 doesnt cant isnt lets ll ve re d t m sure maybe quickly actually look happen \
                 happens happening happened";
    words.split(' ').collect()
});

/// A group of synonyms a line, or a saying, ` = `, and the words that it comes to.
const SYNONYM_LINES: &str = include_str!("synonyms.txt");

/// Sayings whose words say something else than each by itself.
static SAYINGS: LazyLock<Vec<[String; 2]>> = LazyLock::new(|| {
    let lines = SYNONYM_LINES.lines().filter_map(|line| line.split_once(" = "));
    lines.map(|(saying, meant)| [format!(" {saying} "), format!(" {meant} ")]).collect()
});

/// A query with plain words in the place of sayings.
fn plain_words(query: &str) -> String {
    let is_kept = |c: &char| c.is_alphanumeric() || "_-'".contains(*c);
    let spaced: String = query.chars().map(|c| if is_kept(&c) { c } else { ' ' }).collect();
    let lower = spaced.to_lowercase();
    let mut out = format!(" {} ", lower.split_whitespace().collect::<Vec<_>>().join(" "));
    let mut is_changed = false;
    for [saying, meant] in SAYINGS.iter() {
        if out.contains(saying.as_str()) {
            (out, is_changed) = (out.replace(saying, meant), true);
        }
    }
    // The case of letters tells the parts of a name.
    if is_changed { out } else { query.to_owned() }
}

/// The words that stand for a word, by that word.
static SYNONYMS: LazyLock<HashMap<String, Vec<String>>> = LazyLock::new(|| {
    let mut out: HashMap<String, Vec<String>> = HashMap::new();
    let groups = SYNONYM_LINES.lines().filter(|line| !line.starts_with('#'));
    for group in groups.filter(|line| !line.contains(" = ")) {
        let group: Vec<String> = group.split(' ').map(|word| stem(word.to_owned())).collect();
        for word in &group {
            let others = out.entry(word.clone()).or_default();
            others.extend(group.iter().filter(|other| *other != word).cloned());
        }
    }
    out
});

/// What is done with most things. A question is told apart by the things rather than by these.
static COMMON_VERBS: LazyLock<HashSet<String>> = LazyLock::new(|| {
    let verbs = "create make new add open begin start insert generate write set get read fetch \
                 retrieve show view load display see list find search query look update change \
                 modify edit send post publish run execute delete remove put save";
    verbs.split(' ').map(|verb| stem(verb.to_owned())).collect()
});

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

    /// The tools of the fixture, as definitions.
    fn tools() -> Vec<(ServerName, String, Value)> {
        let rows = fixture("tools.txt").into_iter().map(|row| {
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

    fn index(tools: &[(ServerName, String, Value)]) -> ToolIndex {
        ToolIndex::new(tools.iter().map(|(server, name, raw)| (server, name.as_str(), raw)))
    }

    /// How many of the questions find a tool that would do among the first five, and as the first;
    /// and those that do not.
    fn found(name: &str) -> (f64, f64, Vec<(String, Vec<String>)>) {
        let tools = tools();
        let index = index(&tools);
        let all: Vec<usize> = (0..tools.len()).collect();
        let (mut found, mut first, mut missed) = (0, 0, Vec::new());
        let questions = fixture(name);
        assert!(tools.len() > 400 && questions.len() >= 100);
        for question in &questions {
            let wanted: Vec<&str> = question[1].split(' ').collect();
            let best: Vec<String> = index
                .ranked(&question[0], &all)
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
    fn nine_of_ten_questions_find_a_tool_that_would_do_among_the_first_five() {
        for (name, least_first) in
            [("questions.txt", 0.7), ("spoken.txt", 0.6), ("unseen.txt", 0.6)]
        {
            let (share, first, missed) = found(name);
            assert!(share >= 0.9, "{name}: {share:.2}, missed: {missed:#?}");
            assert!(first >= least_first, "{name}: {first:.2}");
        }
    }

    #[test]
    fn only_the_tools_that_may_be_seen_are_found_and_the_rank_depends_on_no_other() {
        let tools = tools();
        let whole = index(&tools);
        let seen: Vec<usize> = (0..tools.len()).filter(|at| at % 3 == 0).collect();
        let part: Vec<_> = seen.iter().map(|at| tools[*at].clone()).collect();
        let alone = index(&part);
        let all: Vec<usize> = (0..part.len()).collect();
        for question in fixture("questions.txt").into_iter().chain(fixture("spoken.txt")) {
            let found = whole.ranked(&question[0], &seen);
            let expected: Vec<usize> =
                alone.ranked(&question[0], &all).into_iter().map(|at| seen[at]).collect();
            assert_eq!(found, expected, "{}", question[0]);
        }
    }

    #[test]
    fn words_are_compared_in_every_spelling() {
        let spelled = |text: &str| words(text).collect::<Vec<_>>();
        assert_eq!(spelled("createIssues"), spelled("Creating an issue"));
        assert_eq!(spelled("HTTPServerError"), spelled("http_server-error"));
        assert_eq!(spelled("list queries"), spelled("listed query"));
        assert_eq!(spelled("天気予報"), ["天気", "気予", "予報"]);
        assert_eq!(spelled("天"), ["天"]);
        assert_eq!(spelled("Grüße senden"), ["grüße", "senden"]);
        assert_eq!(spelled("the of !?"), Vec::<String>::new());
        assert_eq!(plain_words("Who am I?"), " current user me ");
        assert_eq!(
            plain_words("Add a to-do: turn  off the light"),
            " add a todo disable deactivate stop the light "
        );
        assert_eq!(plain_words("createToDo, offTurn"), "createToDo, offTurn");
    }

    #[test]
    fn a_query_without_a_word_in_common_finds_nothing() {
        let tools = tools();
        let all: Vec<usize> = (0..tools.len()).collect();
        let index = index(&tools);
        for query in ["", "zzzqqq", "the", "\u{202e}", "🙂"] {
            assert!(index.ranked(query, &all).is_empty(), "{query}");
        }
        assert!(index.ranked("issue", &[]).is_empty());
        assert!(!index.ranked(&"issue ".repeat(100_000), &all).is_empty());
    }
}
