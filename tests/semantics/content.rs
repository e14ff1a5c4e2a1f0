//! Reading and writing.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::common::{Mount, on_both_paths};

const MIB: usize = 1 << 20;

fn pattern(seed: u8, length: usize) -> Vec<u8> {
    (0..length)
        .map(|at| (at as u8).wrapping_mul(31).wrapping_add((at >> 8) as u8).wrapping_add(seed))
        .collect()
}

/// Disk space that a folder takes.
fn used(folder: &Path) -> u64 {
    let mut sum = 0;
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let data = entry.metadata().unwrap();
        sum += if data.is_dir() { used(&entry.path()) } else { data.blocks() * 512 };
    }
    sum
}

#[test]
fn sizes_are_right_while_a_program_writes() {
    on_both_paths(&[], |mount| {
        let path = mount.path("f");
        let mut file = File::create(&path).unwrap();
        for round in 1..=20u64 {
            file.write_all(&[7; 5000]).unwrap();
            assert_eq!(fs::metadata(&path).unwrap().len(), round * 5000);
            assert_eq!(file.metadata().unwrap().len(), round * 5000);
        }
    });
}

/// Sizes on both sides of what is stored in the index, copied at open, and changed in place.
const SIZES: [usize; 4] = [1000, 100_000, MIB, 3 * MIB];

#[test]
fn a_reader_sees_a_writer_at_once() {
    on_both_paths(&[], |mount| {
        for size in SIZES {
            let path = mount.path(&format!("f{size}"));
            fs::write(&path, pattern(1, size)).unwrap();
            // In both orders: the reader first, the writer first.
            for reader_first in [true, false] {
                let early = reader_first.then(|| File::open(&path).unwrap());
                let writer = File::options().write(true).open(&path).unwrap();
                let reader = early.unwrap_or_else(|| File::open(&path).unwrap());
                let mut byte = [0];
                reader.read_exact_at(&mut byte, 500).unwrap();
                writer.write_all_at(b"!", 500).unwrap();
                reader.read_exact_at(&mut byte, 500).unwrap();
                assert_eq!(byte, *b"!", "size {size}, reader first {reader_first}");
                writer.write_all_at(b"end", size as u64).unwrap();
                let mut tail = [0; 3];
                reader.read_exact_at(&mut tail, size as u64).unwrap();
                assert_eq!(tail, *b"end", "size {size}, reader first {reader_first}");
                writer.set_len(10).unwrap();
                assert_eq!(reader.metadata().unwrap().len(), 10);
                let mut rest = Vec::new();
                (&reader).read_to_end(&mut rest).unwrap();
                assert_eq!(rest, pattern(1, 10));
                writer.set_len(0).unwrap();
                writer.write_all_at(&pattern(1, size), 0).unwrap();
                drop((writer, reader));
                assert!(fs::read(&path).unwrap() == pattern(1, size));
            }
        }
    });
}

#[test]
fn what_is_written_is_read_back_after_a_remount() {
    on_both_paths(&[], |mount| {
        for size in SIZES {
            let path = mount.path(&format!("f{size}"));
            fs::write(&path, pattern(2, size)).unwrap();
            let file = File::options().read(true).write(true).open(&path).unwrap();
            file.write_all_at(b"changed", size as u64 / 2).unwrap();
            drop(file);
            let mut expected = pattern(2, size);
            expected[size / 2..size / 2 + 7].copy_from_slice(b"changed");
            assert!(fs::read(&path).unwrap() == expected, "size {size}");
            mount.stop();
            mount.start();
            assert!(fs::read(&path).unwrap() == expected, "size {size} after a remount");
        }
    });
}

#[test]
fn a_small_change_of_a_big_file_copies_little() {
    on_both_paths(&[], |mount| {
        let path = mount.path("big");
        fs::write(&path, pattern(3, 64 * MIB)).unwrap();
        File::open(&path).unwrap().sync_all().unwrap();
        let before = used(mount.data());
        let file = File::options().write(true).open(&path).unwrap();
        file.write_all_at(&[9; 4096], 30 * MIB as u64 + 77).unwrap();
        file.sync_all().unwrap();
        let growth = used(mount.data()).saturating_sub(before);
        assert!(growth < 8 * MIB as u64, "{growth} bytes for a change of 4 KiB");
        drop(file);
        let mut expected = pattern(3, 64 * MIB);
        expected[30 * MIB + 77..][..4096].fill(9);
        assert!(fs::read(&path).unwrap() == expected);
    });
}

