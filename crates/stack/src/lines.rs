//! How layers put themselves in words.

/// Lines of a key and what there is to say of it.
pub type Lines = Vec<(&'static str, String)>;

/// What a layer does not know of itself, and has in its words.
#[derive(Clone, Copy, Debug)]
pub struct Around<'a> {
    /// The log device, as it was named.
    pub log: &'a str,
    /// Memory of request buffers, and its bound, in bytes.
    pub requests: (u64, u64),
}
