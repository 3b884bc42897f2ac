//! Hands the order of the functions that start-up runs to the linker of what is shipped, so that they
//! lie side by side and little of the program is mapped (see `.ci/start-order`).

use std::env;
use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=src/build.rs");
    println!("cargo::rerun-if-changed=src/start.order");
    println!("cargo::rerun-if-env-changed=CARGO_ENCODED_RUSTFLAGS");
    println!("cargo::rerun-if-env-changed=MCPDECK_LINK_MAP");
    let variable = |name: &str| env::var(name).unwrap_or_default();
    // `dist` alone is made small. On this target the linker is lld, unless somebody chose another one,
    // which may not know the option.
    let is_shipped =
        variable("OPT_LEVEL") == "s" && variable("TARGET") == "x86_64-unknown-linux-gnu";
    let flags = variable("CARGO_ENCODED_RUSTFLAGS");
    let is_chosen = ["linker", "fuse-ld"].iter().any(|word| flags.contains(word));
    let map = variable("MCPDECK_LINK_MAP");
    if is_shipped && !is_chosen && !map.is_empty() {
        // Where each function is: what is shipped has no symbols.
        println!("cargo::rustc-link-arg-bin=mcpdeck=-Wl,-Map={map},--no-demangle");
    }
    let order = Path::new(&variable("CARGO_MANIFEST_DIR")).join("src/start.order");
    if is_shipped && !is_chosen && order.exists() {
        println!(
            "cargo::rustc-link-arg-bin=mcpdeck=-Wl,--symbol-ordering-file={}",
            order.display()
        );
        println!("cargo::rustc-link-arg-bin=mcpdeck=-Wl,--no-warn-symbol-ordering");
    }
}
