//! Reads JSON item by item: a stream into documents, and a list into its items. At most one item is in memory as a tree
//! before the caller's choice of what to keep of it.
//!
//! serde_json does all parsing, and so its errors have their position in the whole input.

use crate::load::packed::{Held, name_kind};
use crate::load::stream::Bad;
use crate::load::unique::{Unique, UniqueKeys, duplicate};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::de::{IoRead, Read, StrRead};
use serde_json::map::Entry;
use serde_json::{Map, Value};
use std::fmt;
use std::io::BufRead;

/// Reads the objects of a large input. Fields that scheduling never reads are dropped.
pub(super) fn objects(reader: impl BufRead) -> Result<Vec<Held>, Bad> {
    read(IoRead::new(reader), Keep { item: Held::lean, document: Held::lean })
}

/// Reads the objects of a small text as trees. Only items of lists lose the fields that scheduling never reads.
pub(super) fn trees(text: &str) -> Result<Vec<Held>, Bad> {
    read(StrRead::new(text), Keep { item: Held::lean_tree, document: Held::Tree })
}

/// What is kept of an object.
#[derive(Clone, Copy)]
struct Keep {
    /// Of an item of a list.
    item: fn(Value) -> Held,
    /// Of a document that is not a list.
    document: fn(Value) -> Held,
}

fn read<'de>(from: impl Read<'de>, keep: Keep) -> Result<Vec<Held>, Bad> {
    let mut from = serde_json::Deserializer::new(from);
    let mut all = Vec::new();
    loop {
        match from.end() {
            Ok(()) => return Ok(all),
            Err(error) if error.is_io() => return Err(error.into()),
            // Another document follows.
            Err(_) => Document { all: &mut all, keep }.deserialize(&mut from)?,
        }
    }
}

impl From<serde_json::Error> for Bad {
    fn from(error: serde_json::Error) -> Self {
        if error.is_io() {
            return Self::Io(error.into());
        }
        let text = error.to_string();
        let what = text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what);
        Self::Text(error.line() as u64, error.column() as u64, what.to_owned())
    }
}

/// Adds the items of a document, or the document itself, to `all`.
struct Document<'a> {
    all: &'a mut Vec<Held>,
    keep: Keep,
}

impl<'de> DeserializeSeed<'de> for Document<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Document<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<(), A::Error> {
        let mut fields = Map::new();
        let mut items = None;
        while let Some(field) = from.next_key::<String>()? {
            if field != "items" {
                match fields.entry(field) {
                    Entry::Vacant(slot) => slot.insert(from.next_value::<Unique>()?.0),
                    Entry::Occupied(slot) => return Err(duplicate(slot.key())),
                };
                continue;
            }
            if items.is_some() || fields.contains_key(&field) {
                return Err(duplicate(&field));
            }
            match from.next_value_seed(Items { list: &fields, keep: self.keep.item })? {
                ItemsOr::Items(listed) => items = Some(listed),
                ItemsOr::Other(value) => {
                    fields.insert(field, value);
                }
            }
        }
        match items {
            // The list's kind may follow its items.
            Some(items) => self.all.extend(items.into_iter().map(|it| it.of_list(&fields, self.keep.item))),
            None => self.all.push((self.keep.document)(Value::Object(fields))),
        }
        Ok(())
    }
}

/// The content of a field `items`.
enum ItemsOr {
    Items(Vec<Held>),
    Other(Value),
}

/// Reads `items` of a list with these fields so far.
struct Items<'a> {
    list: &'a Map<String, Value>,
    keep: fn(Value) -> Held,
}

