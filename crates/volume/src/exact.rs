//! Lengths as text without loss.

/// Formats a length in the largest unit that divides it, so that it parses back to the same value. A given length
/// always has the same text, because the text becomes part of a device's names.
pub(crate) fn exact(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let unit = units
        .into_iter()
        .find(|(shift, _)| bytes != 0 && bytes.is_multiple_of(1 << shift));
    match unit {
        Some((shift, unit)) => format!("{}{unit}", bytes >> shift),
        None => bytes.to_string(),
    }
}
