//! Every limit of this crate, with its reason.

use std::time::Duration;

/// Gap up to which two ranges of a local file are read as one. A read call on cached bytes costs about 0.5 us before
/// the first byte, as much as copying 10 to 16 KiB; on a disk the kernel reads ahead further than this anyhow.
pub(crate) const LOCAL_GAP_BYTES: u64 = 16 * 1024;

/// The same for a file at a server. A further range costs it and us about 10 us, in which 100 MB/s, the link of one
/// job at a site, move 1 KB; but it also costs the disks behind the server a seek, which is worth 1 MB.
pub(crate) const REMOTE_GAP_BYTES: u64 = 128 * 1024;

/// The same for S3 and WebHDFS, where each range is a request: 5 to 30 ms of a server's, eight of them at a time, in
/// which one connection would have moved so much.
pub(crate) const S3_GAP_BYTES: u64 = 256 * 1024;

/// Ranges are joined up to this size. By then the cost of a call has vanished against that of its bytes, and
/// larger buffers only delay the first basket and hold more memory.
pub const MAX_JOINED_BYTES: u64 = 8 * 1024 * 1024;

/// Bytes that the mode `cache` reads together, as TTreeCache does by default since ROOT 5.34.
pub const TREE_CACHE_BYTES: u64 = 30_000_000;

/// Calls of which the shortest is taken for the round trip: enough to have a small one among them, few enough to see
/// within seconds that a round trip has become longer.
pub(crate) const LINK_SAMPLES: usize = 32;
/// While less is due it is not the link that is waited for.
pub(crate) const LINK_FULL_BYTES: u64 = 4 << 20;
/// The fewest bytes for a measurement of bandwidth, received while the link was full: those of a few requests.
pub(crate) const LINK_BYTES_MIN: u64 = 16 << 20;
/// Older measurements say little about the present bandwidth.
pub(crate) const LINK_MEMORY: Duration = Duration::from_secs(2);
/// A shorter round trip is hidden by one thread that reads while others decode.
pub(crate) const AHEAD_ROUND_TRIP_MIN: Duration = Duration::from_micros(300);
/// The expected round trip to a server before the first request: one between continents. If it is shorter, some files
/// were opened a little too early.
pub(crate) const EXPECTED_ROUND_TRIP: Duration = Duration::from_millis(63);
/// Bytes in flight at the least: two requests of the largest size, so that the link is never idle between answers.
pub(crate) const AHEAD_BYTES_MIN: u64 = 2 * MAX_JOINED_BYTES;
/// The same while the bandwidth is not known: what fills 5 Gbit/s between two continents for the first round trip.
pub(crate) const AHEAD_BYTES_UNKNOWN: u64 = 64 << 20;
/// Requests that may be due to one storage element, as many as it may have connections of one process.
pub(crate) const AHEAD_REQUESTS_MAX: usize = 64;
/// Round trips until a small file is read of which a few branches are wanted: opened, its metadata, its baskets.
pub(crate) const FILE_ROUND_TRIPS: u32 = 3;
/// Opening and reading a small file takes a core at least this long: this many files more hide a round trip.
pub(crate) const FILE_WORK_MIN: Duration = Duration::from_millis(3);
/// A further range costs a server about what it moves in this time.
pub(crate) const GAP_TIME: Duration = Duration::from_millis(2);
/// Nearer ranges are always read as one: a header for each of them takes bytes too.
pub(crate) const GAP_MIN_BYTES: u64 = 4 << 10;

/// Time to connect to a server. TCP repeats its first packet after 1, 3 and 7 s.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// How long a server may be silent while an answer is due. A file that comes from tape takes longer, but then the
/// server says so.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// A server that sends less than this is as good as silent: 500 MB would take ten days.
pub(crate) const BYTES_PER_SECOND_MIN: u64 = 512;
/// An answer whose size is not known before may take this many times as long as a server may be silent: with the usual
/// silence 12 minutes, in which the longest list comes at 90 kB/s.
pub(crate) const UNKNOWN_SIZE_SILENCES: u32 = 12;
/// Tries of a request. With the pauses below a server may be away for about two seconds.
pub(crate) const TRIES_MAX: u32 = 4;
/// Tries of a request that is not answered in time. A connection that had died unnoticed is found by the first; each
/// further try at a server that is silent takes as long again.
pub(crate) const TIMED_OUT_TRIES_MAX: u32 = 2;
/// Pause before the second try; doubled before each further one.
pub(crate) const RETRY_PAUSE: Duration = Duration::from_millis(300);
/// The longest pause before a try.
pub(crate) const RETRY_PAUSE_MAX: Duration = Duration::from_secs(10);

