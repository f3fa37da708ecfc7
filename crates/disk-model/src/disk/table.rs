//! The text format of a drive's parameters.
//!
//! Each line has a keyword and its values. `#` begins a comment. `zone` begins a zone, to which the following `slip`
//! lines belong. The `seek` lines form the seek curve. Every keyword except `slip` is required. Unknown and duplicate
//! keywords are errors.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use super::geometry::DiskGeometry;
use super::spec::{
    CacheSpec, ControllerSpec, DiskLayout, DiskSpec, FastWrite, MechanicsSpec, OverheadSpec,
    ReadAhead, SpareRegion, TrackOrder, ZoneSpec,
};

/// Reason why a table is invalid.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SpecTableError {
    /// The line, counted from 1; 0 if the error concerns the whole table.
    pub line: usize,
    /// Description of the error.
    pub what: String,
}

impl fmt::Display for SpecTableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "disk table: {}", self.what),
            line => write!(f, "disk table, line {line}: {}", self.what),
        }
    }
}

impl std::error::Error for SpecTableError {}

/// A line: its number, and its values after the keyword.
struct SpecLine<'a> {
    number: usize,
    rest: &'a str,
}

impl<'a> SpecLine<'a> {
    fn error(&self, what: impl Into<String>) -> SpecTableError {
        SpecTableError {
            line: self.number,
            what: what.into(),
        }
    }

    fn words<const N: usize>(&self) -> Result<[&'a str; N], SpecTableError> {
        let words: Vec<&str> = self.rest.split_whitespace().collect();
        words
            .try_into()
            .map_err(|_| self.error(format!("{N} values expected")))
    }

    fn number_of<T: FromStr>(&self, word: &str) -> Result<T, SpecTableError> {
        word.parse()
            .map_err(|_| self.error(format!("{word} is not a number that fits here")))
    }

    fn time(&self, word: &str) -> Result<f64, SpecTableError> {
        let ms: f64 = self.number_of(word)?;
        if !ms.is_finite() || ms.abs() > 1e6 {
            return Err(self.error(format!("{word} is not a time")));
        }
        Ok(ms)
    }

    fn span(&self, word: &str) -> Result<f64, SpecTableError> {
        let ms = self.time(word)?;
        if ms < 0.0 {
            return Err(self.error(format!("{word} is negative")));
        }
        Ok(ms)
    }
}

/// Lines whose keyword may occur only once, by keyword.
struct SingleLines<'a>(BTreeMap<&'a str, SpecLine<'a>>);

impl<'a> SingleLines<'a> {
    fn line(&mut self, key: &str) -> Result<SpecLine<'a>, SpecTableError> {
        self.0.remove(key).ok_or_else(|| SpecTableError {
            line: 0,
            what: format!("{key} is missing"),
        })
    }

    fn number<T: FromStr>(&mut self, key: &str) -> Result<T, SpecTableError> {
        let line = self.line(key)?;
        let [word] = line.words()?;
        line.number_of(word)
    }

    fn span(&mut self, key: &str) -> Result<f64, SpecTableError> {
        let line = self.line(key)?;
        let [word] = line.words()?;
        line.span(word)
    }

    fn flag(&mut self, key: &str) -> Result<bool, SpecTableError> {
        self.choice(key, &[("yes", true), ("no", false)])
    }

    fn choice<T: Copy>(&mut self, key: &str, choices: &[(&str, T)]) -> Result<T, SpecTableError> {
        let line = self.line(key)?;
        let [word] = line.words()?;
        choices
            .iter()
            .find(|(name, _)| *name == word)
            .map(|(_, value)| *value)
            .ok_or_else(|| line.error(format!("{word} is not one of the choices of {key}")))
    }

    fn overhead(&mut self, key: &str) -> Result<OverheadSpec, SpecTableError> {
        let line = self.line(key)?;
        let [read, write] = line.words()?;
        Ok(OverheadSpec {
            after_read_ms: line.span(read)?,
            after_write_ms: line.span(write)?,
        })
    }
}

