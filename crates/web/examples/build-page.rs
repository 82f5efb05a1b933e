//! Builds the page with the engine: one HTML file, in which the WebAssembly module, the styles and the scripts are
//! embedded. Prints its size, also as compressed by a web server, and fails if that is too large.
//!
//!     build-page MODULE FOLDER
//!
//! The content security policy allows only the scripts and styles of this file, by their hashes, and no connection.

use anyhow::{Context as _, bail, ensure};
use k8s_openapi::ByteString;
use serde_json::Value;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use supercargo_core::model::emulation::EmulatedVersion;

/// The largest size of the page as Brotli compresses it, in bytes.
const COMPRESSED_MAX: usize = 2_000_000;
/// Brotli's highest quality, which static hosts use, and its largest standard window.
const BROTLI: (u32, u32) = (11, 24);

const PAGE: &str = include_str!("../page/page.html");
const STYLE: &str = include_str!("../page/page.css");
const WORKER: &str = include_str!("../page/worker.js");
const LESSONS: &str = include_str!("../page/lessons.json");
/// Parts of the script, concatenated in this order.
const SCRIPT: &str = concat!(
    include_str!("../page/parts.js"),
    include_str!("../page/panel.js"),
    include_str!("../page/page.js")
);

fn main() -> anyhow::Result<()> {
    let args: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [module, to] = args.as_slice() else { bail!("usage: build-page MODULE FOLDER") };
    let module = fs::read(module).with_context(|| format!("cannot read {}", module.display()))?;
    let page = page(&module, Path::new("."))?;
    fs::create_dir_all(to).with_context(|| format!("cannot create {}", to.display()))?;
    let file = to.join("index.html");
    fs::write(&file, &page).with_context(|| format!("cannot write {}", file.display()))?;
    let compressed = brotli_size(page.as_bytes());
    let mut out = std::io::stdout();
    writeln!(
        out,
        "{}: {} bytes, {compressed} with Brotli (limit {COMPRESSED_MAX}); the module has {} bytes",
        file.display(),
        page.len(),
        module.len()
    )?;
    ensure!(
        compressed <= COMPRESSED_MAX,
        "the page is too large: find what grew with `twiggy` or a smaller profile"
    );
    Ok(())
}

/// Returns the page. Lessons name files below `root`.
fn page(module: &[u8], root: &Path) -> anyhow::Result<String> {
    let policy = format!(
        "default-src 'none'; connect-src 'none'; script-src '{}' 'wasm-unsafe-eval'; style-src '{}'; worker-src blob:; base-uri 'none'; form-action 'none'",
        source_of(SCRIPT),
        source_of(STYLE)
    );
    let versions = EmulatedVersion::ALL.iter().rev().map(|version| {
        let version = version.as_str();
        format!("<option value=\"{version}\">{version}</option>")
    });
    let parts = [
        ("policy", policy),
        ("style", STYLE.to_owned()),
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ("versions", versions.collect()),
        ("lessons", lessons(root)?),
        ("worker", WORKER.to_owned()),
        // Not compressed: a web server's Brotli makes more of it than of compressed bytes.
        ("engine", base64(module.to_vec())),
        ("script", SCRIPT.to_owned()),
    ];
    for (name, part) in &parts {
        ensure!(!part.contains("</script") && !part.contains("<!--"), "{name} would end its element");
    }
    filled(PAGE, &parts)
}

/// Returns the lessons, each with the objects of its file, as JSON that can stand in a script element.
fn lessons(root: &Path) -> anyhow::Result<String> {
    let mut lessons: Vec<Value> = serde_json::from_str(LESSONS).context("lessons.json")?;
    for lesson in &mut lessons {
        let file = root.join(lesson["file"].as_str().context("a lesson names its file")?);
        let objects = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        for step in lesson["steps"].as_array().into_iter().flatten() {
            let from = step["from"].as_str().unwrap_or_default();
            ensure!(objects.contains(from), "{} does not contain {from:?}", file.display());
        }
        lesson["objects"] = objects.into();
    }
    Ok(serde_json::to_string(&lessons)?.replace('<', "\\u003c"))
}

/// Replaces each `{{name}}` of the template. Inserted text is not expanded again.
fn filled(template: &str, parts: &[(&str, String)]) -> anyhow::Result<String> {
    let mut out = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        let (name, after) = after.split_once("}}").context("a placeholder of the template is not closed")?;
        let part = parts.iter().find(|(other, _)| *other == name);
        out.push_str(before);
        out.push_str(&part.with_context(|| format!("unknown placeholder {name}"))?.1);
        rest = after;
    }
    Ok(out + rest)
}

fn base64(bytes: Vec<u8>) -> String {
    let value = serde_json::to_value(ByteString(bytes)).expect("bytes become a text");
    value.as_str().unwrap_or_default().to_owned()
}

/// Returns the policy source of a text: its SHA-256 hash.
fn source_of(text: &str) -> String {
    let hash = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    format!("sha256-{}", base64(hash.as_ref().to_vec()))
}

/// Returns the size of a text as Brotli compresses it.
fn brotli_size(text: &[u8]) -> usize {
    let (quality, window) = BROTLI;
    let mut writer = brotli::CompressorWriter::new(Vec::new(), 1 << 16, quality, window);
    writer.write_all(text).expect("writing to memory succeeds");
    writer.into_inner().len()
}
