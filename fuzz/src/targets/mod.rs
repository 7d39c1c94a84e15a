//! The fuzz targets. Each feeds bytes to a decoder, and panics if the decoder is wrong or takes too much memory.

mod basket;
mod codecs;
mod file;
mod moved;
mod ntuple_envelopes;
mod ntuple_pages;
mod ntuple_written;
mod objects;
mod records;
mod streamer_infos;
mod sums;
mod tree;
mod written;

/// A function that feeds these bytes to a decoder.
pub type Target = fn(&[u8]);

/// All targets with their names, which are also those of the directories of their corpora.
pub const TARGETS: [(&str, Target); 13] = [
    ("basket", basket::run),
    ("codecs", codecs::run),
    ("file", file::run),
    ("moved", moved::run),
    ("ntuple_envelopes", ntuple_envelopes::run),
    ("ntuple_pages", ntuple_pages::run),
    ("ntuple_written", ntuple_written::run),
    ("objects", objects::run),
    ("records", records::run),
    ("streamer_infos", streamer_infos::run),
    ("sums", sums::run),
    ("tree", tree::run),
    ("written", written::run),
];
