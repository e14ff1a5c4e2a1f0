//! Two trees change places at the service, leg by leg.
//!
//! ```text
//!             forward                             back
//!   aside     other ──▶ .leasefs/aside/TOKEN      aside ──▶ other
//!   across    one   ──▶ other                     other ──▶ one, what came across
//!   home      aside ──▶ one                       one ──▶ aside, what came home
//! ```
//!
//! A leg moves blob by blob, each under conditions and never over anything, and can be repeated. The note says which leg is
//! gone, so that whoever finds it goes on. Copies tell by their mark on which leg they were made: what others make at the
//! same names meanwhile stays where it is. A leg that is refused (a lease, a name that was taken) turns the exchange back.
//!
//! Nothing must stay aside, where nobody sees it: what finds its place taken is put beside it.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::journal::{LeftExchange, Note};
use super::moving::{Move, Moved, is_marked, is_own, marked_version, origin_of};
use super::push::is_refusal;
use super::refresh::{IS_FOLDER, is_away, now};
use super::sweep::{Done, Met, Swept};
use super::turns::Scope;
use super::{Mirror, OWN_FOLDER};
use crate::share::Moment;
use crate::share::lease::LeaseRefusal;
use crate::store::{BlobName, BlobPath, BlobProperties, Preconditions, Result, StoreError, crash_point};
use crate::wire::date::iso_seconds;

/// So many blobs of one name that are put beside within one second get names of their own.
const SAME_SECOND_MAX: usize = 1000;
/// Longest name of a file.
const NAME_BYTES_MAX: usize = 255;

/// One leg of an exchange, forward or back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Leg {
    step: Step,
    back: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Step {
    Aside,
    Across,
    Home,
}

impl Leg {
    pub(super) const FIRST: Self = Self { step: Step::Aside, back: false };

    /// The leg behind this one; nothing if it is the last.
    fn next(self) -> Option<Self> {
        let step = match (self.step, self.back) {
            (Step::Aside, false) | (Step::Home, true) => Step::Across,
            (Step::Across, false) => Step::Home,
            (Step::Across, true) => Step::Aside,
            (Step::Home, false) | (Step::Aside, true) => return None,
        };
        Some(Self { step, ..self })
    }

    /// This leg, gone back.
    fn turned(self) -> Self {
        Self { back: true, ..self }
    }

    /// What its copies are marked with.
    fn word(self) -> &'static str {
        match (self.step, self.back) {
            (Step::Aside, false) => "-aside",
            (Step::Across, false) => "-across",
            (Step::Home, false) => "-home",
            (Step::Aside, true) => "-unaside",
            (Step::Across, true) => "-unacross",
            (Step::Home, true) => "-unhome",
        }
    }

    /// Whether it begins where nobody sees what is there.
    fn is_from_aside(self) -> bool {
        matches!((self.step, self.back), (Step::Home, false) | (Step::Aside, true))
    }

    /// Whether it takes what others made, as long as that was there when it began.
    fn takes_others(self) -> bool {
        matches!((self.step, self.back), (Step::Aside | Step::Across, false))
    }
}

/// An exchange of trees under way.
#[derive(Debug)]
pub(super) struct Trip {
    pub(super) note: Note,
    /// What of the first tree has come to where it belongs now, by what follows the name of the tree.
    pub(super) one: HashMap<String, Moved>,
    /// The same of the second.
    pub(super) other: HashMap<String, Moved>,
    /// Whether it was begun earlier, and perhaps by somebody else.
    resumed: bool,
    done: Done,
}

impl Trip {
    pub(super) fn new(note: Note) -> Self {
        let (one, other) = (HashMap::new(), HashMap::new());
        Self { note, one, other, resumed: false, done: Done::default() }
    }

    fn resumed(note: Note) -> Self {
        Self { resumed: true, ..Self::new(note) }
    }

    /// What was done is to be undone.
    fn turn_back(&mut self) {
        if self.note.leg.is_some_and(|leg| !leg.back) {
            self.one.clear();
            self.other.clear();
            self.done.moved.clear();
            self.note.leg = self.note.leg.map(Leg::turned);
        }
    }

    /// It has to be left in the middle, and is undone later.
    pub(super) fn leave(&mut self) {
        self.turn_back();
        self.resumed = true;
    }

