//! The child process of a stdio server: spawn, watch, stop, sweep.