#[test]
fn appends_of_two_programs_do_not_overwrite_each_other() {
    on_both_paths(&[], |mount| {
        let path = mount.path("log");
        let writers: Vec<_> = ["a", "b"]
            .into_iter()
            .map(|name| {
                let script = format!("for i in $(seq 300); do echo {name}$i >> {}; done", path.display());
                std::process::Command::new("sh").args(["-c", &script]).spawn().unwrap()
            })
            .collect();
        for mut writer in writers {
            assert!(writer.wait().unwrap().success());
        }
        let text = fs::read_to_string(&path).unwrap();
        for name in ["a", "b"] {
            let own: Vec<&str> = text.lines().filter(|line| line.starts_with(name)).collect();
            assert_eq!(own, (1..=300).map(|i| format!("{name}{i}")).collect::<Vec<_>>());
        }
    });
}

#[test]
fn truncating_opens_and_appends_work_on_every_size() {
    on_both_paths(&[], |mount| {
        for size in SIZES {
            let path = mount.path("f");
            fs::write(&path, pattern(4, size)).unwrap();
            let mut file = File::options().append(true).open(&path).unwrap();
            file.write_all(b"more").unwrap();
            drop(file);
            assert_eq!(fs::metadata(&path).unwrap().len(), size as u64 + 4);
            fs::write(&path, "short").unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), "short");
        }
    });
}

#[test]
fn writes_through_a_mapping_after_the_last_close_are_kept() {
    on_both_paths(&[], |mount| {
        for size in [8192, 3 * MIB] {
            let path = mount.path(&format!("mapped{size}"));
            fs::write(&path, vec![1; size]).unwrap();
            let file = File::options().read(true).write(true).open(&path).unwrap();
            let length = std::num::NonZeroUsize::new(size).unwrap();
            let protection = nix::sys::mman::ProtFlags::PROT_READ | nix::sys::mman::ProtFlags::PROT_WRITE;
            // SAFETY: a fresh shared mapping of a file this test owns, used inside its length, unmapped once.
            unsafe {
                let flags = nix::sys::mman::MapFlags::MAP_SHARED;
                let map = nix::sys::mman::mmap(None, length, protection, flags, &file, 0).unwrap();
                drop(file);
                std::ptr::write_bytes(map.as_ptr().cast::<u8>().add(100), 2, 50);
                nix::sys::mman::munmap(map, size).unwrap();
            }
            let mut expected = vec![1; size];
            expected[100..150].fill(2);
            assert!(fs::read(&path).unwrap() == expected, "size {size}");
            mount.stop();
            mount.start();
            assert!(fs::read(&path).unwrap() == expected, "size {size} after a remount");
        }
    });
}

#[test]
fn holes_are_punched_zeroed_found_and_allocated() {
    use nix::fcntl::{FallocateFlags as F, fallocate};
    on_both_paths(&[], |mount| {
        for size in [200_000, 3 * MIB] {
            let path = mount.path(&format!("sparse{size}"));
            fs::write(&path, vec![1; size]).unwrap();
            let file = File::options().read(true).write(true).open(&path).unwrap();
            fallocate(&file, F::FALLOC_FL_PUNCH_HOLE | F::FALLOC_FL_KEEP_SIZE, 8192, 8192).unwrap();
            fallocate(&file, F::FALLOC_FL_ZERO_RANGE, 100_000, 50).unwrap();
            fallocate(&file, F::empty(), size as i64, 1000).unwrap();
            let mut expected = vec![1; size];
            expected[8192..16384].fill(0);
            expected[100_000..100_050].fill(0);
            expected.resize(size + 1000, 0);
            assert!(fs::read(&path).unwrap() == expected, "size {size}");
            drop(file);
            assert!(fs::read(&path).unwrap() == expected, "size {size}, closed");
        }
        let file = File::create(mount.path("holes")).unwrap();
        file.write_all_at(b"x", 1 << 20).unwrap();
        file.set_len(2 << 20).unwrap();
        let mut reader = File::open(mount.path("holes")).unwrap();
        assert_eq!(reader.seek(SeekFrom::Start(0)).unwrap(), 0);
        // SAFETY: lseek on a descriptor that is open.
        let data = unsafe { libc::lseek(reader.as_raw_fd(), 0, libc::SEEK_DATA) };
        assert!((0..=1 << 20).contains(&data), "data at {data}");
        // SAFETY: as above.
        let hole = unsafe { libc::lseek(reader.as_raw_fd(), 1 << 20, libc::SEEK_HOLE) };
        assert!(hole > 1 << 20 && hole <= 2 << 20, "hole at {hole}");
    });
}

#[test]
fn files_are_copied_inside_the_share() {
    on_both_paths(&[], |mount| {
        for size in SIZES {
            fs::write(mount.path("from"), pattern(5, size)).unwrap();
            assert_eq!(fs::copy(mount.path("from"), mount.path("to")).unwrap(), size as u64);
            assert!(fs::read(mount.path("to")).unwrap() == pattern(5, size));
        }
    });
}

