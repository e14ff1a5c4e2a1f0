//! What an engine does by itself every few seconds, whoever uses it: it writes the times of directories that changed,
//! and takes away what could not be taken away at its last close.

use std::sync::Weak;
use std::time::Duration;

use super::Engine;

/// How often. A crash loses the times of directories that changed later than this before it.
const EVERY: Duration = Duration::from_secs(5);

/// The task that does it. Ends with the engine.
#[derive(Debug)]
pub(super) struct UpkeepTask(tokio::task::AbortHandle);

impl UpkeepTask {
    pub(super) fn start(engine: Weak<Engine>) -> Self {
        let task = tokio::spawn(async move {
            loop {
                tokio::time::sleep(EVERY).await;
                let Some(engine) = engine.upgrade() else { return };
                engine.write_directory_times().await;
                engine.finish_removes().await;
            }
        });
        Self(task.abort_handle())
    }
}

impl Drop for UpkeepTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::nodes::ROOT;
    use super::super::testing::{World, segment, start};
    use super::*;
    use crate::store::LocalStore;

    /// So many rounds at most. One is enough, unless the machine is busy.
    const ROUNDS_MAX: usize = 100;

    /// Lets rounds go by until it is so. The store's own threads know nothing of a paused clock, so they get time, too.
    async fn soon(what: &str, is_so: impl Fn() -> bool) {
        for _ in 0..ROUNDS_MAX {
            tokio::time::sleep(EVERY).await;
            if is_so() {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("{what}: never");
    }

    fn is_there(world: &World, name: &str) -> bool {
        world.store.find(&world.at(name)).unwrap().blob.is_some()
    }

    #[tokio::test(start_paused = true)]
    async fn a_removal_that_a_lease_held_up_is_finished_though_nobody_asks() {
        let world = start().await;
        let (_, handle) = world.create(ROOT, "f", b"x").await;
        world.engine.flush(handle, 1).await.unwrap();
        world.engine.unlink(ROOT, &segment("f")).await.unwrap();
        world.lease(&world.at("f")).await;
        world.engine.release(handle).await.unwrap();
        tokio::time::sleep(2 * EVERY).await;
        assert!(is_there(&world, "f"), "leased");
        world.end_lease(&world.at("f")).await;
        soon("removed", || !is_there(&world, "f")).await;
    }

    #[tokio::test(start_paused = true)]
    async fn times_of_directories_are_written_though_nobody_asks() {
        let world = start().await;
        let directory = world.make_directory(ROOT, "d").await;
        world.engine.write_directory_times().await;
        world.put(directory, "f", b"").await;
        assert!(world.engine.directory_times.get(directory).is_some());
        soon("written", || world.engine.directory_times.get(directory).is_none()).await;
    }

    #[tokio::test(start_paused = true)]
    async fn an_engine_that_nobody_has_is_gone() {
        let World { engine, store, folder: _folder } = start().await;
        tokio::time::sleep(2 * EVERY).await;
        let gone = Arc::downgrade(&engine);
        drop(engine);
        assert!(gone.upgrade().is_none());
        soon("let go of", || Arc::strong_count(&store) == 1).await;
    }
}
