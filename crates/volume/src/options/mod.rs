//! Options of volumes. Each option is declared once, as an [`OptionKey`] with its help text.
//!
//! The command line, the configuration file, `docs/options.md` and the manual pages follow from these declarations. A
//! kind of volume lists the options that it has as [`OptionRow`]s, with its own defaults. `shared.rs` declares options
//! of several kinds, `service.rs` options of the serving process, and the directory of a kind the other options.
//! `values.rs` has the types of the values.

pub(crate) mod page;
pub(crate) mod service;
pub(crate) mod shared;
pub(crate) mod values;

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::marker::PhantomData;
use std::str::FromStr;

/// Declaration of an option, without the type of its value.
pub struct OptionSpec {
    /// Key in the configuration file; with two dashes before it, the option of the command line.
    pub key: &'static str,
    /// Placeholder for the value in help texts.
    pub value_name: &'static str,
    /// Meaning, in whole sentences.
    pub help: &'static str,
    /// Name of the option in earlier versions, which is still understood.
    pub former: Option<FormerOption>,
    /// Values that a shell offers to complete, if the option has a list of values.
    pub choices: &'static [&'static str],
    check: fn(&str) -> Result<(), String>,
}

/// Earlier name of an option.
#[derive(Clone, Copy, Debug)]
pub struct FormerOption {
    /// Earlier key.
    pub key: &'static str,
    /// Earlier values, each with its present form. Other values have the same form as today.
    pub values: &'static [(&'static str, &'static str)],
}

/// Declaration of an option with values of type `T`.
pub struct OptionKey<T> {
    spec: OptionSpec,
    value: PhantomData<fn() -> T>,
}

/// An option as a kind of volume, or the serving process, has it.
#[derive(Clone, Copy)]
pub struct OptionRow {
    /// Declaration of the option.
    pub spec: &'static OptionSpec,
    /// Default, in words.
    pub default: &'static str,
    /// Value that the configuration file shows while the option is not set.
    pub example: &'static str,
    /// Further sentence of help that applies to this kind only; may be empty.
    pub note: &'static str,
}

/// Reason why a value of an option is refused. The text names the option.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {reason}")]
pub struct OptionValueError {
    /// Key of the option.
    pub key: &'static str,
    /// Reason.
    pub reason: String,
}

impl<T: FromStr<Err: Display>> OptionKey<T> {
    /// Declares an option.
    pub const fn new(
        key: &'static str,
        value_name: &'static str,
        help: &'static str,
    ) -> OptionKey<T> {
        OptionKey {
            spec: OptionSpec {
                key,
                value_name,
                help,
                former: None,
                choices: &[],
                check: can_be_parsed::<T>,
            },
            value: PhantomData,
        }
    }

    /// Adds the name that the option had in earlier versions, with the earlier values that have another form today.
    #[must_use]
    pub const fn formerly(
        mut self,
        key: &'static str,
        values: &'static [(&'static str, &'static str)],
    ) -> OptionKey<T> {
        self.spec.former = Some(FormerOption { key, values });
        self
    }

    /// Adds the values that a shell offers to complete. Other values may exist, too.
    #[must_use]
    pub const fn choices(mut self, choices: &'static [&'static str]) -> OptionKey<T> {
        self.spec.choices = choices;
        self
    }

    /// Returns the option as one kind has it: its default in words, and the value shown while it is not set.
    pub const fn row(&'static self, default: &'static str, example: &'static str) -> OptionRow {
        self.noted_row(default, example, "")
    }

    /// Returns the option as one kind has it, with a further sentence of help.
    pub const fn noted_row(
        &'static self,
        default: &'static str,
        example: &'static str,
        note: &'static str,
    ) -> OptionRow {
        OptionRow {
            spec: &self.spec,
            default,
            example,
            note,
        }
    }

    /// Returns the declaration without the type.
    pub const fn spec(&self) -> &OptionSpec {
        &self.spec
    }
}

fn can_be_parsed<T: FromStr<Err: Display>>(text: &str) -> Result<(), String> {
    let parsed = text.parse::<T>();
    parsed.map(drop).map_err(|error| error.to_string())
}

impl OptionSpec {
    /// Returns the present form of a value, if `key` is the present or the former key of this option.
    pub fn value_by<'a>(&self, key: &str, value: &'a str) -> Option<&'a str> {
        if key == self.key {
            return Some(value);
        }
        let former = self.former.filter(|former| key == former.key)?;
        let changed = former.values.iter().find(|(before, _)| *before == value);
        Some(changed.map_or(value, |(_, now)| now))
    }

    /// Checks a value in its present form.
    ///
    /// # Errors
    /// If the text is not a value of this option, with the reason.
    pub fn check(&self, value: &str) -> Result<(), String> {
        (self.check)(value)
    }
}

impl fmt::Debug for OptionSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.key)
    }
}

impl OptionRow {
    /// Returns the help text of the option for this kind, without the default.
    pub fn help(&self) -> String {
        let between = if self.note.is_empty() { "" } else { " " };
        format!("{}{between}{}", self.spec.help, self.note)
    }
}

