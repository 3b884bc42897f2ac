//! `Host`: the public handle of the engine. Cheap to clone; dropping the last one stops the servers.

mod builder;
mod control;
mod look;
mod policy;
mod requests;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::base::ServerName;
use crate::host::HostView;
use crate::host::journal::Journal;
use crate::host::shared::Shared;
use crate::host::supervisor::Order;
use crate::process::ExitView;

pub use builder::HostBuilder;
pub use control::Reloading;

/// What a server that does not start means for the others (decision D2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Startup {
    /// All must become ready; otherwise every server is stopped and the error returned.
    #[default]
    All,
    /// Those that start are used; `initialize` returns when every server is ready or has failed.
    Available,
    /// Return at once; servers come up meanwhile (what a dashboard wants).
    Background,
}

/// The engine: every server of a configuration, started, supervised, callable. The example at the
/// top of the crate shows the whole of it.
#[derive(Clone)]
pub struct Host {
    inner: Arc<Inner>,
}

struct Inner {
    deck: Arc<Shared>,
    view: watch::Receiver<Arc<HostView>>,
    journal: Arc<Journal>,
    orders: mpsc::Sender<Order>,
    /// Fires when the last handle is dropped.
    abandoned: CancellationToken,
    /// How the first shutdown went, for those who ask again.
    report: Mutex<Option<ShutdownReport>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.deck.hurry.cancel();
        self.abandoned.cancel();
    }
}

/// How a shutdown went.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ShutdownReport {
    /// How each process ended.
    pub exits: Vec<(ServerName, ExitView)>,
    /// How long it took.
    pub took: Duration,
}
