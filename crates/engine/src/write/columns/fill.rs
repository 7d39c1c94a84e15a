//! Converts the values of fields to elements of columns.

use std::ops::Range;

use branchline_format::ntuple::encoding::Switch;
use branchline_format::ntuple::write::elements::push_switches;

use crate::error::{ReadError, ReadErrorKind, Result};
use crate::write::columns::fields::FieldSink;
use crate::write::columns::writer::Values;
use crate::write::pages::cluster::{ClusterColumns, GivenPages};

/// Writes the values of fields to the columns of a cluster.
pub(crate) struct FieldWriter<'a, 'v> {
    pub(crate) columns: &'a mut ClusterColumns,
    /// Pages whose elements are borrowed from the current values.
    pub(crate) given: GivenPages<'v>,
    /// The path of the output, for error messages.
    pub(crate) path: &'a str,
}

impl<'v> FieldWriter<'_, 'v> {
    /// Writes the values in the range `wanted`. `name` is the field's name for error messages.
    pub(crate) fn add(
        &mut self,
        sink: &FieldSink,
        values: &Values<'v>,
        wanted: Range<usize>,
        name: &str,
    ) -> Result<()> {
        match (sink, values) {
            (FieldSink::Number { column, number }, Values::Flat { dtype, values }) if number.dtype() == *dtype => {
                let bytes = wanted.start * number.size()..wanted.end * number.size();
                let elements = values.get(bytes).ok_or_else(|| self.too_few(name))?;
                self.columns.give(*column, elements, &mut self.given, self.path)
            }
            (FieldSink::Text { ends, bytes }, Values::Text { offsets, bytes: text }) => {
                let inner = self.ends(*ends, *bytes, offsets, &wanted, name)?;
                let letters = text.get(inner).ok_or_else(|| self.too_few(name))?;
                self.columns.give(*bytes, letters, &mut self.given, self.path)
            }
            (FieldSink::Regular { size, content }, Values::Regular { size: own, content: values }) if size == own => {
                self.add(content, values, wanted.start * size..wanted.end * size, name)
            }
            (FieldSink::List { ends, content }, Values::List { offsets, content: values }) => {
                let inner = self.list(*ends, offsets, &wanted, name)?;
                self.add(content, values, inner, name)
            }
            (FieldSink::Option { ends, content }, Values::Option { valid, content: values }) => {
                let inner = self.options(*ends, valid, &wanted, name)?;
                self.add(content, values, inner, name)
            }
            (FieldSink::Record(sinks), Values::Record { members, .. }) if sinks.len() == members.len() => {
                for ((own, sink), (other, values)) in sinks.iter().zip(members) {
                    if own != other {
                        return Err(self.mismatch(name));
                    }
                    self.add(sink, values, wanted.clone(), name)?;
                }
                Ok(())
            }
            (FieldSink::Union { switch, alternatives }, Values::Union { tags, contents })
                if contents.len() == alternatives.len() + 1 =>
            {
                let inner = self.switches(*switch, alternatives, tags, &wanted, name)?;
                let values = contents.iter().skip(1);
                let mut all = alternatives.iter().zip(values).zip(inner);
                all.try_for_each(|((sink, values), inner)| self.add(sink, values, inner, name))
            }
            (FieldSink::Tuple(sinks), Values::Tuple { items, .. }) if sinks.len() == items.len() => {
                sinks.iter().zip(items).try_for_each(|(sink, item)| self.add(sink, item, wanted.clone(), name))
            }
            // An empty array may have lost the type of its elements.
            (_, Values::Flat { dtype: "unknown", .. }) if wanted.is_empty() => {
                each_column(sink, &mut |column| self.columns.use_column(column));
                Ok(())
            }
            _ => Err(self.mismatch(name)),
        }
    }

    /// Appends string offsets, and returns the range of the strings' characters.
    fn ends(
        &mut self,
        ends: usize,
        bytes: usize,
        offsets: &'v [i64],
        wanted: &Range<usize>,
        name: &str,
    ) -> Result<Range<usize>> {
        let before = self.columns.elements_count(bytes);
        self.columns.use_column(bytes);
        self.push_ends(ends, before, offsets, wanted, name)
    }

    fn list(&mut self, ends: usize, offsets: &'v [i64], wanted: &Range<usize>, name: &str) -> Result<Range<usize>> {
        let before = self.columns.last_end(ends);
        self.push_ends(ends, before, offsets, wanted, name)
    }

    fn push_ends(
        &mut self,
        ends: usize,
        before: u64,
        offsets: &'v [i64],
        wanted: &Range<usize>,
        name: &str,
    ) -> Result<Range<usize>> {
        let own = offsets.get(wanted.start..wanted.end + 1).ok_or_else(|| self.too_few(name))?;
        let (first, last) = (own[0], own[own.len() - 1]);
        if first < 0 || !own.is_sorted() {
            return Err(self.too_few(name));
        }
        if before == first as u64 {
            self.columns.give(ends, bytemuck::cast_slice(&own[1..]), &mut self.given, self.path)?;
        } else {
            let mut elements = self.columns.take_buffer(8 * (own.len() - 1));
            elements.resize(8 * (own.len() - 1), 0);
            for (place, offset) in elements.as_chunks_mut::<8>().0.iter_mut().zip(&own[1..]) {
                *place = (before + (offset - first) as u64).to_ne_bytes();
            }
            self.columns.push_buffer(ends, elements, self.path)?;
        }
        self.columns.set_last_end(ends, before + (last - first) as u64);
        let range = usize::try_from(first).ok().zip(usize::try_from(last).ok());
        range.map(|(first, last)| first..last).ok_or_else(|| self.too_few(name))
    }

    /// Writes optional values as collections of zero or one element, and returns the range of the values that are
    /// present.
    fn options(&mut self, ends: usize, valid: &[u8], wanted: &Range<usize>, name: &str) -> Result<Range<usize>> {
        let before = self.columns.last_end(ends);
        let (skipped, own) = valid
            .get(..wanted.end)
            .and_then(|valid| Some((valid.get(..wanted.start)?, valid.get(wanted.start..)?)))
            .ok_or_else(|| self.too_few(name))?;
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

    /// Writes the switches of a variant, which select an alternative for each value. Returns the range of the new
    /// values of each alternative.
    fn switches(
        &mut self,
        switch: usize,
        alternatives: &[FieldSink],
        tags: &[u8],
        wanted: &Range<usize>,
        name: &str,
    ) -> Result<Vec<Range<usize>>> {
        let skipped = tags.get(..wanted.start).ok_or_else(|| self.too_few(name))?;
        let own = tags.get(wanted.clone()).ok_or_else(|| self.too_few(name))?;
        let mut inner: Vec<Range<usize>> = vec![0..0; alternatives.len()];
        for place in skipped.iter().filter_map(|tag| usize::from(*tag).checked_sub(1)) {
            inner.get_mut(place).ok_or_else(|| self.mismatch(name))?.start += 1;
        }
        inner.iter_mut().for_each(|range| range.end = range.start);
        let before: Vec<u64> = alternatives.iter().map(|sink| elements_of(sink, self.columns)).collect();
        let mut switches = Vec::with_capacity(own.len());
        for tag in own {
            let Some(place) = usize::from(*tag).checked_sub(1) else {
                switches.push(Switch::default());
                continue;
            };
            let range = inner.get_mut(place).ok_or_else(|| self.mismatch(name))?;
            switches.push(Switch { index: before[place] + range.len() as u64, tag: u32::from(*tag) });
            range.end += 1;
        }
        let mut elements = Vec::new();
        push_switches(&switches, &mut elements);
        self.columns.push(switch, &elements, self.path)?;
        Ok(inner)
    }

    fn mismatch(&self, name: &str) -> ReadError {
        let message = format!("field {name} has values of another type than before");
        ReadError::new(ReadErrorKind::Unsupported, self.path, message)
            .with_hint("inputs must have the same branches of the same types")
    }

    fn too_few(&self, name: &str) -> ReadError {
        ReadError::internal(self.path, format!("field {name} has fewer values than entries"))
    }
}

