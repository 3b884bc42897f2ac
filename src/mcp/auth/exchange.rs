//! Every HTTP request that signing in takes: checked, bounded, never redirected to another place,
//! and noted as a step.

use std::time::{Duration, Instant};

use futures::StreamExt;
use rmcp::transport::auth::{
    OAuthHttpClient, OAuthHttpClientError, OAuthHttpClientFuture, OAuthHttpRequest,
};
use url::Url;

use super::address::AddressPolicy;
use super::step::{AuthFailure, Events, StepKind, Went};
use crate::config::TlsConfig;
use crate::mcp::transport::connection;

/// The client of one server's authorization.
#[derive(Clone)]
pub(super) struct Exchange {
    http: reqwest::Client,
    pub(super) policy: AddressPolicy,
    pub(super) events: Events,
}

/// Why a request was not answered.
#[derive(Debug, thiserror::Error)]
#[error("{url}: {why}")]
pub(super) struct NotAnswered {
    url: String,
    why: String,
}

impl Exchange {
    /// Longest answer.
    const BYTES: usize = 256 << 10;
    const PATIENCE: Duration = Duration::from_secs(30);

    pub(super) fn new(server: &Url, tls: &TlsConfig, events: Events) -> Result<Self, AuthFailure> {
        let policy = AddressPolicy::new(server);
        let http = connection::builder(server, tls).map_err(AuthFailure::Refused)?;
        let http = http
            // Redirects of discovery are followed by rmcp, within the origin.
            .redirect(reqwest::redirect::Policy::none())
            .dns_resolver(policy.clone())
            .timeout(Self::PATIENCE)
            .build()
            .map_err(AuthFailure::failed)?;
        Ok(Self { http, policy, events })
    }

    /// Sends one request and reads its answer.
    pub(super) async fn run(
        &self,
        kind: StepKind,
        request: http::Request<Vec<u8>>,
    ) -> Result<http::Response<Vec<u8>>, NotAnswered> {
        let url = Url::parse(&request.uri().to_string());
        let url = url.map_err(|error| NotAnswered {
            url: request.uri().to_string(),
            why: error.to_string(),
        })?;
        let sent = request.body().clone();
        let began = Instant::now();
        let done = match self.policy.check(&url) {
            Ok(()) => self.answer(request).await,
            Err(why) => Err(why),
        };
        let took = began.elapsed();
        match done {
            Ok(response) => {
                let status = response.status();
                let refused = status.is_client_error() || status.is_server_error();
                let why = refused.then(|| error_code(response.body())).flatten();
                let (status, refused) = (Some(status.as_u16()), why.as_deref());
                let answered = response.body().as_slice();
                self.events.step(kind, &url, Went { status, took, refused, sent: &sent, answered });
                Ok(response)
            }
            Err(why) => {
                let refused = Some(why.as_str());
                self.events.step(
                    kind,
                    &url,
                    Went { took, refused, sent: &sent, ..Went::default() },
                );
                let mut shown = url;
                shown.set_query(None);
                Err(NotAnswered { url: shown.into(), why })
            }
        }
    }

    async fn answer(
        &self,
        request: http::Request<Vec<u8>>,
    ) -> Result<http::Response<Vec<u8>>, String> {
        let request = reqwest::Request::try_from(request).map_err(|error| root(&error))?;
        let response = self.http.execute(request).await.map_err(|error| root(&error))?;
        let mut out = http::Response::builder().status(response.status());
        // A stream of events has no end, and is nothing that was asked for.
        let kind = response.headers().get("content-type").and_then(|kind| kind.to_str().ok());
        let streams = kind.is_some_and(|kind| kind.starts_with("text/event-stream"));
        for (name, value) in response.headers() {
            out = out.header(name, value);
        }
        let mut body = Vec::new();
        let mut stream = response.bytes_stream();
        while !streams && let Some(chunk) = stream.next().await {
            body.extend_from_slice(&chunk.map_err(|error| root(&error))?);
            if body.len() > Self::BYTES {
                return Err(format!("the answer is over {} bytes", Self::BYTES));
            }
        }
        out.body(body).map_err(|error| error.to_string())
    }
}

/// The innermost cause, which is the one that helps.
fn root(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// The `error` of an OAuth answer, when it is a code of the specification's alphabet.
pub(super) fn error_code(body: &[u8]) -> Option<String> {
    let body: serde_json::Value = serde_json::from_slice(body).ok()?;
    let code = body.get("error")?.as_str()?;
    let known = code.len() <= 64 && code.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    known.then(|| code.to_owned())
}

/// What rmcp is doing, which only its request tells.
fn kind_of(request: &http::Request<Vec<u8>>) -> StepKind {
    let path = request.uri().path();
    let json = request.headers().get("content-type").is_some_and(|kind| kind == "application/json");
    if request.method() == http::Method::POST {
        if json { StepKind::Register } else { StepKind::Token }
    } else if path.contains("/oauth-authorization-server") || path.contains("/openid-configuration")
    {
        StepKind::ServerMetadata
    } else {
        StepKind::ResourceMetadata
    }
}

impl OAuthHttpClient for Exchange {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let kind = kind_of(&request.request);
            let response = self.run(kind, request.request).await;
            response.map_err(|error| Box::new(error) as OAuthHttpClientError)
        })
    }
}
