//! Python bindings of the engine. They convert values, release the GIL and map errors, and contain no other logic.

mod access;
mod bridge;
mod buffer;
mod column;
mod convert;
mod errors;
mod files;
mod journal;
mod merge;
mod numpy;
mod output;
mod planning;
mod proxy;
mod records;
mod simulation;
mod store;
mod stored_object;
mod stream;
mod writable;

use pyo3::prelude::*;

#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: branchline_slab::mapped::LargeMapped = branchline_slab::mapped::LargeMapped;

/// The compiled part of the package `branchline`.
#[pymodule]
mod _core {
    use super::*;

    #[pymodule_export]
    use super::access::{environment_names, link_chosen, links_chosen, wait_settings, Link};
    #[pymodule_export]
    use super::bridge::WantedRange;
    #[pymodule_export]
    use super::buffer::Buffer;
    #[pymodule_export]
    use super::column::Column;
    #[pymodule_export]
    use super::convert::{ColumnsFile, WrittenFile};
    #[pymodule_export]
    use super::files::{BranchFacts, BytesPerEntry, Codec, Extents, File, Key, OutlineRow, Tree};
    #[pymodule_export]
    use super::journal::{trace_begin, trace_did, trace_end, trace_is_on, trace_wagon};
    #[pymodule_export]
    use super::merge::{compare, Compared, ComparedTree, DifferingBranch, FilledBranch, Merge, Merged, SkippedInput};
    #[pymodule_export]
    use super::output::NewFile;
    #[pymodule_export]
    use super::planning::{plan_reads, PlannedReads};
    #[pymodule_export]
    use super::proxy::{check_trouble, Proxy, ProxyCounts};
    #[pymodule_export]
    use super::simulation::{JobDone, ResourceUse, Simulation, SimulationTotals};
    #[pymodule_export]
    use super::store::{
        avoid_silent, list_folder, listing_wait_s, longest_wait_s, prefer_replicas, set_base_directory,
        silent_elements, size_and_identity, take_troubles, without_secrets, FolderListing, RangesRead, Store, Troubles,
    };
    #[pymodule_export]
    use super::stored_object::StoredObject;
    #[pymodule_export]
    use super::stream::{decompress_all, Chunk, Decompressed, FailedSource, Stream};

    #[pymodule_export]
    use super::writable::{WritableFile, WrittenKey};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        branchline_storage::register_bridge(bridge::open);
        module.add("CODECS", files::all_codecs(module.py())?)?;
        module.add("CODEC_LEVEL_MAX", branchline_format::compress::LEVEL_MAX)?;
        module.add("HEAD_BYTES", branchline_engine::limits::HEAD_BYTES)?;
        module.add("LEARN_ENTRIES", branchline_engine::limits::LEARN_ENTRIES)?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
