//! Handshakes of both eras, and what can go wrong with them.
