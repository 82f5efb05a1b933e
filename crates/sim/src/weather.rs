//! Which faults come how often. The weather changes in the course of a run, from calm to storms of one kind.

use crate::draw::Draw;
use std::time::Duration;

/// How much goes wrong for a while. Numbers are percentages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weather {
    pub(crate) name: &'static str,
    /// The longest a change of a watch is late.
    pub(crate) watch_delay: Duration,
    pub(crate) duplicate: u64,
    /// Of all things the world does, how many are a lost connection.
    pub(crate) disconnect: u64,
    /// Of connections made anew, how many go on where the last one was; the others have expired (410).
    pub(crate) resume: u64,
    /// Of lists, how many are of an older state.
    pub(crate) stale_list: u64,
    /// Of all things the world does, how many are a restart of the scheduler.
    pub(crate) restart: u64,
    /// Of all things the world does, how many are a loss of the lead.
    pub(crate) lose_lead: u64,
    /// Of a thousand things the world does, how many are a jump of the clock.
    pub(crate) clock_jump: u64,
    pub(crate) forbidden: u64,
    pub(crate) lost_but_applied: u64,
    pub(crate) lost: u64,
    pub(crate) late: u64,
    pub(crate) no_answer: u64,
    pub(crate) lost_patch: u64,
    /// Of answers, how many somebody else gives: at once, whatever becomes of the request, which may be carried out much later or never.
    pub(crate) foreign: u64,
    /// Of volumes to be made, how many cannot be.
    pub(crate) no_volume: u64,
    /// The longest a binding, a patch or a record takes.
    pub(crate) request_delay: Duration,
}

const MILLI: Duration = Duration::from_millis(1);

/// Nothing goes wrong.
pub(crate) const CALM: Weather = Weather {
    name: "calm",
    watch_delay: Duration::from_millis(20),
    duplicate: 0,
    disconnect: 0,
    resume: 0,
    stale_list: 0,
    restart: 0,
    lose_lead: 0,
    clock_jump: 0,
    forbidden: 0,
    lost_but_applied: 0,
    lost: 0,
    late: 0,
    no_answer: 0,
    lost_patch: 0,
    foreign: 0,
    no_volume: 0,
    request_delay: Duration::from_millis(10),
};

const KINDS: [Weather; 8] = [
    CALM,
    Weather {
        name: "mixed",
        watch_delay: Duration::from_millis(500),
        duplicate: 5,
        disconnect: 3,
        resume: 50,
        stale_list: 0,
        restart: 1,
        lose_lead: 2,
        clock_jump: 5,
        forbidden: 5,
        lost_but_applied: 5,
        lost: 5,
        late: 5,
        no_answer: 20,
        lost_patch: 5,
        foreign: 5,
        no_volume: 50,
        request_delay: Duration::from_millis(300),
    },
    Weather {
        name: "lost",
        lost_but_applied: 20,
        lost: 50,
        late: 20,
        no_answer: 60,
        request_delay: Duration::from_millis(50),
        ..CALM
    },
    Weather {
        name: "slow",
        watch_delay: Duration::from_secs(20),
        duplicate: 20,
        forbidden: 5,
        late: 10,
        request_delay: Duration::from_secs(5),
        no_volume: 50,
        ..CALM
    },
    Weather {
        name: "broken",
        watch_delay: Duration::from_secs(2),
        duplicate: 10,
        disconnect: 20,
        resume: 40,
        restart: 4,
        lost_but_applied: 10,
        no_answer: 20,
        lost_patch: 20,
        no_volume: 40,
        ..CALM
    },
    Weather {
        name: "behind",
        watch_delay: Duration::from_secs(5),
        disconnect: 10,
        resume: 30,
        stale_list: 60,
        restart: 2,
        lost_but_applied: 10,
        lost: 5,
        late: 5,
        no_answer: 10,
        request_delay: Duration::from_secs(1),
        no_volume: 50,
        ..CALM
    },
    Weather {
        name: "hostile",
        watch_delay: Duration::from_secs(2),
        duplicate: 5,
        disconnect: 5,
        resume: 40,
        no_answer: 20,
        foreign: 60,
        no_volume: 50,
        request_delay: Duration::from_millis(300),
        ..CALM
    },
    Weather {
        name: "rivals",
        watch_delay: Duration::from_secs(1),
        lose_lead: 15,
        clock_jump: 20,
        lost_but_applied: 5,
        late: 5,
        request_delay: Duration::from_secs(1),
        no_volume: 50,
        ..CALM
    },
];

impl Weather {
    pub(crate) fn draw(draw: &mut Draw) -> Self {
        draw.pick(&KINDS)
    }

    /// How long this weather lasts.
    pub(crate) fn lasts(self, draw: &mut Draw) -> Duration {
        // A storm of lost bindings must be able to outlast the engine's patience with one.
        let longest = if self.name == "lost" { 250 } else { 60 };
        Duration::from_secs(draw.between(5, longest))
    }
}

/// A wait of at most `longest`, short ones much more often than long ones.
pub(crate) fn wait(draw: &mut Draw, longest: Duration) -> Duration {
    let scale = draw.pick(&[1, 10, 100, 1000]);
    let most = (longest / scale).max(MILLI);
    Duration::from_micros(draw.between(50, u64::try_from(most.as_micros()).unwrap_or(u64::MAX)))
}