/// Requests that a read of many ranges is shared among at an HTTP server. As many as browsers make to one host, plus
/// two.
pub(crate) const HTTP_THREADS: usize = 8;
/// Ranges in one HTTP request. Each takes up to 42 characters of a header line, and servers take lines of 8 KiB.
pub(crate) const HTTP_RANGES_MAX: usize = 150;
/// Bytes of one HTTP request for several ranges: enough to hide the request, and small enough to share a read among
/// threads.
pub(crate) const HTTP_REQUEST_BYTES: u64 = 2 * 1024 * 1024;
/// Ranges of so few bytes in all come in one HTTP request: over several connections they would be no faster.
pub(crate) const HTTP_TOGETHER_BYTES: u64 = 256 * 1024;
/// What an HTTP connection receives at a time into memory of its own: enough that a call costs little against its
/// bytes, and small enough to stay in the cache of the core until they are copied.
pub(crate) const HTTP_BUFFER_BYTES: usize = 128 * 1024;
/// The same where it receives bytes straight to their place, so that they are still in the cache when they are counted.
pub(crate) const HTTP_STRAIGHT_BYTES: usize = 512 * 1024;
/// What an HTTP connection sends at a time: requests are all much shorter.
pub(crate) const HTTP_SENT_BYTES: usize = 128 * 1024;
/// Redirects from server to server. A federation takes two or three.
pub(crate) const REDIRECTS_MAX: u32 = 8;
/// Idle connections kept to each HTTP server.
pub(crate) const IDLE_CONNECTIONS_MAX: usize = AHEAD_REQUESTS_MAX;
/// How long an idle connection is kept. nginx ends one after 75 s.
pub(crate) const IDLE_TIME_MAX: Duration = Duration::from_secs(50);
/// Header lines of an HTTP answer.
pub(crate) const HTTP_HEADERS_BYTES_MAX: usize = 64 * 1024;
/// One line between the parts of an HTTP answer of several parts.
pub(crate) const PART_LINE_BYTES_MAX: usize = 4 * 1024;
/// Header lines of one such part.
pub(crate) const PART_LINES_MAX: usize = 32;
/// A whole file of a server that sends no parts is kept when it is opened if it has at most this many bytes: at 10 MB/s
/// it takes 0.1 s. A larger one may be opened for its size alone.
pub(crate) const WHOLE_FILE_AT_ONCE_BYTES: u64 = 1024 * 1024;
/// Bytes of such a file that are received and written to a local disk at a time: what a call of either costs is little
/// against that.
pub(crate) const WHOLE_FILE_PIECE_BYTES: usize = 256 * 1024;
/// Such a file may take one part in so many of the free room if the server does not say how large it is: it may be
/// without end.
pub(crate) const UNKNOWN_SIZE_ROOM_SHARE: u64 = 2;
/// The beginning of a web page that is looked at: enough for the usual metadata and the title.
pub(crate) const WEB_PAGE_BYTES: u64 = 2048;
/// What a NameNode says of a file over WebHDFS; it takes some 500 bytes.
pub(crate) const WEBHDFS_STATUS_BYTES_MAX: u64 = 64 * 1024;
/// Blocks of a file for which a URL at a DataNode is kept: with the usual 128 MiB a file of 128 GiB.
pub(crate) const WEBHDFS_BLOCKS_MAX: usize = 1024;
/// A file of settings of fsspec.
pub(crate) const FSSPEC_FILE_BYTES_MAX: u64 = 1024 * 1024;
/// A bearer token; those of grids have one to four KiB.
pub(crate) const TOKEN_BYTES_MAX: u64 = 64 * 1024;

