//! What sizes, orders and thresholds make of it.

use std::time::Duration;

use anyhow::{Context, Result};
use forebay_units::ByteLen;

use crate::disks::{CacheSetup, CacheShape, virtually};
use crate::office::{OfficeOutcome, office};
use crate::paper_cache::{IdleRule, PaperCache, PaperCacheRules, PaperDestageOrder};
use crate::scale::PaperScale;
use crate::users::phases;

/// Users in the experiments on sizes.
pub(crate) const USERS: u64 = 4;
/// Logs and segments that are tried.
pub(crate) const LOGS_MIB: [u64; 7] = [4, 8, 16, 32, 64, 128, 256];
pub(crate) const SEGMENTS_KIB: [u64; 6] = [128, 256, 512, 1024, 2048, 4096];
/// The log with which segments are tried: so long that it has as many of the longest as a log must have.
const LOG_OF_SEGMENTS: ByteLen = ByteLen::mib(128);
/// The log with which orders and thresholds are tried: what users write goes round in it many times.
const LOG_OF_ORDERS: ByteLen = ByteLen::mib(16);

/// What the three programs took, by what was varied.
#[derive(Clone, Debug)]
pub(crate) struct ParameterSweep {
    pub(crate) name: &'static str,
    /// What was varied, in KiB, and what came of it.
    pub(crate) points: Vec<(u64, SweepPoint)>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct SweepPoint {
    /// Of the three programs.
    pub(crate) seconds: [f64; 3],
    /// Bytes that went home in the end, for each that was written.
    pub(crate) destaged: f64,
}

/// Both shapes with logs of several sizes, in segments of the paper's size.
pub(crate) fn log_sizes(scale: PaperScale) -> Result<Vec<ParameterSweep>> {
    sweeps(&LOGS_MIB.map(|mib| mib << 10), scale, |shape, kib| {
        CacheSetup {
            log: ByteLen::kib(kib),
            segment: ByteLen::kib(128),
            ..CacheSetup::of(shape)
        }
    })
}

/// Both shapes with segments of several sizes.
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

/// One way to destage, and what users saw.
#[derive(Clone, Debug)]
pub(crate) struct DestageVariant {
    pub(crate) name: String,
    pub(crate) seen: OfficeOutcome,
}

/// The plain disk, the shipping cache, and the model of the paper's in all orders.
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

/// The model with several thresholds.
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
