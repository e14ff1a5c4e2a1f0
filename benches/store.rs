//! How long the store's fast paths take. Run with `cargo bench --bench store`.

use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use leasefs::store::embedded::{EmbeddedOptions, EmbeddedStore};
use leasefs::store::{
    AppendConditions, BlobName, BlobPath, BlobStore, ContainerName, DeleteSnapshots, ListItem, ListQuery,
    LocalStore, Metadata, NewContent, Preconditions, PublicAccess, RenameMode, SequenceConditions,
};

fn main() {
    let folder = std::env::var_os("LEASEFS_BENCH_DIR").map_or_else(std::env::temp_dir, Into::into);
    let folder = tempfile::tempdir_in(folder).expect("a folder to work in");
    let many = std::env::var("LEASEFS_BENCH_FILES").ok().and_then(|count| count.parse().ok());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().expect("a runtime");
    match many {
        Some(count) => runtime.block_on(run_many(folder.path(), count)),
        None => runtime.block_on(run(folder.path())),
    }
}

fn at(name: &str) -> BlobPath {
    let container = ContainerName::new("share").expect("a good name");
    BlobPath::new(container, BlobName::new(name).expect("a good name"))
}

/// Prints the median and the 99th percentile of `work`.
fn measure(what: &str, count: usize, mut work: impl FnMut(usize)) {
    let mut times: Vec<Duration> = (0..count)
        .map(|round| {
            let started = Instant::now();
            work(round);
            started.elapsed()
        })
        .collect();
    times.sort_unstable();
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    println!(
        "{what:<44} {:>9.2} µs   p99 {:>9.2} µs",
        micros(times[count / 2]),
        micros(times[count * 99 / 100])
    );
}

fn metadata() -> Metadata {
    let pairs =
        [("permissions", "33188"), ("posix_owner", "1000"), ("posix_group", "1000"), ("modtime", "17")];
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn new() -> NewContent {
    NewContent { metadata: metadata(), ..NewContent::default() }
}

fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).unwrap_or(0) / 1024
}

async fn run(folder: &Path) {
    let started = Instant::now();
    let store = EmbeddedStore::open(&folder.join("store"), EmbeddedOptions::default()).expect("a new store");
    println!("{:<44} {:>9.2} ms", "make a store", started.elapsed().as_secs_f64() * 1e3);
    let none = Preconditions::default();
    store
        .create_container(&at("x").container, Metadata::default(), PublicAccess::None)
        .await
        .expect("created");
    println!("{:<44} {:>6} MiB", "memory, idle", memory());

    for index in 0..10_000 {
        let name = format!("dir/sub{}/file{index:05}", index % 10);
        store.put_blob(&at(&name), vec![1; 100].into(), new(), &none).await.expect("stored");
    }
    let deep = at("dir/sub3/file00003");
    measure("find, depth 3, hot", 200_000, |_| drop(black_box(store.find(&deep))));
    let absent = at("dir/sub3/nothing");
    measure("find, depth 3, absent, hot", 200_000, |_| drop(black_box(store.find(&absent))));
    measure("find, depth 3, absent, each another name", 50_000, |round| {
        let name = at(&format!("dir/sub3/no{round}"));
        drop(black_box(store.find(&name)));
    });
    measure("set_metadata", 20_000, |_| {
        store.set_metadata(&deep, metadata(), &none).expect("changed");
    });
    for size in [0usize, 100, 4096, 8 << 10, 16 << 10, 17 << 10, 32 << 10, 65 << 10] {
        let body = vec![7; size];
        let what = format!("scratch, write, publish new, drop; {size} B");
        measure(&what, 3_000, |round| {
            let scratch = store.scratch().expect("a scratch file");
            scratch.file().write_all_at(&body, 0).expect("written");
            store
                .publish(&at(&format!("new{size}/f{round}")), &scratch, size as u64, new(), &none)
                .expect("published");
        });
    }
    let scratch = store.scratch().expect("a scratch file");
    scratch.file().write_all_at(&[7; 100], 0).expect("written");
    measure("publish only, 100 B, over the same name", 20_000, |_| {
        store.publish(&deep, &scratch, 100, new(), &none).expect("published");
    });
    measure("reader, 100 B", 50_000, |_| drop(black_box(store.reader(&deep))));
    let file = at("new66560/f7");
    measure("reader, content file", 50_000, |_| drop(black_box(store.reader(&file))));
    measure("rename of a prefix with 1,000 blobs", 2_000, |round| {
        let (from, to) = if round % 2 == 0 { ("dir/sub1", "moved") } else { ("moved", "dir/sub1") };
        store.rename(&at(from), &at(to), RenameMode::NoReplace).expect("renamed");
    });
    for index in 0..10_000 {
        let name = format!("wide/file{index:05}");
        store.put_blob(&at(&name), vec![1; 100].into(), new(), &none).await.expect("stored");
    }
    let query = ListQuery {
        prefix: "wide/".into(),
        delimiter: Some("/".into()),
        marker: None,
        max: 20_000,
        ..ListQuery::default()
    };
    let container = at("x").container;
    for _ in 0..5 {
        let started = Instant::now();
        let page = store.list_blobs(&container, &query).await.expect("listed");
        println!(
            "{:<44} {:>9.2} ms",
            format!("list {} blobs", page.items.len()),
            started.elapsed().as_secs_f64() * 1e3
        );
    }
    let started = Instant::now();
    for _ in 0..500 {
        store.sync().await.expect("synced");
    }
    println!("{:<44} {:>9.2} µs", "sync, one waiter", started.elapsed().as_secs_f64() * 1e6 / 500.0);
    for tasks in [1, 16, 64] {
        durable_puts(&store, tasks).await;
    }
    append_and_pages(&store).await;
    for index in 0..10_000 {
        let name = at(&format!("wide/file{index:05}"));
        store.delete_blob(&name, DeleteSnapshots::Refuse, &none).await.expect("deleted");
    }
    println!("{:<44} {:>6} MiB", "memory, at the end", memory());
    let started = Instant::now();
    store.close().expect("closed");
    println!("{:<44} {:>9.2} ms", "close", started.elapsed().as_secs_f64() * 1e3);
    drop(store);
    let started = Instant::now();
    let store = EmbeddedStore::open(&folder.join("store"), EmbeddedOptions::default()).expect("opened");
    println!("{:<44} {:>9.2} ms", "open again", started.elapsed().as_secs_f64() * 1e3);
    println!("{:<44} {:>6} MiB", "memory, reopened", memory());
    drop(store);
}

