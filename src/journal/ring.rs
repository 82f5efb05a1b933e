//! The last decisions, within bounds of number and bytes, for `/debug/decisions`.

use super::{API_VERSION, Decision};
use serde::Serialize;
use serde_json::value::RawValue;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Keeps the last decisions. Who reads them holds up whoever enters one for as long as it takes to count them up, and no longer.
#[derive(Debug)]
pub struct Ring {
    kept: Mutex<Kept>,
    decisions_max: usize,
    bytes_max: usize,
}

#[derive(Debug, Default)]
struct Kept {
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
    /// An empty one, with room for so many decisions and bytes.
    pub fn new(decisions_max: usize, bytes_max: usize) -> Self {
        Self { kept: Mutex::default(), decisions_max, bytes_max }
    }

    /// Enters a decision, for which the oldest may have to make room. The last one is kept however large it is.
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

    /// A DecisionList, the oldest first.
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
