//! Compares decoding from protobuf with decoding from JSON, for valid and damaged input.
//!
//! Inputs are the objects of the golden vectors and generated ones of every kind, encoded by upstream's encoder
//! (`tests/upstream/protobuf`).

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
    let packed = include_bytes!("../../../../../tests/fixtures/protobuf.jsonl.gz");
    let mut text = String::new();
    GzDecoder::new(&packed[..]).read_to_string(&mut text).unwrap();
    text
}

fn bytes(hexadecimal: &str) -> Vec<u8> {
    let digits = hexadecimal.as_bytes().chunks(2);
    digits.map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// How to decode a kind from both encodings.
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

fn cases() -> [Case; 18] {
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
        case::<resource::ResourceClaimKind>(),
        case::<resource::ResourceSliceKind>(),
    ]
}

#[test]
fn protobuf_and_json_decode_to_equal_objects() {
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

/// A deterministic pseudo-random number generator.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit.max(1)
    }

    /// Changes, drops, duplicates or cuts off some bytes.
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
fn damaged_bytes_never_panic_the_decoder() {
    let (text, cases) = (fixture(), cases());
    let mut random = Random(7);
    let mut refused = [0; 5];
    for (number, line) in text.lines().enumerate().filter(|(number, _)| number % 4 == 0) {
        let mut bytes = bytes(&serde_json::from_str::<Line<'_>>(line).unwrap().protobuf);
        random.spoil(&mut bytes);
        refused[0] += usize::from(raw_object(&bytes).is_err());
        // Any kind may decode to other content or be malformed.
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
fn every_prefix_of_an_object_decodes_or_fails() {
    let text = fixture();
    let line = text.lines().filter(|line| line.contains(r#""kind":"Pod""#)).max_by_key(|line| line.len());
    let bytes = bytes(&serde_json::from_str::<Line<'_>>(line.unwrap()).unwrap().protobuf);
    let message = raw_object(&bytes).unwrap();
    assert!(message.len() > 1_000);
    for end in 0..message.len() {
        // A prefix that ends at a field boundary is a valid object.
        let read = Pod::from_protobuf(&message[..end]);
        if let Err(malformed) = read.content() {
            assert!(malformed.reason.contains("truncated"), "{end}: {malformed}");
        }
    }
    for end in 0..bytes.len() {
        if let Ok(raw) = raw_object(&bytes[..end]) {
            assert!(raw.is_empty() || raw == message, "{end}");
        }
    }
}

/// Encodes a field of bytes or of a message.
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
fn malformed_object_reports_its_field_and_spares_the_rest() {
    let metadata = [field(1, b"p"), field(3, b"ns"), field(5, b"u"), field(6, b"7")].concat();
    // In the second port of the first container, the host port is a string.
    let container = [field(1, b"c"), field(6, b"\x10\x50"), field(6, b"\x12\x01x")].concat();
    let pod = [field(1, &metadata), field(2, &field(2, &container))].concat();
    let read = Pod::from_protobuf(&pod);
    assert_eq!(
        read.content().unwrap_err().to_string(),
        "Pod ns/p is malformed: spec.containers[0].ports[1].hostPort: expected a number"
    );
    assert_eq!(
        (read.metadata.uid.as_deref(), read.metadata.resource_version.as_deref()),
        (Some("u"), Some("7"))
    );
    // The metadata comes after the invalid field, so the name is unknown.
    let late = [field(2, &[0xff]), field(1, &metadata)].concat();
    assert_eq!(Pod::from_protobuf(&late).name(), "");

    let items = [field(1, &field(2, b"9")), field(2, &pod), field(2, &field(1, &metadata))].concat();
    let envelope = [b"k8s\0".to_vec(), field(2, &items)].concat();
    let page = list(&envelope).unwrap();
    let judged: Vec<_> = page.items.iter().map(|item| Pod::from_protobuf(item).content().is_ok()).collect();
    assert_eq!((&*page.version, &*page.more, judged), ("9", "", vec![false, true]));
}

#[test]
fn envelope_of_another_encoding_is_rejected() {
    let plain = [b"k8s\0".to_vec(), field(2, b"x")].concat();
    assert_eq!(raw_object(&plain).unwrap(), b"x");
    for (number, content) in [(3, "gzip"), (4, "application/json")] {
        let other = [plain.clone(), field(number, content.as_bytes())].concat();
        assert!(raw_object(&other).unwrap_err().to_string().contains("unexpected content type or encoding"));
    }
    assert!(raw_object(b"{}").is_err());
    assert!(raw_object(b"").is_err());
}

#[test]
fn unread_wire_types_are_skipped_and_invalid_ones_rejected() {
    let name = field(1, b"c");
    let mut container = core::Container::default();
    // A double, a float and an unknown field with a long tag.
    let strange =
        [&[0x49][..], &[0; 8], &[0x4d], &[0; 4], &[0xfa, 0xff, 0xff, 0xff, 0x0f, 2, 1, 2], &name].concat();
    merge(&mut container, Value::Bytes(&strange)).unwrap();
    assert_eq!(container.name, "c");
    for (bad, why) in [
        (&[0x0b][..], "wire type"),
        (&[0x02, 0], "out of range"),
        (&[0xff; 11], "too long"),
        (&[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01], "truncated"),
        (&[0x08, 1], "name: expected"),
    ] {
        let flaw = merge(&mut container, Value::Bytes(bad)).unwrap_err().to_string();
        assert!(flaw.contains(why), "{bad:?}: {flaw}");
    }
}

#[test]
fn invalid_utf8_is_replaced_as_in_go_json() {
    assert_eq!(wire::text(b"a\xe2\x82b\xff"), "a\u{fffd}\u{fffd}b\u{fffd}");
}

#[test]
fn bookmarks_and_error_statuses_are_decoded() {
    let note = field(12, &[field(1, b"k8s.io/initial-events-end"), field(2, b"true")].concat());
    let plain = field(1, &field(6, b"5"));
    let last = field(1, &[field(6, b"6"), note].concat());
    assert_eq!(bookmark(&plain).unwrap(), ("5".to_owned(), false));
    assert_eq!(bookmark(&last).unwrap(), ("6".to_owned(), true));
    let status = [field(3, b"too old"), field(4, b"Expired"), vec![0x30, 0x9a, 0x03]].concat();
    let refusal = refusal(&status).unwrap();
    assert_eq!((&*refusal.message, &*refusal.reason, refusal.code), ("too old", "Expired", 410));
}
