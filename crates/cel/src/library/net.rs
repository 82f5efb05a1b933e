//! CEL functions on IP addresses and networks, such as `ip`, `isIP`, `cidr` and `containsIP`.
//!
//! Upstream: `apiserver/pkg/cel/library/ip.go` and `apiserver/pkg/cel/library/cidr.go`.

use std::net::{IpAddr, Ipv6Addr};

use super::Implementation;
use crate::Value;
use crate::error::{Error, Result};
use crate::value::Cidr;
use crate::value::net::parse_ip;

pub(super) fn implementation(name: &str) -> Option<Implementation> {
    Some(match name {
        "ip" => |_, args| match args {
            [Value::String(text)] => parse_ip(text).map(Value::Ip),
            [Value::Cidr(cidr)] => Ok(Value::Ip(cidr.address())),
            _ => Err(Error::NO_OVERLOAD),
        },
        "isIP" => |_, args| text(args).map(|text| Value::Bool(parse_ip(text).is_ok())),
        "ip.isCanonical" => {
            |_, args| text(args).and_then(|text| Ok(Value::Bool(parse_ip(text)?.to_string() == text)))
        }
        "family" => |_, args| address(args).map(|ip| Value::Int(if ip.is_ipv4() { 4 } else { 6 })),
        "isUnspecified" => |_, args| address(args).map(|ip| Value::Bool(ip.is_unspecified())),
        "isLoopback" => |_, args| address(args).map(|ip| Value::Bool(ip.is_loopback())),
        "isLinkLocalMulticast" => |_, args| address(args).map(|ip| Value::Bool(link_local_multicast(ip))),
        "isLinkLocalUnicast" => |_, args| address(args).map(|ip| Value::Bool(link_local_unicast(ip))),
        "isGlobalUnicast" => |_, args| address(args).map(|ip| Value::Bool(global_unicast(ip))),
        "cidr" => |_, args| text(args).and_then(network).map(Value::Cidr),
        "isCIDR" => |_, args| text(args).map(|text| Value::Bool(Cidr::parse(text).is_ok())),
        "prefixLength" => |_, args| cidr(args).map(|cidr| Value::Int(cidr.bits().into())),
        "masked" => |_, args| cidr(args).map(|cidr| Value::Cidr(cidr.masked())),
        "containsIP" => |_, args| match args {
            [Value::Cidr(cidr), Value::Ip(ip)] => Ok(Value::Bool(cidr.contains(*ip))),
            // Upstream does not report why the string is not an address.
            [Value::Cidr(cidr), Value::String(text)] => {
                parse_ip(text).map(|ip| Value::Bool(cidr.contains(ip))).map_err(|_| Error::NO_OVERLOAD)
            }
            _ => Err(Error::NO_OVERLOAD),
        },
        "containsCIDR" => |_, args| match args {
            [Value::Cidr(cidr), Value::Cidr(other)] => Ok(Value::Bool(cidr.contains_network(*other))),
            [Value::Cidr(cidr), Value::String(text)] => {
                network(text).map(|other| Value::Bool(cidr.contains_network(other)))
            }
            _ => Err(Error::NO_OVERLOAD),
        },
        _ => return None,
    })
}

fn text(args: &[Value]) -> Result<&str> {
    match args {
        [Value::String(text)] => Ok(text),
        _ => Err(Error::NO_OVERLOAD),
    }
}

fn address(args: &[Value]) -> Result<IpAddr> {
    match args {
        [Value::Ip(ip)] => Ok(*ip),
        _ => Err(Error::NO_OVERLOAD),
    }
}

fn cidr(args: &[Value]) -> Result<Cidr> {
    match args {
        [Value::Cidr(cidr)] => Ok(*cidr),
        _ => Err(Error::NO_OVERLOAD),
    }
}

/// Parses a network. The error repeats its prefix, as upstream's does.
fn network(text: &str) -> Result<Cidr> {
    Cidr::parse(text).map_err(|error| {
        Error::new(format!("network address parse error during conversion from string: {error}"))
    })
}

fn first_group(ip: Ipv6Addr) -> u16 {
    ip.segments()[0]
}

fn link_local_multicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.octets()[..3] == [224, 0, 0],
        IpAddr::V6(ip) => first_group(ip) & 0xff0f == 0xff02,
    }
}

fn link_local_unicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => first_group(ip) & 0xffc0 == 0xfe80,
    }
}

fn global_unicast(ip: IpAddr) -> bool {
    let broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    !broadcast && !ip.is_unspecified() && !ip.is_loopback() && !ip.is_multicast() && !link_local_unicast(ip)
}
