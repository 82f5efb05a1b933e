//! Replays a recording with an identical engine. Reports the first difference, and what another configuration
//! would decide.

use crate::recording::decision::Decision;
use crate::recording::entry::{Bad, Entries, What};
use crate::recording::header::{Header, profiles, settings};
use serde_json::Value;
use std::collections::VecDeque;
use std::io::BufRead;
use std::time::Duration;
use supercargo_config::Settings;
use supercargo_config::extenders::unreached;
use supercargo_core::cycle::NoProbe;
use supercargo_core::model::emulation::EmulatedVersion;
use supercargo_core::model::event::Event;
use supercargo_core::model::intern::Tables;
use supercargo_core::model::time::Time;
use supercargo_core::report::Outcome;
use supercargo_core::scheduler::{Alternative, Scheduler, Step};
use supercargo_objects::api::Object;
use supercargo_objects::convert::Watched as _;
use supercargo_objects::of_any_kind;

/// Number of lines after which unused ids are collected, as the driver does.
const TIDY_EVERY: usize = 256;

/// Reason in the last line of a recording that was stopped and is complete.
pub const STOPPED: &str = "stopped";

/// First difference between a replay and its recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Divergence {
    /// Line of the recording.
    pub line: usize,
    /// Recorded decision; `None` if nothing was recorded.
    pub then: Option<String>,
    /// Decision of the replay; `None` if there is none.
    pub now: Option<String>,
}

/// Result of a replay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Number of lines read.
    pub lines: usize,
    /// Number of inputs.
    pub inputs: u64,
    /// Number of attempts that ended with a decision.
    pub decisions: u64,
    /// Number of decisions that found a node.
    pub placed: u64,
    /// Time from the first to the last line.
    pub took: Duration,
    /// Reason in the last line; `None` if the recording is incomplete.
    pub ends: Option<String>,
    /// First difference, if any.
    pub divergence: Option<Divergence>,
}

/// A recording that is being replayed.
pub struct Replay<R> {
    entries: Entries<R>,
    beginning: Header,
    engine: Scheduler,
    /// Decisions of the replay that are not compared yet.
    produced: VecDeque<String>,
    summary: Summary,
}

impl<R: BufRead> Replay<R> {
    /// Opens a scheduler's recording and builds its engine.
    ///
    /// # Errors
    /// Fails if the recording is invalid.
    pub fn open(from: R) -> Result<Self, Bad> {
        let (beginning, entries) = Entries::open(from)?;
        Self::of(beginning, entries)
    }

    /// Builds the engine for a recording whose first line has been read.
    ///
    /// # Errors
    /// Fails if the recorded configuration is invalid.
    pub fn of(beginning: Header, entries: Entries<R>) -> Result<Self, Bad> {
        let version = beginning.emulated_version().map_err(|why| Bad::Configuration { line: 1, why })?;
        let settings = taken(&beginning, &beginning.configuration, version, 1)?;
        let engine = beginning.engine(&settings, |tables| unreached(&settings.extenders, tables));
        Ok(Self { entries, beginning, engine, produced: VecDeque::new(), summary: Summary::default() })
    }

    /// Also decides with these settings, without effect on the replay.
    pub fn set_alternative(&mut self, settings: &Settings) {
        let profiles = profiles(settings, self.engine.tables());
        self.engine.set_alternative(profiles);
    }

    /// Replays up to the end or the first difference. `each` receives the other configuration's decisions
    /// with their line.
    ///
    /// # Errors
    /// Fails at a malformed line. The lines before it have been replayed.
    pub fn run(mut self, mut each: impl FnMut(usize, Alternative)) -> Result<Summary, Bad> {
        while let Some(entry) = self.entries.read()? {
            let at = self.beginning.began() + Duration::from_nanos(entry.at);
            self.summary.took = self.summary.took.max(Duration::from_nanos(entry.at));
            if let Some(divergence) = self.play(at, entry.what)? {
                self.summary.divergence = Some(divergence);
                break;
            }
            while let Some(alternative) = self.engine.take_alternative() {
                each(self.entries.line(), alternative);
            }
            if self.entries.line().is_multiple_of(TIDY_EVERY) {
                self.engine.collect_ids();
            }
        }
        self.summary.lines = self.entries.line();
        // Only a recording that was stopped regularly contains all decisions.
        let has_all = self.summary.ends.as_deref() == Some(STOPPED) && self.summary.divergence.is_none();
        if let Some(now) = self.produced.pop_front().filter(|_| has_all) {
            self.summary.divergence =
                Some(Divergence { line: self.summary.lines, then: None, now: Some(now) });
        }
        Ok(self.summary)
    }

