//! Private data, untrusted content, and a way outside, within one run: what of it a tool or a
//! resource is. Pure.

use globset::{Glob, GlobSet, GlobSetBuilder};

use crate::host::policy::config::TrifectaConfig;
use crate::host::policy::principal::{Target, TargetKind};
use crate::host::policy::uri;

/// What a run has read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::host) struct Taint {
    private: bool,
    untrusted: bool,
}

impl Taint {
    pub(super) const fn and(self, other: Self) -> Self {
        Self {
            private: self.private || other.private,
            untrusted: self.untrusted || other.untrusted,
        }
    }

    pub(super) const fn is_both(self) -> bool {
        self.private && self.untrusted
    }
}

/// The rule, compiled. A list that is empty leaves it to what tools say of themselves.
#[derive(Debug, Default)]
pub(in crate::host) struct Trifecta {
    enabled: bool,
    private: GlobSet,
    untrusted: GlobSet,
    outbound: GlobSet,
}

impl Trifecta {
    pub(super) fn compile(config: &TrifectaConfig) -> Self {
        let set = |globs: &[String]| {
            let mut set = GlobSetBuilder::new();
            for glob in globs.iter().filter_map(|glob| Glob::new(glob).ok()) {
                set.add(glob);
            }
            set.build().unwrap_or_default()
        };
        Self {
            enabled: config.enabled,
            private: set(&config.private),
            untrusted: set(&config.untrusted),
            outbound: set(&config.outbound),
        }
    }

    /// What reading it adds to a run.
    pub(super) fn taint(&self, target: &Target<'_>) -> Taint {
        let name = name(target);
        let (closed, open) = match target.kind {
            TargetKind::Tool => {
                let open = target.hints.open_world.unwrap_or(true);
                (!open && target.hints.read_only == Some(true), open)
            }
            TargetKind::Resource => (name.starts_with("file:"), !name.starts_with("file:")),
            TargetKind::Prompt | TargetKind::Server => (false, false),
        };
        let says = |set: &GlobSet, otherwise| {
            if set.is_empty() { otherwise } else { set.is_match(&name) }
        };
        Taint { private: says(&self.private, closed), untrusted: says(&self.untrusted, open) }
    }

    /// Whether it sends outside.
    pub(super) fn sends(&self, target: &Target<'_>) -> bool {
        let says = target.hints.open_world.unwrap_or(true) && target.hints.read_only != Some(true);
        let listed = || self.outbound.is_match(name(target));
        self.enabled
            && target.kind == TargetKind::Tool
            && if self.outbound.is_empty() { says } else { listed() }
    }
}

fn name(target: &Target<'_>) -> String {
    match target.kind {
        TargetKind::Resource => uri::normalised(target.name),
        _ => format!("{}.{}", target.server, target.name),
    }
}
