//! URLs, parsed as Go's `net/url` does.

use super::format_go::quote;
use super::net;

/// A URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    pub(crate) scheme: String,
    opaque: String,
    user: Option<(Vec<u8>, Option<Vec<u8>>)>,
    pub(crate) host: String,
    path: Vec<u8>,
    raw_path: String,
    query: String,
    force_query: bool,
    omit_host: bool,
    fragment: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Path,
    User,
    Host,
    Zone,
    Query,
    Fragment,
}

impl Url {
    /// Parses an absolute URL, or a path that starts with `/`. The error has Go's text.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        Self::check(text)?;
        let (main, fragment) = match text.split_once('#') {
            Some((main, fragment)) => (main, Some(fragment)),
            None => (text, None),
        };
        let mut url = parse(main, false).map_err(|reason| in_parse(main, &reason))?;
        if let Some(fragment) = fragment.filter(|fragment| !fragment.is_empty()) {
            unescape(fragment, Part::Fragment).map_err(|reason| in_parse(text, &reason))?;
            url.fragment = Some(fragment.to_owned());
        }
        Ok(url)
    }

    /// Checks whether Go's `url.ParseRequestURI` accepts a string. The error has Go's text.
    pub(crate) fn check(text: &str) -> Result<(), String> {
        parse(text, true).map(drop).map_err(|reason| in_parse(text, &reason))
    }

    pub(crate) fn hostname(&self) -> &str {
        let (host, _) = split_port(&self.host);
        host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
    }

    pub(crate) fn port(&self) -> &str {
        split_port(&self.host).1
    }

    pub(crate) fn escaped_path(&self) -> String {
        let valid = |raw: &str| {
            raw.bytes().all(|byte| b"!$&'()*+,;=:@[]%".contains(&byte) || !escapes(byte, Part::Path))
                && unescape(raw, Part::Path).is_ok_and(|path| path == self.path)
        };
        if !self.raw_path.is_empty() && valid(&self.raw_path) {
            return self.raw_path.clone();
        }
        if self.path == b"*" { "*".into() } else { escape(&self.path, Part::Path) }
    }

    /// Returns the query parameters by name, each with its values. Skips parts with a `;` or an invalid
    /// escape.
    pub(crate) fn parameters(&self) -> std::collections::BTreeMap<String, Vec<String>> {
        let mut parameters = std::collections::BTreeMap::<String, Vec<String>>::new();
        for part in self.query.split('&') {
            if part.is_empty() || part.contains(';') {
                continue;
            }
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            if let (Ok(key), Ok(value)) = (unescape(key, Part::Query), unescape(value, Part::Query)) {
                let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
                parameters.entry(text(key)).or_default().push(text(value));
            }
        }
        parameters
    }

    /// Returns the URL as a string.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        if !self.scheme.is_empty() {
            text.push_str(&self.scheme);
            text.push(':');
        }
        if self.opaque.is_empty() {
            self.write_hierarchy(&mut text);
        } else {
            text.push_str(&self.opaque);
        }
        if self.force_query || !self.query.is_empty() {
            text.push('?');
            text.push_str(&self.query);
        }
        if let Some(fragment) = &self.fragment {
            text.push('#');
            let plain = unescape(fragment, Part::Fragment).unwrap_or_default();
            let valid = fragment
                .bytes()
                .all(|byte| b"!$&'()*+,;=:@[]%".contains(&byte) || !escapes(byte, Part::Fragment));
            text.push_str(&if valid { fragment.clone() } else { escape(&plain, Part::Fragment) });
        }
        text
    }

    fn write_hierarchy(&self, text: &mut String) {
        let has_user = self.user.is_some();
        if !self.scheme.is_empty() || !self.host.is_empty() || has_user {
            let silent = self.omit_host && self.host.is_empty() && !has_user;
            if !silent {
                if !self.host.is_empty() || !self.path.is_empty() || has_user {
                    text.push_str("//");
                }
                if let Some((name, password)) = &self.user {
                    text.push_str(&escape(name, Part::User));
                    if let Some(password) = password {
                        text.push(':');
                        text.push_str(&escape(password, Part::User));
                    }
                    text.push('@');
                }
                text.push_str(&escape(self.host.as_bytes(), Part::Host));
            }
        }
        let path = self.escaped_path();
        if !path.is_empty() && !path.starts_with('/') && !self.host.is_empty() {
            text.push('/');
        }
        text.push_str(&path);
    }
}

impl std::fmt::Display for Url {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text())
    }
}

fn in_parse(text: &str, reason: &str) -> String {
    format!("parse {}: {reason}", quote(text))
}

/// Splits host and port. The port is empty if there is none.
fn split_port(host: &str) -> (&str, &str) {
    match host.rfind(':') {
        Some(colon) if valid_port(&host[colon..]) => (&host[..colon], &host[colon + 1..]),
        _ => (host, ""),
    }
}

fn valid_port(text: &str) -> bool {
    text.is_empty()
        || text.strip_prefix(':').is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
}

