//! How much to bring ahead of readers. Pure: hears of reads, answers ranges.
//!
//! A file can have several readers at different places, each a *stream*. A read that continues a stream widens its
//! window, up to a limit; a read anywhere else starts a new stream with no window, so random reads bring little. Streams
//! may run backwards. Reads come from the kernel a little out of order, so "continues" has some slack.
//!
//! ```text
//!   forwards:    ....read....|next        |edge                 a read up to `next`; asked for up to `edge`
//!                             <-- window -->                    asked for more when half of the window is used up
//! ```

use std::ops::Range;

/// Streams that are followed per file.
const STREAMS: usize = 8;
/// A read this close to the end (or the beginning) of the last one continues it.
const SLACK: u64 = 1 << 20;
/// The window after the second read in a row, and after a first read at the beginning of the content.
const FIRST_WINDOW: u64 = 512 << 10;
/// Every further read in a row makes the window so many times bigger.
const GROWTH: u64 = 4;
/// One request asks for at least so much, if there is so much to ask for.
const REQUEST_MIN: u64 = 512 << 10;
/// One request asks for at most so much: the longest that a reader waits behind somebody else's bytes. Bytes count as they
/// come, so long requests cost a reader in a row nothing, and every request costs the service.
pub(super) const REQUEST_MAX: u64 = 8 << 20;
/// A window is asked for in about so many requests at a time.
const REQUESTS_PER_WINDOW: u64 = 4;

/// The readers of one file.
#[derive(Clone, Debug)]
pub(super) struct Ahead {
    streams: Vec<Stream>,
    window_max: u64,
    clock: u64,
}

#[derive(Clone, Debug)]
struct Stream {
    /// What was read last, as far as it is in one piece.
    low: u64,
    next: u64,
    /// What was asked for around it.
    asked: Range<u64>,
    window: u64,
    used: u64,
}

/// What is worth bringing after a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// Bytes that will probably be read next.
    pub(super) ahead: Range<u64>,
    /// How much to ask for with one request.
    pub(super) request: u64,
}

impl Ahead {
    /// No readers yet; at most `window_max` bytes ahead of each.
    pub(super) fn new(window_max: u64) -> Self {
        Self { streams: Vec::new(), window_max, clock: 0 }
    }

    /// Somebody reads `range` of `size` bytes.
    pub(super) fn read(&mut self, range: &Range<u64>, size: u64) -> Plan {
        self.clock += 1;
        let clock = self.clock;
        let window_max = self.window_max;
        let stream = match self.streams.iter().position(|stream| stream.is_continued_by(range)) {
            Some(index) => &mut self.streams[index],
            None => self.begin(range),
        };
        stream.used = clock;
        let ahead = stream.follow(range, size, window_max);
        let request = (stream.window / REQUESTS_PER_WINDOW).clamp(REQUEST_MIN, REQUEST_MAX);
        Plan { ahead, request }
    }

    fn begin(&mut self, range: &Range<u64>) -> &mut Stream {
        if self.streams.len() >= STREAMS
            && let Some(oldest) = (0..self.streams.len()).min_by_key(|index| self.streams[*index].used)
        {
            self.streams.swap_remove(oldest);
        }
        // Who begins at the beginning mostly reads on.
        let window = if range.start == 0 { FIRST_WINDOW / 2 } else { 0 };
        let stream = Stream { low: range.start, next: range.start, asked: range.clone(), window, used: 0 };
        self.streams.push(stream);
        let last = self.streams.len() - 1;
        &mut self.streams[last]
    }
}

impl Stream {
    fn is_continued_by(&self, range: &Range<u64>) -> bool {
        let near = self.low.saturating_sub(SLACK)..=self.next.saturating_add(SLACK);
        near.contains(&range.start) && near.contains(&range.end)
            || near.contains(&range.start) && range.start.saturating_add(SLACK) >= self.next
    }

    /// Takes note of a read; answers what to ask for.
    fn follow(&mut self, range: &Range<u64>, size: u64, window_max: u64) -> Range<u64> {
        let (forwards, backwards) = (range.end > self.next, range.start < self.low);
        let first = self.low == self.next;
        self.low = self.low.min(range.start);
        self.next = self.next.max(range.end);
        if !first && (forwards || backwards) {
            self.window = (self.window * GROWTH).clamp(FIRST_WINDOW, window_max.max(FIRST_WINDOW));
        }
        if self.window == 0 {
            return 0..0;
        }
        if backwards && !forwards { self.below(range) } else { self.above(size) }
    }

