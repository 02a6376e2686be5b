//! Error codes of launch plans as files.

crate::codes! {
    /// The text is no launch plan.
    SYNTAX = "K001", User, "a launch plan is not JSON of its schema, or is cut short";
    /// Another version.
    VERSION = "K002", User, "a launch plan has another version of the schema";
    /// The program was edited, or is another one.
    SOURCE = "K003", User, "a launch plan and its local program are not of one plan";
    /// The maps of weights were edited.
    WEIGHTS = "K004", User, "the maps of a plan's weights are not as they were written";
}
