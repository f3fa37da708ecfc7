//! Which experiments there are.

use forebay_placement::placement::Kind;

use crate::experiment::{Experiment, Place, What};
use crate::medium::{Array, Medium, Model, PIECE_BYTES};
use crate::run::Effort;
use crate::system::Under;
use crate::workload::{PAGE_BYTES, Recorded, Skew, Traced};

/// How much is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scale {
    /// All of it.
    Full,
    /// A part, in a few minutes.
    Quick,
}

/// The utilisation at which the slides' comparisons are made.
const SLIDES_UTILISATION: f64 = 0.98;
/// One at which a log has some room.
const ROOMY: f64 = 0.8;
/// Where the slides have 98 %: as much as fits on so small media beside what the engine keeps free.
const FULL: f64 = 0.9;
/// A little more, which fits on larger ones.
const TIGHT: f64 = 0.92;
/// Users and disks of the slides' comparisons.
const USERS: usize = 20;
const DISKS: u32 = 4;

/// What the slides compare, and what is beyond them.
const SYSTEMS: [Under; 6] = [
    Under::Plain,
    Under::Volume(Kind::Lfs),
    Under::Volume(Kind::Wolf),
    Under::Volume(Kind::HyLog),
    Under::Volume(Kind::SepBit),
    Under::Volume(Kind::HyLogSepBit),
];

impl Scale {
    /// Segments of a medium.
    fn segments(self) -> u64 {
        match self {
            Scale::Full => 768,
            Scale::Quick => 192,
        }
    }

    /// Pages that a recorded workload may touch.
    pub fn trace_pages(self) -> usize {
        let bytes = ROOMY * (self.segments() * PIECE_BYTES) as f64;
        (bytes / PAGE_BYTES as f64) as usize
    }

    /// How much is done in a run.
    pub fn effort(self) -> Effort {
        match self {
            Scale::Full => Effort {
                turned_over: 1.0,
                // HyLog needs once to count, and then it has to sort.
                rewritten: 1.5,
                measured: 0.5,
                requests: 10_000,
                requests_max: 1_000_000,
            },
            Scale::Quick => Effort {
                turned_over: 1.0,
                rewritten: 0.2,
                measured: 0.5,
                requests: 1500,
                requests_max: 30_000,
            },
        }
    }

    fn of<T: Clone>(self, full: &[T], quick: &[T]) -> Vec<T> {
        match self {
            Scale::Full => full.to_vec(),
            Scale::Quick => quick.to_vec(),
        }
    }
}

