//! What is told is written, whole and once.
#![allow(clippy::unwrap_used)]

use super::*;

/// The records of each kind in a journal: letter and bytes of each block.
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

const REQUESTS_EACH: u32 = 20_000;

/// One test for all, as there is one journal in a process.
#[test]
fn what_is_told_is_in_the_file_and_memory_stays_bounded() {
    let folder = std::env::temp_dir().join(format!("branchline-journal-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    assert!(request("read", "a.root", "local", [(0, 5)].into_iter()).is_none());
    begin(&folder).unwrap();
    let mut one = request("read", "a.root", "local", [(7, 5), (20, 6)].into_iter()).unwrap();
    one.got(11);
    one.ended("ok");
    drop(one);
    // Without an end it failed.
    drop(request("read", "a.root", "local", [(1, 1)].into_iter()));
    did("wait", "", Instant::now());
    let threads: Vec<_> = (0..4)
        .map(|_| {
            std::thread::spawn(|| {
                for at in 0..REQUESTS_EACH {
                    drop(request("read", "c.root", "local", [(at.into(), 1)].into_iter()));
                    let largest = with_own(|own| locked(&own.buffer).bytes_count()).unwrap();
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
    let names: Vec<u8> =
        blocks.iter().filter(|(letter, _)| *letter == b'N').flat_map(|(_, bytes)| bytes.clone()).collect();
    assert_eq!(names.windows(6).filter(|text| text == b"c.root").count(), 1);
    assert_eq!(blocks[0].0, b'N');
}
