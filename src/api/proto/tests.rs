//! Protobuf against JSON: what upstream's own encoder wrote of every object of the golden vectors and of made-up ones of every kind
//! (`tests/upstream/protobuf`), whole and broken.

use super::*;
use crate::api::{Kind, Pod, Received, apps, core, policy, resource, storage};
use flate2::read::GzDecoder;
use serde_json::value::RawValue;
use std::io::Read as _;

#[derive(serde::Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    served: &'a RawValue,
    protobuf: String,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Named {
    api_version: String,
    kind: String,
}

fn fixture() -> String {
    let packed = include_bytes!("../../../tests/fixtures/protobuf.jsonl.gz");
    let mut text = String::new();
    GzDecoder::new(&packed[..]).read_to_string(&mut text).unwrap();
    text
}

fn bytes(hexadecimal: &str) -> Vec<u8> {
    let digits = hexadecimal.as_bytes().chunks(2);
    digits.map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// An object of a line in both forms: what JSON gives, and how protobuf is read.
struct Case {
    kind: &'static str,
    from_json: fn(&str) -> String,
    from_protobuf: fn(&[u8]) -> String,
}

fn case<K: Kind>() -> Case {
    Case {
        kind: K::KIND,
        from_json: |json| format!("{:?}", serde_json::from_str::<Received<K>>(json).unwrap()),
        from_protobuf: |message| format!("{:?}", Received::<K>::from_protobuf(message)),
    }
}

fn cases() -> [Case; 16] {
    [
        case::<core::PodKind>(),
        case::<core::NodeKind>(),
        case::<core::NamespaceKind>(),
        case::<core::ServiceKind>(),
        case::<core::ReplicationControllerKind>(),
        case::<apps::ReplicaSetKind>(),
        case::<apps::StatefulSetKind>(),
        case::<policy::PodDisruptionBudgetKind>(),
        case::<storage::PersistentVolumeKind>(),
        case::<storage::PersistentVolumeClaimKind>(),
        case::<storage::StorageClassKind>(),
        case::<storage::CsiNodeKind>(),
        case::<storage::CsiDriverKind>(),
        case::<storage::CsiStorageCapacityKind>(),
        case::<storage::VolumeAttachmentKind>(),
        case::<resource::DeviceClassKind>(),
    ]
}

#[test]
fn every_golden_and_made_up_object_is_the_same_from_protobuf_as_from_json() {
    let (text, cases) = (fixture(), cases());
    let mut seen = cases.each_ref().map(|_| 0);
    for line in text.lines() {
        let line: Line<'_> = serde_json::from_str(line).unwrap();
        let json = line.served.get();
        let Named { api_version, kind } = serde_json::from_str(json).unwrap();
        let at =
            cases.iter().position(|case| case.kind == kind).unwrap_or_else(|| panic!("{api_version} {kind}"));
        let bytes = bytes(&line.protobuf);
        let read = (cases[at].from_protobuf)(raw_object(&bytes).unwrap());
        let expected = (cases[at].from_json)(json);
        assert!(!expected.contains("content: Err"), "{expected}");
        assert_eq!(read, expected, "{json}");
        seen[at] += 1;
    }
    assert!(seen.iter().all(|seen| *seen >= 24), "{seen:?}");
    assert!(seen.iter().sum::<usize>() > 10_000, "{seen:?}");
}

/// A source of numbers that look random and are the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit.max(1)
    }

    /// Changes, drops, doubles or cuts off some of the bytes.
    fn spoil(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len());
            match self.below(6) {
                0 => bytes.truncate(at),
                1 if !bytes.is_empty() => drop(bytes.remove(at)),
                2 => bytes.insert(at, self.below(256) as u8),
                3 => bytes.splice(at..at, [0xff; 9]).for_each(drop),
                _ if !bytes.is_empty() => bytes[at] ^= 1 << self.below(8),
                _ => {}
            }
        }
    }
}

