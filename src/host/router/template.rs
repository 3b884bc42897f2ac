//! Matching a URI against an RFC 6570 template: does this URI look like an expansion of it?
//!
//! Never backtracks: the time is the length of the URI times the parts of the template, whatever a
//! server writes there.

/// A template, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UriTemplate {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// This text.
    Literal(Box<[u8]>),
    /// One or more characters other than `/`, `?` and `#`: `{name}`.
    Segment,
    /// Anything, also nothing: `{+path}`, `{#part}`, `{/path*}`, `{.x}`, `{;x}`, `{?x,y}`, `{&x}`.
    Rest,
}

impl UriTemplate {
    /// Parts beyond this many are taken as "anything".
    const MAX_PARTS: usize = 64;

    /// Takes a template apart. What is no expression counts as literal text.
    pub fn parse(template: &str) -> Self {
        let mut parts = Vec::new();
        let mut rest = template;
        while let Some(open) = rest.find('{') {
            let Some(close) = rest[open..].find('}').map(|at| open + at) else { break };
            push_literal(&mut parts, &rest[..open]);
            let operator = rest[open + 1..close].chars().next();
            let simple = operator.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '%');
            parts.push(if simple { Part::Segment } else { Part::Rest });
            rest = &rest[close + 1..];
        }
        push_literal(&mut parts, rest);
        if parts.len() > Self::MAX_PARTS {
            parts.truncate(Self::MAX_PARTS);
            parts.push(Part::Rest);
        }
        Self { parts }
    }

    /// Whether `uri` could be an expansion of this template.
    pub fn matches(&self, uri: &str) -> bool {
        let uri = uri.as_bytes();
        // Which lengths of the URI the parts so far can have eaten.
        let mut reach = vec![false; uri.len() + 1];
        reach[0] = true;
        for part in &self.parts {
            reach = advance(part, uri, &reach);
        }
        reach[uri.len()]
    }

    /// Bytes of literal text: of two templates that fit, the one with more is meant.
    pub fn literals(&self) -> usize {
        self.parts
            .iter()
            .map(|part| match part {
                Part::Literal(text) => text.len(),
                Part::Segment | Part::Rest => 0,
            })
            .sum()
    }
}

fn push_literal(parts: &mut Vec<Part>, text: &str) {
    if !text.is_empty() {
        parts.push(Part::Literal(text.as_bytes().into()));
    }
}

fn advance(part: &Part, uri: &[u8], reach: &[bool]) -> Vec<bool> {
    let mut next = vec![false; reach.len()];
    match part {
        Part::Literal(text) => {
            for (at, _) in reach.iter().enumerate().filter(|(_, ok)| **ok) {
                if uri[at..].starts_with(text) {
                    next[at + text.len()] = true;
                }
            }
        }
        Part::Segment => {
            let mut open = false;
            for (at, byte) in uri.iter().enumerate() {
                open = (open || reach[at]) && !matches!(byte, b'/' | b'?' | b'#');
                next[at + 1] = open;
            }
        }
        Part::Rest => {
            let mut open = false;
            for (at, ok) in reach.iter().enumerate() {
                open |= ok;
                next[at] = open;
            }
        }
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(template: &str, uri: &str) -> bool {
        UriTemplate::parse(template).matches(uri)
    }

    #[test]
    fn a_simple_expression_is_one_segment_and_not_empty() {
        assert!(fits("notes://{id}", "notes://42"));
        assert!(!fits("notes://{id}", "notes://"));
        assert!(!fits("notes://{id}", "notes://a/b"));
        assert!(fits("db://{table}/{row}/x", "db://users/7/x"));
        assert!(!fits("db://{table}/{row}/x", "db://users/7/y"));
    }

    #[test]
    fn reserved_and_form_expressions_take_the_rest() {
        assert!(fits("file:///{+path}", "file:///etc/hosts"));
        assert!(fits("search://q{?text,page}", "search://q"));
        assert!(fits("search://q{?text,page}", "search://q?text=a&page=2"));
        assert!(!fits("search://q{?text}", "other://q?text=a"));
    }

    #[test]
    fn broken_templates_are_literal_text() {
        assert!(fits("a{b", "a{b"));
        assert!(fits("a}b", "a}b"));
        assert!(!fits("a{b", "axb"));
    }

    #[test]
    fn a_template_made_to_backtrack_costs_no_more_than_its_length() {
        let evil = "{+a}x".repeat(5_000);
        assert!(!fits(&evil, &"x".repeat(20)));
        let long = "{a}".repeat(60);
        assert!(fits(&long, &"y".repeat(8_000)));
    }

    #[test]
    fn multi_byte_text_is_matched_as_it_stands() {
        assert!(fits("ä://{name}/ö", "ä://日本/ö"));
    }

    use proptest::prelude::*;

    /// Tries every way to cut the URI.
    fn naive(parts: &[Part], uri: &[u8]) -> bool {
        let Some((part, rest)) = parts.split_first() else { return uri.is_empty() };
        match part {
            Part::Literal(text) => uri.strip_prefix(&**text).is_some_and(|uri| naive(rest, uri)),
            Part::Segment => (1..=uri.len())
                .take_while(|end| !matches!(uri[end - 1], b'/' | b'?' | b'#'))
                .any(|end| naive(rest, &uri[end..])),
            Part::Rest => (0..=uri.len()).any(|end| naive(rest, &uri[end..])),
        }
    }

    proptest! {
        #[test]
        fn it_agrees_with_trying_every_way(
            template in "([ax/?#]|\\{a\\}|\\{\\+a\\}|[{}]){0,8}", uri in "[ax/?#{}]{0,8}",
        ) {
            let read = UriTemplate::parse(&template);
            prop_assert_eq!(read.matches(&uri), naive(&read.parts, uri.as_bytes()), "{}", template);
        }

        #[test]
        fn what_was_expanded_from_it_fits(
            parts in prop::collection::vec(("[a-z:/.]{0,4}", "[a-zé%]{1,5}", "[a-z/?#é]{0,5}"), 0..8)
        ) {
            let (mut template, mut uri) = (String::new(), String::new());
            for (literal, segment, rest) in parts {
                template.extend([&literal, "{s}-{+r}"]);
                uri.extend([&literal, &segment, "-", rest.as_str()]);
            }
            prop_assert!(fits(&template, &uri), "{template} {uri}");
        }

        #[test]
        fn any_text_is_a_template_that_is_read_and_matched(template: String, uri: String) {
            let _ = fits(&template, &uri);
            let literal = template.replace(['{', '}'], "");
            prop_assert!(fits(&literal, &literal));
        }
    }
}
