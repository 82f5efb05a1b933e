//! Runs the program on files, in a folder and without a cluster, and checks its results.
//!
//! Whole outputs are compared with files; `UPDATE_EXPECT=1` rewrites these. Test data comes from the callers.

use serde_json::{Value, json};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// Returns the root folder of the package.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the text of a file of the package.
pub(crate) fn page(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The result of a run.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    /// Converts the output of a finished process.
    pub(crate) fn of(out: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it speaks UTF-8");
        Self { code: out.status.code(), stdout: text(out.stdout), stderr: text(out.stderr) }
    }

    /// Returns the JSON output, after checking its kind and version.
    pub(crate) fn json(&self, kind: &str) -> Value {
        let answer: Value =
            serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"));
        assert_eq!(
            (&answer["apiVersion"], &answer["kind"]),
            (&json!("supercargo.dev/v1alpha1"), &json!(kind))
        );
        answer
    }

    /// Returns the error message for rejected flags or files.
    pub(crate) fn refused(&self) -> &str {
        assert_eq!((self.code, self.stdout.as_str()), (Some(2), ""), "{self:?}");
        self.stderr.strip_prefix("error: ").expect("an error").trim_end()
    }
}

/// Builds a command to run in a folder, with a fixed time and without access to a cluster unless the arguments
/// name one.
pub(crate) fn command(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_supercargo"));
    command.args(args).current_dir(folder);
    command.env_remove("KUBECONFIG").env("HOME", folder).env("SOURCE_DATE_EPOCH", "0");
    command
}

/// Runs the program in a folder.
pub(crate) fn run(folder: &Path, args: &[&str]) -> Ran {
    Ran::of(command(folder, args).output().expect("the program is built"))
}

/// Runs the program in a folder, with a text on its standard input.
pub(crate) fn run_with_input(folder: &Path, args: &[&str], input: &str) -> Ran {
    let mut command = command(folder, args);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program is built");
    let mut to = child.stdin.take().expect("it was asked for");
    std::thread::scope(|scope| {
        // A program that ends without reading its input must not fail the writer.
        scope.spawn(move || drop(to.write_all(input.as_bytes())));
        Ran::of(child.wait_with_output().expect("it ends"))
    })
}

/// A temporary folder with files.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder can be made"))
    }

    /// Creates a folder with the file `cluster`.
    pub(crate) fn with(cluster: &str) -> Self {
        let folder = Self::new();
        folder.write("cluster", cluster);
        folder
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).expect("a file can be written");
        path
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Runs the program in the folder.
    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        run(self.path(), args)
    }
}

/// Formats objects as one list.
pub(crate) fn list(objects: &[Value]) -> String {
    json!({ "apiVersion": "v1", "kind": "List", "items": objects }).to_string()
}

/// Returns a pod spec with one container that requests `cpu`, merged with `more`.
pub(crate) fn spec(cpu: &str, more: &Value) -> Value {
    let mut spec =
        json!({ "containers": [{ "name": "c", "image": "i", "resources": { "requests": { "cpu": cpu } } }] });
    merge(&mut spec, more);
    spec
}

/// Adds the fields of `more` to `into`, replacing existing ones.
pub(crate) fn merge(into: &mut Value, more: &Value) {
    let fields = into.as_object_mut().expect("an object");
    fields.extend(more.as_object().cloned().unwrap_or_default());
}

/// Compares with a file of the package, or writes the file.
pub(crate) fn assert_matches_file(name: &str, output: &str) {
    let path = root().join(name);
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, output).expect("it can be written");
        return;
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(output, expected, "{name} differs; UPDATE_EXPECT=1 rewrites it");
}

/// Splits a command at blanks, except within single quotes.
fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for (part, text) in command.split('\'').enumerate() {
        let is_quoted = part % 2 == 1;
        let mut pieces = text.split(|c| c == ' ' && !is_quoted);
        words.last_mut().expect("one word").push_str(pieces.next().unwrap_or_default());
        words.extend(pieces.map(str::to_owned));
    }
    words
}

/// Runs the examples of a documentation page and compares what a terminal shows with the page.
pub(crate) fn assert_page_shows_output(name: &str, examples: usize) {
    let page = page(name);
    let (mut written, mut rest, mut shown) = (String::new(), page.as_str(), 0);
    while let Some((before, block)) = rest.split_once("```console\n$ supercargo ") {
        let (command, block) = block.split_once('\n').expect("a line");
        let (_, after) = block.split_once("```").expect("its end");
        let words = words(command);
        let ran = run(root(), &words.iter().map(String::as_str).collect::<Vec<_>>());
        written += &format!("{before}```console\n$ supercargo {command}\n{}{}```", ran.stdout, ran.stderr);
        (rest, shown) = (after, shown + 1);
    }
    written += rest;
    assert_eq!(shown, examples, "{name}");
    assert_matches_file(name, &written);
}
