//! What the fuzz targets share: how inputs begin, how much memory a decoder may take, and what a right column is.

pub mod allocations;
pub mod baskets;
pub mod classes;
pub mod columns;
pub mod input;
pub mod layouts;
pub mod memory;
pub mod ntuple;
pub mod targets;

#[global_allocator]
static ALLOCATOR: allocations::CountingAllocator = allocations::CountingAllocator;
