//! An output of a merge: one file with the contents of its inputs, in which each path occurs once.

use std::collections::HashMap;

use branchline_format::compress::Setting;

use crate::error::Result;
use crate::write::merge::info_lists::InfoLists;
use crate::write::merge::input::{Input, Item};
use crate::write::merged::Merged;
use crate::write::new_file::{NewFile, ObjectName};
use crate::write::output::Output;
use crate::write::process_ids::ProcessIds;
use crate::write::products::list::{AnyProduct, AnyWritten};
use crate::write::products::output::{MergeOutput, Transfer};
use crate::write::products::source::Source;
use crate::write::request::{Branches, MergeRequest};

/// An output in progress.
pub(crate) struct Volume {
    output: MergeOutput,
    products: Products,
    infos: InfoLists,
    process_ids: ProcessIds,
    left_out: Vec<String>,
    notes: Vec<String>,
    files_count: u64,
    /// Estimated number of bytes that will be written after all baskets.
    rest_bytes: u64,
}

/// The products, in the order in which they appear in the inputs.
#[derive(Default)]
struct Products {
    all: Vec<NamedProduct>,
    by_path: HashMap<String, usize>,
}

/// A product with its path, and its key name in the first input.
pub(crate) struct NamedProduct {
    pub(crate) path: String,
    pub(crate) product: AnyProduct,
    name: ObjectName,
}

impl Products {
    fn get(&self, path: &str) -> Option<&NamedProduct> {
        self.by_path.get(path).map(|index| &self.all[*index])
    }

    fn get_mut(&mut self, path: &str) -> Option<&mut NamedProduct> {
        self.by_path.get(path).map(|index| &mut self.all[*index])
    }

    fn push(&mut self, made: NamedProduct) {
        self.by_path.insert(made.path.clone(), self.all.len());
        self.all.push(made);
    }
}

impl Volume {
    /// Creates an output whose first input is `first`.
    pub(crate) fn begin(mut output: Output, first: &Input, request: &MergeRequest, infos: InfoLists) -> Result<Self> {
        output.write_together();
        let codec = request.codec;
        let mut frame = first.frame(output.path());
        frame.compress = codec.map_or(frame.compress, Setting::as_root);
        let file = NewFile::begin(output, frame)?;
        Ok(Self {
            output: MergeOutput { file, codec, rewriters: HashMap::new(), programs: None, is_torn: false },
            products: Products::default(),
            infos,
            process_ids: ProcessIds::behind(0),
            left_out: Vec::new(),
            notes: Vec::new(),
            files_count: 0,
            rest_bytes: 0,
        })
    }

    /// Estimated final size of the output, in bytes.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.output.file.end().saturating_add(self.rest_bytes)
    }

    /// The output file.
    pub(crate) fn output(&mut self) -> &mut Output {
        self.output.file.output()
    }

    /// Number of inputs in the output.
    pub(crate) fn files_count(&self) -> u64 {
        self.files_count
    }

    /// Whether the output has entries of an input that was only partly added.
    pub(crate) fn is_torn(&self) -> bool {
        self.output.is_torn
    }

    /// Writes the new baskets that are still in progress.
    pub(crate) fn settle(&mut self) -> Result<()> {
        self.output.settle()
    }

    /// Adds an input either completely or not at all.
    pub(crate) fn add(&mut self, mut input: Input, transfer: &mut Transfer<'_, '_>) -> Result<()> {
        self.fit(&mut input)?;
        self.prepare(&mut input, &transfer.request.branches)?;
        let new_infos = self.infos.new_of(&input)?;
        let mark = self.output.file.mark();
        let process_ids_count = self.process_ids.count();
        let written = self.write(&input, transfer).and_then(|written| {
            // After an error, rewritten entries could not be removed from the new baskets.
            self.output.is_torn |= transfer.request.has_new_baskets();
            input.check_unchanged()?;
            self.output.is_torn = false;
            Ok(written)
        });
        let written = match written {
            Ok(written) => written,
            // Keep the data that a killed merge wrote.
            Err(error) if transfer.written_before.is_some() => return Err(error),
            Err(error) => {
                self.process_ids.truncate(process_ids_count);
                self.output.file.go_back(&mark)?;
                return Err(error);
            }
        };
        self.infos.add(&input, new_infos);
        self.left_out.extend(input.left_out.iter().map(|what| format!("{what} of {}", input.file.path())));
        self.notes.extend(input.notes.iter().map(|what| format!("{}: {what}", input.file.path())));
        self.files_count += 1;
        self.rest_bytes = self.rest_bytes.saturating_add(input.size_bytes() / 16);
        // If adding to the products fails, the sums contain a part of the input, so that the input can no longer be
        // skipped.
        self.output.is_torn = true;
        self.commit(input, written)?;
        self.output.is_torn = false;
        Ok(())
    }

    /// Converts each object of an input to the form of the previous objects at its path, or returns an error.
    fn fit(&self, input: &mut Input) -> Result<()> {
        for Item { entry, content } in &mut input.items {
            if let Some(known) = self.products.get(&entry.path) {
                known.product.fit(&known.name, content, &Source { file: &input.file, entry })?;
            }
        }
        Ok(())
    }

    /// Prepares those objects of an input that are the first at their path.
    fn prepare(&self, input: &mut Input, branches: &Branches) -> Result<()> {
        for Item { entry, content } in &mut input.items {
            if self.products.get(&entry.path).is_none() {
                content.prepare(&Source { file: &input.file, entry }, branches)?;
            }
        }
        Ok(())
    }

    /// Writes the baskets, pages and copied objects of an input.
    fn write(&mut self, input: &Input, transfer: &mut Transfer<'_, '_>) -> Result<Vec<AnyWritten>> {
        transfer.process_ids_before = self.process_ids.write(&input.process_ids, &mut self.output)?;
        let (products, output) = (&self.products, &mut self.output);
        let write = |item: &Item| {
            let known = products.get(&item.entry.path).map(|known| &known.product);
            item.content.write(known, &item.source(&input.file), output, transfer)
        };
        input.items.iter().map(write).collect()
    }

    /// Adds the written data to the products.
    fn commit(&mut self, input: Input, written: Vec<AnyWritten>) -> Result<()> {
        for (Item { entry, content }, written) in input.items.into_iter().zip(written) {
            let source = Source { file: &input.file, entry: &entry };
            match self.products.get_mut(&entry.path) {
                Some(known) => known.product.add(content, written, &source, &mut self.output)?,
                None => {
                    let name = source.object_name();
                    let product = AnyProduct::begin(content, written, &source, &mut self.output)?;
                    self.products.push(NamedProduct { path: entry.path, product, name });
                }
            }
        }
        Ok(())
    }

    /// Writes the records of all products and of the file itself, and syncs the file to disk. The output is not
    /// published yet.
    pub(crate) fn finish(mut self) -> Result<Finished> {
        let mut merged = Merged { left_out: self.left_out, notes: self.notes, ..Merged::default() };
        for NamedProduct { path, product, name } in &mut self.products.all {
            product.finish(path, name, &mut self.output, &mut merged)?;
        }
        let infos = self.infos;
        let mut file = self.output.file;
        merged.size_bytes = file.finish(|key_size| infos.joined(key_size))?;
        Ok(Finished { file, products: self.products.all, merged })
    }
}

/// A complete output that has not been published yet.
pub(crate) struct Finished {
    pub(crate) file: NewFile,
    pub(crate) products: Vec<NamedProduct>,
    pub(crate) merged: Merged,
}
