//! No input causes a panic, an overflow of the stack, or unbounded work.

use supercargo_cel::{Attribute, CompileError, Device, Program, compile, compile_any};

/// A generator of pseudo-random numbers (xorshift), so that failures repeat.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

const TOKENS: &[&str] = &[
    "device",
    ".",
    "attributes",
    "[",
    "]",
    "(",
    ")",
    "{",
    "}",
    "\"gpu\"",
    "?",
    ":",
    ",",
    "1",
    "-",
    "!",
    "&&",
    "||",
    "==",
    "<",
    "in",
    "'a'",
    "x",
    "map",
    "all",
    "exists",
    "has",
    "optMap",
    "cel",
    "bind",
    "1u",
    "2.5",
    "+",
    "*",
    "%",
    "/",
    "null",
    "true",
    "b'x'",
    "size",
    "matches",
    "'(a'",
    "format",
    "sortBy",
    ".?",
    "[?",
    "quantity",
    "semver",
    "ip",
    "lists.range",
    "99999999",
    "\\",
    "`",
    "\u{e9}",
    "//",
    "\n",
    "orValue",
    "transformMap",
    "timestamp",
    "dyn",
];

fn device() -> Device {
    let builder = Device::builder("gpu")
        .attribute("x", Attribute::Int(3))
        .attribute("s", Attribute::String("a".repeat(64).into()));
    builder.capacity("m", "1Gi").build()
}

/// Compiles, estimates and evaluates; the cost is bounded whatever comes.
fn run(expression: &str) -> Result<Program, CompileError> {
    let compiled = compile_any(expression);
    if let Ok(program) = &compiled {
        program.estimated_cost();
        let evaluation = program.evaluate(&device());
        assert!(evaluation.cost <= 1_000_000 || evaluation.result.is_err(), "{expression}");
        assert_eq!(
            format!("{:?}", program.evaluate(&device()).result),
            format!("{:?}", evaluation.result),
            "{expression}"
        );
    }
    compiled
}

#[test]
fn random_tokens_and_bytes_never_panic() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut compiled = 0;
    for _ in 0..3_000 {
        let tokens: Vec<_> = (0..1 + random.below(14)).map(|_| TOKENS[random.below(TOKENS.len())]).collect();
        compiled += usize::from(run(&tokens.concat()).is_ok());
        let bytes: Vec<_> = (0..random.below(30)).map(|_| random.below(256) as u8).collect();
        compiled += usize::from(run(&String::from_utf8_lossy(&bytes)).is_ok());
    }
    assert!(compiled > 20, "only {compiled} compiled");
}

#[test]
fn mutations_of_expressions_never_panic() {
    let mut random = Random(42);
    let lines: Vec<_> = include_str!("expressions.txt").lines().collect();
    let mut refused = 0;
    for _ in 0..4_000 {
        let mut characters: Vec<char> = lines[random.below(lines.len())].chars().collect();
        for _ in 0..1 + random.below(3) {
            let place = random.below(characters.len().max(1));
            let other = lines[random.below(lines.len())].chars().collect::<Vec<_>>();
            match random.below(3) {
                0 if !characters.is_empty() => drop(characters.remove(place)),
                1 => characters.splice(place..place, other.into_iter().take(8)).for_each(drop),
                _ => characters.truncate(place.max(1)),
            }
        }
        refused += usize::from(run(&characters.into_iter().collect::<String>()).is_err());
    }
    assert!(refused > 500);
}

#[test]
fn deep_nesting_is_refused_with_a_message() {
    let deep = 100_000;
    let repeated = |open: &str, inner: &str, close: &str, count: usize| {
        format!("{}{inner}{}", open.repeat(count), close.repeat(count))
    };
    let expressions = [
        repeated("(", "1", ")", deep),
        repeated("(", "1", ")", 3_000),
        repeated("[", "1", "]", 3_000),
        repeated("{1:", "1", "}", 3_000),
        repeated("-(", "1", ")", 3_000),
        repeated("f(", "1", ")", 3_000),
        repeated("x?", "1", ":1", 3_000),
        "(".repeat(3_000),
        "a.".repeat(20_000),
        "a[".repeat(20_000),
        vec!["1"; 20_000].join("+"),
        vec!["1"; 5_000].join("<"),
        format!("1{}", ".size()".repeat(5_000)),
        "'".repeat(50_000),
        "?".repeat(20_000),
    ];
    for expression in expressions {
        let error = compile(&expression).expect_err("too deep");
        assert!(!error.to_string().is_empty());
    }
}

#[test]
fn long_but_flat_expressions_compile() {
    for expression in [
        vec!["true"; 5_000].join("&&"),
        format!("size([{}]) > 0", vec!["1"; 10_000].join(",")),
        format!("'{}' != ''", "a".repeat(50_000)),
    ] {
        let program = compile(&expression).expect("it compiles");
        assert_eq!(program.matches(&device()), Ok(true));
        assert!(program.estimated_cost() <= 10_011, "{}", program.estimated_cost());
    }
}

#[test]
fn values_that_grow_exponentially_are_stopped() {
    let doubling = |start: &str, step: &str, end: &str, rounds: usize| {
        let mut expression = format!("cel.bind(v0, {start}, ");
        for round in 1..=rounds {
            let step = step.replace("PREVIOUS", &format!("v{}", round - 1));
            expression.push_str(&format!("cel.bind(v{round}, {step}, "));
        }
        expression + &end.replace("LAST", &format!("v{rounds}")) + &")".repeat(rounds + 1)
    };
    let stopped = [
        doubling("device.attributes['gpu'].s", "dyn(PREVIOUS) + dyn(PREVIOUS)", "LAST == 'x'", 60),
        doubling("[1]", "PREVIOUS + PREVIOUS", "LAST == LAST", 60),
        doubling("[1]", "PREVIOUS + PREVIOUS", "dyn(LAST).sum() == 1", 60),
        doubling("[1]", "PREVIOUS + PREVIOUS", "LAST.all(x, x == 1)", 60),
        doubling("[1]", "PREVIOUS + PREVIOUS", "5 in dyn(LAST)", 60),
        doubling("'aaaaaaaa'", "PREVIOUS.replace('a', PREVIOUS)", "LAST == 'x'", 20),
        doubling("[1]", "[dyn(PREVIOUS), dyn(PREVIOUS)]", "'%s'.format([dyn(LAST)]) == 'x'", 60),
        doubling("dyn([1])", "dyn([PREVIOUS, PREVIOUS])", "LAST == dyn([LAST])[0]", 60),
    ];
    for expression in stopped {
        let program = compile(&expression).expect("it compiles");
        let evaluation = program.evaluate(&device());
        program.estimated_cost();
        let text = evaluation.result.expect_err("it is stopped").to_string();
        assert_eq!(text, "operation cancelled: actual cost limit exceeded", "{expression}");
    }
    let types = doubling("{1: 1}", "{PREVIOUS: PREVIOUS}", "true", 60);
    assert!(compile(&types).is_err());
    let copies = format!(
        "{}.hasValue()",
        (0..60).fold("optional.of(1)".to_owned(), |inner, _| format!("{inner}.optMap(x, x)"))
    );
    assert!(compile(&copies).is_err());
}