/// Returns the number of values that a cluster has for a field. Every field that is an alternative of a variant has a
/// column.
fn elements_of(sink: &FieldSink, columns: &ClusterColumns) -> u64 {
    match sink {
        FieldSink::Number { column, .. } => columns.elements_count(*column),
        FieldSink::Text { ends, .. } | FieldSink::List { ends, .. } | FieldSink::Option { ends, .. } => {
            columns.elements_count(*ends)
        }
        FieldSink::Union { switch, .. } => columns.elements_count(*switch),
        FieldSink::Regular { size, content } => elements_of(content, columns) / (*size).max(1) as u64,
        FieldSink::Record(members) => members.first().map_or(0, |(_, member)| elements_of(member, columns)),
        FieldSink::Tuple(items) => items.first().map_or(0, |item| elements_of(item, columns)),
    }
}

/// Calls `visit` for every column of a field.
pub(crate) fn each_column(sink: &FieldSink, visit: &mut impl FnMut(usize)) {
    match sink {
        FieldSink::Number { column, .. } => visit(*column),
        FieldSink::Text { ends, bytes } => {
            visit(*ends);
            visit(*bytes);
        }
        FieldSink::Regular { content, .. } => each_column(content, visit),
        FieldSink::List { ends, content } | FieldSink::Option { ends, content } => {
            visit(*ends);
            each_column(content, visit);
        }
        FieldSink::Union { switch, alternatives } => {
            visit(*switch);
            alternatives.iter().for_each(|one| each_column(one, visit));
        }
        FieldSink::Record(members) => members.iter().for_each(|(_, member)| each_column(member, visit)),
        FieldSink::Tuple(items) => items.iter().for_each(|item| each_column(item, visit)),
    }
}
