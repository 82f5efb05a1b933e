//! The `process_*` families, read from `/proc/self` as Go's process collector does.
//!
//! Values that cannot be read are left out. On systems without `/proc` there are none.

use std::fs;

use prometheus::proto::MetricFamily;

use crate::telemetry::metrics::families::Family;
use crate::telemetry::metrics::text::{Plain, plain_family};

/// Ticks per second in `/proc/*/stat` (`USER_HZ`). The kernel's interface fixes it at 100 on all supported
/// architectures.
const TICKS_PER_SECOND: f64 = 100.0;

const START_TIME: &str = "process_start_time_seconds";

/// Values of this process read from `/proc`.
#[derive(Clone, Debug, Default, PartialEq)]
struct ProcessStats {
    cpu_seconds: Option<f64>,
    start_time_seconds: Option<f64>,
    virtual_memory_bytes: Option<f64>,
    virtual_memory_max_bytes: Option<f64>,
    resident_memory_bytes: Option<f64>,
    open_fds: Option<f64>,
    max_fds: Option<f64>,
    network_receive_bytes: Option<f64>,
    network_transmit_bytes: Option<f64>,
}

impl ProcessStats {
    fn read() -> Self {
        let file = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let mut stats = Self::parse(
            &file("/proc/self/stat"),
            &file("/proc/self/status"),
            &file("/proc/self/limits"),
            &file("/proc/self/net/netstat"),
            &file("/proc/stat"),
        );
        // `read_dir` itself holds one descriptor open.
        stats.open_fds = fs::read_dir("/proc/self/fd").ok().map(|fds| fds.count().saturating_sub(1) as f64);
        stats
    }

    fn parse(stat: &str, status: &str, limits: &str, netstat: &str, system: &str) -> Self {
        // Field 2 is the command in parentheses and may contain spaces. The rest starts at field 3.
        let fields: Vec<&str> =
            stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().collect()).unwrap_or_default();
        let field = |number: usize| {
            fields.get(number - 3).and_then(|text| text.parse::<u64>().ok()).map(|n| n as f64)
        };
        let boot = first_number(system, "btime ");
        let resident_kib = first_number(status, "VmRSS:");
        let (receive, transmit) = network(netstat);
        Self {
            cpu_seconds: field(14).zip(field(15)).map(|(user, system)| (user + system) / TICKS_PER_SECOND),
            start_time_seconds: boot.zip(field(22)).map(|(boot, ticks)| boot + ticks / TICKS_PER_SECOND),
            virtual_memory_bytes: field(23),
            virtual_memory_max_bytes: limit(limits, "Max address space"),
            resident_memory_bytes: resident_kib.map(|kib| kib * 1024.0),
            open_fds: None,
            max_fds: limit(limits, "Max open files"),
            network_receive_bytes: receive,
            network_transmit_bytes: transmit,
        }
    }
}

fn first_number(text: &str, prefix: &str) -> Option<f64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(prefix))?;
    rest.split_whitespace().next()?.parse().ok()
}

/// Returns the soft limit. "unlimited" becomes `u64::MAX`, as in Go.
fn limit(text: &str, name: &str) -> Option<f64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    match rest.split_whitespace().next()? {
        "unlimited" => Some(u64::MAX as f64),
        number => number.parse().ok(),
    }
}

/// Returns `InOctets` and `OutOctets` of the `IpExt` lines. The first line holds the names, the second the values.
fn network(netstat: &str) -> (Option<f64>, Option<f64>) {
    let mut lines = netstat.lines().filter_map(|line| line.strip_prefix("IpExt:"));
    let (Some(names), Some(values)) = (lines.next(), lines.next()) else { return (None, None) };
    let value = |wanted: &str| {
        names
            .split_whitespace()
            .zip(values.split_whitespace())
            .find(|(name, _)| *name == wanted)
            .and_then(|(_, value)| value.parse().ok())
    };
    (value("InOctets"), value("OutOctets"))
}

/// Returns the families of this process for `/metrics`, unsorted.
pub(super) fn families() -> Vec<MetricFamily> {
    let stats = ProcessStats::read();
    let rows = [
        (
            "process_cpu_seconds_total",
            "Total user and system CPU time spent in seconds.",
            Plain::Counter,
            stats.cpu_seconds,
        ),
        ("process_max_fds", "Maximum number of open file descriptors.", Plain::Gauge, stats.max_fds),
        (
            "process_network_receive_bytes_total",
            "Number of bytes received by the process over the network.",
            Plain::Counter,
            stats.network_receive_bytes,
        ),
        (
            "process_network_transmit_bytes_total",
            "Number of bytes sent by the process over the network.",
            Plain::Counter,
            stats.network_transmit_bytes,
        ),
        ("process_open_fds", "Number of open file descriptors.", Plain::Gauge, stats.open_fds),
        (
            "process_resident_memory_bytes",
            "Resident memory size in bytes.",
            Plain::Gauge,
            stats.resident_memory_bytes,
        ),
        (
            START_TIME,
            "Start time of the process since unix epoch in seconds.",
            Plain::Gauge,
            stats.start_time_seconds,
        ),
        (
            "process_virtual_memory_bytes",
            "Virtual memory size in bytes.",
            Plain::Gauge,
            stats.virtual_memory_bytes,
        ),
        (
            "process_virtual_memory_max_bytes",
            "Maximum amount of virtual memory available in bytes.",
            Plain::Gauge,
            stats.virtual_memory_max_bytes,
        ),
    ];
    rows.into_iter().map(|(name, help, plain, value)| single(name, help, plain, value)).collect()
}

/// Returns `process_start_time_seconds` for `/metrics/slis`, where its HELP has a stability prefix.
pub(super) fn start_time_family() -> MetricFamily {
    let help = "[ALPHA] Start time of the process since unix epoch in seconds.";
    single(START_TIME, help, Plain::Gauge, start_time_seconds())
}

/// Returns the start time of this process in seconds since the Unix epoch, or `None` without `/proc`.
pub fn start_time_seconds() -> Option<f64> {
    ProcessStats::read().start_time_seconds
}

fn single(name: &'static str, help: &'static str, plain: Plain, value: Option<f64>) -> MetricFamily {
    plain_family(&Family::new(name, help, &[]), plain, value.map(|value| ([], value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_parser_handles_command_with_spaces_and_parentheses() {
        let stat = "7 (a (b) c) S 1 7 7 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 4 0 12345 1895399424 19572 18446744073709551615";
        let status = "Name:\ta\nVmRSS:\t   78288 kB\n";
        let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                      Max open files            20000                20000                files     \n\
                      Max address space         unlimited            unlimited            bytes     \n";
        let netstat = "TcpExt: A B\nTcpExt: 1 2\nIpExt: InNoRoutes InOctets OutOctets\nIpExt: 0 111 222\n";
        let system = "cpu  1 2 3\nbtime 1795202000\n";
        assert_eq!(
            ProcessStats::parse(stat, status, limits, netstat, system),
            ProcessStats {
                cpu_seconds: Some(3.0),
                start_time_seconds: Some(1_795_202_123.45),
                virtual_memory_bytes: Some(1_895_399_424.0),
                virtual_memory_max_bytes: Some(u64::MAX as f64),
                resident_memory_bytes: Some(80_166_912.0),
                open_fds: None,
                max_fds: Some(20000.0),
                network_receive_bytes: Some(111.0),
                network_transmit_bytes: Some(222.0),
            }
        );
    }

    #[test]
    fn unreadable_proc_files_leave_values_out() {
        assert_eq!(ProcessStats::parse("", "", "garbage", "IpExt: A\n", "btime x"), ProcessStats::default());
    }
}
