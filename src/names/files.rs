//! `/etc/hosts` and `/etc/resolv.conf`, as far as they are read (resolv.conf(5)). What is not understood is passed over.

use super::{ATTEMPTS, TIMEOUT};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

/// Servers and search domains beyond these many are not looked at.
const SERVERS_MAX: usize = 3;
const SEARCH_MAX: usize = 32;

/// The addresses that the file gives a name; `localhost` has its own even without.
pub(super) fn hosts(text: &str, name: &str) -> Vec<IpAddr> {
    let name = name.trim_end_matches('.');
    let mut found: Vec<IpAddr> = Vec::new();
    for line in text.lines() {
        let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
        let Some(address) = words.next().and_then(|word| word.parse().ok()) else { continue };
        if words.any(|alias| alias.eq_ignore_ascii_case(name)) && !found.contains(&address) {
            found.push(address);
        }
    }
    if found.is_empty() && name.eq_ignore_ascii_case("localhost") {
        found = vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    }
    found.sort_by_key(IpAddr::is_ipv6);
    found
}

/// Whom to ask, and for which names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) servers: Vec<IpAddr>,
    pub(super) search: Vec<String>,
    /// So many dots make a name one that is asked for as it is first.
    pub(super) dots: usize,
    pub(super) timeout: Duration,
    pub(super) attempts: usize,
}

impl Settings {
    pub(super) fn read(text: &str) -> Self {
        let mut settings =
            Self { servers: Vec::new(), search: Vec::new(), dots: 1, timeout: TIMEOUT, attempts: ATTEMPTS };
        for line in text.lines() {
            let mut words = line.split(['#', ';']).next().unwrap_or_default().split_whitespace();
            match words.next() {
                Some("nameserver") => {
                    settings.servers.extend(words.next().and_then(|word| word.parse::<IpAddr>().ok()));
                }
                Some("search" | "domain") => {
                    let domains = words.map(|domain| domain.trim_end_matches('.').to_owned());
                    settings.search = domains.filter(|domain| !domain.is_empty()).take(SEARCH_MAX).collect();
                }
                Some("options") => words.for_each(|option| settings.option(option)),
                _ => {}
            }
        }
        settings.servers.truncate(SERVERS_MAX);
        if settings.servers.is_empty() {
            settings.servers = vec![Ipv4Addr::LOCALHOST.into()];
        }
        settings
    }

    fn option(&mut self, option: &str) {
        let Some((name, value)) = option.split_once(':') else { return };
        let Ok(value) = value.parse::<u8>() else { return };
        match name {
            "ndots" => self.dots = usize::from(value.min(15)),
            "timeout" => self.timeout = Duration::from_secs(u64::from(value.clamp(1, 30))),
            "attempts" => self.attempts = usize::from(value.clamp(1, 5)),
            _ => {}
        }
    }

    /// The full names that a name may stand for, in the order in which they are asked for.
    pub(super) fn candidates(&self, name: &str) -> Vec<String> {
        if let Some(full) = name.strip_suffix('.') {
            return vec![full.to_owned()];
        }
        let as_it_is = std::iter::once(name.to_owned());
        let searched = self.search.iter().map(|domain| format!("{name}.{domain}"));
        if name.matches('.').count() >= self.dots {
            as_it_is.chain(searched).collect()
        } else {
            searched.chain(as_it_is).collect()
        }
    }
}
