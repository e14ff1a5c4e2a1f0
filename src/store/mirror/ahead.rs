//! How much to bring ahead of readers. Pure: hears of reads, answers ranges.
//!
//! A file can have several readers at different places, each a *stream*. A read that continues a stream widens its
//! window, up to a limit; a read anywhere else starts a new stream with no window, so random reads bring little. Streams
//! may run backwards. Reads come from the kernel a little out of order, so "continues" has some slack.
//!
//! ```text
//!   forwards:    ....read....|next        |edge                 a read up to `next`; asked for up to `edge`
//!                             <-- window -->                    asked for more when a request's worth is used up
//! ```
//!
//! *Scattered* misses are reads that continue nothing and find nothing. Each one asks for more around it than the one
//! before, because who reads here and there for long mostly reads near it some time. Every miss also earns the file some
//! bytes; when they are worth the whole file, and the cache can spare the room, the rest of it is brought. So ten reads
//! of a huge file cost little, and many reads of a file that fits soon cost nothing at all.

use std::ops::Range;

/// Streams that are followed per file.
const STREAMS: usize = 8;
/// A read this close to the end (or the beginning) of the last one continues it.
const SLACK: u64 = 1 << 20;
/// The window after the second read in a row.
const FIRST_WINDOW: u64 = 512 << 10;
/// The window after a first read at the beginning of the content: who begins there mostly reads on.
const WINDOW_AT_START: u64 = 512 << 10;
/// Every further read in a row makes the window so many times bigger.
const GROWTH: u64 = 8;
/// One request asks for at least so much, if there is so much to ask for.
const REQUEST_MIN: u64 = 512 << 10;
/// One request asks for at most so much: the longest that a reader waits behind somebody else's bytes. Bytes count as they
/// come, so long requests cost a reader in a row nothing, and every request costs the service.
pub(super) const REQUEST_MAX: u64 = 8 << 20;
/// A window is asked for in about so many requests at a time.
const REQUESTS_PER_WINDOW: u64 = 4;
/// What is brought around the first scattered miss that brings more than itself.
const AROUND_FIRST: u64 = 128 << 10;
/// After so many scattered misses, it is twice as much.
const MISSES_PER_DOUBLING: u64 = 2;
/// So much is brought around a miss at most, if the file is too big to be brought as a whole.
const AROUND_OF_HUGE: u64 = 512 << 10;
/// So many bytes of a file are worth one scattered miss: that is about what comes while a reader waits for an answer.
const WORTH_OF_MISS: u64 = 8 << 20;
/// The whole of a file is worth no fewer scattered misses than this, however small it is.
const MISSES_FOR_ALL: u64 = 8;
/// One request for what nobody reads in a row: who misses a byte of it in the meantime waits for all of it.
pub(super) const REQUEST_REST: u64 = 2 << 20;

/// The readers of one file.
#[derive(Clone, Debug)]
pub(super) struct Ahead {
    streams: Vec<Stream>,
    window_max: u64,
    whole_max: u64,
    /// Scattered misses so far.
    misses: u64,
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
    /// Whether the rest of the content is worth bringing, too.
    pub(super) rest: bool,
}

impl Ahead {
    /// No readers yet; at most `window_max` bytes ahead of each, and at most `whole_max` for who reads here and there.
    pub(super) fn new(window_max: u64, whole_max: u64) -> Self {
        Self { streams: Vec::new(), window_max, whole_max, misses: 0, clock: 0 }
    }

    /// Somebody reads `range` of `size` bytes; `missed` says that not all of it is here.
    pub(super) fn read(&mut self, range: &Range<u64>, size: u64, missed: bool) -> Plan {
        self.clock += 1;
        let clock = self.clock;
        let window_max = self.window_max;
        let continued = self.streams.iter().position(|stream| stream.is_continued_by(range));
        let stream = match continued {
            Some(index) => &mut self.streams[index],
            None => self.begin(range),
        };
        stream.used = clock;
        let ahead = stream.follow(range, size, window_max);
        let request = stream.request();
        if !missed || continued.is_some() || !ahead.is_empty() {
            return Plan { ahead, request, rest: false };
        }
        self.misses += 1;
        Plan { ahead: self.around(range, size), request: REQUEST_REST, rest: self.is_worth_all(size) }
    }

