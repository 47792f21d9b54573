//! What collections and documents may be called.

const LONGEST_ID: usize = 256;

/// What is wrong with an id, if anything.
pub fn check_id(id: &str) -> Result<(), String> {
    let problem = if id.is_empty() {
        "is empty"
    } else if id.chars().count() > LONGEST_ID {
        "is longer than 256 characters"
    } else if id.contains(['/', '\\']) {
        "has a slash"
    } else if id.contains("..") {
        "has two dots in a row"
    } else if id.chars().any(char::is_control) {
        "has a control character"
    } else {
        return Ok(());
    };
    let shown: String = id.escape_debug().take(80).collect();
    Err(format!("The id '{shown}' {problem}"))
}

/// The id of a name that a person gave, or what is wrong with it.
pub fn id_of_name(name: &str) -> Result<String, String> {
    let id = name.trim().replace(' ', "_");
    check_id(&id).map(|()| id)
}
