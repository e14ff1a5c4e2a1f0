//! Two mounts of one container make random changes to the same few files at the same time, a thousand times each: no
//! update is lost, nothing is doubled, and both agree with the service afterwards.
//!
//! Every file begins with a line that no other file has, its *identity*, and every update adds a line of its own to what
//! was there. So whatever is missing in the end tells what was lost:
//!
//! * a line that was acknowledged is in the file with its identity, wherever that is by now;
//! * a line that was refused with ESTALE is in a conflict copy;
//! * an identity is gone only if somebody removed or replaced a file: one identity for each time at most.
//!
//! Some names are also renamed. A blob service knows no renames: what is renamed while somebody else writes, renames or
//! removes it may be there under both names. So a line of such a file may also have gone with one of two copies, and
//! counts as gone with a removal, as an identity does.
//!
//! A failing seed is a bug report: `LEASEFS_SEED=n cargo test --test remote_rounds`; `LEASEFS_ROUNDS` makes it longer.

// A test that cannot go on stops. Helper modules of several tests.
#![allow(clippy::unwrap_used, dead_code, unreachable_pub)]

#[path = "crash/dice.rs"]
mod dice;
#[path = "remote/machine.rs"]
mod machine;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use dice::Dice;
use machine::{PATIENCE, Remote, Sdk, Service, can_mount};
use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};

/// After so many rounds everything is compared.
const BATCH: usize = 25;

/// The names that both work on: those that stay, and those that are renamed to each other.
const STAYING: [&str; 3] = ["a", "b", "d/c"];
const ROAMING: [&str; 4] = ["e", "f", "d/g", "d/h"];
/// What the identity of a file with such a name begins with.
const ROAMS: &str = "roaming";

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable} is a number")))
}

/// What one writer knows of what it did.
#[derive(Default)]
struct Told {
    /// Identity and line of each update that must be found again, and whether it was acknowledged.
    lines: Vec<(String, String, bool)>,
    /// Files that are gone because of this writer, at most: staying ones, and roaming ones.
    ended: [usize; 2],
    /// Files made.
    made: Vec<String>,
    /// How often each thing happened.
    tally: BTreeMap<String, usize>,
    /// What happened, and when.
    story: Vec<(Instant, String)>,
}

struct Writer {
    name: &'static str,
    dir: PathBuf,
    dice: Dice,
    next: usize,
    told: Told,
}

/// The errors that a call may meet because of the other writer.
fn is_fair(error: &io::Error) -> bool {
    let fair = [libc::ENOENT, libc::EEXIST, libc::ESTALE, libc::EBUSY];
    error.raw_os_error().is_some_and(|errno| fair.contains(&errno))
}

impl Writer {
    /// A name, and whether it roams.
    fn name(&mut self) -> (&'static str, bool) {
        let roams = self.dice.once_in(2);
        (if roams { self.roaming() } else { STAYING[self.dice.roll(STAYING.len())] }, roams)
    }

