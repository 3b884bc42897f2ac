//! How callers of a service sign in at an issuer of the team (OAuth 2.1, RFC 9728), and which
//! profiles what their tokens say gives them. Pure; the gateway checks the tokens.

use std::borrow::Cow;
use std::collections::BTreeMap;

use globset::GlobSet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use url::Url;

use super::globs::GlobList;
use base::address::is_loopback;

/// Sign-in of callers at an issuer: an OAuth 2.1 authorization server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SignInConfig {
    /// The issuer, exactly as its tokens name it (`iss`).
    pub issuer: String,
    /// Whom its tokens have to be for (`aud`): usually the public address of `/mcp`.
    pub audience: String,
    /// The public address of `/mcp`, which clients are told; the audience when that is an address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// Where its keys are; by default its metadata says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwks: Option<String>,
    /// Algorithms of signatures that are accepted (default: RS256, PS256, ES256, ES384, `EdDSA`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub algorithms: Option<Vec<SignatureAlgorithm>>,
    /// By how many seconds its clock may differ (default 60, at most 300).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_skew: Option<u64>,
    /// The claim with the groups of a caller (default `groups`); a dot leads into an object
    /// (`realm_access.roles`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups: Option<String>,
    /// The scopes that the challenge and the metadata name, for clients to ask for. By default those of tokens that are made here; an
    /// issuer that does not know them may refuse to sign in who asks for them, so name those that it
    /// knows, or none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scopes: Option<Vec<String>>,
    /// Asks the issuer about tokens that are not JWTs. Without it these are refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub introspection: Option<IntrospectionConfig>,
}

/// How the issuer is asked about a token (RFC 7662).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct IntrospectionConfig {
    /// The endpoint; by default the metadata of the issuer says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The client as which this service asks.
    pub client_id: String,
    /// Where its secret is kept: `${env:NAME}`, `${secret:NAME}` or `${keyring:NAME}`.
    pub client_secret: String,
}

/// An algorithm of signatures. None is symmetric: a public key is no secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum SignatureAlgorithm {
    /// RSA, PKCS #1, SHA-256.
    Rs256,
    /// RSA, PKCS #1, SHA-384.
    Rs384,
    /// RSA, PKCS #1, SHA-512.
    Rs512,
    /// RSA, PSS, SHA-256.
    Ps256,
    /// RSA, PSS, SHA-384.
    Ps384,
    /// RSA, PSS, SHA-512.
    Ps512,
    /// ECDSA, P-256, SHA-256.
    Es256,
    /// ECDSA, P-384, SHA-384.
    Es384,
    /// Ed25519.
    #[serde(rename = "EdDSA")]
    EdDsa,
}

/// Which signed-in callers a profile is for. All that is given must match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct ProfileMatch {
    /// A group of theirs: a glob, or a list of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<GlobList>,
    /// Their subject (`sub`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<GlobList>,
    /// Other claims by name, each with globs over its value; a dot leads into an object.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub claims: BTreeMap<String, GlobList>,
}

impl SignInConfig {
    /// Algorithms that are accepted without a list.
    const USUAL_ALGORITHMS: [SignatureAlgorithm; 5] = [
        SignatureAlgorithm::Rs256,
        SignatureAlgorithm::Ps256,
        SignatureAlgorithm::Es256,
        SignatureAlgorithm::Es384,
        SignatureAlgorithm::EdDsa,
    ];
    /// Most seconds by which clocks may differ.
    const MAX_SKEW_SECONDS: u64 = 300;

    /// The algorithms that are accepted.
    pub fn algorithms(&self) -> &[SignatureAlgorithm] {
        self.algorithms.as_deref().unwrap_or(&Self::USUAL_ALGORITHMS)
    }

    /// By how many seconds the clocks may differ.
    pub fn clock_skew(&self) -> u64 {
        self.clock_skew.unwrap_or(60)
    }

    /// The public address of `/mcp`.
    pub fn resource(&self) -> &str {
        self.resource.as_deref().unwrap_or(&self.audience)
    }

