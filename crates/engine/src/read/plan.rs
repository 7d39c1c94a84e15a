//! Pure functions that plan a read: chunk boundaries, needed extents and memory.
//!
//! ```
//! use branchline_engine::read::plan::planning::{plan_reads, PlanSettings, PlannedFile, PlannedOpening};
//! use branchline_storage::Access;
//!
//! let settings = PlanSettings {
//!     access: Access::default(),
//!     link: None,
//!     step_bytes: 1 << 20,
//!     step_entries: None,
//!     has_even_steps: false,
//!     memory_limit_bytes: 1 << 30,
//!     threads: 1,
//!     is_named: true,
//!     seen: None,
//!     entries: None,
//!     opening: PlannedOpening::Apart,
//! };
//! let empty = PlannedFile { size_bytes: 1000, ..PlannedFile::default() };
//! assert!(plan_reads(&empty, &settings).is_some());
//! ```

pub(crate) mod cutting;
pub(crate) mod fetch;
pub(crate) mod memory_plan;
pub(crate) mod needed;
pub mod planning;
pub(crate) mod tail_size;
