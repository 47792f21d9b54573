//! A store with the four collections of the contract.

use std::path::Path;

use rusqlite::{Connection, params};

const MODEL: &str = "all-MiniLM-L6-v2";

fn nanoseconds(time: &str) -> i64 {
    i64::try_from(time.parse::<hindcast_core::Timestamp>().unwrap().as_nanosecond()).unwrap()
}

/// So many days before now.
fn days_ago(days: i64) -> i64 {
    let now = i64::try_from(hindcast_core::Timestamp::now().as_nanosecond()).unwrap();
    now - days * 86_400_000_000_000
}

struct Seed<'a> {
    connection: &'a Connection,
}

impl Seed<'_> {
    fn collection(&self, id: &str, name: &str, times: [&str; 3]) -> i64 {
        let [created, updated, accessed] = times.map(nanoseconds);
        self.connection
            .execute(
                "INSERT INTO collections (owner, id, name, created_at, updated_at, accessed_at)
                 VALUES ('local', ?1, ?2, ?3, ?4, ?5)",
                params![id, name, created, updated, accessed],
            )
            .unwrap();
        self.connection.last_insert_rowid()
    }

    /// A document whose chunks share its size among them.
    fn document(&self, collection: i64, document: &Document<'_>) {
        let Document { id, name, description, text, size, chunks, times } = document;
        let [created, updated] = times.map(nanoseconds);
        self.connection
            .execute(
                "INSERT INTO documents (collection, id, name, description, mime_type, size, chunks, hash, created_at, updated_at)
                 VALUES (?1, ?2, ?3, ?4, 'text/markdown', ?5, ?6, zeroblob(32), ?7, ?8)",
                params![collection, id, name, description, size, chunks, created, updated],
            )
            .unwrap();
        let key = self.connection.last_insert_rowid();
        let original = text.map_or_else(|| vec![b'x'; *size], |text| text.as_bytes().to_vec());
        self.connection
            .execute("INSERT INTO contents VALUES (?1, ?2, NULL)", params![key, original])
            .unwrap();
        let mut vector = vec![0_u8; 384 * 4];
        for position in 0..*chunks {
            // Words that differ from chunk to chunk, as long as the whole document divided by its chunks.
            let words = format!("passage {position} of {id} ").repeat(size / chunks / 8);
            self.connection
                .execute(
                    "INSERT INTO chunks (document, collection, position, hash, headings, text, first_byte, end_byte, first_line,
                                         last_line, is_code, generation)
                     VALUES (?1, ?2, ?3, randomblob(32), '', ?4, 0, 1, 1, 1, 0, 1)",
                    params![key, collection, position, &words[..size / chunks]],
                )
                .unwrap();
            let chunk = self.connection.last_insert_rowid();
            vector[position % 384 * 4..][..4].copy_from_slice(&1_f32.to_le_bytes());
            self.connection
                .execute("INSERT INTO vectors VALUES (?1, ?2, 1, ?3)", params![chunk, MODEL, vector])
                .unwrap();
            vector.fill(0);
        }
    }

    fn queries(&self, collection: i64, texts: &[&str], at: i64, score: f64) {
        for text in texts {
            self.connection
                .execute(
                    "INSERT INTO queries VALUES (?1, ?2, ?3, 1000, ?4, 1)",
                    params![collection, at, text, score],
                )
                .unwrap();
        }
    }

    /// Questions to a model: how many conversations, answered and failed ones.
    fn answers(&self, model: &str, counts: [usize; 3], at: i64, duration: i64, tokens: i64) {
        let [conversations, answered, failed] = counts;
        for number in 0..answered + failed {
            let answer = (number < answered).then_some("yes");
            let share = if number == 0 { tokens } else { 0 };
            self.connection
                .execute(
                    "INSERT INTO answers VALUES (?1, 'local', ?2, ?3, 'why?', ?4, ?5, ?6, 0)",
                    params![
                        format!("{model}-{}", number % conversations),
                        model,
                        at,
                        answer,
                        duration,
                        share
                    ],
                )
                .unwrap();
        }
    }
}

struct Document<'a> {
    id: &'a str,
    name: &'a str,
    description: &'a str,
    text: Option<&'a str>,
    size: usize,
    chunks: usize,
    times: [&'a str; 2],
}

/// One whose words do not matter.
fn plain<'a>(id: &'a str, chunks: usize, size: usize, created: &'a str, updated: &'a str) -> Document<'a> {
    Document { id, name: id, description: "", text: None, size, chunks, times: [created, updated] }
}

