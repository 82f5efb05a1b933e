//! Questions and answers of the domain name system (RFC 1035): one question for the addresses of a name, and what answers it.
//!
//! Reads what anybody on the way may have written: every length is looked at before it is used.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bytes of a message before its questions.
const HEAD: usize = 12;
const INTERNET: u16 = 1;
/// The largest label and the largest name.
const LABEL_MAX: usize = 63;
const NAME_MAX: usize = 253;

/// The kind of addresses asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Four,
    Six,
}

impl Kind {
    fn code(self) -> u16 {
        match self {
            Self::Four => 1,
            Self::Six => 28,
        }
    }
}

/// What a server says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// These; none where the name has none, or is not there.
    Addresses(Vec<IpAddr>),
    /// More than fits.
    Truncated,
    /// That it cannot tell.
    Failed,
}

/// A question; `None` for what is no name.
pub(super) fn question(number: u16, name: &str, kind: Kind) -> Option<Vec<u8>> {
    if name.is_empty() || name.len() > NAME_MAX {
        return None;
    }
    // One question, to be answered with all that is behind it.
    let mut bytes = number.to_be_bytes().to_vec();
    bytes.extend([0x01, 0x00, 0, 1, 0, 0, 0, 0, 0, 0]);
    for label in name.split('.') {
        let length = u8::try_from(label.len()).ok().filter(|&length| length > 0)?;
        if usize::from(length) > LABEL_MAX {
            return None;
        }
        bytes.push(length);
        bytes.extend(label.bytes());
    }
    bytes.push(0);
    bytes.extend(kind.code().to_be_bytes());
    bytes.extend(INTERNET.to_be_bytes());
    Some(bytes)
}

/// What a message answers to a question; `None` where it answers another, or cannot be read.
pub(super) fn answer(question: &[u8], message: &[u8]) -> Option<Answer> {
    let asked = question.get(HEAD..)?;
    let is_answer = message.get(2)? & 0x80 != 0;
    let same = message.get(HEAD..HEAD + asked.len())?.eq_ignore_ascii_case(asked);
    if message.get(..2)? != question.get(..2)? || !is_answer || u16_at(message, 4)? != 1 || !same {
        return None;
    }
    let kind = u16_at(asked, asked.len().checked_sub(4)?)?;
    match message[3] & 0x0f {
        // No such name is an answer, too.
        3 => return Some(Answer::Addresses(Vec::new())),
        0 => {}
        _ => return Some(Answer::Failed),
    }
    if message[2] & 0x02 != 0 {
        return Some(Answer::Truncated);
    }
    let mut at = HEAD + asked.len();
    let mut addresses = Vec::new();
    for _ in 0..u16_at(message, 6)? {
        at = after_name(message, at)?;
        let (code, length) = (u16_at(message, at)?, usize::from(u16_at(message, at + 8)?));
        let data = message.get(at + 10..at + 10 + length)?;
        // Other names for it come first; their addresses follow.
        if code == kind {
            addresses.push(address(data)?);
        }
        at += 10 + length;
    }
    Some(Answer::Addresses(addresses))
}

fn address(data: &[u8]) -> Option<IpAddr> {
    let four = <[u8; 4]>::try_from(data).map(|data| IpAddr::from(Ipv4Addr::from(data)));
    four.or_else(|_| <[u8; 16]>::try_from(data).map(|data| Ipv6Addr::from(data).into())).ok()
}

/// Where a name ends. A reference to an earlier one ends it.
fn after_name(message: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match message.get(at)? {
            0 => return Some(at + 1),
            length if length & 0xc0 == 0xc0 => return Some(at + 2),
            length => at += 1 + usize::from(*length),
        }
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}
