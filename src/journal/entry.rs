//! A recording as it is read: its beginning, then line by line what the engine was told, when it worked, and what it came to.

use super::beginning::{Beginning, KIND};
use super::lines::{Lines, Next};
use super::told::Told;
use super::{API_VERSION, LINE_MAX};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::io::{self, BufRead};
use supercargo_core::event::Kind;

/// Why a recording cannot be taken, or not beyond a line.
#[derive(Debug, thiserror::Error)]
pub enum Bad {
    /// The file cannot be read.
    #[error("cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    /// There is nothing in it.
    #[error("it is empty; the first line of a recording says what it is")]
    Empty,
    /// It begins with something else.
    #[error("line 1: this is no recording of supercargo: {0}")]
    NoRecording(String),
    /// It is of another version.
    #[error(
        "line 1: this is a {kind} of {api_version}, which this version does not read; it reads {API_VERSION}"
    )]
    OtherVersion {
        /// Its `kind`.
        kind: String,
        /// Its `apiVersion`.
        api_version: String,
    },
    /// The engine cannot be made as the first line says.
    #[error("line {line}: {why}")]
    Configuration {
        /// Where.
        line: usize,
        /// Why not.
        why: String,
    },
    /// A line is not what it should be.
    #[error("line {line}: {why}")]
    Line {
        /// Where.
        line: usize,
        /// What is wrong.
        why: String,
    },
}

/// A line after the first.
#[derive(Debug)]
pub struct Entry {
    /// Nanoseconds since the beginning; 0 of what has no time.
    pub at: u64,
    /// What it says.
    pub what: What,
}

/// What a line says.
#[derive(Debug)]
pub enum What {
    /// The engine was told of an object as it is now.
    Applied(Value),
    /// Of one as it was when it went.
    Gone(Value),
    /// Of one that could not be read.
    Unreadable(Value),
    /// Of a list that begins.
    ListBegan(Kind),
    /// Of one that is whole.
    ListEnded(Kind),
    /// Of what is about no object.
    Told(Box<Told>),
    /// It was given another configuration.
    Configured(Value),
    /// It worked, each time so long after `at`.
    Steps(Vec<u64>),
    /// It came to this.
    Decided(Box<RawValue>),
    /// The recording ends here, and why.
    Ends(String),
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Wire {
    at: Option<u64>,
    applied: Option<Value>,
    gone: Option<Value>,
    unreadable: Option<Value>,
    list_began: Option<String>,
    list_ended: Option<String>,
    told: Option<Box<Told>>,
    configured: Option<Value>,
    steps: Option<Vec<u64>>,
    decided: Option<Box<RawValue>>,
    ends: Option<String>,
}

/// A recording that is read.
#[derive(Debug)]
pub struct Entries<R> {
    lines: Lines<R>,
    is_cut: bool,
}

impl<R: BufRead> Entries<R> {
    /// Reads the first line.
    ///
    /// # Errors
    /// When it is no recording, or none that this version reads.
    pub fn open(from: R) -> Result<(Beginning, Self), Bad> {
        let mut lines = Lines::new(from);
        let line = match lines.read()? {
            Next::Line(line) => line,
            Next::End => return Err(Bad::Empty),
            Next::Cut(_) => return Err(Bad::NoRecording("it breaks off within the first line".to_owned())),
            Next::TooLong => return Err(Bad::NoRecording(too_long())),
            Next::NoText => return Err(Bad::NoRecording("it is no text".to_owned())),
        };
        let json: Value = serde_json::from_str(&line).map_err(|error| Bad::NoRecording(error.to_string()))?;
        let (kind, api_version) = (json["kind"].as_str(), json["apiVersion"].as_str());
        let (Some(kind), Some(api_version)) = (kind, api_version) else {
            return Err(Bad::NoRecording("it has no kind and apiVersion".to_owned()));
        };
        if (kind, api_version) != (KIND, API_VERSION) {
            let (kind, api_version) = (kind.to_owned(), api_version.to_owned());
            return Err(Bad::OtherVersion { kind, api_version });
        }
        let beginning: Beginning =
            serde_json::from_value(json).map_err(|error| Bad::NoRecording(error.to_string()))?;
        Ok((beginning, Self { lines, is_cut: false }))
    }

    /// The number of the line that was read last.
    pub fn line(&self) -> usize {
        self.lines.number()
    }

    /// Whether the file breaks off within its last line, as it does where the process that wrote it was killed.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// The next line; nothing at the end, or where what is left is no whole line.
    ///
    /// # Errors
    /// When the line is not what it should be.
    pub fn read(&mut self) -> Result<Option<Entry>, Bad> {
        let text = match self.lines.read()? {
            Next::Line(line) => line,
            Next::End => return Ok(None),
            Next::Cut(_) => {
                self.is_cut = true;
                return Ok(None);
            }
            Next::TooLong => return Err(self.bad(too_long())),
            Next::NoText => return Err(self.bad("this is no text".to_owned())),
        };
        read(&text).map(Some).map_err(|why| self.bad(why))
    }

    /// What is wrong with the line that was read last.
    pub fn bad(&self, why: String) -> Bad {
        Bad::Line { line: self.lines.number(), why }
    }
}

fn too_long() -> String {
    format!("it is longer than {} MiB, which no line is", LINE_MAX >> 20)
}

fn read(text: &str) -> Result<Entry, String> {
    let wire: Wire = serde_json::from_str(text).map_err(|error| {
        let told = error.to_string();
        // Lines are counted in the file, not in themselves.
        told.replace(" at line 1 column ", " at column ")
    })?;
    let Wire {
        at,
        applied,
        gone,
        unreadable,
        list_began,
        list_ended,
        told,
        configured,
        steps,
        decided,
        ends,
    } = wire;
    let whats = [
        applied.map(What::Applied),
        gone.map(What::Gone),
        unreadable.map(What::Unreadable),
        list_began.map(|name| kind(&name).map(What::ListBegan)).transpose()?,
        list_ended.map(|name| kind(&name).map(What::ListEnded)).transpose()?,
        told.map(What::Told),
        configured.map(What::Configured),
        steps.map(What::Steps),
        decided.map(What::Decided),
        ends.map(What::Ends),
    ];
    let mut whats = whats.into_iter().flatten();
    match (whats.next(), whats.next()) {
        (Some(what), None) => Ok(Entry { at: at.unwrap_or_default(), what }),
        (None, _) => Err("it says nothing".to_owned()),
        (Some(_), Some(_)) => Err("it says more than one thing".to_owned()),
    }
}

fn kind(name: &str) -> Result<Kind, String> {
    let known = Kind::ALL.into_iter().find(|kind| kind.as_str() == name);
    known.ok_or_else(|| format!("nothing is known of the kind {name:?}"))
}
