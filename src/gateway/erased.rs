//! Handlers of one type, whatever they take and run.
//!
//! Axum wraps every handler in some ten types of its own. With a type for each handler the compiler makes
//! all of them for each, and proves anew every time that its state may go to another thread: a fifth of its
//! time for this crate.

use std::sync::Arc;

use axum::extract::Request;
use axum::handler::Handler;
use axum::response::Response;
use axum::routing::{self, MethodRouter};
use futures::future::BoxFuture;

type AnyHandler<S> = dyn Fn(Request, S) -> BoxFuture<'static, Response> + Send + Sync;

/// A handler whose type names its state alone.
pub(crate) struct Erased<S>(Arc<AnyHandler<S>>);

impl<S> Clone for Erased<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S: Clone + Send + Sync + 'static> Handler<(), S> for Erased<S> {
    type Future = BoxFuture<'static, Response>;

    fn call(self, request: Request, state: S) -> Self::Future {
        (self.0)(request, state)
    }
}

/// The handler without its type: a function, whose future axum boxes.
pub(crate) fn erased<T: 'static, S: 'static>(
    handler: impl Handler<T, S, Future = BoxFuture<'static, Response>>,
) -> Erased<S> {
    Erased(Arc::new(move |request, state| handler.clone().call(request, state)))
}

/// A route that answers `GET` and `HEAD`.
pub(crate) fn get<T: 'static, S: Clone + Send + Sync + 'static>(
    handler: impl Handler<T, S, Future = BoxFuture<'static, Response>>,
) -> MethodRouter<S> {
    routing::get(erased(handler))
}

/// A route that answers `POST`.
pub(crate) fn post<T: 'static, S: Clone + Send + Sync + 'static>(
    handler: impl Handler<T, S, Future = BoxFuture<'static, Response>>,
) -> MethodRouter<S> {
    routing::post(erased(handler))
}
