//! The CEL function `format`, which formats strings with clauses such as `%d`. Upstream: cel-go's
//! `ext/formatting.go`.

use crate::Value;
use crate::error::{Error, Result};
use crate::library::standard;
use crate::parse::{Expr, ExprKind};
use crate::types::{Kind, Type};
use crate::value::{List, Work, format_go};

/// Number of decimal places if the clause does not set it, as upstream.
const DEFAULT_PRECISION: usize = 6;
/// Maximum number of decimal places. Upstream has no limit.
const PRECISION_LIMIT: usize = 100_000;

/// A formatting clause, such as `%d`.
#[derive(Clone, Copy)]
enum Clause {
    Text,
    Decimal,
    Fixed(usize),
    Scientific(usize),
    Binary,
    Hexadecimal { upper: bool },
    Octal,
}

/// A part of the format string.
enum Piece<'t> {
    Plain(&'t str),
    Clause(Clause),
}

/// Calls `each` with every part of a format string, and `next` before parsing each clause: upstream fetches
/// the argument first.
fn pieces<'t>(
    text: &'t str,
    mut each: impl FnMut(Piece<'t>) -> Result<()>,
    mut next: impl FnMut() -> Result<()>,
) -> Result<()> {
    let mut rest = text;
    while let Some(percent) = rest.find('%') {
        each(Piece::Plain(&rest[..percent]))?;
        rest = &rest[percent + 1..];
        if let Some(behind) = rest.strip_prefix('%') {
            each(Piece::Plain("%"))?;
            rest = behind;
            continue;
        }
        next()?;
        if rest.is_empty() {
            return Err(Error::fixed("unexpected end of string"));
        }
        let (clause, behind) = clause(rest)
            .map_err(|reason| Error::new(format!("could not parse formatting clause: {reason}")))?;
        each(Piece::Clause(clause))?;
        rest = behind;
    }
    each(Piece::Plain(rest))
}

fn clause(text: &str) -> std::result::Result<(Clause, &str), String> {
    let mut precision = None;
    let mut rest = text;
    if let Some(after) = text.strip_prefix('.') {
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        if digits == after.len() {
            return Err("error while parsing precision: could not find end of precision specifier".into());
        }
        let (number, behind) = after.split_at(digits);
        let parsed: i64 = number.parse().map_err(|_| {
            let reason = if number.is_empty() { "invalid syntax" } else { "value out of range" };
            let quoted = format_go::quote(number);
            format!("error while parsing precision: error while converting precision to integer: strconv.Atoi: parsing {quoted}: {reason}")
        })?;
        precision = Some(usize::try_from(parsed).unwrap_or(usize::MAX).min(PRECISION_LIMIT));
        rest = behind;
    }
    let Some(letter) = rest.chars().next() else { return Err("unexpected end of string".into()) };
    let precision = precision.unwrap_or(DEFAULT_PRECISION);
    let clause = match letter {
        's' => Clause::Text,
        'd' => Clause::Decimal,
        'f' => Clause::Fixed(precision),
        'e' => Clause::Scientific(precision),
        'b' => Clause::Binary,
        'x' => Clause::Hexadecimal { upper: false },
        'X' => Clause::Hexadecimal { upper: true },
        'o' => Clause::Octal,
        _ => {
            // Upstream reports only the first byte.
            let byte = char::from(rest.as_bytes()[0]);
            return Err(format!("unrecognized formatting clause \"{byte}\""));
        }
    };
    Ok((clause, &rest[letter.len_utf8()..]))
}

/// Evaluates `text.format(args)`.
pub(super) fn format(work: &mut Work, text: &str, args: &List) -> Result<String> {
    let mut formatted = String::new();
    let index = std::cell::Cell::new(0_u64);
    let fetch = || match args.get(index.get()) {
        Some(_) => Ok(()),
        None => Err(Error::new(format!("index {} out of range", index.get()))),
    };
    let each = |piece: Piece<'_>| {
        match piece {
            Piece::Plain(plain) => formatted.push_str(plain),
            Piece::Clause(clause) => {
                let Some(arg) = args.get(index.get()) else { return Ok(()) };
                index.set(index.get() + 1);
                let before = formatted.len();
                write_clause(work, clause, arg, &mut formatted).map_err(|error| match error.is_fatal() {
                    true => error,
                    false => Error::new(format!("error during formatting: {error}")),
                })?;
                work.add_len(formatted.len() - before)?;
            }
        }
        Ok(())
    };
    pieces(text, each, fetch)?;
    Ok(formatted)
}

