//! Publish, patch and readers against a plain vector of bytes.

use std::ops::Range;

use proptest::prelude::*;

use super::*;
use crate::store::Change;

#[derive(Clone, Debug)]
enum Step {
    /// Replace all.
    Put {
        size: usize,
        byte: u8,
    },
    /// Replace ranges and cut or extend.
    Patch {
        cuts: Vec<u64>,
        size: u64,
        byte: u8,
    },
    Tidy,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0usize..120, any::<u8>()).prop_map(|(size, byte)| Step::Put { size, byte }),
        (prop::collection::vec(0u64..150, 0..6), 0u64..150, any::<u8>())
            .prop_map(|(cuts, size, byte)| Step::Patch { cuts, size, byte }),
        (prop::collection::vec(0u64..150, 0..6), 0u64..150, any::<u8>())
            .prop_map(|(cuts, size, byte)| Step::Patch { cuts, size, byte }),
        Just(Step::Tidy),
    ]
}

fn ranges(cuts: &[u64], size: u64) -> Vec<Range<u64>> {
    let mut cuts: Vec<u64> = cuts.iter().map(|cut| cut % (size + 1)).collect();
    cuts.sort_unstable();
    cuts.chunks_exact(2).map(|pair| pair[0]..pair[1]).filter(|range| !range.is_empty()).collect()
}

fn pattern(byte: u8, range: Range<u64>) -> Vec<u8> {
    range.map(|at| byte.wrapping_add(at as u8)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn patches_do_what_they_say(steps in prop::collection::vec(step(), 1..25)) {
        let bench = Bench::new(small());
        let mut model: Vec<u8> = Vec::new();
        let mut readers = Vec::new();
        bench.put("f", b"");
        for step in steps {
            match step {
                Step::Put { size, byte } => {
                    model = pattern(byte, 0..size as u64);
                    bench.put("f", &model);
                }
                Step::Patch { cuts, size, byte } => {
                    let ranges = ranges(&cuts, size);
                    let scratch = bench.store.scratch().unwrap();
                    model.resize(size as usize, 0);
                    for range in &ranges {
                        let bytes = pattern(byte, range.clone());
                        model[range.start as usize..range.end as usize].copy_from_slice(&bytes);
                        fill(&scratch, &bytes, range.start);
                    }
                    let base = bench.store.reader(&at("f")).unwrap();
                    let new = NewContent::default();
                    let none = Preconditions::default();
                    let changes: Vec<Change> = ranges.into_iter().map(Change::in_place).collect();
                    bench.store.patch(&at("f"), &base, &scratch, &changes, size, new, &none).unwrap();
                }
                Step::Tidy => {
                    if readers.len() % 2 == 0 {
                        readers.clear();
                    }
                    bench.store.tidy(&at("f")).unwrap();
                }
            }
            prop_assert_eq!(bench.read("f"), model.clone());
            readers.push((bench.store.reader(&at("f")).unwrap(), model.clone()));
            for (reader, expected) in &readers {
                let mut buffer = vec![0xee; expected.len() + 5];
                let count = reader.read_at(&mut buffer, 0).unwrap();
                prop_assert_eq!(&buffer[..count], &expected[..], "a reader's version changed");
            }
        }
        bench.assert_clean();
        drop(readers);
        bench.store.tidy(&at("f")).unwrap();
        prop_assert!(bench.store.reader(&at("f")).unwrap().pieces().len() <= 1, "nothing is in the way of tidying");
        prop_assert_eq!(bench.read("f"), model.clone());
        bench.assert_clean();
        let bench = bench.reopen(small());
        prop_assert_eq!(bench.read("f"), model);
    }
}
