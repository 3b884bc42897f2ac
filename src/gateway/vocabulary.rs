//! Words as the search among tools compares them: without endings, with those that mean the same, and
//! with sayings and names of files and addresses as what they are. Pure.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

/// The words of a text as they are compared: parts of `camelCase` and `snake_case` apart, in lower
/// case, without endings, without those that every text has. Scripts without spaces: every two
/// characters that follow each other.
pub(crate) fn words(text: &str) -> impl Iterator<Item = String> {
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

/// A group of synonyms a line; words, ` > `, and what they lead to; or a saying, ` = `, and the words
/// that it comes to.
const SYNONYM_LINES: &str = include_str!("synonyms.txt");

/// Sayings whose words say something else than each by itself.
static SAYINGS: LazyLock<Vec<[String; 2]>> = LazyLock::new(|| {
    let lines = SYNONYM_LINES.lines().filter_map(|line| line.split_once(" = "));
    lines.map(|(saying, meant)| [format!(" {saying} "), format!(" {meant} ")]).collect()
});

/// Endings of names of files.
const FILE_ENDINGS: [&str; 32] = [
    "c", "cfg", "conf", "css", "csv", "doc", "docx", "go", "h", "htm", "html", "ini", "java",
    "json", "log", "md", "pdf", "ppt", "pptx", "py", "rb", "rs", "sh", "sql", "toml", "ts", "txt",
    "xls", "xlsx", "xml", "yaml", "yml",
];
/// Endings of names of hosts.
const HOST_ENDINGS: [&str; 9] = ["com", "de", "dev", "edu", "example", "gov", "io", "net", "org"];

/// What a name of a file or an address is, in words; `None` for other text.
fn what_it_is(word: &str) -> Option<String> {
    const ADDRESS: &str = "url website page";
    let word = word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
    if word.starts_with("http://") || word.starts_with("https://") || word.starts_with("www.") {
        return Some(ADDRESS.to_owned());
    }
    let host = word.split(['/', ':']).next().unwrap_or_default();
    if host.rsplit_once('.').is_some_and(|(_, ending)| HOST_ENDINGS.contains(&ending)) {
        return Some(ADDRESS.to_owned());
    }
    let (name, ending) = word.rsplit_once('.')?;
    match ending {
        // As libraries are called, too.
        "js" => Some(format!("{name} js file")),
        "jpg" | "png" | "svg" => Some(format!("image file {ending}")),
        ending => FILE_ENDINGS.contains(&ending).then(|| format!("file {ending}")),
    }
}

/// A query with plain words in the place of sayings, of names of files and of addresses.
pub(crate) fn plain_words(query: &str) -> String {
    let named = query.split_whitespace().map(|word| what_it_is(word).ok_or(word));
    let named: Vec<String> = named.map(|word| word.unwrap_or_else(str::to_owned)).collect();
    let query = named.join(" ");
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
    if is_changed { out } else { query }
}

/// The words that stand for a word, by that word.
pub(crate) static SYNONYMS: LazyLock<HashMap<String, Vec<String>>> = LazyLock::new(|| {
    let mut out: HashMap<String, Vec<String>> = HashMap::new();
    let groups = SYNONYM_LINES.lines().filter(|line| !line.starts_with('#'));
    for group in groups.filter(|line| !line.contains(" = ")) {
        let stems = |words: &str| -> Vec<String> {
            words.split(' ').map(|word| stem(word.to_owned())).collect()
        };
        let (words, meant) = match group.split_once(" > ") {
            Some((words, meant)) => (stems(words), stems(meant)),
            None => (stems(group), stems(group)),
        };
        for word in &words {
            let others = out.entry(word.clone()).or_default();
            others.extend(meant.iter().filter(|other| *other != word).cloned());
        }
    }
    out
});

/// What is done with most things. A question is told apart by the things rather than by these.
pub(crate) static COMMON_VERBS: LazyLock<HashSet<String>> = LazyLock::new(|| {
    let verbs = "create make new add open begin start insert generate write set get read fetch \
                 retrieve show view load display see list find search query look update change \
                 modify edit send post publish run execute delete remove put save";
    verbs.split(' ').map(|verb| stem(verb.to_owned())).collect()
});

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(plain_words("what does README.md say?"), "what does file md say?");
        assert_eq!(
            plain_words("see (https://a.example/x?y=1) and docs.rs, v1.2"),
            "see url website page and file rs v1.2"
        );
        assert_eq!(plain_words("open example.com/a"), "open url website page");
    }
}
