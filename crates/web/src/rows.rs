//! Parts of tables: the page asks only for the rows that it shows.

use crate::protocol::{NodeRows, Only, PodRow, Rows, Window, WorkloadRows, group_of};
use crate::session::Asked;
use supercargo_whatif::cluster::PodState;

/// The most rows of one answer: more than a screen shows.
const ROWS_MAX: usize = 500;

impl Window {
    /// Returns the window of the first rows, without a filter.
    pub(crate) fn first() -> Self {
        Self { limit: ROWS_MAX, ..Self::default() }
    }

    /// Returns the rows of this window, and the number of all rows that pass the filter. `make` builds a row that is
    /// shown.
    pub(crate) fn of<T, R>(
        &self,
        all: impl Iterator<Item = T>,
        text: impl Fn(&T) -> String,
        make: impl Fn(T) -> Option<R>,
    ) -> Rows<R> {
        let words: Vec<String> = self.filter.split_whitespace().map(str::to_lowercase).collect();
        let (mut total, mut rows) = (0, Vec::new());
        let limit = self.limit.min(ROWS_MAX);
        for item in all {
            if !words.is_empty() {
                let text = text(&item).to_lowercase();
                if !words.iter().all(|word| text.contains(word.as_str())) {
                    continue;
                }
            }
            if total >= self.offset && rows.len() < limit {
                rows.extend(make(item));
            }
            total += 1;
        }
        Rows { total, rows }
    }
}

impl Asked {
    /// Returns rows of the table of pods, by namespace and name.
    pub(crate) fn pod_rows(&self, window: &Window) -> Rows<PodRow> {
        // The decided pods are few, even if the cluster has many.
        let decided = || {
            let decided = self.placements.iter();
            decided.filter_map(|(key, it)| Some((self.cluster.pod_state(key)?, it)))
        };
        let all = || self.cluster.pod_states();
        let pods: Box<dyn Iterator<Item = PodState<'_>>> = match window.only {
            Only::All => Box::new(all()),
            Only::Pending => Box::new(all().filter(|pod| pod.node.is_none())),
            Only::Decided => Box::new(decided().map(|(pod, _)| pod)),
            Only::Moved => Box::new(decided().filter(|(_, it)| self.is_moved(it)).map(|(pod, _)| pod)),
        };
        let text = |pod: &PodState<'_>| {
            format!("{} {} {}", pod.key, pod.node.unwrap_or("pending"), group_of(pod).unwrap_or_default())
        };
        window.of(pods, text, |pod| Some(self.pod_row(&pod)))
    }

    pub(crate) fn pod_row(&self, pod: &PodState<'_>) -> PodRow {
        let decided = self.placements.get(pod.key);
        let is_moved = decided.is_some_and(|decided| self.is_moved(decided));
        let before = self.before.as_ref().and_then(|before| before.get(pod.key)).cloned().flatten();
        PodRow { is_moved, before: before.filter(|_| is_moved), ..PodRow::of(pod, decided) }
    }

    /// Returns rows of the table of nodes, by name.
    pub(crate) fn node_rows(&self, window: &Window) -> NodeRows {
        let nodes = self.cluster.nodes().into_iter();
        window.of(nodes, |name| (*name).to_owned(), |name| self.cluster.node_state(name))
    }

    /// Returns rows of the table of workloads, by namespace, kind and name.
    pub(crate) fn workload_rows(&self, window: &Window) -> WorkloadRows {
        let all = self.cluster.workloads().into_iter();
        window.of(all, |it| format!("{} {}/{}", it.kind, it.namespace, it.name), Some)
    }
}
