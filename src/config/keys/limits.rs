//! The keys of `limits`: what a process may take and what a server may send. Only the table; the
//! values in effect are `ProcessLimits`, `WireLimits` and `ContentLimits`.

use super::key;
use crate::config::shape::{ObjectShape, Shape};

pub(super) static LIMITS: ObjectShape = ObjectShape {
    name: "limits",
    doc: "`limits`",
    keys: &[
        key("memory", Shape::Bytes, "Private memory of each process"),
        key("cpu", Shape::Seconds, "CPU time of the process in seconds"),
        key("cpuMs", Shape::Millis, "CPU time of the process in milliseconds").alias("cpu"),
        key("openFiles", Shape::Integer { min: 16, max: 1_048_576 }, "Open files of the process"),
        key("lineBytes", Shape::Integer { min: 1_024, max: 256 << 20 }, "Longest message in bytes")
            .default("4194304"),
        key("depth", Shape::Integer { min: 8, max: 512 }, "Deepest nesting of a message")
            .default("128"),
        key(
            "nodes",
            Shape::Integer { min: 100, max: 10_000_000 },
            "Most JSON values in a message; results of calls are kept as text beyond it",
        )
        .default("500000"),
        key(
            "stderrLineBytes",
            Shape::Integer { min: 80, max: 1 << 20 },
            "Longest line of stderr in bytes",
        )
        .default("16384"),
        key(
            "stderrBytes",
            Shape::Integer { min: 4 << 10, max: 64 << 20 },
            "Most bytes of stderr kept to say why the process ended",
        )
        .default("262144"),
        key("maxCall", Shape::Seconds, "Longest call in seconds, whatever its progress")
            .default("600"),
        key("maxCallMs", Shape::Millis, "Longest call in milliseconds").alias("maxCall"),
        key("listPages", Shape::Integer { min: 1, max: 10_000 }, "Most pages of a list")
            .default("100"),
        key("listEntries", Shape::Integer { min: 1, max: 1_000_000 }, "Most entries of a list")
            .default("5000"),
        key("refetch", Shape::Seconds, "Least time between two fetches of a list, in seconds")
            .default("1"),
        key("refetchMs", Shape::Millis, "Least time between two fetches, in milliseconds")
            .alias("refetch"),
        key(
            "queueMessages",
            Shape::Integer { min: 1, max: 100_000 },
            "Most messages that wait to be read by the server",
        )
        .default("256"),
        key(
            "queueBytes",
            Shape::Integer { min: 64 << 10, max: 256 << 20 },
            "Most bytes that wait to be read by the server",
        )
        .default("1048576"),
        key("inputRounds", Shape::Integer { min: 1, max: 100 }, "Most rounds of input of a call")
            .default("5"),
        key("inputsPerRound", Shape::Integer { min: 1, max: 100 }, "Most inputs of a round")
            .default("8"),
        key(
            "approvals",
            Shape::Integer { min: 1, max: 10_000 },
            "Most open requests of the server",
        )
        .default("32"),
        key(
            "approvalsPerMinute",
            Shape::Integer { min: 1, max: 1_000_000 },
            "Most requests of the server in a minute",
        )
        .default("600"),
        key("maxWaiting", Shape::Seconds, "Longest time a person may hold a call, in seconds")
            .default("3600"),
        key(
            "maxWaitingMs",
            Shape::Millis,
            "Longest time a person may hold a call, in milliseconds",
        )
        .alias("maxWaiting"),
        key(
            "descriptionBytes",
            Shape::Integer { min: 1, max: 16 << 20 },
            "Longest description that is not reported, in bytes",
        )
        .default("4096"),
        key("schemaDepth", Shape::Integer { min: 1, max: 256 }, "Deepest nesting of a schema")
            .default("32"),
        key("subschemas", Shape::Integer { min: 1, max: 100_000 }, "Most sub-schemas of a schema")
            .default("2000"),
        key("schemaTime", Shape::Seconds, "Longest validation of a value, in seconds")
            .default("0.25"),
        key("schemaTimeMs", Shape::Millis, "Longest validation of a value, in milliseconds")
            .alias("schemaTime"),
        key(
            "imagePixels",
            Shape::Integer { min: 1, max: 100_000_000 },
            "Most pixels of a picture that is drawn",
        )
        .default("4000000"),
        key(
            "imageBytes",
            Shape::Integer { min: 64 << 10, max: 1 << 30 },
            "Most memory that a picture may take, in bytes",
        )
        .default("67108864"),
    ],
    required: &[],
    foreign: &[],
};
