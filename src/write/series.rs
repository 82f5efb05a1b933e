//! Aggregates repeated events: the second occurrence turns an event into a series, further ones only raise
//! its count.
//!
//! Upstream: `client-go/tools/events/event_broadcaster.go`. No I/O: [`crate::write::record`] does the writing.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use supercargo_core::model::effect::{EventRecord, PodRef, Related, Severity};

/// A series ends after this long without an occurrence. Upstream checks at the same interval.
pub(super) const FINISH: Duration = Duration::from_secs(6 * 60);
/// How often the counts of active series are written.
pub(super) const REFRESH: Duration = Duration::from_secs(30 * 60);
/// Maximum number of remembered events. A pod that stays unschedulable has one or two, so this covers some thousand
/// such pods at 1 to 2 KiB per event. Beyond it, the oldest event is forgotten, and its next occurrence is a new event.
const REMEMBERED_MAX: usize = 8_192;
/// The API's maximum note length in bytes; [`CUT`] marks a truncated note.
const NOTE_MAX: usize = 1_024;
const CUT: &str = " ...";
/// The API's maximum length of `reportingInstance`.
const INSTANCE_MAX: usize = 128;

/// A write to the API server.
#[derive(Debug, PartialEq)]
pub(super) enum Write {
    /// A new event.
    Create(Box<Event>),
    /// The series of an existing event.
    Series(Box<Event>),
}

/// Identity of an event. Like upstream, the note is not part of it.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    severity: Severity,
    action: &'static str,
    reason: &'static str,
    scheduler_name: String,
    namespace: String,
    name: String,
    uid: String,
    resource_version: String,
    related: Option<Box<Related>>,
}

struct Remembered {
    event: Box<Event>,
    /// Distinguishes this event from an older one of the same key.
    number: u64,
    /// The count last sent to the API server.
    written: i32,
}

/// Events of the last minutes.
pub(super) struct Book {
    host: String,
    remembered: HashMap<Key, Remembered>,
    /// Keys in order of age; may contain keys that are no longer remembered.
    by_age: VecDeque<(u64, Key)>,
    numbers: u64,
    last_name: i128,
}

impl Book {
    /// Returns an empty book for events reported from `host`.
    pub(super) fn new(host: &str) -> Self {
        Self {
            host: host.to_owned(),
            remembered: HashMap::new(),
            by_age: VecDeque::new(),
            numbers: 0,
            last_name: 0,
        }
    }

    /// Records an occurrence and returns the write it causes. The second value is the final write of a series
    /// evicted to make room.
    pub(super) fn note(&mut self, record: &EventRecord, now: Timestamp) -> (Option<Write>, Option<Write>) {
        let key = key(record);
        if let Some(known) = self.remembered.get_mut(&key) {
            return (again(known, now), None);
        }
        let event = Box::new(self.event(record, now));
        let write = Some(Write::Create(event.clone()));
        // A pod is scheduled once; remembering that would only evict events that do repeat.
        if record.severity == Severity::Normal {
            return (write, None);
        }
        let pushed_out = self.make_room();
        self.numbers += 1;
        self.by_age.push_back((self.numbers, key.clone()));
        self.remembered.insert(key, Remembered { event, number: self.numbers, written: 0 });
        (write, pushed_out)
    }

    /// Forgets events that were silent for [`FINISH`]; returns the final counts of their series.
    pub(super) fn finish(&mut self, now: Timestamp) -> Vec<Write> {
        let mut writes = Vec::new();
        let since = now - jiff::SignedDuration::try_from(FINISH).expect("six minutes");
        self.remembered.retain(|_, known| {
            let living = last_seen(&known.event).is_some_and(|at| at >= since);
            if !living {
                writes.extend(uncounted(known));
            }
            living
        });
        let remembered = &self.remembered;
        self.by_age.retain(|(number, key)| remembered.get(key).is_some_and(|known| known.number == *number));
        writes
    }

    /// Returns the counts of active series that grew since the last write.
    pub(super) fn refresh(&mut self) -> Vec<Write> {
        self.remembered.values_mut().filter_map(uncounted).collect()
    }

    fn make_room(&mut self) -> Option<Write> {
        while self.remembered.len() >= REMEMBERED_MAX {
            let (number, key) = self.by_age.pop_front()?;
            if self.remembered.get(&key).is_some_and(|known| known.number == number) {
                let mut oldest = self.remembered.remove(&key).expect("it was there a moment ago");
                return uncounted(&mut oldest);
            }
        }
        None
    }

