//! Joins format and storage: branches x entry range -> arrays.
