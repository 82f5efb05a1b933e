//! Tests of client certificates, with authorities made for each test.

use super::*;
use http::HeaderValue;
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use supercargo_config::flags::CommandLine;

struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "authority");
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    fn signs(&self, name: &str, groups: &[&str]) -> PeerCertificates {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        for group in groups {
            params.distinguished_name.push(DnType::OrganizationName, *group);
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = params.signed_by(&KeyPair::generate().unwrap(), &self.issuer).unwrap();
        PeerCertificates(vec![certificate.der().clone()].into())
    }
}

/// Clients of `--client-ca-file` and `--requestheader-client-ca-file`, and further flags.
struct Setup {
    users: Authority,
    proxies: Authority,
    clients: Clients,
    folder: tempfile::TempDir,
}

impl Setup {
    fn new(flags: &[&str]) -> Self {
        let (users, proxies) = (Authority::new(), Authority::new());
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, pem: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, pem).unwrap();
            path.display().to_string()
        };
        let mut line = vec![
            format!("--client-ca-file={}", file("users", &users.pem)),
            format!("--requestheader-client-ca-file={}", file("proxies", &proxies.pem)),
        ];
        line.extend(flags.iter().map(|flag| (*flag).to_owned()));
        let line: Vec<_> = line.into_iter().map(std::ffi::OsString::from).collect();
        let parsed = CommandLine::read(&line, &[]);
        assert_eq!(parsed.problems, [""; 0]);
        Self { users, proxies, clients: Clients::of(&parsed.values).unwrap(), folder }
    }

    fn user(
        &self,
        headers: &[(&'static str, &str)],
        certificates: &PeerCertificates,
    ) -> Result<Option<User>, Untrusted> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_str(value).unwrap());
        }
        self.clients.user(&map, certificates, UnixTime::now())
    }
}

fn user(name: &str, groups: &[&str]) -> User {
    let groups = groups.iter().chain(&[AUTHENTICATED]).map(|group| (*group).to_owned()).collect();
    User { name: name.to_owned(), groups, ..User::default() }
}

#[test]
fn certificate_names_the_user_and_its_groups() {
    let setup = Setup::new(&[]);
    let certificates = setup.users.signs("prometheus", &["monitoring"]);
    assert_eq!(setup.user(&[], &certificates), Ok(Some(user("prometheus", &["monitoring"]))));
    // Headers count only from a front proxy.
    assert_eq!(
        setup.user(&[("x-remote-user", "admin")], &certificates),
        Ok(Some(user("prometheus", &["monitoring"])))
    );
    assert_eq!(setup.user(&[], &Authority::new().signs("prometheus", &[])), Err(Untrusted));
    // No user, and no trusted proxy either.
    assert_eq!(setup.user(&[], &setup.users.signs("", &[])), Err(Untrusted));
}

#[test]
fn front_proxy_names_the_user_in_headers() {
    let setup = Setup::new(&["--requestheader-uid-headers=X-Remote-Uid"]);
    let certificates = setup.proxies.signs("front-proxy-client", &[]);
    let headers = [
        ("x-remote-user", "alice"),
        ("x-remote-group", "admins"),
        ("x-remote-group", "devs"),
        ("x-remote-uid", "7"),
        ("x-remote-extra-acme.com%2fproject", "blue"),
    ];
    let expected = User {
        uid: "7".to_owned(),
        extra: [("acme.com/project".to_owned(), vec!["blue".to_owned()])].into(),
        ..user("alice", &["admins", "devs"])
    };
    assert_eq!(setup.user(&headers, &certificates), Ok(Some(expected)));
    // Without a user in the headers, the proxy's certificate is judged as a user's.
    assert_eq!(setup.user(&[], &certificates), Err(Untrusted));
}

#[test]
fn only_allowed_front_proxies_are_trusted() {
    let setup = Setup::new(&[
        "--requestheader-allowed-names=front,second",
        "--requestheader-username-headers=X-User",
    ]);
    for (name, expected) in [("second", Ok(Some(user("alice", &[])))), ("other", Err(Untrusted))] {
        assert_eq!(setup.user(&[("x-user", "alice")], &setup.proxies.signs(name, &[])), expected);
    }
}

