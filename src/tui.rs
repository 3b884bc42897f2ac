//! The dashboard (requirements, section 8).