/// Puts of 4 KiB that survive a power loss before they are answered, from so many tasks at once.
async fn durable_puts(store: &Arc<EmbeddedStore>, tasks: usize) {
    const PUTS: usize = 4_000;
    let front_end = store.durable_user();
    let started = Instant::now();
    let work = (0..tasks).map(|task| {
        let front_end = Arc::clone(&front_end);
        tokio::spawn(async move {
            for round in 0..PUTS / tasks {
                let name = at(&format!("durable{tasks}/t{task}/f{round}"));
                let always = Preconditions::default();
                front_end.put_blob(&name, vec![7; 4096].into(), new(), &always).await.expect("stored");
            }
        })
    });
    for task in work.collect::<Vec<_>>() {
        task.await.expect("a task");
    }
    let rate = PUTS as f64 / started.elapsed().as_secs_f64();
    println!("{:<44} {rate:>9.0} /s", format!("durable put, 4 KiB, {tasks} at once"));
}

/// An append and a page write must cost what they write, however big the blob is.
async fn append_and_pages(store: &Arc<EmbeddedStore>) {
    let always = Preconditions::default();
    let (log, disk) = (at("log"), at("disk"));
    store.create_append_blob(&log, new(), &always).await.expect("created");
    store.create_page_blob(&disk, 1 << 30, 0, new(), &always).await.expect("created");
    for part in ["first", "last"] {
        let started = Instant::now();
        for _ in 0..5_000 {
            let any = AppendConditions::default();
            store.append_block(&log, vec![7; 1000].into(), any, &always).await.expect("appended");
        }
        let each = started.elapsed().as_secs_f64() * 1e6 / 5_000.0;
        println!("{:<44} {each:>9.2} µs", format!("append of 1,000 B, {part} 5,000"));
        let started = Instant::now();
        for round in 0..5_000u64 {
            let any = SequenceConditions::default();
            let offset = round.wrapping_mul(7919 * 512) % (1 << 30) / 4096 * 4096;
            store.put_pages(&disk, offset, vec![7; 4096].into(), any, &always).await.expect("written");
        }
        let each = started.elapsed().as_secs_f64() * 1e6 / 5_000.0;
        println!("{:<44} {each:>9.2} µs", format!("page write of 4 KiB in 1 GiB, {part} 5,000"));
    }
}

/// Fills a store with `count` small files (`LEASEFS_BENCH_FILES`), walks it and tells time and memory.
async fn run_many(folder: &Path, count: usize) {
    let store = EmbeddedStore::open(&folder.join("store"), EmbeddedOptions::default()).expect("a new store");
    let (none, container) = (Preconditions::default(), at("x").container);
    store.create_container(&container, Metadata::default(), PublicAccess::None).await.expect("created");
    let each = |started: Instant| started.elapsed().as_secs_f64() * 1e6 / count as f64;
    let started = Instant::now();
    for index in 0..count {
        let name = at(&format!("t/d{:03}/e{:02}/file{index}", index / 10_000, index / 100 % 100));
        store.put_blob(&name, vec![1; 100].into(), new(), &none).await.expect("stored");
    }
    println!("{count} puts: {:.2} µs each, memory {} MiB", each(started), memory());
    let started = Instant::now();
    let (mut folders, mut seen) = (vec![String::new()], 0);
    while let Some(prefix) = folders.pop() {
        let query = ListQuery {
            prefix,
            delimiter: Some("/".into()),
            marker: None,
            max: 1_000_000,
            ..ListQuery::default()
        };
        for item in store.list_blobs(&container, &query).await.expect("listed").items {
            match item {
                ListItem::Prefix { name, .. } => folders.push(name),
                ListItem::Blob { name, .. } => {
                    drop(black_box(store.find(&at(&name))));
                    seen += 1;
                }
                ListItem::Snapshot { .. } | ListItem::Uncommitted { .. } => {}
            }
        }
    }
    println!("walk and find of {seen}: {:.2} µs each, memory {} MiB", each(started), memory());
    let started = Instant::now();
    for index in 0..10_000 {
        let index = index * 7919 % count;
        let name = at(&format!("t/d{:03}/e{:02}/file{index}", index / 10_000, index / 100 % 100));
        drop(black_box(store.find(&name)));
    }
    println!("find, cold: {:.2} µs each", started.elapsed().as_secs_f64() * 1e6 / 10_000.0);
    let started = Instant::now();
    for index in 0..count {
        let name = at(&format!("t/d{:03}/e{:02}/file{index}", index / 10_000, index / 100 % 100));
        store.delete_blob(&name, DeleteSnapshots::Refuse, &none).await.expect("deleted");
    }
    println!("{count} deletes: {:.2} µs each, memory {} MiB", each(started), memory());
}
