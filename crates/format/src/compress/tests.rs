//! Tests with intact and damaged records, made with the codecs' own compressors.

use liblzma::stream::{Action, Status, Stream};

use super::record::HEADER_BYTES;
use super::*;

/// All codecs that are stored as records, i.e. all except `Codec::None`.
fn codecs() -> impl Iterator<Item = Codec> {
    Codec::ALL.iter().copied().filter(|codec| *codec != Codec::None)
}

/// Bytes that compress to about half their size: small big-endian integers, as in a basket.
fn plain(length: usize) -> Vec<u8> {
    let mut state = 12345_u32;
    let words = (0..length.div_ceil(4)).flat_map(|_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16).to_be_bytes()
    });
    words.take(length).collect()
}

fn record_of(codec: Codec, payload: &[u8], plain_bytes: usize) -> Vec<u8> {
    let mut record = codec.magic().expect("a codec of records").to_vec();
    record.push(codec.method());
    record.extend_from_slice(&(payload.len() as u32).to_le_bytes()[..3]);
    record.extend_from_slice(&(plain_bytes as u32).to_le_bytes()[..3]);
    record.extend_from_slice(payload);
    record
}

fn record(codec: Codec, plain: &[u8]) -> Vec<u8> {
    record_of(codec, &codec.payload(plain), plain.len())
}

fn decompressed(records: &[u8], length: usize) -> Result<(Codec, Vec<u8>), CompressError> {
    let mut out = vec![0xee; length];
    let codec = Decompressor::new().decompress_into(records, &mut out)?;
    Ok((codec, out))
}

fn fault(records: &[u8], length: usize) -> CompressFault {
    decompressed(records, length).expect_err("damaged records should not decompress").fault
}

#[test]
fn records_start_with_the_bytes_of_root() {
    let starts = [
        (Codec::Zlib, b"ZL\x08"),
        (Codec::Lzma, b"XZ\x00"),
        (Codec::Lz4, b"L4\x01"),
        (Codec::Zstd, b"ZS\x01"),
        (Codec::OldCs, b"CS\x08"),
    ];
    for (codec, start) in starts {
        assert_eq!(record(codec, b"plain")[..3], *start, "{codec:?}");
    }
}

#[test]
fn every_codec_gives_the_plain_bytes_and_its_name() {
    let mut decompressor = Decompressor::new();
    for length in [1, 9, 1000, 100_000] {
        let plain = plain(length);
        for codec in codecs() {
            let records = record(codec, &plain);
            let mut out = vec![0; length];
            assert_eq!(decompressor.decompress_into(&records, &mut out), Ok(codec), "{length} bytes");
            assert_eq!(out, plain, "{codec:?}, {length} bytes");
            assert_eq!(Codec::of_record(&records), Some(codec));
        }
    }
}

#[test]
fn a_raw_deflate_stream_made_by_hand_is_read_as_old_cs() {
    // One stored block: the final bit and block type 00, the length and its complement, then the bytes.
    let payload = b"\x01\x04\x00\xfb\xffROOT";
    let records = record_of(Codec::OldCs, payload, 4);
    assert_eq!(decompressed(&records, 4), Ok((Codec::OldCs, b"ROOT".to_vec())));
}

#[test]
fn several_records_follow_each_other_even_of_different_codecs() {
    let plain = plain(50_000);
    let (first, rest) = plain.split_at(20_000);
    for (one, other) in [(Codec::Zlib, Codec::Zlib), (Codec::Lz4, Codec::Lzma), (Codec::Zstd, Codec::OldCs)] {
        let records = [record(one, first), record(other, rest)].concat();
        assert_eq!(decompressed(&records, plain.len()), Ok((one, plain.clone())));
    }
}

#[test]
fn a_whole_above_16_mib_takes_several_full_records() {
    let plain = vec![7; 0xff_ffff + 1000];
    let records: Vec<u8> = plain.chunks(0xff_ffff).flat_map(|part| record(Codec::Zstd, part)).collect();
    assert_eq!(decompressed(&records, plain.len()), Ok((Codec::Zstd, plain)));
}

#[test]
fn no_bytes_at_all_need_no_codec() {
    assert_eq!(decompressed(b"", 0), Ok((Codec::None, vec![])));
}