impl DiskSpec {
    /// Reads a table, and checks that its drive is possible: zones in order, space for every block, a seek curve.
    ///
    /// # Errors
    /// The first error, with its line.
    pub fn parse(text: &str) -> Result<DiskSpec, SpecTableError> {
        let mut single = SingleLines(BTreeMap::new());
        let mut zones: Vec<ZoneSpec> = Vec::new();
        let mut seek = Vec::new();
        for (index, raw) in text.lines().enumerate() {
            let content = raw.split('#').next().unwrap_or("").trim();
            if content.is_empty() {
                continue;
            }
            let (key, rest) = content.split_once(' ').unwrap_or((content, ""));
            let line = SpecLine {
                number: index + 1,
                rest: rest.trim(),
            };
            match key {
                "zone" => zones.push(zone(&line)?),
                "slip" => slips(&line, zones.last_mut())?,
                "seek" => seek_points(&line, &mut seek)?,
                _ => {
                    if single.0.contains_key(key) {
                        return Err(line.error(format!("{key} is given twice")));
                    }
                    single.0.insert(key, line);
                }
            }
        }
        let spec = assemble(&mut single, zones, seek)?;
        if let Some((key, line)) = single.0.into_iter().next() {
            return Err(line.error(format!("{key} is not a keyword")));
        }
        DiskGeometry::new(&spec.layout).map_err(|what| SpecTableError { line: 0, what })?;
        Ok(spec)
    }
}

fn zone(line: &SpecLine<'_>) -> Result<ZoneSpec, SpecTableError> {
    let [
        first,
        last,
        k1,
        sectors,
        k2,
        offset,
        k3,
        reserved,
        k4,
        track,
        cylinder,
        k5,
        spares,
    ] = line.words()?;
    if [k1, k2, k3, k4, k5] != ["sectors", "offset", "reserved", "skew", "spares"] {
        return Err(line.error(
            "a zone is: FIRST LAST sectors N offset N reserved N skew TRACK CYLINDER spares N",
        ));
    }
    let place = |word: &str| {
        let blocks = line.span(word)?;
        Ok::<f64, SpecTableError>(blocks)
    };
    Ok(ZoneSpec {
        first_cylinder: line.number_of(first)?,
        last_cylinder: line.number_of(last)?,
        sectors: line.number_of(sectors)?,
        offset: place(offset)?,
        reserved: line.number_of(reserved)?,
        track_skew: place(track)?,
        cylinder_skew: place(cylinder)?,
        spares: line.number_of(spares)?,
        slips: Vec::new(),
    })
}

fn slips(line: &SpecLine<'_>, zone: Option<&mut ZoneSpec>) -> Result<(), SpecTableError> {
    let zone = zone.ok_or_else(|| line.error("slip before the first zone"))?;
    for word in line.rest.split_whitespace() {
        let slip: u64 = line.number_of(word)?;
        if zone.slips.last().is_some_and(|&last| last >= slip) {
            return Err(line.error(format!("slip {slip} is not after the one before it")));
        }
        zone.slips.push(slip);
    }
    Ok(())
}

fn seek_points(line: &SpecLine<'_>, seek: &mut Vec<(u32, f64)>) -> Result<(), SpecTableError> {
    for word in line.rest.split_whitespace() {
        let (distance, ms) = word
            .split_once(':')
            .ok_or_else(|| line.error("a seek point is CYLINDERS:MILLISECONDS"))?;
        let distance: u32 = line.number_of(distance)?;
        let after = seek.last().map_or(0, |&(d, _)| d);
        if distance <= after || (seek.is_empty() && distance != 1) {
            return Err(line.error("the distances of a seek curve rise from 1"));
        }
        let ms = line.span(ms)?;
        if ms > 4000.0 {
            return Err(line.error(format!("a seek of {ms} ms is not plausible for a disk")));
        }
        seek.push((distance, ms));
    }
    Ok(())
}

