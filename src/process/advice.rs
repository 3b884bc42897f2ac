//! What mends an entry whose program cannot be launched: as data, from which its words are made.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What mends an entry whose program cannot be launched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum LaunchAdvice {
    /// `command` holds a program together with its arguments.
    SplitCommand {
        /// The program.
        program: String,
        /// What follows it, as written.
        rest: String,
    },
    /// The file is a script of this interpreter.
    UseInterpreter {
        /// The interpreter.
        interpreter: String,
        /// The file, where it would also start once it is made executable.
        file: Option<String>,
    },
    /// The file has to be made executable.
    MakeExecutable {
        /// The file.
        file: String,
    },
    /// The program is called otherwise.
    Rename {
        /// What to write as `command`.
        name: String,
        /// How that is known.
        reason: RenameReason,
    },
    /// The working directory cannot be used.
    WorkingDirectory {
        /// Whether it does not exist.
        is_missing: bool,
    },
}

/// How it is known that a program is called otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RenameReason {
    /// It is a file of the working directory.
    FileInFolder,
    /// `~` stands for the home folder in a shell only.
    HomeFolder,
    /// Python is installed under another name.
    OtherPython,
    /// A program with a similar name is installed.
    Similar,
}

impl fmt::Display for LaunchAdvice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SplitCommand { program, rest } => write!(
                f,
                "put the program in `command` ({program:?}) and the rest ({rest:?}) in `args`: no \
                 shell splits them"
            ),
            Self::UseInterpreter { interpreter, file } => {
                write!(
                    f,
                    "start it with its interpreter, {interpreter:?} as `command` and the file first \
                     in `args`"
                )?;
                file.as_ref().map_or(Ok(()), |file| write!(f, "; or chmod +x {file}"))
            }
            Self::MakeExecutable { file } => write!(f, "chmod +x {file}"),
            Self::Rename { name, reason } => match reason {
                RenameReason::FileInFolder => {
                    write!(f, "write {name:?} to start the file in the working directory")
                }
                RenameReason::HomeFolder => {
                    write!(f, "no shell reads this, so `~` means nothing: write {name:?}")
                }
                RenameReason::OtherPython => {
                    write!(f, "try {name:?}, or the python of the server's virtual environment")
                }
                RenameReason::Similar => write!(f, "did you mean {name:?}?"),
            },
            Self::WorkingDirectory { .. } => {
                f.write_str("correct `cwd` of the entry, or create the directory")
            }
        }
    }
}
