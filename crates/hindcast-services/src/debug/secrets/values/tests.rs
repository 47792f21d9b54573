use super::*;
use crate::debug::secrets::{MASKED, Mask};

#[track_caller]
fn check(text: &str, shown: &str) {
    assert_eq!(Mask::new(true).values(text), shown);
    assert_eq!(Mask::new(false).values(text), text);
}

fn variable(name: &str, type_name: &str, value: &str, children: &[(&str, &str)]) -> Variable {
    let child = |(name, value): &(&str, &str)| variable(name, "", value, &[]);
    Variable {
        name: name.into(),
        type_name: type_name.into(),
        value: value.into(),
        children: children.iter().map(child).collect(),
        ..Variable::default()
    }
}

fn shown(mut variable: Variable) -> Vec<String> {
    Mask::new(true).variable(&mut variable);
    let children = variable.children.iter().map(|child| format!("{} = {}", child.name, child.value));
    std::iter::once(variable.value.clone()).chain(children).collect()
}

#[test]
fn values_of_dotnet_show_no_secrets() {
    check(r#"{["PASSWORD"] = "hunter2", ["n"] = "1"}"#, r#"{["PASSWORD"] = "***", ["n"] = "1"}"#);
    check(r#"("password", "hunter2")"#, r#"("password", "***")"#);
    check(r#"(password: "hunter2", n: 1)"#, r#"(password: "***", n: 1)"#);
    check(r#"["password", "hunter2"]"#, r#"["password", "***"]"#);
    check(r#"{ Password = "hunt\"er2", N = 1 }"#, r#"{ Password = "***", N = 1 }"#);
    check(r#"{Token = "tok-9", Name = "x"}"#, r#"{Token = "***", Name = "x"}"#);
    check(r#"{Passwords = ["a", "b"], Names = ["c"]}"#, r#"{Passwords = ["***", "***"], Names = ["c"]}"#);
    check(r#"{Passwords = {["ann"] = "a"}}"#, r#"{Passwords = {["ann"] = "***"}}"#);
    check("{SecretKey = [1, 2, 3, 4, 5, 6, 7, 8, …], N = 1}", "{SecretKey = ***, N = 1}");
    check(r#"{Key = "password", Value = "hunter2"}"#, r#"{Key = "password", Value = "***"}"#);
    check(r#"["--user", "a", "--password", "b", "-v"]"#, r#"["--user", "a", "--password", "***", "-v"]"#);
    check(
        r#"{["Authorization"] = "Basic a", ["Cookie"] = "b=c"}"#,
        r#"{["Authorization"] = "***", ["Cookie"] = "***"}"#,
    );
    check(r#"{password = ['h', 'i'], n = 'x'}"#, "{password = [***, ***], n = 'x'}");
    check(r#"{Password = "hunt"… (20 chars), N = 1}"#, r#"{Password = "***"… (20 chars), N = 1}"#);
}

#[test]
fn values_of_native_programs_show_no_secrets() {
    check(
        r#"{user: 0x10 "ann", password: 0x4010 "hunter2"}"#,
        r#"{user: 0x10 "ann", password: 0x4010 "***"}"#,
    );
    check(r#"0x7ffe -> {api_key = "abc", n = 3}"#, r#"0x7ffe -> {api_key = "***", n = 3}"#);
    check(r#"{key: 0x1 "secret", value: 0x2 "x"}"#, r#"{key: 0x1 "secret", value: 0x2 "***"}"#);
    check(r#"{first = "password", second = "hunter2"}"#, r#"{first = "password", second = "***"}"#);
    check(r#"{"password": "hunter2", "n": "1"}"#, r#"{"password": "***", "n": "1"}"#);
    check(r#"{password: Some("hunter2"), port: Some("80")}"#, r#"{password: Some("***"), port: Some("80")}"#);
    check(
        r#"{password = 104 'h', quote = 34 '"', it = "s"}"#,
        r#"{password = ***, quote = 34 '"', it = "s"}"#,
    );
}

#[test]
fn ordinary_values_stay_readable() {
    for text in [
        r#"["user", "password"]"#,
        r#"["-v", "--password", "--verbose"]"#,
        r#"["password", "email", "name"]"#,
        "{password_length = 7, has_password = true, passwords = null}",
        r#"{cancellationToken = {_source = null}, tokens = ["a", "b"], tokenizer = "fast"}"#,
        r#"{token = {Kind = Ident, Text = "if"}, next = '+'}"#,
        "{token = '+'}",
        r#"{name = "ann", value = "hunter2"}"#,
        r#"("name", "ann")"#,
        r#"it's "fine", isn't it"#,
        "{password_lengths = [8, 12, 9]}",
        "",
        "\"",
        "'",
        r#"{x = ""#,
    ] {
        check(text, text);
    }
}

#[test]
fn variables_are_known_by_name_too() {
    let value = |name: &str, value: &str| shown(variable(name, "string", value, &[])).remove(0);
    assert_eq!(value("db_password", "0x4010 \"hunter2\""), MASKED);
    assert_eq!(value("password[0]", "'h'"), MASKED);
    assert_eq!(value("password[0]", "104 'h'"), MASKED);
    assert_eq!(value("password,nq", "hunter2"), MASKED);
    assert_eq!(value("password", "null"), "null");
    assert_eq!(value("accessToken", "\"tok-9\""), MASKED);
    assert_eq!(value("token[0]", "'t'"), MASKED);
    assert_eq!(value("line", "\"--password=hunter2\""), "\"--password=***\"");
    let value =
        |name: &str, type_name: &str, value: &str| shown(variable(name, type_name, value, &[])).remove(0);
    assert_eq!(value("password_length", "int", "7"), "7");
    assert_eq!(value("token", "char", "43 '+'"), "43 '+'");
    assert_eq!(value("secretKey", "byte[]", "[1, 2]"), MASKED);
    assert_eq!(value("secretSizes", "int[]", "[1, 2]"), "[1, 2]");
    assert_eq!(value("passwordPolicy", "Policy", "{Min = 8, Name = \"x\"}"), "{Min = 8, Name = \"***\"}");
    assert_eq!(value("columns", "List<string>", r#"["password", "email"]"#), r#"["password", "email"]"#);
}

#[test]
fn parts_of_a_variable_show_no_more_than_its_line() {
    let pair = variable(
        "kv",
        "KeyValuePair<string, string>",
        r#"["password", "hunter2"]"#,
        &[("Key", "\"password\""), ("Value", "\"hunter2\"")],
    );
    assert_eq!(shown(pair), [r#"["password", "***"]"#, "Key = \"password\"", "Value = ***"]);
    let tuple = variable(
        "it",
        "(string, string)",
        r#"("token", "tok-9")"#,
        &[("Item1", "\"token\""), ("Item2", "\"tok-9\"")],
    );
    assert_eq!(shown(tuple), [r#"("token", "***")"#, "Item1 = \"token\"", "Item2 = ***"]);
    let text = variable("password", "char [3]", "\"hi\"", &[("[0]", "104 'h'"), ("[1]", "105 'i'")]);
    assert_eq!(shown(text), [MASKED]);
    let several = variable("passwords", "List<string>", r#"["a"]"#, &[("[0]", "\"a\"")]);
    assert_eq!(shown(several), [r#"["***"]"#, "[0] = ***"]);
    let policy = variable("passwordPolicy", "Policy", "{Min = 8}", &[("Min", "8")]);
    assert_eq!(shown(policy), ["{Min = 8}", "Min = 8"]);
}

#[test]
fn what_wraps_a_secret_is_one() {
    for (expression, type_name, value) in [
        ("password + \"\"", "string", "\"hunter2\""),
        ("$\"{password}\"", "string", "\"hunter2\""),
        ("accessToken.Substring(1)", "string", "\"ok\""),
        ("*password", "char", "104 'h'"),
        ("env[\"API_KEY\"]", "string", "\"k\""),
    ] {
        let mut value = variable("", type_name, value, &[]);
        Mask::new(true).evaluated(expression, &mut value);
        assert_eq!(value.value, MASKED, "{expression}");
    }
    let mut length = variable("", "int", "7", &[]);
    Mask::new(true).evaluated("password.Length", &mut length);
    assert_eq!(length.value, "7");
}

#[test]
fn messages_of_breakpoints_do_not_ask_for_secrets() {
    let shown = |template: &str| {
        let mut shown = template.to_owned();
        Mask::new(true).template(&mut shown);
        shown
    };
    assert_eq!(shown("pw {password,nq} of {user}"), "pw *** of {user}");
    assert_eq!(shown("{env[\"}\"]} {$\"{token}\"}"), "{env[\"}\"]} ***");
    assert_eq!(
        shown("{{password}} {password.Length} {password == null} {strlen(password)}"),
        "{{password}} {password.Length} {password == null} {strlen(password)}"
    );
    assert_eq!(shown("{password == null ? \"-\" : password}"), MASKED);
    assert_eq!(shown("{password"), "{password");
}
