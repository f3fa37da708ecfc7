//! Tests that need no file.

use super::hist::HistRange;
use super::image::{FitsImage, PixelFormat, RawPixel};

#[test]
fn histogram_ranges_are_parsed_in_all_forms() {
    let range = |from, to| Some(HistRange { from, to });
    for text in ["-", "", "INDEF", "indef", ":", ",", "INDEF:INDEF"] {
        assert_eq!(HistRange::parse(text), range(None, None), "{text}");
    }
    assert_eq!(HistRange::parse("0:100"), range(Some(0.0), Some(100.0)));
    assert_eq!(HistRange::parse(" 0 , 1e2"), range(Some(0.0), Some(100.0)));
    assert_eq!(HistRange::parse("5-7"), range(Some(5.0), Some(7.0)));
    assert_eq!(HistRange::parse("-7--5"), range(Some(-7.0), Some(-5.0)));
    assert_eq!(HistRange::parse("1e-3-2e-3"), range(Some(1e-3), Some(2e-3)));
    assert_eq!(HistRange::parse(":3"), range(None, Some(3.0)));
    assert_eq!(HistRange::parse("-3:"), range(Some(-3.0), None));
    for text in ["x", "1:x", "7:5", "nan:1", "0:inf", "12"] {
        assert_eq!(HistRange::parse(text), None, "{text}");
    }
}

#[test]
fn unsigned_64_bit_numbers_keep_their_precision_until_rounding() {
    let image = FitsImage {
        stored: PixelFormat::I64,
        axes: vec![1],
        scale: 1.0,
        zero: 9_223_372_036_854_775_808.0,
        blank: Some(7),
    };
    assert_eq!(image.worth(RawPixel::Int(i64::MIN)), Some(0.0));
    assert_eq!(image.worth(RawPixel::Int(i64::MIN + 3)), Some(3.0));
    assert_eq!(image.worth(RawPixel::Int(7)), None);
}
