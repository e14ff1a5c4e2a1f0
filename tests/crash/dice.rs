//! A small seeded generator; what it gives belongs to the seed for ever.

use std::time::SystemTime;

/// What this run begins with: another one each time, unless the one of a failed run is given.
pub fn seed() -> u64 {
    let given = std::env::var("LEASEFS_SEED").ok();
    let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().subsec_nanos().into();
    given.map_or_else(now, |seed| seed.parse().expect("LEASEFS_SEED is a number"))
}

pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `sides`.
    pub fn roll(&mut self, sides: usize) -> usize {
        (self.number() % sides as u64) as usize
    }

    /// True once in `times`.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.roll(times) == 0
    }

    /// One of them, if there is one.
    pub fn pick<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        (!from.is_empty()).then(|| from[self.roll(from.len())].clone())
    }

    /// Bytes that no other call gives.
    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(length + 8);
        while bytes.len() < length {
            bytes.extend_from_slice(&self.number().to_le_bytes());
        }
        bytes.truncate(length);
        bytes
    }

    /// A size of a file: mostly small, often where the store changes its ways (64 KiB and 1 MiB), at most 3 MiB.
    pub fn size(&mut self) -> usize {
        const INDEX: usize = 64 << 10;
        const COPY: usize = 1 << 20;
        match self.roll(20) {
            0 => 0,
            1..=9 => self.roll(8 << 10),
            10 => INDEX - 1 + self.roll(3),
            11..=13 => INDEX - 2000 + self.roll(4000),
            14..=16 => INDEX + self.roll(400_000),
            17 => COPY - 1 + self.roll(3),
            18 => COPY - 50_000 + self.roll(100_000),
            _ => COPY + self.roll(2 * COPY),
        }
    }
}
