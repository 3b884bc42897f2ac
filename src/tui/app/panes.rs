//! The panes of the dashboard, each a field of its own.

use crate::pane::catalog::CatalogPane;
use crate::pane::suites::SuitesPane;
use crate::pane::{Pane, PaneId, cache, config, inbox, lists, logs, metrics, servers, traffic};

/// Generates [`Panes`] and its accessors from one table.
macro_rules! panes {
    ($($id:ident $field:ident: $pane:ty = $new:expr;)*) => {
        /// The panes, each a field of its own.
        pub struct Panes {
            $(pub(super) $field: $pane,)*
        }

        impl Default for Panes {
            fn default() -> Self {
                Self { $($field: $new,)* }
            }
        }

        impl Panes {
            /// The pane with this id.
            pub fn get(&self, id: PaneId) -> &dyn Pane {
                match id { $(PaneId::$id => &self.$field,)* }
            }

            /// The pane with this id, mutable.
            pub fn get_mut(&mut self, id: PaneId) -> &mut dyn Pane {
                match id { $(PaneId::$id => &mut self.$field,)* }
            }
        }
    };
}

panes! {
    Servers servers: servers::ServersPane = servers::ServersPane::default();
    Tools tools: CatalogPane = CatalogPane::new(&lists::TOOLS);
    Resources resources: CatalogPane = CatalogPane::new(&lists::RESOURCES);
    Prompts prompts: CatalogPane = CatalogPane::new(&lists::PROMPTS);
    Traffic traffic: traffic::TrafficPane = traffic::TrafficPane::default();
    Logs logs: logs::LogsPane = logs::LogsPane::default();
    Metrics metrics: metrics::MetricsPane = metrics::MetricsPane::default();
    Cache cache: cache::CachePane = cache::CachePane::default();
    Tests suites: SuitesPane = SuitesPane::default();
    Inbox inbox: inbox::InboxPane = inbox::InboxPane::default();
    Config config: config::ConfigPane = config::ConfigPane::default();
}
