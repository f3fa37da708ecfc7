//! Classes of the requests to a filesystem, for the program that serves it and for its counters.

/// Class of a request to a filesystem.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RequestClass {
    /// A read of a file.
    Read,
    /// A write to a file.
    Write,
    /// A request to make changes durable.
    Sync,
    /// Creation, change or removal of a name or of attributes.
    Change,
    /// Any other request.
    Look,
}

impl RequestClass {
    /// Number of classes.
    pub const COUNT: usize = 5;
}
