//! Error codes of resharding.

shardc_ir::codes! {
    /// A complete value cannot become partial by moving data.
    TO_PARTIAL = "L101", User, "a reshard asks for a pending reduction that its source does not have";
    /// A pending reduction has no lowering to the requested one.
    NO_LOWERING = "L102", User, "a pending reduction cannot become the one asked for";
    /// The tensor is too large to count in bytes.
    TOO_LARGE = "L103", User, "a tensor is too large for byte counts in 64 bits";
    /// The steps that were found do not end at the target.
    BROKEN_PLAN = "X101", Internal, "a reshard plan does not reach its target";
}
