//! Reports of layers and programs: a structure whose fields are described once, where they are declared. Reports,
//! metrics and the documentation page are generated from this description.

/// Kind of a field of a report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FieldKind {
    /// Text, a list, or a number that is only a name. Not a metric.
    Fact,
    /// A number that can rise and fall.
    Gauge,
    /// A number that only grows, from 0 at attach.
    Counter,
    /// The latency of requests.
    Latency,
}

/// A field of a report. A number is also a metric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReportField {
    /// Name in JSON, which ends in the unit where this is not obvious.
    pub name: &'static str,
    /// Kind.
    pub kind: FieldKind,
    /// Meaning, with the unit.
    pub help: &'static str,
}

impl ReportField {
    /// Returns the name of the field's Prometheus metric: base units in full, `_ratio` for a share, `_total` for a
    /// counter. `None` for a fact.
    pub fn metric_name(&self) -> Option<String> {
        let base = match self.name {
            "len" => "length_bytes".to_owned(),
            "block_size" => "block_size_bytes".to_owned(),
            name => match (name.strip_suffix("_s"), name.strip_suffix("_share")) {
                (Some(base), _) => format!("{base}_seconds"),
                (_, Some(base)) => format!("{base}_ratio"),
                _ => name.to_owned(),
            },
        };
        let end = match self.kind {
            FieldKind::Fact => return None,
            FieldKind::Gauge => "",
            FieldKind::Counter => "_total",
            FieldKind::Latency => "_seconds",
        };
        Some(format!("forebay_{base}{end}"))
    }
}

/// Declares a structure with public fields, and describes them: `FieldKind name: type = "help",`. The help is also the
/// field's documentation. `FIELDS` lists the descriptions in order.
#[macro_export]
macro_rules! described {
    (
        $(#[$attr:meta])*
        pub struct $name:ident {
            $($(#[$field_attr:meta])* $kind:ident $field:ident: $type:ty = $help:literal,)+
        }
    ) => {
        $(#[$attr])*
        pub struct $name {
            $(#[doc = $help] $(#[$field_attr])* pub $field: $type,)+
        }

        impl $name {
            /// Descriptions of the fields, in order.
            pub const FIELDS: &'static [$crate::ReportField] = &[
                $($crate::ReportField {
                    name: stringify!($field),
                    kind: $crate::FieldKind::$kind,
                    help: $help,
                }),+
            ];
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metric_name(name: &'static str, kind: FieldKind) -> Option<String> {
        let help = "";
        ReportField { name, kind, help }.metric_name()
    }

    #[test]
    fn metric_names_have_base_units() {
        for (name, kind, expected) in [
            ("writes", FieldKind::Counter, "forebay_writes_total"),
            (
                "throttled_s",
                FieldKind::Counter,
                "forebay_throttled_seconds_total",
            ),
            ("dirty_share", FieldKind::Gauge, "forebay_dirty_ratio"),
            ("len", FieldKind::Gauge, "forebay_length_bytes"),
            (
                "read_latency",
                FieldKind::Latency,
                "forebay_read_latency_seconds",
            ),
        ] {
            assert_eq!(metric_name(name, kind).as_deref(), Some(expected));
        }
        assert_eq!(metric_name("data", FieldKind::Fact), None);
    }
}
