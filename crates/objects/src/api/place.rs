//! Locates a decoding error in an object, as the path of the field.

/// Formats the error with its field's path, without the decoder's line and column.
pub(super) fn describe(json: &str, error: &serde_json::Error) -> String {
    let text = error.to_string();
    let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(text, _)| text);
    let path = path_at(json, offset(json, error.line(), error.column()));
    if path.is_empty() { text.to_owned() } else { format!("{path}: {text}") }
}

fn offset(json: &str, line: usize, column: usize) -> usize {
    let before: usize = json.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    before + column
}

enum Step {
    Key(String),
    Index(usize),
}

/// Returns the path of the value that contains or ends at the offset `end`.
fn path_at(json: &str, end: usize) -> String {
    let mut steps: Vec<Step> = Vec::new();
    let mut key_follows = false;
    let mut bytes = json.bytes().enumerate().take(end);
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'{' => {
                steps.push(Step::Key(String::new()));
                key_follows = true;
            }
            b'[' => steps.push(Step::Index(0)),
            b'}' | b']' => drop(steps.pop()),
            b',' => match steps.last_mut() {
                Some(Step::Index(index)) => *index += 1,
                Some(Step::Key(_)) => key_follows = true,
                None => {}
            },
            b'"' => {
                let text = skip_text(json, at, &mut bytes);
                if let (true, Some(Step::Key(key))) = (key_follows, steps.last_mut()) {
                    (*key, key_follows) = (text.to_owned(), false);
                }
            }
            _ => {}
        }
    }
    let mut path = String::new();
    for step in &steps {
        match step {
            Step::Key(key) if key.is_empty() => {}
            Step::Key(key) if path.is_empty() => path.push_str(key),
            Step::Key(key) => path.extend([".", key]),
            Step::Index(index) => path.push_str(&format!("[{index}]")),
        }
    }
    path
}

/// Skips a JSON string that began at `start` and returns its raw content.
fn skip_text<'a>(json: &'a str, start: usize, bytes: &mut impl Iterator<Item = (usize, u8)>) -> &'a str {
    let mut escaped = false;
    for (at, byte) in bytes {
        match byte {
            b'"' if !escaped => return &json[start + 1..at],
            b'\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    ""
}