    fn event(&mut self, record: &EventRecord, now: Timestamp) -> Event {
        let mut instance = format!("{}-{}", record.scheduler_name, self.host);
        cut_at(&mut instance, INSTANCE_MAX);
        // Two events in one nanosecond must not share a name.
        self.last_name = now.as_nanosecond().max(self.last_name + 1);
        Event {
            metadata: ObjectMeta {
                name: Some(event_name(&record.pod.name, self.last_name)),
                namespace: Some(record.pod.namespace.clone()),
                ..ObjectMeta::default()
            },
            event_time: Some(MicroTime(now)),
            reporting_controller: Some(record.scheduler_name.clone()),
            reporting_instance: Some(instance),
            action: Some(record.action.to_owned()),
            reason: Some(record.reason.to_owned()),
            regarding: Some(reference("v1", "Pod", &record.pod, &record.resource_version)),
            related: record
                .related
                .as_ref()
                .map(|it| reference(it.api_version, it.kind, &it.object, &it.resource_version)),
            note: Some(shortened(&record.note)),
            type_: Some(record.severity.as_str().to_owned()),
            ..Event::default()
        }
    }
}

fn reference(api_version: &str, kind: &str, object: &PodRef, resource_version: &str) -> ObjectReference {
    ObjectReference {
        kind: Some(kind.to_owned()),
        api_version: Some(api_version.to_owned()),
        namespace: Some(object.namespace.clone()),
        name: Some(object.name.clone()),
        uid: Some(object.uid.to_string()),
        resource_version: Some(resource_version.to_owned()).filter(|version| !version.is_empty()),
        ..ObjectReference::default()
    }
}

fn key(record: &EventRecord) -> Key {
    Key {
        severity: record.severity,
        action: record.action,
        reason: record.reason,
        scheduler_name: record.scheduler_name.clone(),
        namespace: record.pod.namespace.clone(),
        name: record.pod.name.clone(),
        uid: record.pod.uid.to_string(),
        resource_version: record.resource_version.clone(),
        related: record.related.clone(),
    }
}

/// Counts another occurrence of a known event.
fn again(known: &mut Remembered, now: Timestamp) -> Option<Write> {
    let count = known.event.series.as_ref().map_or(1, |series| series.count) + 1;
    known.event.series = Some(EventSeries { count, last_observed_time: MicroTime(now) });
    if count > 2 {
        return None;
    }
    known.written = count;
    Some(Write::Series(known.event.clone()))
}

/// Returns the series if its count exceeds the one last written.
fn uncounted(known: &mut Remembered) -> Option<Write> {
    let count = known.event.series.as_ref()?.count;
    if count <= known.written {
        return None;
    }
    known.written = count;
    Some(Write::Series(known.event.clone()))
}

fn last_seen(event: &Event) -> Option<Timestamp> {
    let last = event.series.as_ref().map(|series| &series.last_observed_time);
    last.or(event.event_time.as_ref()).map(|at| at.0)
}

/// Returns `<pod>.<nanoseconds in hex>`, with the pod's name shortened if the result were too long. Upstream
/// uses a random UUID there (`client-go/tools/record/util/util.go#GenerateEventName`).
fn event_name(pod: &str, nanos: i128) -> String {
    const NAME_MAX: usize = 253;
    let suffix = format!(".{nanos:x}");
    if pod.len() + suffix.len() <= NAME_MAX {
        return format!("{pod}{suffix}");
    }
    let mut head = pod.to_owned();
    cut_at(&mut head, NAME_MAX - suffix.len());
    format!("{}{suffix}", head.trim_end_matches(['.', '-']))
}

fn shortened(note: &str) -> String {
    let mut note = note.to_owned();
    if note.len() > NOTE_MAX {
        cut_at(&mut note, NOTE_MAX - CUT.len());
        note.push_str(CUT);
    }
    note
}

/// Truncates to at most `max` bytes at a character boundary.
fn cut_at(text: &mut String, max: usize) {
    text.truncate(text.floor_char_boundary(max));
}

#[cfg(test)]
mod tests {
    use supercargo_core::model::effect::PodRef;

    use super::*;

