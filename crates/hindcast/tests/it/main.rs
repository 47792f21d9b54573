//! Tests that drive the built binary as its users do.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs, reason = "these are tests")]

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod adapters;
mod audit_trail;
mod bad_input;
mod command_line;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod compare;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod confinement;
mod crash;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod damaged_input;
#[cfg(target_os = "linux")]
mod data_folder;
mod debugger;
mod debugger_contract;
#[cfg(target_os = "linux")]
mod deploy;
mod documents;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod dotnet;
mod errors;
#[cfg(target_os = "linux")]
mod finding;
mod full_disk;
mod hanging;
mod hosted;
mod keys;
mod knowledge;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod late_bugs;
#[cfg(target_os = "linux")]
mod late_recording;
#[cfg(target_os = "linux")]
mod letting_go;
mod license;
mod limits;
mod long_history;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod named_files;
mod overtime;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod page;
#[cfg(target_os = "linux")]
mod process_trees;
mod python_in_time;
mod questions;
#[cfg(target_os = "linux")]
mod races;
#[cfg(target_os = "linux")]
mod record;
#[cfg(target_os = "linux")]
mod recorded_server;
mod scopes;
mod sdk;
mod server;
#[cfg(target_os = "linux")]
mod several_servers;
#[cfg(target_os = "linux")]
mod shared_knowledge;
mod shutdown;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod similar_bugs;
#[cfg(target_os = "linux")]
mod store_migration;
#[cfg(target_os = "linux")]
mod store_network;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod tenants;
mod time_travel;
mod toolsets;
mod wire;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod without_namespaces;
mod workers;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod workspaces;
