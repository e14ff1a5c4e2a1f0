//! Shows how far a long commit is: nothing for the first second, then a bar on a terminal or a line a second.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{HumanBytes, ProgressBar, ProgressStyle};

use super::report;
use crate::store::Progress;

/// Work that is done within this time is not shown at all.
const QUIET: Duration = Duration::from_secs(1);
/// How often a line is written where there is no terminal.
const LINE_PERIOD: Duration = Duration::from_secs(1);

/// What a person sees on stderr.
pub(super) struct ProgressView {
    started: Instant,
    shown: Shown,
}

enum Shown {
    Nothing,
    Bar(ProgressBar),
    Lines { last: Instant },
}

impl ProgressView {
    /// A view of work that starts now.
    pub(super) fn new(now: Instant) -> Self {
        Self { started: now, shown: Shown::Nothing }
    }

    /// Takes the latest state and shows it if it is time to.
    pub(super) fn update(&mut self, now: Instant, progress: Progress) {
        if let Some(line) = self.line_due(now, progress, std::io::stderr().is_terminal()) {
            report::complain(&line);
        }
    }

    /// Updates the bar, or returns the line that is due.
    fn line_due(&mut self, now: Instant, progress: Progress, terminal: bool) -> Option<String> {
        match &mut self.shown {
            Shown::Nothing if now.duration_since(self.started) < QUIET => None,
            Shown::Nothing if terminal => {
                let bar = new_bar();
                set_bar(&bar, progress);
                self.shown = Shown::Bar(bar);
                None
            }
            Shown::Nothing => {
                self.shown = Shown::Lines { last: now };
                Some(sentence(progress))
            }
            Shown::Bar(bar) => {
                set_bar(bar, progress);
                None
            }
            Shown::Lines { last } if now.duration_since(*last) < LINE_PERIOD => None,
            Shown::Lines { last } => {
                *last = now;
                Some(sentence(progress))
            }
        }
    }

    /// Takes the bar away.
    pub(super) fn finish(self) {
        if let Shown::Bar(bar) = self.shown {
            bar.finish_and_clear();
        }
    }
}

/// `committing 3 of 10 files, 1.2 MiB of 4.0 MiB`
pub(super) fn sentence(progress: Progress) -> String {
    let Progress { files_done, files_total, bytes_done, bytes_total } = progress;
    // Nothing has been told yet.
    if files_total == 0 {
        return "committing what is pending".to_owned();
    }
    let (done, total) = (HumanBytes(bytes_done), HumanBytes(bytes_total));
    format!("committing {files_done} of {files_total} files, {done} of {total}")
}

/// What is left, as in `2 files, 3.0 MiB`.
pub(super) fn rest(progress: Progress) -> String {
    if progress.files_total == 0 {
        return "how much is left is not known".to_owned();
    }
    let files = progress.files_total.saturating_sub(progress.files_done);
    let bytes = progress.bytes_total.saturating_sub(progress.bytes_done);
    format!("{files} files, {} left", HumanBytes(bytes))
}

fn new_bar() -> ProgressBar {
    let bar = ProgressBar::new(0);
    let template = "committing {wide_bar} {bytes}/{total_bytes} {msg}";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}

fn set_bar(bar: &ProgressBar, progress: Progress) {
    bar.set_length(progress.bytes_total);
    bar.set_position(progress.bytes_done);
    bar.set_message(format!("{}/{} files", progress.files_done, progress.files_total));
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF: Progress = Progress { files_done: 1, files_total: 2, bytes_done: 1024, bytes_total: 4096 };

    #[test]
    fn quick_work_is_silent_and_slow_work_writes_a_line_a_second() {
        let start = Instant::now();
        let after = |millis| start + Duration::from_millis(millis);
        let mut view = ProgressView::new(start);
        assert_eq!(view.line_due(after(900), HALF, false), None);
        let line = view.line_due(after(1100), HALF, false).unwrap();
        assert_eq!(line, "committing 1 of 2 files, 1.00 KiB of 4.00 KiB");
        assert_eq!(view.line_due(after(1500), HALF, false), None);
        assert!(view.line_due(after(2200), HALF, false).is_some());
    }

    #[test]
    fn a_terminal_gets_a_bar_and_no_lines() {
        let start = Instant::now();
        let mut view = ProgressView::new(start);
        assert_eq!(view.line_due(start + Duration::from_secs(2), HALF, true), None);
        match &view.shown {
            Shown::Bar(bar) => assert_eq!((bar.position(), bar.length()), (1024, Some(4096))),
            Shown::Nothing | Shown::Lines { .. } => panic!("no bar"),
        }
        view.finish();
    }

    #[test]
    fn the_rest_in_words() {
        assert_eq!(rest(HALF), "1 files, 3.00 KiB left");
        assert_eq!(sentence(Progress::default()), "committing what is pending");
    }
}
