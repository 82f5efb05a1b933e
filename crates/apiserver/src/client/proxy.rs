//! Proxy selection by the rules of Go's `golang.org/x/net/http/httpproxy`, which client-go follows.
//!
//! A kubeconfig's `proxy-url` takes precedence and applies unconditionally. Otherwise HTTPS_PROXY (HTTP_PROXY
//! for a server without TLS) names the proxy, and NO_PROXY lists the servers to reach directly.

use std::net::IpAddr;

use anyhow::{Context as _, Result, bail};
use hickory_resolver::proto::rr::Name;
use http::{HeaderValue, Uri};
use hyper_util::client::proxy::matcher::Matcher;

/// A proxy.
#[derive(Clone, Debug)]
pub(super) struct Proxy {
    /// Scheme, host and port, without credentials.
    pub(super) url: Uri,
    pub(super) scheme: Scheme,
    /// `Proxy-Authorization` header for an HTTP proxy.
    pub(super) authorization: Option<HeaderValue>,
    /// User and password for a SOCKS proxy.
    pub(super) login: Option<(String, String)>,
}

/// Protocol of a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheme {
    Http,
    Https,
    Socks5,
}

impl Proxy {
    /// Parses a proxy URL.
    ///
    /// # Errors
    /// Returns an error when the scheme is not http, https or socks5, or the host is missing.
    pub(super) fn of(url: &Uri) -> Result<Self> {
        let (scheme, default_port) = match url.scheme_str().unwrap_or_default() {
            "http" => (Scheme::Http, 80),
            "https" => (Scheme::Https, 443),
            // As in Go, the proxy resolves names with either scheme.
            "socks5" | "socks5h" => (Scheme::Socks5, 1080),
            other => {
                bail!("the proxy scheme {other:?} is not supported; use http, https or socks5")
            }
        };
        // The matcher only parses the credentials here; it does not select the proxy.
        let proxied = Uri::from_static("https://any.invalid");
        let given = Matcher::builder().all(url.to_string()).build().intercept(&proxied);
        let given = given.context("the proxy URL has no host")?;
        let port = url.port_u16().unwrap_or(default_port);
        let authority = format!("{}:{port}", given.uri().host().unwrap_or_default());
        let bare = Uri::builder().scheme(url.scheme_str().unwrap_or_default()).authority(authority);
        Ok(Self {
            url: bare.path_and_query("/").build().context("the proxy URL has no valid host")?,
            scheme,
            authorization: given.basic_auth().cloned(),
            login: given.raw_auth().map(|(user, password)| (user.to_owned(), password.to_owned())),
        })
    }
}

/// The proxy variables of an environment.
#[derive(Clone, Debug, Default)]
pub(super) struct Variables {
    http: String,
    https: String,
    no: String,
    /// Whether this is a CGI program, where a client can set HTTP_PROXY by a header.
    is_cgi: bool,
}

impl Variables {
    /// Reads the variables of this process.
    pub(super) fn of_process() -> Self {
        Self::of(|name| std::env::var(name).ok())
    }

    /// Reads the variables of an environment. Lower-case names take precedence, and an empty value counts as
    /// unset.
    pub(super) fn of(get: impl Fn(&str) -> Option<String>) -> Self {
        let any = |lower: &str, upper: &str| {
            let set = [lower, upper].into_iter().filter_map(&get).find(|value| !value.is_empty());
            set.unwrap_or_default()
        };
        Self {
            http: any("http_proxy", "HTTP_PROXY"),
            https: any("https_proxy", "HTTPS_PROXY"),
            no: any("no_proxy", "NO_PROXY"),
            is_cgi: get("REQUEST_METHOD").is_some_and(|method| !method.is_empty()),
        }
    }

    /// Returns the URL of the proxy for requests to `target`, if any.
    ///
    /// # Errors
    /// Returns an error when HTTP_PROXY would apply in a CGI program.
    pub(super) fn proxy_for(&self, target: &Uri) -> Result<Option<Uri>> {
        let is_plain = target.scheme_str() == Some("http");
        let value = match target.scheme_str() {
            Some("https") => &self.https,
            Some("http") => &self.http,
            _ => return Ok(None),
        };
        let Some(proxy) = parsed(value) else { return Ok(None) };
        if is_plain && self.is_cgi {
            bail!(
                "HTTP_PROXY is not used in a CGI program (REQUEST_METHOD is set), where a client may have set it"
            );
        }
        let port = target.port_u16().unwrap_or(if is_plain { 80 } else { 443 });
        Ok(self.is_proxied(target.host().unwrap_or_default(), port).then_some(proxy))
    }

