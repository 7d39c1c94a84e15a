//! Layouts of branches as the first bytes of an input choose them, and the bytes that choose a given one.

use branchline_format::layout::{Item, Layout, Member, RunHeader, TextLength};
use branchline_format::range::FloatRange;
use branchline_format::scalar::Scalar;

use crate::input::Input;

/// Deeper than any decoder follows.
const DEPTH_MAX: usize = 40;

const SCALARS: [Scalar; 16] = [
    Scalar::Bool,
    Scalar::I8,
    Scalar::U8,
    Scalar::I16,
    Scalar::U16,
    Scalar::I32,
    Scalar::U32,
    Scalar::I64,
    Scalar::U64,
    Scalar::F32,
    Scalar::F64,
    Scalar::F32AsF64,
    Scalar::Double32(FloatRange::Scaled { xmin: -1.0, factor: 256.0 }),
    Scalar::Double32(FloatRange::Mantissa { bits: 14 }),
    Scalar::Float16(FloatRange::Scaled { xmin: 0.0, factor: 1e9 }),
    Scalar::Float16(FloatRange::Mantissa { bits: 12 }),
];
const HEADERS: [RunHeader; 4] = [RunHeader::None, RunHeader::Pointer, RunHeader::Count, RunHeader::Container];
const LENGTHS: [TextLength; 3] = [TextLength::Short, TextLength::Versioned, TextLength::Long];

fn pick<T: Clone>(all: &[T], input: &mut Input<'_>) -> T {
    all[usize::from(input.byte()) % all.len()].clone()
}

fn dimensions(input: &mut Input<'_>) -> Vec<usize> {
    let count = input.byte() % 4;
    (0..count).map(|_| usize::from(input.byte() % 8) + 1).collect()
}

/// The layout that an input begins with.
pub fn read(input: &mut Input<'_>) -> Layout {
    match input.byte() % 7 {
        0 => Layout::Fixed { scalar: pick(&SCALARS, input), dimensions: dimensions(input) },
        1 => Layout::Run {
            scalar: pick(&SCALARS, input),
            dimensions: dimensions(input),
            header: pick(&HEADERS, input),
            count: Some(0),
        },
        2 => Layout::Arrays { scalar: pick(&SCALARS, input), count: 0 },
        3 => Layout::Bits { many: input.byte() % 2 == 1 },
        4 => {
            let count = input.byte() % 5;
            let member = |index| Member {
                name: format!("m{index}"),
                scalar: pick(&SCALARS, input),
                dimensions: dimensions(input),
            };
            Layout::Members((0..count).map(member).collect())
        }
        5 => Layout::Text(pick(&LENGTHS, input)),
        _ => Layout::Nested { header_size: usize::from(input.byte() % 11), item: item(input, 0) },
    }
}

fn item(input: &mut Input<'_>, depth: usize) -> Item {
    match input.byte() % 4 {
        0 => Item::Scalar(pick(&SCALARS, input)),
        2 if depth < DEPTH_MAX => Item::List(Box::new(item(input, depth + 1))),
        3 if depth < DEPTH_MAX => Item::Rest(Box::new(item(input, depth + 1))),
        _ => Item::Text,
    }
}

fn place<T: PartialEq>(all: &[T], one: &T) -> u8 {
    all.iter().position(|other| other == one).unwrap_or(0) as u8
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

/// The bytes that choose this layout, or one with values of the same size.
pub fn put(seed: &mut Vec<u8>, layout: &Layout) {
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
            seed.push(place(&HEADERS, header));
        }
        Layout::Arrays { scalar, .. } => {
            seed.push(2);
            put_scalar(seed, *scalar);
        }
        Layout::Bits { many } => seed.extend([3, u8::from(*many)]),
        Layout::Members(members) => {
            seed.extend([4, members.len() as u8]);
            for member in members {
                put_scalar(seed, member.scalar);
                put_dimensions(seed, &member.dimensions);
            }
        }
        Layout::Text(length) => seed.extend([5, place(&LENGTHS, length)]),
        Layout::Nested { header_size, item } => {
            seed.extend([6, *header_size as u8]);
            put_item(seed, item);
        }
    }
}

fn put_item(seed: &mut Vec<u8>, item: &Item) {
    match item {
        Item::Scalar(scalar) => {
            seed.push(0);
            put_scalar(seed, *scalar);
        }
        Item::Text => seed.push(1),
        Item::List(inner) => {
            seed.push(2);
            put_item(seed, inner);
        }
        Item::Rest(inner) => {
            seed.push(3);
            put_item(seed, inner);
        }
    }
}
