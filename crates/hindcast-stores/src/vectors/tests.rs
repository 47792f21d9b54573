use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

const DIMENSION: usize = 16;
const MODEL: &str = "test-model";
const ONE: CollectionKey = CollectionKey(1);
const TWO: CollectionKey = CollectionKey(2);

/// A vector of length one that only its number decides.
fn vector(number: i64) -> Vec<f32> {
    let mut state = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut vector: Vec<f32> = (0..DIMENSION)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 40) as f32 / (1 << 24) as f32 - 0.5
        })
        .collect();
    let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
    vector.iter_mut().for_each(|value| *value /= length);
    vector
}

fn add(index: &VectorIndex, collection: CollectionKey, chunks: impl Iterator<Item = i64>) {
    let vectors: Vec<(i64, Vec<f32>)> = chunks.map(|chunk| (chunk, vector(chunk))).collect();
    let entries: Vec<VectorEntry<'_>> = vectors
        .iter()
        .map(|(chunk, vector)| VectorEntry { chunk: ChunkId(*chunk), collection, vector })
        .collect();
    index.add(&entries).unwrap();
}

fn nearest(index: &VectorIndex, number: i64, within: Option<&[CollectionKey]>) -> Option<i64> {
    index.nearest(&vector(number), within, None, 3).unwrap().first().map(|hit| hit.chunk.0)
}

fn open(folder: &tempfile::TempDir) -> VectorIndex {
    VectorIndex::open(folder.path(), MODEL, DIMENSION).unwrap()
}

fn files(folder: &tempfile::TempDir) -> usize {
    fs::read_dir(folder.path()).unwrap().count()
}

#[test]
fn what_was_committed_is_found_after_opening_again_and_what_was_not_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let index = open(&folder);
    assert_eq!(index.generation(), None);
    add(&index, ONE, 1..=500);
    index.commit(Generation(7)).unwrap();
    add(&index, ONE, 501..=600);
    assert_eq!((index.len(), nearest(&index, 550, None)), (600, Some(550)));
    drop(index);

    let index = open(&folder);
    assert_eq!((index.len(), index.generation()), (500, Some(Generation(7))));
    assert_eq!(nearest(&index, 42, None), Some(42));
    assert_ne!(nearest(&index, 550, None), Some(550));
    assert_eq!(index.contents(ONE).unwrap(), (1..=500).map(ChunkId).collect::<Vec<_>>());
    assert!(index.stored_bytes(ONE) > 500 * 2 * DIMENSION as u64);
}

#[test]
fn a_search_within_a_collection_sees_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let index = open(&folder);
    add(&index, ONE, 1..=100);
    add(&index, TWO, 101..=103);
    for committed in [false, true] {
        assert_eq!(nearest(&index, 50, Some(&[ONE])), Some(50), "{committed}");
        assert!(nearest(&index, 50, Some(&[TWO])).is_some_and(|chunk| chunk > 100), "{committed}");
        assert_eq!(nearest(&index, 50, Some(&[])), None, "{committed}");
        index.commit(Generation(1)).unwrap();
    }
}

#[test]
fn removed_chunks_are_not_found_and_mostly_empty_segments_are_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let index = open(&folder);
    add(&index, ONE, 1..=400);
    index.commit(Generation(1)).unwrap();
    let whole = index.stored_bytes(ONE);

    index.remove(ONE, &[ChunkId(9), ChunkId(4711)]).unwrap();
    index.commit(Generation(2)).unwrap();
    assert_ne!(nearest(&index, 9, None), Some(9));
    drop(index);
    let index = open(&folder);
    assert_ne!(nearest(&index, 9, None), Some(9), "forgotten at the next start");
    assert_eq!((index.len(), index.stored_bytes(ONE)), (399, whole));

    index.remove(ONE, &(1..=300).map(ChunkId).collect::<Vec<_>>()).unwrap();
    index.commit(Generation(3)).unwrap();
    assert_eq!((index.len(), nearest(&index, 350, None)), (100, Some(350)));
    assert!(index.stored_bytes(ONE) < whole / 2, "{} of {whole}", index.stored_bytes(ONE));
    assert_eq!(index.contents(ONE).unwrap().len(), 100);
}

#[test]
fn a_collection_that_goes_takes_its_files_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let index = open(&folder);
    add(&index, ONE, 1..=10);
    index.commit(Generation(1)).unwrap();
    let files_of_one = files(&folder);
    add(&index, TWO, 11..=20);
    index.commit(Generation(2)).unwrap();
    assert!(files(&folder) > files_of_one);
    index.remove_collection(TWO).unwrap();
    index.commit(Generation(3)).unwrap();
    assert_eq!((files(&folder), index.collections()), (files_of_one, vec![ONE]));
}

#[test]
fn adding_a_chunk_again_gives_it_the_new_vector() {
    let folder = tempfile::tempdir().unwrap();
    let index = open(&folder);
    for committed_between in [false, true] {
        add(&index, ONE, 1..=50);
        if committed_between {
            index.commit(Generation(1)).unwrap();
        }
        let moved = vector(1000);
        index.add(&[VectorEntry { chunk: ChunkId(5), collection: ONE, vector: &moved }]).unwrap();
        assert_eq!((nearest(&index, 1000, None), index.len()), (Some(5), 50), "{committed_between}");
        assert_ne!(nearest(&index, 5, None), Some(5), "{committed_between}");
    }
}

