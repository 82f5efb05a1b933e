//! Translates Go (RE2) patterns to the syntax of the `regex` crate, and rejects invalid patterns with Go's
//! error texts.

use crate::error::{Error, Result};

/// The highest count in `{n,m}`, and the highest product of nested counts, as in Go's `regexp/syntax/parse.go`.
const REPEAT_LIMIT: u32 = 1000;
/// Maximum group nesting. In Go, `maxHeight` in `regexp/syntax/parse.go` limits the height of the whole
/// syntax tree.
const DEPTH_LIMIT: usize = 1000;

pub(super) fn translate(pattern: &str) -> Result<String> {
    let mut translation = Translation {
        pattern,
        rest: pattern,
        out: String::with_capacity(pattern.len() * 2),
        groups: 0,
        products: vec![1],
    };
    translation.run()?;
    Ok(translation.out)
}

struct Translation<'p> {
    pattern: &'p str,
    rest: &'p str,
    out: String,
    groups: usize,
    /// The highest product of nested counts in all items but the last one, for the pattern and each open group.
    products: Vec<u32>,
}

fn fail<T>(code: &str, part: &str) -> Result<T> {
    Err(Error::new(format!("error parsing regexp: {code}: `{part}`")))
}

impl<'p> Translation<'p> {
    fn run(&mut self) -> Result<()> {
        // `repeatable`: the previous item can be repeated. `repetition`: the pattern from the previous item
        // on, if that item is itself a repetition.
        let mut repeatable = false;
        let mut repetition: Option<&'p str> = None;
        // The highest product of nested counts in the previous item.
        let mut product = 1;
        while let Some(character) = self.rest.chars().next() {
            let start = self.rest;
            let counted = if character == '{' { counts(start) } else { None };
            let repeats = matches!(character, '*' | '+' | '?') || counted.is_some();
            if !repeats && let Some(all) = self.products.last_mut() {
                *all = product.max(*all);
                product = 1;
            }
            match character {
                '(' => {
                    let outside = self.groups;
                    self.open_group()?;
                    if self.groups > outside {
                        self.products.push(1);
                    }
                    repeatable = false;
                }
                ')' => {
                    if self.groups == 0 {
                        return fail("unexpected )", self.pattern);
                    }
                    self.groups -= 1;
                    self.copy(1);
                    repeatable = true;
                    product = self.products.pop().unwrap_or(1);
                }
                '|' => {
                    self.copy(1);
                    repeatable = false;
                }
                '[' => {
                    self.class()?;
                    repeatable = true;
                }
                '\\' => {
                    self.escape()?;
                    repeatable = true;
                }
                '*' | '+' | '?' => {
                    self.repeat(1, repeatable, repetition)?;
                }
                '{' => match counted {
                    Some(count) => product = self.repeat_counted(count, repeatable, repetition, product)?,
                    None => {
                        self.literal('{');
                        repeatable = true;
                    }
                },
                '.' | '^' | '$' => {
                    self.copy(1);
                    repeatable = true;
                }
                _ => {
                    self.literal(character);
                    repeatable = true;
                }
            }
            repetition = repeats.then_some(start);
        }
        if self.groups > 0 { fail("missing closing )", self.pattern) } else { Ok(()) }
    }

    fn copy(&mut self, length: usize) {
        let (part, rest) = self.rest.split_at(length);
        self.out.push_str(part);
        self.rest = rest;
    }

    /// Copies a literal character, escaped unless it is alphanumeric.
    fn literal(&mut self, character: char) {
        self.write(character);
        self.rest = &self.rest[character.len_utf8()..];
    }

    fn write(&mut self, character: char) {
        if character.is_alphanumeric() {
            self.out.push(character);
        } else {
            self.out.push_str(&format!("\\x{{{:x}}}", u32::from(character)));
        }
    }

    fn repeat(&mut self, length: usize, repeatable: bool, previous: Option<&'p str>) -> Result<()> {
        let operator = &self.rest[..length];
        let lazy = self.rest[length..].starts_with('?');
        let whole = length + usize::from(lazy);
        if let Some(previous) = previous {
            let end = previous.len() - (self.rest.len() - whole);
            return fail("invalid nested repetition operator", &previous[..end]);
        }
        if !repeatable {
            return fail("missing argument to repetition operator", operator);
        }
        self.copy(whole);
        Ok(())
    }

