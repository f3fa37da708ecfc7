//! The handshake before the first request.
//!
//! [`NbdNegotiation`] holds the options agreed on so far. It turns one option into its replies and a [`HandshakeStep`], without
//! I/O. [`negotiate`] only transfers the bytes.

use std::rc::Rc;

use forebay_device::BufMut;

use super::export::{ExportList, NbdExport};
use super::hangup::HangupReason;
use super::inbox::NbdInbox;
use super::wire::NbdWire;
use crate::codec::format::{
    self, ContextQuery, InfoQuery, OptionHeader, handshake_flag, info, reply,
};

/// Options with more data than this are refused: four times the longest name.
const OPTION_DATA_BYTES_MAX: usize = 4 * format::STRING_BYTES_MAX;
/// Data of a refused option is skipped up to this length. A client that sends more is disconnected.
const OPTION_SKIP_BYTES_MAX: usize = 1 << 20;
/// Limit on the number of options, far above the need of any client.
const OPTIONS_MAX: usize = 1024;

/// The metadata contexts a client chose.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct MetaContexts {
    /// `base:allocation`.
    pub(super) allocation: bool,
    /// The context defined by the export's block status.
    pub(super) own: bool,
}

impl MetaContexts {
    /// The context numbers, the same in every session.
    pub(super) const ALLOCATION: u32 = 1;
    pub(super) const OWN: u32 = 2;

    /// Returns numbers and names of the contexts of `export`.
    fn of(export: &NbdExport) -> impl Iterator<Item = (u32, &str)> {
        let own = export.block_status().context();
        let own = own.map(|name| (MetaContexts::OWN, name));
        std::iter::once((MetaContexts::ALLOCATION, "base:allocation")).chain(own)
    }

    pub(super) fn any(self) -> bool {
        self.allocation || self.own
    }

    fn add(&mut self, id: u32) {
        match id {
            MetaContexts::ALLOCATION => self.allocation = true,
            _ => self.own = true,
        }
    }

    fn has(self, id: u32) -> bool {
        match id {
            MetaContexts::ALLOCATION => self.allocation,
            _ => self.own,
        }
    }
}

/// The result of a handshake.
#[derive(Clone)]
pub(super) struct NbdSession {
    pub(super) export: Rc<NbdExport>,
    pub(super) structured: bool,
    pub(super) contexts: MetaContexts,
}

impl NbdSession {
    /// Returns a session without any option.
    pub(super) fn plain(export: Rc<NbdExport>) -> NbdSession {
        NbdSession {
            export,
            structured: false,
            contexts: MetaContexts::default(),
        }
    }
}

/// The step after an option's replies.
pub(super) enum HandshakeStep {
    /// Read the next option.
    Next,
    /// Start to serve requests.
    Enter(NbdSession),
    /// Close the connection.
    Close,
}

pub(super) struct NbdNegotiation {
    exports: Rc<ExportList>,
    no_zeroes: bool,
    structured: bool,
    /// The chosen contexts, and the export they are for.
    contexts: Option<(Rc<NbdExport>, MetaContexts)>,
}

impl NbdNegotiation {
    /// Starts a negotiation after the client's answer to the greeting; `None` if the client sets a flag that was not
    /// offered.
    pub(super) fn new(exports: Rc<ExportList>, client_flags: u32) -> Option<NbdNegotiation> {
        let no_zeroes = u32::from(handshake_flag::NO_ZEROES);
        let known = u32::from(handshake_flag::FIXED_NEWSTYLE) | no_zeroes;
        (client_flags & !known == 0).then_some(NbdNegotiation {
            exports,
            no_zeroes: client_flags & no_zeroes != 0,
            structured: false,
            contexts: None,
        })
    }

