//! Where references lead: pointers, anchors, and schemas inside the document that have an `$id`.
//! Nothing outside the document is looked up. Pure.

use std::collections::HashMap;
use std::sync::Arc;

use base::text::percent;
use url::Url;

/// What stands for the address of a document that names none.
const NOWHERE: &str = "schema:///";

/// The places of a document that have a name.
#[derive(Debug, Default)]
pub(super) struct RefTargets {
    /// Pointers of anchors, by the pointer of their resource and their name.
    anchors: HashMap<(Arc<str>, String), String>,
    /// Pointers of schemas with an `$id`, by its absolute form.
    resources: HashMap<String, Arc<str>>,
    /// The other way round.
    addresses: HashMap<Arc<str>, String>,
}

impl RefTargets {
    /// Records the `$id` of the schema at a pointer; returns the pointer of the resource it is in.
    pub(super) fn add_id(&mut self, at: &str, base: &Arc<str>, id: &str) -> Arc<str> {
        // Up to draft-07, anchors were written as `$id`.
        if let Some(anchor) = id.strip_prefix('#') {
            self.add_anchor(at, base, anchor);
            return Arc::clone(base);
        }
        let address = self.absolute(base, id);
        let own: Arc<str> = Arc::from(at);
        self.addresses.insert(Arc::clone(&own), address.clone());
        self.resources.entry(address).or_insert_with(|| Arc::clone(&own));
        own
    }

    /// Records an anchor of the schema at a pointer.
    pub(super) fn add_anchor(&mut self, at: &str, base: &Arc<str>, anchor: &str) {
        self.anchors.insert((Arc::clone(base), anchor.to_owned()), at.to_owned());
    }

    /// The pointers that a reference may name, seen from the resource it stands in; the first that
    /// exists counts.
    pub(super) fn pointers(&self, base: &Arc<str>, reference: &str) -> Vec<String> {
        let (uri, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let root: Arc<str> = Arc::default();
        let resources = if uri.is_empty() {
            // Some schemas have an `$id` in the middle and still mean the root.
            vec![base, &root]
        } else {
            self.resources.get(&self.absolute(base, uri)).into_iter().collect()
        };
        let decoded = percent::decoded(fragment);
        let within = |resource: &Arc<str>| {
            let anchor = self.anchors.get(&(Arc::clone(resource), decoded.clone())).cloned();
            let written = [format!("{resource}{fragment}"), format!("{resource}{decoded}")];
            anchor.into_iter().chain(written)
        };
        resources.into_iter().flat_map(within).collect()
    }

    /// An address as seen from a resource, without its fragment.
    fn absolute(&self, base: &str, uri: &str) -> String {
        let base = self.addresses.get(base).map_or(NOWHERE, String::as_str);
        let base = Url::parse(base).or_else(|_| Url::parse(NOWHERE)).ok();
        match Url::options().base_url(base.as_ref()).parse(uri) {
            Ok(mut address) => {
                address.set_fragment(None);
                address.into()
            }
            Err(_) => uri.to_owned(),
        }
    }
}
