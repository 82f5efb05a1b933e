//! Passes the commit of the build to the program, for `--version`. Never fails: without git or a commit, the
//! version contains no commit.
//!
//! The same source gives the same text: an archive of a commit (`git archive`) has the commit in `src/commit.txt`;
//! in a checkout, git provides it.

use std::path::Path;
use std::process::Command;

/// Number of shown digits of a commit: as many as git shows in the largest repositories.
const DIGITS: usize = 12;
/// The file that contains the commit in an archive (`export-subst` in `.gitattributes`).
const ARCHIVED: &str = "src/commit.txt";

fn main() {
    let is_release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    println!("cargo::rerun-if-env-changed=SUPERCARGO_COMMIT");
    for file in ["build.rs", "Cargo.toml", "crates", "src"] {
        println!("cargo::rerun-if-changed={file}");
    }
    let given = std::env::var("SUPERCARGO_COMMIT").ok();
    let commit = given.as_deref().and_then(name).or_else(archived).or_else(|| checked_out(is_release));
    if let Some(hash) = commit.as_deref().and_then(|commit| commit.split(' ').next()) {
        println!("cargo::rustc-env=SUPERCARGO_COMMIT_HASH={hash}");
    }
    let profile = profile();
    let text = match (commit, is_release) {
        (Some(commit), true) => format!(" ({commit})"),
        (Some(commit), false) => format!(" ({commit}, {profile} build)"),
        (None, true) => String::new(),
        (None, false) => format!(" ({profile} build)"),
    };
    println!("cargo::rustc-env=SUPERCARGO_BUILD={text}");
}

/// Returns the name of the profile's folder: `debug` for the profile `dev`, else the name of the profile. `PROFILE`
/// only tells `debug` and `release`.
fn profile() -> String {
    // OUT_DIR is PROFILE/build/PACKAGE/out.
    let out = std::env::var("OUT_DIR").unwrap_or_default();
    let folder = Path::new(&out).ancestors().nth(3).and_then(Path::file_name);
    folder.map_or_else(|| "debug".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// Returns the first digits of a commit hash, or `None` if the text is not one.
fn name(text: &str) -> Option<String> {
    let text = text.trim();
    let is_name = text.len() >= DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_name.then(|| text[..DIGITS].to_ascii_lowercase())
}

fn archived() -> Option<String> {
    name(&std::fs::read_to_string(ARCHIVED).ok()?)
}

/// Returns the commit of this checkout, and whether the files were changed since. Ignores a checkout of another
/// project that contains this one.
fn checked_out(is_release: bool) -> Option<String> {
    let top = git(&["rev-parse", "--show-toplevel"])?;
    let same = |a: &str, b: &Path| Some(std::fs::canonicalize(a).ok()? == std::fs::canonicalize(b).ok()?);
    if same(&top, Path::new(".")) != Some(true) {
        return None;
    }
    // A new commit alone does not rebuild a debug build, which shows the commit of the last source change.
    if is_release {
        let branch = git(&["symbolic-ref", "--quiet", "HEAD"]);
        for file in ["HEAD", "packed-refs"].into_iter().chain(branch.as_deref()) {
            let path = git(&["rev-parse", "--git-path", file]).filter(|path| Path::new(path).exists());
            path.iter().for_each(|path| println!("cargo::rerun-if-changed={path}"));
        }
    }
    let commit = name(&git(&["rev-parse", "HEAD"])?)?;
    let is_changed =
        git(&["status", "--porcelain", "--untracked-files=no"]).is_none_or(|text| !text.is_empty());
    Some(if is_changed { format!("{commit} with changes") } else { commit })
}

fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}