fn assemble(
    single: &mut SingleLines<'_>,
    zones: Vec<ZoneSpec>,
    seek: Vec<(u32, f64)>,
) -> Result<DiskSpec, SpecTableError> {
    if seek.len() < 2 {
        return Err(SpecTableError {
            line: 0,
            what: "a seek curve has at least two points".into(),
        });
    }
    let spares = single.line("spares")?;
    let mut words = spares.rest.split_whitespace();
    let spares = match (words.next(), words.next(), words.next()) {
        (Some("track"), None, _) => SpareRegion::Track,
        (Some("zone"), None, _) => SpareRegion::Zone,
        (Some("disk"), None, _) => SpareRegion::Disk,
        (Some("cylinders"), Some(n), None) => SpareRegion::Cylinders(spares.number_of(n)?),
        _ => return Err(spares.error("spares: track, cylinders N, zone or disk")),
    };
    let rpm: f64 = single.span("rpm")?;
    if !(60.0..=100_000.0).contains(&rpm) {
        return Err(SpecTableError {
            line: 0,
            what: format!("{rpm} rpm is not the speed of a disk"),
        });
    }
    let settle = single.line("write_settle_ms")?;
    let [settle_word] = settle.words()?;
    Ok(DiskSpec {
        name: single.line("name")?.rest.into(),
        about: single.line("about")?.rest.into(),
        layout: DiskLayout {
            surfaces: single.number("surfaces")?,
            cylinders: single.number("cylinders")?,
            blocks: single.number("blocks")?,
            order: single.choice(
                "order",
                &[
                    ("cylinders", TrackOrder::Cylinders),
                    ("serpentine", TrackOrder::Serpentine),
                    ("serpentine-over-zones", TrackOrder::SerpentineOverZones),
                ],
            )?,
            spares,
            zones,
        },
        mechanics: MechanicsSpec {
            rpm,
            head_switch_ms: single.span("head_switch_ms")?,
            write_settle_ms: settle.time(settle_word)?,
            seek,
            any_order_read: single.flag("any_order_read")?,
            any_order_write: single.flag("any_order_write")?,
        },
        controller: ControllerSpec {
            bus_ms: single.span("bus_ms")?,
            first_block_ms: single.span("first_block_ms")?,
            read_hit: single.overhead("read_hit_overhead_ms")?,
            read_miss: single.overhead("read_miss_overhead_ms")?,
            write_hit: single.overhead("write_hit_overhead_ms")?,
            write_miss: single.overhead("write_miss_overhead_ms")?,
            write_completion_ms: single.span("write_completion_ms")?,
        },
        cache: cache(single)?,
    })
}

fn read_ahead(single: &mut SingleLines<'_>) -> Result<ReadAhead, SpecTableError> {
    let line = single.line("read_ahead")?;
    let words: Vec<&str> = line.rest.split_whitespace().collect();
    match words[..] {
        ["no"] => Ok(ReadAhead::No),
        ["track-then-on"] => Ok(ReadAhead::TrackThenOn),
        ["tracks-in-sequence"] => Ok(ReadAhead::TracksInSequence),
        ["blocks", n] => Ok(ReadAhead::Blocks(line.number_of(n)?)),
        _ => Err(line.error("read_ahead: no, blocks N, track-then-on or tracks-in-sequence")),
    }
}

fn cache(single: &mut SingleLines<'_>) -> Result<CacheSpec, SpecTableError> {
    let cache = CacheSpec {
        segments: single.number("segments")?,
        segment_blocks: single.number("segment_blocks")?,
        write_segments: single.number("write_segments")?,
        own_write_segment: single.flag("own_write_segment")?,
        reads_hit_writes: single.flag("reads_hit_writes")?,
        read_ahead: read_ahead(single)?,
        read_ahead_on_hit: single.flag("read_ahead_on_hit")?,
        read_ahead_discards: single.flag("read_ahead_discards")?,
        keeps_passing: single.flag("keeps_passing")?,
        fast_write: single.choice(
            "fast_write",
            &[
                ("no", FastWrite::No),
                ("sequential", FastWrite::Sequential),
                ("yes", FastWrite::Yes),
            ],
        )?,
    };
    if !(1..=65_536).contains(&cache.segments) || cache.segment_blocks == 0 {
        return Err(SpecTableError {
            line: 0,
            what: "a cache has 1 to 65536 segments of at least one block".into(),
        });
    }
    Ok(cache)
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
