//! Rates and latencies from two scrapes of `/metrics`. Reads only the series that the screen shows.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Period that rates and latencies cover: long enough for a pod every few seconds to show as a steady rate.
pub(super) const WINDOW: Duration = Duration::from_secs(60);

/// Counter of attempts by result.
const ATTEMPTS: &str = "scheduler_schedule_attempts_total";
/// Time that the scheduling thread was busy, in seconds.
const BUSY: &str = "supercargo_scheduling_busy_seconds_total";
/// Histogram of attempts.
const ATTEMPT: &str = "scheduler_scheduling_attempt_duration_seconds_bucket";
/// Histogram of pods, from the queue to their node.
const POD: &str = "scheduler_pod_scheduling_sli_duration_seconds_bucket";

/// The series of one scrape.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Sample {
    /// Attempts by result.
    attempts: BTreeMap<String, f64>,
    busy_seconds: Option<f64>,
    attempt: Buckets,
    pod: Buckets,
}

/// Cumulative counts of a histogram by upper bound, in seconds.
#[derive(Clone, Debug, Default, PartialEq)]
struct Buckets(Vec<(f64, f64)>);

impl Buckets {
    fn add(&mut self, bound: f64, count: f64) {
        match self.0.binary_search_by(|(other, _)| other.total_cmp(&bound)) {
            Ok(at) => self.0[at].1 += count,
            Err(at) => self.0.insert(at, (bound, count)),
        }
    }

    /// Returns what was counted since an earlier scrape; `None` if the counts started anew.
    fn since(&self, earlier: &Self) -> Option<Self> {
        let before =
            |bound: f64| earlier.0.iter().find(|(other, _)| *other == bound).map_or(0.0, |(_, count)| *count);
        let left: Vec<(f64, f64)> =
            self.0.iter().map(|&(bound, count)| (bound, count - before(bound))).collect();
        left.iter().all(|(_, count)| *count >= 0.0).then_some(Self(left))
    }

    /// Returns a quantile in seconds, interpolated within its bucket as Prometheus does; `None` without values. Beyond
    /// the last finite bound, that bound is returned.
    fn quantile(&self, of: f64) -> Option<f64> {
        let all = self.0.last().map(|(_, count)| *count).filter(|all| *all > 0.0)?;
        let rank = of * all;
        let at = self.0.iter().position(|(_, count)| *count >= rank)?;
        let (bound, count) = self.0[at];
        let (from, below) = at.checked_sub(1).map_or((0.0, 0.0), |before| self.0[before]);
        if bound.is_infinite() {
            return Some(from);
        }
        Some(if count > below { from + (bound - from) * (rank - below) / (count - below) } else { bound })
    }
}

impl Sample {
    /// Reads a scrape in Prometheus' text format. Lines that are not understood are skipped.
    pub(super) fn of(text: &str) -> Self {
        let mut sample = Self::default();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (series, value) = match line.rsplit_once(' ') {
                Some((series, value)) => (series, value.parse::<f64>()),
                None => continue,
            };
            let Ok(value) = value else { continue };
            let (name, labels) = series.split_once('{').unwrap_or((series, ""));
            match name {
                ATTEMPTS => {
                    let result = label(labels, "result").unwrap_or_default().to_owned();
                    *sample.attempts.entry(result).or_default() += value;
                }
                BUSY => sample.busy_seconds = Some(value),
                ATTEMPT | POD => {
                    let bound = label(labels, "le").and_then(|bound| bound.parse::<f64>().ok());
                    let of = if name == POD { &mut sample.pod } else { &mut sample.attempt };
                    if let Some(bound) = bound {
                        of.add(bound, value);
                    }
                }
                _ => {}
            }
        }
        sample
    }
}

/// Returns the value of a label. The labels of these series have no quotes in their values.
fn label<'t>(labels: &'t str, name: &str) -> Option<&'t str> {
    let labels = labels.trim_end_matches('}').split(',');
    let mut pairs = labels.filter_map(|pair| pair.split_once('='));
    pairs.find(|(key, _)| *key == name).map(|(_, value)| value.trim_matches('"'))
}

/// Rates and latencies over the last minute, or since `top` started.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Load {
    /// Period that the numbers cover.
    pub(super) covers: Duration,
    /// Attempts by result, per second.
    pub(super) attempts: BTreeMap<String, f64>,
    /// Part of the time that the scheduling thread was busy, from 0 to 1.
    pub(super) busy: Option<f64>,
    /// Median and 99th percentile of attempts, in seconds.
    pub(super) attempt: Option<(f64, f64)>,
    /// Median and 99th percentile of pods from the queue to their node, in seconds.
    pub(super) pod: Option<(f64, f64)>,
}

/// Scrapes of the last minute, with their times on any clock that only moves forward.
#[derive(Clone, Debug, Default)]
pub(super) struct History(VecDeque<(Duration, Sample)>);