    /// Copies `{n,m}`. Returns the product of the counts with those inside of the previous item.
    fn repeat_counted(
        &mut self,
        (length, least, most): (usize, u32, Option<u32>),
        repeatable: bool,
        previous: Option<&'p str>,
        inside: u32,
    ) -> Result<u32> {
        let start = self.rest;
        if least > REPEAT_LIMIT || most.is_some_and(|most| most > REPEAT_LIMIT || most < least) {
            return fail("invalid repeat count", &start[..length]);
        }
        self.repeat(length, repeatable, previous)?;
        // Without a maximum, the minimum counts; `{0}` ends the nesting, and `{0,}` counts as one.
        let product = match most.unwrap_or(least.max(1)) {
            0 => 1,
            count => count * inside,
        };
        if product > REPEAT_LIMIT {
            let whole = start.len() - self.rest.len();
            return fail("invalid repeat count", &start[..whole]);
        }
        Ok(product)
    }

    fn open_group(&mut self) -> Result<()> {
        self.groups += 1;
        if self.groups > DEPTH_LIMIT {
            return fail("expression nests too deeply", self.pattern);
        }
        let Some(after) = self.rest.strip_prefix("(?") else {
            self.copy(1);
            return Ok(());
        };
        if after.starts_with("P<") || after.starts_with('<') {
            return self.named_group();
        }
        let (mut sign, mut flags) = (false, false);
        for (index, character) in after.char_indices() {
            match character {
                'i' | 'm' | 's' | 'U' => flags = true,
                '-' if !sign => (sign, flags) = (true, false),
                ':' | ')' if !sign || flags => {
                    self.groups -= usize::from(character == ')');
                    self.copy(2 + index + 1);
                    return Ok(());
                }
                _ => {
                    let end = 2 + index + character.len_utf8();
                    return fail("invalid or unsupported Perl syntax", &self.rest[..end]);
                }
            }
        }
        fail("missing closing )", self.pattern)
    }

