//! Baskets that are written again, of a branch as for `objects`, two of them behind one another: compressed with
//! another codec, and their entries moved to new baskets. What is read of the new ones is what is read of the old.

use std::sync::Arc;

use crate::classes;
use crate::columns::checked_len;
use crate::input::Input;
use crate::memory::bounded;
use branchline_format::basket::decode::decode;
use branchline_format::basket::embedded::read_basket_head;
use branchline_format::basket::{BasketRecord, Plain};
use branchline_format::classes::streamer::ClassInfos;
use branchline_format::column::Column;
use branchline_format::compress::{Codec, Decompressor, Setting};
use branchline_format::cursor::Cursor;
use branchline_format::layout::Kind;
use branchline_format::objects::Classes;
use branchline_format::tree::kind_of;
use branchline_format::write::{move_record, BasketForm, BasketFrame, BasketMaker, BasketTools, Entries, NewPlace};

/// Programs of classes, tables of codecs, and values that objects make without bytes behind them.
const BASE_BYTES: usize = 128 << 20;
/// Bytes of memory for a byte of input.
const FACTOR: usize = 4096;

pub fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    let infos = ClassInfos::read(&classes::read_infos(&mut input), 0).expect("streamer infos that were made right");
    let branch = classes::read_branch(&mut input);
    let kind = kind_of(&branch, &Arc::new(Classes::new(Arc::new(infos))));
    let stores_offsets = input.byte() % 2 == 1;
    let bytes_max = usize::from(input.short());
    let form = BasketForm { stores_offsets, bytes_max, setting: Setting::NONE };
    let first = input.part();
    bounded(BASE_BYTES / FACTOR + bytes.len(), FACTOR, || check(&[first, input.0], &kind, form));
}

fn check(records: &[&[u8]], kind: &Kind, form: BasketForm) {
    let (mut tools, mut moved, mut before) = (BasketTools::new(), Vec::new(), Vec::new());
    for record in records {
        let Some((entries, column)) = taken_apart(record, kind, &mut tools) else { continue };
        moved.push(entries);
        before.push(column);
    }
    let frame = BasketFrame { branch: b"branch".to_vec(), tree: b"tree".to_vec(), date: 1, seek_directory: 100 };
    let mut maker = BasketMaker::new(frame, form, &mut tools).expect("short names");
    for (entries, count) in &moved {
        if maker.add(entries, 0..*count).is_err() {
            return;
        }
    }
    let Ok(made) = maker.finish() else { return };
    let count: u64 = made.iter().map(|basket| basket.entries_count).sum();
    assert_eq!(count as usize, moved.iter().map(|(_, count)| count).sum::<usize>(), "no entry is lost");
    let old: Option<Vec<Column>> = before.into_iter().collect();
    let new: Option<Vec<Column>> = made.iter().map(|basket| column(&basket.record, kind)).collect();
    if let (Some(old), Kind::Data(_)) = (old, kind) {
        // Which of several types are met first depends on where a basket begins.
        let new = new.expect("what was readable is readable");
        assert_eq!(old.iter().map(checked_len).sum::<usize>(), new.iter().map(checked_len).sum::<usize>());
    }
}

type Taken = ((Entries, usize), Option<Column>);

/// The entries of a record with their number, and what is read of them.
fn taken_apart(record: &[u8], kind: &Kind, tools: &mut BasketTools) -> Option<Taken> {
    let (_, head) = read_basket_head(&mut Cursor::new(record)).ok()?;
    let count = head.entries_count as u64;
    let mut again = record.to_vec();
    drop(move_record(&mut again, NewPlace { seek: 1 << 40, seek_directory: 100, process_ids_before: 1 }));
    let before = column(record, kind);
    for setting in [Setting::NONE, Setting::new(Codec::Zlib, 1).expect("a codec")] {
        if let Ok(again) = tools.recompress(record, count, setting) {
            assert_eq!(column(&again, kind), before, "the same values in another codec");
        }
    }
    let basket = BasketRecord::parse(record, count).ok()?;
    let entries = Entries::of(&basket.plain(tools.decompress(&basket).ok()?), kind, None, 0).ok()?;
    Some(((entries, head.entries_count), before))
}

fn column(record: &[u8], kind: &Kind) -> Option<Column> {
    let (_, head) = read_basket_head(&mut Cursor::new(record)).ok()?;
    let basket = BasketRecord::parse(record, head.entries_count as u64).ok()?;
    let mut room = Vec::new();
    let plain: Plain<'_> = basket.plain(basket.decompress(&mut Decompressor::new(), &mut room).ok()?);
    decode(kind.layout()?, &plain, 0..plain.entries_count, None).ok()
}
