//! Block devices that outlived the daemon of their volume and wait for the next daemon.

use std::path::PathBuf;

use forebay_nbd::waiting_nbd_device;
use forebay_ublk::waiting_ublk_device;

/// Returns a 64-bit number for a volume: the first half of its id, which is random. Never 0, which would match any
/// device of another program.
pub(crate) fn number_of(id: &str) -> u64 {
    let digits = id.chars().filter(char::is_ascii_hexdigit);
    let digits: String = digits.take(16).collect();
    u64::from_str_radix(&digits, 16).map_or(1, |number| number.max(1))
}

/// Returns the waiting block device of the volume with this id. `None` if no device waits, or this user has no access.
pub(crate) fn device(id: &str) -> Option<PathBuf> {
    waiting_ublk_device(number_of(id)).or_else(|| waiting_nbd_device(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volumes_are_distinguished_by_the_first_half_of_their_ids() {
        let number = number_of("00112233-4455-6677-8899-aabbccddeeff");
        assert_eq!(number, 0x0011_2233_4455_6677);
        assert_ne!(number, number_of("00112233-4455-6678-8899-aabbccddeeff"));
        assert_ne!(number_of(""), 0);
    }
}
