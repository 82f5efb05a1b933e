//! Formats amounts, selectors and names as kubectl writes them.

use supercargo_core::framework::Measure;
use supercargo_core::model::intern::{Symbol, Tables};
use supercargo_core::model::node::{Taint, TaintEffect};
use supercargo_core::model::selector::{Operator, Requirement, Selector};

/// Units of memory, largest first.
const UNITS: [(&str, i64); 4] = [("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)];

/// Formats an amount, truncated to one decimal if no unit represents it exactly.
pub fn amount(of: Measure, value: i64) -> String {
    match of {
        Measure::Cpu => cpu(value),
        Measure::Memory | Measure::EphemeralStorage => bytes(value),
        Measure::Pods | Measure::Scalar(_) => value.to_string(),
    }
}

/// Formats an amount exactly, as in a manifest.
pub fn exact(of: Measure, value: i64) -> String {
    match of {
        Measure::Memory | Measure::EphemeralStorage => {
            let fits = UNITS.iter().find(|&&(_, unit)| value != 0 && value % unit == 0);
            fits.map_or_else(|| value.to_string(), |(name, unit)| format!("{}{name}", value / unit))
        }
        Measure::Cpu | Measure::Pods | Measure::Scalar(_) => amount(of, value),
    }
}

fn cpu(milli: i64) -> String {
    if milli % 1_000 == 0 { (milli / 1_000).to_string() } else { format!("{milli}m") }
}

fn bytes(value: i64) -> String {
    let Some((name, unit)) = UNITS.iter().find(|&&(_, unit)| value.unsigned_abs() >= unit.unsigned_abs())
    else {
        return value.to_string();
    };
    let (whole, rest) = (value / unit, (value % unit).abs());
    let tenths = i128::from(rest) * 10 / i128::from(*unit);
    if tenths == 0 { format!("{whole}{name}") } else { format!("{whole}.{tenths}{name}") }
}

/// Returns the name of a resource as in `resources.requests`; `pods` for the number of pods.
pub fn resource(tables: &Tables, of: Measure) -> &str {
    match of {
        Measure::Pods => "pods",
        Measure::Cpu => "cpu",
        Measure::Memory => "memory",
        Measure::EphemeralStorage => "ephemeral-storage",
        Measure::Scalar(name) => tables.text(name),
    }
}

/// Formats a taint as `key=value:effect`.
pub fn taint(tables: &Tables, taint: &Taint) -> String {
    let (key, value) = (tables.text(taint.key), tables.text(taint.value));
    let value = if value.is_empty() { String::new() } else { format!("={value}") };
    format!("{key}{value}:{}", effect(tables, taint))
}

/// Returns a taint's effect.
pub fn effect<'t>(tables: &'t Tables, taint: &Taint) -> &'t str {
    match taint.effect {
        TaintEffect::NoSchedule => "NoSchedule",
        TaintEffect::PreferNoSchedule => "PreferNoSchedule",
        TaintEffect::NoExecute => "NoExecute",
        TaintEffect::Other(text) => tables.text(text),
    }
}

/// Formats `key=value`.
pub fn pair(tables: &Tables, key: Symbol, value: Symbol) -> String {
    format!("{}={}", tables.text(key), tables.text(value))
}

/// Formats a requirement as in kubectl's label selectors.
pub fn requirement(tables: &Tables, of: &Requirement) -> String {
    let key = tables.text(of.key);
    let list = |values: &[Symbol]| {
        let texts: Vec<&str> = values.iter().map(|&value| tables.text(value)).collect();
        texts.join(",")
    };
    match &of.operator {
        Operator::In(values) if values.len() == 1 => format!("{key}={}", list(values)),
        Operator::In(values) => format!("{key} in ({})", list(values)),
        Operator::NotIn(values) if values.len() == 1 => format!("{key}!={}", list(values)),
        Operator::NotIn(values) => format!("{key} notin ({})", list(values)),
        Operator::Exists => key.to_owned(),
        Operator::DoesNotExist => format!("!{key}"),
        Operator::Gt(bound) => format!("{key}>{bound}"),
        Operator::Lt(bound) => format!("{key}<{bound}"),
    }
}

/// Formats a selector; an empty one is `any labels`.
pub fn selector(tables: &Tables, of: &Selector) -> String {
    match of {
        Selector::Nothing => "no label at all (the selector is missing)".to_owned(),
        Selector::All(requirements) if requirements.is_empty() => "any labels".to_owned(),
        Selector::All(requirements) => {
            let each: Vec<String> = requirements.iter().map(|each| requirement(tables, each)).collect();
            each.join(",")
        }
    }
}

/// Formats a number with its noun: `1 node`, `2 nodes`, `2 entries`.
pub fn count(number: impl std::fmt::Display, one: &str) -> String {
    match (number.to_string().as_str(), one.strip_suffix('y')) {
        ("1", _) => format!("1 {one}"),
        (number, Some(stem)) => format!("{number} {stem}ies"),
        (number, None) => format!("{number} {one}s"),
    }
}

/// Lists the first names and how many follow: `a, b and 3 more`.
pub fn some(names: &[String], at_most: usize) -> String {
    let shown = names.iter().take(at_most).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(at_most) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_format_in_kubernetes_notation() {
        let cpu = |milli| amount(Measure::Cpu, milli);
        assert_eq!([cpu(500), cpu(4_000), cpu(0), cpu(-50)], ["500m", "4", "0", "-50m"]);
        let memory = |bytes| amount(Measure::Memory, bytes);
        assert_eq!(memory(256 << 20), "256Mi");
        assert_eq!(memory((3 << 30) + (1 << 29)), "3.5Gi");
        assert_eq!([memory(1_000), memory(0)], ["1000", "0"]);
        assert_eq!(exact(Measure::Memory, (3 << 30) + 1), "3221225473");
        assert_eq!(exact(Measure::Memory, 3 << 29), "1536Mi");
    }

    #[test]
    fn long_lists_end_with_the_number_of_omitted_names() {
        let names: Vec<String> = ["a", "b", "c"].map(str::to_owned).to_vec();
        assert_eq!(some(&names, 2), "a, b and 1 more");
        assert_eq!(some(&names, 3), "a, b, c");
        assert_eq!([count(1, "node"), count(0, "node")], ["1 node", "0 nodes"]);
    }
}
