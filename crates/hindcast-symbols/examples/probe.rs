//! Times first lookups in a program: `probe FILE function NAME | regex PATTERN |
//! line FILE LINE | address HEX | type NAME | files TEXT`.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::{path::Path, time::Instant};

use hindcast_symbols::{FunctionPattern, Symbols, types::Types};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let argument = |at: usize| arguments.get(at).map_or("", String::as_str);
    let started = Instant::now();
    let mut symbols = Symbols::new();
    symbols.add(Path::new(argument(1)), 0, 0..u64::MAX).unwrap();
    println!("added after {:?}", started.elapsed());
    for _ in 0..2 {
        let started = Instant::now();
        match argument(2) {
            "function" => {
                let found = symbols.functions_named(&FunctionPattern::Exact(argument(3).to_owned()), 20);
                println!("{} functions: {:#x?}", found.len(), found.first());
            }
            "regex" => {
                let pattern = FunctionPattern::Regex(regex_lite::Regex::new(argument(3)).unwrap());
                let found = symbols.functions_named(&pattern, 200);
                println!("{} functions: {:#x?}", found.len(), found.first());
            }
            "line" => {
                let found = symbols.addresses_of_line(argument(3), argument(4).parse().unwrap());
                println!("{} targets: {:#x?}", found.targets.len(), found.targets.first());
            }
            "address" => {
                let address = u64::from_str_radix(argument(3).trim_start_matches("0x"), 16).unwrap();
                println!("{:?}", symbols.place(address));
            }
            "type" => println!("{:?}", symbols.named(argument(3))),
            "files" => println!("{:?}", symbols.source_files(argument(3), 10)),
            _ => println!("{:?}", symbols.producer()),
        }
        println!("answered after {:?}", started.elapsed());
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    println!("{}", status.lines().find(|line| line.starts_with("VmHWM")).unwrap());
}