    /// What is wrong with it.
    pub(super) fn problems(&self) -> Vec<String> {
        let mut out = Vec::new();
        let mut at = |key: &str, problem: &str| out.push(format!("policy/signIn/{key}: {problem}"));
        let is_safe = |text: &str| Url::parse(text).is_ok_and(|url| is_safe_address(&url));
        let address = "an https address is expected (http on this machine only)";
        if !is_safe(&self.issuer) {
            at("issuer", address);
        }
        if self.audience.trim().is_empty() {
            at("audience", "it is empty: tokens for others would be accepted");
        }
        // RFC 6749, section 3.3.
        let is_scope = |text: &String| {
            !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic() && !b"\"\\".contains(&b))
        };
        if !self.scopes.iter().flatten().all(is_scope) {
            at("scopes", "each is one word, without blanks, quotes and backslashes");
        }
        match &self.resource {
            Some(resource) if !is_safe(resource) => at("resource", address),
            None if Url::parse(&self.audience).map_or(true, |url| url.host().is_none()) => {
                at("resource", "the audience is no address, so name the public one of `/mcp`");
            }
            _ => {}
        }
        if self.jwks.as_deref().is_some_and(|jwks| !is_safe(jwks)) {
            at("jwks", address);
        }
        if self.algorithms.as_ref().is_some_and(Vec::is_empty) {
            at("algorithms", "it is empty, so that every token is refused");
        }
        if self.clock_skew() > Self::MAX_SKEW_SECONDS {
            at("clockSkew", "at most 300 seconds are expected");
        }
        if let Some(introspection) = &self.introspection {
            if introspection.url.as_deref().is_some_and(|url| !is_safe(url)) {
                at("introspection/url", address);
            }
            if !introspection.client_secret.starts_with("${") {
                let problem =
                    "write where it is kept: ${env:NAME}, ${secret:NAME} or ${keyring:NAME}";
                at("introspection/clientSecret", problem);
            }
        }
        out
    }
}

/// Whether nobody on the way can read or change what goes to an address.
pub fn is_safe_address(url: &Url) -> bool {
    url.host().is_some() && (url.scheme() == "https" || url.scheme() == "http" && is_loopback(url))
}

impl ProfileMatch {
    /// What is wrong with it.
    pub(super) fn problems(&self) -> Vec<String> {
        if *self == Self::default() {
            return vec!["it selects nobody: name `group`, `subject` or `claims`".to_owned()];
        }
        let lists = self.group.iter().chain(&self.subject).chain(self.claims.values());
        lists.filter_map(|list| list.parse().err()).collect()
    }

    /// Whether the claims of a caller match; `groups` names the claim with its groups.
    pub(super) fn fits(&self, claims: &Value, groups: &str) -> bool {
        let fits = |list: &GlobList, claim: &str| {
            let set = list.parse().ok().and_then(|globs| GlobSet::new(globs).ok());
            set.is_some_and(|set| texts_of(claims, claim).iter().any(|text| set.is_match(&**text)))
        };
        *self != Self::default()
            && self.group.as_ref().is_none_or(|list| fits(list, groups))
            && self.subject.as_ref().is_none_or(|list| fits(list, "sub"))
            && self.claims.iter().all(|(claim, list)| fits(list, claim))
    }

    /// Whether a claim that it looks at is not in the token, but said to be elsewhere.
    pub(super) fn lacks_claims(&self, claims: &Value, groups: &str) -> bool {
        let of_groups = self.group.is_some().then_some(groups);
        let mut wanted = of_groups.into_iter().chain(self.claims.keys().map(String::as_str));
        wanted.any(|claim| {
            let root = claim.split('.').next().unwrap_or(claim);
            let names = &claims["_claim_names"];
            let is_elsewhere = !names[claim].is_null() || !names[root].is_null();
            // Said of groups alone where a place to ask would make the token too long.
            let has_more =
                claim == groups && [json!(true), json!("true")].contains(&claims["hasgroups"]);
            (is_elsewhere || has_more) && value_of(claims, claim).is_none_or(Value::is_null)
        })
    }
}

/// The value of a claim. The claim of that very name comes first, then the one that its dots lead to.
fn value_of<'v>(claims: &'v Value, path: &str) -> Option<&'v Value> {
    let plain = claims.get(path);
    plain.or_else(|| path.split('.').try_fold(claims, |value, part| value.get(part)))
}