    fn named_group(&mut self) -> Result<()> {
        let Some(end) = self.rest.find('>') else { return fail("invalid named capture", self.rest) };
        let start = if self.rest.starts_with("(?P<") { 4 } else { 3 };
        let name = self.rest.get(start..end).unwrap_or_default();
        if name.is_empty() || !name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric()) {
            return fail("invalid named capture", &self.rest[..=end]);
        }
        // Nothing reads the name. The `regex` crate rejects duplicate names, which Go accepts.
        self.out.push('(');
        self.rest = &self.rest[end + 1..];
        Ok(())
    }

    fn escape(&mut self) -> Result<()> {
        let Some(character) = self.rest[1..].chars().next() else {
            return fail("trailing backslash at end of expression", "");
        };
        match character {
            'A' | 'z' => self.copy(2),
            'b' => {
                self.out.push_str("(?-u:\\b)");
                self.rest = &self.rest[2..];
            }
            'B' => self.copy(2),
            'Q' => {
                self.rest = &self.rest[2..];
                let (quoted, behind) = self.rest.split_once("\\E").unwrap_or((self.rest, ""));
                quoted.chars().for_each(|character| self.write(character));
                self.rest = behind;
            }
            'd' | 'D' | 's' | 'S' | 'w' | 'W' => {
                let class = perl_class(character);
                self.out.push_str(class);
                self.rest = &self.rest[2..];
            }
            'p' | 'P' => self.unicode_class()?,
            _ => {
                let character = self.escaped_character()?;
                self.write(character);
            }
        }
        Ok(())
    }

    /// Parses `\pL`, `\p{Greek}` or `\p{^Greek}`, and appends the class to the output.
    fn unicode_class(&mut self) -> Result<()> {
        let mut negated = self.rest.starts_with("\\P");
        let after = &self.rest[2..];
        let Some(first) = after.chars().next() else {
            return fail("invalid character class range", self.rest);
        };
        let (mut name, length) = if first == '{' {
            let Some(end) = after.find('}') else { return fail("invalid character class range", self.rest) };
            (&after[1..end], end + 1)
        } else {
            (&after[..first.len_utf8()], first.len_utf8())
        };
        let whole = &self.rest[..2 + length];
        if let Some(rest) = name.strip_prefix('^') {
            negated = !negated;
            name = rest;
        }
        let class = format!("\\{}{{{name}}}", if negated { 'P' } else { 'p' });
        let known = name == "Any"
            || (name.chars().all(|c| c.is_ascii_alphabetic() || c == '_')
                && ::regex::Regex::new(&class).is_ok());
        if !known || name.is_empty() {
            return fail("invalid character class range", whole);
        }
        self.out.push_str(&class);
        self.rest = &self.rest[2 + length..];
        Ok(())
    }

    /// Parses the escape at the start of `rest`, and returns its character.
    fn escaped_character(&mut self) -> Result<char> {
        let start = self.rest;
        let mut chars = self.rest[1..].chars();
        let Some(character) = chars.next() else {
            return fail("trailing backslash at end of expression", "");
        };
        let bad = |rest: &str| fail("invalid escape sequence", &start[..start.len() - rest.len()]);
        let value = match character {
            '0'..='7' => {
                if character != '0' && !chars.as_str().starts_with(|c: char| ('0'..='7').contains(&c)) {
                    return bad(chars.as_str());
                }
                let mut value = character.to_digit(8).unwrap_or_default();
                for _ in 0..2 {
                    if let Some(digit) = chars.as_str().chars().next().and_then(|c| c.to_digit(8)) {
                        value = value * 8 + digit;
                        chars.next();
                    }
                }
                char::from_u32(value)
            }
            'x' => hexadecimal(&mut chars),
            'a' => Some('\u{7}'),
            'f' => Some('\u{c}'),
            'n' => Some('\n'),
            'r' => Some('\r'),
            't' => Some('\t'),
            'v' => Some('\u{b}'),
            _ if character.is_ascii() && !character.is_ascii_alphanumeric() => Some(character),
            _ => None,
        };
        let Some(value) = value else { return bad(chars.as_str()) };
        self.rest = chars.as_str();
        Ok(value)
    }

    fn class(&mut self) -> Result<()> {
        let start = self.rest;
        self.out.push('[');
        self.rest = &self.rest[1..];
        if let Some(rest) = self.rest.strip_prefix('^') {
            self.out.push('^');
            self.rest = rest;
        }
        let mut first = true;
        loop {
            if self.rest.is_empty() {
                return fail("missing closing ]", start);
            }
            if self.rest.starts_with(']') && !first {
                break;
            }
            first = false;
            if self.rest.starts_with("[:") && self.posix_class()? {
                continue;
            }
            match self.rest.as_bytes().get(..2) {
                Some(b"\\d" | b"\\D" | b"\\s" | b"\\S" | b"\\w" | b"\\W") => {
                    let class = perl_class(char::from(self.rest.as_bytes()[1]));
                    self.out.push_str(class);
                    self.rest = &self.rest[2..];
                }
                Some(b"\\p" | b"\\P") => self.unicode_class()?,
                _ => self.class_range(start)?,
            }
        }
        self.copy(1);
        Ok(())
    }

    fn class_character(&mut self, start: &str) -> Result<char> {
        match self.rest.chars().next() {
            None => fail("missing closing ]", start),
            Some('\\') => self.escaped_character(),
            Some(character) => {
                self.rest = &self.rest[character.len_utf8()..];
                Ok(character)
            }
        }
    }

    fn class_range(&mut self, start: &str) -> Result<()> {
        let before = self.rest;
        let low = self.class_character(start)?;
        let mut high = low;
        if let Some(behind) = self.rest.strip_prefix('-')
            && !behind.is_empty()
            && !behind.starts_with(']')
        {
            self.rest = behind;
            high = self.class_character(start)?;
            if high < low {
                return fail("invalid character class range", &before[..before.len() - self.rest.len()]);
            }
        }
        self.write(low);
        if high != low {
            self.out.push('-');
            self.write(high);
        }
        Ok(())
    }

    /// Copies a class such as `[:alpha:]`; returns false if there is none.
    fn posix_class(&mut self) -> Result<bool> {
        let Some(end) = self.rest[2..].find(":]") else { return Ok(false) };
        let whole = &self.rest[..end + 4];
        let name = whole[2..end + 2].trim_start_matches('^');
        const NAMES: [&str; 14] = [
            "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
            "space", "upper", "word", "xdigit",
        ];
        if !NAMES.contains(&name) {
            return fail("invalid character class range", whole);
        }
        self.out.push_str(whole);
        self.rest = &self.rest[whole.len()..];
        Ok(true)
    }
}

