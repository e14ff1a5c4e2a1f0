//! Writers that join readers whose file the kernel serves.

use std::ffi::CString;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;

use crate::common::{Mount, on_both_paths};

const SIZE: usize = 3 << 20;

type Event = fn(&Mount) -> &'static str;

/// What may happen to a file's attributes or its name while somebody reads it; says where the file is then.
const EVENTS: [(&str, Event); 4] = [
    ("chmod", |mount| {
        fs::set_permissions(mount.path("log"), fs::Permissions::from_mode(0o640)).unwrap();
        "log"
    }),
    ("utimes", |mount| {
        let file = File::options().write(true).open(mount.path("log")).unwrap();
        file.set_modified(std::time::UNIX_EPOCH).unwrap();
        "log"
    }),
    ("setxattr", |mount| {
        let path = CString::new(mount.path("log").as_os_str().as_bytes()).unwrap();
        // SAFETY: two NUL-terminated strings and a value of the length that is said; the kernel keeps none of them.
        let set = unsafe { libc::setxattr(path.as_ptr(), c"user.a".as_ptr(), b"b".as_ptr().cast(), 1, 0) };
        assert_eq!(set, 0);
        "log"
    }),
    ("rename", |mount| {
        fs::rename(mount.path("log"), mount.path("log.1")).unwrap();
        "log.1"
    }),
];

type Change = fn(&Path, &mut Vec<u8>);

const CHANGES: [(&str, Change); 5] = [
    ("append", |path, expected| {
        let file = File::options().append(true).open(path).unwrap();
        std::io::Write::write_all(&mut &file, b"more").unwrap();
        expected.extend(b"more");
    }),
    ("truncate", |path, expected| {
        File::options().write(true).open(path).unwrap().set_len(1000).unwrap();
        expected.truncate(1000);
    }),
    ("truncate by path", |path, expected| {
        nix::unistd::truncate(path, 1000).unwrap();
        expected.truncate(1000);
    }),
    ("O_TRUNC", |path, expected| {
        fs::write(path, "new").unwrap();
        *expected = b"new".to_vec();
    }),
    ("fallocate", |path, expected| {
        use nix::fcntl::{FallocateFlags as F, fallocate};
        let file = File::options().write(true).open(path).unwrap();
        fallocate(&file, F::FALLOC_FL_PUNCH_HOLE | F::FALLOC_FL_KEEP_SIZE, 0, 4096).unwrap();
        expected[..4096].fill(0);
    }),
];

#[test]
fn a_file_whose_attributes_change_while_it_is_read_can_be_written() {
    on_both_paths(&[], |mount| {
        for (event, happen) in EVENTS {
            for (change, make) in CHANGES {
                println!("{event}, {change}");
                let mut expected = vec![1; SIZE];
                fs::write(mount.path("log"), &expected).unwrap();
                let reader = File::open(mount.path("log")).unwrap();
                let mut byte = [0];
                reader.read_exact_at(&mut byte, 500).unwrap();
                let path = mount.path(happen(mount));
                make(&path, &mut expected);
                let mut seen = vec![0; expected.len()];
                reader.read_exact_at(&mut seen, 0).unwrap();
                assert!(seen == expected, "{event}, {change}: what the reader sees");
                drop(reader);
                assert!(fs::read(&path).unwrap() == expected, "{event}, {change}: what is there");
                fs::remove_file(&path).unwrap();
            }
        }
    });
}

#[test]
fn a_data_directory_that_the_kernel_cannot_serve_from_is_said_once() {
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: needs root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().join("disk");
    fs::create_dir(&disk).unwrap();
    let flags = nix::mount::MsFlags::empty();
    nix::mount::mount(Some("tmpfs"), &disk, Some("tmpfs"), flags, Some("size=256m")).unwrap();
    let layers = ["lower", "upper", "work", "merged"].map(|name| disk.join(name));
    layers.iter().for_each(|layer| fs::create_dir(layer).unwrap());
    let [lower, upper, work, merged] = layers.each_ref().map(|layer| layer.to_str().unwrap());
    let options = format!("lowerdir={lower},upperdir={upper},workdir={work}");
    let over = nix::mount::mount(Some("overlay"), merged, Some("overlay"), flags, Some(options.as_str()));
    let log = folder.path().join("log");
    let data = Path::new(merged).join("data");
    if over.is_err() {
        println!("skipped: no overlayfs");
    } else if let Some(mount) = Mount::on_data(folder, data, &["--log-file", log.to_str().unwrap()]) {
        for number in 0..20 {
            let path = mount.path(&format!("f{number}"));
            fs::write(&path, vec![number; 100_000]).unwrap();
            assert!(fs::read(&path).unwrap() == vec![number; 100_000]);
        }
        mount.check();
        let said = fs::read_to_string(&log).unwrap();
        assert_eq!(said.matches("passthrough: the kernel").count(), 1, "{said}");
        assert_eq!(said.matches("WARN").count(), 1, "{said}");
        drop(mount);
    }
    let _ = nix::mount::umount2(merged, nix::mount::MntFlags::MNT_DETACH);
    let _ = nix::mount::umount2(&disk, nix::mount::MntFlags::MNT_DETACH);
}