#[test]
fn another_model_or_a_damaged_file_means_an_empty_index_to_be_filled_again() {
    let folder = tempfile::tempdir().unwrap();
    let index = open(&folder);
    add(&index, ONE, 1..=50);
    index.commit(Generation(1)).unwrap();
    drop(index);

    let other = VectorIndex::open(folder.path(), "another-model", DIMENSION).unwrap();
    assert_eq!((other.len(), other.generation()), (0, None));

    let graph = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|extension| extension == "graph"))
        .unwrap();
    let bytes = fs::read(&graph).unwrap();
    fs::write(&graph, &bytes[..bytes.len() / 2]).unwrap();
    let damaged = open(&folder);
    assert_eq!((damaged.len(), damaged.generation()), (0, None));
    add(&damaged, ONE, 1..=50);
    damaged.commit(Generation(2)).unwrap();
    assert_eq!(nearest(&open(&folder), 33, None), Some(33));
}

#[test]
fn vectors_of_a_wrong_length_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let index = open(&folder);
    let expected = IndexError::Dimension { expected: DIMENSION, given: 3 };
    assert_eq!(index.nearest(&[0.0; 3], None, None, 1).unwrap_err(), expected);
    let short = VectorEntry { chunk: ChunkId(1), collection: ONE, vector: &[0.0; 3] };
    assert_eq!(index.add(&[short]).unwrap_err(), expected);
}

#[test]
fn many_search_while_one_writes() {
    let folder = tempfile::tempdir().unwrap();
    let index = open(&folder);
    add(&index, ONE, 1..=200);
    index.commit(Generation(1)).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for searcher in 0..8 {
            let (index, done) = (&index, &done);
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    assert_eq!(nearest(index, searcher + 1, None), Some(searcher + 1));
                }
            });
        }
        for round in 0..20 {
            let first = 1000 + round * 50;
            add(&index, ONE, first..first + 50);
            index.remove(ONE, &(first..first + 10).map(ChunkId).collect::<Vec<_>>()).unwrap();
            if round % 5 == 4 {
                index.commit(Generation(round as u64)).unwrap();
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(index.len(), 200 + 20 * 40);
}

#[test]
fn small_segments_become_one_and_full_ones_stay() {
    let folder = tempfile::tempdir().unwrap();
    let mut index = open(&folder);
    index.sizes = Sizes { small: 20, full: 250 };
    let sizes = |index: &VectorIndex| -> Vec<usize> {
        index.reading().collections[&ONE].iter().map(Segment::len).collect()
    };
    let mut seen = Vec::new();
    for round in 0..12 {
        add(&index, ONE, round * 30..round * 30 + 30);
        index.remove(ONE, &[ChunkId(round * 30)]).unwrap();
        index.commit(Generation(round as u64)).unwrap();
        seen.push(sizes(&index));
        for chunk in (0..round * 30 + 30).filter(|chunk| chunk % 30 != 0).step_by(7) {
            assert_eq!(nearest(&index, chunk, None), Some(chunk), "{round}");
        }
    }
    // Each was linked anew only when its segment doubled.
    assert_eq!(seen[..5], [vec![29], vec![58], vec![58, 29], vec![116], vec![116, 29]]);
    assert_eq!(seen[11], [232, 116]);
    assert_eq!(files(&folder), 1 + 2 * seen[11].len());
    assert_eq!(open(&folder).len(), 12 * 29);
}

#[test]
fn a_search_among_some_finds_the_nearest_of_them_however_far_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let index = open(&folder);
    add(&index, ONE, 1..=30_000);
    index.commit(Generation(1)).unwrap();
    add(&index, ONE, 30_001..=30_100);
    index.remove(ONE, &[ChunkId(25_000)]).unwrap();
    let exact = |of: &mut dyn Iterator<Item = i64>, query: &[f32]| {
        let mut scored: Vec<(f32, i64)> = of
            .map(|chunk| (vector(chunk).iter().zip(query).map(|(one, other)| one * other).sum(), chunk))
            .collect();
        scored.sort_by(|one, other| other.0.total_cmp(&one.0));
        scored.into_iter().take(5).map(|(_, chunk)| chunk).collect::<Vec<_>>()
    };
    // A handful, some that are mostly elsewhere, and most.
    for chosen in [
        (7..=30_050).step_by(6_000).collect::<Vec<i64>>(),
        (24_990..25_010).collect(),
        (1..=29_000).collect(),
    ] {
        let only: ChunkSet = chosen.iter().copied().map(ChunkId).collect();
        for question in 0..20 {
            let query = vector(1_000_000 + question);
            let found = index.nearest(&query, None, Some(&only), 5).unwrap();
            let found: Vec<_> = found.iter().map(|hit| hit.chunk.0).collect();
            let expected = exact(&mut chosen.iter().copied().filter(|chunk| *chunk != 25_000), &query);
            assert_eq!(found.len(), expected.len());
            let same = found.iter().filter(|chunk| expected.contains(chunk)).count();
            assert!(same + 1 >= expected.len(), "{found:?} {expected:?}");
        }
    }
}