    /// Replays a line. Returns a difference, if there is one.
    fn play(&mut self, at: Time, what: What) -> Result<Option<Divergence>, Bad> {
        let event = match what {
            What::Decided(then) => return Ok(self.compare(then.get())),
            What::Ends(why) => {
                self.summary.ends = Some(why);
                return Ok(None);
            }
            _ if !self.produced.is_empty() => {
                let now = self.produced.pop_front();
                return Ok(Some(Divergence { line: self.entries.line(), then: None, now }));
            }
            What::Steps(after) => {
                for nanos in after {
                    self.step(at + Duration::from_nanos(nanos));
                }
                return Ok(None);
            }
            What::Configured(configuration, version) => {
                let version = version.unwrap_or(self.engine.tables().rules().version);
                let settings = taken(&self.beginning, &configuration, version, self.entries.line())?;
                let extenders = unreached(&settings.extenders, self.engine.tables());
                let to = settings.reconfiguration(extenders, self.engine.tables());
                self.engine.reconfigure(at, to);
                self.summary.inputs += 1;
                return Ok(None);
            }
            what => event_of(what, self.engine.tables()).map_err(|why| self.entries.bad(why))?,
        };
        self.summary.inputs += 1;
        self.engine.handle(at, event);
        Ok(None)
    }

    fn step(&mut self, now: Time) {
        if let Step::Report(report) = self.engine.step(now, &mut NoProbe) {
            match report.outcome {
                Outcome::Placed { .. } => {
                    self.summary.decisions += 1;
                    self.summary.placed += 1;
                }
                Outcome::Unschedulable { .. } | Outcome::Error { .. } => self.summary.decisions += 1,
                _ => {}
            }
            self.produced.push_back(Decision { report, input: self.summary.inputs }.to_json());
        }
    }

    fn compare(&mut self, then: &str) -> Option<Divergence> {
        let now = self.produced.pop_front();
        if now.as_deref() == Some(then) {
            return None;
        }
        Some(Divergence { line: self.entries.line(), then: Some(then.to_owned()), now })
    }
}

fn taken(
    beginning: &Header,
    configuration: &Value,
    version: EmulatedVersion,
    line: usize,
) -> Result<Settings, Bad> {
    settings(configuration, version, beginning.groups())
        .map_err(|error| Bad::Configuration { line, why: error.to_string() })
}

/// Converts a line into an event.
///
/// # Errors
/// Fails if the line contains no event, or an unknown one.
pub fn event_of(what: What, tables: &mut Tables) -> Result<Event, String> {
    let object = |value: Value| Object::from_value(value).map_err(|other| other.to_string());
    Ok(match what {
        What::ListBegan(kind) => Event::ListBegan(kind),
        What::ListEnded(kind) => Event::ListEnded(kind),
        What::OtherInput(input) => input.into_event()?,
        What::Applied(it) => {
            let it = object(it)?;
            match of_any_kind!(&it, it => it.applied(tables)) {
                Ok(event) => event,
                Err(_) => Event::Unreadable(of_any_kind!(&it, it => it.key(tables))),
            }
        }
        What::Gone(it) => of_any_kind!(object(it)?, it => it.gone(tables)),
        What::Unreadable(it) => Event::Unreadable(of_any_kind!(object(it)?, it => it.key(tables))),
        What::Configured(..) | What::Steps(_) | What::Decided(_) | What::Ends(_) => {
            return Err("an observer's recording must not contain such a line".to_owned());
        }
    })
}
