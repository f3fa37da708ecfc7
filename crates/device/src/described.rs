//! What layers and programs say of themselves: a structure whose fields are described once, where they
//! are declared. Reports, metrics and the page of documentation follow from that.

/// What a field of a report is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Words, a list, or a number that is only a name: no metric.
    Fact,
    /// A number that goes up and down.
    Gauge,
    /// A number that only grows, from 0 when the volume is attached.
    Counter,
    /// How long requests took.
    Latency,
}

/// A field of a report; a number is also a metric of the same name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Field {
    /// Its name in JSON, which ends in its unit where that is not obvious.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// What it means, with its unit.
    pub help: &'static str,
}

/// Declares a structure with public fields, and describes them: `Kind name: type = "help",`. The help is
/// also the field's documentation. `FIELDS` lists the descriptions in order.
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
            /// What each field is, in their order.
            pub const FIELDS: &'static [$crate::Field] = &[
                $($crate::Field {
                    name: stringify!($field),
                    kind: $crate::Kind::$kind,
                    help: $help,
                }),+
            ];
        }
    };
}
