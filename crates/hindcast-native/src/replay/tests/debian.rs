//! Unmodified programs of Debian behave under the recorder as they do alone, and are replayed to the same states. They run
//! with `HINDCAST_ORACLES=full`; `cargo xtask test` then installs their packages.

use std::path::Path;

use hindcast_fixtures::{
    debian::{PROGRAMS, Program},
    oracle_size,
};

use super::check_run;

fn check(name: &str) {
    if oracle_size(0, 1) == 0 {
        return;
    }
    let Program { nature, .. } = *program(name);
    let folder = tempfile::tempdir().unwrap();
    let command = program(name).command_in(folder.path());
    let command: Vec<_> = command.iter().map(String::as_str).collect();
    for (file, package) in program(name).files() {
        assert!(Path::new(file).exists(), "`{file}` is missing: install the Debian package `{package}`");
    }
    check_run(&command, &|| program(name).prepare_in(folder.path()), nature);
}

fn program(name: &str) -> &'static Program {
    PROGRAMS.iter().find(|program| program.name == name).unwrap()
}

/// A test for each.
macro_rules! programs {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            check(stringify!($name));
        })*

        const TESTED: &[&str] = &[$(stringify!($name)),*];
    };
}

programs! {
    sort
    sed
    mawk
    gawk
    grep
    diff
    patch
    troff
    bash
    dash
    busybox
    perl
    python
    ruby
    lua
    tcl
    php
    sqlite
    bc
    dc
    m4
    jq
    gcc
    c_compiler
    cplusplus_compiler
    assembler
    linker
    make
    bison
    flex
    nasm
    git
    git_commit
    gzip
    bzip2
    xz
    zstd
    tar
    cpio
    zip
    seven_zip
    openssl_digest
    openssl_cipher
    openssl_key
    gpg
    ssh_keygen
    xmllint
    xsltproc
    ghostscript
    graphicsmagick
    graphviz
    gnuplot
    sox
    find
    file
    rsync
    curl
    sort_with_threads
    xz_with_threads
    git_gc
    git_pack_with_threads
    python_with_threads
    numpy
    sqlite_with_journal
    sqlite_with_two_writers
    go
    nginx
    redis
}

#[test]
fn every_program_has_a_test() {
    let all: Vec<_> = PROGRAMS.iter().map(|program| program.name).collect();
    assert_eq!(all, TESTED);
}
