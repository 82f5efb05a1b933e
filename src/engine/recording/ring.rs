//! The last decisions for `/debug/decisions`, limited by number and size.

use serde::Serialize;
use serde_json::value::RawValue;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use supercargo_whatif::recording::decision::API_VERSION;
use supercargo_whatif::recording::decision::Decision;

/// A ring buffer of the last decisions. A reader blocks a writer only while it copies the references.
#[derive(Debug)]
pub struct Ring {
    kept: Mutex<Buffer>,
    decisions_max: usize,
    bytes_max: usize,
}

#[derive(Debug, Default)]
struct Buffer {
    decisions: VecDeque<Arc<Decision>>,
    bytes: usize,
    entered: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct List {
    api_version: &'static str,
    kind: &'static str,
    entered: u64,
    decisions: Vec<Box<RawValue>>,
}

impl Ring {
    /// Returns an empty buffer with these limits.
    pub fn new(decisions_max: usize, bytes_max: usize) -> Self {
        Self { kept: Mutex::default(), decisions_max, bytes_max }
    }

    /// Adds a decision and drops the oldest ones beyond the limits. The last decision is always kept.
    pub fn enter(&self, decision: Arc<Decision>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.entered += 1;
        kept.bytes += decision.bytes();
        kept.decisions.push_back(decision);
        while kept.decisions.len() > self.decisions_max
            || kept.bytes > self.bytes_max && kept.decisions.len() > 1
        {
            let Some(oldest) = kept.decisions.pop_front() else { break };
            kept.bytes -= oldest.bytes();
        }
    }

    /// Formats a DecisionList, oldest first.
    pub fn to_json(&self) -> String {
        let (entered, decisions) = {
            let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            (kept.entered, kept.decisions.iter().map(Arc::clone).collect::<Vec<_>>())
        };
        let raw = |decision: &Arc<Decision>| RawValue::from_string(decision.to_json()).expect("it is JSON");
        let decisions = decisions.iter().map(raw).collect();
        let list = List { api_version: API_VERSION, kind: "DecisionList", entered, decisions };
        serde_json::to_string(&list).expect("texts and numbers are JSON")
    }
}