/// Ranges in a vector read of XRootD, where the server does not name a limit: its own default.
pub(crate) const READV_RANGES: usize = 1024;
/// Bytes of each of these ranges, likewise.
pub(crate) const READV_RANGE_BYTES: u32 = 2_097_136;
/// Bytes of a vector read in all: enough that the link does not wait for the next one.
pub(crate) const READV_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// A range of at least this many bytes is read by itself, with checksums: a header of 16 bytes costs little then.
pub(crate) const READ_ALONE_BYTES: u64 = 128 * 1024;
/// A single read is at most this long, and ends where this many bytes of the file do; a multiple of the page of 4 KiB.
pub(crate) const READ_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Requests that may be due over one connection, where they are small: each costs the server some bytes.
pub(crate) const REQUESTS_DUE_MAX: usize = 1024;
/// Bytes of the requests that an XRootD server has to answer at a time. They have to fit into what the connection holds
/// for a server that is busy answering.
pub(crate) const REQUESTS_BYTES_MAX: usize = 48 * 1024;
/// Further connections over which an XRootD server sends, besides the one with the requests: servers allow no more.
pub(crate) const STREAMS_MAX: usize = 15;
/// A read of less gains nothing from several connections.
pub(crate) const STREAMS_BYTES_MIN: u64 = 1024 * 1024;
/// Connections to one XRootD server.
pub(crate) const SESSIONS_MAX: usize = AHEAD_REQUESTS_MAX;
/// Firewalls forget a silent connection after five minutes or more.
pub(crate) const SESSION_IDLE_MAX: Duration = Duration::from_secs(120);
/// An answer of XRootD that is no data. The longest are lists of settings and of what a server wants to know.
pub(crate) const ANSWER_BYTES_MAX: u32 = 256 * 1024;
/// The list of a folder: some hundred thousand names.
pub(crate) const LISTING_BYTES_MAX: u64 = 64 << 20;
/// Answers of S3 that make a list, of 1000 names each.
pub(crate) const LISTING_PAGES_MAX: usize = 1000;
/// All of these answers together: a million names of 500 bytes each, in XML.
pub(crate) const LISTING_PAGES_BYTES_MAX: u64 = 1 << 30;
/// Servers behind a redirector that list their part of a folder.
pub(crate) const LISTING_SERVERS_MAX: usize = 1000;
/// How long a connection to one of several addresses of a host may take. TCP repeats its first packet after 1 s.
pub(crate) const ADDRESS_WAIT: Duration = Duration::from_secs(3);
/// How long an address that did not answer is tried after all others.
pub(crate) const SILENT_FOR: Duration = Duration::from_secs(300);
/// Pause before a server that had no checksum of a file is queried again: servers ask for 30 s to compute one.
pub(crate) const CHECKSUM_AGAIN: Duration = Duration::from_secs(30);
/// How long the checksum of a file is waited for before its replica is compared with another by bytes alone.
pub(crate) const CHECKSUM_WAIT: Duration = Duration::from_secs(5);
/// Messages of XRootD between two answers that are due.
pub(crate) const ATTENTIONS_MAX: usize = 1000;
/// How long a server may make us wait by saying so, as when a file comes from tape.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(600);
/// Protocols that are tried to log in at an XRootD server. There are seven kinds.
pub(crate) const LOGIN_PROTOCOLS_MAX: usize = 16;
/// A table of keys for XRootD's `sss`; a key takes 200 bytes.
pub(crate) const KEYS_BYTES_MAX: u64 = 1024 * 1024;

/// A file of certificates or of a key; the largest bundles of authorities have 300 kB.
pub(crate) const CERTIFICATE_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// A file of settings for S3, `~/.aws/config` or `~/.aws/credentials`.
pub(crate) const AWS_FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Bytes that a Python library reads at once: most give them as a whole, and so they take memory twice.
pub(crate) const BRIDGE_CALL_BYTES: u64 = 32 * 1024 * 1024;

