//! IP addresses and networks, parsed as Go's `net/netip` does.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::format_go::quote;
use crate::error::Error;

/// A network: an address and a prefix length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    address: IpAddr,
    bits: u8,
}

impl Cidr {
    /// Returns the address as written, including its host bits.
    pub fn address(self) -> IpAddr {
        self.address
    }

    /// Returns the prefix length in bits.
    pub fn bits(self) -> u8 {
        self.bits
    }

    /// Returns the network with its host bits cleared.
    pub(crate) fn masked(self) -> Self {
        Self { address: mask(self.address, self.bits), bits: self.bits }
    }

    pub(crate) fn contains(self, ip: IpAddr) -> bool {
        self.address.is_ipv4() == ip.is_ipv4() && mask(ip, self.bits) == mask(self.address, self.bits)
    }

    pub(crate) fn contains_network(self, other: Self) -> bool {
        self.bits <= other.bits && self.contains(other.address)
    }

    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        let fail = |message: String| {
            Error::new(format!(
                "network address parse error during conversion from string: netip.ParsePrefix({}): {message}",
                quote(text)
            ))
        };
        let Some((address, bits_text)) = text.rsplit_once('/') else { return Err(fail("no '/'".into())) };
        let (address, zone) = parse_address(address).map_err(fail)?;
        if zone {
            return Err(fail("IPv6 zones cannot be present in a prefix".into()));
        }
        let valid = !bits_text.is_empty()
            && bits_text.bytes().all(|byte| byte.is_ascii_digit())
            && (bits_text.len() == 1 || !bits_text.starts_with('0'));
        if !valid || bits_text.parse::<i64>().is_err() {
            return Err(fail(format!("bad bits after slash: {}", quote(bits_text))));
        }
        let most = if address.is_ipv4() { 32 } else { 128 };
        match bits_text.parse::<u8>() {
            Ok(bits) if bits <= most => {
                if mapped(address) {
                    return Err(Error::new(format!(
                        "IPv4-mapped IPv6 address {} is not allowed",
                        quote(text)
                    )));
                }
                Ok(Self { address, bits })
            }
            _ => Err(fail("prefix length out of range".into())),
        }
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

fn mask(ip: IpAddr, bits: u8) -> IpAddr {
    match ip {
        IpAddr::V4(ip) => IpAddr::V4(Ipv4Addr::from_bits(
            ip.to_bits() & u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or_default(),
        )),
        IpAddr::V6(ip) => IpAddr::V6(Ipv6Addr::from_bits(
            ip.to_bits() & u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or_default(),
        )),
    }
}

fn mapped(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some())
}

/// Parses an address. Rejects zones and IPv4-mapped IPv6 addresses.
pub(crate) fn parse_ip(text: &str) -> Result<IpAddr, Error> {
    let (ip, zone) = parse_address(text).map_err(|message| {
        Error::new(format!("IP Address {} parse error during conversion from string: {message}", quote(text)))
    })?;
    if zone {
        return Err(Error::new(format!("IP address {} with zone value is not allowed", quote(text))));
    }
    if mapped(ip) {
        return Err(Error::new(format!("IPv4-mapped IPv6 address {} is not allowed", quote(text))));
    }
    Ok(ip)
}

/// Parses an address. Returns it, and whether it has a zone. The error texts are Go's.
pub(crate) fn parse_address(text: &str) -> Result<(IpAddr, bool), String> {
    let fail = |message: &str| format!("ParseAddr({}): {message}", quote(text));
    match text.bytes().find(|byte| b".:%".contains(byte)) {
        Some(b'.') => parse_v4(text, text).map(|fields| (Ipv4Addr::from(fields).into(), false)),
        Some(b':') => parse_v6(text).map(|(ip, zone)| (ip.into(), zone)),
        Some(_) => Err(fail("missing IPv6 address")),
        None => Err(fail("unable to parse IP")),
    }
}