fn write_clause(work: &mut Work, clause: Clause, arg: &Value, out: &mut String) -> Result<()> {
    let text = match (clause, arg) {
        (Clause::Text, _) => return write_text(work, arg, out, Place::Top),
        (Clause::Decimal, Value::Int(value)) => value.to_string(),
        (Clause::Decimal, Value::Uint(value)) => value.to_string(),
        (Clause::Fixed(digits), _) => special(arg, digits, "fixed-point", fixed)?,
        (Clause::Scientific(digits), _) => special(arg, digits, "scientific", scientific)?,
        (Clause::Binary, Value::Bool(value)) => u8::from(*value).to_string(),
        (Clause::Binary, Value::Int(value)) => signed(*value, format!("{:b}", value.unsigned_abs())),
        (Clause::Binary, Value::Uint(value)) => format!("{value:b}"),
        (Clause::Octal, Value::Int(value)) => signed(*value, format!("{:o}", value.unsigned_abs())),
        (Clause::Octal, Value::Uint(value)) => format!("{value:o}"),
        (Clause::Hexadecimal { upper }, _) => hexadecimal(arg, upper)?,
        _ => return Err(refused(clause, arg.type_name())),
    };
    out.push_str(&text);
    Ok(())
}

fn signed(value: i64, digits: String) -> String {
    if value < 0 { format!("-{digits}") } else { digits }
}

fn hexadecimal(arg: &Value, upper: bool) -> Result<String> {
    let of_bytes = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let text = match arg {
        Value::String(text) => of_bytes(text.as_bytes()),
        Value::Bytes(bytes) => of_bytes(bytes),
        Value::Int(value) => signed(*value, format!("{:x}", value.unsigned_abs())),
        Value::Uint(value) => format!("{value:x}"),
        _ => return Err(refused(Clause::Hexadecimal { upper }, arg.type_name())),
    };
    Ok(if upper { text.to_uppercase() } else { text })
}

/// Formats a double, or a string such as `NaN` that names a special one.
fn special(arg: &Value, digits: usize, clause: &str, write: fn(f64, usize) -> String) -> Result<String> {
    let value = match arg {
        Value::Double(value) => *value,
        Value::String(text) => match &**text {
            "NaN" => f64::NAN,
            "Infinity" => f64::INFINITY,
            "-Infinity" => f64::NEG_INFINITY,
            _ => return Err(refused_double(clause, "string")),
        },
        _ => return Err(refused_double(clause, arg.type_name())),
    };
    Ok(match value {
        _ if value.is_nan() => "NaN".into(),
        f64::INFINITY => "\u{221e}".into(),
        f64::NEG_INFINITY => "-\u{221e}".into(),
        _ => write(value, digits),
    })
}

/// Formats a double with fixed precision and commas, as in the English locale: `1,234.500000`.
fn fixed(value: f64, digits: usize) -> String {
    let plain = format!("{value:.digits$}");
    let (sign, plain) = plain.strip_prefix('-').map_or(("", plain.as_str()), |rest| ("-", rest));
    let (whole, fraction) = plain.split_once('.').unwrap_or((plain, ""));
    let mut text = sign.to_owned();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if !fraction.is_empty() {
        text.push('.');
        text.push_str(fraction);
    }
    text
}

/// Formats a double in scientific notation, as in the English locale: `1.234500×10⁰³`.
fn scientific(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let mut out = format!("{mantissa}\u{d7}10");
    if exponent < 0 {
        out.push('\u{207b}');
    }
    for digit in format!("{:02}", exponent.unsigned_abs()).bytes() {
        const RAISED: [char; 10] = [
            '\u{2070}', '\u{b9}', '\u{b2}', '\u{b3}', '\u{2074}', '\u{2075}', '\u{2076}', '\u{2077}',
            '\u{2078}', '\u{2079}',
        ];
        out.push(RAISED[usize::from(digit - b'0') % 10]);
    }
    out
}

/// Whether a value is an argument itself, or nested in a list or map.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Top,
    Inside,
}