#[test]
fn changed_authorities_are_reread_and_unusable_ones_are_not() {
    let setup = Setup::new(&[]);
    let old = setup.users.signs("old", &[]);
    let next = Authority::new();
    let file = setup.folder.path().join("users");
    std::fs::write(&file, "not PEM").unwrap();
    setup.clients.refresh();
    assert_eq!(setup.user(&[], &old), Ok(Some(user("old", &[]))));
    std::fs::write(&file, &next.pem).unwrap();
    setup.clients.refresh();
    assert_eq!(setup.user(&[], &old), Err(Untrusted));
    assert_eq!(setup.user(&[], &next.signs("new", &[])), Ok(Some(user("new", &[]))));
}

#[test]
fn unusable_file_is_named_with_its_flag() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.crt");
    std::fs::write(&file, "This is no certificate.").unwrap();
    for (file, why) in
        [(file.display().to_string(), "it contains no PEM certificate"), ("none".to_owned(), "No such file")]
    {
        let line = [std::ffi::OsString::from(format!("--client-ca-file={file}"))];
        let error = Clients::of(&CommandLine::read(&line, &[]).values).unwrap_err().to_string();
        assert!(error.contains(&format!("{file} as --client-ca-file: ")) && error.contains(why), "{error}");
    }
}

#[test]
fn malformed_escapes_in_attributes_stay() {
    for (key, expected) in
        [("a%2fb", "a/b"), ("%", "%"), ("a%zz", "a%zz"), ("%ff", "%ff"), ("plain", "plain")]
    {
        assert_eq!(unescaped(key), expected);
    }
}

#[test]
fn cluster_supplies_authorities_that_no_flag_names() {
    let of = |flags: &[String]| {
        let flags: Vec<_> = flags.iter().map(std::ffi::OsString::from).collect();
        Clients::of(&CommandLine::read(&flags, &[]).values).unwrap()
    };
    let (users, proxies) = (Authority::new(), Authority::new());
    let data: BTreeMap<String, String> = [
        ("client-ca-file", users.pem.as_str()),
        ("requestheader-client-ca-file", &proxies.pem),
        ("requestheader-allowed-names", r#"["front"]"#),
        ("requestheader-username-headers", r#"["X-Remote-User"]"#),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into();
    let mut headers = HeaderMap::new();
    headers.insert("x-remote-user", HeaderValue::from_static("alice"));
    let clients = of(&["--authentication-kubeconfig=file".to_owned()]);
    let asked = |certificates: &PeerCertificates| clients.user(&headers, certificates, UnixTime::now());
    assert_eq!(asked(&users.signs("bob", &[])), Ok(None), "nothing is read yet");
    clients.apply(&data).unwrap();
    assert_eq!(asked(&users.signs("bob", &[])), Ok(Some(user("bob", &[]))));
    assert_eq!(asked(&proxies.signs("front", &[])), Ok(Some(user("alice", &[]))));
    assert_eq!(asked(&proxies.signs("back", &[])), Err(Untrusted));
    // Unusable data changes nothing.
    let wrong =
        [("requestheader-client-ca-file", proxies.pem.as_str()), ("requestheader-allowed-names", "front")];
    let wrong = wrong.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    assert!(clients.apply(&wrong).unwrap_err().starts_with("requestheader-allowed-names: "));
    assert_eq!(asked(&users.signs("bob", &[])), Ok(Some(user("bob", &[]))));
    // A flag's authorities stay.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca");
    std::fs::write(&file, &users.pem).unwrap();
    let clients =
        of(&["--authentication-kubeconfig=file".to_owned(), format!("--client-ca-file={}", file.display())]);
    let other = [("client-ca-file".to_owned(), Authority::new().pem)].into();
    clients.apply(&other).unwrap();
    assert_eq!(clients.user(&headers, &users.signs("bob", &[]), UnixTime::now()), Ok(Some(user("bob", &[]))));
    let skipping = ["--authentication-kubeconfig=file", "--authentication-skip-lookup"].map(str::to_owned);
    assert!(!of(&skipping).look_up() && !of(&[]).ask());
}
