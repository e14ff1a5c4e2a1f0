//! What happens to which request: faults that were ordered, faults by dice, and what was counted.

use std::collections::{BTreeMap, HashMap};
use std::str::FromStr;
use std::time::Duration;

/// What can happen to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The connection ends before the service hears of it.
    DropBefore,
    /// The service carries it out, and the connection ends before the answer.
    DropAfter,
    /// 500, not carried out.
    Error,
    /// 500, although it was carried out.
    ErrorAfter,
    /// 503 with Retry-After, not carried out.
    Busy,
    /// The answer ends in the middle.
    Truncate,
    /// It takes this much longer.
    Delay(Duration),
    /// No answer until the line is thawed.
    Freeze,
    /// The first byte of its body becomes another one.
    Garble,
}

impl Fault {
    /// All that a client must get over by itself.
    pub(crate) const PASSING: [Fault; 7] = [
        Fault::DropBefore,
        Fault::DropAfter,
        Fault::Error,
        Fault::ErrorAfter,
        Fault::Busy,
        Fault::Truncate,
        Fault::Delay(Duration::from_millis(30)),
    ];
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        Ok(match word {
            "drop-before" => Fault::DropBefore,
            "drop-after" => Fault::DropAfter,
            "error" => Fault::Error,
            "error-after" => Fault::ErrorAfter,
            "busy" => Fault::Busy,
            "truncate" => Fault::Truncate,
            "delay" => Fault::Delay(Duration::from_millis(100)),
            "freeze" => Fault::Freeze,
            "garble" => Fault::Garble,
            other => return Err(format!("no fault is called {other}")),
        })
    }
}

/// What one kind of request cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// How many there were.
    pub(crate) requests: u64,
    /// Bytes from the client, heads included.
    pub(crate) sent: u64,
    /// Bytes to the client, heads included.
    pub(crate) received: u64,
}

/// What was counted, by kind of request, such as `PUT block` or `PUT lease acquire`.
pub(crate) type Counts = BTreeMap<String, Tally>;

/// Faults to come.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// Of the requests from now on, by their number, the first being 1.
    ordered: HashMap<u64, Fault>,
    dice: Option<Dice>,
    seen: u64,
    counts: Counts,
    happened: u64,
}

/// Faults by chance, the same ones for the same seed.
#[derive(Clone, Debug)]
pub(crate) struct Dice {
    /// Of a thousand requests.
    pub(crate) per_mille: u64,
    /// One of these happens.
    pub(crate) faults: Vec<Fault>,
    /// Where the dice begin.
    pub(crate) seed: u64,
}

impl Dice {
    /// A well-mixed number (splitmix64).
    fn roll(&mut self) -> u64 {
        self.seed = self.seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.seed ^ (self.seed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn fault(&mut self) -> Option<Fault> {
        let hit = self.roll() % 1000 < self.per_mille;
        let which = usize::try_from(self.roll() % self.faults.len().max(1) as u64).ok()?;
        self.faults.get(which).copied().filter(|_| hit)
    }
}

impl Plan {
    /// Another request: what is to happen to it?
    pub(crate) fn next(&mut self) -> Option<Fault> {
        self.seen += 1;
        let ordered = self.ordered.remove(&self.seen);
        let fault = ordered.or_else(|| self.dice.as_mut().and_then(Dice::fault));
        self.happened += u64::from(fault.is_some());
        fault
    }

    /// The `number`th request from now on (1: the next) gets this fault.
    pub(crate) fn order(&mut self, number: u64, fault: Fault) {
        self.ordered.insert(self.seen + number, fault);
    }

    /// From now on faults happen by chance, or not any more.
    pub(crate) fn throw(&mut self, dice: Option<Dice>) {
        self.dice = dice;
    }

    /// A request of this kind is over.
    pub(crate) fn count(&mut self, kind: &str, sent: u64, received: u64) {
        let tally = self.counts.entry(kind.to_owned()).or_default();
        tally.requests += 1;
        tally.sent += sent;
        tally.received += received;
    }

    /// What was counted so far.
    pub(crate) fn counts(&self) -> Counts {
        self.counts.clone()
    }

    /// How many faults happened so far.
    pub(crate) fn happened(&self) -> u64 {
        self.happened
    }

    /// Counts and orders begin anew; dice go on.
    pub(crate) fn reset(&mut self) {
        let dice = self.dice.take();
        *self = Self { dice, ..Self::default() };
    }
}
