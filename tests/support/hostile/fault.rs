//! What the hostile proxy does, and when: faults drawn from a seed, in spells.
//!
//! Faults that come one by one show whether a client survives them. Only the same fault several times in a row shows whether it backs off: so each
//! sort of request has *spells* of a few seconds, in which it is treated honestly, roughly (each request meets any fault or none), or always
//! meets the same fault.

use std::time::Duration;

/// What happens to a request, its answer, or its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Fault {
    /// The request is passed on late.
    Late,
    /// The request is passed on when the client may have given up, and nobody sees the answer.
    Belated,
    /// The request is not passed on; somebody else answers.
    Foreign,
    /// The request is carried out; somebody else answers.
    Replaced,
    /// The answer is the API server's to another request.
    Swapped,
    /// The answer breaks off.
    Truncated,
    /// A bit of the answer is flipped.
    Flipped,
    /// No byte of an answer comes, and the connection stays open.
    FrozenBefore,
    /// The answer begins, then no more bytes come, and the connection stays open.
    FrozenAfter,
    /// The request is carried out, and the connection closed without an answer.
    Reset,
    /// A watch ends after its first true bookmark.
    OneBookmark,
    /// A watch brings one bookmark of the version that it was opened with, and ends.
    StaleBookmark,
    /// A watch is told that its version is too old: a true word of an API server, which costs a list.
    Expired,
    /// A connection is accepted, and TLS never begins.
    NoHandshake,
}

impl Fault {
    /// All of them.
    pub(crate) const ALL: [Self; 14] = [
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

/// The sorts of requests that differ in what can go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verb {
    /// Follows changes from a version on.
    Watch,
    /// Lists, by pages or as a stream.
    List,
    /// Reads one object.
    Get,
    /// Changes something.
    Write,
}

impl Verb {
    /// What can happen to a request in a rough spell.
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

    /// What can happen to each request of a spell: faults that end a request at once, so that a client without pauses shows.
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

/// Numbers that follow from a seed (SplitMix64).
#[derive(Clone, Debug)]
pub(crate) struct Draw(u64);

impl Draw {
    /// The numbers of `seed` for what the parts name.
    pub(crate) fn of(seed: u64, parts: &[&[u8]]) -> Self {
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

    /// A number below `below`.
    pub(crate) fn below(&mut self, below: usize) -> usize {
        usize::try_from(self.next() % below.max(1) as u64).expect("below a usize")
    }

    /// One of them.
    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// True so many times out of a hundred.
    pub(crate) fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// How long a spell lasts: long enough for four attempts at the shortest pause of a reflector (0.8 s), so that one without pauses sends many
/// times what one with pauses does.
pub(super) const SPELL: Duration = Duration::from_secs(3);
/// Of a hundred spells, how many are of one and the same fault, and how many are rough; the rest are honest.
const SAME: usize = 15;
const ROUGH: usize = 50;

/// How often the first watches, and every second one of the first lists, go through all faults: there are few of them, and fewer the better a client backs
/// off.
const ROUNDS: usize = 3;

/// How many lists of a kind meet faults: each costs twice the pause of the one before, and the test is to end.
const LISTS: usize = 2;

/// The fault of the `number`th request of the sort `what`, which comes so long after hostility began, and of the `turn`th with this verb since
/// then; with more to draw from.
pub(crate) fn fault_of(
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
        // A watch is one request for many events.
        let percent = if verb == Verb::Watch { 70 } else { 35 };
        draw.percent(percent).then(|| draw.pick(faults))
    } else {
        None
    };
    (fault, draw)
}

/// An answer in the API server's place.
pub(crate) struct Foreign {
    pub(crate) status: u16,
    pub(crate) media: &'static str,
    pub(crate) body: &'static str,
    /// Seconds.
    pub(crate) retry_after: Option<u64>,
}

const HTML: &str = "text/html";
const JSON: &str = "application/json";
const TEXT: &str = "text/plain";
/// A true answer of an API server, about a pod that nobody asked for.
const SOMEBODY_ELSE: &str = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"pods \"somebody-else\" not found","reason":"NotFound","details":{"name":"somebody-else","kind":"pods"},"code":404}"#;

/// The answers. None speaks of a missing right: the tests look for that in the log, and it has to be a true one.
const FOREIGN: [Foreign; 16] = {
    const fn of(status: u16, media: &'static str, body: &'static str) -> Foreign {
        Foreign { status, media, body, retry_after: None }
    }
    const fn later(status: u16, seconds: u64) -> Foreign {
        Foreign { status, media: HTML, body: "<html>busy</html>", retry_after: Some(seconds) }
    }
    [
        of(404, HTML, "<html><body>404 Not Found</body></html>"),
        of(404, JSON, SOMEBODY_ELSE),
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

/// One of the answers.
pub(crate) fn foreign(draw: &mut Draw) -> &'static Foreign {
    &FOREIGN[draw.below(FOREIGN.len())]
}
