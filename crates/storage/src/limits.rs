//! Limits of this crate, each with the reason for its value.
//!
//! ```
//! use branchline_storage::limits::{CACHE_BYTES, TREE_CACHE_BYTES};
//!
//! assert!(TREE_CACHE_BYTES < CACHE_BYTES);
//! ```

use std::time::Duration;

/// One mebibyte, in bytes.
pub const MIB: u64 = 1 << 20;
/// One gibibyte, in bytes.
pub const GIB: u64 = 1 << 30;

/// Largest gap across which two ranges of a local file are read as one. A read call on cached bytes costs about 0.5 us,
/// as much as copying 10 to 16 KiB. On a disk, the kernel's readahead covers larger gaps anyway.
pub(crate) const LOCAL_GAP_BYTES: u64 = 16 * 1024;

/// Largest gap across which two ranges of a file on a server are read as one. Each range costs the client and the
/// server about 10 us, in which the link of one job (100 MB/s) transfers 1 KB. Each range also costs the server's disks
/// a seek, which takes as long as transferring 1 MB.
pub(crate) const REMOTE_GAP_BYTES: u64 = 128 * 1024;

/// Largest gap across which two ranges of a file on S3 or WebHDFS are read as one. Each range is a separate request,
/// which takes the server 5 to 30 ms, with eight requests in parallel. One connection transfers about this many bytes
/// in that time.
pub(crate) const S3_GAP_BYTES: u64 = 256 * 1024;

/// Maximum size of a range that is joined from smaller ones. At this size the cost of a call is negligible; larger
/// buffers would only delay the first basket and use more memory.
pub const MAX_JOINED_BYTES: u64 = 8 * MIB;

/// Default number of bytes that the access mode `cache` reads together, as in TTreeCache since ROOT 5.34.
pub const TREE_CACHE_BYTES: u64 = 30_000_000;

/// Number of recent calls whose shortest duration is taken as the round-trip time: enough calls to include a fast one,
/// and few enough to notice an increase within seconds.
pub(crate) const LINK_SAMPLES: usize = 32;
/// Minimum number of pending bytes that fill a link. With fewer pending bytes, the link is not the bottleneck, and its
/// bandwidth is not measured.
pub(crate) const LINK_FULL_BYTES: u64 = 4 << 20;
/// Minimum number of bytes to receive over a full link (see `LINK_FULL_BYTES`) before its bandwidth counts as known.
/// This is the size of a few requests.
pub(crate) const LINK_BYTES_MIN: u64 = 16 << 20;
/// Time constant of the exponential decay of old bandwidth measurements.
pub(crate) const LINK_MEMORY: Duration = Duration::from_secs(2);
/// Minimum round-trip time for prefetching. Shorter round trips are already hidden, because one thread reads while
/// others decode.
pub(crate) const AHEAD_ROUND_TRIP_MIN: Duration = Duration::from_micros(300);
/// Round-trip time assumed for a server before the first request; typical of an intercontinental link. If the actual
/// time is shorter, some files are opened a little too early.
pub(crate) const EXPECTED_ROUND_TRIP: Duration = Duration::from_millis(63);
/// Lower bound for the limit on bytes in flight: two requests of the largest size, so that the link is never idle
/// between requests.
pub(crate) const AHEAD_BYTES_MIN: u64 = 2 * MAX_JOINED_BYTES;
/// Limit on bytes in flight while the bandwidth is unknown: enough to fill 5 Gbit/s for one intercontinental round
/// trip.
pub(crate) const AHEAD_BYTES_UNKNOWN: u64 = 64 << 20;
/// Maximum number of pending requests to one storage element, and maximum number of connections to that element.
pub(crate) const AHEAD_REQUESTS_MAX: usize = 64;
/// Number of round trips that reading a few branches of a small file takes: open, metadata, baskets.
pub(crate) const FILE_ROUND_TRIPS: u32 = 3;
/// Minimum CPU time for opening and reading a small file. Determines how many files must be opened ahead to hide a
/// round trip.
pub(crate) const FILE_WORK_MIN: Duration = Duration::from_millis(3);
/// Longest gap between two ranges that are read as one, expressed as the gap's transfer time over the link. An
/// additional range costs a server about this much time.
pub(crate) const GAP_TIME: Duration = Duration::from_millis(2);
/// Lower bound for the limit on gaps between joined ranges. Reading a smaller gap is always cheaper, because the header
/// of a separate range takes bytes too.
pub(crate) const GAP_MIN_BYTES: u64 = 4 << 10;

