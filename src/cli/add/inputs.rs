//! What a server needs before it can run: answers from the command, the environment or the terminal.

use std::io::IsTerminal as _;

use crate::connect::answer_line;
use crate::output::{self, ExitStatus};
use base::{SafeText, Secret};
use config::{Environment, input_variable};
use reach::ServerInput;

/// `ID=VALUE` of `--input`.
///
/// # Errors
/// When it has another form.
pub fn parse_input(text: &str) -> Result<(String, Secret), String> {
    match text.split_once('=') {
        Some((id, value)) if !id.is_empty() => Ok((id.to_owned(), Secret::new(value))),
        _ => Err("write ID=VALUE".to_owned()),
    }
}

/// The answers to the inputs of a server, by id. Asks at the terminal, when it may.
///
/// # Errors
/// When an answer is given for an input that there is not, or is not one of its choices.
pub fn answers(
    inputs: &[&ServerInput],
    given: &[(String, Secret)],
    (env, may_ask): (&Environment, bool),
) -> Result<Vec<(String, Secret)>, ExitStatus> {
    let mut out: Vec<(String, Secret)> = Vec::new();
    for (id, value) in given {
        let Some(input) = inputs.iter().find(|input| input.is_meant(id)) else {
            let all: Vec<&str> = inputs.iter().map(|input| input.id.as_str()).collect();
            let all = if all.is_empty() { "none".to_owned() } else { all.join(", ") };
            let id = SafeText::line(id);
            return Err(output::refuse(&format!("there is no input `{id}`; it has {all}")));
        };
        input.accept(value).map_err(|why| output::refuse(&why))?;
        out.push((input.id.clone(), value.clone()));
    }
    let asks = may_ask && std::io::stdin().is_terminal();
    for input in inputs {
        if out.iter().any(|(id, _)| *id == input.id) {
            continue;
        }
        let preset = env.var(&input_variable(&input.id)).filter(|value| !value.is_empty());
        let value = match preset {
            Some(value) => Some(Secret::new(value)),
            None if asks => ask(input)?,
            None => None,
        };
        if let Some(value) = value {
            input.accept(&value).map_err(|why| output::refuse(&why))?;
            out.push((input.id.clone(), value));
        }
    }
    Ok(out)
}

/// Asks for one value; nothing when it is left empty.
fn ask(input: &ServerInput) -> Result<Option<Secret>, ExitStatus> {
    let mut question = SafeText::line(&input.id).to_string();
    if !input.description.is_empty() {
        question = format!("{question} ({})", input.description);
    }
    if !input.choices.is_empty() {
        question = format!("{question}, one of {}", input.choices_in_words());
    }
    let rest = match (&input.default, input.is_required) {
        (Some(default), _) => format!("; empty for {}", SafeText::cut(default, 80)),
        (None, false) => "; may be empty".to_owned(),
        (None, true) => "; empty to answer it later".to_owned(),
    };
    let _echo = input.is_secret.then(EchoOff::new);
    let shown = if input.is_secret { ", not shown and kept in the store" } else { "" };
    let line = answer_line(&format!("{question}{shown}{rest}:"))?;
    let value = line.trim_end_matches(['\n', '\r']);
    Ok((!value.is_empty()).then(|| Secret::new(value)))
}

/// The terminal does not show what is typed, until this is dropped.
struct EchoOff {
    #[cfg(unix)]
    before: Option<rustix::termios::Termios>,
}

impl EchoOff {
    fn new() -> Self {
        #[cfg(unix)]
        {
            use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
            let stdin = std::io::stdin();
            let before = tcgetattr(&stdin).ok();
            if let Some(mut hidden) = before.clone() {
                hidden.local_modes.remove(LocalModes::ECHO);
                let _ = tcsetattr(&stdin, OptionalActions::Flush, &hidden);
            }
            Self { before }
        }
        #[cfg(not(unix))]
        Self {}
    }
}

impl Drop for EchoOff {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Some(before) = &self.before {
            use rustix::termios::{OptionalActions, tcsetattr};
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Flush, before);
        }
    }
}
