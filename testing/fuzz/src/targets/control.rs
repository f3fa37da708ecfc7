//! Lines on a control socket.

use forebay_control::{ControlReply, ControlRequest, DaemonReadiness, REQUEST_BYTES_MAX};
use forebay_volume::LayerStatus;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::cap;

/// Decodes a line as each type of message.
pub fn control(bytes: &[u8]) {
    let line = &bytes[..bytes.len().min(REQUEST_BYTES_MAX)];
    reads_back::<ControlRequest>(line);
    reads_back::<DaemonReadiness>(line);
    // A report has numbers with fractions, which JSON does not keep to the last bit.
    let reply = cap::within(memory(line), || {
        serde_json::from_slice::<ControlReply<LayerStatus>>(line)
    });
    if let Ok(reply) = reply {
        assert!(serde_json::to_vec(&reply).is_ok());
    }
}

fn memory(line: &[u8]) -> usize {
    (16 << 10) + 64 * line.len()
}

fn reads_back<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(line: &[u8]) {
    if let Ok(value) = cap::within(memory(line), || serde_json::from_slice::<T>(line)) {
        let written = serde_json::to_vec(&value).expect("it can be written");
        assert!(!written.contains(&b'\n'), "one line");
        assert_eq!(serde_json::from_slice::<T>(&written).ok(), Some(value));
    }
}

pub(super) fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let lines = [
        ("ping", r#"{"command":"ping"}"#),
        ("drain", r#"{"command":"drain","timeout_ms":1500}"#),
        ("detach", r#"{"command":"detach","keep_dirty":true}"#),
        ("pong", r#"{"reply":"pong","name":"v","pid":7}"#),
        ("progress", r#"{"reply":"progress","dirty_bytes":4096}"#),
        (
            "failed",
            r#"{"reply":"failed","code":"refused","message":"a\nb\u0000"}"#,
        ),
        (
            "ready",
            r#"{"ready":{"endpoint":"/dev/loop0","notes":["x"]}}"#,
        ),
    ];
    lines
        .map(|(name, line)| (name, line.as_bytes().to_vec()))
        .to_vec()
}
