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
    /// A search that keeps pins does not search layouts.
    PINS_UNSEARCHED = "U010", User, "a search of layouts has none to search while some are pinned";
    /// No operator takes a pinned layout.
    PIN_BYPASSED = "U011", User, "no operator takes a value in the layout that a pin gives it";
    /// The compiler gave up where it should not.
    PANIC = "X901", Internal, "the compiler stopped at a bug of its own";
    /// No operator has that name.
    UNKNOWN_OP = "U120", User, "an operator does not exist";
    /// A trace cannot be read.
    TRACE = "U130", User, "a trace of requests cannot be read";
    /// No load is named, or two that contradict each other.
    LOAD = "U131", User, "a simulation has no load, or two";
    /// A plan's directory cannot be simulated.
    PLAN = "U132", User, "a plan's directory is damaged, or its cluster is unknown";
    /// Requests are longer than KV memory.
    TURNED_AWAY = "U133", User, "requests of a simulation are longer than KV memory";
    /// Requests arrive faster than they are served.
    OVERLOAD = "U134", User, "requests of a simulation arrive faster than they are served";
    /// A trace has requests without a token.
    EMPTY_REQUESTS = "U135", User, "a trace has requests without a prompt or an answer";
    /// The simulator cannot go on.
    STUCK = "U136", User, "a simulation has a step without end, or runs out of time or numbers";
    /// A drawing failed.
    DRAWING = "X902", Internal, "a drawing failed";
    /// A model is too large for simulated devices.
    TOO_LARGE_TO_RUN = "U161", User, "a model is too large to run on simulated devices";
    /// A table is not one of named columns.
    TABLE_SHAPE = "U140", User, "a table has no header, or a row of another width";
    /// A table lacks a column.
    TABLE_COLUMN = "U141", User, "a table lacks a column";
    /// A cell makes no sense.
    TABLE_CELL = "U142", User, "a cell of a table is not what its column holds";
    /// A line is not a question.
    QUESTION = "U150", User, "a line of questions is not a JSON object, or lacks or repeats a key";
    /// A field of a question makes no sense.
    QUESTION_FIELD = "U151", User, "a field of a question is unknown or not what it should be";
}