    fn roaming(&mut self) -> &'static str {
        ROAMING[self.dice.roll(ROAMING.len())]
    }

    fn tell(&mut self, what: &str) {
        self.told.story.push((Instant::now(), format!("{}: {what}", self.name)));
    }

    fn fresh(&mut self, what: &str) -> String {
        self.next += 1;
        format!("{what}-{}-{}", self.name, self.next)
    }

    fn count(&mut self, what: &str, result: &io::Result<()>) {
        let how = match result {
            Ok(()) => "done".to_owned(),
            Err(error) => error.to_string(),
        };
        *self.told.tally.entry(format!("{what}: {how}")).or_default() += 1;
    }

    /// One round.
    fn act(&mut self) {
        let (what, result) = match self.dice.roll(20) {
            0..=9 => ("update", self.update()),
            10..=13 => ("create", self.create()),
            14..=15 => ("remove", self.remove()),
            16..=17 => ("rename", self.rename(RenameFlags::RENAME_NOREPLACE)),
            _ => ("replace", self.rename(RenameFlags::empty())),
        };
        self.count(what, &result);
        self.tell(&format!("    {what}: {result:?}"));
        if let Err(error) = result {
            assert!(is_fair(&error), "{}: {what}: {error}", self.name);
        }
    }

    /// Writes all of a file anew, with one more line: in place, or truncated first.
    fn update(&mut self) -> io::Result<()> {
        let (name, _) = self.name();
        let mut file = OpenOptions::new().read(true).write(true).open(self.dir.join(name))?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        let Some(identity) = text.lines().next().map(str::to_owned) else {
            // Just being made.
            return Ok(());
        };
        let line = self.fresh("line");
        self.tell(&format!("{name} of {identity}: {line}"));
        let text = format!("{text}{line}\n");
        file.rewind()?;
        file.write_all(text.as_bytes())?;
        self.finish(file, identity, line)
    }

    /// Syncs or not, and closes: either says whether it was taken.
    fn finish(&mut self, file: File, identity: String, line: String) -> io::Result<()> {
        let synced = if self.dice.once_in(2) { file.sync_all() } else { Ok(()) };
        let closed = nix::unistd::close(file).map_err(io::Error::from);
        let result = synced.and(closed);
        let refused = |error: &io::Error| error.raw_os_error() == Some(libc::ESTALE);
        if result.as_ref().is_ok() || result.as_ref().is_err_and(refused) {
            self.told.lines.push((identity, line, result.is_ok()));
        }
        result
    }

    fn create(&mut self) -> io::Result<()> {
        let (name, roams) = self.name();
        let mut file = OpenOptions::new().write(true).create_new(true).open(self.dir.join(name))?;
        let (identity, line) = (self.fresh(if roams { ROAMS } else { "file" }), self.fresh("line"));
        self.tell(&format!("new {name} of {identity}: {line}"));
        self.told.made.push(identity.clone());
        file.write_all(format!("{identity}\n{line}\n").as_bytes())?;
        self.finish(file, identity, line)
    }

    fn remove(&mut self) -> io::Result<()> {
        let (name, roams) = self.name();
        self.tell(&format!("remove {name}"));
        let removed = fs::remove_file(self.dir.join(name));
        self.told.ended[usize::from(roams)] += usize::from(removed.is_ok());
        removed
    }

    fn rename(&mut self, flags: RenameFlags) -> io::Result<()> {
        let (from, to) = (self.roaming(), self.roaming());
        if from == to {
            return Ok(());
        }
        self.tell(&format!("rename {from} to {to} {flags:?}"));
        let (from, to) = (self.dir.join(from), self.dir.join(to));
        let renamed = renameat2(AT_FDCWD, &from, AT_FDCWD, &to, flags).map_err(io::Error::from);
        self.told.ended[1] += usize::from(renamed.is_ok() && flags.is_empty());
        renamed
    }
}

/// All files below a directory.
fn look(dir: &Path) -> io::Result<BTreeMap<String, String>> {
    let mut files = BTreeMap::new();
    let mut below = vec![String::new()];
    while let Some(at) = below.pop() {
        for entry in fs::read_dir(dir.join(&at))? {
            let entry = entry?;
            let name = entry.file_name().into_string().unwrap();
            let path = if at.is_empty() { name } else { format!("{at}/{name}") };
            if entry.file_type()?.is_dir() {
                below.push(path);
            } else {
                let text = fs::read_to_string(entry.path())?;
                files.insert(path, text);
            }
        }
    }
    Ok(files)
}

/// All files at the service.
async fn there(sdk: &Sdk) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    for name in sdk.names().await {
        // The directory's own blob.
        if name != "d" {
            files.insert(name.clone(), String::from_utf8(sdk.get(&name).await.unwrap()).unwrap());
        }
    }
    files
}

