//! The binary: hands over to the command line.

fn main() -> std::process::ExitCode {
    mcpdeck::cli::main()
}
