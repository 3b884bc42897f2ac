//! The embedded servers of `--demo` (requirement T7).
