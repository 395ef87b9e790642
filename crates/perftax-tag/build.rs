//! Compiles the header's functions once: Rust has no thread-local variables without its standard library.

fn main() {
    println!("cargo:rerun-if-changed=include/perftax_tag.h");
    println!("cargo:rerun-if-changed=src/tag.c");
    cc::Build::new()
        .file("src/tag.c")
        .include("include")
        .opt_level(2)
        .flag_if_supported("-Wno-unused-function")
        .compile("perftax_tag");
    println!("cargo:rustc-link-lib=pthread");
}
