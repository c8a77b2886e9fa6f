//! The names that stand on disk, in one place.
