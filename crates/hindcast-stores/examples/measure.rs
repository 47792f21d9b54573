//! What `cargo xtask bench knowledge` measures of the engines themselves. Prints one JSON object.
//!
//! - `measure embed MODELS < texts` (a JSON string a line): how long the second of two passes takes, and the vectors.
//! - `measure fill FOLDER CHUNKS`: how long it takes to index so many made-up chunks.
//! - `measure search FOLDER`: opens what was filled and searches it, with processor caches cold to it.
//! - `measure compare FOLDER URL CHUNKS`: fills a new index and the Qdrant at an address, and searches them in turns.
#![allow(clippy::print_stdout, reason = "it prints its result")]

use std::{
    io::BufRead,
    path::Path,
    sync::{Arc, LazyLock},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, bail};
use hindcast_core::knowledge::{
    ChunkId, CollectionKey, Embedder, Generation, LexicalEntry, LexicalRead, LexicalWrite, VectorEntry,
    VectorRead, VectorWrite,
};
use hindcast_stores::{LexicalIndex, Qdrant, QdrantSettings, SentenceEncoder, VectorIndex};
use serde_json::{Value, json};

const DIMENSION: usize = 384;
const MODEL: &str = "made-up";
const COLLECTION: CollectionKey = CollectionKey(1);
/// Chunks that are handed over at once.
const BATCH: i64 = 5_000;
const QUESTIONS: i64 = 500;
/// Questions whose true neighbours are computed.
const EXACT_QUESTIONS: i64 = 50;
const NEAREST: usize = 10;
/// As many candidates as the product asks each index for.
const CANDIDATES: usize = 100;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["embed", models] => embed(Path::new(models))?,
        ["fill", folder, chunks] => fill(Path::new(folder), chunks.parse().context("a number of chunks")?)?,
        ["search", folder] => search(Path::new(folder))?,
        ["compare", folder, url, chunks] => {
            compare(Path::new(folder), url, chunks.parse().context("a number of chunks")?)?
        }
        _ => bail!(
            "usage: measure embed MODELS | fill FOLDER CHUNKS | search FOLDER | compare FOLDER URL CHUNKS"
        ),
    };
    println!("{result}");
    Ok(())
}

fn embed(models: &Path) -> Result<Value> {
    let lines = std::io::stdin().lock().lines();
    let texts = lines.map(|line| Ok(serde_json::from_str(&line?)?)).collect::<Result<Vec<String>>>()?;
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let model = SentenceEncoder::mini_lm(models, None)?;
    model.embed(&texts)?;
    let (begin, processor) = (Instant::now(), processor_seconds()?);
    let vectors = model.embed(&texts)?;
    let seconds = begin.elapsed().as_secs_f64();
    Ok(
        json!({ "seconds": seconds, "processor_seconds": processor_seconds()? - processor, "vectors": vectors }),
    )
}

fn fill(folder: &Path, chunks: i64) -> Result<Value> {
    let lexical = LexicalIndex::open(&folder.join("lexical"))?;
    let vectors = VectorIndex::open(&folder.join("vectors"), MODEL, DIMENSION)?;
    let mut spent = [Duration::ZERO; 2];
    for first in (0..chunks).step_by(BATCH as usize) {
        let numbers: Vec<i64> = (first..(first + BATCH).min(chunks)).collect();
        let made: Vec<(String, Vec<f32>)> =
            numbers.iter().map(|&number| (text(number), vector(number))).collect();
        let pairs = || numbers.iter().map(|&number| ChunkId(number)).zip(&made);
        let begin = Instant::now();
        let entries: Vec<LexicalEntry<'_>> = pairs()
            .map(|(chunk, (text, _))| LexicalEntry {
                chunk,
                collection: COLLECTION,
                headings: "",
                text,
                is_code: false,
                language: None,
            })
            .collect();
        lexical.add(&entries)?;
        spent[0] += begin.elapsed();
        let begin = Instant::now();
        let entries: Vec<VectorEntry<'_>> = pairs()
            .map(|(chunk, (_, vector))| VectorEntry { chunk, collection: COLLECTION, vector })
            .collect();
        vectors.add(&entries)?;
        spent[1] += begin.elapsed();
    }
    let begin = Instant::now();
    lexical.commit(Generation(chunks as u64))?;
    spent[0] += begin.elapsed();
    let begin = Instant::now();
    vectors.commit(Generation(chunks as u64))?;
    spent[1] += begin.elapsed();
    let [lexical, vectors] = spent.map(|spent| chunks as f64 / spent.as_secs_f64());
    Ok(json!({ "lexical_chunks_per_second": lexical, "vectors_per_second": vectors }))
}

