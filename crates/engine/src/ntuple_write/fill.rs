//! Values of fields become elements of columns.

use std::ops::Range;

use branchline_format::column::Column as Values;

use super::cluster::Columns;
use super::fields::Taker;
use crate::error::{ReadError, ReadErrorKind, Result};

/// Takes values of fields to the columns of a cluster.
pub(super) struct Filler<'a> {
    pub(super) columns: &'a mut Columns,
    /// The file that is made, for errors.
    pub(super) path: &'a str,
}

impl Filler<'_> {
    /// Adds these of the values. `name` is that of the field, for errors.
    pub(super) fn add(&mut self, taker: &Taker, values: &Values, wanted: Range<usize>, name: &str) -> Result<()> {
        match (taker, values) {
            (Taker::Number { column, number }, Values::Flat { dtype, values }) if number.dtype() == *dtype => {
                let bytes = wanted.start * number.size()..wanted.end * number.size();
                self.columns.push(*column, values.get(bytes).ok_or_else(|| self.short(name))?, self.path)
            }
            (Taker::Text { ends, bytes }, Values::Text { offsets, bytes: text }) => {
                let inner = self.ends(*ends, *bytes, offsets, &wanted, name)?;
                self.columns.push(*bytes, text.get(inner).ok_or_else(|| self.short(name))?, self.path)
            }
            (Taker::Regular { size, content }, Values::Regular { size: own, content: values }) if size == own => {
                self.add(content, values, wanted.start * size..wanted.end * size, name)
            }
            (Taker::List { ends, content }, Values::List { offsets, content: values }) => {
                let inner = self.list(*ends, offsets, &wanted, name)?;
                self.add(content, values, inner, name)
            }
            (Taker::Option { ends, content }, Values::Option { valid, content: values }) => {
                let inner = self.options(*ends, valid, &wanted, name)?;
                self.add(content, values, inner, name)
            }
            (Taker::Record(takers), Values::Record { members, .. }) if takers.len() == members.len() => {
                for ((own, taker), (other, values)) in takers.iter().zip(members) {
                    if own != other {
                        return Err(self.unlike(name));
                    }
                    self.add(taker, values, wanted.clone(), name)?;
                }
                Ok(())
            }
            (Taker::Tuple(takers), Values::Tuple { items, .. }) if takers.len() == items.len() => {
                takers.iter().zip(items).try_for_each(|(taker, item)| self.add(taker, item, wanted.clone(), name))
            }
            // What holds nothing may have lost its type.
            (_, Values::Flat { dtype: "unknown", .. }) if wanted.is_empty() => {
                each_column(taker, &mut |column| self.columns.use_column(column));
                Ok(())
            }
            _ => Err(self.unlike(name)),
        }
    }

    /// Ends of strings: as many bytes are in the column that holds them as were before.
    fn ends(
        &mut self,
        ends: usize,
        bytes: usize,
        offsets: &[i64],
        wanted: &Range<usize>,
        name: &str,
    ) -> Result<Range<usize>> {
        let before = self.columns.elements_count(bytes);
        self.columns.use_column(bytes);
        self.push_ends(ends, before, offsets, wanted, name)
    }

    fn list(&mut self, ends: usize, offsets: &[i64], wanted: &Range<usize>, name: &str) -> Result<Range<usize>> {
        let before = self.columns.last_end(ends);
        self.push_ends(ends, before, offsets, wanted, name)
    }

    fn push_ends(
        &mut self,
        ends: usize,
        before: u64,
        offsets: &[i64],
        wanted: &Range<usize>,
        name: &str,
    ) -> Result<Range<usize>> {
        let own = offsets.get(wanted.start..wanted.end + 1).ok_or_else(|| self.short(name))?;
        let (first, mut last) = (own[0], own[0]);
        let mut elements = Vec::with_capacity(8 * own.len());
        for offset in &own[1..] {
            if *offset < last {
                return Err(self.short(name));
            }
            last = *offset;
            elements.extend_from_slice(&(before + (last - first) as u64).to_ne_bytes());
        }
        self.columns.push(ends, &elements, self.path)?;
        self.columns.set_last_end(ends, before + (last - first) as u64);
        let range = usize::try_from(first).ok().zip(usize::try_from(last).ok());
        range.map(|(first, last)| first..last).ok_or_else(|| self.short(name))
    }

    /// Collections of none or one. The values that are there lie behind each other.
    fn options(&mut self, ends: usize, valid: &[u8], wanted: &Range<usize>, name: &str) -> Result<Range<usize>> {
        let before = self.columns.last_end(ends);
        let (skipped, own) = valid
            .get(..wanted.end)
            .and_then(|valid| Some((valid.get(..wanted.start)?, valid.get(wanted.start..)?)))
            .ok_or_else(|| self.short(name))?;
        let first = skipped.iter().filter(|valid| **valid != 0).count();
        let (mut end, mut elements) = (before, Vec::with_capacity(8 * own.len()));
        for valid in own {
            end += u64::from(*valid != 0);
            elements.extend_from_slice(&end.to_ne_bytes());
        }
        self.columns.push(ends, &elements, self.path)?;
        self.columns.set_last_end(ends, end);
        Ok(first..first + (end - before) as usize)
    }

    fn unlike(&self, name: &str) -> ReadError {
        let message = format!("field {name} has values of another type than before");
        ReadError::new(ReadErrorKind::Unsupported, self.path, message)
            .with_hint("inputs must have the same branches of the same types")
    }

    fn short(&self, name: &str) -> ReadError {
        ReadError::new(ReadErrorKind::Internal, self.path, format!("field {name} is given fewer values than entries"))
    }
}

/// Tells of every column of a field.
pub(super) fn each_column(taker: &Taker, tell: &mut impl FnMut(usize)) {
    match taker {
        Taker::Number { column, .. } => tell(*column),
        Taker::Text { ends, bytes } => {
            tell(*ends);
            tell(*bytes);
        }
        Taker::Regular { content, .. } => each_column(content, tell),
        Taker::List { ends, content } | Taker::Option { ends, content } => {
            tell(*ends);
            each_column(content, tell);
        }
        Taker::Record(members) => members.iter().for_each(|(_, member)| each_column(member, tell)),
        Taker::Tuple(items) => items.iter().for_each(|item| each_column(item, tell)),
    }
}
