//! What the process list tells: who uses a mount, and whether a process has ended.
//!
//! Reads /proc only, never a file on the mount itself, and only as much as the limits below allow.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::mounts::MountEntry;

/// At most so many users of a mount are named.
const USERS_MAX: usize = 5;
/// At most so many descriptors of one process are looked at.
const DESCRIPTORS_MAX: usize = 4096;
/// Longest command line that is shown, in characters.
const COMMAND_LINE_MAX: usize = 120;
/// The search for users ends after this time with what it has found.
const SEARCH_TIME: Duration = Duration::from_secs(3);

/// True until the process and all its threads have ended, and with them everything they had open. Whether its parent
/// has noticed does not matter.
pub(super) fn is_running(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // `pid (name) state …`, and the name may contain anything.
    let Some((_, rest)) = stat.rsplit_once(") ") else { return false };
    let mut fields = rest.split(' ');
    let state = fields.next();
    // A first thread that has ended looks like a zombie while others still run.
    let threads = fields.nth(16).and_then(|count| count.parse().ok()).unwrap_or(0);
    threads > 1 || !matches!(state, Some("Z" | "X"))
}

/// How a process was started, as far as it fits on a line.
pub(super) fn command_line(pid: u32) -> String {
    let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let text = String::from_utf8_lossy(&words).replace('\0', " ");
    match text.trim() {
        "" => "which cannot be looked at".to_owned(),
        line => line.chars().take(COMMAND_LINE_MAX).collect(),
    }
}

/// Waits until the process has ended; false if `deadline` came first.
pub(super) fn wait_for_end(pid: i32, deadline: Option<Instant>) -> bool {
    while is_running(pid) {
        if deadline.is_some_and(|at| Instant::now() >= at) {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}

/// Who uses the mount, ready to stand behind "is busy": empty if nobody was found.
pub(super) fn describe_users(mount: &MountEntry, all: &[MountEntry]) -> String {
    let inner = all.iter().filter(|entry| entry.path != mount.path && entry.path.starts_with(&mount.path));
    let mut users: Vec<String> =
        inner.map(|entry| format!("the mount at {}", entry.path.display())).collect();
    users.extend(processes_using(mount));
    if users.is_empty() {
        return String::new();
    }
    let more = if users.len() > USERS_MAX { " and others" } else { "" };
    users.truncate(USERS_MAX);
    format!(": in use by {}{more}", users.join(", "))
}

/// `program (pid N)` of at most one more process than are shown.
fn processes_using(mount: &MountEntry) -> Vec<String> {
    let started = Instant::now();
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.take_while(|_| started.elapsed() < SEARCH_TIME)
        .filter(|pid| uses(*pid, mount))
        .map(|pid| format!("{} (pid {pid})", name_of(pid)))
        .take(USERS_MAX + 1)
        .collect()
}

fn uses(pid: i32, mount: &MountEntry) -> bool {
    let proc = PathBuf::from(format!("/proc/{pid}"));
    let leads_inside = |link: PathBuf| std::fs::read_link(link).is_ok_and(|to| to.starts_with(&mount.path));
    if ["cwd", "root", "exe"].iter().any(|name| leads_inside(proc.join(name))) {
        return true;
    }
    let descriptors = std::fs::read_dir(proc.join("fd")).ok().into_iter().flatten().flatten();
    if descriptors.take(DESCRIPTORS_MAX).any(|entry| leads_inside(entry.path())) {
        return true;
    }
    maps_file_of(&proc, &mount.device)
}

/// A file that is mapped but no longer open shows only here: `from-to perms offset device inode path`.
fn maps_file_of(proc: &Path, device: &str) -> bool {
    let Some((major, minor)) = parse_device(device) else { return false };
    let maps = std::fs::read(proc.join("maps")).unwrap_or_default();
    String::from_utf8_lossy(&maps).lines().any(|line| {
        let number = line.split_ascii_whitespace().nth(3).and_then(|field| field.split_once(':'));
        let number = number
            .and_then(|(a, b)| Some((u32::from_str_radix(a, 16).ok()?, u32::from_str_radix(b, 16).ok()?)));
        number == Some((major, minor))
    })
}

fn parse_device(device: &str) -> Option<(u32, u32)> {
    let (major, minor) = device.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// The program's short name.
fn name_of(pid: i32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "a program".to_owned() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount_at(path: &Path) -> MountEntry {
        MountEntry { path: path.to_owned(), kind: "test".into(), device: "4095:9".into(), owner: None }
    }

    #[test]
    fn a_process_runs_until_it_ends_even_if_nobody_waits_for_it() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        assert!(is_running(pid));
        assert!(!wait_for_end(pid, Some(Instant::now())));
        child.kill().unwrap();
        assert!(wait_for_end(pid, Some(Instant::now() + Duration::from_secs(10))), "a zombie has ended");
        child.wait().unwrap();
        assert!(!is_running(pid));
    }

    #[test]
    fn users_are_found_by_directory_and_by_open_file() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        assert_eq!(describe_users(&mount_at(&root), &[]), "");
        let file = std::fs::File::create(root.join("f")).unwrap();
        let text = describe_users(&mount_at(&root), &[]);
        assert!(text.contains(&format!("(pid {})", std::process::id())), "{text}");
        drop(file);
        let mut child = std::process::Command::new("sleep").arg("60").current_dir(&root).spawn().unwrap();
        let text = describe_users(&mount_at(&root), &[]);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(text, format!(": in use by sleep (pid {})", child.id()));
    }

    #[test]
    fn a_mount_inside_is_a_user_too() {
        let (outer, inner) = (mount_at(Path::new("/no/such")), mount_at(Path::new("/no/such/inner")));
        let text = describe_users(&outer, &[outer.clone(), inner]);
        assert_eq!(text, ": in use by the mount at /no/such/inner");
    }
}
