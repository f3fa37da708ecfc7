//! The slides' figures of their model.

use anyhow::Result;
use forebay_placement::cost::DiskParameters;
use forebay_report::ReportPage;
use forebay_report::plot::{self, CurveSet, FigureFrame};

use super::bars::{self, UtilisationBase};
use crate::analysis::{CrossoverDisk, costs, potential, segment_sizes};
use crate::experiment::ExperimentResults;
use crate::workload::PAGE_BYTES;

pub(super) fn write(page: &mut ReportPage, results: &[ExperimentResults]) -> Result<()> {
    let compared = CrossoverDisk::all()?;
    efficiency(page, &compared)?;
    overwrite_and_lfs(page, &compared)?;
    crossovers(page, &compared, results);
    hot_share(page)
}

fn efficiency(page: &mut ReportPage, compared: &[CrossoverDisk]) -> Result<()> {
    page.heading("Segment I/O efficiency (slide 12)");
    page.paragraph(
        "How much faster a segment is written in one piece than in pages of 8 KiB. *Slides' disk*: from the positioning \
         time and bandwidth that they give (1999: they give none). *Model*: from what our model of the disk takes \
         to seek and to turn half round, and to transfer. *Writing*: from all that a write takes there, with \
         settling and the controller. The slides have 33 for 1 MB on the disk of 2003.",
    );
    let mut curves: Vec<(String, Vec<f64>)> = Vec::new();
    for one in compared {
        let sizes = |disk: DiskParameters| {
            segment_sizes().map(move |size| disk.efficiency(PAGE_BYTES, size))
        };
        let name = one.model.name();
        if let Some(slide) = one.slide {
            curves.push((format!("{name}, slides' disk"), sizes(slide).collect()));
        }
        curves.push((format!("{name}, model"), sizes(one.ours).collect()));
        let writing = one.model.writing()?;
        curves.push((format!("{name}, writing"), sizes(writing).collect()));
    }
    let places: Vec<String> = segment_sizes()
        .map(|size| (size >> 10).to_string())
        .collect();
    let mut header = vec!["KiB".to_owned()];
    header.extend(curves.iter().map(|(name, _)| name.clone()));
    let row = |(n, place): (usize, &String)| {
        let values = curves.iter().map(|(_, values)| format!("{:.1}", values[n]));
        std::iter::once(place.clone()).chain(values).collect()
    };
    page.table(&header, places.iter().enumerate().map(row));
    let frame = FigureFrame {
        title: "Segment I/O efficiency",
        x: "segment, KiB",
        y: "times as fast as pages",
    };
    let drawn: Vec<(String, Vec<f64>)> = (curves.iter())
        .filter(|(name, _)| !name.ends_with("writing"))
        .cloned()
        .collect();
    lines(page, "efficiency.svg", &frame, &places, &drawn)
}

fn lines(
    page: &mut ReportPage,
    name: &str,
    frame: &FigureFrame<'_>,
    places: &[String],
    curves: &[(String, Vec<f64>)],
) -> Result<()> {
    let drawn = CurveSet {
        places,
        logarithmic: false,
        curves,
    };
    plot::lines(&page.figure(name), frame, &drawn)?;
    page.show(frame.title, name);
    Ok(())
}

fn overwrite_and_lfs(page: &mut ReportPage, compared: &[CrossoverDisk]) -> Result<()> {
    page.heading("Overwrite against LFS (slide 13)");
    page.paragraph(
        "Costs on the disk of 1999 in segment I/Os for each segment's worth of pages that users write: overwriting, a log \
         that is cleaned, and one that plugs holes, by the utilisation of what is cleaned. They meet at one point: in the \
         slides at 0.88.",
    );
    let disk = compared[1].disk();
    let efficiency = disk.efficiency(PAGE_BYTES, compared[1].segment);
    let utilisations: Vec<f64> = (0..20).map(|n| f64::from(n) / 20.0).collect();
    let found = costs(efficiency, &utilisations);
    let names = ["overwrite", "cleaning", "hole-plugging"];
    // Larger costs would make the figure unreadable.
    let most = 2.0 * efficiency;
    let shown = |cost: &f64| if *cost > most { f64::NAN } else { *cost };
    let curves: Vec<(String, Vec<f64>)> = (names.iter().zip(&found))
        .map(|(name, costs)| ((*name).to_owned(), costs.iter().map(shown).collect()))
        .collect();
    let places: Vec<String> = utilisations.iter().map(|u| format!("{u:.2}")).collect();
    let frame = FigureFrame {
        title: "Overwrite against LFS, disk of 1999",
        x: "utilisation of what is cleaned",
        y: "segment I/Os",
    };
    lines(page, "overwrite-lfs.svg", &frame, &places, &curves)
}

