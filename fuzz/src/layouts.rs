//! Layouts of branches of numbers as the first bytes of an input choose them, and the bytes that choose a given one.

use branchline_format::layout::{Layout, RunHeader};
use branchline_format::numbers::number::Number;
use branchline_format::numbers::range::FloatRange;
use branchline_format::numbers::scalar::Scalar;

use crate::input::Input;

const SCALARS: [Scalar; 16] = [
    Scalar::Plain(Number::Bool),
    Scalar::Plain(Number::I8),
    Scalar::Plain(Number::U8),
    Scalar::Plain(Number::I16),
    Scalar::Plain(Number::U16),
    Scalar::Plain(Number::I32),
    Scalar::Plain(Number::U32),
    Scalar::Plain(Number::I64),
    Scalar::Plain(Number::U64),
    Scalar::Plain(Number::F32),
    Scalar::Plain(Number::F64),
    Scalar::Double32(None),
    Scalar::Double32(Some(FloatRange::Scaled { xmin: -1.0, factor: 256.0 })),
    Scalar::Double32(Some(FloatRange::Mantissa { bits: 14 })),
    Scalar::Float16(FloatRange::Scaled { xmin: 0.0, factor: 1e9 }),
    Scalar::Float16(FloatRange::Mantissa { bits: 12 }),
];
const HEADERS: [RunHeader; 5] = [
    RunHeader::None,
    RunHeader::Pointer,
    RunHeader::Count,
    RunHeader::Container { is_set: false },
    RunHeader::Container { is_set: true },
];

fn pick<T: Clone>(all: &[T], input: &mut Input<'_>) -> T {
    all[usize::from(input.byte()) % all.len()].clone()
}

fn dimensions(input: &mut Input<'_>) -> Vec<usize> {
    let count = input.byte() % 4;
    (0..count).map(|_| usize::from(input.byte() % 8) + 1).collect()
}

/// The layout that an input begins with.
pub fn read(input: &mut Input<'_>) -> Layout {
    match input.byte() % 3 {
        0 => Layout::Fixed { scalar: pick(&SCALARS, input), dimensions: dimensions(input) },
        1 => Layout::Run {
            scalar: pick(&SCALARS, input),
            dimensions: dimensions(input),
            header: pick(&HEADERS, input),
            count: Some(0),
        },
        _ => Layout::Arrays { scalar: pick(&SCALARS, input), count: 0 },
    }
}

fn put_scalar(seed: &mut Vec<u8>, scalar: Scalar) {
    let alike =
        |one: &Scalar| *one == scalar || (one.dtype() == scalar.dtype() && one.stored_size() == scalar.stored_size());
    seed.push(SCALARS.iter().position(alike).unwrap_or(0) as u8);
}

fn put_dimensions(seed: &mut Vec<u8>, dimensions: &[usize]) {
    seed.push(dimensions.len() as u8);
    seed.extend(dimensions.iter().map(|extent| (extent - 1) as u8));
}

/// The bytes that choose this layout, or one with values of the same size; none for objects.
pub fn put(seed: &mut Vec<u8>, layout: &Layout) -> Option<()> {
    match layout {
        Layout::Fixed { scalar, dimensions } => {
            seed.push(0);
            put_scalar(seed, *scalar);
            put_dimensions(seed, dimensions);
        }
        Layout::Run { scalar, dimensions, header, .. } => {
            seed.push(1);
            put_scalar(seed, *scalar);
            put_dimensions(seed, dimensions);
            seed.push(HEADERS.iter().position(|one| one == header).unwrap_or(0) as u8);
        }
        Layout::Arrays { scalar, .. } => {
            seed.push(2);
            put_scalar(seed, *scalar);
        }
        Layout::Objects(_) => return None,
    }
    Some(())
}
