//! Parses dates in natural notation for `-newerXt`, as GNU's programs do, with a library.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use parse_datetime::parse_datetime_at_date;

use super::entry::UnixTime;

/// Parses the moment that `text` names.
pub(super) fn parse(text: &str, now: UnixTime) -> Option<UnixTime> {
    let now = Timestamp::new(now.seconds, i32::try_from(now.nanos).ok()?).ok()?;
    let now = now.to_zoned(TimeZone::system());
    // An empty text means the beginning of today.
    let text = if text.trim().is_empty() { "0:00" } else { text };
    let date = parse_datetime_at_date(now, text).ok()?;
    Some(UnixTime {
        seconds: date.unix_epoch_second(),
        nanos: i64::from(date.subsec_nanosecond()),
    })
}
