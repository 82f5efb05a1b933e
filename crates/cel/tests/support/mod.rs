//! Values as the recorder `tests/upstream/cel` writes them.

mod devices;

pub(crate) use devices::device;
use supercargo_cel::Value;

/// Writes a value as the recorder does.
pub(crate) fn render(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Uint(value) => format!("{value}u"),
        Value::Double(value) => format!("double({:016x})", value.to_bits()),
        Value::String(text) => quote(text),
        Value::Bytes(bytes) => {
            format!("bytes({})", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
        }
        Value::Duration(nanoseconds) => format!("duration({nanoseconds})"),
        Value::Timestamp(time) => format!("timestamp({}.{:09})", time.seconds(), time.nanoseconds()),
        Value::List(list) => format!("[{}]", list.iter().map(render).collect::<Vec<_>>().join(", ")),
        Value::Map(map) => {
            let mut entries: Vec<_> =
                map.iter().map(|(key, value)| format!("{}: {}", render(&key), render(value))).collect();
            entries.sort();
            format!("{{{}}}", entries.join(", "))
        }
        Value::Optional(None) => "optional.none".into(),
        Value::Optional(Some(value)) => format!("optional({})", render(value)),
        Value::Type(name) => format!("type({name})"),
        Value::Quantity(quantity) | Value::ComputedQuantity(quantity) => format!("quantity({quantity})"),
        Value::Version(version) => format!("semver({version})"),
        Value::Ip(ip) => format!("ip({ip})"),
        Value::Cidr(cidr) => format!("cidr({cidr})"),
        Value::Url(url) => format!("url({url})"),
        Value::Format(format) => format!("format({})", format.name()),
        Value::Broken(_) => "*types.Err".into(),
        other => panic!("unknown value {other:?}"),
    }
}

/// A text as Go's JSON writes it.
fn quote(text: &str) -> String {
    let mut quoted = serde_json::to_string(text).expect("a text");
    for (plain, escaped) in [
        ("<", "\\u003c"),
        (">", "\\u003e"),
        ("&", "\\u0026"),
        ("\u{2028}", "\\u2028"),
        ("\u{2029}", "\\u2029"),
    ] {
        quoted = quoted.replace(plain, escaped);
    }
    quoted
}