    /// A leg is over.
    fn arrived(&mut self, leg: Leg) {
        let moved = std::mem::take(&mut self.done.moved);
        match (leg.step, leg.back) {
            (Step::Across, _) => self.one.extend(moved),
            (Step::Home, false) | (Step::Aside, true) => self.other.extend(moved),
            // Only aside.
            (Step::Aside, false) | (Step::Home, true) => {}
        }
        (self.note.leg, self.note.begun) = (leg.next(), None);
    }
}

/// Where one leg leads, and what it takes.
struct Way<'n> {
    leg: Leg,
    from: String,
    to: String,
    note: &'n Note,
    /// What others made later than that stays.
    newest: Option<Moment>,
}

impl<'n> Way<'n> {
    fn new(note: &'n Note, leg: Leg, newest: Option<Moment>) -> Self {
        let aside = format!("{OWN_FOLDER}/aside/{}", note.token);
        let (one, other) = (note.from.clone(), note.to.clone());
        let (from, to) = match leg.step {
            Step::Aside => (other, aside),
            Step::Across => (one, other),
            Step::Home => (aside, one),
        };
        let (from, to) = if leg.back { (to, from) } else { (from, to) };
        Self { leg, from, to, note, newest }
    }

    /// Whether a blob goes this way.
    fn takes(&self, blob: &BlobProperties) -> bool {
        let token = &self.note.token;
        if self.leg.is_from_aside() {
            true
        } else if self.leg.takes_others() {
            // What the exchange itself has brought is where it belongs.
            !is_own(blob, token) && self.newest.is_none_or(|newest| blob.modified <= newest)
        } else {
            is_marked(blob, token, Leg { back: false, ..self.leg }.word())
        }
    }

    /// Whether what `target` has is what `found` is a copy of: then it never left.
    fn never_left(&self, found: &BlobProperties, target: &BlobProperties) -> bool {
        let (token, was) = (&self.note.token, origin_of(found, &self.note.token));
        match (self.leg.step, self.leg.back) {
            (Step::Aside | Step::Across, true) => target.etag == was,
            (Step::Home, true) => marked_version(target, token) == Some(was),
            (Step::Aside | Step::Across | Step::Home, false) => false,
        }
    }
}

impl Mirror {
    /// Goes all legs that are left, forward or back. Answers why it turned back, if it did. Can be repeated. The note
    /// stays.
    pub(super) async fn go_along(&self, trip: &mut Trip) -> Result<Option<StoreError>> {
        let mut refusal = None;
        let mut back = false;
        while let Some(leg) = trip.note.leg {
            back = leg.back;
            self.note_leg(trip, leg).await?;
            crash_point("exchange_before_leg");
            match self.go(trip, leg).await {
                Ok(()) => trip.arrived(leg),
                Err(error) if leg.back || is_away(&error) => return Err(error),
                Err(error) => {
                    let Note { from, to, .. } = &trip.note;
                    tracing::info!(from, to, %error, "an exchange is refused and undone");
                    refusal = Some(error);
                    trip.turn_back();
                }
            }
        }
        if back {
            self.follow_back(trip)?;
        }
        crash_point("exchange_after_legs");
        Ok(refusal)
    }

    /// Goes on with an exchange that somebody began, to its end.
    pub(super) async fn finish_trees(&self, note: Note) -> Result<()> {
        // Whoever began it must not begin to work on it, too.
        let mut trip = Trip::resumed(Note { owner: self.sidecars.owner()?, ..note });
        let finished = self.go_along(&mut trip).await;
        *self.moving.lock() = None;
        finished.map(drop)
    }

    /// Undoes exchanges that this mount had to leave in the middle: those that touch one of these names, or all.
    pub(super) async fn undo_left(&self, names: Option<&[Scope]>) -> Result<()> {
        let left = self.left.lock().touching(names);
        let mut undone = Ok(());
        for (token, scopes) in left {
            let _turn = self.turns.take(scopes).await;
            // Whoever had the turn before may have done it.
            let Some(mut left) = self.left.lock().take_exchange(&token) else { continue };
            if let Err(error) = self.undo_one(&mut left).await {
                self.left.lock().add_exchange(left);
                undone = undone.and(Err(error));
            }
        }
        undone
    }

