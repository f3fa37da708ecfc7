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

/// A field of a report. A number is also a metric with the field's name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReportField {
    /// Name in JSON, which ends in the unit where this is not obvious.
    pub name: &'static str,
    /// Kind.
    pub kind: FieldKind,
    /// Meaning, with the unit.
    pub help: &'static str,
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
