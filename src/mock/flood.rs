//! Floods: very much output, as fast as it goes or at a rate.

use std::ops::ControlFlow;
use std::time::Duration;

use tokio::time::Instant;

use crate::mock::action::Flood;
use crate::mock::play::{Cx, Flow};
use crate::mock::template;

/// Bytes written at once.
const BLOCK: usize = 64 << 10;
/// How often a rate is kept up.
const TICK: Duration = Duration::from_millis(10);

/// Writes what the flood asks for. Its time is looked at between blocks, so that no line is cut.
pub(crate) async fn flood(cx: &Cx, flood: &Flood) -> Flow {
    if flood.bytes > 0 {
        unbroken(cx, flood).await;
    } else {
        lines(cx, flood).await;
    }
    ControlFlow::Continue(())
}

async fn unbroken(cx: &Cx, flood: &Flood) {
    let block = vec![b'x'; BLOCK];
    let mut left = flood.bytes as usize;
    while left > 0 {
        let size = left.min(BLOCK);
        cx.sink.bytes(flood.to, &block[..size], 0, 0).await;
        left -= size;
    }
}

async fn lines(cx: &Cx, flood: &Flood) {
    let begun = Instant::now();
    let over = |written: u64| {
        (flood.lines > 0 && written >= flood.lines)
            || (flood.millis > 0 && begun.elapsed() >= Duration::from_millis(flood.millis))
    };
    let mut written = 0;
    let mut block = Vec::with_capacity(BLOCK + 1024);
    while !over(written) {
        let mut left = if flood.lines > 0 { flood.lines - written } else { u64::MAX };
        if flood.per_second > 0 {
            let due = flood.per_second * begun.elapsed().as_millis() as u64 / 1000;
            if due <= written {
                tokio::time::sleep(TICK).await;
                continue;
            }
            left = left.min(due - written);
        }
        block.clear();
        while left > 0 && block.len() < BLOCK {
            line(cx, flood, written, &mut block);
            written += 1;
            left -= 1;
        }
        cx.sink.bytes(flood.to, &block, 0, 0).await;
        tokio::task::yield_now().await;
    }
}

fn line(cx: &Cx, flood: &Flood, index: u64, out: &mut Vec<u8>) {
    let text = match (&flood.json, &flood.line) {
        (Some(json), _) => template::json(json, &template::counted(cx, index)),
        (None, Some(text)) if text.contains("${") => {
            let text = serde_json::Value::String(text.clone());
            template::text(&text, &template::counted(cx, index))
        }
        (None, Some(text)) => text.clone(),
        (None, None) => format!("flood {index}"),
    };
    out.extend_from_slice(text.as_bytes());
    out.push(b'\n');
}
