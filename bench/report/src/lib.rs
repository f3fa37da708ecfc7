//! Reports of experiments: a page of Markdown with figures beside it, and what it has to say of where it was
//! made.

mod circumstances;
mod page;
pub mod plot;

pub use circumstances::{Circumstances, commit};
pub use page::ReportPage;