    fn above(&mut self, size: u64) -> Range<u64> {
        let end = self.next.saturating_add(self.window).min(size);
        let edge = self.asked.end.max(self.next);
        // Small steps at the far end would be small requests.
        if edge.saturating_sub(self.next) > self.window / 2 || edge >= end {
            return 0..0;
        }
        self.asked.end = end;
        edge..end
    }

    fn below(&mut self, range: &Range<u64>) -> Range<u64> {
        let start = range.start.saturating_sub(self.window);
        let edge = self.asked.start.min(range.start);
        if range.start - edge > self.window / 2 || edge <= start {
            return 0..0;
        }
        self.asked.start = start;
        start..edge
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = 1 << 30;
    const MAX: u64 = 64 << 20;
    const READ: u64 = 128 << 10;

    fn len(range: &Range<u64>) -> u64 {
        range.end - range.start
    }

    #[test]
    fn a_sequential_reader_gets_a_growing_window_and_never_the_same_bytes_twice() {
        let mut ahead = Ahead::new(MAX);
        let mut edge = 0;
        let mut largest = 0;
        for at in (0..256 << 20).step_by(READ as usize) {
            let plan = ahead.read(&(at..at + READ), SIZE);
            if plan.ahead.is_empty() {
                continue;
            }
            assert!(edge <= plan.ahead.start, "{plan:?} after {edge}");
            edge = plan.ahead.end;
            assert!(edge <= at + READ + MAX);
            largest = largest.max(plan.request);
        }
        assert_eq!(largest, REQUEST_MAX);
        assert!(edge >= (256 << 20) + MAX / 2, "at least half a window is ahead of the reader");
    }

    #[test]
    fn random_reads_bring_nothing_more() {
        let mut ahead = Ahead::new(MAX);
        for step in 1..100_u64 {
            let at = (step * 7_919 * 65_537) % (SIZE / (8 << 20)) * (8 << 20) + (4 << 20) * (step % 2) + 4096;
            let plan = ahead.read(&(at..at + 4096), SIZE);
            // A place that was read before counts as read on.
            assert!(len(&plan.ahead) <= FIRST_WINDOW, "{step}: {plan:?}");
        }
    }

    #[test]
    fn several_readers_of_one_file_each_have_a_window() {
        let mut ahead = Ahead::new(MAX);
        let places: Vec<u64> = (0..4).map(|reader| reader * (200 << 20)).collect();
        let mut brought = vec![0; 4];
        for step in 0..200 {
            for (reader, start) in places.iter().enumerate() {
                let at = start + step * READ;
                brought[reader] += len(&ahead.read(&(at..at + READ), SIZE).ahead);
            }
        }
        assert!(brought.iter().all(|bytes| *bytes > 16 << 20), "{brought:?}");
    }

    #[test]
    fn reads_a_little_out_of_order_are_one_stream() {
        let mut ahead = Ahead::new(MAX);
        for step in 0..100_u64 {
            let at = (step ^ 1) * READ;
            ahead.read(&(at..at + READ), SIZE);
        }
        assert_eq!(ahead.streams.len(), 1);
        assert_eq!(ahead.streams[0].window, MAX);
    }

    #[test]
    fn a_reader_may_go_backwards() {
        let mut ahead = Ahead::new(MAX);
        let mut lowest = SIZE;
        let mut brought = 0;
        for step in 1..500_u64 {
            let at = SIZE - step * READ;
            let plan = ahead.read(&(at..at + READ), SIZE);
            if !plan.ahead.is_empty() {
                assert!(plan.ahead.end <= lowest.min(at), "{plan:?} below {lowest}");
                lowest = plan.ahead.start;
                brought += len(&plan.ahead);
            }
        }
        assert!(brought > 64 << 20, "{brought}");
    }

    #[test]
    fn the_end_of_the_content_is_the_end() {
        let mut ahead = Ahead::new(MAX);
        let size = 3 * READ + 5;
        for at in [0, READ, 2 * READ, 3 * READ, size] {
            let plan = ahead.read(&(at..at + READ), size);
            assert!(plan.ahead.end <= size, "{plan:?}");
        }
        assert_eq!(ahead.read(&(u64::MAX - 5..u64::MAX), size).ahead, 0..0);
    }
}