#[test]
fn a_context_that_met_damage_still_works() {
    let plain = plain(1000);
    let mut decompressor = Decompressor::new();
    for codec in codecs() {
        let good = record(codec, &plain);
        let mut bad = good.clone();
        let middle = bad.len() / 2;
        bad.truncate(middle);
        bad[3..6].copy_from_slice(&((middle - HEADER_BYTES) as u32).to_le_bytes()[..3]);
        let mut out = vec![0; plain.len()];
        decompressor.decompress_into(&bad, &mut out).expect_err("half a payload");
        assert_eq!(decompressor.decompress_into(&good, &mut out), Ok(codec));
        assert_eq!(out, plain);
    }
}

#[test]
fn every_cut_is_an_error_that_names_its_record() {
    let plain = plain(300);
    for codec in codecs() {
        let first = record(codec, &plain);
        let records = [first.clone(), record(codec, &plain)].concat();
        for length in 0..records.len() {
            let error = decompressed(&records[..length], 600).expect_err("a cut sequence");
            let expected = if length < first.len() { 0 } else { first.len() };
            assert_eq!(error.offset, expected, "{codec:?} cut to {length}: {error}");
        }
    }
}

#[test]
fn no_flipped_bit_goes_unnoticed_where_the_codec_has_a_checksum() {
    let plain = plain(200);
    for codec in [Codec::Zlib, Codec::Lz4, Codec::Lzma] {
        let records = record(codec, &plain);
        for bit in 0..records.len() * 8 {
            let mut flipped = records.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            // A flipped bit may be unused and thus harmless.
            if let Ok((_, out)) = decompressed(&flipped, plain.len()) {
                assert_eq!(out, plain, "{codec:?} with bit {bit} flipped");
            }
        }
    }
}

#[test]
fn a_valid_stream_that_ends_before_its_record_is_an_error() {
    let plain = plain(200);
    for codec in [Codec::Zlib, Codec::Zstd, Codec::Lz4, Codec::Lzma] {
        for rest in [&b"\0"[..], b"\0\0\0\0", b"twelve bytes"] {
            let records = record_of(codec, &[&codec.payload(&plain), rest].concat(), plain.len());
            decompressed(&records, plain.len()).expect_err(codec.name());
        }
    }
}

#[test]
fn flipped_bits_without_a_checksum_do_no_more_than_change_bytes() {
    let plain = plain(200);
    for codec in [Codec::Zstd, Codec::OldCs] {
        let records = record(codec, &plain);
        for bit in 0..records.len() * 8 {
            let mut flipped = records.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            if let Ok((found, out)) = decompressed(&flipped, plain.len()) {
                assert_eq!((found, out.len()), (codec, plain.len()));
            }
        }
    }
}

#[test]
fn unknown_magic_and_method_are_named() {
    let mut records = record(Codec::Zlib, b"plain");
    records[2] = 7;
    assert_eq!(fault(&records, 5), CompressFault::UnknownMethod(7));
    records[..2].copy_from_slice(b"Q\0");
    assert_eq!(fault(&records, 5), CompressFault::UnknownMagic(*b"Q\0"));
    let message = decompressed(&records, 5).expect_err("an unknown magic").to_string();
    assert_eq!(
        message,
        "compression record (unknown) at byte 0: it starts with \"Q\\x00\", which is not the magic of a known codec"
    );
}

#[test]
fn a_plain_size_above_the_room_is_refused_before_decompressing() {
    let records = record(Codec::Zstd, &plain(100));
    let expected = CompressFault::TooLong { plain_bytes: 100, room_bytes: 99 };
    assert_eq!(fault(&records, 99), expected);
}

#[test]
fn a_plain_size_that_lies_is_an_error_with_every_codec() {
    let plain = plain(100);
    for codec in codecs() {
        let payload = codec.payload(&plain);
        for lie in [0, 1, 99, 101, 5000] {
            let error = decompressed(&record_of(codec, &payload, lie), lie.max(1));
            error.expect_err("a lying plain size");
        }
    }
    let short = record_of(Codec::Zlib, &Codec::Zlib.payload(&plain), 101);
    let expected = CompressFault::WrongLength { plain_bytes: 100, promised_bytes: 101 };
    assert_eq!(fault(&short, 101), expected);
}

#[test]
fn a_flipped_lz4_checksum_is_an_error() {
    let mut records = record(Codec::Lz4, &plain(100));
    records[HEADER_BYTES] ^= 1;
    assert!(matches!(fault(&records, 100), CompressFault::Checksum { .. }));
}

#[test]
fn an_lz4_payload_shorter_than_its_checksum_is_an_error() {
    let records = record_of(Codec::Lz4, b"1234567", 100);
    assert!(matches!(fault(&records, 100), CompressFault::Corrupt(_)));
}

