//! The results of shadow mode: counts per result, and the latest disagreements, bounded in number and bytes.

use jiff::Timestamp;
use serde_json::value::RawValue;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use supercargo_core::compare::Agreement;
use supercargo_core::model::time::Time;
use supercargo_core::shadow::{Judgement, Unjudged};
use supercargo_whatif::shadow_report::{API_VERSION, Disagreement, KIND, ShadowReport};

/// Maximum number of stored disagreements.
const ENTRIES_MAX: usize = 1_000;
/// Maximum size of the stored disagreements, in bytes of JSON (4 MiB).
const BYTES_MAX: usize = 4 << 20;

/// Stores the results of one shadow. Disagreements are stored as the JSON that the report shows.
pub struct Results {
    shadow_of: String,
    kept: Mutex<State>,
    entries_max: usize,
    bytes_max: usize,
}

#[derive(Default)]
struct State {
    since: Timestamp,
    decisions: BTreeMap<Agreement, u64>,
    unjudged: BTreeMap<Unjudged, u64>,
    dropped: u64,
    bytes: usize,
    entries: VecDeque<Box<RawValue>>,
}

impl State {
    fn begun() -> Self {
        Self { since: Timestamp::now(), ..Self::default() }
    }
}

impl Results {
    /// Creates empty results about the scheduler with this name; counting starts now.
    pub fn new(shadow_of: &str) -> Self {
        Self::bounded(shadow_of, ENTRIES_MAX, BYTES_MAX)
    }

    pub(super) fn bounded(shadow_of: &str, entries_max: usize, bytes_max: usize) -> Self {
        let kept = Mutex::new(State::begun());
        Self { shadow_of: shadow_of.to_owned(), kept, entries_max, bytes_max }
    }

    /// Clears all results, because later ones use another profile.
    pub fn clear(&self) {
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = State::begun();
    }

    /// Adds the result of a comparison, reported at `now`.
    pub fn judged(&self, judgement: &Judgement, now: Time) {
        let ago = now.since(judgement.at);
        let now = Timestamp::now();
        let time = now.saturating_sub(ago).unwrap_or(now);
        let entry = Disagreement::of(judgement, time.to_string());
        let entry = entry.and_then(|entry| serde_json::value::to_raw_value(&entry).ok());
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        *kept.decisions.entry(judgement.agreement).or_default() += 1;
        if let Some(entry) = entry {
            kept.bytes += entry.get().len();
            kept.entries.push_back(entry);
        }
        while kept.entries.len() > self.entries_max || kept.bytes > self.bytes_max {
            let Some(oldest) = kept.entries.pop_front() else { break };
            kept.bytes -= oldest.get().len();
            kept.dropped += 1;
        }
    }

    /// Adds a decision that was not compared.
    pub fn unjudged(&self, why: Unjudged) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        *kept.unjudged.entry(why).or_default() += 1;
    }

    /// Returns the report as JSON that [`ShadowReport`] deserializes.
    pub fn to_json(&self) -> String {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let count = |count: Option<&u64>| count.copied().unwrap_or_default();
        let decisions =
            Agreement::ALL.iter().map(|it| (it.as_str().to_owned(), count(kept.decisions.get(it))));
        let unjudged = Unjudged::ALL.iter().map(|it| (it.as_str().to_owned(), count(kept.unjudged.get(it))));
        let head = ShadowReport {
            api_version: API_VERSION.to_owned(),
            kind: KIND.to_owned(),
            shadow_of: self.shadow_of.clone(),
            since: kept.since.to_string(),
            decisions: decisions.collect(),
            unjudged: unjudged.collect(),
            dropped: kept.dropped,
            disagreements: Vec::new(),
        };
        let mut json = serde_json::to_value(&head).expect("the report serializes");
        let entries: Vec<&RawValue> = kept.entries.iter().map(|entry| &**entry).collect();
        json["disagreements"] = serde_json::to_value(entries).expect("stored JSON is valid");
        json.to_string()
    }
}
