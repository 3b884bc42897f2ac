//! The cost of one policy decision: 1,000 rules, 5,000 tools with their pins, 20 grants, a caller
//! other than the user. `cargo bench --bench figures -- decide`; the goal is under 2 µs.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use mcpdeck::base::Timestamp;
use mcpdeck::host::{
    AccessScope, Definition, Digest, Grant, GrantId, GrantKind, Grants, Origin, Pins, Policy,
    PolicyAction, PolicyConfig, PolicyEffect, PolicyTarget, Principal, Rules, ServerDigests,
};
use serde_json::json;

use crate::report::{Figure, Goal};

const SERVERS: usize = 50;
const TOOLS: usize = 100;
const ROUNDS: usize = 20;

/// Measures decisions.
pub fn measure(_words: &[String]) {
    let now = Timestamp(1);
    let rules: Vec<_> = (0..1_000)
        .map(|n| match n % 5 {
            0 => json!(format!("server{}.tool{}", n % SERVERS, n)),
            1 => json!(format!("server{}.admin_{n}_*", n % SERVERS)),
            2 => json!(format!("*.drop_{n}")),
            3 => json!(format!("server{}.*_secret_{n}_*", n % SERVERS)),
            _ => json!({"tools": format!("server{}.write_{n}*", n % SERVERS), "destructive": true}),
        })
        .collect();
    let config: PolicyConfig = serde_json::from_value(json!({
        "deny": rules[..600], "ask": rules[600..900],
        "profiles": {"coder": {"allow": ["server*"], "deny": rules[900..]}}
    }))
    .unwrap();
    let names: Vec<(String, String)> = (0..SERVERS)
        .flat_map(|server| (0..TOOLS).map(move |tool| (server, tool)))
        .map(|(server, tool)| (format!("server{server}"), format!("read_some_thing_{tool}")))
        .collect();
    let digests: Vec<Digest> = names.iter().map(|(_, tool)| Digest::of_text(tool)).collect();
    let mut pins = Pins { enforced: true, ..Pins::default() };
    let defined = names.iter().zip(&digests).map(|((_, tool), digest)| {
        let value = Arc::new(json!({}).into());
        Definition { name: tool.clone(), digest: *digest, value }
    });
    let defined: Vec<Definition> = defined.collect();
    for (server, tools) in names.chunks(TOOLS).zip(defined.chunks(TOOLS)) {
        pins.observe(&server[0].0, Digest::default(), "", tools);
    }
    let about = ServerDigests { instructions: Digest::of_text(""), ..ServerDigests::default() };
    let grant = |id: u64| Grant {
        id: GrantId(id),
        origin: "gateway:t1".to_owned(),
        profile: "coder".to_owned(),
        scopes: [AccessScope::ToolsList].into(),
        allowed_tools: vec![format!("server{id}.*")],
        effect: GrantKind::Once { until: None, session: None },
        given: now,
        covers: BTreeMap::new(),
    };
    let policy = Policy {
        rules: Arc::new(Rules::compile(&config).unwrap()),
        grants: Arc::new(Grants::new((0..20).map(grant).collect())),
        pins: Arc::new(pins),
        closed: None,
        is_at_rest: false,
    };
    let caller = Principal::new(Origin::Gateway("t1".into())).with_profile("coder");
    let person = Principal::new(Origin::Dashboard);
    for (what, principal, action) in [
        ("a list", &caller, PolicyAction::List),
        ("a call", &caller, PolicyAction::Call),
        ("a call of the person", &person, PolicyAction::Call),
    ] {
        let mut rounds: Vec<f64> = (0..ROUNDS)
            .map(|_| {
                let began = Instant::now();
                for ((server, tool), digest) in names.iter().zip(&digests) {
                    let target = PolicyTarget {
                        definition: Some(digest),
                        about: Some(&about),
                        ..PolicyTarget::tool(server, tool)
                    };
                    let decision = policy.decide(principal, action, &target, now);
                    assert_eq!(black_box(decision).effect, PolicyEffect::Allow);
                }
                began.elapsed().as_secs_f64() * 1e9 / names.len() as f64
            })
            .collect();
        let what = format!("policy decision, {what}");
        let goal = Goal::AtMost(2_000.0);
        Figure { what: &what, against: "", unit: "ns", goal }.state(&mut rounds);
    }
}