/// Waits until both mounts show what the service has.
async fn agreed(sdk: &Sdk, mounts: [&Remote; 2], when: &str) -> BTreeMap<String, String> {
    let deadline = Instant::now() + PATIENCE / 4;
    loop {
        let truth = there(sdk).await;
        let seen = mounts.map(|mount| look(&mount.dir()).unwrap_or_default());
        if seen.iter().all(|seen| *seen == truth) && there(sdk).await == truth {
            return truth;
        }
        let differ = |seen: &BTreeMap<String, String>| -> Vec<String> {
            let names: BTreeSet<&String> = seen.keys().chain(truth.keys()).collect();
            let other = names.into_iter().filter(|name| seen.get(*name) != truth.get(*name));
            other.map(|name| format!("{name}: {:?}, there {:?}", seen.get(name), truth.get(name))).collect()
        };
        let [one, two] = seen.each_ref().map(differ);
        assert!(Instant::now() < deadline, "{when}: they do not agree: {one:#?} {two:#?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Everything that was promised is somewhere; `lines` of files that were removed are forgotten.
fn nothing_is_lost(
    files: &BTreeMap<String, String>,
    told: &mut [&mut Told],
    made: &mut BTreeSet<String>,
    when: &str,
) {
    let (mut found, mut kept) = (BTreeMap::<&str, BTreeSet<&str>>::new(), BTreeSet::new());
    for (name, text) in files {
        let Some(identity) = text.lines().next() else { continue };
        let mut lines: Vec<&str> = text.lines().collect();
        if name.contains(".conflict-") {
            kept.extend(lines.iter().copied());
        } else {
            found.entry(identity).or_default().extend(lines.iter().copied());
        }
        lines.sort_unstable();
        lines.dedup();
        assert_eq!(lines.len(), text.lines().count(), "{when}: {name} has lines twice: {text}");
    }
    let mut story: Vec<(Instant, String)> =
        told.iter_mut().flat_map(|told| std::mem::take(&mut told.story)).collect();
    story.sort();
    let story: Vec<String> = story.into_iter().map(|(_, what)| what).collect();
    let mut ended = [0; 2];
    for told in told.iter_mut() {
        made.extend(told.made.drain(..));
        ended.iter_mut().zip(std::mem::take(&mut told.ended)).for_each(|(sum, more)| *sum += more);
    }
    // Of a file whose first content was refused there is a copy only.
    let is_gone = |made: &&String| !found.contains_key(made.as_str()) && !kept.contains(made.as_str());
    let mut gone: [BTreeSet<String>; 2] = Default::default();
    for identity in made.iter().filter(is_gone) {
        gone[usize::from(identity.starts_with(ROAMS))].insert(identity.clone());
    }
    made.retain(|identity| found.contains_key(identity.as_str()));
    for told in told {
        for (identity, line, acknowledged) in &told.lines {
            let is_there = match (acknowledged, found.get(identity.as_str())) {
                (true, Some(found)) => found.contains(line.as_str()),
                (true, None) => continue,
                (false, _) => kept.contains(line.as_str()),
            };
            if !is_there && *acknowledged && identity.starts_with(ROAMS) {
                gone[1].insert(format!("{line} of {identity}"));
                continue;
            }
            let how = if *acknowledged { "acknowledged" } else { "refused" };
            assert!(
                is_there,
                "{when}: {line} of {identity} was {how}, and is nowhere: {files:#?}\n{story:#?}"
            );
        }
        let gone = &gone[1];
        told.lines.retain(|(identity, line, _)| {
            found.contains_key(identity.as_str()) && !gone.contains(&format!("{line} of {identity}"))
        });
    }
    for (gone, ended) in gone.iter().zip(ended) {
        let files: BTreeSet<&str> = gone.iter().filter_map(|what| what.rsplit(' ').next()).collect();
        assert!(
            files.len() <= ended,
            "{when}: {gone:?} are gone, and only {ended} were removed or replaced\n{story:#?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_update_is_lost_in_a_thousand_random_rounds() {
    if !can_mount() {
        return;
    }
    let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().subsec_nanos().into();
    let seed = number("LEASEFS_SEED").unwrap_or_else(now);
    let rounds = number("LEASEFS_ROUNDS").map_or(1000, |rounds| usize::try_from(rounds).unwrap());
    println!("LEASEFS_SEED={seed}");
    let service = Service::start();
    let source = service.container("team");
    let options = ["--attr-ttl", "0.05"];
    let (one, two) = (Remote::new(&source, &options), Remote::new(&source, &options));
    let sdk = service.sdk("team");
    fs::create_dir(one.path("d")).unwrap();
    machine::until(|| two.path("d").exists());
    let mut dice = Dice::new(seed);
    let mut writer = |name: &'static str, mount: &Remote| Writer {
        name,
        dir: mount.dir(),
        dice: Dice::new(dice.number()),
        next: 0,
        told: Told::default(),
    };
    let mut writers = [writer("one", &one), writer("two", &two)];
    let mut made = BTreeSet::new();
    for round in (BATCH..=rounds).step_by(BATCH) {
        let working = writers.map(|mut writer| {
            tokio::task::spawn_blocking(move || {
                (0..BATCH).for_each(|_| writer.act());
                writer
            })
        });
        let [first, second] = working;
        writers = [first.await.unwrap(), second.await.unwrap()];
        let when = format!("seed {seed}, round {round}");
        let files = agreed(&sdk, [&one, &two], &when).await;
        let [first, second] = &mut writers;
        nothing_is_lost(&files, &mut [&mut first.told, &mut second.told], &mut made, &when);
    }
    let mut tally: BTreeMap<String, usize> = BTreeMap::new();
    for (what, count) in writers.iter().flat_map(|writer| &writer.told.tally) {
        *tally.entry(what.clone()).or_default() += count;
    }
    println!("{tally:#?}");
    for what in ["update: done", "create: done", "remove: done", "rename: done", "replace: done"] {
        assert!(
            tally.get(what).is_some_and(|count| *count >= rounds / 50),
            "{what} hardly happened: {tally:?}"
        );
    }
    one.stop();
    two.stop();
}