#[test]
fn extended_attributes_are_kept() {
    on_both_paths(&[], |mount| {
        let path = mount.path("f");
        fs::write(&path, "x").unwrap();
        fs::create_dir(mount.path("d")).unwrap();
        for path in [path, mount.path("d"), mount.dir()] {
            let name = path.to_str().unwrap();
            let run = |program: &str, arguments: &[&str]| {
                std::process::Command::new(program).args(arguments).arg(name).output().unwrap()
            };
            assert!(run("setfattr", &["-n", "user.color", "-v", "blue"]).status.success());
            mount.stop();
            mount.start();
            let value = run("getfattr", &["--absolute-names", "--only-values", "-n", "user.color"]);
            assert_eq!(value.stdout, b"blue", "{name}");
            assert!(run("setfattr", &["-x", "user.color"]).status.success());
            assert!(!run("getfattr", &["--absolute-names", "-n", "user.color"]).status.success());
            assert!(!run("setfattr", &["-n", "trusted.x", "-v", "y"]).status.success(), "user.* only");
        }
    });
}

#[test]
fn direct_io_works() {
    on_both_paths(&[], |mount| {
        let path = mount.path("direct");
        let output = std::process::Command::new("dd")
            .args(["if=/dev/zero", "bs=64k", "count=8", "oflag=direct"])
            .arg(format!("of={}", path.display()))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(fs::metadata(&path).unwrap().len(), 512 << 10);
    });
}

#[test]
fn a_full_store_says_so_and_loses_nothing() {
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: needs root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().join("disk");
    fs::create_dir(&disk).unwrap();
    let none: Option<&str> = None;
    let flags = nix::mount::MsFlags::empty();
    nix::mount::mount(Some("tmpfs"), &disk, Some("tmpfs"), flags, Some("size=96m")).unwrap();
    let data = disk.join("data");
    if let Some(mount) = Mount::on_data(folder, data, &[]) {
        let _ = none;
        fs::write(mount.path("early"), pattern(6, 5 * MIB)).unwrap();
        let mut refused = false;
        for round in 0..200 {
            let path = mount.path(&format!("fill{round}"));
            let written = File::create(&path).and_then(|mut file| {
                file.write_all(&pattern(7, MIB))?;
                file.sync_all()
            });
            if let Err(error) = written {
                assert_eq!(error.raw_os_error(), Some(libc::ENOSPC), "{error}");
                refused = true;
                break;
            }
        }
        assert!(refused, "a store of 96 MiB took 200 MiB");
        assert!(fs::read(mount.path("early")).unwrap() == pattern(6, 5 * MIB));
        for round in 0..20 {
            let _ = fs::remove_file(mount.path(&format!("fill{round}")));
        }
        // Content goes in the background, when its removal is on the disk.
        let deadline = Instant::now() + Duration::from_secs(60);
        while let Err(error) = fs::write(mount.path("again"), "room again") {
            assert_eq!(error.raw_os_error(), Some(libc::ENOSPC), "{error}");
            assert!(Instant::now() < deadline, "removing files makes no room");
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(fs::read_to_string(mount.path("again")).unwrap(), "room again");
        mount.check();
        drop(mount);
    }
    let _ = nix::mount::umount2(&disk, nix::mount::MntFlags::MNT_DETACH);
}

#[test]
fn a_program_that_makes_small_files_can_make_a_big_one() {
    on_both_paths(&[], |mount| {
        for number in 0..8 {
            fs::write(mount.path(&format!("small{number}")), vec![number; 100]).unwrap();
        }
        // In memory at first, then too big for it: by an append, by a gap, by a truncation, by room set aside.
        let path = mount.path("grown");
        let mut file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        let mut expected = Vec::new();
        for step in 0..40u8 {
            file.write_all(&[step; 1000]).unwrap();
            expected.extend([step; 1000]);
            assert_eq!(fs::metadata(&path).unwrap().len(), expected.len() as u64);
        }
        assert!(fs::read(&path).unwrap() == expected, "while it is open");
        drop(file);
        assert!(fs::read(&path).unwrap() == expected, "after the close");

        let file = File::options().read(true).write(true).create_new(true).open(mount.path("gap")).unwrap();
        file.write_all_at(b"first", 0).unwrap();
        file.write_all_at(b"second", 1_000_000).unwrap();
        let mut bytes = vec![0; 1_000_006];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert!(bytes.starts_with(b"first\0") && bytes.ends_with(b"\0second"));
        drop(file);

        let file = File::options().read(true).write(true).create_new(true).open(mount.path("cut")).unwrap();
        file.write_all_at(b"abcdef", 0).unwrap();
        file.set_len(3).unwrap();
        file.set_len(100_000).unwrap();
        drop(file);
        let bytes = fs::read(mount.path("cut")).unwrap();
        assert!(bytes.len() == 100_000 && bytes.starts_with(b"abc\0\0\0"));
        mount.stop();
        mount.start();
        assert!(fs::read(&path).unwrap() == expected, "after a remount");
    });
}
