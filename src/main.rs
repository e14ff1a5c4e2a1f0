//! The `leasefs` command: everything it does is in [`leasefs::cli`].

/// A request makes dozens of small allocations, on whichever thread it is; the system's allocator takes a fifth of the
/// server's time for them.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> std::process::ExitCode {
    leasefs::cli::main()
}
