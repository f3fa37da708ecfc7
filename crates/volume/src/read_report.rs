//! Reads a report from its JSON form: the label of each layer names the kind that reads the fields.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::registry::kind_labelled;
use crate::report::LayerStatus;
use crate::tree::DEPTH_MAX;

impl<'de> Deserialize<'de> for LayerStatus {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<LayerStatus, D::Error> {
        LayerStatus::from_json(Value::deserialize(from)?, 0).map_err(D::Error::custom)
    }
}

impl LayerStatus {
    fn from_json(mut json: Value, depth: usize) -> Result<LayerStatus, String> {
        if depth == DEPTH_MAX {
            return Err("too many layers".into());
        }
        let label = json["layer"].as_str().ok_or("missing field `layer`")?;
        let kind = kind_labelled(label).ok_or_else(|| format!("unknown layer \"{label}\""))?;
        let below = match json.get_mut("below").map(Value::take) {
            None | Some(Value::Null) => None,
            Some(below) => Some(Box::new(LayerStatus::from_json(below, depth + 1)?)),
        };
        let report = kind.read_report(json).map_err(|error| error.to_string())?;
        Ok(LayerStatus::read(kind.spec(), report, below))
    }
}
