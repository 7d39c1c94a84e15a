//! Parallel reads of one file through io_uring. Reads are submitted together and complete in any order.

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use io_uring::{opcode, types, IoUring};

use super::direct::{Piece, PiecesRead, Sectors};
use crate::limits::URING_READS;

/// Returns whether the kernel lets this process use io_uring. Containers often forbid it.
pub(super) fn is_allowed() -> bool {
    IoUring::new(2).is_ok()
}

/// Buffers that the kernel may be writing to. They must not be freed while a read is pending, even if the ring fails.
struct Slots {
    sectors: Vec<Sectors>,
    busy_count: usize,
}

impl Drop for Slots {
    fn drop(&mut self) {
        if self.busy_count > 0 {
            // The kernel may still write to these buffers: leaking memory is better than corrupting memory.
            std::mem::forget(std::mem::take(&mut self.sectors));
        }
    }
}

/// Reads all pieces, and calls `take` with the index and the bytes of each piece.
pub(super) fn read_pieces(file: &File, pieces: &[Piece], mut take: impl FnMut(usize, &[u8])) -> io::Result<PiecesRead> {
    let slots_count = pieces.len().min(URING_READS);
    let largest = pieces.iter().map(|piece| piece.sectors_bytes).max().unwrap_or(0);
    let mut ring = IoUring::new(slots_count.next_power_of_two().max(2) as u32)?;
    let mut slots = Slots { sectors: (0..slots_count).map(|_| Sectors::new(largest)).collect(), busy_count: 0 };
    let mut free: Vec<usize> = (0..slots_count).collect();
    let mut of_slot = vec![0; slots_count];
    let (mut next, mut calls_count) = (0, 0);
    let mut first_cut: Option<usize> = None;
    loop {
        while let (Some(slot), false) = (free.last().copied(), next >= pieces.len() || first_cut.is_some()) {
            let room = slots.sectors[slot].room(&pieces[next]);
            let entry = opcode::Read::new(types::Fd(file.as_raw_fd()), room.as_mut_ptr(), room.len() as u32)
                .offset(pieces[next].start)
                .build()
                .user_data(slot as u64);
            // SAFETY: no other read uses this slot until this read is completed, and slots are not freed while a read
            // is pending. The file is open for as long as this function runs.
            if unsafe { ring.submission().push(&entry) }.is_err() {
                break;
            }
            slots.busy_count += 1;
            of_slot[slot] = next;
            free.pop();
            next += 1;
            calls_count += 1;
        }
        if slots.busy_count == 0 {
            return Ok(match first_cut {
                None => PiecesRead::All { calls_count },
                Some(number) => PiecesRead::CutAt { number },
            });
        }
        match ring.submit_and_wait(1) {
            Ok(_) => {}
            Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::ResourceBusy) => {}
            Err(error) => return Err(error),
        }
        let mut failure = None;
        for completed in ring.completion() {
            let slot = completed.user_data() as usize;
            slots.busy_count -= 1;
            free.push(slot);
            let (number, piece) = (of_slot[slot], &pieces[of_slot[slot]]);
            match usize::try_from(completed.result()) {
                Err(_) => failure = Some(io::Error::from_raw_os_error(-completed.result())),
                // A local file returns fewer bytes than requested only at its end.
                Ok(count) if count < piece.skip + piece.length => {
                    first_cut = Some(first_cut.map_or(number, |first| first.min(number)));
                }
                Ok(_) => take(number, slots.sectors[slot].of(piece)),
            }
        }
        if let Some(error) = failure {
            return Err(error);
        }
    }
}
