//! Tests of the release binary: static, stripped, small, and without paths of the build machine. It resolves its API
//! server's name, and connects over TLS with a ServiceAccount's token.
//!
//! Part of `make release-check`, which builds it first.

use supercargo_dev::harness;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use harness::ports::Port;
use harness::wait::PATIENCE;
use harness::{Access, Component, ControlPlane, KwokNode, Program, http, objects, supercargo, wait_for};

/// Maximum size of the binary in bytes.
const SIZE_MAX: usize = 24_000_000;

fn dist(name: &str) -> Result<PathBuf> {
    let path = harness::binaries::target_dir().join("dist").join(name);
    ensure!(path.is_file(), "{} is missing; run `make release-binary sbom` first", path.display());
    Ok(path)
}

/// The fields of a 64-bit ELF file that the tests read.
struct Elf {
    bytes: Vec<u8>,
}

impl Elf {
    fn read(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path)?;
        ensure!(bytes.starts_with(b"\x7fELF\x02\x01"), "{} is not a 64-bit ELF file", path.display());
        Ok(Self { bytes })
    }

    fn number(&self, at: usize, length: usize) -> Result<usize> {
        let bytes = self.bytes.get(at..at + length).context("the file is truncated")?;
        Ok(bytes.iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte)))
    }

    /// Returns type, offset and size of its segments.
    fn segments(&self) -> Result<Vec<(usize, usize, usize)>> {
        let (table, size, count) = (self.number(32, 8)?, self.number(54, 2)?, self.number(56, 2)?);
        let segment =
            |at: usize| Ok((self.number(at, 4)?, self.number(at + 8, 8)?, self.number(at + 32, 8)?));
        (0..count).map(|number| segment(table + number * size)).collect()
    }

    /// Returns the types of its sections.
    fn sections(&self) -> Result<BTreeSet<usize>> {
        let (table, size, count) = (self.number(40, 8)?, self.number(58, 2)?, self.number(60, 2)?);
        (0..count).map(|number| self.number(table + number * size + 4, 4)).collect()
    }

    /// Returns the number of shared libraries it needs.
    fn libraries(&self) -> Result<usize> {
        const DYNAMIC: usize = 2;
        const NEEDED: usize = 1;
        let mut needed = 0;
        for (_, begin, length) in self.segments()?.into_iter().filter(|(kind, _, _)| *kind == DYNAMIC) {
            for at in (begin..begin + length).step_by(16) {
                needed += usize::from(self.number(at, 8)? == NEEDED);
            }
        }
        Ok(needed)
    }
}

#[test]
fn release_binary_is_static_stripped_and_small() -> Result<()> {
    const INTERPRETER: usize = 3;
    const SYMBOLS: usize = 2;
    let elf = Elf::read(&dist("supercargo")?)?;
    ensure!(elf.segments()?.iter().all(|(kind, _, _)| *kind != INTERPRETER), "it has an interpreter");
    assert_eq!(elf.libraries()?, 0, "libraries");
    ensure!(!elf.sections()?.contains(&SYMBOLS), "it has symbols");
    let size = elf.bytes.len();
    ensure!(size < SIZE_MAX, "it has {size} bytes");
    eprintln!("release: static, stripped, {size} bytes");
    Ok(())
}

#[test]
fn release_binary_contains_no_path_of_the_build_machine() -> Result<()> {
    let bytes = std::fs::read(dist("supercargo")?)?;
    let home = std::env::var("HOME").unwrap_or_default();
    for folder in [env!("CARGO_MANIFEST_DIR").to_owned(), format!("{home}/.cargo")] {
        let found = bytes.windows(folder.len()).any(|window| window == folder.as_bytes());
        ensure!(!found, "it contains {folder}");
    }
    Ok(())
}

#[test]
fn bill_of_materials_is_complete() -> Result<()> {
    let list: Value = serde_json::from_str(&std::fs::read_to_string(dist("supercargo.cdx.json")?)?)?;
    assert_eq!((&list["bomFormat"], &list["specVersion"]), (&json!("CycloneDX"), &json!("1.5")));
    let parts = list["components"].as_array().context("it has components")?;
    let named: BTreeSet<String> = parts
        .iter()
        .map(|part| {
            format!("{} {}", part["name"].as_str().unwrap_or(""), part["version"].as_str().unwrap_or(""))
        })
        .collect();
    let tree = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--package=supercargo", "--edges=normal", "--prefix=none", "--format={p}"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()?;
    let tree = String::from_utf8(tree.stdout)?;
    let built: BTreeSet<String> = tree
        .lines()
        .filter_map(|line| line.split_once(" v"))
        .map(|(name, rest)| format!("{name} {}", rest.split(' ').next().unwrap_or_default()))
        .filter(|package| !package.starts_with("supercargo "))
        .collect();
    assert_eq!(named, built);
    let foreign = |part: &&Value| part["name"] != "supercargo-core";
    let bare: Vec<_> = parts
        .iter()
        .filter(foreign)
        .filter(|part| part["hashes"].is_null() || part["licenses"].is_null())
        .collect();
    ensure!(bare.is_empty(), "without licence or checksum: {bare:?}");
    eprintln!("release: {} packages listed", named.len());
    Ok(())
}

#[tokio::test]
async fn release_binary_connects_by_name_over_tls_and_schedules() -> Result<()> {
    let parts = [Component::ControllerManager, Component::Scheduler, Component::Kwok];
    let plane = ControlPlane::builder().with(parts).start().await?;
    supercargo::install(&plane).await?;
    let client = plane.client().await?;
    KwokNode::new("only").create(&client).await?;

    // The certificate is valid for that name, too. The system's resolver library is not available.
    let server = format!("https://localhost:{}", plane.port(Component::ApiServer));
    let (_, token) = plane.service_account(supercargo::NAMESPACE, supercargo::NAME).await?;
    let kubeconfig = plane.folder().join("release.kubeconfig");
    let credential = harness::access::Credential::TokenFile(token.path());
    Access::write(&kubeconfig, &server, &plane.ca(), &credential)?;
    let port = Port::reserve()?;
    let program = Program::new("release", dist("supercargo")?)
        .arg(format!("--kubeconfig={}", kubeconfig.display()))
        .arg("--bind-address=127.0.0.1")
        .arg(format!("--secure-port={}", port.number()));
    let process = plane.launch(&program)?;
    let pods = Api::<Pod>::namespaced(client.clone(), "default");
    let pod = objects::pod("web", "default", &json!({"schedulerName": supercargo::NAME}))?;
    pods.create(&PostParams::default(), &pod).await?;
    objects::wait_until_bound(&client, "default", "web").await.with_context(|| process.log_tail(20))?;
    let url = format!("https://127.0.0.1:{}/readyz", port.number());
    wait_for("it to be ready", PATIENCE, || async {
        let (status, body) = http::get(&url, None).await?;
        ensure!(status == 200, "{status}: {body}");
        Ok(())
    })
    .await?;
    eprintln!("release: reached {server} by name, and placed a pod");
    Ok(())
}
