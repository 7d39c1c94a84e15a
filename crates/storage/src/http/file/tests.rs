//! Tests with servers whose later responses contradict the response that opened the file.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::time::Duration;

use super::*;
use crate::StorageErrorKind;

const SIZE_BYTES: u64 = 100_000;

/// Opens a file on a test server that sends these responses, one per connection.
fn opened(answers: Vec<String>) -> HttpFile {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/f", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let lines = BufReader::new(stream.try_clone().unwrap()).lines();
            lines.map_while(std::io::Result::ok).take_while(|line| !line.is_empty()).for_each(drop);
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    let settings = Settings { tries_max: 2, pause: Duration::ZERO, ..Settings::default() };
    HttpFile::open(&url, &settings).unwrap()
}

fn answer(headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {headers}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
}

/// Returns the response to the request that opens the file.
fn first() -> String {
    answer(&format!("206 Partial Content\r\nETag: \"one\"\r\nContent-Range: bytes 0-0/{SIZE_BYTES}"), "x")
}

fn several(tag: &str, parts: &[(&str, &str)]) -> String {
    let part = |(range, bytes): &(&str, &str)| format!("\r\n--B\r\nContent-Range: bytes {range}\r\n\r\n{bytes}");
    let body = parts.iter().map(part).collect::<String>() + "\r\n--B--\r\n";
    let kind = "Content-Type: multipart/byteranges; boundary=B";
    answer(&format!("206 Partial Content\r\nETag: \"{tag}\"\r\n{kind}"), &body)
}

fn read(file: &HttpFile, ranges: &[(u64, u64)]) -> crate::Result<ReadEffort> {
    let of = |(offset, length): &(u64, u64)| RangeRead::new(ByteRange::new(*offset, *length));
    file.read_ranges(&mut ranges.iter().map(of).collect::<Vec<_>>())
}

#[test]
fn parts_of_another_version_are_refused() {
    for changed in [
        several("two", &[("0-1/100000", "ab"), ("5000-5001/100000", "cd")]),
        several("one", &[("0-1/99999", "ab"), ("5000-5001/99999", "cd")]),
    ] {
        let file = opened(vec![first(), changed]);
        let error = read(&file, &[(0, 2), (5000, 2)]).unwrap_err();
        assert_eq!(error.kind, StorageErrorKind::Changed, "{error}");
        assert!(!error.retry_may_help());
    }
}

#[test]
fn a_whole_file_of_another_version_is_refused() {
    let file = opened(vec![first(), answer("200 OK\r\nETag: \"two\"", &"y".repeat(SIZE_BYTES as usize))]);
    assert_eq!(read(&file, &[(0, SIZE_BYTES)]).unwrap_err().kind, StorageErrorKind::Changed);
}

#[test]
fn only_bytes_that_came_are_counted() {
    let promised = several("one", &[("0-18446744073709551613/100000", "ab")]);
    let right = several("one", &[("0-1/100000", "ab"), ("5000-5001/100000", "cd")]);
    let file = opened(vec![first(), promised, right]);
    assert_eq!(read(&file, &[(0, 2), (5000, 2)]).unwrap().read_bytes, 4);
}

#[test]
fn a_large_answer_comes_to_its_place_in_the_memory_of_the_reader() {
    const LARGE: usize = 3_000_000;
    let content: String = (0..LARGE).map(|at| char::from(b'a' + (at * at / 7 % 26) as u8)).collect();
    let part = |range: &str, body: &str| {
        answer(&format!("206 Partial Content\r\nETag: \"one\"\r\nContent-Range: bytes {range}/{LARGE}"), body)
    };
    let whole = part(&format!("7-{}", LARGE - 1), &content[7..]);
    let cut = whole[..whole.len() / 3].to_owned();
    for (answers, is_first_try) in [(vec![whole.clone()], true), (vec![cut, whole], false)] {
        let file = opened([vec![part("0-0", "a")], answers].concat());
        let buffer = vec![1; LARGE + 1000];
        let address = buffer.as_ptr();
        let mut reads = [RangeRead::reusing(ByteRange::new(7, LARGE as u64 - 7), buffer)];
        file.read_ranges(&mut reads).unwrap();
        let [read] = reads;
        assert!(read.bytes() == &content.as_bytes()[7..]);
        // The first response arrives completely, so its buffer must come back. A buffer lent to a broken connection may
        // be lost.
        assert!(!is_first_try || read.into_buffer().0.as_ptr() == address);
    }
}

#[test]
fn an_answer_longer_than_its_range_is_refused_whatever_its_size() {
    for length in [10, 2_000_000] {
        let part = |range: String, body: &str| {
            answer(&format!("206 Partial Content\r\nContent-Range: bytes {range}/3000000"), body)
        };
        let long = part(format!("5-{}", length + 4), &"y".repeat(length + 20));
        let file = opened(vec![part("0-0".to_owned(), "x"), long.clone(), long]);
        assert_eq!(read(&file, &[(5, length as u64)]).unwrap_err().kind, StorageErrorKind::Protocol);
    }
}

#[test]
fn failures_count_for_the_storage_element_of_the_file() {
    let file = opened(vec![String::new(), first()]);
    assert_eq!(crate::servers::failure_counts::troubles_with(file.name()).retries_count, 1);
}
