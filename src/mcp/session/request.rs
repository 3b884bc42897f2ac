//! Requests of the host as round trips, and the rounds of `input_required` (2026-07-28, SEP-2322).

use std::sync::Arc;

use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::Request;
use super::live::Core;
use super::task::{RunningTask, mention_tasks};
use base::SafeText;
use base::human::count;
use config::error::{Error, ErrorCode};
use protocol::{
    Answer, Era, InputPlace, Params, Payload, PendingRequest, RequestKind, RpcCode, RpcRequest,
    ServerRequest,
};

impl Core {
    /// Performs a caller's request.
    pub(super) async fn perform(
        self: &Arc<Self>,
        request: Request,
        pending: &Arc<PendingRequest>,
    ) -> Result<Payload, Error> {
        pending.begin();
        let modern = self.era() == Era::Modern;
        let about = |method: &'static str, uri: &str| {
            RpcRequest::new(method, Some(uri), Some(json!({"uri": uri})))
        };
        let rpc = match request {
            Request::CallTool { name, arguments } => {
                RpcRequest::named("tools/call", name, arguments)
            }
            Request::RunTask { name, arguments } if !modern && self.view().runs_tasks() => {
                return Box::pin(RunningTask::call(self, name, arguments, pending)).await;
            }
            Request::RunTask { name, arguments } => {
                mention_tasks(self, &name);
                RpcRequest::named("tools/call", name, arguments)
            }
            Request::GetPrompt { name, arguments } => {
                RpcRequest::named("prompts/get", name, arguments)
            }
            Request::ReadResource { uri } => about("resources/read", &uri),
            Request::Complete { params } => {
                RpcRequest::new("completion/complete", None, Some(params))
            }
            Request::Subscribe { uri } if modern => return self.subscribe(&uri).map(Payload::from),
            Request::Unsubscribe { uri } if modern => return Ok(self.unsubscribe(&uri).into()),
            Request::SetLogLevel(level) if modern => {
                *self.log_level.lock() = Some(level);
                return Ok(json!({}).into());
            }
            Request::Subscribe { uri } => about("resources/subscribe", &uri),
            Request::Unsubscribe { uri } => about("resources/unsubscribe", &uri),
            Request::SetLogLevel(level) => RpcRequest::set_level(level),
            Request::Raw { method, params } => RpcRequest::new(method.to_string(), None, params),
        };
        let may_ask =
            modern && matches!(&*rpc.method, "tools/call" | "prompts/get" | "resources/read");
        let again = may_ask.then(|| rpc.clone());
        let result = self.round_trip(rpc, pending).await?;
        match again {
            // Boxed, because most requests are answered at once.
            Some(rpc) if needs_input(&result) => Box::pin(self.rounds(rpc, result, pending)).await,
            _ => Ok(result),
        }
    }

    /// Repeats a request until it needs no more input than `result` of its first round asks for. No
    /// request is open while the user decides.
    async fn rounds(
        &self,
        rpc: RpcRequest,
        mut result: Payload,
        pending: &Arc<PendingRequest>,
    ) -> Result<Payload, Error> {
        let wire = &self.tap.context.limits;
        let (most_rounds, most_inputs) = (wire.input_rounds, wire.inputs_per_round);
        for _ in 0..most_rounds {
            let mut asked = result.into_value();
            pending.alive();
            let about = |error: Error| self.about(error, &rpc);
            let protocol = |message: String| about(Error::new(ErrorCode::Protocol, message));
            let requests = match asked.get_mut("inputRequests").map(Value::take) {
                None | Some(Value::Null) => Map::new(),
                Some(Value::Object(requests)) if requests.len() <= most_inputs => requests,
                Some(Value::Object(requests)) => {
                    let error = protocol(format!(
                        "the server asks for {} inputs at once, the limit is {most_inputs} \
                         (`limits.inputsPerRound`)",
                        requests.len()
                    ));
                    let help = "raise `limits.inputsPerRound` of its entry if it needs that many";
                    return Err(error.help(help));
                }
                Some(_) => return Err(protocol("`inputRequests` is not an object".into())),
            };
            let state = asked.get_mut("requestState").map(Value::take);
            if requests.is_empty() && state.is_none() {
                return Err(protocol("`input_required` names neither inputs nor a state".into()));
            }
            let answers = self.inputs(requests, pending).await.map_err(about)?;
            let mut next = rpc.clone();
            let params = next.params.get_or_insert_with(|| Params::Whole(Map::new()));
            if !answers.is_empty() {
                params.insert("inputResponses", Value::Object(answers));
            }
            if let Some(state) = state {
                params.insert("requestState", state);
            }
            result = self.round_trip(next, pending).await?;
            if !needs_input(&result) {
                return Ok(result);
            }
        }
        let most = count(most_rounds, "time");
        let message = format!("the server asked for input more than {most} (`limits.inputRounds`)");
        let error = Error::new(ErrorCode::Protocol, message);
        let help = "raise `limits.inputRounds` of its entry if it needs that many";
        Err(self.about(error.help(help), &rpc))
    }

    /// Asks the approval queue for every input of a round, all at once.
    async fn inputs(
        &self,
        requests: Map<String, Value>,
        pending: &Arc<PendingRequest>,
    ) -> Result<Map<String, Value>, Error> {
        if requests.is_empty() {
            return Ok(Map::new());
        }
        let withdrawn = CancellationToken::new();
        let on_drop = withdrawn.clone().drop_guard();
        let (mut asked, of) = (Vec::new(), requests.len());
        for (key, request) in requests {
            asked.push(self.input((key, of), request, pending, &withdrawn)?);
        }
        let held = pending.hold();
        let answers = tokio::select! {
            biased;
            () = pending.cancel.cancelled() => {
                return Err(Error::new(ErrorCode::Cancelled, "cancelled by the caller"));
            }
            () = self.tap.over.cancelled() => return Err(self.gone()),
            answers = futures::future::try_join_all(asked) => answers?,
        };
        drop(held);
        on_drop.disarm();
        Ok(answers.into_iter().collect())
    }

    fn input(
        &self,
        (key, of): (String, usize),
        mut request: Value,
        pending: &PendingRequest,
        withdrawn: &CancellationToken,
    ) -> Result<impl Future<Output = Result<(String, Value), Error>> + use<>, Error> {
        let method = request.get("method").and_then(Value::as_str).unwrap_or_default().to_owned();
        let params = request.get_mut("params").map(Value::take).unwrap_or_default();
        let kind = RequestKind::from_method(&method, &params);
        if let RequestKind::Other(method) = &kind {
            let method = SafeText::line(method);
            let message = format!("the server asks for the unknown input `{method}`");
            return Err(Error::new(ErrorCode::Protocol, message));
        }
        let bytes = serde_json::to_vec(&params).map_or(0, |text| text.len());
        let may_decline = matches!(kind, RequestKind::Elicitation | RequestKind::UrlElicitation);
        let answer = self.tap.context.approvals.ask(ServerRequest {
            server: self.tap.context.server.clone(),
            kind,
            call: pending.call,
            candidates: Vec::new(),
            params: Arc::new(params),
            bytes,
            deferred: true,
            input: Some(InputPlace::new(&key, of)),
            withdrawn: withdrawn.clone(),
            claim: Arc::default(),
        });
        Ok(async move {
            match answer.await {
                Answer::Result(value) => Ok((key, value)),
                // The code of a user's refusal. Any other is nobody's decision: the call fails.
                Answer::Refuse { code: RpcCode::USER_REJECTED, .. } if may_decline => {
                    Ok((key, json!({"action": "decline"})))
                }
                Answer::Refuse { message, .. } => {
                    let message = format!("`{method}` was refused: {message}");
                    Err(Error::new(ErrorCode::PermissionDenied, message))
                }
            }
        })
    }

    fn about(&self, error: Error, rpc: &RpcRequest) -> Error {
        error.server(&self.tap.context.server).request(rpc.name())
    }
}

/// Whether a result says that the server needs input first (2026-07-28, SEP-2322).
fn needs_input(result: &Payload) -> bool {
    result["resultType"] == "input_required"
}
