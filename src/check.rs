//! The headless check (requirements, section 9).
