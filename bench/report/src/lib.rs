//! Reports of experiments: a page of Markdown with figures, and the circumstances of the measurement.

mod circumstances;
mod page;
pub mod plot;

pub use circumstances::{Circumstances, commit};
pub use page::ReportPage;
