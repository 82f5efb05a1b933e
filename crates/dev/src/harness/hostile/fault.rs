//! The faults of the hostile proxy, drawn from a seed, in spells.
//!
//! Single faults show whether a client survives them. Only repeated faults show whether it backs off. Therefore
//! each type of request has *spells* of a few seconds. A spell is honest, rough (each request may have any
//! fault), or uniform (each request has the same fault).

use std::time::Duration;

/// A fault of a request, its response, or its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// The request is forwarded late.
    Late,
    /// The request is forwarded when the client may have given up, and its response is dropped.
    Belated,
    /// The request is not forwarded, and the proxy returns a foreign answer.
    Foreign,
    /// The request is forwarded, and the proxy returns a foreign answer.
    Replaced,
    /// The response is the API server's response to another request.
    Swapped,
    /// The response is truncated.
    Truncated,
    /// A bit of the response is flipped.
    Flipped,
    /// No byte of the response arrives, and the connection stays open.
    FrozenBefore,
    /// The response begins, no further bytes arrive, and the connection stays open.
    FrozenAfter,
    /// The request is forwarded, and the connection is closed without a response.
    Reset,
    /// A watch ends after its first bookmark from the API server.
    OneBookmark,
    /// A watch delivers one bookmark with its initial version, and ends.
    StaleBookmark,
    /// A watch fails with 410 because its version is too old: a valid response of an API server, which causes a
    /// list.
    Expired,
    /// A connection is accepted, but there is no TLS handshake.
    NoHandshake,
}

impl Fault {
    /// All faults.
    pub const ALL: [Self; 14] = [
        Self::Late,
        Self::Belated,
        Self::Foreign,
        Self::Replaced,
        Self::Swapped,
        Self::Truncated,
        Self::Flipped,
        Self::FrozenBefore,
        Self::FrozenAfter,
        Self::Reset,
        Self::OneBookmark,
        Self::StaleBookmark,
        Self::Expired,
        Self::NoHandshake,
    ];
}

/// Verbs of requests that differ in their possible faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    /// Watches changes from a version on.
    Watch,
    /// Lists, in pages or as a stream.
    List,
    /// Reads one object.
    Get,
    /// Writes an object.
    Write,
}

impl Verb {
    /// Returns the possible faults in a rough spell.
    fn rough(self) -> &'static [Fault] {
        use Fault::*;
        match self {
            Self::Watch => &[
                Late,
                Foreign,
                Truncated,
                Flipped,
                FrozenBefore,
                FrozenAfter,
                Reset,
                OneBookmark,
                StaleBookmark,
                Expired,
            ],
            Self::List => {
                &[Late, Foreign, Replaced, Swapped, Truncated, Flipped, FrozenBefore, FrozenAfter, Reset]
            }
            Self::Get => &[Late, Foreign, Swapped, Truncated, Flipped, FrozenBefore, FrozenAfter, Reset],
            Self::Write => {
                &[Late, Belated, Foreign, Replaced, Truncated, Flipped, FrozenBefore, FrozenAfter, Reset]
            }
        }
    }

    /// Returns the possible faults of a uniform spell: those that end a request at once, which reveals a client
    /// without backoff.
    fn every(self) -> &'static [Fault] {
        use Fault::*;
        match self {
            Self::Watch => &[Foreign, StaleBookmark, OneBookmark, Reset],
            Self::List => &[Foreign, Swapped, Truncated, Flipped],
            Self::Get => &[Foreign, Swapped, Reset],
            Self::Write => &[Foreign, Replaced, Truncated, Reset],
        }
    }
}

/// A deterministic random number generator (SplitMix64).
#[derive(Clone, Debug)]
pub struct Draw(u64);

impl Draw {
    /// Creates the generator of `seed` for a purpose given by `parts`.
    pub fn of(seed: u64, parts: &[&[u8]]) -> Self {
        let fold = |state: u64, byte: &u8| Self(state ^ u64::from(*byte)).next();
        Self(parts.iter().fold(seed, |state, part| part.iter().fold(Self(state).next(), fold)))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ bits >> 31
    }

    /// Returns a number in `0..below`.
    pub fn below(&mut self, below: usize) -> usize {
        usize::try_from(self.next() % below.max(1) as u64).expect("below a usize")
    }

