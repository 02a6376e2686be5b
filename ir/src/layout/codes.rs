//! Error codes of meshes and layouts.

crate::codes! {
    /// A mesh is malformed.
    MESH = "L001", User, "a mesh has a repeated name, an empty axis, or too many devices";
    /// A layout does not have one axis list per dimension.
    RANK = "L002", User, "a layout has more or fewer dimensions than its tensor";
    /// A layout names an axis that its mesh lacks.
    UNKNOWN_AXIS = "L003", User, "a layout names an axis that its mesh does not have";
    /// A sub-axis is not a factor of its axis.
    SUB_AXIS = "L004", User, "a sub-axis has size 1 or less, or does not divide its axis";
    /// An axis is used twice.
    AXIS_REUSED = "L005", User, "an axis, or overlapping parts of it, is used twice in a layout";
    /// An uneven dimension is split along a sub-axis that has no place in the order of primes.
    UNEVEN_SUB_AXIS = "L006", User, "a sub-axis that cuts across the prime factors of its axis splits a dimension unevenly";
    /// A pending reduction names no axis.
    EMPTY_PARTIAL = "L007", User, "a pending reduction names no axis";
    /// The text of a layout is malformed.
    LAYOUT_SYNTAX = "L008", User, "the text of a layout cannot be read";
}
