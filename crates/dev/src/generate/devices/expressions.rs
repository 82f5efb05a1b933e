//! Generates CEL expressions over devices: most are right, some fail on some devices, and a few do not compile.

use super::{FPGA, GPU, NIC};
use crate::draw::Draw;

/// Returns an expression about devices of a driver.
pub(super) fn expression(draw: &mut Draw, driver: &str) -> String {
    let atom = |draw: &mut Draw| {
        let other = draw.pick(&[GPU, NIC, FPGA]);
        let about = if draw.percent(92) { driver } else { other };
        atom(draw, about)
    };
    match draw.below(16) {
        0 => format!("{} && {}", atom(draw), atom(draw)),
        1 => format!("{} || {}", atom(draw), atom(draw)),
        2 => format!("!({})", atom(draw)),
        3 => format!("{} ? {} : {}", atom(draw), atom(draw), atom(draw)),
        4 => format!("[{}, {}].exists(x, x)", atom(draw), atom(draw)),
        _ => atom(draw),
    }
}

// long because: one line for each kind of expression
fn atom(draw: &mut Draw, driver: &str) -> String {
    let attributes = format!("device.attributes[\"{driver}\"]");
    let capacity = format!("device.capacity[\"{driver}\"]");
    let model = draw.pick(&["a100", "h100", "cx6", "u250"]);
    let size = draw.pick(&["10Gi", "24G", "40Gi", "80Gi"]);
    let version = draw.pick(&["1.2.3", "1.10.0", "2.0.0"]);
    let number = draw.below(3);
    let sign = draw.pick(&["==", "!=", "<", ">=", ">"]);
    match draw.below(48) {
        0 => "true".to_owned(),
        1 => "false".to_owned(),
        2 | 3 => format!("device.driver == \"{driver}\""),
        4..=6 => format!("{attributes}.model == \"{model}\""),
        7 => format!("{attributes}.model in [\"{model}\", \"a100\"]"),
        8 => format!("{attributes}.model.startsWith(\"{}\")", &model[..1]),
        9 => format!("{attributes}.model.matches(\"^[a-h]{}\")", draw.pick(&["1", "100$", "", ".*0"])),
        10 => format!("has({attributes}.model) && {attributes}.model == \"{model}\""),
        11 | 12 => format!("{attributes}.index {sign} {number}"),
        13 => format!("{attributes}.index % 2 == {}", number % 2),
        14 => format!("{attributes}.numa == {}", number % 2),
        15 => format!("{attributes}.?numa.orValue(1) == {}", number % 2),
        16 => format!("{attributes}.healthy"),
        17 => format!("!has({attributes}.healthy) || {attributes}.healthy"),
        18 => format!("{attributes}.?healthy.orValue(false)"),
        19 | 20 => format!("{attributes}.version.compareTo(semver(\"{version}\")) {sign} 0"),
        21 => format!("{attributes}.version.isGreaterThan(semver(\"{version}\"))"),
        22 => format!("{attributes}.version.major() {sign} {number}"),
        23 => format!("{attributes}.version == semver(\"{version}\")"),
        24 | 25 => format!("{capacity}.memory.compareTo(quantity(\"{size}\")) {sign} 0"),
        26 => format!("{capacity}.memory.isGreaterThan(quantity(\"{size}\"))"),
        27 => format!("has({capacity}.cores) && {capacity}.cores.asInteger() {sign} {}", number * 8),
        28 => format!("{capacity}.memory == quantity(\"{size}\")"),
        29 => format!("\"memory\" in {capacity}"),
        30 => format!("{attributes}.mixed == {number}"),
        31 => format!("{attributes}.mixed == \"{number}\""),
        32 => format!("type({attributes}.mixed) == int"),
        33 => format!("\"{driver}\" in device.attributes"),
        34 => "device.attributes[\"resource.kubernetes.io\"].pcieRoot == \"pci0\"".to_owned(),
        35 => "device.attributes[?\"resource.kubernetes.io\"].?pcieRoot.orValue(\"\") != \"pci1\"".to_owned(),
        36 => format!("{attributes}.all(k, k.size() > {})", draw.between(3, 5)),
        37 => format!("{attributes}.exists(k, k == \"uuid\")"),
        38 => format!("{attributes}.exists(k, v, k == \"index\" && v == {number})"),
        39 => format!("cel.bind(m, {attributes}.model, m == \"{model}\" || m.endsWith(\"7\"))"),
        40 => format!("{attributes}.?uuid.optMap(u, u.contains(\"n{number}\")).orValue(true)"),
        41 => "device.allowMultipleAllocations".to_owned(),
        42 => "!device.allowMultipleAllocations".to_owned(),
        43 => format!("size({attributes}) > {}", draw.between(2, 6)),
        44 => format!("{attributes}.model.lowerAscii().indexOf(\"1\") == 1"),
        45 => format!("10 / {attributes}.numa > 1"),
        46 => format!("sets.contains([\"a100\", \"cx7\"], [{attributes}.model])"),
        _ => odd(draw, &attributes, &capacity),
    }
}

/// Returns an expression that fails, on every device or before it is evaluated.
fn odd(draw: &mut Draw, attributes: &str, capacity: &str) -> String {
    match draw.below(8) {
        0 => format!("{attributes}.nothing == 1"),
        1 => format!("{capacity}.memory > 1"),
        2 => "device.drver == \"x\"".to_owned(),
        3 => format!("{attributes}.model"),
        4 => "1 + 1".to_owned(),
        5 => format!("{attributes}.index + 9223372036854775807 > 0"),
        6 => format!("{attributes}.model == "),
        _ => format!("{attributes}.model.matches({attributes}.model + \"(\")"),
    }
}
