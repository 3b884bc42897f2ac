//! Reports: the same model told to people, to programs and to CI systems. Pure; writes nothing.

mod github;
mod human;
mod junit;
mod sarif;
mod schema;

use std::path::PathBuf;
use std::str::FromStr;

use crate::base::text::json;
use crate::check::Report;

pub use github::summary as github_summary;
pub use human::{Colour, Detail, Style};
pub use schema::{answers_schema, expectations_schema, lock_schema, report_schema, schema_of};

/// A format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Format {
    /// For people.
    #[default]
    Human,
    /// Our own JSON, with a schema.
    Json,
    /// `JUnit` XML.
    Junit,
    /// SARIF 2.1.0.
    Sarif,
    /// Annotations of GitHub Actions.
    Github,
}

/// A format and where it goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// The format.
    pub format: Format,
    /// The file; stdout without one.
    pub file: Option<PathBuf>,
}

impl FromStr for Output {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (word, file) = match text.split_once('=') {
            Some((_, "")) => return Err(format!("`{text}` names no file after `=`")),
            Some((word, file)) => (word, Some(PathBuf::from(file))),
            None => (text, None),
        };
        let format = match word {
            "human" => Format::Human,
            "json" => Format::Json,
            "junit" => Format::Junit,
            "sarif" => Format::Sarif,
            "github" => Format::Github,
            _ => {
                return Err(format!(
                    "there is no format `{word}`; write human, json, junit, sarif or github"
                ));
            }
        };
        Ok(Self { format, file })
    }
}

impl Format {
    /// The report in this format. `style` is for people's eyes and concerns [`Format::Human`] alone.
    pub fn render(self, report: &Report, style: Style) -> String {
        match self {
            Self::Human => human::render(report, style),
            Self::Json => json::pretty(report) + "\n",
            Self::Junit => junit::render(report),
            Self::Sarif => sarif::render(report),
            Self::Github => github::render(report),
        }
    }
}