    /// Answers one option, appending the replies to `out`.
    pub(super) fn option(&mut self, option: u32, data: &[u8], out: &mut Vec<u8>) -> HandshakeStep {
        use format::option::{
            ABORT, EXPORT_NAME, GO, INFO, LIST, LIST_META_CONTEXT, SET_META_CONTEXT,
            STRUCTURED_REPLY,
        };
        match option {
            EXPORT_NAME => self.export_name(data, out),
            ABORT => {
                format::option_reply(out, option, reply::ACK, &[]);
                HandshakeStep::Close
            }
            LIST => self.list(data, out),
            INFO | GO => self.info(option, data, out),
            STRUCTURED_REPLY if data.is_empty() => {
                self.structured = true;
                format::option_reply(out, option, reply::ACK, &[]);
                HandshakeStep::Next
            }
            STRUCTURED_REPLY => invalid(out, option, "no data is expected"),
            LIST_META_CONTEXT | SET_META_CONTEXT => self.meta_context(option, data, out),
            _ => refuse(out, option, reply::ERR_UNSUP, "not supported here"),
        }
    }

    /// Answers the old option for entering an export. The answer is a bare size and cannot contain an error.
    fn export_name(&self, data: &[u8], out: &mut Vec<u8>) -> HandshakeStep {
        let name = std::str::from_utf8(data).ok();
        let Some(export) = name.and_then(|name| self.exports.find(name)) else {
            return HandshakeStep::Close;
        };
        out.extend_from_slice(&export.geometry().len.to_be_bytes());
        out.extend_from_slice(&export.flags(self.structured).to_be_bytes());
        if !self.no_zeroes {
            out.extend_from_slice(&[0; 124]);
        }
        HandshakeStep::Enter(self.session(export))
    }

    fn list(&self, data: &[u8], out: &mut Vec<u8>) -> HandshakeStep {
        use format::option::LIST;
        if !data.is_empty() {
            return invalid(out, LIST, "no data is expected");
        }
        for export in self.exports.iter() {
            // The cast is lossless: the server checks the lengths of names when it is created.
            let len = (export.name().len() as u32).to_be_bytes();
            let data = [&len, export.name().as_bytes(), export.text().as_bytes()];
            format::option_reply(out, LIST, reply::SERVER, &data);
        }
        format::option_reply(out, LIST, reply::ACK, &[]);
        HandshakeStep::Next
    }

    fn info(&self, option: u32, data: &[u8], out: &mut Vec<u8>) -> HandshakeStep {
        let Some(query) = InfoQuery::decode(data) else {
            return invalid(out, option, "the request is malformed");
        };
        let Some(export) = self.exports.find(query.name) else {
            return refuse(out, option, reply::ERR_UNKNOWN, "no such export");
        };
        let mut tell = |kind: u16, data: &[u8]| {
            let data = [&kind.to_be_bytes(), data];
            format::option_reply(out, option, reply::INFO, &data);
        };
        let mut size_and_flags = [0; 10];
        size_and_flags[..8].copy_from_slice(&export.geometry().len.to_be_bytes());
        size_and_flags[8..].copy_from_slice(&export.flags(self.structured).to_be_bytes());
        tell(info::EXPORT, &size_and_flags);
        if query.wants(info::NAME) {
            tell(info::NAME, export.name().as_bytes());
        }
        if query.wants(info::DESCRIPTION) && !export.text().is_empty() {
            tell(info::DESCRIPTION, export.text().as_bytes());
        }
        // Sent even if the client has not asked: a client that ignores the smallest size would get EINVAL later.
        let sizes: Vec<u8> = export
            .block_sizes()
            .iter()
            .flat_map(|n| n.to_be_bytes())
            .collect();
        tell(info::BLOCK_SIZE, &sizes);
        format::option_reply(out, option, reply::ACK, &[]);
        if option == format::option::GO {
            HandshakeStep::Enter(self.session(export))
        } else {
            HandshakeStep::Next
        }
    }

