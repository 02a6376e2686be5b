//! Error codes of the text form.

crate::codes! {
    /// A character begins no token.
    CHARACTER = "P001", User, "a character has no meaning in the text";
    /// A string does not end, or holds an unknown escape.
    STRING = "P002", User, "a string does not end on its line, or holds an unknown escape";
    /// Another token was expected.
    SYNTAX = "P003", User, "the text does not follow the grammar";
    /// A number does not fit.
    NUMBER = "P004", User, "a number is out of range";
    /// Lists are nested too deeply.
    DEPTH = "P005", User, "attribute lists are nested too deeply";
    /// A name is declared twice.
    REDEFINED = "P006", User, "a value, symbol, function, mesh or attribute is declared twice";
    /// A value is not defined in the function.
    UNKNOWN_VALUE = "P007", User, "an operand is not defined in its function";
    /// A symbol is not declared.
    UNKNOWN_SYMBOL = "P008", User, "an extent names a symbol that no `dim` declares";
    /// No operator has this name.
    UNKNOWN_OP = "P009", User, "an operator does not exist";
    /// An attribute is unknown, missing, or has a value of the wrong form.
    ATTRIBUTE = "P010", User, "an attribute is unknown, missing or malformed";
    /// An axis is not in the mesh, or there is no mesh.
    UNKNOWN_AXIS = "P011", User, "a layout names an axis that the mesh does not have, or there is no mesh";
    /// Types were left out and cannot be inferred.
    NEEDS_TYPE = "P012", User, "the result types were left out and cannot be inferred";
    /// There are more or fewer types than results.
    RESULT_COUNT = "P013", User, "an instruction names another number of results than it has types";
    /// The signature does not say what `return` returns.
    SIGNATURE = "P014", User, "the result types of a signature differ from the values returned";
    /// No level has this name.
    UNKNOWN_LEVEL = "P015", User, "a module names a level that does not exist";
    /// No element type has this name.
    UNKNOWN_DTYPE = "P016", User, "an element type does not exist";
    /// The source is too large.
    TOO_LARGE = "P017", User, "the source is larger than the reader accepts";
}
