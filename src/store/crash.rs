//! Named points at which a test lets the process die.
//!
//! Set `LEASEFS_CRASH_AT=name` (or `name:3` for the third time the point is reached) before the process starts.
//! Without it a point costs one relaxed load.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// The environment variable that names the point.
const CRASH_VARIABLE: &str = "LEASEFS_CRASH_AT";

const UNKNOWN: u8 = 0;
const OFF: u8 = 1;
const ARMED: u8 = 2;

static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);
static PLAN: OnceLock<Option<Plan>> = OnceLock::new();

struct Plan {
    name: String,
    left: AtomicU64,
}

/// Ends the process at once, without any cleaning up, if this is the point the environment names.
#[inline]
pub fn crash_point(name: &str) {
    if STATE.load(Ordering::Relaxed) != OFF {
        armed(name);
    }
}

#[cold]
fn armed(name: &str) {
    let plan = PLAN.get_or_init(|| std::env::var(CRASH_VARIABLE).ok().and_then(|text| parse(&text)));
    STATE.store(if plan.is_some() { ARMED } else { OFF }, Ordering::Relaxed);
    if let Some(plan) = plan
        && plan.name == name
        && plan.left.fetch_sub(1, Ordering::Relaxed) == 1
    {
        std::process::abort();
    }
}

fn parse(text: &str) -> Option<Plan> {
    let (name, count) = match text.split_once(':') {
        Some((name, count)) => (name, count.parse().ok().filter(|count| *count > 0)?),
        None => (text, 1),
    };
    (!name.is_empty()).then(|| Plan { name: name.to_owned(), left: AtomicU64::new(count) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_name_a_point_and_a_count() {
        let plan = parse("publish_after_batch").unwrap();
        assert_eq!((plan.name.as_str(), plan.left.into_inner()), ("publish_after_batch", 1));
        let plan = parse("tidy_after_copy:3").unwrap();
        assert_eq!((plan.name.as_str(), plan.left.into_inner()), ("tidy_after_copy", 3));
        assert!(parse("").is_none());
        assert!(parse("x:none").is_none());
        assert!(parse("x:0").is_none());
    }

    #[test]
    fn an_unnamed_point_does_nothing() {
        crash_point("nobody_names_this");
    }
}