/// The texts of a claim: itself, or the entries of a list.
fn texts_of<'v>(claims: &'v Value, path: &str) -> Vec<Cow<'v, str>> {
    let text = |value: &'v Value| match value {
        Value::String(text) => Some(Cow::Borrowed(text.as_str())),
        Value::Number(number) => Some(number.to_string().into()),
        Value::Bool(flag) => Some(flag.to_string().into()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    };
    match value_of(claims, path) {
        Some(Value::Array(all)) => all.iter().filter_map(text).collect(),
        Some(value) => text(value).into_iter().collect(),
        None => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::PolicyConfig;

    #[test]
    fn claims_give_the_profiles_that_they_match() {
        let policy: PolicyConfig = serde_json::from_value(json!({
            "signIn": {"issuer": "https://id.example", "audience": "https://deck.example/mcp",
                       "groups": "realm.roles"},
            "profiles": {
                "admin": {"match": {"group": "platform", "claims": {"mfa": "true"}}},
                "team": {"match": {"group": ["platform*", "data"]}},
                "one": {"match": {"subject": "alice"}},
                "open": {"allow": ["*"]},
            },
        }))
        .expect("a policy");
        let profiles = |claims: Value| -> Vec<String> {
            policy.profiles_of_claims(&claims).iter().map(ToString::to_string).collect()
        };
        let roles = |roles: Value| json!({"sub": "bob", "realm": {"roles": roles}, "mfa": true});
        assert_eq!(profiles(roles(json!(["x", "platform"]))), ["admin", "team"]);
        assert_eq!(profiles(roles(json!("platform-eu"))), ["team"]);
        assert_eq!(profiles(json!({"sub": "alice", "groups": ["platform"]})), ["one"]);
        assert_eq!(profiles(json!({"sub": "bob"})), [""; 0], "nobody gets one without a match");
    }

    #[test]
    fn claims_that_the_issuer_left_out_are_not_taken_for_none() {
        let policy = |profile: Value| -> PolicyConfig {
            serde_json::from_value(json!({"profiles": {"some": {"match": profile}}}))
                .expect("a policy")
        };
        let by_group = policy(json!({"group": "staff"}));
        let elsewhere = json!({"sub": "bob", "_claim_names": {"groups": "src1"},
                               "_claim_sources": {"src1": {"endpoint": "https://graph.example"}}});
        assert!(by_group.lacks_claims(&elsewhere));
        assert!(by_group.lacks_claims(&json!({"hasgroups": true})));
        assert!(by_group.lacks_claims(&json!({"hasgroups": "true"})));
        assert!(!by_group.lacks_claims(&json!({"hasgroups": false})));
        assert!(!by_group.lacks_claims(&json!({"groups": ["x"], "_claim_names": {"a": "src1"}})));
        // Nothing is decided by groups here.
        let by_role = policy(json!({"claims": {"roles.of": "admin"}}));
        assert!(!by_role.lacks_claims(&elsewhere));
        assert!(by_role.lacks_claims(&json!({"_claim_names": {"roles": "src1"}})));
        assert!(!policy(json!({"subject": "bob"})).lacks_claims(&elsewhere));
    }

    #[test]
    fn what_would_let_others_in_is_refused() {
        for (change, key) in [
            (json!({"issuer": "http://id.example"}), "issuer"),
            (json!({"audience": " "}), "audience"),
            (json!({"audience": "api"}), "resource"),
            (json!({"jwks": "http://10.0.0.1/keys"}), "jwks"),
            (json!({"algorithms": []}), "algorithms"),
            (json!({"clockSkew": 3_600}), "clockSkew"),
            (json!({"introspection": {"clientId": "a", "clientSecret": "b"}}), "introspection"),
        ] {
            let mut config =
                json!({"issuer": "https://id.example", "audience": "https://d.example/mcp"});
            let object = config.as_object_mut().expect("an object");
            object.extend(change.as_object().expect("an object").clone());
            let config: SignInConfig = serde_json::from_value(config).expect("a setting");
            let problems = config.problems().join("\n");
            assert!(problems.contains(&format!("policy/signIn/{key}")), "{problems}");
        }
        for algorithm in ["none", "HS256", "rs256"] {
            serde_json::from_value::<SignatureAlgorithm>(json!(algorithm))
                .expect_err("not accepted");
        }
    }
}
