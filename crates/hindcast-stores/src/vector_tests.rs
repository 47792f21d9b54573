//! What every vector store does, tried on each of them.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use hindcast_core::knowledge::{
    ChunkId, ChunkSet, CollectionKey, Generation, IndexError, VectorEntry, VectorWrite,
};
use hindcast_fixtures::qdrant::Anywhere;

use crate::{Qdrant, QdrantSettings, VectorIndex};

pub(crate) const DIMENSION: usize = 16;
pub(crate) const MODEL: &str = "test-model";
const ONE: CollectionKey = CollectionKey(1);
const TWO: CollectionKey = CollectionKey(2);

/// A vector of length one that only its number decides.
pub(crate) fn vector(number: i64) -> Vec<f32> {
    vector_of(number, DIMENSION)
}

pub(crate) fn vector_of(number: i64, dimension: usize) -> Vec<f32> {
    let mut state = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut vector: Vec<f32> = (0..dimension)
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

pub(crate) fn add(index: &dyn VectorWrite, collection: CollectionKey, chunks: impl Iterator<Item = i64>) {
    let vectors: Vec<(i64, Vec<f32>)> = chunks.map(|chunk| (chunk, vector(chunk))).collect();
    let entries: Vec<VectorEntry<'_>> = vectors
        .iter()
        .map(|(chunk, vector)| VectorEntry { chunk: ChunkId(*chunk), collection, vector })
        .collect();
    index.add(&entries).unwrap();
}

pub(crate) fn nearest(index: &dyn VectorWrite, number: i64, within: Option<&[CollectionKey]>) -> Option<i64> {
    index.nearest(&vector(number), within, None, 3).unwrap().first().map(|hit| hit.chunk.0)
}

/// The name of a truth that no other test has.
pub(crate) fn truth() -> String {
    use std::hash::{BuildHasher, RandomState};
    format!("{:016x}", RandomState::new().hash_one(0))
}

/// Runs a test on each store.
fn on_each(test: impl Fn(&dyn VectorWrite)) {
    let folder = tempfile::tempdir().unwrap();
    test(&embedded(folder.path()));
    let Some(server) = Anywhere::start() else { return };
    let settings = QdrantSettings { url: server.url(), api_key: None, tls_ca: None, truth: truth() };
    let qdrant = Qdrant::new(&settings).unwrap();
    let index: Arc<dyn VectorWrite> = qdrant.vectors(MODEL, DIMENSION);
    assert_eq!(index.server(), Some("Qdrant"));
    test(&*index);
    qdrant.remove_all().unwrap();
}

fn embedded(folder: &Path) -> VectorIndex {
    VectorIndex::open(folder, MODEL, DIMENSION).unwrap()
}

#[test]
fn a_search_within_a_collection_sees_no_other() {
    on_each(|index| {
        assert_eq!((index.is_empty(), index.generation()), (Ok(true), Ok(None)));
        add(index, ONE, 1..=100);
        add(index, TWO, 101..=103);
        for committed in [false, true] {
            assert_eq!(nearest(index, 50, Some(&[ONE])), Some(50), "{committed}");
            assert!(nearest(index, 50, Some(&[TWO])).is_some_and(|chunk| chunk > 100), "{committed}");
            assert_eq!(nearest(index, 102, Some(&[ONE, TWO])), Some(102), "{committed}");
            assert_eq!(nearest(index, 50, Some(&[])), None, "{committed}");
            index.commit(Generation(1)).unwrap();
        }
        assert_eq!((index.is_empty(), index.len()), (Ok(false), Ok(103)));
        assert_eq!(index.generation(), Ok(Some(Generation(1))));
    });
}

#[test]
fn what_is_removed_is_not_found_and_not_told() {
    on_each(|index| {
        add(index, ONE, 1..=40);
        add(index, TWO, 41..=60);
        index.remove(ONE, &[ChunkId(9), ChunkId(4711)]).unwrap();
        index.remove(TWO, &[ChunkId(10)]).unwrap();
        assert_ne!(nearest(index, 9, None), Some(9));
        assert_eq!(nearest(index, 10, None), Some(10), "it is in another collection");
        let expected: Vec<_> = (1..=40).filter(|chunk| *chunk != 9).map(ChunkId).collect();
        assert_eq!(index.contents(ONE).unwrap(), expected);
        assert_eq!(index.collections().unwrap(), [ONE, TWO]);

        index.remove_collection(TWO).unwrap();
        index.commit(Generation(1)).unwrap();
        assert_eq!((index.collections().unwrap(), index.len().unwrap()), (vec![ONE], 39));
        assert_eq!(index.contents(TWO).unwrap(), []);
    });
}

#[test]
fn adding_a_chunk_again_gives_it_the_new_vector() {
    on_each(|index| {
        for committed_between in [false, true] {
            add(index, ONE, 1..=50);
            if committed_between {
                index.commit(Generation(1)).unwrap();
            }
            let moved = vector(1000);
            index.add(&[VectorEntry { chunk: ChunkId(5), collection: ONE, vector: &moved }]).unwrap();
            assert_eq!((nearest(index, 1000, None), index.len()), (Some(5), Ok(50)), "{committed_between}");
            assert_ne!(nearest(index, 5, None), Some(5), "{committed_between}");
        }
    });
}

#[test]
fn vectors_of_a_wrong_length_are_refused() {
    on_each(|index| {
        let expected = IndexError::Dimension { expected: DIMENSION, given: 3 };
        assert_eq!(index.nearest(&[0.0; 3], None, None, 1).unwrap_err(), expected);
        let short = VectorEntry { chunk: ChunkId(1), collection: ONE, vector: &[0.0; 3] };
        assert_eq!(index.add(&[short]).unwrap_err(), expected);
    });
}

#[test]
fn many_search_while_one_writes() {
    on_each(|index| {
        add(index, ONE, 1..=200);
        index.commit(Generation(1)).unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for searcher in 0..8 {
                let done = &done;
                scope.spawn(move || {
                    while !done.load(Ordering::Relaxed) {
                        assert_eq!(nearest(index, searcher + 1, None), Some(searcher + 1));
                    }
                });
            }
            for round in 0..20 {
                let first = 1000 + round * 50;
                add(index, ONE, first..first + 50);
                index.remove(ONE, &(first..first + 10).map(ChunkId).collect::<Vec<_>>()).unwrap();
                if round % 5 == 4 {
                    index.commit(Generation(round as u64)).unwrap();
                }
            }
            done.store(true, Ordering::Relaxed);
        });
        assert_eq!(index.len(), Ok(200 + 20 * 40));
    });
}

