//! Textual reports of layers.

/// Lines of a report: a key and its text.
pub type ReportLines = Vec<(&'static str, String)>;

/// Facts that a layer's report needs and the layer does not have.
#[derive(Clone, Copy, Debug)]
pub struct RenderContext<'a> {
    /// The log device, as given.
    pub log: &'a str,
    /// Memory in use for request buffers, and its limit, in bytes.
    pub requests: (u64, u64),
}
