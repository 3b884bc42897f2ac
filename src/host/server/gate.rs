//! How many servers start at once: twice as many as the machine has processors, and more while those
//! that start leave the processors idle (they download, or wait). What all start at once is slower
//! for everybody, and answers to probes come late.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::host::server::connect::Connector;

/// Places for servers that start.
pub struct StartGate {
    width: usize,
    sure: Arc<Semaphore>,
    /// Those that are given only while the processors are idle.
    idle: Arc<Semaphore>,
}

/// As wide as the machine.
impl Default for StartGate {
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let width = (2 * processors).clamp(4, Self::MOST);
        let idle = Semaphore::new(Self::MOST - width);
        Self { width, sure: Arc::new(Semaphore::new(width)), idle: Arc::new(idle) }
    }
}

impl StartGate {
    /// Most servers that start at the same time.
    const MOST: usize = 16;
    /// How often it is looked whether the processors are idle.
    const LOOK: Duration = Duration::from_millis(50);

    /// Waits for a place; it is free again when the permit is dropped.
    pub async fn enter(&self, connector: &dyn Connector) -> Option<OwnedSemaphorePermit> {
        let sure = Arc::clone(&self.sure).acquire_owned();
        tokio::pin!(sure);
        loop {
            tokio::select! {
                biased;
                place = &mut sure => return place.ok(),
                () = tokio::time::sleep(Self::LOOK) => {}
            }
            if self.idle.available_permits() > 0
                && !connector.is_crowded(self.width).await
                && let Ok(place) = Arc::clone(&self.idle).try_acquire_owned()
            {
                return Some(place);
            }
        }
    }
}
