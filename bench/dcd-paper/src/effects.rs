//! Effects of log sizes, segment sizes, destage orders and thresholds.

use std::time::Duration;

use anyhow::{Context, Result};
use forebay_units::ByteLen;

use crate::disks::{CacheSetup, CacheShape, virtually};
use crate::office::{OfficeOutcome, office};
use crate::paper_cache::{IdleRule, PaperCache, PaperCacheRules, PaperDestageOrder};
use crate::scale::PaperScale;
use crate::users::phases;

/// Number of users in the experiments on sizes.
pub(crate) const USERS: u64 = 4;
/// Sizes of logs and of segments to try.
pub(crate) const LOGS_MIB: [u64; 7] = [4, 8, 16, 32, 64, 128, 256];
pub(crate) const SEGMENTS_KIB: [u64; 6] = [128, 256, 512, 1024, 2048, 4096];
/// Log length for the experiments on segments: holds the minimum number of segments even of the longest size.
const LOG_OF_SEGMENTS: ByteLen = ByteLen::mib(128);
/// Log length for the experiments on orders and thresholds: the written data wraps around this log many times.
const LOG_OF_ORDERS: ByteLen = ByteLen::mib(16);

/// Results of the three programs, by the varied parameter.
#[derive(Clone, Debug)]
pub(crate) struct ParameterSweep {
    pub(crate) name: &'static str,
    /// Value of the parameter in KiB, and the result.
    pub(crate) points: Vec<(u64, SweepPoint)>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct SweepPoint {
    /// Times of the three programs.
    pub(crate) seconds: [f64; 3],
    /// Destaged bytes per written byte.
    pub(crate) destaged: f64,
}

/// Measures both shapes with logs of several sizes, in segments of the paper's size.
pub(crate) fn log_sizes(scale: PaperScale) -> Result<Vec<ParameterSweep>> {
    sweeps(&LOGS_MIB.map(|mib| mib << 10), scale, |shape, kib| {
        CacheSetup {
            log: ByteLen::kib(kib),
            segment: ByteLen::kib(128),
            ..CacheSetup::of(shape)
        }
    })
}

/// Measures both shapes with segments of several sizes.
pub(crate) fn segment_sizes(scale: PaperScale) -> Result<Vec<ParameterSweep>> {
    sweeps(&SEGMENTS_KIB, scale, |shape, kib| CacheSetup {
        log: LOG_OF_SEGMENTS,
        segment: ByteLen::kib(kib),
        ..CacheSetup::of(shape)
    })
}

fn sweeps(
    values: &[u64],
    scale: PaperScale,
    setup: impl Fn(CacheShape, u64) -> CacheSetup,
) -> Result<Vec<ParameterSweep>> {
    let sweep = |shape: CacheShape| {
        let points = values
            .iter()
            .map(|kib| Ok((*kib, point(setup(shape, *kib), scale)?)));
        Ok(ParameterSweep {
            name: shape.name(),
            points: points.collect::<Result<_>>()?,
        })
    };
    [CacheShape::Logical, CacheShape::Physical]
        .into_iter()
        .map(sweep)
        .collect()
}

fn point(setup: CacheSetup, scale: PaperScale) -> Result<SweepPoint> {
    virtually(move |rt| async move {
        let opened = setup.open(&rt).await?;
        let volume = opened.volume.clone().context("there is a cache")?;
        let phases = phases(&rt, opened, USERS, scale.every()).await?;
        volume.drain().await?;
        let status = volume.status();
        let logged = (status.write_bytes - status.bypass_bytes) as f64;
        Ok(SweepPoint {
            seconds: phases.map(|phase| phase.seconds),
            destaged: status.destaged_bytes as f64 / logged,
        })
    })
}

/// One way to destage, and the results that users saw.
#[derive(Clone, Debug)]
pub(crate) struct DestageVariant {
    pub(crate) name: String,
    pub(crate) seen: OfficeOutcome,
}

/// Measures the plain disk, the shipping cache, and the model of the paper's cache in all orders.
pub(crate) fn orders(scale: PaperScale) -> Result<Vec<DestageVariant>> {
    let ours = "this cache (oldest first, sorted windows)";
    let mut ways = vec![
        way("plain disk", CacheShape::Plain, scale)?,
        way(ours, CacheShape::Logical, scale)?,
    ];
    let orders = [
        (PaperDestageOrder::Ring, "oldest first (ring order)"),
        (PaperDestageOrder::LastWritten, "last written first"),
        (PaperDestageOrder::LeastValid, "least valid first"),
    ];
    for (window, sorted, how) in [
        (1, false, "a segment at a time, as it comes"),
        (16, true, "16 segments at a time, sorted"),
    ] {
        for (order, name) in orders {
            let rules = PaperCacheRules {
                order,
                window,
                sorted,
                ..PaperCacheRules::OURS
            };
            ways.push(model(format!("{name}; {how}"), rules, scale)?);
        }
    }
    Ok(ways)
}

/// Measures the model with several thresholds.
pub(crate) fn thresholds(scale: PaperScale) -> Result<Vec<DestageVariant>> {
    let mut ways = Vec::new();
    for ms in [0, 1, 10, 100, 1000, 10_000] {
        let rules = PaperCacheRules {
            idle: IdleRule::Always(Duration::from_millis(ms)),
            ..PaperCacheRules::OURS
        };
        ways.push(model(format!("{ms} ms"), rules, scale)?);
    }
    ways.push(model(
        "1 s when empty, 1 ms when full".into(),
        PaperCacheRules::OURS,
        scale,
    )?);
    Ok(ways)
}

fn setup(shape: CacheShape) -> CacheSetup {
    CacheSetup {
        log: LOG_OF_ORDERS,
        segment: ByteLen::kib(128),
        ..CacheSetup::of(shape)
    }
}

fn way(name: &str, shape: CacheShape, scale: PaperScale) -> Result<DestageVariant> {
    let seen = virtually(move |rt| async move {
        let opened = setup(shape).open(&rt).await?;
        office(&rt, opened, scale).await
    })?;
    Ok(DestageVariant {
        name: name.to_owned(),
        seen,
    })
}

fn model(name: String, rules: PaperCacheRules, scale: PaperScale) -> Result<DestageVariant> {
    let seen = virtually(move |rt| async move {
        let opened = PaperCache::open(&rt, setup(CacheShape::Logical), rules)?;
        office(&rt, opened, scale).await
    })?;
    Ok(DestageVariant { name, seen })
}
