//! The binary: runs the command line.

fn main() -> std::process::ExitCode {
    #[cfg(feature = "tui")]
    let themes = mcpdeck::THEMES;
    #[cfg(not(feature = "tui"))]
    let themes = &[];
    mcpdeck::cli::main(themes)
}
