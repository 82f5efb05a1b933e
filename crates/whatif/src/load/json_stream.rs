//! Splits JSON while it is read: a stream into documents, and a list into items. At most one piece is in memory as
//! text.
//!
//! This module parses only the structure around the items. serde_json parses each piece, and errors are reported with
//! their position in the whole input.

use crate::load::packed::Held;
use crate::load::stream::Bad;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::io::BufRead;

/// Nesting depth at which a piece ends; it exceeds the limit of the parser, which then reports the error.
const DEPTH_MAX: u32 = 200;

/// Reads the objects of a stream of JSON documents, with lists split into their items.
pub(super) fn objects(reader: impl BufRead) -> Result<Vec<Held>, Bad> {
    let mut pieces = Pieces { reader, place: Place { line: 1, column: 0 }, piece: Vec::new() };
    let mut all = Vec::new();
    while pieces.peek()?.is_some() {
        pieces.document(&mut all)?;
    }
    Ok(all)
}

/// The position of the next byte: line from 1, and the number of bytes before it in the line.
#[derive(Clone, Copy)]
struct Place {
    line: u64,
    column: u64,
}

impl Place {
    fn pass(&mut self, bytes: &[u8]) {
        match bytes.iter().rposition(|&byte| byte == b'\n') {
            None => self.column += bytes.len() as u64,
            Some(last) => {
                self.line += bytes[..=last].iter().filter(|&&byte| byte == b'\n').count() as u64;
                self.column = (bytes.len() - last - 1) as u64;
            }
        }
    }
}

struct Pieces<R> {
    reader: R,
    place: Place,
    /// The text of the current piece.
    piece: Vec<u8>,
}

impl<R: BufRead> Pieces<R> {
    /// Returns the next byte that is not white space, without consuming it.
    fn peek(&mut self) -> Result<Option<u8>, Bad> {
        loop {
            let buffer = self.reader.fill_buf().map_err(Bad::Io)?;
            let blank = buffer.iter().take_while(|byte| b" \t\r\n".contains(byte)).count();
            let (next, is_over) = (buffer.get(blank).copied(), buffer.is_empty());
            self.place.pass(&buffer[..blank]);
            self.reader.consume(blank);
            if next.is_some() || is_over {
                return Ok(next);
            }
        }
    }

    /// Consumes the byte that [`Self::peek`] returned.
    fn take(&mut self) {
        self.place.column += 1;
        self.reader.consume(1);
    }

    /// Returns the error for an unexpected byte (`what`) or for the end of the input (`end`).
    fn wrong(&self, next: Option<u8>, what: &str, end: &str) -> Bad {
        let (column, text) = match next {
            Some(_) => (self.place.column + 1, what),
            None => (self.place.column, end),
        };
        Bad::Text(self.place.line, column, text.to_owned())
    }

    /// Reads and parses one value.
    fn value<T: DeserializeOwned>(&mut self) -> Result<T, Bad> {
        let begin = self.place;
        self.piece.clear();
        let mut scanner = Scanner::default();
        loop {
            let buffer = self.reader.fill_buf().map_err(Bad::Io)?;
            if buffer.is_empty() {
                break;
            }
            let (used, is_whole) = scanner.scan(buffer);
            self.piece.extend_from_slice(&buffer[..used]);
            self.place.pass(&buffer[..used]);
            self.reader.consume(used);
            if is_whole {
                break;
            }
        }
        let mut parsed = serde_json::from_slice(&self.piece);
        if parsed.as_ref().is_err_and(serde_json::Error::is_eof) {
            // For a truncated literal the parser needs the next byte to report the right position.
            self.piece.extend(self.reader.fill_buf().map_err(Bad::Io)?.first());
            parsed = serde_json::from_slice(&self.piece);
        }
        parsed.map_err(|error| {
            let (line, column) = (error.line() as u64, error.column() as u64);
            let column = if line <= 1 { begin.column + column } else { column };
            let text = error.to_string();
            let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(text, _)| text).to_owned();
            Bad::Text(begin.line + line.max(1) - 1, column, text)
        })
    }

    /// Reads a document and adds its items, or the document itself, to `all`.
    fn document(&mut self, all: &mut Vec<Held>) -> Result<(), Bad> {
        let first = self.peek()?;
        if first != Some(b'{') {
            return Err(self.wrong(first, "expected an object", "expected an object"));
        }
        self.take();
        let mut fields = Map::new();
        let mut items: Option<Vec<Held>> = None;
        let mut is_first = true;
        while self.goes_on(b'}', "object", &mut is_first)? {
            let next = self.peek()?;
            if next != Some(b'"') {
                return Err(self.wrong(next, "key must be a string", "EOF while parsing an object"));
            }
            let field: String = self.value()?;
            let next = self.peek()?;
            if next != Some(b':') {
                return Err(self.wrong(next, "expected `:`", "EOF while parsing an object"));
            }
            self.take();
            match (field.as_str(), self.peek()?) {
                ("items", Some(b'[')) => items = Some(self.items(&fields)?),
                ("items", next @ Some(b'{' | b'"' | b't' | b'f' | b'-' | b'0'..=b'9')) => {
                    return Err(self.wrong(next, "expected a list of objects", ""));
                }
                _ => {
                    let value = self.value()?;
                    fields.insert(field, value);
                }
            }
        }
        match items {
            Some(items) => all.extend(items.into_iter().map(|item| item.of_list(&fields))),
            None => all.push(Held::lean(Value::Object(fields))),
        }
        Ok(())
    }

    fn items(&mut self, list: &Map<String, Value>) -> Result<Vec<Held>, Bad> {
        self.take();
        let mut items = Vec::new();
        let mut is_first = true;
        while self.goes_on(b']', "list", &mut is_first)? {
            self.peek()?;
            let item: Value = self.value()?;
            items.push(Held::lean(item).of_list(list));
        }
        Ok(items)
    }

    /// Consumes a comma or the closing bracket; returns whether another element follows.
    fn goes_on(&mut self, end: u8, what: &str, is_first: &mut bool) -> Result<bool, Bad> {
        let next = self.peek()?;
        let was_first = std::mem::take(is_first);
        match next {
            Some(byte) if byte == end => {
                self.take();
                return Ok(false);
            }
            Some(b',') if !was_first => self.take(),
            Some(_) if was_first => return Ok(true),
            _ => {
                let expected = format!("expected `,` or `{}`", char::from(end));
                return Err(self.wrong(next, &expected, &format!("EOF while parsing {}", article(what))));
            }
        }
        match self.peek()? {
            Some(byte) if byte == end => Err(self.wrong(Some(byte), "trailing comma", "")),
            _ => Ok(true),
        }
    }
}

