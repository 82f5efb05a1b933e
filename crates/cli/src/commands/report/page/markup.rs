//! Builds HTML safely: all text is escaped when it is added, including control characters.

use crate::screen::{is_obeyed, plain};
use std::fmt::Write as _;

/// Escapes a text for the content of an element or a quoted attribute.
pub(super) fn escaped(text: &str) -> String {
    let text = plain(text);
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            _ => out.push(c),
        }
    }
    out
}

/// Escapes JSON for a script element, so that it can neither close the element nor open a comment. Control
/// characters are escaped too.
pub(super) fn inert(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if matches!(c, '<' | '>' | '&') || is_obeyed(c) {
            // Writing to a String cannot fail. All escaped characters fit in four hex digits.
            let _ = write!(out, "\\u{:04x}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    out
}

/// HTML built piece by piece.
#[derive(Default)]
pub(super) struct Markup(String);

impl Markup {
    /// Adds markup unchanged. Only for constants of this program.
    pub(super) fn raw(&mut self, markup: &str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    /// Adds a text, escaped.
    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        self.0.push_str(&escaped(text));
        self
    }

    /// Adds an element that contains only text. `tag` may include attributes.
    pub(super) fn element(&mut self, tag: &str, text: &str) -> &mut Self {
        let name = tag.split(' ').next().unwrap_or(tag);
        self.raw("<").raw(tag).raw(">").text(text).raw("</").raw(name).raw(">")
    }

    /// Adds the header row of a table.
    pub(super) fn head(&mut self, cells: &[(&str, bool)]) -> &mut Self {
        self.raw("<thead><tr>");
        for (cell, is_number) in cells {
            self.element(if *is_number { "th scope=\"col\" class=\"n\"" } else { "th scope=\"col\"" }, cell);
        }
        self.raw("</tr></thead>")
    }

    /// Returns the whole markup.
    pub(super) fn into_text(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_in_elements_and_attributes() {
        assert_eq!(escaped("a\"'><b>&\u{202e}\n"), "a&quot;&#39;&gt;&lt;b&gt;&amp;\\u{202e}\\n");
        let mut markup = Markup::default();
        markup.element("td class=\"n\"", "</td><script>");
        assert_eq!(markup.into_text(), "<td class=\"n\">&lt;/td&gt;&lt;script&gt;</td>");
    }

    #[test]
    fn json_in_a_script_is_escaped_and_keeps_its_value() {
        let value = serde_json::json!(["</script><!--", "\u{2028}\u{1b}\u{85}", "é"]);
        let written = inert(&value.to_string());
        assert!(written.chars().all(|c| !"<>&\u{2028}\u{85}\u{1b}".contains(c)), "{written}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&written).ok(), Some(value));
    }
}