    /// Whether the server is reached through the proxy according to NO_PROXY. Loopback addresses never are.
    fn is_proxied(&self, host: &str, port: u16) -> bool {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host == "localhost" {
            return false;
        }
        let ip = host.parse::<IpAddr>().ok().map(|ip| ip.to_canonical());
        if ip.is_some_and(|ip| ip.is_loopback()) {
            return false;
        }
        let host = host.trim().to_lowercase();
        !self.no.split(',').filter_map(Exception::of).any(|exception| exception.covers(&host, ip, port))
    }
}

/// Parses a proxy variable, whose scheme is optional. Returns `None` for an invalid value, which Go ignores,
/// too.
fn parsed(value: &str) -> Option<Uri> {
    if value.is_empty() {
        return None;
    }
    let whole = value.parse::<Uri>().ok();
    whole
        .filter(|uri| uri.scheme().is_some() && uri.host().is_some_and(|host| !host.is_empty()))
        .or_else(|| format!("http://{value}").parse().ok())
}

/// An entry of NO_PROXY.
#[derive(Debug)]
enum Exception {
    Everything,
    Network(IpAddr, u8),
    Address(IpAddr, Option<String>),
    Domain {
        /// The domain with a leading dot.
        suffix: String,
        port: Option<String>,
        /// Whether the domain itself matches as well.
        itself: bool,
    },
}

impl Exception {
    /// Parses an entry; `None` if it is malformed.
    fn of(entry: &str) -> Option<Self> {
        let entry = entry.trim().to_lowercase();
        if entry == "*" {
            return Some(Self::Everything);
        }
        if let Some((ip, bits)) = network(&entry) {
            return Some(Self::Network(ip, bits));
        }
        let (host, port) = host_and_port(&entry);
        let port = port.filter(|port| !port.is_empty()).map(str::to_owned);
        if let Ok(ip) = host.parse::<IpAddr>() {
            return Some(Self::Address(ip.to_canonical(), port));
        }
        let host = if host.starts_with("*.") { &host[1..] } else { host };
        let (name, itself) = host.strip_prefix('.').map_or((host, true), |name| (name, false));
        if host.is_empty() {
            return None;
        }
        Some(Self::Domain { suffix: format!(".{}", ascii(name)), port, itself })
    }

    fn covers(&self, host: &str, ip: Option<IpAddr>, port: u16) -> bool {
        let is_port =
            |wanted: &Option<String>| wanted.as_ref().is_none_or(|wanted| *wanted == port.to_string());
        match (self, ip) {
            (Self::Everything, _) => true,
            (Self::Network(network, bits), Some(ip)) => is_within(ip, *network, *bits),
            (Self::Address(address, port), Some(ip)) => *address == ip && is_port(port),
            (Self::Domain { suffix, port, itself }, None) => {
                (host.ends_with(suffix.as_str()) || *itself && host == &suffix[1..]) && is_port(port)
            }
            _ => false,
        }
    }
}

/// Parses a CIDR such as `10.0.0.0/8` into its address and prefix length.
fn network(text: &str) -> Option<(IpAddr, u8)> {
    let (ip, bits) = text.split_once('/')?;
    let written = ip.parse::<IpAddr>().ok()?;
    let bits =
        Some(bits).filter(|bits| bits.bytes().all(|byte| byte.is_ascii_digit()))?.parse::<u8>().ok()?;
    let (ip, width) = (written.to_canonical(), if written.is_ipv6() { 128 } else { 32 });
    // An IPv4-mapped IPv6 network counts as an IPv4 network.
    let skipped = if written.is_ipv6() && ip.is_ipv4() { 96 } else { 0 };
    (bits <= width).then(|| (ip, bits.saturating_sub(skipped)))
}