fn perl_class(letter: char) -> &'static str {
    match letter {
        'd' => "[0-9]",
        'D' => "[^0-9]",
        's' => "[\\t\\n\\f\\r ]",
        'S' => "[^\\t\\n\\f\\r ]",
        'w' => "[0-9A-Za-z_]",
        _ => "[^0-9A-Za-z_]",
    }
}

fn hexadecimal(chars: &mut std::str::Chars<'_>) -> Option<char> {
    let first = chars.next()?;
    let value = if first == '{' {
        let (digits, rest) = chars.as_str().split_once('}')?;
        let value = u32::from_str_radix(digits, 16).ok()?;
        *chars = rest.chars();
        value
    } else {
        first.to_digit(16)? * 16 + chars.next()?.to_digit(16)?
    };
    char::from_u32(value)
}

/// Returns the length of `{n}`, `{n,}` or `{n,m}` and its counts, or `None` for other text.
fn counts(text: &str) -> Option<(usize, u32, Option<u32>)> {
    let end = text.find('}')?;
    let inner = &text[1..end];
    let number = |text: &str| {
        let plain = !text.is_empty()
            && text.bytes().all(|byte| byte.is_ascii_digit())
            && (text.len() == 1 || !text.starts_with('0'));
        // A number that overflows is above the limit anyway.
        plain.then(|| text.parse().unwrap_or(u32::MAX))
    };
    match inner.split_once(',') {
        None => number(inner).map(|count| (end + 1, count, Some(count))),
        Some((least, "")) => number(least).map(|least| (end + 1, least, None)),
        Some((least, most)) => Some((end + 1, number(least)?, Some(number(most)?))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::regex::compile;

    #[test]
    fn syntax_of_go_means_the_same() {
        let cases = [
            ("a{,2}", "a{,2}", true),
            ("[[a]", "[", true),
            ("[a&&b]", "&", true),
            ("\\Qa.b\\E", "a.b", true),
            ("\\Qa.b\\E", "axb", false),
            ("^\\d$", "\u{664}", false),
            ("\\141", "a", true),
            ("(?i)\\x41", "a", true),
            ("[\\w-]+", "-", true),
            ("x{", "x{", true),
            ("(?P<n>a)(?P<m>b)", "ab", true),
            ("[^[:alpha:]]", "1", true),
            ("a.b", "a\nb", false),
            ("(?s)a.b", "a\nb", true),
            ("\\pL", "é", true),
            ("\\p{^L}", "é", false),
            ("[]a]", "]", true),
            ("a#b", "a#b", true),
            ("^(a{2}){500}$", "a", false),
            ("^((a{1000}){0}b){1000}$", "b", false),
            ("^(a{0,}){1000}$", "a", true),
            ("^a{600}b{600}$", "ab", false),
            ("^(?:a{600})|(?:b{600})$", "ab", false),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(compile(pattern).map(|regex| regex.is_match(text)), Ok(expected), "{pattern}");
        }
    }

    #[test]
    fn refused_patterns_have_the_text_of_go() {
        let cases = [
            ("(", "missing closing ): `(`"),
            ("a)", "unexpected ): `a)`"),
            ("[a", "missing closing ]: `[a`"),
            ("**", "missing argument to repetition operator: `*`"),
            ("a**", "invalid nested repetition operator: `**`"),
            ("a{1001}", "invalid repeat count: `{1001}`"),
            ("(a{100}){11}", "invalid repeat count: `{11}`"),
            ("((b|a{10}c)*d){3}(e(a{100}){3}?){4}?", "invalid repeat count: `{4}?`"),
            ("(?i:a{100,}){11,}", "invalid repeat count: `{11,}`"),
            ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
            ("\\8", "invalid escape sequence: `\\8`"),
            ("\\1", "invalid escape sequence: `\\1`"),
            ("a\\", "trailing backslash at end of expression: ``"),
            ("[b-a]", "invalid character class range: `b-a`"),
            ("\\C", "invalid escape sequence: `\\C`"),
        ];
        for (pattern, expected) in cases {
            let error = compile(pattern).expect_err(pattern);
            assert_eq!(error.to_string(), format!("error parsing regexp: {expected}"), "{pattern}");
        }
    }
}
