//! Texts that a pattern matches. Pure; the same draws give the same texts.

use fastrand::Rng;
use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Hir, HirKind};

use crate::repair::texts_of_pattern;

/// Longest text that a schema may ask for.
pub const MAX_TEXT_CHARS: u64 = 20_000;

/// Texts that a pattern with parts that look around matches.
pub fn texts_of(pattern: &str) -> Vec<String> {
    texts_of_pattern(pattern, |plain, round| {
        of_pattern(plain, &mut Rng::with_seed(round), round > 0)
    })
}

/// A text that a pattern matches; one of many when `vary`. `None` when the pattern cannot be read.
pub fn of_pattern(pattern: &str, rng: &mut Rng, vary: bool) -> Option<String> {
    let parsed = ParserBuilder::new().utf8(false).build().parse(pattern).ok()?;
    let mut out = String::new();
    write_match(&parsed, rng, vary, &mut out, 0)?;
    Some(out)
}

fn write_match(hir: &Hir, rng: &mut Rng, vary: bool, out: &mut String, depth: u32) -> Option<()> {
    if depth > 64 || out.len() > MAX_TEXT_CHARS as usize {
        return None;
    }
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => out.push_str(std::str::from_utf8(&literal.0).ok()?),
        HirKind::Class(class) => out.push(of_class(class, rng, vary)?),
        HirKind::Repetition(repetition) => {
            let most = repetition.max.unwrap_or(repetition.min.saturating_add(8));
            let many = if vary {
                rng.u32(repetition.min..=most.min(repetition.min + 64))
            } else {
                repetition.min
            };
            for _ in 0..many {
                write_match(&repetition.sub, rng, vary, out, depth + 1)?;
            }
        }
        HirKind::Capture(capture) => write_match(&capture.sub, rng, vary, out, depth + 1)?,
        HirKind::Concat(all) => {
            for part in all {
                write_match(part, rng, vary, out, depth + 1)?;
            }
        }
        HirKind::Alternation(all) => {
            let index = if vary { rng.usize(..all.len()) } else { 0 };
            write_match(all.get(index)?, rng, vary, out, depth + 1)?;
        }
    }
    Some(())
}

fn of_class(class: &Class, rng: &mut Rng, vary: bool) -> Option<char> {
    let ranges: Vec<(u32, u32)> = match class {
        Class::Unicode(class) => class.iter().map(|r| (r.start().into(), r.end().into())).collect(),
        Class::Bytes(class) => class.iter().map(|r| (r.start().into(), r.end().into())).collect(),
    };
    let has = |c: u32| ranges.iter().any(|(low, high)| (*low..=*high).contains(&c));
    let plain: Vec<u32> =
        ('a'..='z').chain('0'..='9').chain('A'..='Z').map(u32::from).filter(|c| has(*c)).collect();
    let pick = |all: &[u32], rng: &mut Rng| {
        all.get(if vary { rng.usize(..all.len().max(1)) } else { 0 }).copied()
    };
    let found = pick(&plain, rng).or_else(|| (0x20..0x7f).find(|c| has(*c)));
    found.or_else(|| ranges.first().map(|range| range.0)).and_then(char::from_u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_give_texts_that_they_match() {
        let mut rng = Rng::with_seed(3);
        for pattern in ["^[a-z]+(-[0-9]{1,3})?$", "^(foo|bar)\\.[^.]{2}$", "^\\d{4}$", "x*"] {
            let regex = regex::Regex::new(pattern).expect("a pattern");
            for vary in [false, true, true, true] {
                let text = of_pattern(pattern, &mut rng, vary).expect("a text");
                assert!(regex.is_match(&text), "{pattern}: {text}");
            }
        }
        assert_eq!(of_pattern("(?=x)y", &mut rng, false), None);
    }
}
