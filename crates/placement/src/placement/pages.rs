//! Pages of an extent, and pseudo-random numbers of pages.

use forebay_units::Sector;

/// Returns the numbers of the pages, of `page` sectors each, that an extent touches.
pub(super) fn pages(at: Sector, sectors: u32, page: u32) -> impl Iterator<Item = u64> {
    let page = u64::from(page);
    let last = at.0.saturating_add(u64::from(sectors.max(1)) - 1);
    at.0 / page..=last / page
}

/// Returns the class of the first page of an extent, and the number of leading sectors in pages of this class.
pub(super) fn alike<T: PartialEq>(
    at: Sector,
    sectors: u32,
    page: u32,
    class: impl Fn(u64) -> T,
) -> (T, u32) {
    let mut numbers = pages(at, sectors, page);
    let first = class(numbers.next().unwrap_or_default());
    let other = numbers.find(|&number| class(number) != first);
    let until = other.map(|number| number * u64::from(page) - at.0);
    let alike = until.map_or(sectors, |sectors| sectors as u32);
    (first, alike)
}

/// Returns a pseudo-random number that depends on the page alone (the finisher of SplitMix64: Steele, Lea and Flood,
/// OOPSLA 2014).
pub(super) fn spread(page: u64) -> u64 {
    let mut z = page.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extent_is_split_at_page_class_boundaries() {
        let touched = |at, sectors| pages(Sector(at), sectors, 16).collect::<Vec<_>>();
        assert_eq!(touched(15, 1), [0]);
        assert_eq!(touched(15, 2), [0, 1]);
        assert_eq!(touched(16, 32), [1, 2]);
        assert_eq!(touched(u64::MAX, 9), [u64::MAX / 16]);
        let odd = |page| page == 3;
        assert_eq!(alike(Sector(20), 100, 16, odd), (false, 28));
        assert_eq!(alike(Sector(48), 100, 16, odd), (true, 16));
        assert_eq!(alike(Sector(64), 100, 16, odd), (false, 100));
        assert_eq!(alike(Sector(47), 1, 16, odd), (false, 1));
    }
}
