//! The `leasefs` command: everything it does is in [`leasefs::cli`].

fn main() -> std::process::ExitCode {
    leasefs::cli::main()
}