fn article(what: &str) -> String {
    format!("{} {what}", if what.starts_with('o') { "an" } else { "a" })
}

/// Finds the end of a JSON value without parsing it.
#[derive(Default)]
struct Scanner {
    depth: u32,
    has_begun: bool,
    is_text: bool,
    is_escaped: bool,
}

impl Scanner {
    /// Returns how many of these bytes belong to the value, and whether the value is complete.
    fn scan(&mut self, bytes: &[u8]) -> (usize, bool) {
        let mut at = 0;
        while at < bytes.len() {
            if self.is_escaped {
                self.is_escaped = false;
                at += 1;
                continue;
            }
            if self.is_text {
                let Some(found) = bytes[at..].iter().position(|&byte| matches!(byte, b'"' | b'\\')) else {
                    return (bytes.len(), false);
                };
                at += found + 1;
                self.is_escaped = bytes[at - 1] == b'\\';
                self.is_text = self.is_escaped;
                if !self.is_text && self.depth == 0 {
                    return (at, true);
                }
                continue;
            }
            match bytes[at] {
                b'"' => self.is_text = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' if self.depth > 0 => self.depth -= 1,
                // A number or literal ends before the next delimiter.
                b'}' | b']' | b',' | b':' | b' ' | b'\t' | b'\r' | b'\n' if self.depth == 0 => {
                    return if self.has_begun { (at, true) } else { (at + 1, true) };
                }
                _ => {
                    self.has_begun = true;
                    at += 1;
                    continue;
                }
            }
            self.has_begun = true;
            at += 1;
            let is_closed = self.depth == 0 && !self.is_text;
            if is_closed || self.depth > DEPTH_MAX {
                return (at, true);
            }
        }
        (at, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
            ("{} x", "expected an object"),
            ("{\"items\": {}}", "expected a list of objects"),
        ] {
            assert_eq!(flaw(text).2, what, "{text}");
        }
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
        let text = "{\"kind\": \"List\",\n \"items\": [\n{\"kind\":\"Pod\",\"a\":[1,-2.5e3,true,null,\"x\\n}\"]},\n {}],\n\
                    \"metadata\":{\"b\":{}}}\n {\"kind\":\"Node\"}";
        let mut refused = 0;
        for text in changed(text) {
            let whole: Result<Vec<Value>, _> =
                serde_json::Deserializer::from_str(&text).into_iter().collect();
            let whole = whole.ok().filter(|all| {
                all.iter().all(|it| it.is_object() && it.get("items").is_none_or(Value::is_array))
            });
            let flat = |document: Value| {
                crate::load::files::items(document).into_iter().map(|it| Held::lean(it).into_tree())
            };
            let whole = whole.map(|all| all.into_iter().flat_map(flat).collect::<Vec<_>>());
            let pieces = objects(text.as_bytes()).ok();
            let pieces = pieces.map(|all| all.into_iter().map(Held::into_tree).collect::<Vec<_>>());
            assert_eq!(pieces, whole, "{text}");
            refused += usize::from(whole.is_none());
        }
        assert!(refused > 500, "{refused}");
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
