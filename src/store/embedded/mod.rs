//! The embedded store: blobs on this machine's own disk.
