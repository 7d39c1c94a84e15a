//! Everything that is logged is written, completely and once.
#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::path::Path;
use std::time::Instant;

use super::lock::locked;
use super::records::BUFFER_MAX;
use super::writer::{current, with_log};
use super::*;

/// Returns the blocks in a journal: letter and records of each.
fn blocks_in(folder: &Path) -> Vec<(u8, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        assert_eq!(&bytes[..8], b"BLJOURN2");
        let mut at = 20;
        while at < bytes.len() {
            let length = u32::from_le_bytes(bytes[at + 8..at + 12].try_into().unwrap()) as usize;
            found.push((bytes[at], bytes[at + 12..at + 12 + length].to_vec()));
            at += 12 + length;
        }
        assert_eq!(at, bytes.len());
    }
    found
}

fn bytes_of(blocks: &[(u8, Vec<u8>)], letter: u8) -> usize {
    blocks.iter().filter(|(own, _)| *own == letter).map(|(_, bytes)| bytes.len()).sum()
}

fn records_of(blocks: &[(u8, Vec<u8>)], letter: u8, bytes: usize) -> impl Iterator<Item = Vec<u8>> + use<> {
    let all: Vec<u8> = blocks.iter().filter(|(own, _)| *own == letter).flat_map(|(_, bytes)| bytes.clone()).collect();
    all.chunks_exact(bytes).map(<[u8]>::to_vec).collect::<Vec<_>>().into_iter()
}

fn word(record: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(record[at..at + 4].try_into().unwrap())
}

/// Returns the strings of a journal by ID.
fn names_in(blocks: &[(u8, Vec<u8>)]) -> HashMap<u32, String> {
    let mut found = HashMap::new();
    for (_, block) in blocks.iter().filter(|(letter, _)| *letter == b'N') {
        let mut rest = &block[..];
        while !rest.is_empty() {
            let length = word(rest, 4) as usize;
            let text = String::from_utf8(rest[8..8 + length].to_vec()).unwrap();
            assert!(found.insert(word(rest, 0), text).is_none());
            rest = &rest[8 + length..];
        }
    }
    found
}

fn record_used(branch: UsedBranch<'_>) {
    let place = Some(UsedRange { offset: 100, size_bytes: 50 });
    let (file, tree, basket, entries) = ("a.root", "t", 0, 0..10);
    used(&Used { file, tree, branch, basket, entries, place, decompress_ns: 1, decode_ns: 1 });
}

const PATHS: [&str; 3] = ["px", "py", "pz"];
const REQUESTS_EACH: u32 = 20_000;

/// A single test, because a process has only one journal.
#[test]
fn what_is_logged_is_in_the_file_and_memory_stays_bounded() {
    let folder = std::env::temp_dir().join(format!("branchline-journal-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    assert!(request("read", "a.root", "local", [(0, 5)].into_iter()).is_none());
    let early = Branches::of(PATHS.into_iter());
    begin(&folder).unwrap();
    let mut one = request("read", "a.root", "local", [(7, 5), (20, 6)].into_iter()).unwrap();
    one.got(11);
    one.ended("ok");
    drop(one);
    // A request without an outcome is logged as failed.
    drop(request("read", "a.root", "local", [(1, 1)].into_iter()));
    did("wait", "", Instant::now());
    let alike = [Branches::of(PATHS.into_iter()), Branches::of(PATHS.into_iter())];
    let other = Branches::of(["px", "pzz"].into_iter());
    for (branches, index) in [(&early, 0), (&alike[0], 1), (&alike[1], 2), (&other, 0), (&other, 1), (&alike[0], 0)] {
        record_used(UsedBranch { branches, index });
    }
    let threads: Vec<_> = (0..4)
        .map(|_| {
            std::thread::spawn(|| {
                for at in 0..REQUESTS_EACH {
                    drop(request("read", "c.root", "local", [(at.into(), 1)].into_iter()));
                    let largest = with_log(|own| locked(&own.buffer).bytes_count()).unwrap();
                    assert!(largest < BUFFER_MAX + 1000);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    flush();
    flush();
    assert_eq!(locked(&current().unwrap().buffers).len(), 1, "buffers of threads that ended are given up");
    let late = request("read", "a.root", "local", [(0, 5)].into_iter());
    end().unwrap();
    drop(late);
    assert!(request("read", "a.root", "local", [(0, 5)].into_iter()).is_none());
    let blocks = blocks_in(&folder);
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(bytes_of(&blocks, b'R'), 88 * (2 + 4 * REQUESTS_EACH as usize));
    assert_eq!(bytes_of(&blocks, b'P'), 2 * 20);
    assert_eq!(bytes_of(&blocks, b'W'), 24);
    let names = names_in(&blocks);
    let used = records_of(&blocks, b'U', 72).map(|record| names[&word(&record, 8)].clone()).collect::<Vec<_>>();
    assert_eq!(used, ["px", "py", "pz", "px", "pzz", "px"]);
    // Each string is written once.
    assert_eq!(names.values().filter(|text| *text == "c.root").count(), 1);
    assert_eq!(names.values().filter(|text| *text == "px").count(), 1);
    assert_eq!(blocks[0].0, b'N');
}