/// Timeout for connecting to a server. TCP retransmits its first packet after 1, 3 and 7 s.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// Maximum time that a server may be silent while a response is pending. Staging a file from tape takes longer, but the
/// server then asks the client to wait.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Minimum transfer rate in bytes per second. A slower server is treated like a silent one: at this rate, 500 MB would
/// take more than ten days.
pub(crate) const BYTES_PER_SECOND_MIN: u64 = 512;
/// Time limit for a response of unknown size, as a multiple of the silence timeout. By default the limit is 12 minutes,
/// enough for the longest listing at 90 kB/s.
pub(crate) const UNKNOWN_SIZE_SILENCES: u32 = 12;
/// Maximum number of attempts per request. With the pauses between attempts, this covers outages of about two seconds.
pub(crate) const TRIES_MAX: u32 = 4;
/// Maximum number of attempts if a request times out. The first attempt detects a dead connection. Every further
/// attempt on a silent server takes the full timeout again.
pub(crate) const TIMED_OUT_TRIES_MAX: u32 = 2;
/// Pause before the first retry; doubled for each further retry.
pub(crate) const RETRY_PAUSE: Duration = Duration::from_millis(300);
/// Maximum pause before a retry.
pub(crate) const RETRY_PAUSE_MAX: Duration = Duration::from_secs(10);

/// Minimum number of parallel requests into which a large read of many ranges from an HTTP server is split: two more
/// than browsers open to one host.
pub(crate) const HTTP_THREADS: usize = 8;
/// Maximum number of ranges in one HTTP request. Each range takes up to 42 characters in a header line, and servers
/// accept lines of 8 KiB.
pub(crate) const HTTP_RANGES_MAX: usize = 150;
/// Maximum total size of the ranges in one HTTP request for several ranges: large enough to hide the request overhead,
/// and small enough to distribute a read over threads.
pub(crate) const HTTP_REQUEST_BYTES: u64 = 2 * MIB;
/// Maximum total size of ranges that are read with one HTTP request; several connections would not be faster.
pub(crate) const HTTP_TOGETHER_BYTES: u64 = 256 * 1024;
/// Size of the receive buffer of an HTTP connection: large enough to make calls cheap per byte, and small enough to
/// stay in the CPU cache until the bytes are copied.
pub(crate) const HTTP_BUFFER_BYTES: usize = 128 * 1024;
/// Maximum number of bytes that one call receives directly into a reader's buffer. At this size the bytes stay in the
/// CPU cache until they are counted.
pub(crate) const HTTP_STRAIGHT_BYTES: usize = 512 * 1024;
/// Size of the send buffer of an HTTP connection. Requests are much shorter.
pub(crate) const HTTP_SENT_BYTES: usize = 128 * 1024;
/// Maximum number of redirects of a request. A federation takes two or three.
pub(crate) const REDIRECTS_MAX: u32 = 8;
/// Maximum number of idle connections kept per HTTP server.
pub(crate) const IDLE_CONNECTIONS_MAX: usize = AHEAD_REQUESTS_MAX;
/// Maximum time for which an idle connection is kept. nginx closes idle connections after 75 s.
pub(crate) const IDLE_TIME_MAX: Duration = Duration::from_secs(50);
/// Maximum total size of an HTTP response's headers.
pub(crate) const HTTP_HEADERS_BYTES_MAX: usize = 64 * 1024;
/// Maximum length of a header or boundary line in a multipart response.
pub(crate) const PART_LINE_BYTES_MAX: usize = 4 * 1024;
/// Maximum number of header lines of a part in a multipart response.
pub(crate) const PART_LINES_MAX: usize = 32;
/// Maximum size of a file that is downloaded when it is opened, if its server does not support ranges. The download
/// takes 0.1 s at 10 MB/s. A larger file is not downloaded yet, because it may be opened only for its size.
pub(crate) const WHOLE_FILE_AT_ONCE_BYTES: u64 = MIB;
/// Size of the pieces in which a whole file is received from a server without support for ranges, and written to a
/// local disk. Large enough to make calls cheap per byte.
pub(crate) const WHOLE_FILE_PIECE_BYTES: usize = 256 * 1024;
/// Divisor that limits the disk space for a whole file of unknown size to 1/`UNKNOWN_SIZE_ROOM_DIVISOR` of the free
/// space, since the download might never end.
pub(crate) const UNKNOWN_SIZE_ROOM_DIVISOR: u64 = 2;
/// Number of bytes at the start of a response that are checked for a web page: enough for the usual metadata and the
/// title.
pub(crate) const WEB_PAGE_BYTES: u64 = 2048;
/// Maximum size of a file status or exception from WebHDFS. Usually 500 bytes, or a few thousand with a stack trace.
pub(crate) const WEBHDFS_ANSWER_BYTES_MAX: u64 = 64 * 1024;
/// Maximum number of blocks of a file whose DataNode URLs are remembered; covers 128 GiB in blocks of 128 MiB, the
/// usual size.
pub(crate) const WEBHDFS_BLOCKS_MAX: usize = 1024;
/// Maximum size of an fsspec settings file.
pub(crate) const FSSPEC_FILE_BYTES_MAX: u64 = MIB;
/// Maximum size of a bearer token. Grid tokens have one to four KiB.
pub(crate) const TOKEN_BYTES_MAX: u64 = 64 * 1024;

