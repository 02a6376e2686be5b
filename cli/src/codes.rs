//! Error codes of the command line and of requests.

shardc_ir::codes! {
    /// The command line cannot be read.
    USAGE = "U001", User, "the command line is not one that the command takes";
    /// A file cannot be read.
    UNREADABLE = "U002", User, "a file or directory cannot be read";
    /// A file is larger than any of its kind.
    TOO_LARGE = "U003", User, "a file is larger than any of its kind";
    /// The output directory holds something else.
    FOREIGN_DIRECTORY = "U004", User, "the output directory holds something that shardc did not write";
    /// Output cannot be written.
    UNWRITABLE = "U005", User, "a file, a directory or standard output cannot be written";
    /// A number of the request is out of range.
    REQUEST_RANGE = "U006", User, "a number of the request is out of range";
    /// The request is longer than the model's context.
    BEYOND_POSITIONS = "U007", User, "the context is longer than the model's positions";
    /// No number format has this name.
    UNKNOWN_DTYPE = "U008", User, "no number format has this name";
    /// No profile has this name.
    UNKNOWN_PROFILE = "U009", User, "no profile has this name";
    /// The compiler gave up where it should not.
    PANIC = "X901", Internal, "the compiler stopped at a bug of its own";
    /// No operator has that name.
    UNKNOWN_OP = "U120", User, "an operator does not exist";
}
