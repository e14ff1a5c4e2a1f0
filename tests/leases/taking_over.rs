//! Writers that join readers whose file the kernel serves: the version's bytes are moved out of the way first.

use std::os::unix::fs::FileExt;

use futures_util::FutureExt;
use leasefs::fs::{AttributeChange, OpenRequest, Route, Zeroing};
use leasefs::store::{BlobStore, CopySource, Preconditions};

use crate::rig::{ANYBODY, READ, Rig, WRITE, at};

const SIZE: usize = 3 << 20;
const TRUNCATE: OpenRequest = OpenRequest { read: false, write: true, truncate: true, exclusive: false };

async fn rig() -> Rig {
    let rig = Rig::optimistic().await;
    rig.engine.set_passthrough(true);
    rig
}

#[tokio::test]
async fn all_opens_of_a_file_name_the_file_that_the_kernel_has() {
    let rig = rig().await;
    let ino = rig.file("a", &vec![1; SIZE]).await;
    let always = Preconditions::default();
    rig.store.copy_blob(&CopySource::of(&at("a")), &at("b"), Default::default(), &always).await.unwrap();
    let reader = rig.engine.open(ino, READ, ANYBODY).await.unwrap();
    let Route::Kernel(served) = reader.route else { panic!("{:?}", reader.route) };
    let writer = rig.engine.open(ino, WRITE, ANYBODY).await.unwrap();
    rig.engine.write(writer.handle, 0, b"mine").await.unwrap();
    for request in [READ, WRITE, TRUNCATE] {
        let later = rig.engine.open(ino, request, ANYBODY).await.unwrap();
        let Route::Direct(named) = &later.route else { panic!("{request:?}: {:?}", later.route) };
        assert!(std::sync::Arc::ptr_eq(named, &served), "{request:?}: another file");
        rig.close(later.handle).await.unwrap();
    }
    let mut byte = [0];
    served.read_exact_at(&mut byte, 0).unwrap();
    assert_eq!(byte, [1], "the readers' file is the copy's, too, and stays as it is");
    rig.close(writer.handle).await.unwrap();
    rig.close(reader.handle).await.unwrap();
    assert!(rig.content("a").await.is_empty());
    assert!(rig.content("b").await == vec![1; SIZE]);
}

/// Whether a request is answered by the thread that brought it.
fn at_once<T>(request: impl Future<Output = T>) -> bool {
    Box::pin(request).now_or_never().is_some()
}

#[tokio::test]
async fn a_long_copy_is_not_made_by_a_thread_that_serves_requests() {
    let rig = rig().await;
    let (engine, cut) = (&rig.engine, AttributeChange { size: Some(10), ..AttributeChange::default() });
    for (name, size, quick) in [("small", 100_000, true), ("big", SIZE, false)] {
        for what in ["write", "truncate", "truncate by path", "allocate", "open"] {
            let ino = rig.file(name, &vec![1; size]).await;
            let reader = engine.open(ino, READ, ANYBODY).await.unwrap().handle;
            let writer = engine.open(ino, WRITE, ANYBODY).await.unwrap().handle;
            let answered = match what {
                "write" => at_once(engine.write(writer, 0, b"x")),
                "truncate" => at_once(engine.change(ino, Some(writer), cut, ANYBODY)),
                "truncate by path" => at_once(engine.change(ino, None, cut, ANYBODY)),
                "allocate" => at_once(engine.allocate(writer, 0..10, Zeroing::PunchHole, true, ANYBODY)),
                _ => at_once(engine.open(ino, TRUNCATE, ANYBODY)),
            };
            assert_eq!(answered, quick, "{what} of {size} bytes");
            for handle in [writer, reader] {
                rig.close(handle).await.unwrap();
            }
            rig.delete(name).await.unwrap();
        }
    }
}