fn parse(text: &str, request: bool) -> Result<Url, String> {
    if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return Err("net/url: invalid control character in URL".into());
    }
    if text.is_empty() && request {
        return Err("empty url".into());
    }
    let mut url = Url {
        scheme: String::new(),
        opaque: String::new(),
        user: None,
        host: String::new(),
        path: Vec::new(),
        raw_path: String::new(),
        query: String::new(),
        force_query: false,
        omit_host: false,
        fragment: None,
    };
    if text == "*" {
        url.path = b"*".to_vec();
        return Ok(url);
    }
    let (scheme, mut rest) = split_scheme(text)?;
    url.scheme = scheme.to_lowercase();
    if rest.ends_with('?') && rest.matches('?').count() == 1 {
        url.force_query = true;
        rest = &rest[..rest.len() - 1];
    } else if let Some((before, query)) = rest.split_once('?') {
        url.query = query.to_owned();
        rest = before;
    }
    if !rest.starts_with('/') {
        if !url.scheme.is_empty() {
            url.opaque = rest.to_owned();
            return Ok(url);
        }
        if request {
            return Err("invalid URI for request".into());
        }
        if rest.split('/').next().is_some_and(|segment| segment.contains(':')) {
            return Err("first path segment in URL cannot contain colon".into());
        }
    }
    if (!url.scheme.is_empty() || !request && !rest.starts_with("///")) && rest.starts_with("//") {
        let authority = &rest[2..];
        let (authority, path) = authority.split_at(authority.find('/').unwrap_or(authority.len()));
        read_authority(&mut url, authority)?;
        rest = path;
    } else if !url.scheme.is_empty() && rest.starts_with('/') {
        url.omit_host = true;
    }
    url.path = unescape(rest, Part::Path)?;
    if escape(&url.path, Part::Path) != rest {
        url.raw_path = rest.to_owned();
    }
    Ok(url)
}

fn split_scheme(text: &str) -> Result<(&str, &str), String> {
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if index > 0 => {}
            b':' if index == 0 => return Err("missing protocol scheme".into()),
            b':' => return Ok((&text[..index], &text[index + 1..])),
            _ => return Ok(("", text)),
        }
    }
    Ok(("", text))
}

fn read_authority(url: &mut Url, authority: &str) -> Result<(), String> {
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    };
    url.host = read_host(&url.scheme, host)?;
    let Some(user) = user else { return Ok(()) };
    let valid = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte);
    if !user.bytes().all(valid) {
        return Err("net/url: invalid userinfo".into());
    }
    url.user = Some(match user.split_once(':') {
        Some((name, password)) => (unescape(name, Part::User)?, Some(unescape(password, Part::User)?)),
        None => (unescape(user, Part::User)?, None),
    });
    Ok(())
}

fn read_host(scheme: &str, host: &str) -> Result<String, String> {
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let bad_port = |port: &str| format!("invalid port {} after host", quote(port));
    match host.rfind('[') {
        Some(0) => {
            let Some(close) = host.rfind(']') else { return Err("missing ']' in host".into()) };
            let port = &host[close + 1..];
            if !valid_port(port) {
                return Err(bad_port(port));
            }
            let name = &host[1..close];
            let name = match name.find("%25") {
                Some(zone) => {
                    text(unescape(&name[..zone], Part::Host)?) + &text(unescape(&name[zone..], Part::Zone)?)
                }
                None => text(unescape(name, Part::Host)?),
            };
            match net::parse_address(&name) {
                Err(reason) => return Err(format!("invalid host: {reason}")),
                Ok((ip, _)) if ip.is_ipv4() => return Err("invalid IP-literal".into()),
                Ok(_) => {}
            }
            return Ok(format!("[{name}]{port}"));
        }
        Some(_) => return Err("invalid IP-literal".into()),
        None => {}
    }
    if let Some(first) = host.find(':') {
        let strict = scheme == "http" || scheme == "https";
        let colon = if strict { first } else { host.rfind(':').unwrap_or(first) };
        if !valid_port(&host[colon..]) {
            return Err(bad_port(&host[colon..]));
        }
    }
    unescape(host, Part::Host).map(text)
}

/// Returns whether a byte is escaped in a part of a URL.
fn escapes(byte: u8, part: Part) -> bool {
    if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
        return false;
    }
    if matches!(part, Part::Host | Part::Zone) && b"!$&'()*+,;=:[]<>\"".contains(&byte) {
        return false;
    }
    match byte {
        b'$' | b'&' | b'+' | b',' | b'/' | b':' | b';' | b'=' | b'?' | b'@' => match part {
            Part::Path => byte == b'?',
            Part::User => matches!(byte, b'@' | b'/' | b'?' | b':'),
            Part::Query => true,
            Part::Fragment => false,
            Part::Host | Part::Zone => true,
        },
        b'!' | b'(' | b')' | b'*' => part != Part::Fragment,
        _ => true,
    }
}

fn escape(bytes: &[u8], part: Part) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        if escapes(*byte, part) {
            text.push_str(&format!("%{byte:02X}"));
        } else {
            text.push(char::from(*byte));
        }
    }
    text
}

fn unescape(text: &str, part: Part) -> Result<Vec<u8>, String> {
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut index = 0;
    let bad =
        |at: &[u8]| format!("invalid URL escape {}", quote(&String::from_utf8_lossy(&at[..at.len().min(3)])));
    while let Some(byte) = bytes.get(index) {
        match byte {
            b'%' => {
                let hex = |offset: usize| {
                    bytes.get(index + offset).and_then(|digit| char::from(*digit).to_digit(16))
                };
                let (Some(high), Some(low)) = (hex(1), hex(2)) else { return Err(bad(&bytes[index..])) };
                let value = (high * 16 + low) as u8;
                let percent = value == b'%';
                let refused = match part {
                    Part::Host => high < 8 && !percent,
                    Part::Zone => !percent && value != b' ' && escapes(value, Part::Host),
                    _ => false,
                };
                if refused {
                    return Err(bad(&bytes[index..index + 3]));
                }
                plain.push(value);
                index += 2;
            }
            b'+' if part == Part::Query => plain.push(b' '),
            _ => {
                if matches!(part, Part::Host | Part::Zone) && *byte < 0x80 && escapes(*byte, part) {
                    return Err(format!(
                        "invalid character {} in host name",
                        quote(&char::from(*byte).to_string())
                    ));
                }
                plain.push(*byte);
            }
        }
        index += 1;
    }
    Ok(plain)
}
