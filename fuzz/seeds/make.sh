#!/usr/bin/env bash
# Compiles what the fuzzer begins with into the folder that it is given: small programs of every compiler, DWARF version and
# optimisation that matter. The smaller they are, the more of the bytes that are changed mean something.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "$1" && cd "$1"
bare=(-nostdlib -nostartfiles -static -fno-stack-protector -ffreestanding -fdebug-prefix-map="$here"=/seeds
    -Wl,-z,noseparate-code -Wl,--build-id=none)
for compiler in gcc clang; do
    for flags in "-O0" "-O2" "-O2 -gdwarf-4" "-O1 -gz" "-O0 -gdwarf-4 -gsplit-dwarf" "-O2 -fno-asynchronous-unwind-tables"; do
        name=${flags//[ -]/}
        # shellcheck disable=SC2086
        "$compiler" -x c -g $flags "${bare[@]}" "$here/small.cpp" -o "$compiler-c-$name"
        # shellcheck disable=SC2086
        "$compiler" -x c++ -std=c++17 -fno-exceptions -fno-rtti -g $flags "${bare[@]}" "$here/small.cpp" -o "$compiler-cpp-$name"
    done
done
for level in 1 2; do
    rustc --edition=2021 -g -Copt-level=$level -Cpanic=abort -Clink-args="-nostartfiles -static -Wl,-z,noseparate-code -Wl,--unresolved-symbols=ignore-all" \
        -Crelocation-model=static --remap-path-prefix "$here"=/seeds "$here/small.rs" -o "rust-$level"
done
rm -f -- *.dwo
objcopy --strip-debug gcc-c-O0 stripped
