//! Fault rates. They change during a run, from none to storms of one kind of fault.

use crate::draw::Draw;
use std::time::Duration;

/// The fault rates of a period. Numbers are percentages unless stated otherwise.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FaultRates {
    pub(crate) name: &'static str,
    /// The maximum delay of a watch change.
    pub(crate) watch_delay: Duration,
    pub(crate) duplicate: u64,
    /// The share of the workload's actions that break a connection.
    pub(crate) disconnect: u64,
    /// The share of reconnections that resume the watch. The others fail with 410 (expired).
    pub(crate) resume: u64,
    /// The share of lists that show an older state.
    pub(crate) stale_list: u64,
    /// The share of the workload's actions after which a kind is listed again although no change was missed.
    pub(crate) list_again: u64,
    /// The share of the workload's actions that restart the scheduler.
    pub(crate) restart: u64,
    /// The share of the workload's actions that take the lease away.
    pub(crate) lose_lead: u64,
    /// Clock jumps in a thousand actions of the workload.
    pub(crate) clock_jump: u64,
    pub(crate) forbidden: u64,
    pub(crate) lost_but_applied: u64,
    pub(crate) lost: u64,
    pub(crate) late: u64,
    pub(crate) no_answer: u64,
    pub(crate) lost_patch: u64,
    /// The share of foreign answers. They arrive at once; the request itself may be carried out much later or
    /// never.
    pub(crate) foreign: u64,
    /// The share of volumes that cannot be provisioned.
    pub(crate) no_volume: u64,
    /// The maximum delay of a binding, a patch or an event write.
    pub(crate) request_delay: Duration,
}

const MILLI: Duration = Duration::from_millis(1);

/// No faults.
pub(crate) const CALM: FaultRates = FaultRates {
    name: "calm",
    watch_delay: Duration::from_millis(20),
    duplicate: 0,
    disconnect: 0,
    resume: 0,
    stale_list: 0,
    list_again: 3,
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

const KINDS: [FaultRates; 8] = [
    CALM,
    FaultRates {
        name: "mixed",
        watch_delay: Duration::from_millis(500),
        duplicate: 5,
        disconnect: 3,
        resume: 50,
        stale_list: 0,
        list_again: 3,
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
    FaultRates {
        name: "lost",
        lost_but_applied: 20,
        lost: 50,
        late: 20,
        no_answer: 60,
        request_delay: Duration::from_millis(50),
        ..CALM
    },
    FaultRates {
        name: "slow",
        watch_delay: Duration::from_secs(20),
        duplicate: 20,
        forbidden: 5,
        late: 10,
        request_delay: Duration::from_secs(5),
        no_volume: 50,
        ..CALM
    },
    FaultRates {
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
    FaultRates {
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
    FaultRates {
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
    FaultRates {
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

impl FaultRates {
    pub(crate) fn draw(draw: &mut Draw) -> Self {
        draw.pick(&KINDS)
    }

    /// Draws the duration of this period.
    pub(crate) fn lasts(self, draw: &mut Draw) -> Duration {
        // A period of lost bindings must be able to outlast the engine's wait for one.
        let longest = if self.name == "lost" { 250 } else { 60 };
        Duration::from_secs(draw.between(5, longest))
    }
}

/// Draws a delay of at most `longest`; short delays are much more likely than long ones.
pub(crate) fn draw_delay(draw: &mut Draw, longest: Duration) -> Duration {
    let scale = draw.pick(&[1, 10, 100, 1000]);
    let most = (longest / scale).max(MILLI);
    Duration::from_micros(draw.between(50, u64::try_from(most.as_micros()).unwrap_or(u64::MAX)))
}