/// How long a server may be silent while another replica of the file could answer: longer than a busy disk needs.
pub(crate) const REPLICA_SILENCE: Duration = Duration::from_secs(15);
/// Tries at a server before another replica is taken: a connection that had died is found by the first.
pub(crate) const REPLICA_TRIES_MAX: u32 = 2;
/// The same for a request that is not answered in time: the next replica answers sooner than a silent server.
pub(crate) const REPLICA_TIMED_OUT_TRIES_MAX: u32 = 1;
/// A read that takes this multiple of what such reads took is left for another replica ...
pub(crate) const STALL_FACTOR: f64 = 10.0;
/// ... but not before this time, in which a busy server would have answered.
pub(crate) const STALL_MIN: Duration = Duration::from_secs(3);
/// The expected bandwidth of a server before a measurement.
pub(crate) const BYTES_PER_SECOND_EXPECTED: f64 = 1e6;
/// How long a storage element that failed comes last; doubled each time that it fails again.
pub(crate) const ELEMENT_LEFT: Duration = Duration::from_secs(30);
/// The same for one that was silent: to find out again takes 15 s, and not the fraction of a second of an error.
pub(crate) const SILENT_ELEMENT_LEFT: Duration = Duration::from_secs(300);
/// The longest time that a storage element comes last.
pub(crate) const ELEMENT_LEFT_MAX: Duration = Duration::from_secs(600);
/// Ranges that are remembered to compare another replica with.
pub(crate) const SAMPLES_MAX: usize = 8;
/// Bytes of each of these ranges.
pub(crate) const SAMPLE_BYTES_MAX: u64 = 16 * 1024;
/// A mounted file system that gives less than this is as good as dead.
pub(crate) const MOUNT_BYTES_PER_SECOND_MIN: u64 = 100_000;
/// How long a folder on a disk of this machine is taken to be there without looking again.
pub(crate) const FOLDER_KNOWN: Duration = Duration::from_secs(10);

/// Default size of a cache on the local disk: the data of a small analysis.
pub const CACHE_BYTES: u64 = 10_000_000_000;
/// Bytes with a checksum of their own in the cache: the smallest that is read of it to check what is wanted.
pub(crate) const CACHE_PIECE_BYTES: u64 = 64 * 1024;
/// A file of the cache is ended at this size: the smallest that is removed at once, and large enough that few are
/// needed.
pub(crate) const CACHE_SEGMENT_BYTES: u64 = 16 * 1024 * 1024;
/// A range in a file of the cache; what is read at once is never this long.
pub(crate) const CACHE_RECORD_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;
/// What a file of the cache takes besides its bytes: its name, and the rest of its last page.
pub(crate) const CACHE_FILE_BYTES: u64 = 4096;
/// The size of a cache that others write to as well is looked up each time that this part of its limit was written.
pub(crate) const CACHE_LOOKS: u64 = 16;
/// The time of the last use of a file of the cache is updated at most so often.
pub(crate) const CACHE_TOUCH_PAUSE: Duration = Duration::from_secs(10);

/// Bytes of one request when a file is copied to a local disk: by then a request costs little against its bytes.
pub const STAGE_RANGE_BYTES: u64 = 4 * 1024 * 1024;
/// Bytes of one call that writes them there. On a virtual machine calls of 4 MiB took up to ten times the processor
/// time of the same bytes, all of it in the kernel's copy. It takes memory for its cache in pieces up to the size of a
/// call, and large pieces seem to be memory that the host must give first.
pub(crate) const STAGE_WRITE_BYTES: usize = 256 * 1024;
/// Threads that copy, each one request after the other: some wait for the network while others write, and 32 MiB are on
/// the way, which fill 1 Gbit/s over 250 ms.
pub(crate) const STAGE_THREADS: usize = 8;
/// How often one looks whether another job has copied the file.
pub(crate) const STAGE_LOOK_PAUSE: Duration = Duration::from_millis(20);
/// Another job that copies a file and makes no progress is waited for this long: a round of its requests at 500 kB/s.
pub(crate) const STAGE_PATIENCE: Duration = Duration::from_secs(60);

/// Local reads at a time, on threads. Network mounts answer them side by side; a disk of our own has as many by advice.
pub(crate) const LOCAL_THREADS: usize = 8;
/// Bytes of kernel readahead that are requested before a read: more than any device has in flight at a time.
pub(crate) const ADVICE_WINDOW_BYTES: u64 = 32 * 1024 * 1024;
/// The kernel's own readahead after a read, as most systems have it.
pub(crate) const KERNEL_READ_AHEAD_BYTES: u64 = 128 * 1024;
/// Reads past the kernel's cache begin and end at multiples of this, in memory too: the largest sector that disks have.
pub(crate) const DIRECT_ALIGNMENT: usize = 4096;
/// Such reads are cut into pieces of this size: disks are at their best by then, and more of them are in flight.
pub(crate) const DIRECT_PIECE_BYTES: usize = 1024 * 1024;
/// Reads that io_uring has at a time.
#[cfg(target_os = "linux")]
pub(crate) const URING_READS: usize = 32;