    /// Undoes what this mount had to leave, unless it never began, or somebody else has taken it over since.
    async fn undo_one(&self, left: &mut LeftExchange) -> Result<()> {
        let is_ours = self.is_ours(&left.trip.note).await?;
        if is_ours {
            let back = self.go_along(&mut left.trip).await;
            *self.moving.lock() = None;
            back?;
        }
        // What is not pushed counts again, even if somebody finished the exchange: rather kept beside than lost.
        let [one, other] = &left.names;
        self.note_all_leaving(one, other, false)?;
        if is_ours { self.end_rename(&left.trip.note).await } else { Ok(()) }
    }

    /// Notes which leg is going to be gone, and since when.
    async fn note_leg(&self, trip: &mut Trip, leg: Leg) -> Result<()> {
        let begun = self.note_rename(&trip.note).await?;
        if leg.takes_others() && trip.note.begun.is_none() {
            trip.note.begun = Some(begun);
            self.note_rename(&trip.note).await?;
        }
        Ok(())
    }

    async fn go(&self, trip: &mut Trip, leg: Leg) -> Result<()> {
        let Trip { note, done, resumed, .. } = trip;
        let way = Way::new(note, leg, note.begun.filter(|_| *resumed));
        self.sweep(note, &way.from, done, |met| self.begin(&way, met)).await?;
        // The top comes last: as long as it is there, the directory is.
        let top = self.version(&self.in_container(&way.from)?).await?;
        if let Some(found) = top.filter(|found| way.takes(found))
            && let Some(moved) = self.carry(&way, "", found).await?
        {
            *self.moving.lock() = Some(done.add(String::new(), moved));
        }
        if leg.takes_others() && !*resumed && done.moved.is_empty() {
            return Err(StoreError::BlobNotFound(way.from));
        }
        Ok(())
    }

