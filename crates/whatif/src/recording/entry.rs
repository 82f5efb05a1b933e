//! Reads a recording: the engine's parameters, then line by line its inputs, steps and decisions.

use crate::recording::decision::API_VERSION;
use crate::recording::header::{Header, KIND};
use crate::recording::input::OtherInput;
use crate::recording::lines::LINE_MAX;
use crate::recording::lines::{Lines, Next};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::io::{self, BufRead};
use supercargo_config::flags::parse_emulated_version;
use supercargo_core::model::emulation::EmulatedVersion;
use supercargo_core::model::event::Kind;

/// Why a recording, or a line of it, is invalid.
#[derive(Debug, thiserror::Error)]
pub enum Bad {
    /// The file cannot be read.
    #[error("cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    /// The file is empty.
    #[error("the file is empty; expected the first line of a recording")]
    Empty,
    /// The file is not a recording.
    #[error("line 1: not a recording of supercargo: {0}")]
    NoRecording(String),
    /// The recording has another version.
    #[error(
        "line 1: {kind} of {api_version} is not supported by this version of supercargo; expected {API_VERSION}"
    )]
    OtherVersion {
        /// Its `kind`.
        kind: String,
        /// Its `apiVersion`.
        api_version: String,
    },
    /// The configuration in a line is invalid.
    #[error("line {line}: {why}")]
    Configuration {
        /// Line number.
        line: usize,
        /// Reason.
        why: String,
    },
    /// A line is malformed.
    #[error("line {line}: {why}")]
    Line {
        /// Line number.
        line: usize,
        /// Reason.
        why: String,
    },
}

/// A line after the first.
#[derive(Debug)]
pub struct Entry {
    /// Time in nanoseconds since the start; 0 for lines without a time.
    pub at: u64,
    /// Content.
    pub what: What,
}

/// Content of a line.
#[derive(Debug)]
pub enum What {
    /// Input: an object was added or updated.
    Applied(Value),
    /// Input: an object was deleted; its last state.
    Gone(Value),
    /// Input: an object that could not be decoded.
    Unreadable(Value),
    /// Input: a list of this resource began.
    ListBegan(Kind),
    /// Input: a list of this resource is complete.
    ListEnded(Kind),
    /// Input that does not concern an object.
    OtherInput(Box<OtherInput>),
    /// The engine was reconfigured: the configuration, and the emulated version if it is recorded.
    Configured(Value, Option<EmulatedVersion>),
    /// The engine made steps, at these nanoseconds after `at`.
    Steps(Vec<u64>),
    /// A decision.
    Decided(Box<RawValue>),
    /// The recording ends, for this reason.
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
    #[serde(rename = "told")]
    input: Option<Box<OtherInput>>,
    configured: Option<Value>,
    /// Only beside `configured`.
    emulated_version: Option<String>,
    steps: Option<Vec<u64>>,
    decided: Option<Box<RawValue>>,
    ends: Option<String>,
}

/// A recording that is being read.
#[derive(Debug)]
pub struct Entries<R> {
    lines: Lines<R>,
    is_cut: bool,
}

impl<R: BufRead> Entries<R> {
    /// Reads the first line.
    ///
    /// # Errors
    /// Fails if the file is not a recording of a supported version.
    pub fn open(from: R) -> Result<(Header, Self), Bad> {
        let mut lines = Lines::new(from);
        let line = match lines.read()? {
            Next::Line(line) => line,
            Next::End => return Err(Bad::Empty),
            Next::Cut(_) => return Err(Bad::NoRecording("the first line is incomplete".to_owned())),
            Next::TooLong => return Err(Bad::NoRecording(too_long())),
            Next::NoText => return Err(Bad::NoRecording("not UTF-8 text".to_owned())),
        };
        let json: Value = serde_json::from_str(&line).map_err(|error| Bad::NoRecording(error.to_string()))?;
        let (kind, api_version) = (json["kind"].as_str(), json["apiVersion"].as_str());
        let (Some(kind), Some(api_version)) = (kind, api_version) else {
            return Err(Bad::NoRecording("kind and apiVersion are missing".to_owned()));
        };
        if (kind, api_version) != (KIND, API_VERSION) {
            let (kind, api_version) = (kind.to_owned(), api_version.to_owned());
            return Err(Bad::OtherVersion { kind, api_version });
        }
        let beginning: Header =
            serde_json::from_value(json).map_err(|error| Bad::NoRecording(error.to_string()))?;
        Ok((beginning, Self { lines, is_cut: false }))
    }

    /// Returns the number of the line read last.
    pub fn line(&self) -> usize {
        self.lines.number()
    }

    /// Returns whether the last line is incomplete, as after the recording process was killed.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Reads the next line; `None` at the end, or if the rest is an incomplete line.
    ///
    /// # Errors
    /// Fails if the line is malformed.
    pub fn read(&mut self) -> Result<Option<Entry>, Bad> {
        let text = match self.lines.read()? {
            Next::Line(line) => line,
            Next::End => return Ok(None),
            Next::Cut(_) => {
                self.is_cut = true;
                return Ok(None);
            }
            Next::TooLong => return Err(self.bad(too_long())),
            Next::NoText => return Err(self.bad("not UTF-8 text".to_owned())),
        };
        read(&text).map(Some).map_err(|why| self.bad(why))
    }

    /// Returns an error about the line read last.
    pub fn bad(&self, why: String) -> Bad {
        Bad::Line { line: self.lines.number(), why }
    }
}

fn too_long() -> String {
    format!("longer than {} MiB, the limit for a line", LINE_MAX >> 20)
}

fn read(text: &str) -> Result<Entry, String> {
    let wire: Wire = serde_json::from_str(text).map_err(|error| {
        let message = error.to_string();
        // The error names the position within the line; only the column is meaningful.
        message.replace(" at line 1 column ", " at column ")
    })?;
    let Wire {
        at,
        applied,
        gone,
        unreadable,
        list_began,
        list_ended,
        input,
        configured,
        emulated_version,
        steps,
        decided,
        ends,
    } = wire;
    let version = emulated_version.as_deref().map(parse_emulated_version).transpose();
    let version = version.map_err(|error| format!("emulatedVersion: {error}"))?;
    let whats = [
        applied.map(What::Applied),
        gone.map(What::Gone),
        unreadable.map(What::Unreadable),
        list_began.map(|name| kind(&name).map(What::ListBegan)).transpose()?,
        list_ended.map(|name| kind(&name).map(What::ListEnded)).transpose()?,
        input.map(What::OtherInput),
        configured.map(|configuration| What::Configured(configuration, version)),
        steps.map(What::Steps),
        decided.map(What::Decided),
        ends.map(What::Ends),
    ];
    let mut whats = whats.into_iter().flatten();
    match (whats.next(), whats.next()) {
        (Some(what), None) => Ok(Entry { at: at.unwrap_or_default(), what }),
        (None, _) => Err("the line has no content".to_owned()),
        (Some(_), Some(_)) => Err("the line has more than one content".to_owned()),
    }
}

fn kind(name: &str) -> Result<Kind, String> {
    let known = Kind::EVERY.into_iter().find(|kind| kind.as_str() == name);
    known.ok_or_else(|| format!("unknown kind {name:?}"))
}