fn array(disks: u32) -> Array {
    match disks {
        1 => Array::One,
        disks => Array::Stripes(disks),
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

/// The place of the slides' comparisons: TPC-C, 20 users, 4 disks of 1999.
fn slides_place(scale: Scale, name: impl Into<String>) -> Place {
    Place {
        name: name.into(),
        medium: Medium {
            model: Model::Of1999,
            array: array(DISKS),
            piece: PIECE_BYTES,
            segments: scale.segments(),
        },
        utilisation: FULL,
        what: What::TpcC,
        users: USERS,
    }
}

/// All experiments.
pub fn experiments(scale: Scale, traces: &[(Recorded, Result<Traced, String>)]) -> Vec<Experiment> {
    let mut all = Vec::new();
    all.extend(crossovers(scale));
    all.push(utilisation(scale));
    all.extend(disk_types(scale));
    for full in scale.of(&[FULL, ROOMY], &[ROOMY]) {
        all.push(users(scale, full));
        all.push(disks(scale, full));
    }
    all.extend((scale == Scale::Full).then(|| users_and_disks(scale)));
    all.push(parity(scale));
    all.push(other_traces(scale, traces));
    all.push(beyond(scale));
    all
}

/// Even updates by one user, on one disk of each year of the slides' table.
fn crossovers(scale: Scale) -> Vec<Experiment> {
    let one = |key: &'static str, model: Model, piece: u64| {
        let place = |utilisation: &f64| Place {
            name: percent(*utilisation),
            medium: Medium {
                model,
                array: Array::One,
                piece,
                segments: 2 * scale.segments() * (PIECE_BYTES / piece).min(2),
            },
            utilisation: *utilisation,
            what: What::Drawn(Skew::Uniform, 0),
            users: 1,
        };
        let full = [0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.94, 0.97];
        Experiment {
            key,
            title: format!("Even updates on the disk of {}", model.name()),
            axis: "utilisation",
            about: "One user writes pages drawn evenly (the slides: TPC-B), and reads nothing."
                .into(),
            places: scale
                .of(&full, &[0.5, 0.7, 0.85])
                .iter()
                .map(place)
                .collect(),
            systems: vec![Under::Plain, Under::Volume(Kind::Lfs)],
        }
    };
    let models = [
        // Segments by which the slides' crossover comes out.
        ("even-1991", Model::Of1991, 128 << 10),
        ("even-1999", Model::Of1999, PIECE_BYTES),
        ("even-2003", Model::Of2003, PIECE_BYTES),
    ];
    let models = scale.of(&models, &models[1..2]);
    models
        .into_iter()
        .map(|(key, model, piece)| one(key, model, piece))
        .collect()
}

fn utilisation(scale: Scale) -> Experiment {
    let full = [0.5, 0.7, 0.8, 0.85, FULL, TIGHT, SLIDES_UTILISATION];
    let place = |utilisation: &f64| Place {
        utilisation: *utilisation,
        ..slides_place(scale, percent(*utilisation))
    };
    Experiment {
        key: "utilisation",
        title: "Disk space utilisation (slide 21)".into(),
        axis: "utilisation",
        about: "TPC-C, 20 users, 4 disks of 1999.".into(),
        places: scale.of(&full, &[0.5, 0.8]).iter().map(place).collect(),
        systems: SYSTEMS.into(),
    }
}

fn disk_types(scale: Scale) -> Vec<Experiment> {
    let one = |key: &'static str, model: Model| {
        let place = |utilisation: &f64| {
            let place = slides_place(scale, percent(*utilisation));
            Place {
                utilisation: *utilisation,
                medium: Medium {
                    model,
                    ..place.medium
                },
                ..place
            }
        };
        let full = [0.8, 0.9];
        Experiment {
            key,
            title: format!("The disk of {} (slides 22 and 23)", model.name()),
            axis: "utilisation",
            about: "TPC-C, 20 users, 4 disks (the slides: 98 % in use).".into(),
            places: scale.of(&full, &[0.8]).iter().map(place).collect(),
            systems: SYSTEMS.into(),
        }
    };
    vec![
        one("disk-2003", Model::Of2003),
        one("disk-2008", Model::Of2008),
    ]
}

fn users(scale: Scale, utilisation: f64) -> Experiment {
    let place = |users: &usize| Place {
        users: *users,
        utilisation,
        ..slides_place(scale, users.to_string())
    };
    let (key, slide) = match utilisation == FULL {
        true => ("users-90", "slide 24, with 98 %"),
        false => ("users-80", "with more room"),
    };
    Experiment {
        key,
        title: format!("Users, {} in use ({slide})", percent(utilisation)),
        axis: "users",
        about: "TPC-C, 4 disks of 1999.".into(),
        places: scale.of(&[1, 5, 80], &[1, 40]).iter().map(place).collect(),
        systems: SYSTEMS.into(),
    }
}

fn disks(scale: Scale, utilisation: f64) -> Experiment {
    let place = |disks: &u32| {
        let place = slides_place(scale, disks.to_string());
        Place {
            utilisation,
            medium: Medium {
                array: array(*disks),
                ..place.medium
            },
            ..place
        }
    };
    let (key, slide) = match utilisation == FULL {
        true => ("disks-90", "slide 25, with 98 %"),
        false => ("disks-80", "with more room"),
    };
    Experiment {
        key,
        title: format!("Disks, {} in use ({slide})", percent(utilisation)),
        axis: "disks",
        about: "TPC-C, 20 users, disks of 1999, striped.".into(),
        places: scale.of(&[1, 2, 8], &[1, 8]).iter().map(place).collect(),
        systems: SYSTEMS.into(),
    }
}

fn users_and_disks(scale: Scale) -> Experiment {
    let place = |(users, disks): (usize, u32)| {
        let place = slides_place(scale, format!("{users} × {disks}"));
        Place {
            users,
            medium: Medium {
                array: array(disks),
                ..place.medium
            },
            ..place
        }
    };
    let all = [1, 80].map(|users| [1, 8].map(|disks| (users, disks)));
    Experiment {
        key: "users-disks",
        title: "Users and disks (slide 31)".into(),
        axis: "users × disks",
        about: "TPC-C, 90 % in use (the slides: 98 %), disks of 1999, striped.".into(),
        places: all.into_iter().flatten().map(place).collect(),
        systems: SYSTEMS.into(),
    }
}