    fn failed(resource_version: &str) -> EventRecord {
        EventRecord {
            pod: PodRef { namespace: "default".to_owned(), name: "big".to_owned(), uid: "u1".into() },
            resource_version: resource_version.to_owned(),
            scheduler_name: "supercargo".to_owned(),
            severity: Severity::Warning,
            reason: "FailedScheduling",
            action: "Scheduling",
            note: "0/1 nodes are available: 1 Insufficient cpu.".to_owned(),
            related: None,
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::new(1_763_665_094 + second, 250_980_123).unwrap()
    }

    fn count(write: &Write) -> i32 {
        let Write::Series(event) = write else { panic!("a series is expected: {write:?}") };
        event.series.as_ref().expect("it has a series").count
    }

    #[test]
    fn second_occurrence_makes_a_series_and_further_ones_only_count() {
        let mut book = Book::new("host");
        let (Some(Write::Create(event)), None) = book.note(&failed("5"), at(0)) else { panic!("created") };
        assert_eq!(event.reporting_instance.as_deref(), Some("supercargo-host"));
        assert_eq!(event.series, None);
        let (Some(second), None) = book.note(&failed("5"), at(1)) else { panic!("a series") };
        assert_eq!(count(&second), 2);
        assert_eq!(book.note(&failed("5"), at(2)), (None, None));
        let written = book.refresh();
        assert_eq!(written.iter().map(count).collect::<Vec<_>>(), [3]);
        assert_eq!(book.refresh(), [], "the count did not grow");
    }

    #[test]
    fn changed_resource_version_of_the_pod_starts_a_new_event() {
        let mut book = Book::new("host");
        book.note(&failed("5"), at(0));
        assert!(matches!(book.note(&failed("6"), at(1)), (Some(Write::Create(_)), None)));
    }

    #[test]
    fn changed_note_does_not_start_a_new_event() {
        let mut book = Book::new("host");
        book.note(&failed("5"), at(0));
        let other = EventRecord { note: "something else".to_owned(), ..failed("5") };
        let (Some(Write::Series(event)), None) = book.note(&other, at(1)) else { panic!("a series") };
        assert_eq!(event.note.as_deref(), Some("0/1 nodes are available: 1 Insufficient cpu."));
    }

    #[test]
    fn silent_series_gets_a_final_write_and_is_forgotten() {
        let mut book = Book::new("host");
        for second in 0..4 {
            book.note(&failed("5"), at(second));
        }
        assert_eq!(book.finish(at(3 + 360)), [], "not silent for six minutes yet");
        let last = book.finish(at(3 + 361));
        assert_eq!(last.iter().map(count).collect::<Vec<_>>(), [4]);
        assert!(book.remembered.is_empty() && book.by_age.is_empty());
        assert!(matches!(book.note(&failed("5"), at(400)), (Some(Write::Create(_)), None)));
    }

    #[test]
    fn single_event_is_forgotten_without_a_write() {
        let mut book = Book::new("host");
        book.note(&failed("5"), at(0));
        assert_eq!(book.finish(at(361)), []);
        assert!(book.remembered.is_empty());
    }

    #[test]
    fn full_table_evicts_the_oldest_series_and_writes_its_count() {
        let mut book = Book::new("host");
        for _ in 0..3 {
            book.note(&failed("0"), at(0));
        }
        for version in 1..REMEMBERED_MAX {
            assert_eq!(book.note(&failed(&version.to_string()), at(0)).1, None);
        }
        let (_, pushed_out) = book.note(&failed("one more"), at(1));
        assert_eq!(pushed_out.as_ref().map(count), Some(3));
        assert_eq!(book.remembered.len(), REMEMBERED_MAX);
    }

    #[test]
    fn scheduled_event_is_not_remembered() {
        let mut book = Book::new("host");
        let scheduled = EventRecord { severity: Severity::Normal, reason: "Scheduled", ..failed("5") };
        book.note(&scheduled, at(0));
        assert!(book.remembered.is_empty());
    }

    #[test]
    fn long_note_is_truncated_at_a_character_boundary() {
        assert_eq!(shortened(&"x".repeat(1_024)).len(), 1_024);
        let cut = shortened(&"x".repeat(3_138));
        assert_eq!((cut.len(), &cut[1_018..]), (1_024, "xx ..."));
        let umlauts = shortened(&format!("x{}", "ü".repeat(600)));
        assert!(umlauts.len() <= 1_024 && umlauts.ends_with("ü ..."), "{}", umlauts.len());
    }

    #[test]
    fn event_names_are_unique_and_within_the_length_limit() {
        let mut book = Book::new("host");
        let names: Vec<_> = (0..2)
            .map(|version| match book.note(&failed(&version.to_string()), at(0)).0 {
                Some(Write::Create(event)) => event.metadata.name.expect("named"),
                other => panic!("created: {other:?}"),
            })
            .collect();
        assert_eq!(names[0], format!("big.{:x}", at(0).as_nanosecond()));
        assert_ne!(names[0], names[1]);
        let long = event_name(&format!("{}.{}", "a".repeat(235), "b".repeat(17)), at(0).as_nanosecond());
        assert!(long.len() <= 253 && !long.contains(".."), "{long}");
    }

    #[test]
    fn reporting_instance_is_truncated_to_the_api_limit() {
        let mut book = Book::new(&"h".repeat(200));
        let (Some(Write::Create(event)), _) = book.note(&failed("5"), at(0)) else { panic!("created") };
        assert_eq!(event.reporting_instance.map(|instance| instance.len()), Some(128));
    }
}