fn search(folder: &Path) -> Result<Value> {
    let begin = Instant::now();
    let lexical = LexicalIndex::open(&folder.join("lexical"))?;
    let vectors = VectorIndex::open(&folder.join("vectors"), MODEL, DIMENSION)?;
    let chunks = vectors.len()? as i64;
    vectors.nearest(&question_vector(chunks), None, None, CANDIDATES)?;
    let open = begin.elapsed();

    let mut times = Vec::new();
    for number in 0..QUESTIONS {
        let (words, vector) = (question_text(number), question_vector(chunks + number));
        // Both at once, as the product does.
        let begin = Instant::now();
        let (words, meaning) = std::thread::scope(|scope| {
            let words = scope.spawn(|| (lexical.search(&words, None, None, CANDIDATES), begin.elapsed()));
            let meaning = (vectors.nearest(&vector, None, None, CANDIDATES), begin.elapsed());
            (words.join(), meaning)
        });
        let ((by_words, words), (by_meaning, meaning)) = (words.map_err(|_| anyhow!("it failed"))?, meaning);
        let (by_words, by_meaning) = (by_words?, by_meaning?);
        times.push([words.max(meaning), words, meaning]);
        if by_words.is_empty() || by_meaning.len() < CANDIDATES.min(chunks as usize) {
            bail!("question {number} found too little");
        }
    }
    let memory = resident_kilobytes()?;
    let of = |part: usize, share: f64| {
        let mut times: Vec<Duration> = times.iter().map(|time| time[part]).collect();
        times.sort();
        times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3
    };
    Ok(json!({
        "chunks": chunks,
        "open_ms": open.as_secs_f64() * 1e3,
        "search_ms": { "p50": of(0, 0.5), "p99": of(0, 0.99) },
        "lexical_ms": { "p50": of(1, 0.5), "p99": of(1, 0.99) },
        "vectors_ms": { "p50": of(2, 0.5), "p99": of(2, 0.99) },
        "resident_mb": memory as f64 / 1e3,
        "recall_at_10": recall(&vectors, chunks)?,
    }))
}

