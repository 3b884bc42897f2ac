//! Requests: deadline, cancellation, progress, lists.
