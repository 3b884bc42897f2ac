//! What stands for [`OtlpQueue`] in a program without HTTP: there is none.

use serde_json::Value;
use url::Url;

/// What is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OtlpSignal {
    /// Log records, to `/v1/logs`.
    Logs,
}

/// A text attribute of a record.
pub fn attribute(_: &str, _: &str) -> Value {
    Value::Null
}

/// A queue of records for a collector: nothing can be sent.
#[derive(Clone, Debug)]
pub enum OtlpQueue {}

impl OtlpQueue {
    /// # Errors
    /// Always.
    pub fn to(_: &Url, _: OtlpSignal) -> Result<Self, String> {
        Err("this program was built without HTTP (the feature `http` of mcpdeck)".to_owned())
    }

    /// The address of the collector.
    pub fn collector(&self) -> &str {
        match *self {}
    }

    /// Queues a record.
    pub fn send(&self, _: Value) {
        match *self {}
    }

    /// Sends what is queued.
    pub async fn flush(&self) {
        match *self {}
    }
}
