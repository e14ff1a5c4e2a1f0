//! What the engine is going to have: refused until then. Goes away.
#![allow(missing_docs, clippy::unused_async, async_fn_in_trait)]
use crate::fs::requests::*;
use crate::fs::shares::*;
use crate::fs::{FsError, Result};
use crate::store::*;
use std::ops::Range;

fn soon<T>() -> Result<T> {
    Err(FsError::NotSupported("this is not there yet"))
}

pub(super) trait RequestsSoon {
    fn put_permission(&self, _: &str, _: &str) -> impl Future<Output = Result<()>> + Send {
        async { soon() }
    }
    fn permission(&self, _: &str) -> impl Future<Output = Result<String>> + Send {
        async { soon() }
    }
}
impl RequestsSoon for Requests {}