#[test]
fn a_search_among_some_finds_the_nearest_of_them_however_far_they_are() {
    on_each(|index| {
        add(index, ONE, 1..=30_000);
        index.commit(Generation(1)).unwrap();
        add(index, ONE, 30_001..=30_100);
        index.remove(ONE, &[ChunkId(25_000)]).unwrap();
        let exact = |of: &mut dyn Iterator<Item = i64>, query: &[f32]| {
            let mut scored: Vec<(f32, i64)> = of
                .map(|chunk| (vector(chunk).iter().zip(query).map(|(one, other)| one * other).sum(), chunk))
                .collect();
            scored.sort_by(|one, other| other.0.total_cmp(&one.0));
            scored.into_iter().take(5).map(|(_, chunk)| chunk).collect::<Vec<_>>()
        };
        let all = vector(1_000_000);
        let far =
            |chunk: &i64| vector(*chunk).iter().zip(&all).map(|(one, other)| one * other).sum::<f32>() < -0.1;
        // A handful, some that are mostly elsewhere, most, and a third that is the farthest from the first question.
        for chosen in [
            (7..=30_050).step_by(6_000).collect::<Vec<i64>>(),
            (24_990..25_010).collect(),
            (1..=29_000).collect(),
            (1..=30_000).filter(far).collect(),
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
    });
}