    /// The moves of one page, not begun yet.
    fn begin<'w>(
        &'w self,
        way: &'w Way<'w>,
        met: Vec<Met>,
    ) -> Result<Vec<impl Future<Output = Swept> + Send + 'w>> {
        let met: Vec<Met> = met.into_iter().filter(|(_, blob)| way.takes(blob)).collect();
        let leased = |(_, blob): &Met| blob.lease.is_locked(now());
        if way.leg.takes_others() && met.iter().any(leased) {
            // Before anything is moved for nothing.
            return Err(StoreError::Lease(LeaseRefusal::IdMissing));
        }
        for (rest, _) in &met {
            // Where it is to be in the end, and on the way there.
            BlobName::new(format!("{}{rest}", way.note.from))?;
            BlobName::new(format!("{}{rest}", way.to))?;
        }
        let carry = move |(rest, blob): Met| async move {
            let moved = self.carry(way, &rest, blob).await?;
            Ok(moved.map(|moved| (rest, moved)))
        };
        Ok(met.into_iter().map(carry).collect())
    }

    /// Moves one blob. Nothing if it is not there any more, or if it cannot go where it belongs.
    async fn carry(&self, way: &Way<'_>, rest: &str, found: Arc<BlobProperties>) -> Result<Option<Moved>> {
        let from = self.in_container(&format!("{}{rest}", way.from))?;
        let to = self.in_container(&format!("{}{rest}", way.to))?;
        let (target, token, leg) = (Preconditions::if_absent(), way.note.token.as_str(), way.leg.word());
        let one = Move { from: &from, to: &to, target, lease: None, token, leg };
        let refusal = match self.move_blob(&one, Some(found)).await {
            Err(error) if is_refusal(&error) || matches!(error, StoreError::SourceConditionNotMet) => error,
            other => return other,
        };
        if way.leg.takes_others() {
            return Err(refusal);
        }
        let Some(found) = self.version(&from).await?.filter(|found| way.takes(found)) else {
            return Ok(None);
        };
        let target = self.version(&to).await?;
        if target.as_deref().is_some_and(|target| way.never_left(&found, target)) {
            self.delete_version(&from, &found).await?;
        } else if way.leg.is_from_aside() {
            self.put_beside(&one, &found, target.as_deref()).await?;
        } else {
            tracing::warn!(%from, %to, error = %refusal, "an exchange is undone, but this stays where it was brought");
        }
        Ok(None)
    }

    /// The place of a blob that is aside was taken meanwhile: it is put beside what is there now.
    async fn put_beside(
        &self,
        one: &Move<'_>,
        found: &Arc<BlobProperties>,
        target: Option<&BlobProperties>,
    ) -> Result<()> {
        let is_folder = |blob: &BlobProperties| blob.metadata.contains(IS_FOLDER);
        let is_marker = is_folder(found) || one.from.name.as_str().ends_with('/');
        if is_marker && target.is_some_and(|target| is_folder(target) || one.to.name.as_str().ends_with('/'))
        {
            // Somebody made the directory again: what is in both comes together.
            return self.delete_version(one.from, found).await;
        }
        for attempt in 1..=SAME_SECOND_MAX {
            let to = self.beside(&one.to.name, now(), attempt)?;
            let beside = Move { to: &to, target: Preconditions::if_absent(), ..*one };
            match self.move_blob(&beside, Some(Arc::clone(found))).await {
                Ok(_) => {
                    tracing::warn!(at = %one.to, copy = %to, "the name was taken during an exchange; what belongs there was kept beside");
                    return Ok(());
                }
                Err(error) if is_refusal(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Err(StoreError::BlobExists(one.to.to_string()))
    }

    fn beside(&self, name: &BlobName, at: Moment, attempt: usize) -> Result<BlobPath> {
        let (directory, last) =
            name.as_str().trim_end_matches('/').rsplit_once('/').unwrap_or(("", name.as_str()));
        let copy = beside_name(last, at, attempt);
        let joined = if directory.is_empty() { copy.clone() } else { format!("{directory}/{copy}") };
        // The path would be too long: better in the root than nowhere.
        self.in_container(&joined).or_else(|_| self.in_container(&format!("{}{copy}", self.place.prefix)))
    }

    /// What is known here follows what an undone exchange has brought back: the same content, as other versions.
    fn follow_back(&self, trip: &Trip) -> Result<()> {
        let tops = [&trip.note.from, &trip.note.to].map(|top| top.strip_prefix(&*self.place.prefix));
        for (top, moved) in tops.into_iter().zip([&trip.one, &trip.other]) {
            let Some(top) = top else { continue };
            for (rest, Moved { was, is }) in moved {
                self.sidecars.follow(&BlobName::new(format!("{top}{rest}"))?, (*was, *is))?;
            }
        }
        let is_below = |name: &BlobName, top: &str| {
            name.as_str().strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.contents
            .moved(|name| tops.iter().flatten().any(|top| is_below(name, top)).then(|| name.clone()));
        Ok(())
    }
}

/// `name.conflict-exchange-time`, with a number from the second on, and cut where it would be too long.
fn beside_name(name: &str, at: Moment, attempt: usize) -> String {
    let mut tail = format!(".conflict-exchange-{}", iso_seconds(at).replace(['-', ':'], ""));
    if attempt > 1 {
        tail.push_str(&format!("-{attempt}"));
    }
    let room = NAME_BYTES_MAX.saturating_sub(tail.len());
    format!("{}{tail}", &name[..name.floor_char_boundary(room)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_leg_leads_to_the_end_and_can_be_gone_back() {
        let mut legs = vec![Leg::FIRST];
        while let Some(next) = legs.last().unwrap().next() {
            legs.push(next);
        }
        assert_eq!(legs.iter().map(|leg| leg.word()).collect::<Vec<_>>(), ["-aside", "-across", "-home"]);
        for (index, leg) in legs.iter().enumerate() {
            let mut back = vec![leg.turned()];
            while let Some(next) = back.last().unwrap().next() {
                back.push(next);
            }
            let expected: Vec<Leg> = legs[..=index].iter().rev().map(|leg| leg.turned()).collect();
            assert_eq!(back, expected);
        }
    }

    #[test]
    fn what_is_put_beside_says_why_and_when() {
        let at = Moment(1_794_914_999 * 1_000_000_000);
        assert_eq!(beside_name("a.txt", at, 1), "a.txt.conflict-exchange-20261117T112959Z");
        assert_eq!(beside_name("a.txt", at, 2), "a.txt.conflict-exchange-20261117T112959Z-2");
        let long = beside_name(&"ä".repeat(127), at, 1);
        assert!(long.len() <= NAME_BYTES_MAX && long.starts_with('ä') && long.ends_with("112959Z"), "{long}");
    }
}
