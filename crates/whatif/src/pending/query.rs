//! Parses query parameters and label selectors in kubectl's syntax.
//!
//! Upstream: `apimachinery/pkg/labels/selector.go`. All requirements of a selector must be met.

use std::collections::BTreeSet;

/// A label selector in the syntax of kubectl's `-l`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelQuery(Vec<(String, Demand)>);

/// Requirement on the value of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Demand {
    Exists,
    Absent,
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    Above(i64),
    Below(i64),
}

impl LabelQuery {
    /// Parses `a=b,c!=d,e in (f,g),h notin (i),j,!k,l>1,m<2`. An empty text selects everything.
    ///
    /// # Errors
    /// Returns a message with the invalid part.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parts: Vec<String> = vec![String::new()];
        let mut depth = 0_u32;
        for c in text.chars() {
            match c {
                ',' if depth == 0 => parts.push(String::new()),
                _ => {
                    depth = if c == '(' { depth + 1 } else { depth.saturating_sub(u32::from(c == ')')) };
                    parts.last_mut().expect("there is one from the beginning").push(c);
                }
            }
        }
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let wrong = |part: &str| {
            format!(
                "{:?} is not a label selector; expected a form such as app=web,tier!=test or 'zone in (a,b)'",
                part.trim()
            )
        };
        let demands = parts.iter().map(|part| demand(part.trim()).ok_or_else(|| wrong(part)));
        demands.collect::<Result<_, _>>().map(Self)
    }

    /// Returns whether labels meet all requirements; `value` returns the value of a key.
    pub fn matches<'v>(&self, value: impl Fn(&str) -> Option<&'v str>) -> bool {
        self.0.iter().all(|(key, demand)| {
            let value = value(key);
            let number = || value.and_then(|value| value.parse::<i64>().ok());
            match demand {
                Demand::Exists => value.is_some(),
                Demand::Absent => value.is_none(),
                Demand::In(values) => value.is_some_and(|value| values.contains(value)),
                Demand::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
                Demand::Above(least) => number().is_some_and(|value| value > *least),
                Demand::Below(most) => number().is_some_and(|value| value < *most),
            }
        })
    }
}

fn demand(part: &str) -> Option<(String, Demand)> {
    let key = |text: &str| {
        let text = text.trim();
        let is_key = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
        (!text.is_empty() && text.chars().all(is_key)).then(|| text.to_owned())
    };
    let value = |text: &str| {
        let text = text.trim();
        let is_value = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        text.chars().all(is_value).then(|| text.to_owned())
    };
    let one = |text: &str| Some(BTreeSet::from([value(text)?]));
    if let Some(absent) = part.strip_prefix('!') {
        return Some((key(absent)?, Demand::Absent));
    }
    if let Some(list) = part.strip_suffix(')') {
        let (head, list) = list.split_once('(')?;
        let (name, word) = head.trim().rsplit_once(char::is_whitespace)?;
        let values = list.split(',').map(value).collect::<Option<BTreeSet<_>>>()?;
        return match word {
            "in" => Some((key(name)?, Demand::In(values))),
            "notin" => Some((key(name)?, Demand::NotIn(values))),
            _ => None,
        };
    }
    if let Some((name, text)) = part.split_once("!=") {
        return Some((key(name)?, Demand::NotIn(one(text)?)));
    }
    if let Some((name, text)) = part.split_once("==").or_else(|| part.split_once('=')) {
        return Some((key(name)?, Demand::In(one(text)?)));
    }
    if let Some((name, number)) = part.split_once('>') {
        return Some((key(name)?, Demand::Above(number.trim().parse().ok()?)));
    }
    if let Some((name, number)) = part.split_once('<') {
        return Some((key(name)?, Demand::Below(number.trim().parse().ok()?)));
    }
    Some((key(part)?, Demand::Exists))
}

/// Parses the query of a URL. If a parameter is repeated, the last value counts.
///
/// # Errors
/// Returns a message for a malformed parameter, or one that is not in `known`.
pub fn parameters<'k>(query: &str, known: &[&'k str]) -> Result<Vec<(&'k str, String)>, String> {
    let mut found = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let value = decoded(value).ok_or_else(|| format!("invalid encoding of parameter {name:?}"))?;
        let Some(name) = known.iter().find(|known| **known == name) else {
            return Err(format!("unknown parameter {name:?}; expected one of {}", known.join(", ")));
        };
        found.retain(|(other, _)| other != name);
        found.push((*name, value));
    }
    Ok(found)
}

fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                let (high, low) = (digit(rest.next()?)?, digit(rest.next()?)?);
                u8::try_from(16 * high + low).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(selector: &str, labels: &[(&str, &'static str)]) -> bool {
        let query = LabelQuery::parse(selector).unwrap_or_else(|error| panic!("{error}"));
        query.matches(|key| labels.iter().find(|(name, _)| *name == key).map(|(_, value)| *value))
    }

    #[test]
    fn label_selector_matches_like_kubectl() {
        let labels = [("app", "web"), ("example.com/tier", "front"), ("weight", "7"), ("empty", "")];
        for selector in [
            "",
            " ",
            "app",
            "!missing",
            "app=web",
            "app == web",
            "app!=db",
            "missing!=x",
            "app in (db, web)",
            "app notin (db)",
            "missing notin (db,web)",
            "app=web,example.com/tier=front",
            "app in (web),weight>6,weight<8",
            "empty=",
        ] {
            assert!(matches(selector, &labels), "{selector}");
        }
        for selector in [
            "!app",
            "missing",
            "app=db",
            "app!=web",
            "app notin (web)",
            "weight>7",
            "app<3",
            "app=web,missing",
        ] {
            assert!(!matches(selector, &labels), "{selector}");
        }
    }

    #[test]
    fn invalid_label_selector_is_an_error() {
        for wrong in ["a=b,", "=b", "a in b", "a within (b)", "a=b=c d", "a in (b", "a>b", "a b", "\u{1b}[2J"]
        {
            let error = LabelQuery::parse(wrong).expect_err(wrong);
            assert!(error.contains("is not a label selector"), "{error}");
        }
    }

    #[test]
    fn parameters_are_decoded_and_unknown_ones_rejected() {
        let known = ["namespace", "labelSelector"];
        let found = parameters("namespace=a&labelSelector=b%3Dc%2C%21d+e&namespace=f", &known);
        let expected = vec![("labelSelector", "b=c,!d e".to_owned()), ("namespace", "f".to_owned())];
        assert_eq!(found, Ok(expected));
        assert_eq!(parameters("", &known), Ok(Vec::new()));
        for wrong in ["name=a", "namespace=%2", "namespace=%zz", "namespace=%ff"] {
            assert!(parameters(wrong, &known).is_err(), "{wrong}");
        }
    }
}
