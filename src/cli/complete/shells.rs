//! The scripts of bash, zsh and fish, and how each wants its answer. Pure.

use clap_complete::engine::CompletionCandidate;

/// One candidate a line. What is one of several is not followed by a space when more has to come.
pub const BASH: &str = r#"_mcpdeck() {
    local word
    COMPREPLY=()
    while IFS= read -r word; do
        COMPREPLY+=("$word")
    done < <(MCPDECK_COMPLETE=bash _MCPDECK_LINE="${COMP_LINE:0:COMP_POINT}" \
        _MCPDECK_BREAKS="$COMP_WORDBREAKS" mcpdeck 2>/dev/null)
    if [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *[=/.] ]]; then
        compopt -o nospace 2>/dev/null
    fi
}
complete -o bashdefault -o default -o nosort -F _mcpdeck mcpdeck 2>/dev/null ||
    complete -o bashdefault -o default -F _mcpdeck mcpdeck
"#;

/// Lines begin with `=` when more has to come, with `/` for a folder, else with a space; then
/// `word:what it is`, as `_describe` wants it.
pub const ZSH: &str = r#"#compdef mcpdeck
_mcpdeck() {
    local -a all done open folders
    local line
    all=("${(@f)$(MCPDECK_COMPLETE=zsh mcpdeck -- "${(@Q)words[1,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}")
    for line in $all; do
        case $line in
            '='*) open+=("${line#?}") ;;
            '/'*) folders+=("${line#?}") ;;
            *) done+=("${line#?}") ;;
        esac
    done
    local -i some=1
    (( $#done )) && _describe -V mcpdeck done && some=0
    (( $#open )) && _describe -V mcpdeck-open open -S '' && some=0
    (( $#folders )) && _describe -V mcpdeck-folders folders -S '/' -r '/' && some=0
    (( some )) && _default
}
if [[ $funcstack[1] == _mcpdeck ]]; then
    _mcpdeck "$@"
else
    compdef _mcpdeck mcpdeck
fi
"#;

/// `word`, a tab, what it is.
pub const FISH: &str = r"function __mcpdeck_complete
    set -l all (MCPDECK_COMPLETE=fish mcpdeck -- (commandline -opc) (commandline -ct) 2>/dev/null)
    if set -q all[1]
        printf '%s\n' $all
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c mcpdeck -e
complete -c mcpdeck -k -f -a '(__mcpdeck_complete)'
";

fn lines(all: &[CompletionCandidate], line: impl Fn(&str, &str) -> String) -> String {
    let mut out = String::new();
    for candidate in all {
        let value = candidate.get_value().to_string_lossy();
        let help = candidate.get_help().map(ToString::to_string).unwrap_or_default();
        let help = help.lines().next().unwrap_or_default();
        if !value.contains(['\n', '\r', '\t']) {
            out.push_str(&line(&value, help));
            out.push('\n');
        }
    }
    out
}

/// Words for bash: quoted, and without the part it takes for words of their own.
pub fn for_bash(all: &[CompletionCandidate], broken: &str) -> String {
    lines(all, |value, _| {
        let rest = value.strip_prefix(broken).unwrap_or(value);
        let mut out = String::with_capacity(rest.len());
        for c in rest.chars() {
            if !(c.is_alphanumeric() || "._-/:=@,+%~".contains(c)) {
                out.push('\\');
            }
            out.push(c);
        }
        out
    })
}

/// Words for zsh, which quotes them itself.
pub fn for_zsh(all: &[CompletionCandidate]) -> String {
    lines(all, |value, help| {
        let (kind, value) = match value.strip_suffix('/') {
            Some(folder) if !value.contains("://") => ('/', folder),
            _ if value.ends_with(['=', '.', '/']) => ('=', value),
            _ => (' ', value),
        };
        let word = value.replace('\\', "\\\\").replace(':', "\\:");
        if help.is_empty() { format!("{kind}{word}") } else { format!("{kind}{word}:{help}") }
    })
}

/// Words for fish, which quotes them itself.
pub fn for_fish(all: &[CompletionCandidate]) -> String {
    lines(
        all,
        |value, help| {
            if help.is_empty() { value.to_owned() } else { format!("{value}\t{help}") }
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zsh_reads_no_pattern_of_the_script_as_the_path_of_a_command() {
        let bare = |line: &str| line.trim_start().starts_with('=');
        assert!(!ZSH.lines().any(bare), "with EQUALS, which is on, =* is looked for in PATH");
    }

    #[test]
    fn each_shell_gets_its_words_in_its_own_way() {
        let word = |value: &str| CompletionCandidate::new(value.to_owned());
        let all = [
            word("@find ada").help(Some("memory.search".into())),
            word("file://a/"),
            word("key="),
            word("src/"),
            word("two\nlines"),
        ];
        assert_eq!(for_bash(&all, "@"), "find\\ ada\nfile://a/\nkey=\nsrc/\n");
        assert_eq!(for_bash(&all[1..2], "file:"), "//a/\n");
        assert_eq!(for_zsh(&all), " @find ada:memory.search\n=file\\://a/\n=key=\n/src\n");
        assert_eq!(for_fish(&all), "@find ada\tmemory.search\nfile://a/\nkey=\nsrc/\n");
    }
}
