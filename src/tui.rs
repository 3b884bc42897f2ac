//! The dashboard (requirements, section 8).

pub mod approval;
pub mod call;
pub mod form;
pub mod result;
