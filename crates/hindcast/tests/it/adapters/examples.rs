//! The examples of mcp-debugger's own repository: no package has them, so `HINDCAST_MCP_DEBUGGER_EXAMPLES` names the folder
//! where they are. Both debuggers must stop at the same lines with the same values.

use std::path::{Path, PathBuf};

use super::peers::Asked;

/// A program, lines of it by what they say, and variables whose values both show there.
struct Example {
    language: &'static str,
    file: &'static str,
    lines: &'static [&'static str],
    variables: &'static [&'static str],
}

const EXAMPLES: [Example; 10] = [
    Example {
        language: "python",
        file: "python_simple_swap/swap_vars.py",
        lines: &["a = b  # Bug", "b = a  # Bug", "if swapped_x == 20"],
        variables: &["a", "b", "swapped_x"],
    },
    Example {
        language: "python",
        file: "python/simple_test.py",
        lines: &["a, b = b, a", "After swap"],
        variables: &["a", "b"],
    },
    Example {
        language: "python",
        file: "python/fibonacci.py",
        lines: &["a, b = b, a + b", "Buggy value: {"],
        variables: &["a", "b", "result_recursive"],
    },
    Example {
        language: "python",
        file: "python/python_test_comprehensive.py",
        lines: &["total += num", "result *= i", "Test complete!"],
        variables: &["total", "num", "i", "z"],
    },
    Example {
        language: "javascript",
        file: "javascript/simple_test.js",
        lines: &["[a, b] = [b, a];", "After swap"],
        variables: &["a", "b"],
    },
    Example {
        language: "javascript",
        file: "javascript/javascript_test_comprehensive.js",
        lines: &["total += num;", "result *= i;", "Test complete!"],
        variables: &["num", "i", "z"],
    },
    Example {
        language: "go",
        file: "go/fibonacci/main.go",
        lines: &["next := prev + curr", "elapsed = time.Since(start)"],
        variables: &["prev", "curr", "n"],
    },
    Example {
        language: "ruby",
        file: "ruby/fizzbuzz.rb",
        lines: &["results << value"],
        variables: &["i", "value"],
    },
    Example {
        language: "java",
        file: "java/HelloWorld.java",
        lines: &["return result;", "return greeting;", "System.out.println(msg);"],
        variables: &["a", "b", "result", "sum"],
    },
    Example {
        language: "java",
        file: "java/InnerClassTest.java",
        lines: &["return result;", "System.out.println(\"Sum: \""],
        variables: &["a", "b", "result", "sum"],
    },
];

fn folder() -> Option<PathBuf> {
    let folder = std::env::var_os("HINDCAST_MCP_DEBUGGER_EXAMPLES").map(PathBuf::from);
    if folder.is_none() {
        eprintln!(
            "SKIPPED: HINDCAST_MCP_DEBUGGER_EXAMPLES names no folder with the examples of mcp-debugger"
        );
    }
    folder
}

fn compare(language: &str) {
    let Some(folder) = folder() else { return };
    for example in EXAMPLES.iter().filter(|example| example.language == language) {
        let program = folder.join(example.file).canonicalize().unwrap();
        let lines = example.lines.iter().map(|text| line_of(&program, text)).collect();
        let (language, variables) = (example.language, example.variables);
        Asked { language, program: &program, lines, variables }.compare(1);
    }
}

fn line_of(program: &Path, text: &str) -> u32 {
    let source = std::fs::read_to_string(program).unwrap();
    let at = source.lines().position(|line| line.contains(text));
    u32::try_from(at.unwrap_or_else(|| panic!("no `{text}` in {}", program.display())) + 1).unwrap()
}

#[test]
fn its_examples_in_python_stop_as_under_mcp_debugger() {
    compare("python");
}

#[test]
fn its_examples_in_javascript_stop_as_under_mcp_debugger() {
    compare("javascript");
}

#[test]
fn its_examples_in_go_stop_as_under_mcp_debugger() {
    compare("go");
}

#[test]
fn its_examples_in_ruby_stop_as_under_mcp_debugger() {
    compare("ruby");
}

#[test]
fn its_examples_in_java_stop_as_under_mcp_debugger() {
    compare("java");
}
