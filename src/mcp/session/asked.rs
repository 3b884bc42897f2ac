//! Requests of the server: the decision of the approval queue, and its way back.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use protocol::{Answer, PendingRequest, ServerRequest, Tap, UndecidedRequest};

/// Has a request decided, and answers it unless it was withdrawn meanwhile.
pub fn decide(tap: Arc<Tap>, open: UndecidedRequest) {
    tokio::spawn(async move {
        let UndecidedRequest { id, asked, causes } = open;
        if let Some(answer) = decided(&tap, asked, &causes).await {
            tap.answer_open(&id, answer);
        }
    });
}

/// The decision of the approval queue on a request; `None` when the server has withdrawn it or its
/// session has ended. The clocks of the waiting calls are stopped meanwhile.
async fn decided(
    tap: &Tap,
    asked: ServerRequest,
    waiting: &[Arc<PendingRequest>],
) -> Option<Answer> {
    let (claim, withdrawn) = (Arc::clone(&asked.claim), CancellationToken::new());
    let (taken_back, on_drop) = (asked.withdrawn.clone(), withdrawn.clone().drop_guard());
    let answer = tap.context.approvals.ask(ServerRequest { withdrawn: withdrawn.clone(), ..asked });
    let _held: Vec<_> = waiting.iter().map(PendingRequest::hold).collect();
    let answer = async {
        tokio::pin!(answer);
        tokio::select! {
            biased;
            answer = &mut answer => answer,
            // The approval queue withdraws it from the user and decides what to answer.
            () = all_given_up(waiting) => {
                withdrawn.cancel();
                answer.await
            }
        }
    };
    let answer = tokio::select! {
        biased;
        () = taken_back.cancelled() => return None,
        () = tap.over.cancelled() => {
            claim.withdraw("its session ended");
            return None;
        }
        answer = answer => answer,
    };
    on_drop.disarm();
    Some(answer)
}

/// Completes when all of these calls are given up: what a server requested during them has no
/// purpose left. Never completes for an empty list.
async fn all_given_up(calls: &[Arc<PendingRequest>]) {
    if calls.is_empty() {
        return std::future::pending().await;
    }
    for call in calls {
        call.given_up().await;
    }
}