/// Values of options. An option that is not set has its default.
///
/// Each value is the text that the user gave, after a check that it can be parsed. So a configuration file shows the
/// value unchanged.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OptionValues(BTreeMap<&'static str, String>);

impl OptionValues {
    /// Returns an option's value if the option is set.
    pub fn get<T: FromStr>(&self, key: &OptionKey<T>) -> Option<T> {
        // Every stored text was parsed before.
        self.0.get(key.spec.key)?.parse().ok()
    }

    /// Returns an option's value as text if the option is set.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// Sets an option.
    ///
    /// # Errors
    /// If the text is not a value of the option. The option keeps its value.
    pub fn set(&mut self, spec: &OptionSpec, value: &str) -> Result<(), OptionValueError> {
        let key = spec.key;
        let checked = spec.check(value);
        checked.map_err(|reason| OptionValueError { key, reason })?;
        self.0.insert(key, value.into());
        Ok(())
    }

    /// Returns these values with an option set that is not set yet. The text must be a value of the option.
    #[must_use]
    pub fn or_set<T: FromStr>(mut self, key: &OptionKey<T>, value: &str) -> OptionValues {
        debug_assert!(value.parse::<T>().is_ok(), "{value}");
        self.0.entry(key.spec.key).or_insert_with(|| value.into());
        self
    }

    /// Returns these values. Options that are not set are taken from `others`.
    #[must_use]
    pub fn or(mut self, others: &OptionValues) -> OptionValues {
        for (key, value) in &others.0 {
            self.0.entry(key).or_insert_with(|| value.clone());
        }
        self
    }

    /// Returns the keys of the options that are set.
    pub fn keys(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.0.keys().copied()
    }

    /// Returns the values of the options in `rows`.
    #[must_use]
    pub fn only<'a>(&self, rows: impl IntoIterator<Item = &'a OptionRow>) -> OptionValues {
        let keys: Vec<&str> = rows.into_iter().map(|row| row.spec.key).collect();
        let mut kept = self.clone();
        kept.0.retain(|key, _| keys.contains(key));
        kept
    }

    /// Returns the values of the options that are not set in `others`.
    #[must_use]
    pub fn minus(&self, others: &OptionValues) -> OptionValues {
        let mut kept = self.clone();
        kept.0.retain(|key, _| !others.0.contains_key(key));
        kept
    }

    /// Returns the values of the options that are not in `rows`.
    #[must_use]
    pub(crate) fn without(&self, rows: &[OptionRow]) -> OptionValues {
        let mut kept = self.clone();
        kept.0
            .retain(|key, _| rows.iter().all(|row| row.spec.key != *key));
        kept
    }
}

#[cfg(test)]
mod tests {
    use forebay_device::AckMode;

    use super::shared::{ACK, MAP_MEMORY, MAX_DELAY};
    use super::*;

    #[test]
    fn values_are_checked_and_keep_the_text_of_the_user() {
        let mut values = OptionValues::default();
        values.set(MAP_MEMORY.spec(), "1073741825").unwrap();
        assert_eq!(values.text("map-memory"), Some("1073741825"));
        let bytes = values.get(&MAP_MEMORY).unwrap();
        assert_eq!(bytes.0, (1 << 30) + 1);
        let error = values.set(MAP_MEMORY.spec(), "much").unwrap_err();
        assert!(error.to_string().starts_with("map-memory: "), "{error}");
        assert_eq!(values.get(&MAP_MEMORY), Some(bytes));
        assert_eq!(values.get(&MAX_DELAY), None);
    }

    #[test]
    fn values_of_the_command_line_override_those_of_the_configuration_file() {
        let line = OptionValues::default().or_set(&ACK, "durable");
        let file = OptionValues::default()
            .or_set(&ACK, "memory")
            .or_set(&MAX_DELAY, "5ms");
        let both = line.or(&file);
        assert_eq!(both.get(&ACK), Some(AckMode::Durable));
        assert_eq!(both.text("max-delay"), Some("5ms"));
    }

    #[test]
    fn each_choice_that_a_shell_offers_is_a_value_of_its_option() {
        use crate::kind_spec::ServedAs::{BlockDevice, Files};
        use crate::options::service::service_keys;
        use crate::registry::kind_specs;

        let of_kinds = kind_specs().flat_map(|kind| kind.options.iter().chain(kind.create_options));
        let of_service = [BlockDevice, Files].into_iter().flat_map(service_keys);
        let with_choices = of_kinds
            .chain(of_service)
            .filter(|row| !row.spec.choices.is_empty());
        let mut seen = 0;
        for row in with_choices {
            for choice in row.spec.choices {
                assert_eq!(row.spec.check(choice), Ok(()), "{:?}", row.spec);
            }
            seen += 1;
        }
        assert!(seen >= 5, "{seen}");
    }

    #[test]
    fn a_former_key_and_its_values_have_a_present_form() {
        let ack = ACK.spec();
        assert_eq!(ack.value_by("ack", "device"), Some("device"));
        assert_eq!(ack.value_by("durability", "handover"), Some("device"));
        assert_eq!(ack.value_by("durability", "device"), Some("device"));
        assert_eq!(ack.value_by("patience", "1s"), None);
    }
}
