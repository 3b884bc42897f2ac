//! The binary: runs the command line.

fn main() -> std::process::ExitCode {
    mcpdeck::cli::main()
}
