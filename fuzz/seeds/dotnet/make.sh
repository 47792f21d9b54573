#!/usr/bin/env bash
# Copies what the fuzzer of .NET files begins with into the folder that it is given: the assemblies and PDBs that the tests read.
set -euo pipefail
samples=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../../crates/hindcast-dotnet/tests/data" && pwd)
mkdir -p "$1"
cp -- "$samples"/*.dll "$samples"/*.pdb "$1"
