//! Bytes <-> ROOT structures: files, keys, streamers, trees, baskets, compression. No I/O, no threads.