/// Parses the IPv4 address `text`. Errors quote `whole`, of which it is a part.
fn parse_v4(whole: &str, text: &str) -> Result<[u8; 4], String> {
    let fail = |message: &str| format!("ParseAddr({}): {message}", quote(whole));
    let fail_at =
        |message: &str, at: &[u8]| format!("{} (at {})", fail(message), quote(&String::from_utf8_lossy(at)));
    let mut fields = [0_u8; 4];
    let (mut value, mut position, mut digits) = (0_u32, 0, 0);
    let bytes = text.as_bytes();
    for (index, byte) in bytes.iter().enumerate() {
        match byte {
            b'0'..=b'9' => {
                if digits == 1 && value == 0 {
                    return Err(fail("IPv4 field has octet with leading zero"));
                }
                value = value * 10 + u32::from(byte - b'0');
                digits += 1;
                if value > 255 {
                    return Err(fail("IPv4 field has value >255"));
                }
            }
            b'.' => {
                if index == 0 || index == bytes.len() - 1 || bytes[index - 1] == b'.' {
                    return Err(fail_at("IPv4 field must have at least one digit", &bytes[index..]));
                }
                if position == 3 {
                    return Err(fail("IPv4 address too long"));
                }
                fields[position] = value as u8;
                position += 1;
                (value, digits) = (0, 0);
            }
            _ => return Err(fail_at("unexpected character", &bytes[index..])),
        }
    }
    if position < 3 {
        return Err(fail("IPv4 address too short"));
    }
    fields[3] = value as u8;
    Ok(fields)
}

// long because: one loop with the states of one address
fn parse_v6(whole: &str) -> Result<(Ipv6Addr, bool), String> {
    let fail = |message: &str| format!("ParseAddr({}): {message}", quote(whole));
    let fail_at = |message: &str, at: &str| format!("{} (at {})", fail(message), quote(at));
    let (mut rest, zone) = match whole.split_once('%') {
        Some((_, "")) => return Err(fail("zone must be a non-empty string")),
        Some((rest, _)) => (rest, true),
        None => (whole, false),
    };
    let mut ip = [0_u8; 16];
    let mut ellipsis = None;
    let mut filled = 0;
    if let Some(after) = rest.strip_prefix("::") {
        ellipsis = Some(0);
        rest = after;
        if rest.is_empty() {
            return Ok((Ipv6Addr::UNSPECIFIED, zone));
        }
    }
    while filled < 16 {
        let length = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
        if length > 4 {
            return Err(fail_at("each group must have 4 or less digits", rest));
        }
        if length == 0 {
            return Err(fail_at("each colon-separated field must have at least one digit", rest));
        }
        if rest.as_bytes().get(length) == Some(&b'.') {
            if ellipsis.is_none() && filled != 12 {
                return Err(fail_at(
                    "embedded IPv4 address must replace the final 2 fields of the address",
                    rest,
                ));
            }
            if filled + 4 > 16 {
                return Err(fail_at(
                    "too many hex fields to fit an embedded IPv4 at the end of the address",
                    rest,
                ));
            }
            ip[filled..filled + 4].copy_from_slice(&parse_v4(whole, rest)?);
            rest = "";
            filled += 4;
            break;
        }
        let group = u16::from_str_radix(&rest[..length], 16).unwrap_or_default();
        ip[filled..filled + 2].copy_from_slice(&group.to_be_bytes());
        filled += 2;
        rest = &rest[length..];
        if rest.is_empty() {
            break;
        }
        let Some(after) = rest.strip_prefix(':') else {
            return Err(fail_at("unexpected character, want colon", rest));
        };
        if after.is_empty() {
            return Err(fail_at("colon must be followed by more characters", rest));
        }
        rest = after;
        if let Some(after) = rest.strip_prefix(':') {
            if ellipsis.is_some() {
                return Err(fail_at("multiple :: in address", rest));
            }
            ellipsis = Some(filled);
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
    }
    if !rest.is_empty() {
        return Err(fail_at("trailing garbage after address", rest));
    }
    match ellipsis {
        None if filled < 16 => return Err(fail("address string too short")),
        Some(_) if filled == 16 => return Err(fail("the :: must expand to at least one field of zeros")),
        Some(start) => {
            ip.copy_within(start..filled, 16 - (filled - start));
            ip[start..16 - (filled - start)].fill(0);
        }
        None => {}
    }
    Ok((ip.into(), zone))
}