#[test]
fn no_bytes_whatever_stop_the_reader() {
    let (text, cases) = (fixture(), cases());
    let mut random = Random(7);
    let mut refused = [0; 5];
    for (number, line) in text.lines().enumerate().filter(|(number, _)| number % 4 == 0) {
        let mut bytes = bytes(&serde_json::from_str::<Line<'_>>(line).unwrap().protobuf);
        random.spoil(&mut bytes);
        refused[0] += usize::from(raw_object(&bytes).is_err());
        // As whatever it is taken for: it may be read, with other content, or be found malformed.
        let message = raw_object(&bytes).unwrap_or(&bytes);
        for case in [&cases[number % cases.len()], &cases[random.below(2)]] {
            refused[1] += usize::from((case.from_protobuf)(message).contains("content: Err"));
        }
        refused[2] += usize::from(list(&bytes).is_err());
        let mut frame = [field(1, b"MODIFIED"), field(2, &field(1, &bytes))].concat();
        random.spoil(&mut frame);
        match WatchEvent::read(&frame) {
            Ok(event) => drop((cases[number % cases.len()].from_protobuf)(event.object)),
            Err(_) => refused[4] += 1,
        }
        refused[3] += usize::from(bookmark(message).is_err() || refusal(message).is_err());
    }
    assert!(refused.iter().all(|refused| *refused > 100), "{refused:?}");
}

#[test]
fn every_beginning_of_an_object_is_read_or_refused() {
    let text = fixture();
    let line = text.lines().filter(|line| line.contains(r#""kind":"Pod""#)).max_by_key(|line| line.len());
    let bytes = bytes(&serde_json::from_str::<Line<'_>>(line.unwrap()).unwrap().protobuf);
    let message = raw_object(&bytes).unwrap();
    assert!(message.len() > 1_000);
    for end in 0..message.len() {
        // Where a field ends, the beginning is an object too.
        let read = Pod::from_protobuf(&message[..end]);
        if let Err(malformed) = read.content() {
            assert!(malformed.reason.contains("end too early"), "{end}: {malformed}");
        }
    }
    for end in 0..bytes.len() {
        if let Ok(raw) = raw_object(&bytes[..end]) {
            assert!(raw.is_empty() || raw == message, "{end}");
        }
    }
}

/// A field of bytes, or of a message.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let (mut field, mut length) = (vec![number << 3 | 2], content.len());
    while length > 0x7f {
        field.push(length as u8 | 0x80);
        length >>= 7;
    }
    field.push(length as u8);
    [&field, content].concat()
}

#[test]
fn a_malformed_object_is_named_with_the_field_and_stops_nothing() {
    let metadata = [field(1, b"p"), field(3, b"ns"), field(5, b"u"), field(6, b"7")].concat();
    // A host port that is a text, in the second port of the first container.
    let container = [field(1, b"c"), field(6, b"\x10\x50"), field(6, b"\x12\x01x")].concat();
    let pod = [field(1, &metadata), field(2, &field(2, &container))].concat();
    let read = Pod::from_protobuf(&pod);
    assert_eq!(
        read.content().unwrap_err().to_string(),
        "Pod ns/p is malformed: spec.containers[0].ports[1].hostPort: no number stands where one should"
    );
    assert_eq!(
        (read.metadata.uid.as_deref(), read.metadata.resource_version.as_deref()),
        (Some("u"), Some("7"))
    );
    // The names come after what is broken: nothing is known of it.
    let late = [field(2, &[0xff]), field(1, &metadata)].concat();
    assert_eq!(Pod::from_protobuf(&late).name(), "");

    let items = [field(1, &field(2, b"9")), field(2, &pod), field(2, &field(1, &metadata))].concat();
    let envelope = [b"k8s\0".to_vec(), field(2, &items)].concat();
    let page = list(&envelope).unwrap();
    let judged: Vec<_> = page.items.iter().map(|item| Pod::from_protobuf(item).content().is_ok()).collect();
    assert_eq!((&*page.version, &*page.more, judged), ("9", "", vec![false, true]));
}

#[test]
fn an_envelope_of_another_encoding_is_refused() {
    let plain = [b"k8s\0".to_vec(), field(2, b"x")].concat();
    assert_eq!(raw_object(&plain).unwrap(), b"x");
    for (number, content) in [(3, "gzip"), (4, "application/json")] {
        let other = [plain.clone(), field(number, content.as_bytes())].concat();
        assert!(raw_object(&other).unwrap_err().to_string().contains("not asked for"));
    }
    assert!(raw_object(b"{}").is_err());
    assert!(raw_object(b"").is_err());
}

#[test]
fn wire_types_that_are_not_read_are_stepped_over_and_unused_ones_are_refused() {
    let name = field(1, b"c");
    let mut container = core::Container::default();
    // A double, a float and a field of a version to come, whose tag is long.
    let strange =
        [&[0x49][..], &[0; 8], &[0x4d], &[0; 4], &[0xfa, 0xff, 0xff, 0xff, 0x0f, 2, 1, 2], &name].concat();
    merge(&mut container, Value::Bytes(&strange)).unwrap();
    assert_eq!(container.name, "c");
    for (bad, why) in [
        (&[0x0b][..], "wire type"),
        (&[0x02, 0], "out of range"),
        (&[0xff; 11], "too long"),
        (&[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01], "end too early"),
        (&[0x08, 1], "name: a number stands"),
    ] {
        let flaw = merge(&mut container, Value::Bytes(bad)).unwrap_err().to_string();
        assert!(flaw.contains(why), "{bad:?}: {flaw}");
    }
}

#[test]
fn what_is_no_text_becomes_what_go_writes_as_json() {
    assert_eq!(wire::text(b"a\xe2\x82b\xff"), "a\u{fffd}\u{fffd}b\u{fffd}");
}

#[test]
fn bookmarks_and_refusals_are_read() {
    let note = field(12, &[field(1, b"k8s.io/initial-events-end"), field(2, b"true")].concat());
    let plain = field(1, &field(6, b"5"));
    let last = field(1, &[field(6, b"6"), note].concat());
    assert_eq!(bookmark(&plain).unwrap(), ("5".to_owned(), false));
    assert_eq!(bookmark(&last).unwrap(), ("6".to_owned(), true));
    let status = [field(3, b"too old"), field(4, b"Expired"), vec![0x30, 0x9a, 0x03]].concat();
    let refusal = refusal(&status).unwrap();
    assert_eq!((&*refusal.message, &*refusal.reason, refusal.code), ("too old", "Expired", 410));
}
