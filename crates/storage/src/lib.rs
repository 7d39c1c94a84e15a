//! Byte ranges from anywhere; knows nothing about ROOT.