impl History {
    /// Adds a scrape and returns the load; `None` for the first scrape, and for one of another process.
    pub(super) fn add(&mut self, at: Duration, sample: Sample) -> Option<Load> {
        self.0.push_back((at, sample));
        // The oldest one is just outside the window, so that the rest covers it.
        while self.0.get(1).is_some_and(|(next, _)| at.saturating_sub(*next) >= WINDOW) {
            self.0.pop_front();
        }
        let load = self.load();
        if load.is_none() {
            self.0.drain(..self.0.len() - 1);
        }
        load
    }

    fn load(&self) -> Option<Load> {
        let ((from, first), (to, last)) = (self.0.front()?, self.0.back()?);
        let covers = to.checked_sub(*from).filter(|covers| !covers.is_zero())?;
        let seconds = covers.as_secs_f64();
        let rate = |before: f64, after: f64| (after >= before).then(|| (after - before) / seconds);
        let mut attempts = BTreeMap::new();
        for (result, count) in &last.attempts {
            let before = first.attempts.get(result).copied().unwrap_or_default();
            attempts.insert(result.clone(), rate(before, *count)?);
        }
        let busy = match (first.busy_seconds, last.busy_seconds) {
            (Some(before), Some(after)) => Some(rate(before, after)?),
            _ => None,
        };
        let percentiles = |before: &Buckets, after: &Buckets| {
            let counted = after.since(before)?;
            Some(counted.quantile(0.5).zip(counted.quantile(0.99)))
        };
        let (attempt, pod) =
            (percentiles(&first.attempt, &last.attempt)?, percentiles(&first.pod, &last.pod)?);
        Some(Load { covers, attempts, busy, attempt, pod })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a scrape after `pods` pods in two profiles, each decided in 2 to 4 ms.
    pub(super) fn scrape(pods: u32) -> String {
        let half = f64::from(pods) / 2.0;
        format!(
            "# HELP x y\n\
             scheduler_schedule_attempts_total{{profile=\"a\",result=\"scheduled\"}} {half}\n\
             scheduler_schedule_attempts_total{{profile=\"b\",result=\"scheduled\"}} {half}\n\
             scheduler_schedule_attempts_total{{profile=\"a\",result=\"error\"}} 1\n\
             scheduler_scheduling_attempt_duration_seconds_bucket{{profile=\"a\",result=\"scheduled\",le=\"0.002\"}} 0\n\
             scheduler_scheduling_attempt_duration_seconds_bucket{{profile=\"a\",result=\"scheduled\",le=\"0.004\"}} {pods}\n\
             scheduler_scheduling_attempt_duration_seconds_bucket{{profile=\"a\",result=\"scheduled\",le=\"+Inf\"}} {pods}\n\
             supercargo_scheduling_busy_seconds_total {}\n\
             torn line{{",
            f64::from(pods) / 100.0
        )
    }

    #[test]
    fn rates_and_latencies_cover_the_time_between_scrapes() {
        let mut history = History::default();
        assert_eq!(history.add(Duration::from_secs(5), Sample::of(&scrape(100))), None);
        let load = history.add(Duration::from_secs(15), Sample::of(&scrape(300))).expect("two scrapes");
        assert_eq!(load.covers, Duration::from_secs(10));
        assert_eq!(
            load.attempts,
            BTreeMap::from([("error".to_owned(), 0.0), ("scheduled".to_owned(), 20.0)])
        );
        assert_eq!(load.busy, Some(0.2));
        let (median, high) = load.attempt.expect("pods were decided");
        assert!((median - 0.003).abs() < 1e-9 && (high - 0.00398).abs() < 1e-9, "{median} {high}");
        assert_eq!(load.pod, None);
    }

    #[test]
    fn scrapes_older_than_a_minute_are_dropped() {
        let mut history = History::default();
        for second in 0..200_u32 {
            history.add(Duration::from_secs(u64::from(second)), Sample::of(&scrape(second)));
        }
        assert_eq!(history.0.len(), 61);
        let load = history.add(Duration::from_secs(200), Sample::of(&scrape(200))).expect("many scrapes");
        assert_eq!((load.covers, load.attempts["scheduled"]), (WINDOW, 1.0));
    }

    #[test]
    fn restarted_scheduler_starts_the_history_again() {
        let mut history = History::default();
        history.add(Duration::from_secs(0), Sample::of(&scrape(100)));
        assert_eq!(history.add(Duration::from_secs(2), Sample::of(&scrape(10))), None);
        let load = history.add(Duration::from_secs(4), Sample::of(&scrape(30))).expect("two of the new one");
        assert_eq!(load.attempts["scheduled"], 10.0);
    }

    #[test]
    fn quantile_beyond_the_last_bound_is_that_bound() {
        let buckets = Buckets(vec![(1.0, 1.0), (2.0, 2.0), (f64::INFINITY, 10.0)]);
        assert_eq!((buckets.quantile(0.05), buckets.quantile(0.99)), (Some(0.5), Some(2.0)));
        assert_eq!(Buckets::default().quantile(0.5), None);
    }
}
