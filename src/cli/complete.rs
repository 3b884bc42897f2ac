//! Completion scripts: what the declaration of the arguments gives, and the names of saved calls,
//! which only the program knows.

use clap::CommandFactory;
use clap_complete::Shell;

use super::args::Cli;

/// Asks the program when `call @` is to be completed. `@` ends a word for bash, so it is not part of
/// what is offered.
const BASH: &str = r#"
_mcpdeck_saved() {
    local at=0 word name
    for word in "${COMP_WORDS[@]:1:COMP_CWORD}"; do
        case $word in
            call) at=1 ;;
            @*) [[ $at == 1 ]] && at=2 ;;
        esac
    done
    if [[ $at != 2 ]]; then
        _mcpdeck "$@"
        return
    fi
    local cur=${COMP_WORDS[COMP_CWORD]#@}
    COMPREPLY=()
    while IFS= read -r name; do
        printf -v name '%q' "${name#@}"
        [[ $name == "$cur"* ]] && COMPREPLY+=("$name")
    done < <(mcpdeck call --names 2>/dev/null)
}
complete -F _mcpdeck_saved -o bashdefault -o default mcpdeck
"#;

const ZSH: &str = r#"
(( $+functions[_mcpdeck_saved] )) ||
_mcpdeck_saved() {
    local -a names
    names=("${(@f)$(mcpdeck call --names 2>/dev/null)}")
    (( $#names )) && compadd -a names
}
"#;

const FISH: &str = r#"
complete -c mcpdeck -n "__fish_mcpdeck_using_subcommand call" -f -a "(mcpdeck call --names 2>/dev/null)" -d "saved call"
"#;

/// The script of a shell.
pub fn script(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "mcpdeck", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    match shell {
        Shell::Bash => script + BASH,
        Shell::Zsh => zsh(&script),
        Shell::Fish => script + FISH,
        _ => script,
    }
}

/// Lets the name of a call be completed by our function, which has to stand before the last lines:
/// they run the completion.
fn zsh(script: &str) -> String {
    let named = |line: &str| line.starts_with("'::name -- Tool") && line.ends_with(":_default' \\");
    let lines = script.lines().map(|line| match line.strip_suffix("_default' \\") {
        Some(start) if named(line) => format!("{start}_mcpdeck_saved' \\\n"),
        _ => format!("{line}\n"),
    });
    let script: String = lines.collect();
    match script.rfind("\nif [ \"$funcstack[1]\"") {
        Some(end) => format!("{}{ZSH}{}", &script[..end], &script[end..]),
        None => script,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shell_that_can_ask_asks_for_the_names_of_saved_calls() {
        for (shell, part) in [
            (Shell::Bash, "-F _mcpdeck_saved"),
            (Shell::Zsh, ":_mcpdeck_saved' \\"),
            (Shell::Fish, "call --names"),
        ] {
            let script = script(shell);
            assert!(script.contains(part), "{shell}");
        }
        let zsh = script(Shell::Zsh);
        assert!(
            zsh.find("_mcpdeck_saved() {") < zsh.rfind("funcstack"),
            "defined before it is used"
        );
    }
}