/// Default maximum number of ranges in an XRootD vector read, if the server does not report its limit.
pub(crate) const READV_RANGES: usize = 1024;
/// Default maximum size of each range in an XRootD vector read, if the server does not report its limit.
pub(crate) const READV_RANGE_BYTES: u32 = 2_097_136;
/// Maximum total size of an XRootD vector read: enough to keep the link busy until the next vector read.
pub(crate) const READV_BYTES_MAX: u64 = 4 * MIB;
/// Minimum size of a range that is read individually and with checksums from an XRootD server. The 16-byte header of
/// the response is then negligible.
pub(crate) const READ_ALONE_BYTES: u64 = 128 * 1024;
/// Maximum size of a single XRootD read. Reads end at multiples of this size, which is a multiple of the 4 KiB page.
pub(crate) const READ_BYTES_MAX: u64 = 4 * MIB;
/// Maximum number of pending small requests per XRootD connection. Each request occupies memory on the server.
pub(crate) const REQUESTS_DUE_MAX: usize = 1024;
/// Maximum total size of the requests pending on an XRootD server. They must fit into the socket buffers while the
/// server is busy sending responses.
pub(crate) const REQUESTS_BYTES_MAX: usize = 48 * 1024;
/// Maximum number of additional data connections per XRootD session. Servers do not allow more.
pub(crate) const STREAMS_MAX: usize = 15;
/// Minimum size of a read that uses several XRootD connections. Smaller reads do not benefit.
pub(crate) const STREAMS_BYTES_MIN: u64 = MIB;
/// Maximum number of sessions with one XRootD server.
pub(crate) const SESSIONS_MAX: usize = AHEAD_REQUESTS_MAX;
/// Maximum time for which an XRootD session may be idle and still be reused. Firewalls drop silent connections after
/// five minutes or more.
pub(crate) const SESSION_IDLE_MAX: Duration = Duration::from_secs(120);
/// Maximum size of an XRootD response other than data. The longest responses are lists of settings and login
/// requirements.
pub(crate) const ANSWER_BYTES_MAX: u32 = 256 * 1024;
/// Maximum size of a folder listing, enough for several hundred thousand names.
pub(crate) const LISTING_BYTES_MAX: u64 = 64 << 20;
/// Maximum number of S3 responses that form one listing. Each response contains up to 1000 names.
pub(crate) const LISTING_PAGES_MAX: usize = 1000;
/// Maximum total size of the S3 responses that form one listing: a million names of 500 bytes each, plus XML.
pub(crate) const LISTING_PAGES_BYTES_MAX: u64 = GIB;
/// Maximum number of data servers that are asked for a folder listing, and of redirectors that are asked which data
/// servers exist.
pub(crate) const LISTING_SERVERS_MAX: usize = 1000;
/// Connection timeout for an address of a host with several addresses. TCP retransmits its first packet after 1 s.
pub(crate) const ADDRESS_WAIT: Duration = Duration::from_secs(3);
/// Time for which an address that did not answer is tried last.
pub(crate) const SILENT_FOR: Duration = Duration::from_secs(300);
/// Minimum time before a server that had no checksum of a file is asked again. Servers request 30 s to compute a
/// checksum.
pub(crate) const CHECKSUM_AGAIN: Duration = Duration::from_secs(30);
/// Maximum wait for a file's checksum before its replica is compared with another replica by samples alone.
pub(crate) const CHECKSUM_WAIT: Duration = Duration::from_secs(5);
/// Maximum number of unsolicited XRootD messages between two responses.
pub(crate) const ATTENTIONS_MAX: usize = 1000;
/// Maximum wait that a server may request, for example to stage a file from tape.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(600);
/// Maximum number of login protocols that are tried on an XRootD server. Seven protocols exist.
pub(crate) const LOGIN_PROTOCOLS_MAX: usize = 16;
/// Maximum size of an XRootD `sss` keytab. A key takes 200 bytes.
pub(crate) const KEYS_BYTES_MAX: u64 = MIB;