    /// Returns one element.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// Returns true with a probability of `percent` percent.
    pub fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// The duration of a spell. It allows four attempts at a reflector's minimum backoff (0.8 s), so that a client
/// without backoff sends many times as many requests as one with it.
pub(super) const SPELL: Duration = Duration::from_secs(3);
/// The percentages of uniform and of rough spells. The rest are honest.
const SAME: usize = 15;
const ROUGH: usize = 50;

/// How many times the first watches, and every second one of the first lists, iterate over all faults. Such
/// requests are few, and fewer with a better backoff.
const ROUNDS: usize = 3;

/// The maximum number of lists of a kind with faults. Each one doubles the backoff, and the test must end.
const LISTS: usize = 2;

/// Returns the fault of a request, and a generator for its details.
///
/// `number` counts requests of the type `what`, and `turn` those with this verb, since the proxy became
/// hostile. `since` is the time since then.
pub(super) fn fault_of(
    seed: u64,
    (what, verb): (&str, Verb),
    since: Duration,
    (number, turn): (usize, usize),
) -> (Option<Fault>, Draw) {
    let slot = since.as_millis() / SPELL.as_millis();
    let mut spell = Draw::of(seed, &[what.as_bytes(), &slot.to_le_bytes()]);
    let mut draw = Draw::of(seed, &[what.as_bytes(), &slot.to_le_bytes(), &number.to_le_bytes()]);
    let kind = spell.below(100);
    let every = match verb {
        Verb::Watch => 1,
        Verb::List => 2,
        Verb::Get | Verb::Write => usize::MAX,
    };
    let faults = verb.rough();
    let fault = if verb == Verb::List && number > LISTS {
        None
    } else if turn % every == 0 && turn / every < ROUNDS * faults.len() && every < usize::MAX {
        Some(faults[(turn / every + Draw(seed).below(faults.len())) % faults.len()])
    } else if kind < SAME {
        Some(spell.pick(verb.every()))
    } else if kind < SAME + ROUGH {
        // A watch is one request for many events, so faults are more likely.
        let percent = if verb == Verb::Watch { 70 } else { 35 };
        draw.percent(percent).then(|| draw.pick(faults))
    } else {
        None
    };
    (fault, draw)
}

/// A response that does not come from the API server.
pub(super) struct Foreign {
    pub status: u16,
    pub media: &'static str,
    pub body: &'static str,
    /// In seconds.
    pub retry_after: Option<u64>,
}

const HTML: &str = "text/html";
const JSON: &str = "application/json";
const TEXT: &str = "text/plain";
/// A valid response of an API server about another pod.
const ANOTHER_POD: &str = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"pods \"another-pod\" not found","reason":"NotFound","details":{"name":"another-pod","kind":"pods"},"code":404}"#;

/// The foreign responses. None reports missing permissions, since tests search the log for real ones.
const FOREIGN: [Foreign; 16] = {
    const fn of(status: u16, media: &'static str, body: &'static str) -> Foreign {
        Foreign { status, media, body, retry_after: None }
    }
    const fn later(status: u16, seconds: u64) -> Foreign {
        Foreign { status, media: HTML, body: "<html>busy</html>", retry_after: Some(seconds) }
    }
    [
        of(404, HTML, "<html><body>404 Not Found</body></html>"),
        of(404, JSON, ANOTHER_POD),
        of(404, TEXT, ""),
        of(403, HTML, "<html><body>no entry</body></html>"),
        of(409, TEXT, "conflict"),
        of(410, HTML, "<html><body>410 Gone</body></html>"),
        of(429, HTML, "<html><body>slow down</body></html>"),
        later(429, 1),
        later(429, 2),
        later(503, 1),
        of(500, HTML, "<html><body>oops</body></html>"),
        of(502, TEXT, ""),
        of(200, HTML, "<html><body>please log in</body></html>"),
        of(200, JSON, ""),
        of(200, JSON, "{}"),
        of(201, JSON, r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure"}"#),
    ]
};

/// Returns one of the responses.
pub(super) fn foreign(draw: &mut Draw) -> &'static Foreign {
    &FOREIGN[draw.below(FOREIGN.len())]
}