/// Fills a data folder whose tables are there. `chapter` is what its first chapter says.
pub(super) fn fill(data: &Path, chapter: &str) {
    let connection = Connection::open(data.join("knowledge.db")).unwrap();
    connection.execute_batch("PRAGMA foreign_keys = ON; BEGIN; UPDATE generation SET value = 1;").unwrap();
    let seed = Seed { connection: &connection };
    let (created, updated) = ("2025-09-15T10:00:00Z", "2025-09-22T14:30:00Z");
    let heliograph = seed.collection(
        "Heliograph_Test_Document",
        "Heliograph Test Document",
        [created, updated, "2025-09-29T08:15:00Z"],
    );
    seed.document(
        heliograph,
        &Document {
            name: "Chapter 1: The Keeper",
            description: "First chapter of the Heliograph story",
            text: Some(chapter),
            ..plain("chapter1", 5, chapter.len(), created, updated)
        },
    );
    for id in ["chapter2", "chapter3", "chapter4"] {
        seed.document(heliograph, &plain(id, 5, 4000, created, updated));
    }
    seed.queries(heliograph, &["the keeper"; 17], days_ago(3), 0.6);

    let (created, updated) = ("2025-08-20T09:00:00Z", "2025-09-01T11:20:00Z");
    let ai = seed.collection("AI_Engineering", "AI Engineering", [created, updated, "2025-09-15T16:45:00Z"]);
    seed.document(ai, &plain("ai-engineering", 1221, 2_456_789, created, updated));
    seed.queries(ai, &["what are neural networks"; 9], days_ago(100), 0.72);
    seed.queries(ai, &["transformer architecture"; 6], days_ago(100), 0.72);
    seed.queries(ai, &["neural network"; 3], days_ago(100), 0.72);
    seed.queries(ai, &["how does training optimization work?"; 5], days_ago(5), 0.72);

    let (created, updated) = ("2025-07-10T14:00:00Z", "2025-09-05T10:30:00Z");
    let manager =
        seed.collection("Knowledge_Manager", "Knowledge Manager", [created, updated, "2025-09-12T13:20:00Z"]);
    seed.document(
        manager,
        &Document {
            name: "API Reference Documentation",
            description: "Complete API reference for Knowledge Manager",
            ..plain("api-reference", 87, 45_678, created, updated)
        },
    );
    let named = [
        (
            "deployment-guide",
            "Docker Deployment Guide",
            42,
            23_456,
            "2025-07-12T09:00:00Z",
            "2025-08-20T15:45:00Z",
        ),
        (
            "architecture-overview",
            "System Architecture Overview",
            63,
            34_567,
            "2025-07-11T11:30:00Z",
            "2025-09-01T08:20:00Z",
        ),
        (
            "configuration-guide",
            "Configuration Guide",
            28,
            12_345,
            "2025-07-13T14:00:00Z",
            "2025-08-15T12:10:00Z",
        ),
    ];
    for (id, name, chunks, size, created, updated) in named {
        seed.document(manager, &Document { name, ..plain(id, chunks, size, created, updated) });
    }
    for number in 1..=8 {
        let chunks = if number == 8 { 28 } else { 29 };
        seed.document(manager, &plain(&format!("note-{number}"), chunks, 9000, created, updated));
    }
    seed.queries(manager, &["docker compose"; 5], days_ago(1), 0.5);

    let (created, updated) = ("2025-08-05T08:00:00Z", "2025-08-25T15:40:00Z");
    let learning = seed.collection(
        "machine_Learning_With_python",
        "Machine Learning With Python",
        [created, updated, "2025-09-03T09:10:00Z"],
    );
    seed.document(learning, &plain("machine-learning", 1065, 1_900_000, created, updated));
    seed.queries(learning, &["scikit"; 2], days_ago(20), 0.4);

    // 119 conversations in all; of the last month's questions 92.4 % were answered, in 19.8 s.
    seed.answers("gemma3:12b", [18, 29, 1], nanoseconds("2025-09-30T14:30:00Z"), 10_510, 26_470);
    seed.answers("qwen3:latest", [14, 20, 0], nanoseconds("2025-09-28T09:15:00Z"), 22_100, 19_777);
    seed.answers("llama3.1:8b", [10, 10, 0], nanoseconds("2025-09-20T16:45:00Z"), 4880, 7382);
    seed.answers("forgotten:1b", [77, 73, 6], days_ago(2), 19_800, 1);
    connection.execute_batch("COMMIT").unwrap();
}