/// Maximum size of a file with certificates or a key. The largest CA bundles have 300 kB.
pub(crate) const CERTIFICATE_BYTES_MAX: u64 = 4 * MIB;
/// Timeout of a `credential_process`, a program that may contact a server but not prompt the user.
pub(crate) const CREDENTIAL_PROCESS_WAIT: Duration = Duration::from_secs(60);
/// Maximum size of an S3 settings file, `~/.aws/config` or `~/.aws/credentials`.
pub(crate) const AWS_FILE_BYTES_MAX: u64 = MIB;

/// Maximum number of bytes requested in one call of a Python library. Most libraries return all bytes at once, which
/// doubles the memory usage.
pub(crate) const BRIDGE_CALL_BYTES: u64 = 32 * MIB;

/// Silence timeout of a server while another replica is available; longer than the delays of a busy disk.
pub(crate) const REPLICA_SILENCE: Duration = Duration::from_secs(15);
/// Maximum number of attempts on a server before switching to another replica. The first attempt detects a dead
/// connection.
pub(crate) const REPLICA_TRIES_MAX: u32 = 2;
/// Maximum number of attempts if a request times out while other replicas are available: another replica answers sooner
/// than a silent server.
pub(crate) const REPLICA_TIMED_OUT_TRIES_MAX: u32 = 1;
/// A read is moved to another replica if it takes this many times its usual duration, and at least `STALL_MIN`.
pub(crate) const STALL_FACTOR: f64 = 10.0;
/// Minimum time before a read is moved to another replica. Even a busy server usually answers within this time.
pub(crate) const STALL_MIN: Duration = Duration::from_secs(3);
/// Assumed bandwidth of a server before the first measurement.
pub(crate) const BYTES_PER_SECOND_EXPECTED: f64 = 1e6;
/// Time for which a failed storage element is ranked last; doubled after each further failure.
pub(crate) const ELEMENT_LEFT: Duration = Duration::from_secs(30);
/// Time for which a silent storage element is ranked last. Longer than after an error, because detecting silence again
/// would take 15 s, but detecting an error only a fraction of a second.
pub(crate) const SILENT_ELEMENT_LEFT: Duration = Duration::from_secs(300);
/// Maximum time for which a failed storage element is ranked last.
pub(crate) const ELEMENT_LEFT_MAX: Duration = Duration::from_secs(600);
/// Maximum number of ranges of a file that are remembered as samples for comparison with other replicas.
pub(crate) const SAMPLES_MAX: usize = 8;
/// Maximum size of a sample that is remembered for comparison with other replicas.
pub(crate) const SAMPLE_BYTES_MAX: u64 = 16 * 1024;
/// Minimum transfer rate in bytes per second. A mounted file system that reads more slowly is considered unresponsive.
pub(crate) const MOUNT_BYTES_PER_SECOND_MIN: u64 = 100_000;
/// Time for which a folder is remembered to be on a local disk before the folder is checked again.
pub(crate) const FOLDER_KNOWN: Duration = Duration::from_secs(10);