#[test]
fn an_xz_dictionary_above_the_memory_limit_is_refused() {
    let mut options = liblzma::stream::LzmaOptions::new_preset(0).unwrap();
    options.dict_size(512 * 1024 * 1024);
    let mut filters = liblzma::stream::Filters::new();
    filters.lzma2(&options);
    let check = liblzma::stream::Check::Crc32;
    let mut stream = Stream::new_stream_encoder(&filters, check).unwrap();
    let mut payload = vec![0; 1000];
    stream.process(b"plain", &mut payload, Action::Finish).unwrap();
    payload.truncate(stream.total_out() as usize);
    assert!(matches!(fault(&record_of(Codec::Lzma, &payload, 5), 5), CompressFault::Corrupt(_)));
}

#[test]
fn too_few_and_too_many_records_are_errors() {
    let records = record(Codec::Zlib, b"plain");
    let expected = CompressFault::EndsEarly { plain_bytes: 5, wanted_bytes: 6 };
    assert_eq!(fault(&records, 6), expected);
    let trailing = [&records[..], b"rest"].concat();
    let error = decompressed(&trailing, 5).expect_err("trailing bytes");
    assert_eq!(error.offset, records.len());
    assert_eq!(error.codec, Some(Codec::Zlib));
    assert_eq!(error.fault, CompressFault::TrailingBytes { count: 4 });
}

#[test]
fn records_without_plain_bytes_do_not_hold_up_the_end() {
    let empty = record(Codec::Zlib, b"");
    let records = [empty.repeat(1000), record(Codec::Zlib, b"plain")].concat();
    assert_eq!(decompressed(&records, 5), Ok((Codec::Zlib, b"plain".to_vec())));
}

#[test]
fn constant_bytes_keep_every_codecs_promise() {
    let plain = vec![0; 0xff_ffff];
    for codec in codecs() {
        let records = record(codec, &plain);
        assert_eq!(check_declared_size(&records, plain.len()), Ok(()), "{codec:?}, {} bytes", records.len());
    }
}

#[test]
fn a_promise_that_no_codec_can_keep_is_refused_before_memory_is_taken() {
    for codec in codecs() {
        let payload = codec.payload(b"plain");
        let records = record_of(codec, &payload, 0xff_ffff);
        let error = check_declared_size(&records, 0xff_ffff).expect_err("16 MiB of five bytes");
        let expected = CompressFault::Implausible { promised_bytes: 0xff_ffff, payload_bytes: payload.len() };
        assert_eq!(error.fault, expected, "{codec:?}");
    }
}

#[test]
fn a_zstd_frame_that_tells_its_plain_size_is_believed_more_than_the_record() {
    let records = record_of(Codec::Zstd, &Codec::Zstd.payload(b"plain"), 6);
    let error = check_declared_size(&records, 6).expect_err("five bytes");
    assert_eq!(error.fault, CompressFault::WrongLength { plain_bytes: 5, promised_bytes: 6 });
}

#[test]
fn records_that_promise_another_length_than_the_whole_are_refused_before_memory_is_taken() {
    let last = record(Codec::Lz4, b"bytes");
    let records = [&record(Codec::Zlib, b"plain")[..], &last].concat();
    assert_eq!(check_declared_size(&records, 10), Ok(()));
    let fault = |length| check_declared_size(&records, length).expect_err("another length").fault;
    assert_eq!(fault(1 << 30), CompressFault::EndsEarly { plain_bytes: 10, wanted_bytes: 1 << 30 });
    assert_eq!(fault(9), CompressFault::TooLong { plain_bytes: 5, room_bytes: 4 });
    assert_eq!(fault(5), CompressFault::TrailingBytes { count: last.len() });
}

#[test]
fn the_dictionary_of_an_xz_stream_is_known_from_its_header() {
    for (preset, size) in [(0, 256 << 10), (1, 1 << 20), (6, 8 << 20), (9, 64 << 20)] {
        let bytes = vec![0; 4 << 20];
        let mut room = vec![0; 20_000];
        let mut stream = Stream::new_easy_encoder(preset, liblzma::stream::Check::Crc32).unwrap();
        assert_eq!(stream.process(&bytes, &mut room, Action::Finish).unwrap(), Status::StreamEnd);
        let records = record_of(Codec::Lzma, &room[..stream.total_out() as usize], bytes.len());
        assert_eq!(working_bytes(&records, bytes.len()), size.min(4 << 20), "preset {preset}");
    }
    let records = record(Codec::Zstd, &plain(5000));
    assert_eq!(working_bytes(&records, 5000), 0);
}
