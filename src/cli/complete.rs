//! Completion scripts: what the declaration of the arguments gives, and the names of saved calls,
//! servers and rules, which only the program knows.

use clap::CommandFactory;
use clap_complete::Shell;

use super::args::Cli;

/// Asks the program for saved calls after `call @`, for servers and for rules. `@` ends a word for
/// bash, so it is not part of what is offered.
const BASH: &str = r#"
_mcpdeck_saved() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} at=0 word name verb=
    for word in "${COMP_WORDS[@]:1:COMP_CWORD}"; do
        case $word in
            call) at=1 ;;
            @*) [[ $at == 1 ]] && at=2 ;;
        esac
    done
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        case $word in
            list | status | approve | revoke | explain) verb=$word ;;
            call | read | prompt | config | import | schema | --) verb=other ;;
        esac
    done
    local -a ask=()
    if [[ $at == 2 ]]; then
        cur=${cur#@}
        ask=(mcpdeck call --names)
    elif [[ $prev == --server || ( $cur != -* && $verb =~ ^(list|status|approve|revoke)$ ) ]]; then
        ask=(mcpdeck list --names)
    elif [[ $prev == --allow || ( $cur != -* && $verb == explain ) ]]; then
        ask=(mcpdeck explain)
    fi
    if [[ ${#ask[@]} == 0 || $prev == -c || $prev == --config || $prev == --env-file ]]; then
        _mcpdeck "$@"
        return
    fi
    COMPREPLY=()
    while IFS= read -r name; do
        if [[ ${ask[1]} == explain ]]; then
            name=${name%% *}
            [[ $name == */* ]] || continue
        fi
        printf -v name '%q' "${name#@}"
        [[ $name == "$cur"* ]] && COMPREPLY+=("$name")
    done < <("${ask[@]}" 2>/dev/null)
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
(( $+functions[_mcpdeck_servers] )) ||
_mcpdeck_servers() {
    local -a names
    names=("${(@f)$(mcpdeck list --names 2>/dev/null)}")
    (( $#names )) && compadd -a names
}
(( $+functions[_mcpdeck_rules] )) ||
_mcpdeck_rules() {
    local -a lines
    lines=("${(@f)$(mcpdeck explain 2>/dev/null)}")
    lines=("${(@)${(@M)lines:#*/*}%% *}")
    (( $#lines )) && compadd -a lines
}
"#;

const FISH: &str = r#"
complete -c mcpdeck -n "__fish_mcpdeck_using_subcommand call" -f -a "(mcpdeck call --names 2>/dev/null)" -d "saved call"
complete -c mcpdeck -n "__fish_mcpdeck_using_subcommand list" -f -a "(mcpdeck list --names 2>/dev/null)" -d "server"
complete -c mcpdeck -n "__fish_mcpdeck_using_subcommand status" -f -a "(mcpdeck list --names 2>/dev/null)" -d "server"
complete -c mcpdeck -n "__fish_mcpdeck_using_subcommand explain" -f -a "(mcpdeck explain 2>/dev/null | string match -r '^\\S+/\\S+')" -d "rule"
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
    let ours = |start: &str| {
        let is = |begin: &str| start.starts_with(begin) && start.ends_with(':');
        match start {
            _ if is("'::name -- Tool") => Some("_mcpdeck_saved"),
            _ if is("'*::servers -- ") => Some("_mcpdeck_servers"),
            _ if is("'::rule -- ") => Some("_mcpdeck_rules"),
            _ => None,
        }
    };
    let lines = script.lines().map(|line| {
        let start = line.strip_suffix("_default' \\");
        match start.and_then(|start| Some((start, ours(start)?))) {
            Some((start, function)) => format!("{start}{function}' \\\n"),
            None => format!("{line}\n"),
        }
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
    fn every_shell_that_can_ask_asks_for_the_names_that_only_the_program_knows() {
        for (shell, part) in [
            (Shell::Bash, "-F _mcpdeck_saved"),
            (Shell::Zsh, ":_mcpdeck_saved' \\"),
            (Shell::Zsh, ":_mcpdeck_servers' \\"),
            (Shell::Zsh, ":_mcpdeck_rules' \\"),
            (Shell::Fish, "call --names"),
            (Shell::Fish, "list --names"),
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