/// The same vectors in both stores: how long they take to be added and to be found, and how many of the true nearest are found.
fn compare(folder: &Path, url: &str, chunks: i64) -> Result<Value> {
    let settings = QdrantSettings { url: url.into(), api_key: None, tls_ca: None, truth: "measured".into() };
    let qdrant = Qdrant::new(&settings)?;
    qdrant.remove_all()?;
    let embedded = Arc::new(VectorIndex::open(&folder.join("vectors"), MODEL, DIMENSION)?);
    let stores: [(&str, Arc<dyn VectorWrite>); 2] =
        [("embedded", embedded), ("qdrant", qdrant.vectors(MODEL, DIMENSION))];
    let mut spent = [Duration::ZERO; 2];
    for first in (0..chunks).step_by(BATCH as usize) {
        let numbers: Vec<i64> = (first..(first + BATCH).min(chunks)).collect();
        let made: Vec<Vec<f32>> = numbers.iter().map(|&number| vector(number)).collect();
        for ((_, store), spent) in stores.iter().zip(&mut spent) {
            let entry =
                |(number, vector)| VectorEntry { chunk: ChunkId(number), collection: COLLECTION, vector };
            let begin = Instant::now();
            store.add(
                &numbers.iter().copied().zip(made.iter().map(Vec::as_slice)).map(entry).collect::<Vec<_>>(),
            )?;
            *spent += begin.elapsed();
        }
    }
    for ((_, store), spent) in stores.iter().zip(&mut spent) {
        let begin = Instant::now();
        store.commit(Generation(chunks as u64))?;
        *spent += begin.elapsed();
    }
    let begin = Instant::now();
    wait_until_linked(url)?;
    spent[1] += begin.elapsed();
    let mut times: [Vec<Duration>; 2] = Default::default();
    for number in 0..QUESTIONS {
        let vector = question_vector(chunks + number);
        for ((_, store), times) in stores.iter().zip(&mut times) {
            let begin = Instant::now();
            store.nearest(&vector, Some(&[COLLECTION]), None, CANDIDATES)?;
            times.push(begin.elapsed());
        }
    }
    let mut figures = json!({ "chunks": chunks });
    for (((name, store), times), spent) in stores.iter().zip(&mut times).zip(spent) {
        times.sort();
        let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
        figures[*name] = json!({
            "vectors_per_second": chunks as f64 / spent.as_secs_f64(),
            "search_ms": { "p50": at(0.5), "p99": at(0.99) },
            "recall_at_10": recall(&**store, chunks)?,
        });
    }
    qdrant.remove_all()?;
    Ok(figures)
}