    /// What to bring around a scattered miss: a piece of the content as if it were cut into equal ones.
    fn around(&self, range: &Range<u64>, size: u64) -> Range<u64> {
        let doublings = self.misses / MISSES_PER_DOUBLING;
        if doublings == 0 {
            return 0..0;
        }
        let max = if size <= self.whole_max { REQUEST_MAX } else { AROUND_OF_HUGE };
        let grown = u32::try_from(doublings - 1).ok().and_then(|steps| AROUND_FIRST.checked_shl(steps));
        // A shift can also lose all its bits.
        let piece = grown.filter(|piece| (AROUND_FIRST..max).contains(piece)).unwrap_or(max);
        let start = (range.start.min(size)) / piece * piece;
        start..range.end.max(start + piece).min(size)
    }

    fn is_worth_all(&self, size: u64) -> bool {
        let worth = self.misses.saturating_mul(WORTH_OF_MISS);
        self.misses >= MISSES_FOR_ALL && size <= self.whole_max && size <= worth
    }

    fn begin(&mut self, range: &Range<u64>) -> &mut Stream {
        if self.streams.len() >= STREAMS
            && let Some(oldest) = (0..self.streams.len()).min_by_key(|index| self.streams[*index].used)
        {
            self.streams.swap_remove(oldest);
        }
        let window = if range.start == 0 { WINDOW_AT_START } else { 0 };
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

    /// How much to ask for with one request.
    fn request(&self) -> u64 {
        (self.window / REQUESTS_PER_WINDOW).clamp(REQUEST_MIN, REQUEST_MAX)
    }

    /// Whether so much at the far end is worth asking for: small steps would be small requests, and big ones would leave
    /// the line idle in between, because what is asked for together comes about at the same time.
    fn is_step(&self, bytes: u64, is_last: bool) -> bool {
        bytes >= self.request().min(self.window / 2) || (is_last && bytes > 0)
    }

    fn above(&mut self, size: u64) -> Range<u64> {
        let end = self.next.saturating_add(self.window).min(size);
        let edge = self.asked.end.max(self.next);
        if !self.is_step(end.saturating_sub(edge), end == size) {
            return 0..0;
        }
        self.asked.end = end;
        edge..end
    }

    fn below(&mut self, range: &Range<u64>) -> Range<u64> {
        let start = range.start.saturating_sub(self.window);
        let edge = self.asked.start.min(range.start);
        if !self.is_step(edge.saturating_sub(start), start == 0) {
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
    const WHOLE: u64 = SIZE;
    const READ: u64 = 128 << 10;

    fn len(range: &Range<u64>) -> u64 {
        range.end - range.start
    }

    #[test]
    fn a_sequential_reader_gets_a_growing_window_and_never_the_same_bytes_twice() {
        let mut ahead = Ahead::new(MAX, WHOLE);
        let mut edge = 0;
        let mut largest = 0;
        for at in (0..256 << 20).step_by(READ as usize) {
            let plan = ahead.read(&(at..at + READ), SIZE, false);
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

    /// A place far from the last ones.
    fn scattered(step: u64, size: u64) -> Range<u64> {
        let at = (step * 7_919 * 65_537) % (size / (8 << 20)) * (8 << 20) + (4 << 20) * (step % 2) + 4096;
        at..at + 4096
    }

    #[test]
    fn random_reads_of_what_is_here_bring_nothing_more() {
        let mut ahead = Ahead::new(MAX, WHOLE);
        for step in 1..100_u64 {
            let plan = ahead.read(&scattered(step, SIZE), SIZE, false);
            // A place that was read before counts as read on.
            assert!(len(&plan.ahead) <= FIRST_WINDOW && !plan.rest, "{step}: {plan:?}");
        }
    }

    #[test]
    fn a_few_random_reads_bring_little_also_of_a_huge_file() {
        for size in [SIZE, 10 << 30, 1 << 50] {
            let mut ahead = Ahead::new(MAX, WHOLE);
            let plans: Vec<Plan> =
                (1..=10).map(|step| ahead.read(&scattered(step, size), size, true)).collect();
            assert!(plans[0].ahead.is_empty(), "the first one may be the only one");
            let brought: u64 = plans.iter().map(|plan| len(&plan.ahead)).sum();
            assert!(brought <= 16 << 20 && plans.iter().all(|plan| !plan.rest), "{size}: {brought}");
        }
    }

    #[test]
    fn many_random_reads_bring_more_each_and_in_the_end_all() {
        let (mut ahead, size) = (Ahead::new(MAX, WHOLE), 256 << 20);
        let (mut last, mut misses) = (0, 0);
        for step in 1..200_u64 {
            let range = scattered(step, size);
            let before = ahead.misses;
            let plan = ahead.read(&range, size, true);
            if ahead.misses == before {
                continue;
            }
            misses += 1;
            assert_eq!(plan.rest, misses * WORTH_OF_MISS >= size && misses >= MISSES_FOR_ALL, "{misses}");
            assert!(len(&plan.ahead) >= last.min(REQUEST_MAX) && len(&plan.ahead) <= REQUEST_MAX, "{plan:?}");
            assert!(plan.ahead.is_empty() || plan.ahead.start <= range.start && range.end <= plan.ahead.end);
            last = len(&plan.ahead);
        }
        assert_eq!(last, REQUEST_MAX);
    }

    #[test]
    fn what_the_cache_cannot_spare_room_for_is_never_brought_as_a_whole() {
        let (mut ahead, size) = (Ahead::new(MAX, WHOLE), 4 * WHOLE);
        for step in 1..5_000_u64 {
            let plan = ahead.read(&scattered(step, size), size, true);
            assert!(!plan.rest && len(&plan.ahead) <= AROUND_OF_HUGE.max(FIRST_WINDOW), "{step}: {plan:?}");
        }
    }

    #[test]
    fn several_readers_of_one_file_each_have_a_window() {
        let mut ahead = Ahead::new(MAX, WHOLE);
        let places: Vec<u64> = (0..4).map(|reader| reader * (200 << 20)).collect();
        let mut brought = vec![0; 4];
        for step in 0..200 {
            for (reader, start) in places.iter().enumerate() {
                let at = start + step * READ;
                brought[reader] += len(&ahead.read(&(at..at + READ), SIZE, false).ahead);
            }
        }
        assert!(brought.iter().all(|bytes| *bytes > 16 << 20), "{brought:?}");
    }

    #[test]
    fn reads_a_little_out_of_order_are_one_stream() {
        let mut ahead = Ahead::new(MAX, WHOLE);
        for step in 0..100_u64 {
            let at = (step ^ 1) * READ;
            ahead.read(&(at..at + READ), SIZE, false);
        }
        assert_eq!(ahead.streams.len(), 1);
        assert_eq!(ahead.streams[0].window, MAX);
    }

    #[test]
    fn a_reader_may_go_backwards() {
        let mut ahead = Ahead::new(MAX, WHOLE);
        let mut lowest = SIZE;
        let mut brought = 0;
        for step in 1..500_u64 {
            let at = SIZE - step * READ;
            let plan = ahead.read(&(at..at + READ), SIZE, false);
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
        let mut ahead = Ahead::new(MAX, WHOLE);
        let size = 3 * READ + 5;
        for at in [0, READ, 2 * READ, 3 * READ, size] {
            let plan = ahead.read(&(at..at + READ), size, false);
            assert!(plan.ahead.end <= size, "{plan:?}");
        }
        assert_eq!(ahead.read(&(u64::MAX - 5..u64::MAX), size, false).ahead, 0..0);
    }
}
