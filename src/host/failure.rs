//! Why a start failed, as data: what rules, advice and front ends decide by. Its words are for people
//! alone.

use serde::{Deserialize, Serialize};

use process::LaunchAdvice;

/// Why the last start of a server failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StartFailure {
    /// What kind of failure it is.
    pub cause: StartCause,
    /// Whether the reason in words quotes stderr.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub quotes_stderr: bool,
}

impl From<StartCause> for StartFailure {
    fn from(cause: StartCause) -> Self {
        Self { cause, quotes_stderr: false }
    }
}

/// What kind of failure a start ended with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StartCause {
    /// Its program could not be launched; with what mends the entry, where that is known.
    Launch(Option<LaunchAdvice>),
    /// Its process ended by itself.
    Exited,
    /// It did not answer within its time.
    TimedOut,
    /// What is at its address does not answer as a server does, or nothing answers there.
    Address(AddressAdvice),
    /// Anything else.
    #[default]
    Other,
}

/// What helps where a connection to an address failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AddressAdvice {
    /// The proxy cannot be reached.
    Proxy,
    /// Nothing listens there.
    StartServer,
    /// There is no such host.
    CorrectHost,
    /// It does not speak TLS.
    UseHttp,
    /// It speaks TLS.
    UseHttps,
    /// No MCP endpoint has this path.
    OtherPath,
    /// Whoever signs in may not use it.
    Rights,
    /// It is asked too often.
    Wait,
    /// It fails itself.
    AskOperator,
    /// Nothing came from there, for another reason.
    Unreachable,
}

impl AddressAdvice {
    /// The advice in words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Proxy => {
                "start the proxy, correct the variable that names it, or put the host of `url` \
                 into NO_PROXY"
            }
            Self::StartServer => {
                "nothing listens there: start the server, or correct the port in `url`"
            }
            Self::CorrectHost => "no such host: correct `url`; does it need a VPN or a proxy?",
            Self::UseHttp => {
                "what listens there does not speak TLS: write http:// instead of https://"
            }
            Self::UseHttps => "what listens there speaks TLS: write https:// instead of http://",
            Self::OtherPath => {
                "correct the path in `url` (often /mcp), or add \"type\": \"sse\" (often /sse)"
            }
            Self::Rights => {
                "what the entry signs in with may not use this server: check the rights of the \
                 account or token, and the `headers` of the entry"
            }
            Self::Wait => "it is asked too often: wait, then start it again",
            Self::AskOperator => {
                "the server, or the gateway before it, fails: try again later; only its operator \
                 sees why"
            }
            Self::Unreachable => "start the server, or correct `url` in its entry",
        }
    }
}