fn is_within(ip: IpAddr, network: IpAddr, bits: u8) -> bool {
    let differing = match (ip, network) {
        (IpAddr::V4(ip), IpAddr::V4(network)) => (ip.to_bits() ^ network.to_bits()).leading_zeros(),
        (IpAddr::V6(ip), IpAddr::V6(network)) => (ip.to_bits() ^ network.to_bits()).leading_zeros(),
        _ => return false,
    };
    differing >= u32::from(bits)
}

/// Splits like Go's `net.SplitHostPort`; if that fails, the whole entry is the host.
fn host_and_port(entry: &str) -> (&str, Option<&str>) {
    if let Some((host, port)) = entry.strip_prefix('[').and_then(|rest| rest.split_once("]:")) {
        return (host, Some(port));
    }
    match entry.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') => (host, Some(port)),
        _ => (entry, None),
    }
}

/// Returns the name in its ASCII form, as in URLs.
fn ascii(name: &str) -> String {
    if name.is_ascii() {
        return name.to_owned();
    }
    Name::from_utf8(name).map_or_else(|_| name.to_owned(), |name| name.to_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> Variables {
        let get = |name: &str| pairs.iter().find(|(of, _)| *of == name).map(|(_, value)| (*value).to_owned());
        Variables::of(get)
    }

    fn proxy(pairs: &[(&str, &str)], target: &str) -> String {
        let proxy = variables(pairs).proxy_for(&target.parse().unwrap());
        match proxy {
            Ok(proxy) => {
                proxy.map_or("none".to_owned(), |url| url.to_string().trim_end_matches('/').to_owned())
            }
            Err(error) => error.to_string(),
        }
    }

    /// The cases of `httpproxy/proxy_test.go`.
    #[test]
    fn proxy_variables_are_read_as_in_go() {
        let example = "http://example.com";
        let values = [
            ("127.0.0.1:8080", "http://127.0.0.1:8080"),
            ("cache.corp.example.com:1234", "http://cache.corp.example.com:1234"),
            ("cache.corp.example.com", "http://cache.corp.example.com"),
            ("localhost", "http://localhost"),
            ("https://cache.corp.example.com", "https://cache.corp.example.com"),
            ("https://127.0.0.1:8080", "https://127.0.0.1:8080"),
            ("socks5://127.0.0.1", "socks5://127.0.0.1"),
            ("foo://host", "foo://host"),
            ("", "none"),
        ];
        for (value, wanted) in values {
            assert_eq!(proxy(&[("HTTP_PROXY", value)], example), wanted, "{value}");
            assert_eq!(proxy(&[("HTTPS_PROXY", value)], "https://example.com"), wanted, "{value}");
        }
        let both = [("HTTP_PROXY", "http.proxy.tld"), ("HTTPS_PROXY", "https://secure.proxy.tld")];
        assert_eq!(proxy(&both, "http://insecure.tld/"), "http://http.proxy.tld");
        assert_eq!(proxy(&both, "https://secure.tld/"), "https://secure.proxy.tld");
        assert_eq!(proxy(&both[..1], "https://secure.tld/"), "none");
        assert_eq!(proxy(&both[..1], "ftp://insecure.tld/"), "none");
        let cases = [("HTTPS_PROXY", "upper"), ("https_proxy", "lower")];
        assert_eq!(proxy(&cases, "https://secure.tld/"), "http://lower");
        assert_eq!(proxy(&[("HTTPS_PROXY", "upper"), ("https_proxy", "")], "https://x.tld/"), "http://upper");
        let cgi = [("HTTP_PROXY", "a"), ("HTTPS_PROXY", "b"), ("REQUEST_METHOD", "GET")];
        assert!(proxy(&cgi, example).starts_with("HTTP_PROXY is not used in a CGI program"));
        assert_eq!(proxy(&cgi, "https://secure.tld/"), "http://b");
    }

    /// The cases of `httpproxy/proxy_test.go`, all for port 80.
    #[test]
    fn no_proxy_exceptions_match_as_in_go() {
        let no = "foobar.com, .barbaz.net, *.wildcard.io, 192.168.1.1, 192.168.1.2:81, 192.168.1.3:80, 10.0.0.0/30, \
                  2001:db8::52:0:1, [2001:db8::52:0:2]:443, [2001:db8::52:0:3]:80, 2002:db8:a::45/64";
        let cases = [
            ("localhost", false),
            ("127.0.0.1", false),
            ("127.0.0.2", false),
            ("[::1]", false),
            ("[::2]", true),
            ("192.168.1.1", false),
            ("192.168.1.2", true),
            ("192.168.1.3", false),
            ("192.168.1.4", true),
            ("10.0.0.2", false),
            ("10.0.0.4", true),
            ("[2001:db8::52:0:1]", false),
            ("[2001:db8::52:0:2]", true),
            ("[2001:db8::52:0:3]", false),
            ("[2002:db8:a::123]", false),
            ("[fe80::424b:c8be:1643:a1b6]", true),
            ("[::ffff:10.0.0.2]", false),
            ("[::ffff:127.0.0.1]", false),
            ("barbaz.net", true),
            ("www.barbaz.net", false),
            ("foobar.com", false),
            ("FOOBAR.com", false),
            ("www.foobar.com", false),
            ("foofoobar.com", true),
            ("baz.com", true),
            ("localhost.net", true),
            ("local.localhost", true),
            ("barbarbaz.net", true),
            ("wildcard.io", true),
            ("nested.wildcard.io", false),
            ("awildcard.io", true),
        ];
        for (host, wanted) in cases {
            let of = |no| variables(&[("NO_PROXY", no)]).is_proxied(host, 80);
            assert_eq!(of(no), wanted, "{host}");
            assert!(!of("*") && !of("other, * "), "{host}");
            assert!(
                !wanted || of(":1,,[,10.0.0.0/33,10.0.0.0/+8,/8,["),
                "malformed entries match nothing: {host}"
            );
        }
    }

    #[test]
    fn no_proxy_supports_ports_networks_and_international_names() {
        let cases = [
            ("example.com:6443", "https://example.com:6443", true),
            ("example.com:6443", "https://a.example.com:6443", true),
            ("example.com:6443", "https://example.com", false),
            (".example.com:443", "https://a.example.com", true),
            ("example.com:", "https://example.com", true),
            ("10.96.0.0/12", "https://10.96.0.1:443", true),
            ("10.96.0.0/12", "https://10.112.0.1:443", false),
            ("0.0.0.0/0", "https://192.0.2.1", true),
            ("::/0", "https://192.0.2.1", false),
            ("::ffff:10.0.0.0/104", "https://10.9.9.9", true),
            ("fd00::/8", "https://[fd12::1]:6443", true),
            ("1.2.3.4", "https://1.2.3.4.example.com", false),
            ("4", "https://1.2.3.4", false),
            ("示例.com", "http://www.xn--fsq092h.com", true),
            (".svc,.cluster.local", "https://kubernetes.default.svc", true),
        ];
        for (no, target, wanted) in cases {
            let pairs = [("HTTP_PROXY", "proxy"), ("HTTPS_PROXY", "proxy"), ("NO_PROXY", no)];
            assert_eq!(proxy(&pairs, target) == "none", wanted, "{no} {target}");
        }
    }

    #[test]
    fn proxy_url_yields_scheme_port_and_credentials() {
        let of = |url: &str| Proxy::of(&url.parse().unwrap());
        let http = of("http://Aladdin:open%20sesame@p").unwrap();
        assert_eq!((http.url.to_string().as_str(), http.scheme), ("http://p:80/", Scheme::Http));
        assert_eq!(http.authorization.unwrap(), "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
        let https = of("https://[::1]:3/").unwrap();
        assert_eq!((https.url.to_string().as_str(), https.scheme), ("https://[::1]:3/", Scheme::Https));
        assert!(https.authorization.is_none() && https.login.is_none());
        let socks = of("socks5://me%40x:a:b%25@p").unwrap();
        assert_eq!((socks.url.to_string().as_str(), socks.scheme), ("socks5://p:1080/", Scheme::Socks5));
        assert_eq!(socks.login, Some(("me@x".to_owned(), "a:b%".to_owned())));
        assert!(of("ftp://p").unwrap_err().to_string().contains("\"ftp\" is not supported"));
    }
}