    fn meta_context(&mut self, option: u32, data: &[u8], out: &mut Vec<u8>) -> HandshakeStep {
        let choosing = option == format::option::SET_META_CONTEXT;
        if choosing {
            // Every new choice, even an invalid one, voids the previous choice.
            self.contexts = None;
        }
        if !self.structured {
            return invalid(out, option, "structured replies must be agreed on first");
        }
        let Some(query) = ContextQuery::decode(data) else {
            return invalid(out, option, "the request is malformed");
        };
        let Some(export) = self.exports.find(query.name) else {
            return refuse(out, option, reply::ERR_UNKNOWN, "no such export");
        };
        let mut found = MetaContexts::default();
        for (id, name) in MetaContexts::of(export) {
            let asked = query.queries().any(|asked| {
                // "base:" stands for a whole namespace, but only in a list request.
                let all = !choosing && asked.ends_with(':') && name.starts_with(asked);
                asked == name || all
            });
            if asked || (!choosing && query.count == 0) {
                found.add(id);
            }
        }
        for (id, name) in MetaContexts::of(export).filter(|(id, _)| found.has(*id)) {
            let id = if choosing { id } else { 0 };
            let data = [&id.to_be_bytes(), name.as_bytes()];
            format::option_reply(out, option, reply::META_CONTEXT, &data);
        }
        format::option_reply(out, option, reply::ACK, &[]);
        if choosing {
            self.contexts = Some((Rc::clone(export), found));
        }
        HandshakeStep::Next
    }

    fn session(&self, export: &Rc<NbdExport>) -> NbdSession {
        // Contexts chosen for one export do not apply to another.
        let chosen = self.contexts.as_ref();
        let chosen = chosen.filter(|(chosen_for, _)| Rc::ptr_eq(chosen_for, export));
        NbdSession {
            export: Rc::clone(export),
            structured: self.structured,
            contexts: chosen.map(|(_, contexts)| *contexts).unwrap_or_default(),
        }
    }
}

fn invalid(out: &mut Vec<u8>, option: u32, text: &str) -> HandshakeStep {
    refuse(out, option, reply::ERR_INVALID, text)
}

fn refuse(out: &mut Vec<u8>, option: u32, error: u32, text: &str) -> HandshakeStep {
    format::option_reply(out, option, error, &[text.as_bytes()]);
    HandshakeStep::Next
}

async fn send(wire: &dyn NbdWire, bytes: &[u8]) -> Result<(), HangupReason> {
    let bytes = BufMut::copy_of(bytes).freeze();
    wire.send(vec![bytes]).await.map_err(HangupReason::Wire)
}

/// Runs the whole handshake.
pub(super) async fn negotiate(
    inbox: &mut NbdInbox,
    wire: &dyn NbdWire,
    exports: &Rc<ExportList>,
) -> Result<NbdSession, HangupReason> {
    send(wire, &format::greeting()).await?;
    inbox.need(format::CLIENT_FLAGS_BYTES).await?;
    let flags = inbox.take(format::CLIENT_FLAGS_BYTES);
    let mut negotiation = format::WireReader(&flags)
        .u32()
        .and_then(|flags| NbdNegotiation::new(Rc::clone(exports), flags))
        .ok_or(HangupReason::Garbage("flags that were not offered"))?;
    for _ in 0..OPTIONS_MAX {
        inbox.need(format::OPTION_BYTES).await?;
        let header = OptionHeader::decode(&inbox.take(format::OPTION_BYTES))
            .ok_or(HangupReason::Garbage("an option without its magic number"))?;
        let len = header.len as usize;
        let mut out = Vec::new();
        let step = if len > OPTION_SKIP_BYTES_MAX {
            return Err(HangupReason::Garbage("an option of excessive length"));
        } else if len > OPTION_DATA_BYTES_MAX {
            inbox.skip(len as u64).await?;
            refuse(&mut out, header.option, reply::ERR_TOO_BIG, "too long")
        } else {
            inbox.need(len).await?;
            negotiation.option(header.option, &inbox.take(len), &mut out)
        };
        if !out.is_empty() {
            send(wire, &out).await?;
        }
        match step {
            HandshakeStep::Next => {}
            HandshakeStep::Enter(session) => return Ok(session),
            HandshakeStep::Close => return Err(HangupReason::Disconnect),
        }
    }
    Err(HangupReason::Garbage("too many options"))
}
