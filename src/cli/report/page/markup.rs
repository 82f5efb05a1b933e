//! Markup that names cannot break out of: every text is escaped as it is put in, and control characters are spelled out.

use crate::cli::screen::{is_obeyed, plain};
use std::fmt::Write as _;

/// A text for the inside of an element or of a quoted attribute.
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

/// A JSON text for the inside of a script element: nothing in it ends the element or begins a comment, and nothing in it is obeyed by
/// whatever shows the source.
pub(super) fn inert(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if matches!(c, '<' | '>' | '&') || is_obeyed(c) {
            // Writing to a text cannot fail. None of these is beyond what four digits say.
            let _ = write!(out, "\\u{:04x}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    out
}

/// Markup that is built piece by piece.
#[derive(Default)]
pub(super) struct Markup(String);

impl Markup {
    /// Puts in markup as it is. Only for what is written in this program.
    pub(super) fn raw(&mut self, markup: &str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    /// Puts in a text.
    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        self.0.push_str(&escaped(text));
        self
    }

    /// An element of nothing but text, with its attributes as they are written in a tag.
    pub(super) fn element(&mut self, tag: &str, text: &str) -> &mut Self {
        let name = tag.split(' ').next().unwrap_or(tag);
        self.raw("<").raw(tag).raw(">").text(text).raw("</").raw(name).raw(">")
    }

    /// A row of a table's head.
    pub(super) fn head(&mut self, cells: &[(&str, bool)]) -> &mut Self {
        self.raw("<thead><tr>");
        for (cell, is_number) in cells {
            self.element(if *is_number { "th scope=\"col\" class=\"n\"" } else { "th scope=\"col\"" }, cell);
        }
        self.raw("</tr></thead>")
    }

    /// All of it.
    pub(super) fn into_text(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_break_out_of_an_element_or_an_attribute() {
        assert_eq!(escaped("a\"'><b>&\u{202e}\n"), "a&quot;&#39;&gt;&lt;b&gt;&amp;\\u{202e}\\n");
        let mut markup = Markup::default();
        markup.element("td class=\"n\"", "</td><script>");
        assert_eq!(markup.into_text(), "<td class=\"n\">&lt;/td&gt;&lt;script&gt;</td>");
    }

    #[test]
    fn data_neither_ends_its_script_nor_changes() {
        let told = serde_json::json!(["</script><!--", "\u{2028}\u{1b}\u{85}", "é"]);
        let written = inert(&told.to_string());
        assert!(written.chars().all(|c| !"<>&\u{2028}\u{85}\u{1b}".contains(c)), "{written}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&written).ok(), Some(told));
    }
}
