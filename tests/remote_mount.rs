//! Mounts of a share that is elsewhere: a `leasefs serve` process, mounts with caches of their own, and a client of the
//! service that knows nothing of them.

#![allow(unreachable_pub, clippy::unwrap_used)] // Helper modules of one test.

#[allow(dead_code)] // Other tests use the rest.
mod common;
#[path = "remote/machine.rs"]
#[allow(dead_code)] // Other tests use the rest.
mod machine;

use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::process::{Command, Stdio};

use common::{BOTH_PATHS, errno, names};
use leasefs::store::StoreError;
use machine::{Remote, Service, can_mount, until};
use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};

#[tokio::test(flavor = "multi_thread")]
async fn everyday_work_reaches_the_service_and_another_mount() {
    if !can_mount() {
        return;
    }
    for path in BOTH_PATHS {
        let service = Service::start();
        let source = service.container("team");
        let (one, two) = (Remote::new(&source, path), Remote::new(&source, path));
        let sdk = service.sdk("team");
        one.shell(
            "mkdir -p src/deep; echo hello >src/a; printf x >>src/a; cp -p src/a src/deep/b; ln -s ../a src/deep/l
             seq 100000 >src/numbers; chmod 640 src/a; touch -d @1000000000 src/deep/b; mv src/numbers src/deep/n
             setfattr -n user.note -v yes src/a; truncate -s 3 src/deep/b; : >empty",
        );
        assert_eq!(sdk.get("src/a").await.as_deref(), Some(&b"hello\nx"[..]));
        assert_eq!(sdk.get("src/deep/b").await.as_deref(), Some(&b"hel"[..]));
        assert_eq!(sdk.get("empty").await.as_deref(), Some(&b""[..]));
        let seen = two.shell(
            "cat src/deep/l; echo; stat -c '%a %s' src/a; stat -c %s src/deep/b; md5sum <src/deep/n
             getfattr --only-values -n user.note src/a; echo; find . | sort",
        );
        let expected = one.shell("seq 100000 | md5sum");
        assert_eq!(
            seen,
            format!(
                "hello\nx\n640 7\n3\n{expected}yes\n.\n./empty\n./src\n./src/a\n./src/deep\n./src/deep/b\n./src/deep/l\n./src/deep/n\n"
            )
        );
        // The other way round, over what the first mount knows.
        two.shell("echo more >>src/a; mv src dst; rm empty; rm dst/deep/b");
        until(|| names(&one.dir()) == ["dst"]);
        assert_eq!(fs::read_to_string(one.path("dst/a")).unwrap(), "hello\nxmore\n");
        assert_eq!(names(&one.path("dst/deep")), ["l", "n"]);
        one.shell("rm -r dst");
        assert_eq!(sdk.names().await, [""; 0]);
        one.stop();
        two.stop();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn uploads_begin_while_the_program_still_writes() {
    if !can_mount() {
        return;
    }
    for path in BOTH_PATHS {
        let service = Service::start();
        let mount = Remote::new(&service.container("media"), path);
        let sdk = service.sdk("media");
        let content: Vec<u8> = (0..30_000_000u32).map(|n| n.to_le_bytes()[n as usize % 3]).collect();
        let mut file = fs::File::create(mount.path("film")).unwrap();
        file.write_all(&content[..25_000_000]).unwrap();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while sdk.uncommitted("film").await < 4 {
            assert!(std::time::Instant::now() < deadline, "{path:?}: nothing comes before the close");
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        assert_eq!(sdk.get("film").await, None, "nobody sees it before the close");
        file.write_all(&content[25_000_000..]).unwrap();
        drop(file);
        assert!(sdk.get("film").await.unwrap() == content, "{path:?}");
        mount.stop();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_output_of_the_shell_is_sent_once_and_nobody_sees_it_empty() {
    if !can_mount() {
        return;
    }
    for path in BOTH_PATHS {
        let service = Service::start();
        let mount = Remote::new(&service.container("team"), path);
        let sdk = service.sdk("team");
        sdk.put("old", b"before").await.unwrap();
        for name in ["new", "old"] {
            let before = sdk.get(name).await;
            // What a shell does for `command > name`.
            let first = fs::File::create(mount.path(name)).unwrap();
            let mut output = first.try_clone().unwrap();
            drop(first);
            assert_eq!(sdk.get(name).await, before, "{path:?}: nothing is written yet");
            output.write_all(b"after").unwrap();
            drop(output);
            assert_eq!(sdk.get(name).await.unwrap(), b"after", "{path:?}");
        }
        drop(fs::File::create(mount.path("empty")).unwrap());
        assert_eq!(sdk.get("empty").await.unwrap(), b"", "{path:?}: an empty file is there after its close");
        mount.shell("echo line > output; : > nothing");
        assert_eq!(sdk.get("output").await.unwrap(), b"line\n", "{path:?}");
        assert_eq!(sdk.get("nothing").await.unwrap(), b"", "{path:?}");
        mount.stop();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_that_append_to_one_file_lose_no_line() {
    if !can_mount() {
        return;
    }
    for path in [BOTH_PATHS[0], BOTH_PATHS[1], &["--write-back"]] {
        let service = Service::start();
        let mount = Remote::new(&service.container("team"), path);
        mount.shell(
            "for writer in 1 2 3 4; do
                 (for line in $(seq 150); do echo \"$writer.$line\" >>log; done) & pids+=($!)
             done
             for pid in ${pids[@]}; do wait $pid; done",
        );
        assert_eq!(mount.shell("sort -u log | wc -l; ls"), "600\nlog\n", "{path:?}");
        mount.stop();
        let there = service.sdk("team").get("log").await.unwrap();
        assert_eq!(String::from_utf8(there).unwrap().lines().count(), 600, "{path:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn content_is_read_in_parts_and_kept_over_a_restart() {
    if !can_mount() {
        return;
    }
    let service = Service::start();
    let source = service.container("media");
    let mount = Remote::new(&source, &[]);
    let sdk = service.sdk("media");
    let big: Vec<u8> = (0..20_000_000u32).map(|n| n.to_le_bytes()[n as usize % 3]).collect();
    sdk.put("film", &big).await.unwrap();
    let mut file = fs::File::open(mount.path("film")).unwrap();
    let mut part = vec![0; 100_000];
    for offset in [19_900_000u64, 7_777_777, 0, 8_388_000] {
        file.seek(SeekFrom::Start(offset)).unwrap();
        file.read_exact(&mut part).unwrap();
        let from = usize::try_from(offset).unwrap();
        assert!(part == big[from..from + part.len()], "at {offset}");
    }
    drop(file);
    assert!(fs::read(mount.path("film")).unwrap() == big);
    fs::write(mount.path("small"), "text").unwrap();
    mount.stop();
    mount.start();
    assert!(fs::read(mount.path("film")).unwrap() == big);
    assert_eq!(fs::read_to_string(mount.path("small")).unwrap(), "text");
    // What changed there while it was mounted nowhere is seen.
    mount.stop();
    sdk.put("small", b"changed").await.unwrap();
    mount.start();
    assert_eq!(fs::read_to_string(mount.path("small")).unwrap(), "changed");
    mount.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exclusive_open_refuses_the_sdk_and_the_other_mount() {
    if !can_mount() {
        return;
    }
    let service = Service::start();
    let source = service.container("team");
    let (one, two) = (Remote::new(&source, &[]), Remote::new(&source, &[]));
    let sdk = service.sdk("team");
    fs::write(one.path("plan"), "mine").unwrap();
    let mut holder = Command::new(env!("CARGO_BIN_EXE_leasefs"))
        .args(["open", "--access", "rw", "--share", "r"])
        .arg(one.path("plan"))
        .args(["--", "sh", "-c", "echo ready; cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = [0; 6];
    holder.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
    let refused = sdk.put("plan", b"stranger").await;
    assert!(matches!(refused, Err(StoreError::Lease(_))), "{refused:?}");
    assert_eq!(errno(fs::OpenOptions::new().write(true).open(two.path("plan"))), libc::EBUSY);
    assert_eq!(fs::read_to_string(two.path("plan")).unwrap(), "mine");
    let told = two.shell(
        "leasefs open plan -- true 2>&1 || echo $?; getfattr --only-values -n user.leasefs.holders plan",
    );
    assert!(told.contains("plan is leased to another mount or another client of the blob service"), "{told}");
    assert!(told.contains("\n75\n") && told.ends_with("lease=elsewhere duration=timed\n"), "{told}");
    let own = one.shell("getfattr --only-values -n user.leasefs.holders plan");
    assert!(own.contains("access=rw") && !own.contains("elsewhere"), "{own}");
    let status = one.status();
    assert_eq!(status["mounts"][0]["leases"][0]["path"], "plan");
    assert_eq!(status["mounts"][0]["source"], source.as_str());
    drop(holder.stdin.take());
    assert!(holder.wait().unwrap().success());
    // The close comes a moment after the program has ended.
    until(|| one.status()["mounts"][0]["leases"].as_array().unwrap().is_empty());
    sdk.put("plan", b"stranger").await.unwrap();
    fs::OpenOptions::new().write(true).open(two.path("plan")).unwrap();
    assert_eq!(fs::read_to_string(one.path("plan")).unwrap(), "stranger");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_loser_of_two_writers_keeps_its_work_beside() {
    if !can_mount() {
        return;
    }
    for path in BOTH_PATHS {
        let service = Service::start();
        let source = service.container("team");
        let (one, two) = (Remote::new(&source, path), Remote::new(&source, path));
        fs::write(one.path("plan"), "begin").unwrap();
        let open = |mount: &Remote| fs::OpenOptions::new().write(true).open(mount.path("plan")).unwrap();
        let (mut mine, mut yours) = (open(&one), open(&two));
        mine.write_all(b"ONE").unwrap();
        yours.write_all(b"TWO").unwrap();
        yours.sync_all().unwrap();
        assert_eq!(errno(mine.sync_all()), libc::ESTALE);
        drop((mine, yours));
        let sdk = service.sdk("team");
        assert_eq!(sdk.get("plan").await.as_deref(), Some(&b"TWOin"[..]));
        let copies: Vec<String> =
            sdk.names().await.into_iter().filter(|name| name.contains(".conflict-")).collect();
        assert_eq!(copies.len(), 1, "{copies:?}");
        assert_eq!(sdk.get(&copies[0]).await.as_deref(), Some(&b"ONEin"[..]));
        assert_eq!(one.status()["mounts"][0]["conflict_copies"], 1);
        until(|| fs::read_to_string(one.path("plan")).unwrap() == "TWOin");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_file_that_is_open_is_gone_there_after_its_last_close() {
    if !can_mount() {
        return;
    }
    let service = Service::start();
    let source = service.container("team");
    let mount = Remote::new(&source, &[]);
    let sdk = service.sdk("team");
    fs::write(mount.path("a"), "text").unwrap();
    let mut file = fs::File::open(mount.path("a")).unwrap();
    fs::remove_file(mount.path("a")).unwrap();
    assert_eq!(names(&mount.dir()), [""; 0]);
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    assert_eq!((text.as_str(), sdk.get("a").await.as_deref()), ("text", Some(&b"text"[..])));
    drop(file);
    let deadline = std::time::Instant::now() + machine::PATIENCE;
    while sdk.get("a").await.is_some() {
        assert!(std::time::Instant::now() < deadline, "it stays");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_is_away_is_said_at_once_and_survived_later() {
    if !can_mount() {
        return;
    }
    let service = Service::start();
    let source = service.container("team");
    let mount = Remote::new(&source, &[]);
    fs::write(mount.path("kept"), "text").unwrap();
    assert_eq!(fs::read_to_string(mount.path("kept")).unwrap(), "text");
    let nowhere = Remote::new(&source, &[]);
    nowhere.stop();
    let stopped = service.stop();
    let output = nowhere.try_start();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains(&source) && said.contains("cannot be mounted"), "{said}");
    // What is cached can be read; what would have to be asked for is refused in time.
    assert_eq!(fs::read_to_string(mount.path("kept")).unwrap(), "text");
    let refused = errno(fs::write(mount.path("new"), "x"));
    assert!([libc::EIO, libc::ETIMEDOUT].contains(&refused), "{refused}");
    let service = stopped.start();
    until(|| fs::write(mount.path("later"), "y").is_ok());
    let sdk = service.sdk("team");
    assert_eq!(sdk.get("later").await.as_deref(), Some(&b"y"[..]));
    mount.stop();
}

/// `renameat2(RENAME_EXCHANGE)` of directories, and of a file and a directory, with files open below.
#[tokio::test(flavor = "multi_thread")]
async fn directories_change_places_on_a_mount() {
    if !can_mount() {
        return;
    }
    for path in [BOTH_PATHS[0], BOTH_PATHS[1], &["--write-back"]] {
        let service = Service::start();
        let source = service.container("team");
        let (one, two) = (Remote::new(&source, path), Remote::new(&source, path));
        let sdk = service.sdk("team");
        let exchange = |from: &str, to: &str| {
            let (from, to) = (one.path(from), one.path(to));
            renameat2(AT_FDCWD, &from, AT_FDCWD, &to, RenameFlags::RENAME_EXCHANGE)
        };
        one.shell(
            "mkdir -p live/deep next/deep next/none; echo live >live/page; echo next >next/page
             seq 50000 >live/deep/numbers; echo only >next/deep/only; echo plain >file",
        );
        let mut reader = fs::File::open(one.path("live/deep/numbers")).unwrap();
        let mut writer = fs::OpenOptions::new().append(true).open(one.path("next/page")).unwrap();
        writer.write_all(b"before\n").unwrap();
        exchange("live", "next").unwrap();
        writer.write_all(b"after\n").unwrap();
        let mut numbers = String::new();
        reader.read_to_string(&mut numbers).unwrap();
        assert_eq!(numbers.lines().count(), 50_000, "{path:?}");
        drop((reader, writer));
        assert_eq!(fs::read_to_string(one.path("live/page")).unwrap(), "next\nbefore\nafter\n");
        exchange("file", "next").unwrap();
        assert_eq!(
            one.shell("cat next; cat file/page; ls live live/none"),
            "plain\nlive\nlive:\ndeep\nnone\npage\n\nlive/none:\n"
        );
        one.stop();
        until(|| names(&two.dir()) == ["file", "live", "next"] && two.path("next").is_file());
        assert_eq!(
            two.shell("cat live/page live/deep/only next; wc -l <file/deep/numbers"),
            "next\nbefore\nafter\nonly\nplain\n50000\n"
        );
        let expected = [
            "file",
            "file/deep",
            "file/deep/numbers",
            "file/page",
            "live",
            "live/deep",
            "live/deep/only",
            "live/none",
            "live/page",
            "next",
        ];
        assert_eq!(sdk.all_names().await, expected, "{path:?}");
        two.stop();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_below_refuses_to_exchange_directories() {
    if !can_mount() {
        return;
    }
    let service = Service::start();
    let mount = Remote::new(&service.container("team"), &[]);
    let sdk = service.sdk("team");
    mount.shell("mkdir a b; echo 1 >a/x; echo 2 >b/x; echo 3 >b/y");
    let before = sdk.all_names().await;
    sdk.lease("b/y").await.unwrap();
    let (from, to) = (mount.path("a"), mount.path("b"));
    let refused = renameat2(AT_FDCWD, &from, AT_FDCWD, &to, RenameFlags::RENAME_EXCHANGE);
    assert_eq!(refused, Err(nix::errno::Errno::EBUSY));
    assert_eq!(sdk.all_names().await, before);
    assert_eq!(mount.shell("cat a/x b/x b/y; echo 4 >>a/x; ls"), "1\n2\n3\na\nb\n");
    assert_eq!(sdk.get("a/x").await.as_deref(), Some(&b"1\n4\n"[..]));
    mount.stop();
}