/// Default maximum size of a cache on the local disk, enough for the data of a small analysis.
pub const CACHE_BYTES: u64 = 10_000_000_000;
/// Number of bytes per checksum in the cache: the smallest unit that can be verified.
pub(crate) const CACHE_PIECE_BYTES: u64 = 64 * 1024;
/// Size at which a cache segment is complete: small enough for fine-grained eviction, large enough to keep the number
/// of files low.
pub(crate) const CACHE_SEGMENT_BYTES: u64 = 16 * MIB;
/// Maximum length of a record in a cache segment. Reads are always shorter.
pub(crate) const CACHE_RECORD_BYTES_MAX: u64 = 4 * GIB;
/// Disk space that a cache segment takes in addition to its bytes: its name and the unused part of its last page.
pub(crate) const CACHE_FILE_BYTES: u64 = 4096;
/// The size of a cache is measured again each time that 1/`CACHE_LOOKS` of the size limit has been written, because
/// other processes write to the same cache.
pub(crate) const CACHE_LOOKS: u64 = 16;
/// Minimum time between updates of the timestamp of a cache segment's last use.
pub(crate) const CACHE_TOUCH_PAUSE: Duration = Duration::from_secs(10);

/// Number of bytes per request when a file is copied to a local disk; large enough to make requests cheap per byte.
pub const STAGE_RANGE_BYTES: u64 = 4 * MIB;
/// Number of bytes per write when a file is copied to a local disk. On a virtual machine, writes of 4 MiB took up to
/// ten times as much CPU time for the same bytes, all of it in the kernel. The page cache allocates memory in pieces up
/// to the size of a write, and the host of a virtual machine seems to provide large pieces slowly.
pub(crate) const STAGE_WRITE_BYTES: usize = 256 * 1024;
/// Maximum number of threads that copy a file to a local disk, with one request each: some wait for the network while
/// others write. Together they have 32 MiB in flight, which fills 1 Gbit/s at a round trip of 250 ms.
pub(crate) const STAGE_THREADS: usize = 8;
/// Polling interval while another job copies the file to the local disk.
pub(crate) const STAGE_LOOK_PAUSE: Duration = Duration::from_millis(20);
/// Maximum wait for another job's copy that makes no progress: the time of one round of requests at 500 kB/s.
pub(crate) const STAGE_PATIENCE: Duration = Duration::from_secs(60);

/// Maximum number of threads that read a local file. A network mount serves their reads in parallel; a local disk gets
/// parallel reads from readahead advice.
pub(crate) const LOCAL_THREADS: usize = 8;
/// Maximum number of bytes that are announced to the kernel with readahead advice but not read yet: more than any
/// device has in flight.
pub(crate) const ADVICE_WINDOW_BYTES: u64 = 32 * MIB;
/// Number of bytes that the kernel usually reads ahead after a read.
pub(crate) const KERNEL_READ_AHEAD_BYTES: u64 = 128 * 1024;
/// Alignment of reads with O_DIRECT, in files and in memory: the largest sector size of disks.
pub(crate) const DIRECT_ALIGNMENT: usize = 4096;
/// Maximum size of one read with O_DIRECT: large enough for disks to reach full speed, small enough for many reads in
/// flight.
pub(crate) const DIRECT_PIECE_BYTES: usize = MIB as usize;
/// Maximum number of reads that are in flight in an io_uring.
#[cfg(target_os = "linux")]
pub(crate) const URING_READS: usize = 32;
