//! Objects that add up: behind streamer infos and the number of a class the plain bytes of one, and those of another to
//! add to it. The sum is an object again, to which both can be added.

use std::sync::Arc;

use crate::classes::SUM_CLASSES;
use crate::input::Input;
use crate::memory::bounded;
use branchline_format::classes::streamer::ClassInfos;
use branchline_format::write::{Addend, ObjectPrograms, Sum};

/// Bytes of memory for a byte of the objects, whose numbers are kept as they are and as numbers.
const FACTOR: usize = 1024;
/// Of the key of the output, which is no other.
const NEW_KEY_SIZE: u64 = 77;

pub fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    let info_key_size = u64::from(input.short());
    let infos = Arc::new(ClassInfos::read(input.part(), info_key_size).unwrap_or_default());
    let class_name = SUM_CLASSES[usize::from(input.byte()) % SUM_CLASSES.len()];
    let key_size = u64::from(input.short());
    let (one, other) = (input.part(), input.0);
    bounded(bytes.len(), FACTOR, || check(one, other, key_size, class_name, &infos));
}

fn check(one: &[u8], other: &[u8], key_size: u64, class_name: &str, infos: &Arc<ClassInfos>) {
    let mut programs = ObjectPrograms::new(infos);
    let Ok(first) = Addend::new(one, key_size, class_name, &mut programs) else { return };
    let mut sum = Sum::new(one.to_vec(), key_size, class_name, infos, first.clone());
    for addend in [Ok(first), Addend::new(other, key_size, class_name, &mut programs)].into_iter().flatten() {
        if let Ok(plan) = sum.plan(&addend) {
            sum.add(addend, &plan);
        }
    }
    let new_key_size = sum.fixed_bytes().map_or(NEW_KEY_SIZE, |_| key_size);
    let Ok(record) = sum.record(new_key_size, &mut None) else { return };
    let again = Addend::new(&record, new_key_size, class_name, &mut programs).expect("what was written is read");
    // An efficiency with no weight has none that is a number afterwards.
    drop(sum.plan(&again));
    let again = Sum::new(record, new_key_size, class_name, infos, again);
    drop(sum.difference(&again));
}
