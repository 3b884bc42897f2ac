//! Where in a TOML file of the person something stands, so that what is wrong with a theme or the
//! keymap is said with its line. Owns no meaning.

/// Line (from 1) of an error of the parser; 1 when it does not say.
pub fn of_error(text: &str, error: &toml::de::Error) -> usize {
    let at = error.span().map_or(0, |span| span.start);
    text.get(..at).map_or(1, |before| before.matches('\n').count() + 1)
}

/// Line (from 1) of `key` in the table `[table]`; of the table's own line without a key. The line
/// of the table, or the first, when it is written in a way this does not see.
pub fn of_key(text: &str, table: &str, key: Option<&str>) -> usize {
    let mut inside = None;
    for (n, line) in text.lines().enumerate() {
        let line = line.trim();
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            inside = (unquoted(name) == table).then_some(n + 1);
            if key.is_none() && inside.is_some() {
                break;
            }
        } else if inside.is_some()
            && line.split('=').next().map(unquoted) == key
            && line.contains('=')
        {
            return n + 1;
        }
    }
    inside
        .or_else(|| text.lines().position(|line| line.contains(table)).map(|n| n + 1))
        .unwrap_or(1)
}

fn unquoted(name: &str) -> &str {
    name.trim().trim_matches(['"', '\''])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_a_table_of_a_key_and_of_an_error_is_found() {
        let text = "# keys\n[global]\nq = \"quit\"\n\n[\"tools\"]\n'f4' = \"call\"\n\"q\"=\"x\"";
        assert_eq!(of_key(text, "global", None), 2);
        assert_eq!(of_key(text, "global", Some("q")), 3);
        assert_eq!(of_key(text, "tools", Some("f4")), 6);
        assert_eq!(of_key(text, "tools", Some("q")), 7);
        assert_eq!(of_key(text, "nowhere", Some("q")), 1);
        let broken = "[global]\nq = \"quit\"\nf = ";
        let error = toml::from_str::<toml::Value>(broken).unwrap_err();
        assert_eq!(of_error(broken, &error), 3);
    }
}
