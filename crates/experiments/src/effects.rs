//! What sizes, orders and thresholds make of it.

use std::time::Duration;

use anyhow::{Context, Result};
use forebay_units::ByteLen;

use crate::disks::{Setup, Shape, virtually};
use crate::office::{Seen, office};
use crate::paper_cache::{Idle, Order, PaperCache, Rules};
use crate::scale::Scale;
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
pub(crate) struct Sweep {
    pub(crate) name: &'static str,
    /// What was varied, in KiB, and what came of it.
    pub(crate) points: Vec<(u64, Point)>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    /// Of the three programs.
    pub(crate) seconds: [f64; 3],
    /// Bytes that went home in the end, for each that was written.
    pub(crate) destaged: f64,
}

/// Both shapes with logs of several sizes, in segments of the paper's size.
pub(crate) fn log_sizes(scale: Scale) -> Result<Vec<Sweep>> {
    sweeps(&LOGS_MIB.map(|mib| mib << 10), scale, |shape, kib| Setup {
        log: ByteLen::kib(kib),
        segment: ByteLen::kib(128),
        ..Setup::of(shape)
    })
}

/// Both shapes with segments of several sizes.
pub(crate) fn segment_sizes(scale: Scale) -> Result<Vec<Sweep>> {
    sweeps(&SEGMENTS_KIB, scale, |shape, kib| Setup {
        log: LOG_OF_SEGMENTS,
        segment: ByteLen::kib(kib),
        ..Setup::of(shape)
    })
}

fn sweeps(values: &[u64], scale: Scale, setup: impl Fn(Shape, u64) -> Setup) -> Result<Vec<Sweep>> {
    let sweep = |shape: Shape| {
        let points = values
            .iter()
            .map(|kib| Ok((*kib, point(setup(shape, *kib), scale)?)));
        Ok(Sweep {
            name: shape.name(),
            points: points.collect::<Result<_>>()?,
        })
    };
    [Shape::Logical, Shape::Physical]
        .into_iter()
        .map(sweep)
        .collect()
}

fn point(setup: Setup, scale: Scale) -> Result<Point> {
    virtually(move |rt| async move {
        let opened = setup.open(&rt).await?;
        let volume = opened.volume.clone().context("there is a cache")?;
        let phases = phases(&rt, opened, USERS, scale.every()).await?;
        volume.drain().await?;
        let status = volume.status();
        let logged = (status.write_bytes - status.bypass_bytes) as f64;
        Ok(Point {
            seconds: phases.map(|phase| phase.seconds),
            destaged: status.destaged_bytes as f64 / logged,
        })
    })
}

/// One way to destage, and what users saw.
#[derive(Clone, Debug)]
pub(crate) struct Way {
    pub(crate) name: String,
    pub(crate) seen: Seen,
}

/// The plain disk, the shipping cache, and the model of the paper's in all orders.
pub(crate) fn orders(scale: Scale) -> Result<Vec<Way>> {
    let ours = "this cache (oldest first, sorted windows)";
    let mut ways = vec![
        way("plain disk", Shape::Plain, scale)?,
        way(ours, Shape::Logical, scale)?,
    ];
    let orders = [
        (Order::Ring, "oldest first (ring order)"),
        (Order::LastWritten, "last written first"),
        (Order::LeastValid, "least valid first"),
    ];
    for (window, sorted, how) in [
        (1, false, "a segment at a time, as it comes"),
        (16, true, "16 segments at a time, sorted"),
    ] {
        for (order, name) in orders {
            let rules = Rules {
                order,
                window,
                sorted,
                ..Rules::OURS
            };
            ways.push(model(format!("{name}; {how}"), rules, scale)?);
        }
    }
    Ok(ways)
}

/// The model with several thresholds.
pub(crate) fn thresholds(scale: Scale) -> Result<Vec<Way>> {
    let mut ways = Vec::new();
    for ms in [0, 1, 10, 100, 1000, 10_000] {
        let rules = Rules {
            idle: Idle::Always(Duration::from_millis(ms)),
            ..Rules::OURS
        };
        ways.push(model(format!("{ms} ms"), rules, scale)?);
    }
    ways.push(model(
        "1 s when empty, 1 ms when full".into(),
        Rules::OURS,
        scale,
    )?);
    Ok(ways)
}

fn setup(shape: Shape) -> Setup {
    Setup {
        log: LOG_OF_ORDERS,
        segment: ByteLen::kib(128),
        ..Setup::of(shape)
    }
}

fn way(name: &str, shape: Shape, scale: Scale) -> Result<Way> {
    let seen = virtually(move |rt| async move {
        let opened = setup(shape).open(&rt).await?;
        office(&rt, opened, scale).await
    })?;
    Ok(Way {
        name: name.to_owned(),
        seen,
    })
}

fn model(name: String, rules: Rules, scale: Scale) -> Result<Way> {
    let seen = virtually(move |rt| async move {
        let opened = PaperCache::open(&rt, setup(Shape::Logical), rules)?;
        office(&rt, opened, scale).await
    })?;
    Ok(Way { name, seen })
}