impl<'de> DeserializeSeed<'de> for Items<'_> {
    type Value = ItemsOr;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<ItemsOr, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Items<'_> {
    type Value = ItemsOr;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<ItemsOr, A::Error> {
        let mut items = Vec::new();
        while let Some(Unique(mut item)) = from.next_element()? {
            name_kind(&mut item, self.list);
            items.push((self.keep)(item));
        }
        Ok(ItemsOr::Items(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, from: A) -> Result<ItemsOr, A::Error> {
        UniqueKeys.visit_map(from).map(ItemsOr::Other)
    }

    fn visit_unit<E: Error>(self) -> Result<ItemsOr, E> {
        Ok(ItemsOr::Other(Value::Null))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::de::Deserialize;
    use serde_json::value::RawValue;
    use std::collections::BTreeSet;
    use std::io::BufReader;

    fn flaw(text: &str) -> (u64, u64, String) {
        let read = |capacity: usize| match objects(BufReader::with_capacity(capacity, text.as_bytes())) {
            Err(Bad::Text(line, column, what)) => (line, column, what),
            other => panic!("{other:?}: {text}"),
        };
        assert_eq!(read(1), read(4_096), "same result for every buffer size: {text}");
        read(1)
    }

    #[test]
    fn error_positions_equal_those_of_a_whole_parse() {
        for text in [
            "{\"a\" 1}",
            "{\"a\": 1,}",
            "{\"a\": 1 \"b\": 2}",
            "{\n \"a\": tru\n}",
            "{\n  \"a\": {\"b\": [1, 2}\n}",
            "{\"items\": [1,\n 2,\n]}",
            "{\"items\": [1\n 2]}",
            "{\"items\": [{\"a\": 1},\n  {\"b\": 1 2}]}",
            "{\"items\": [\"\\x\"]}",
            "{1: 2}",
            "{,}",
        ] {
            let whole = serde_json::from_str::<Value>(text).expect_err(text);
            let what = whole.to_string();
            let what = what.rsplit_once(" at line ").map_or(what.as_str(), |(what, _)| what).to_owned();
            assert_eq!(flaw(text), (whole.line() as u64, whole.column() as u64, what), "{text}");
        }
    }

    #[test]
    fn truncated_and_deeply_nested_texts_are_rejected() {
        for (text, what) in [
            ("{", "EOF while parsing an object"),
            ("{\"items\": [", "EOF while parsing a list"),
            ("{\"items\": [{\"a\": \"b", "EOF while parsing a string"),
            ("{\"a\"", "EOF while parsing an object"),
            ("{} x", "expected value"),
            ("{} [1]", "invalid type: sequence, expected an object"),
            ("{\"items\": 1}", "invalid type: integer `1`, expected a list of objects"),
        ] {
            assert_eq!(flaw(text).2, what, "{text}");
        }
        let broken = objects(&b"{\"items\": [\n{\"a\": \"\xff\"}]}"[..]);
        assert!(matches!(broken, Err(Bad::Text(2, 8, _))), "{broken:?}");
        let deep = format!("{{\"items\": [{}", "[".repeat(1_000_000));
        assert_eq!(flaw(&deep).2, "recursion limit exceeded");
    }

    /// Returns all texts with one byte removed or replaced.
    fn changed(text: &str) -> Vec<String> {
        let bytes = text.as_bytes();
        let with = |at: usize, by: &[u8]| [&bytes[..at], by, &bytes[at + 1..]].concat();
        let by = |at: usize| {
            b"{}[]\",:\\ 1-.etn\n\x01"
                .iter()
                .map(move |&byte| vec![byte])
                .chain([vec![]])
                .map(move |by| with(at, &by))
        };
        (0..bytes.len()).flat_map(by).filter_map(|text| String::from_utf8(text).ok()).collect()
    }

    #[test]
    fn mutated_texts_parse_exactly_as_in_a_whole_parse() {
        let text = "{\"kind\": \"List\",\n \"items\": [\n{\"kind\":\"Pod\",\"a\":[1,-2.5e3,true,null,\"x\\n}\"],\"e\":0},\n {}],\n\
                    \"metadata\":{\"b\":{},\"n\":1},\"c\":0,\"t\":[{\"x\":0,\".\":1}]}\n {\"kind\":\"Node\"}";
        let (mut refused, mut repeated) = (0, 0);
        for text in changed(text) {
            let whole: Result<Vec<Value>, _> =
                serde_json::Deserializer::from_str(&text).into_iter().collect();
            let can_be_read = |document: &Value| match document.get("items") {
                None => document.is_object() || document.is_null(),
                Some(items) => items.is_array() || items.is_object() || items.is_null(),
            };
            let whole = whole.ok().filter(|all| all.iter().all(can_be_read));
            let has_repeated = whole.is_some() && has_repeated_key(&text);
            repeated += usize::from(has_repeated);
            let whole = whole.filter(|_| !has_repeated);
            let flat = |document: Value| {
                let document = Some(document).filter(|it| !it.is_null());
                document.into_iter().flat_map(crate::load::files::items).map(|it| Held::lean(it).into_tree())
            };
            let whole = whole.map(|all| all.into_iter().flat_map(flat).collect::<Vec<_>>());
            let pieces = objects(text.as_bytes()).ok();
            let pieces = pieces.map(|all| all.into_iter().map(Held::into_tree).collect::<Vec<_>>());
            assert_eq!(pieces, whole, "{text}");
            refused += usize::from(whole.is_none());
        }
        assert!(refused > 500 && repeated >= 4, "{refused}, {repeated}");
    }

    /// The entries of an object, with repeated keys.
    struct Entries(Vec<(String, Box<RawValue>)>);

    impl<'de> Deserialize<'de> for Entries {
        fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
            struct All;
            impl<'de> Visitor<'de> for All {
                type Value = Entries;

                fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str("an object")
                }

                fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Entries, A::Error> {
                    let mut all = Vec::new();
                    while let Some(entry) = from.next_entry()? {
                        all.push(entry);
                    }
                    Ok(Entries(all))
                }
            }
            from.deserialize_map(All)
        }
    }

    /// Returns whether a stream of valid JSON has an object with a repeated key, at any depth.
    fn has_repeated_key(text: &str) -> bool {
        let documents = serde_json::Deserializer::from_str(text).into_iter::<Box<RawValue>>();
        documents.map(|document| document.expect("the text is valid JSON")).any(|document| {
            let text = document.get();
            let parsed = "the document is valid JSON";
            let mut keys = BTreeSet::new();
            match text.as_bytes().first() {
                Some(b'{') => {
                    let Entries(all) = serde_json::from_str(text).expect(parsed);
                    all.into_iter().any(|(key, value)| !keys.insert(key) || has_repeated_key(value.get()))
                }
                Some(b'[') => {
                    let all: Vec<Box<RawValue>> = serde_json::from_str(text).expect(parsed);
                    all.iter().any(|value| has_repeated_key(value.get()))
                }
                _ => false,
            }
        })
    }

    #[test]
    fn repeated_key_is_rejected_where_it_ends() {
        for (text, place) in [
            ("{\"kind\": \"Pod\",\n \"kind\": \"Pod\"}", (2, 7, "kind")),
            ("{\"spec\": {\"a\": {},\n  \"a\": {}}}", (2, 5, "a")),
            ("{\"spec\": [[{\"a\": 1, \"b\": 1, \"\\u0061\": 1}]]}", (1, 36, "a")),
            ("{\"items\": [],\n\"items\": []}", (2, 7, "items")),
            ("{\"items\": null, \"items\": []}", (1, 23, "items")),
            ("{\"items\": {\"x\": 1, \"x\": 1}}", (1, 22, "x")),
            ("{\"items\": [{\"a\": 1},\n {\"m\": {\"b\": 1, \"b\": 2}}]}", (2, 19, "b")),
            ("{\"kind\": \"Pod\"} {\"a\": 1, \"a\": 1}", (1, 28, "a")),
        ] {
            let (line, column, key) = place;
            let what = format!("duplicate mapping key: {key}");
            let small = trees(text);
            let is_there = |bad: &Bad| matches!(bad, Bad::Text(at, end, why) if (*at, *end, why) == (line, column, &what));
            assert!(small.as_ref().is_err_and(is_there), "{small:?}: {text}");
            // A stream has read the colon behind the key.
            assert_eq!(flaw(text), (line, column + 1, what), "{text}");
        }
    }

    #[test]
    fn identified_pod_is_packed_and_unpacks_unchanged() {
        let item = |kind: &str| {
            format!(
                "{{{kind}\"metadata\":{{\"name\":\"p\",\"namespace\":\"n\",\"uid\":\"u\",\"managedFields\":[1]}},\"spec\":{{\"x\":\"\\u001b}}\"}}}}"
            )
        };
        let own = item("\"apiVersion\":\"v1\",\"kind\":\"Pod\",");
        for text in [
            format!("{{\"kind\":\"List\",\"items\":[{own}]}}"),
            format!("{{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"items\":[{}]}}", item("")),
            format!("{{\"items\":[{}],\"kind\":\"PodList\",\"apiVersion\":\"v1\"}}", item("")),
            own.clone(),
        ] {
            let held = objects(text.as_bytes()).unwrap_or_else(|bad| panic!("{bad:?}"));
            assert!(matches!(held.as_slice(), [Held::Packed(_)]), "{held:?}");
            let mut whole: Value = serde_json::from_str(&own).expect("the text is valid JSON");
            crate::load::files::remove_unread_fields(&mut whole);
            assert_eq!(held.into_iter().map(Held::into_tree).collect::<Vec<_>>(), [whole]);
        }
    }
}