fn parity(scale: Scale) -> Experiment {
    let place = |(name, array, utilisation): (&str, Array, f64)| {
        let place = slides_place(scale, format!("{name}, {}", percent(utilisation)));
        Place {
            utilisation,
            medium: Medium {
                array,
                ..place.medium
            },
            ..place
        }
    };
    let kinds = [
        ("RAID-0 (8)", Array::Stripes(8)),
        ("RAID-5 (9)", Array::Parity(9)),
    ];
    let full = scale.of(&[ROOMY, FULL], &[ROOMY]);
    let all = full
        .iter()
        .map(|full| kinds.map(|(name, array)| (name, array, *full)));
    Experiment {
        key: "raid",
        title: "RAID-5 against RAID-0 (slide 26)".into(),
        axis: "array",
        about: "TPC-C, 20 users, disks of 1999: 8 without parity, and 9 with it.".into(),
        places: all.flatten().map(place).collect(),
        systems: SYSTEMS.into(),
    }
}

fn other_traces(scale: Scale, traces: &[(Recorded, Result<Traced, String>)]) -> Experiment {
    let mut places = Vec::new();
    let mut missing = Vec::new();
    for (recorded, traced) in traces {
        match traced {
            Err(why) => missing.push(format!("{}: {why}", recorded.name())),
            Ok(traced) => {
                for utilisation in scale.of(&[ROOMY, FULL], &[ROOMY]) {
                    let name = format!("{}, {}", recorded.name(), percent(utilisation));
                    let place = Place {
                        utilisation,
                        medium: Medium {
                            array: Array::One,
                            ..slides_place(scale, "").medium
                        },
                        users: scale.of(&[USERS], &[8])[0],
                        ..slides_place(scale, name)
                    };
                    places.push(place.of_trace(traced, *recorded));
                }
            }
        }
    }
    let mut about = "Recorded requests, not the slides' traces, on one disk of 1999. They are short: each user \
                     repeats a copy of its own (several users one, where copies would be too many), and the disk \
                     is as large as all that is ever touched needs. Of long ones the beginning is taken. Devices \
                     that a trace tells apart are taken for one."
        .to_owned();
    if !missing.is_empty() {
        about += &format!(" Left out: {}.", missing.join("; "));
    }
    Experiment {
        key: "traces",
        title: "Other traces (slide 27)".into(),
        axis: "trace",
        about,
        places,
        systems: SYSTEMS.into(),
    }
}

fn beyond(scale: Scale) -> Experiment {
    let skews = [
        (
            "90/10",
            Skew::HotCold {
                writes: 90,
                pages: 10,
            },
        ),
        ("Zipf 0.99", Skew::Zipf(0.99)),
    ];
    let mut places = Vec::new();
    for (name, skew) in scale.of(&skews, &skews[1..]) {
        for utilisation in scale.of(&[ROOMY, TIGHT], &[ROOMY]) {
            for model in scale.of(&[Model::Of2003, Model::Terabyte], &[Model::Terabyte]) {
                let name = format!("{name}, {}, {}", model.name(), percent(utilisation));
                let place = slides_place(scale, name);
                places.push(Place {
                    utilisation,
                    medium: Medium {
                        model,
                        array: Array::One,
                        piece: PIECE_BYTES,
                        segments: 2 * scale.segments(),
                    },
                    what: What::Drawn(skew, 0),
                    ..place
                });
            }
        }
    }
    Experiment {
        key: "beyond",
        title: "Beyond the slides: a larger disk, other skews".into(),
        axis: "writes and disk",
        about: "20 users write pages drawn with a skew to one disk. On a medium that cannot write in \
                place (shingled disks, flash) only `lfs`, `wolf` and `sepbit` are possible: their columns are what \
                remains there."
            .into(),
        places,
        systems: SYSTEMS.into(),
    }
}

#[cfg(test)]
mod tests {
    use forebay_model::disk::named;

    use super::*;

    #[test]
    fn every_medium_fits_its_disks() {
        for scale in [Scale::Full, Scale::Quick] {
            for experiment in experiments(scale, &[]) {
                for place in &experiment.places {
                    let medium = &place.medium;
                    let used = (medium.segments + 8) * medium.piece;
                    let blocks = named(medium.model.disk()).unwrap().blocks();
                    assert!(used <= blocks * 512, "{}: {used}", experiment.key);
                }
            }
        }
    }
}
