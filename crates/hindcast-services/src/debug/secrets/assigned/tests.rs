use crate::debug::secrets::Mask;

#[track_caller]
fn check(text: &str, shown: &str) {
    assert_eq!(Mask::new(true).text(text), shown);
    assert_eq!(Mask::new(false).text(text), text);
}

/// `S3cret` is hidden in each, and nothing else.
#[test]
fn what_is_given_to_the_name_of_a_secret_is_hidden() {
    for text in [
        "--password=S3cret --port=80",
        "Server=db;Uid=sa;Pwd=S3cret;",
        "AccountName=x;AccountKey=S3cret;EndpointSuffix=y",
        r#"{"password":"S3cret","a":1}"#,
        r#""{\"password\":\"S3cret\",\"a\":1}""#,
        r#""{\\\"password\\\":\\\"S3cret\\\"}""#,
        r#""{\"password\": \"S3cret"#,
        r#""a \"password=S3cret\" b""#,
        r#"{'password': 'S3cret'}"#,
        "Rec { User = u, Password = S3cret, ApiKey = S3cret }",
        "{ User = u, Password = S3cret }",
        r#""Rec { Password = S3cret }""#,
        "password: S3cret",
        "db:\n  password: S3cret\n  port: 80",
        "user: ann password: S3cret port: 80",
        "login with password: S3cret failed",
        "password = S3cret\nport = 80",
        "<password>S3cret</password>",
        "<a:password type=\"x\">S3cret</a:password>",
        "<add key=\"Password\" value=\"S3cret\"/>",
        r#"{"name":"password","value":"S3cret"}"#,
        "mysql --password S3cret -h db",
        "--password,S3cret",
        "Cookie: S3cret",
        "https://x/?sig=S3cret&n=1",
        "https://x/?n=1&sig=S3cret",
        "Authorization: Token S3cret",
        "Authorization: S3cret",
        r#""Authorization": "Token S3cret","#,
        "signingKey=S3cret",
        "thread 4 (password=S3cret) holds",
        r#"{"password"=>"S3cret", "a"=>1}"#,
        r#"{ "password" => "S3cret" }"#,
    ] {
        let text = text.replace("Cookie: S3cret", "Cookie: a=S3cret");
        let shown = text.replace("Cookie: a=S3cret", "Cookie: ***").replace("S3cret", "***");
        check(&text, &shown);
    }
    let basic = "Authorization: Basic aHVudGVyMlNFQ1JFVA==";
    check(&format!("{basic} sent"), "Authorization: Basic *** sent");
    check("sent Basic aHVudGVyMlNFQ1JFVA==.", "sent Basic ***.");
    check(
        "Authorization: Digest username=\"a\", response=\"b\"\nHost: c",
        "Authorization: Digest ***\nHost: c",
    );
    check("Set-Cookie: id=1; path=/\r\nHost: x", "Set-Cookie: ***\r\nHost: x");
    check(r#""a\\" password="b\\""#, r#""a\\" password="***""#);
}

#[test]
fn words_about_secrets_and_code_are_shown() {
    for text in [
        "password must not be empty",
        "password: must not be empty",
        "The password: required.",
        "invalid password",
        "Enter password: ",
        "password: null, retries: 3",
        "password_length: 7",
        "mscorlib, Version=4.0.0.0, Culture=neutral, PublicKeyToken=b77a5c561934e089",
        "PublicKeyToken=null",
        "PWD=/home/ann",
        "let password = read_password(stdin);",
        "var password = config.Password;",
        "password = other;",
        "new Login { User = user, Password = entered };",
        "if (ok) { password = entered; }",
        "Login(user: u, password: entered);",
        "    password: String,",
        "    password: Option<String>,",
        "List<Password> all = new List<Password>();",
        "use --password to set it",
        "--password <PASSWORD>",
        "Basic authentication is off",
        "Authorization: required",
        "Authorization failed for user ann",
        "Cookie: none",
        "sig=11",
        "signal sig: 11",
        "{ Token = Ident, Text = if }",
        "{has_password = true, passwords = null, secret = 5}",
        "token: the next one",
        "secret: true",
    ] {
        check(text, text);
    }
}
