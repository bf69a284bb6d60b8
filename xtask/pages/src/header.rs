//! `instrument/include/logdur_handler.h`, printed by cbindgen from the Rust declarations of the interface.

use std::collections::HashMap;
use std::fs;

use anyhow::{Context, Result};
use cbindgen::{Builder, Config, DocumentationStyle, Language, Style};

use xtask::shell::root;

/// What the structures are called in C.
const NAMES: &[(&str, &str)] = &[
    ("Batch", "logdur_batch"),
    ("DispatchInfo", "logdur_dispatch_info"),
    ("DispatchResult", "logdur_dispatch_result"),
    ("HandlerEntry", "logdur_handler_entry"),
    ("HandlerOption", "logdur_option"),
    ("HandlerTable", "logdur_handler_table"),
    ("Host", "logdur_host"),
    ("OpenInfo", "logdur_open_info"),
    ("SourcePosition", "logdur_source_position"),
    ("SourcesEntry", "logdur_sources_entry"),
    ("SourcesTable", "logdur_sources_table"),
];

/// The first lines.
const HEADER: &str = "/* The interface of handlers: libraries that get the messages of instrumented kernels. docs/instrumented.md describes it.
 * Printed by `cargo xtask docs` from instrument/handler/src/abi.rs and instrument/handler/src/walk.h. It compiles as C99 and as C++11. */
#ifndef LOGDUR_HANDLER_H
#define LOGDUR_HANDLER_H";

/// The header.
///
/// # Errors
/// When the declarations cannot be read.
pub(super) fn text() -> Result<String> {
    let read = |file: &str| {
        let path = root().join("instrument/handler/src").join(file);
        fs::read_to_string(&path).with_context(|| path.display().to_string())
    };
    let mut config = Config {
        language: Language::C,
        style: Style::Both,
        documentation_style: DocumentationStyle::C99,
        header: Some(HEADER.to_owned()),
        cpp_compat: true,
        no_includes: true,
        sys_includes: ["stddef.h", "stdint.h"].map(str::to_owned).to_vec(),
        usize_is_size_t: true,
        trailer: Some(read("walk.h")?),
        line_length: 120,
        ..Config::default()
    };
    config.export.rename =
        NAMES.iter().map(|(rust, c)| ((*rust).to_owned(), (*c).to_owned())).collect::<HashMap<_, _>>();
    config.export.include = NAMES.iter().map(|(rust, _)| (*rust).to_owned()).collect();
    let bindings =
        Builder::new().with_config(config).with_src(root().join("instrument/handler/src/abi.rs")).generate()?;
    let mut text = Vec::new();
    bindings.write(&mut text);
    String::from_utf8(text).context("the header is no UTF-8")
}
