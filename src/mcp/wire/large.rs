//! Large answers: more in memory than a message may take, but read by a person or a program piece by
//! piece. Their text is kept whole (`limits.lineBytes` bounds it) beside its beginning as a value.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::json::Budget;
use crate::mcp::Payload;

/// Values that the beginning has.
const SHOWN: usize = 100_000;

/// An answer and nothing else; anything odd about it is reported as for any other message.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope<'a> {
    jsonrpc: &'a str,
    id: i64,
    #[serde(borrow)]
    result: &'a RawValue,
}

/// The id and the result of a line that is a plain answer.
pub(super) fn answer(line: &[u8], budget: Budget) -> Option<(i64, Payload)> {
    let Envelope { jsonrpc, id, result } = serde_json::from_slice(line).ok()?;
    let plain = jsonrpc == "2.0" && result.get().starts_with('{');
    // The message around the result is a level.
    let depth = budget.depth.min(Budget::MAX_DEPTH).checked_sub(1)?;
    let payload = Payload::large(result, depth, SHOWN.min(budget.nodes)).filter(|_| plain)?;
    Some((id, payload))
}