fn crossovers(page: &mut ReportPage, compared: &[CrossoverDisk], results: &[ExperimentResults]) {
    page.heading("Where LFS costs as much as overwriting (slide 14)");
    page.paragraph(
        "By the model from the slides' figures of the disks, and from our models of the disks; with the difference \
         from the slides. The disk of 1991 has segments of 128 KiB: with those of 1 MiB it would be 0.62 and 0.80. \
         *Simulated*: the disk's utilisation at which the engine's `lfs` is as fast as the disk itself for even \
         updates, with the same segments. *Of segments*: how full the segments in use are then, without what is kept \
         free, headers and summaries, which the slides' logs have not; in segments of 128 KiB those take a tenth.",
    );
    let mut rows = Vec::new();
    for one in compared {
        let simulated = bars::simulated(results, one.model, UtilisationBase::Medium);
        let dense = bars::simulated(results, one.model, UtilisationBase::Segments);
        let [slides, ours] = [one.disk(), one.ours].map(|disk| one.crossover(&disk));
        for (n, what) in ["cleaned segments", "disk"].into_iter().enumerate() {
            let slide = one.slide_crossover[n];
            let text = |found: f64| format!("{found:.3} ({:.3})", (found - slide).abs());
            let [simulated, dense] = [&simulated, &dense].map(|found| match n {
                0 => "–".to_owned(),
                _ => found.clone().map_or_else(|why| why, text),
            });
            rows.push(vec![
                format!("{}, {what}", one.model.name()),
                format!("{slide:.2}"),
                text(slides[n]),
                text(ours[n]),
                simulated,
                dense,
            ]);
        }
    }
    let header = [
        "disk, utilisation of",
        "slides",
        "model, slides' disk",
        "model, our disk",
        "simulated",
        "simulated, of segments",
    ];
    page.table(&header, rows);
}

fn hot_share(page: &mut ReportPage) -> Result<()> {
    page.heading("HyLog's potential (slide 17)");
    page.paragraph(
        "Costs by the share of the pages that is logged, as parts of overwriting's, on the disk of 2003 where 80 % of the \
         writes go to 20 % of the pages. At 0 all is overwritten, at 1 all is logged.",
    );
    let shares: Vec<f64> = (0..=20).map(|n| f64::from(n) / 20.0).collect();
    let efficiency = DiskParameters::OF_2003.efficiency(PAGE_BYTES, 1 << 20);
    let all = [0.8, 0.9, 0.95, 0.98].map(|d| potential(efficiency, d, &shares));
    let rows = all.iter().map(|one| {
        vec![
            format!("{:.2}", one.utilisation),
            "1.00".to_owned(),
            format!("{:.2}", one.lfs),
            format!("{:.2}", one.best.cost / efficiency),
            format!("{:.0} %", 100.0 * one.best.share),
        ]
    });
    let header = [
        "disk utilisation",
        "overwrite",
        "LFS",
        "HyLog",
        "best hot share",
    ];
    page.table(&header, rows);
    let shown = |cost: &f64| if *cost > 2.0 { f64::NAN } else { *cost };
    let curves: Vec<(String, Vec<f64>)> = (all.iter())
        .map(|one| {
            let costs = one.hylog.iter().map(shown).collect();
            (format!("HyLog, {:.2} in use", one.utilisation), costs)
        })
        .collect();
    let places: Vec<String> = shares.iter().map(|share| format!("{share:.2}")).collect();
    let frame = FigureFrame {
        title: "HyLog's potential",
        x: "hot share",
        y: "cost, overwriting = 1",
    };
    lines(page, "potential.svg", &frame, &places, &curves)
}
