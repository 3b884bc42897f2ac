//! JSON Schemas of the files the check reads and writes, derived from the types themselves.

use schemars::generate::SchemaSettings;
use serde_json::Value;

use crate::check::answers::Answers;
use crate::check::expect::Expectations;
use crate::check::model::Report;
use crate::deck::lock::Lock;

/// Of the JSON report.
pub fn report_schema() -> Value {
    generate::<Report>(Contract::Written)
}

/// Of `mcp.expect.json`.
pub fn expectations_schema() -> Value {
    generate::<Expectations>(Contract::Read)
}

/// Of `mcp.lock.json`.
pub fn lock_schema() -> Value {
    generate::<Lock>(Contract::Read)
}

/// Of the file of `--answers`.
pub fn answers_schema() -> Value {
    generate::<Answers>(Contract::Read)
}

/// Of a file that is read as a `T`.
pub fn schema_of<T: schemars::JsonSchema>() -> Value {
    generate::<T>(Contract::Read)
}

/// Whether a schema describes what is read or what is written; defaults differ.
#[derive(PartialEq, Eq)]
enum Contract {
    Read,
    Written,
}

fn generate<T: schemars::JsonSchema>(contract: Contract) -> Value {
    let settings = SchemaSettings::draft2020_12();
    let settings = if contract == Contract::Written { settings.for_serialize() } else { settings };
    settings.into_generator().into_root_schema_for::<T>().to_value()
}