/// Waits until Qdrant has put everything into its graphs.
fn wait_until_linked(url: &str) -> Result<()> {
    let get = |path: &str| -> Result<Value> {
        let answer = reqwest::blocking::get(format!("{}/{path}", url.trim_end_matches('/')))?;
        Ok(serde_json::from_slice(&answer.bytes()?)?)
    };
    loop {
        let all = get("collections")?;
        let names = all["result"]["collections"].as_array().context("a list of collections")?;
        let mut is_linked = true;
        for name in names.iter().filter_map(|listed| listed["name"].as_str()) {
            is_linked &= get(&format!("collections/{name}"))?["result"]["status"] == "green";
        }
        if is_linked {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// The share of the true nearest that is found.
fn recall(vectors: &dyn VectorWrite, chunks: i64) -> Result<f64> {
    let questions: Vec<Vec<f32>> =
        (0..EXACT_QUESTIONS).map(|number| question_vector(chunks + number)).collect();
    let mut exact: Vec<Vec<(f32, i64)>> = vec![Vec::new(); questions.len()];
    for chunk in 0..chunks {
        let candidate = vector(chunk);
        for (question, best) in questions.iter().zip(&mut exact) {
            let cosine: f32 = question.iter().zip(&candidate).map(|(one, other)| one * other).sum();
            if best.len() < NEAREST || cosine > best[NEAREST - 1].0 {
                best.push((cosine, chunk));
                best.sort_by(|one, other| other.0.total_cmp(&one.0));
                best.truncate(NEAREST);
            }
        }
    }
    let mut found = 0;
    for (question, exact) in questions.iter().zip(&exact) {
        let hits = vectors.nearest(question, None, None, CANDIDATES)?;
        found += hits
            .iter()
            .take(NEAREST)
            .filter(|hit| exact.iter().any(|(_, chunk)| *chunk == hit.chunk.0))
            .count();
    }
    Ok(found as f64 / (EXACT_QUESTIONS as usize * NEAREST.min(chunks as usize)) as f64)
}

/// Text like that of documents: few frequent words, many rare ones.
fn text(number: i64) -> String {
    let mut random = Random::of(number, 1);
    (0..120).map(|_| word(random.zipf(200_000))).collect::<Vec<_>>().join(" ")
}

fn question_text(number: i64) -> String {
    let mut random = Random::of(number, 2);
    (0..6).map(|_| word(20 + random.zipf(20_000))).collect::<Vec<_>>().join(" ")
}

fn word(rank: u64) -> String {
    const SYLLABLES: [&str; 16] = [
        "ka", "lo", "mi", "ne", "ru", "sa", "te", "vo", "xi", "zu", "bra", "cle", "dro", "fri", "gnu", "pli",
    ];
    let mut word = String::new();
    let mut rest = rank + 16;
    while rest > 0 {
        word.push_str(SYLLABLES[(rest % 16) as usize]);
        rest /= 16;
    }
    word
}

/// Weights of a topic, of its parts, and of what a text itself adds.
const WEIGHTS: [f32; 3] = [1.0, 0.5, 1.5];
/// Topics, and parts of each.
const PARTS: usize = 100;
/// Directions in which what belongs to a topic varies.
const DIRECTIONS: usize = 24;
const NOISE: f32 = 0.6;

/// Vectors as the model makes them of texts: they belong to topics, and vary within them in far fewer directions than there are
/// numbers. The constants are the ones of some twelve that were tried with which a graph finds about as much as with real vectors:
/// of the ten nearest of a question among 6,267, looking at 10, 20 and 40 candidates, 0.927, 0.984 and 0.993; among the texts of
/// cosqa, embedded by all-MiniLM-L6-v2, 0.937, 0.981 and 0.992. Whether that is so among a million is not known.
fn vector(number: i64) -> Vec<f32> {
    of_some_topic(Random::of(number, 3))
}

/// Questions lie among what is asked about.
fn question_vector(number: i64) -> Vec<f32> {
    of_some_topic(Random::of(number, 4))
}

fn of_some_topic(mut random: Random) -> Vec<f32> {
    static POOL: LazyLock<Vec<Vec<f32>>> = LazyLock::new(|| normal_vectors(4096, 5));
    let mut vector = vec![0.0; DIMENSION];
    let mut topic = 0;
    for (level, weight) in WEIGHTS.iter().enumerate() {
        let part = topic * PARTS as i64 + random.below(PARTS) as i64 + 1;
        let mut directions = Random::of(topic, 6);
        // Texts of a part have what it adds to the topic in common; the last is their own.
        let mut shared = Random::of(part, 7);
        for _ in 0..DIRECTIONS {
            let amount = if level + 1 < WEIGHTS.len() { shared.normal() } else { random.normal() };
            let amount = amount * weight / (DIRECTIONS as f32).sqrt();
            let direction = &POOL[directions.below(POOL.len())];
            vector.iter_mut().zip(direction).for_each(|(value, along)| *value += amount * along);
        }
        topic = part;
    }
    vector.iter_mut().for_each(|value| *value += NOISE * random.normal());
    let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
    vector.iter_mut().for_each(|value| *value /= length);
    vector
}

fn normal_vectors(count: i64, purpose: u64) -> Vec<Vec<f32>> {
    let one = |number| {
        let mut random = Random::of(number, purpose);
        (0..DIMENSION).map(|_| random.normal()).collect()
    };
    (0..count).map(one).collect()
}

/// Numbers that look random and are the same every time.
struct Random(u64);

impl Random {
    fn of(number: i64, purpose: u64) -> Self {
        let mixed =
            (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ purpose.wrapping_mul(0xd134_2543_de82_ef95);
        let mut random = Self(mixed | 1);
        random.next();
        random
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    fn below(&mut self, count: usize) -> usize {
        (self.next() % count as u64) as usize
    }

    fn unit(&mut self) -> f64 {
        (self.next() & 0xffff_ffff) as f64 / (1_u64 << 32) as f64
    }

    /// About normal: the sum of three.
    fn normal(&mut self) -> f32 {
        ((self.unit() + self.unit() + self.unit()) * 2.0 - 3.0) as f32
    }

    /// A rank below `most`, the smaller the likelier.
    fn zipf(&mut self, most: u64) -> u64 {
        ((most as f64).powf(self.unit()) - 1.0) as u64
    }
}

fn processor_seconds() -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields = stat.rsplit_once(") ").context("the kernel's times have an unknown form")?.1;
    let ticks = fields.split(' ').skip(11).take(2).map(str::parse::<f64>).sum::<Result<f64, _>>()?;
    Ok(ticks / 100.0)
}

fn resident_kilobytes() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}
