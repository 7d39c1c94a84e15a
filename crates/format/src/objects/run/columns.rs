//! Conversion of filled slots to columns.

use crate::column::Column;
use crate::error::Result;
use crate::layout::form::Form;
use crate::layout::program::Classes;

use super::slot::{add_slots, Slot, NULL_TAG};

/// Maximum number of pointers to follow from one declared class to the next when no object was read.
const DECLARED_DEPTH_MAX: usize = 6;
/// Maximum number of columns to create for classes without any object.
const DECLARED_COLUMNS_MAX: usize = 2000;

/// Converter of filled slots to columns.
pub(crate) struct Columns<'a> {
    pub(crate) slots: Vec<Slot>,
    pub(crate) classes: &'a Classes,
    /// Names of the classes that enclose the current column, outermost first.
    path: Vec<String>,
    declared_count: usize,
}

impl<'a> Columns<'a> {
    pub(crate) fn new(slots: Vec<Slot>, classes: &'a Classes) -> Self {
        Self { slots, classes, path: Vec::new(), declared_count: 0 }
    }

    /// Create a column of `count` values for a form whose slots start at `base`.
    pub(crate) fn column(&mut self, form: &Form, base: usize, count: usize) -> Result<Column> {
        Ok(match form {
            Form::Flat { scalar, slot } => {
                Column::Flat { dtype: scalar.dtype(), values: std::mem::take(&mut self.slots[base + slot].bytes) }
            }
            Form::Regular { size, content } => {
                let content = self.column(content, base, count.saturating_mul(*size))?;
                Column::Regular { size: *size, content: Box::new(content) }
            }
            Form::List { slot, content } => {
                let offsets = std::mem::take(&mut self.slots[base + slot].offsets);
                let count = offsets.last().map_or(0, |end| *end as usize);
                Column::List { offsets, content: Box::new(self.column(content, base, count)?) }
            }
            Form::Text { slot } => {
                let slot = std::mem::take(&mut self.slots[base + slot]);
                Column::Text { offsets: slot.offsets, bytes: slot.bytes }
            }
            Form::Record { class_name, members } => {
                let members = members
                    .iter()
                    .map(|(name, member)| Ok((name.clone(), self.column(member, base, count)?)))
                    .collect::<Result<_>>()?;
                Column::Record { class_name: class_name.clone(), count, members }
            }
            Form::Tuple(items) => {
                let items = items.iter().map(|item| self.column(item, base, count)).collect::<Result<_>>()?;
                Column::Tuple { count, items }
            }
            Form::Pointer { slot, declared } => self.pointers(base + slot, declared)?,
        })
    }

    fn pointers(&mut self, slot: usize, declared: &str) -> Result<Column> {
        let Slot { bytes: mut tags, instances, .. } = std::mem::take(&mut self.slots[slot]);
        let valid = tags.iter().map(|tag| u8::from(*tag != NULL_TAG)).collect();
        let mut contents = Vec::with_capacity(instances.len());
        for instance in instances {
            self.path.push(instance.class.name.clone());
            contents.push(self.column(&instance.class.form, instance.base, instance.count)?);
            self.path.pop();
        }
        if contents.len() < 2 {
            let content = match contents.pop() {
                Some(content) => content,
                None => self.declared(declared)?,
            };
            return Ok(Column::Option { valid, content: Box::new(content) });
        }
        tags.retain(|tag| *tag != NULL_TAG);
        Ok(Column::Option { valid, content: Box::new(Column::Union { tags, contents }) })
    }

    /// Create an empty column for the class that a pointer declares.
    fn declared(&mut self, class_name: &str) -> Result<Column> {
        let is_known = !self.path.iter().any(|name| name == class_name);
        let may_go_on = self.path.len() < DECLARED_DEPTH_MAX && self.declared_count < DECLARED_COLUMNS_MAX;
        let class = if is_known && may_go_on { self.classes.get(class_name).ok() } else { None };
        let Some(class) = class else {
            return Ok(Column::Record { class_name: Some(class_name.to_string()), count: 0, members: Vec::new() });
        };
        let base = self.slots.len();
        add_slots(&mut self.slots, &class.has_offsets);
        self.declared_count += class.has_offsets.len();
        self.path.push(class_name.to_string());
        let column = self.column(&class.form, base, 0);
        self.path.pop();
        column
    }
}
