//! Ctrl-C and SIGTERM while a folder is being filled.

use crate::eprintln_quietly;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use std::io::{self, IsTerminal};

/// For as long as it lives, the process removes what it is filling before it ends of a signal.
pub(crate) struct Watch(Option<Handle>);

/// Begins to watch. Where that is not possible, the next command with the same destination cleans up.
pub(crate) fn watch() -> Watch {
    let ignored = ignored();
    let wanted = [SIGINT, SIGTERM].into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0);
    let Ok(mut signals) = Signals::new(wanted) else { return Watch(None) };
    let handle = signals.handle();
    let waiting = std::thread::Builder::new().name("signals".into()).spawn(move || {
        let Some(signal) = signals.forever().next() else { return };
        let folders = sigbank::convert::abandon_all() as u64;
        let name = if signal == SIGINT { "SIGINT" } else { "SIGTERM" };
        // Behind the progress bar.
        let start = if io::stderr().is_terminal() { "\n" } else { "" };
        let removed = if folders > 0 { "; nothing was written, what was begun is removed" } else { "" };
        eprintln_quietly(&format!("{start}error: stopped by {name}{removed}"));
        let _ = signal_hook::low_level::emulate_default_handler(signal);
    });
    Watch(waiting.is_ok().then_some(handle))
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.iter().for_each(Handle::close);
    }
}

/// The signals that whoever started the process wants it to ignore (`nohup`, a job in the background), a bit each.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
