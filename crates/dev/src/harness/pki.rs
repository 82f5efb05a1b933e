//! Keys and certificates of a control plane, laid out as by kubeadm: a certificate authority, serving and client
//! certificates, and the key pair that signs ServiceAccount tokens.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// Names in the API server's certificate, used by local components and by pods with cluster DNS.
const SERVING_NAMES: [&str; 7] = [
    "127.0.0.1",
    "10.96.0.1",
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];

/// A control plane's certificate authority and its folder.
pub struct Pki {
    folder: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

impl Pki {
    /// Creates all files that components need.
    pub fn create(folder: &Path) -> Result<Self> {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let pki =
            Self { folder: folder.to_owned(), issuer: authority("kubernetes-ca", &folder.join("ca.crt"))? };
        // The aggregation layer has its own authority, so that no client certificate can impersonate users through it.
        authority("front-proxy-ca", &folder.join("front-proxy-ca.crt"))?;
        let mut serving = CertificateParams::new(SERVING_NAMES.map(String::from))?;
        serving.distinguished_name.push(DnType::CommonName, "kube-apiserver");
        pki.issue(serving, ExtendedKeyUsagePurpose::ServerAuth, "serving")?;
        let accounts = KeyPair::generate()?;
        write_private(&folder.join("sa.key"), &accounts.serialize_pem())?;
        write_private(&folder.join("sa.pub"), &accounts.public_key_pem())?;
        Ok(pki)
    }

    /// Returns the path of a file in this folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Issues a client certificate for `user` in `group`: `<stem>.crt` and `<stem>.key`.
    pub fn issue_client(&self, user: &str, group: Option<&str>, stem: &str) -> Result<()> {
        let mut client = CertificateParams::new([])?;
        client.distinguished_name.push(DnType::CommonName, user);
        if let Some(group) = group {
            client.distinguished_name.push(DnType::OrganizationName, group);
        }
        self.issue(client, ExtendedKeyUsagePurpose::ClientAuth, stem)
    }

    fn issue(&self, mut params: CertificateParams, usage: ExtendedKeyUsagePurpose, stem: &str) -> Result<()> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        params.extended_key_usages = vec![usage];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        write_private(&self.file(&format!("{stem}.crt")), &certificate.pem())?;
        write_private(&self.file(&format!("{stem}.key")), &key.serialize_pem())
    }
}

/// Atomically writes a file that only its owner can read.
pub fn write_private(path: &Path, text: &str) -> Result<()> {
    let write = || -> std::io::Result<()> {
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        let part = PathBuf::from(part);
        let mut file = OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(&part)?;
        file.write_all(text.as_bytes())?;
        std::fs::rename(&part, path)
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

fn authority(name: &str, certificate_file: &Path) -> Result<Issuer<'static, KeyPair>> {
    let mut params = CertificateParams::new([])?;
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages =
        vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let key = KeyPair::generate()?;
    write_private(certificate_file, &params.self_signed(&key)?.pem())?;
    Ok(Issuer::new(params, key))
}