fn write_text(work: &mut Work, arg: &Value, out: &mut String, place: Place) -> Result<()> {
    work.add(1)?;
    match arg {
        Value::Null => out.push_str("null"),
        Value::List(list) => {
            out.push('[');
            for (index, element) in list.iter().enumerate() {
                out.push_str(if index == 0 { "" } else { ", " });
                crate::deep(|| write_text(work, element, out, Place::Inside))?;
            }
            out.push(']');
        }
        Value::Map(map) => {
            let mut entries = Vec::with_capacity(map.len());
            for (key, value) in map.iter() {
                let mut texts = (String::new(), String::new());
                match key {
                    Value::String(_) | Value::Bool(_) | Value::Int(_) | Value::Uint(_) => {
                        write_text(work, &key, &mut texts.0, Place::Inside)?;
                    }
                    _ => {
                        return Err(Error::new(format!(
                            "no formatting function for map key of type {}",
                            key.type_name()
                        )));
                    }
                }
                crate::deep(|| write_text(work, value, &mut texts.1, Place::Inside))?;
                entries.push(texts);
            }
            entries.sort();
            let entries: Vec<_> = entries.into_iter().map(|(key, value)| format!("{key}:{value}")).collect();
            work.add_len(entries.iter().map(String::len).sum())?;
            out.push_str(&format!("{{{}}}", entries.join(", ")));
        }
        Value::Quantity(_)
        | Value::ComputedQuantity(_)
        | Value::Version(_)
        | Value::Ip(_)
        | Value::Cidr(_)
        | Value::Url(_)
        | Value::Format(_)
        | Value::Optional(_)
        | Value::Broken(_) => {
            return Err(match place {
                Place::Top => refused(Clause::Text, arg.type_name()),
                Place::Inside => Error::new(format!("no formatting function for {}", arg.type_name())),
            });
        }
        _ => {
            let text = standard::text_of(arg).transpose()?.unwrap_or_default();
            work.add_len(text.len())?;
            out.push_str(&if place == Place::Inside { as_literal(arg, text) } else { text });
        }
    }
    Ok(())
}

/// Returns the text of an element of a list or map.
fn as_literal(value: &Value, text: String) -> String {
    match value {
        Value::String(_) => format_go::quote(&text),
        Value::Bytes(_) => format!("b{}", format_go::quote(&text)),
        Value::Double(value) if value.is_nan() => "\"NaN\"".into(),
        Value::Double(value) if value.is_infinite() => {
            format!("\"{}Inf\"", if *value < 0.0 { '-' } else { '+' })
        }
        Value::Double(value) => format!("{value:.DEFAULT_PRECISION$}"),
        Value::Timestamp(_) => format!("timestamp({})", format_go::quote(&text)),
        Value::Duration(_) => format!("duration({})", format_go::quote(&text)),
        _ => text,
    }
}

fn refused_double(clause: &str, kind: &str) -> Error {
    Error::new(format!("{clause} clause can only be used on doubles, was given {kind}"))
}

fn refused(clause: Clause, kind: &str) -> Error {
    let rule = match clause {
        Clause::Text => {
            "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"
        }
        Clause::Decimal => "decimal clause can only be used on integers",
        Clause::Fixed(_) => return refused_double("fixed-point", kind),
        Clause::Scientific(_) => return refused_double("scientific", kind),
        Clause::Binary => "only integers and bools can be formatted as binary",
        Clause::Hexadecimal { .. } => "only integers, byte buffers, and strings can be formatted as hex",
        Clause::Octal => "octal clause can only be used on integers",
    };
    Error::new(format!("{rule}, was given {kind}"))
}

/// Checks a literal format string against literal arguments, as the compiler does.
pub(crate) fn check(text: &str, args: &[Expr]) -> std::result::Result<(), String> {
    let index = std::cell::Cell::new(0_usize);
    let fetch = || {
        if index.get() < args.len() {
            Ok(())
        } else {
            Err(Error::new(format!("index {} out of range", index.get())))
        }
    };
    let each = |piece: Piece<'_>| {
        if let (Piece::Clause(clause), Some(arg)) = (piece, args.get(index.get())) {
            index.set(index.get() + 1);
            if let Some(kind) = unfit(clause, arg) {
                return Err(Error::new(format!("error during formatting: {}", refused(clause, kind))));
            }
        }
        Ok(())
    };
    pieces(text, each, fetch).map_err(|error| error.to_string())?;
    if args.len() > index.get() {
        return Err(format!(
            "too many arguments supplied to string.format (expected {}, got {})",
            index.get(),
            args.len()
        ));
    }
    Ok(())
}

/// Returns the name of the argument's type if the clause rejects it.
fn unfit(clause: Clause, arg: &Expr) -> Option<&'static str> {
    let fits = |ty: &Type| match clause {
        Clause::Text => !matches!(ty.0, Kind::Opaque(..) | Kind::Object(_) | Kind::Any),
        Clause::Decimal | Clause::Octal => matches!(ty.0, Kind::Int | Kind::Uint),
        Clause::Fixed(_) | Clause::Scientific(_) => matches!(ty.0, Kind::Double | Kind::String),
        Clause::Binary => matches!(ty.0, Kind::Int | Kind::Uint | Kind::Bool),
        Clause::Hexadecimal { .. } => matches!(ty.0, Kind::Int | Kind::Uint | Kind::String | Kind::Bytes),
    };
    if !matches!(arg.ty.0, Kind::Dyn) && !fits(&arg.ty) {
        return Some(arg.ty.name());
    }
    match (&arg.kind, clause) {
        (ExprKind::List { .. } | ExprKind::Map(_), Clause::Text) => {
            crate::deep(|| arg.children().into_iter().find_map(|child| unfit(clause, child)))
        }
        _ => None,
    }
}
