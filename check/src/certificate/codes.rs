//! Error codes of certificates that do not hold.

shardc_ir::codes! {
    /// Steps and programs do not correspond.
    STRUCTURE = "R101", User, "a certificate has not exactly one step for every parameter, instruction and returned value";
    /// A name leads nowhere.
    SITE = "R102", User, "a step names a function, value, placement or substitution that does not exist, or not by its own name";
    /// Another parameter.
    PARAMETER = "R103", User, "a parameter of a local program is not the part of a logical parameter that it is said to be";
    /// Another operator.
    OPERATOR = "R104", User, "an instruction has another operator, or other attributes, than the logical one";
    /// Another operand.
    OPERAND = "R105", User, "an operand is a part of another logical value than the operator needs";
    /// Illegal axes.
    SUBSTITUTION = "R106", User, "axes are given to factors of an operator that do not admit them";
    /// A partial value where it must be complete, or the reverse.
    PARTIAL = "R107", User, "a partial value stands where the operator is not linear in it, or beside one that is not partial alike";
    /// Not what the rule leaves.
    PLACEMENT = "R108", User, "a value is said, or written, to lie otherwise than the rule leaves it";
    /// Not the share.
    SHARE = "R109", User, "a local type is not the share of the logical one";
    /// A collective that does something else.
    COLLECTIVE = "R110", User, "a collective does not fit the placement of its operand";
    /// A transfer without its other side.
    TRANSFER = "R111", User, "what a stage receives is not what another sent";
    /// Layers that do not follow.
    REPEAT = "R112", User, "the layers of a stage are not the next layers of the model, or do not hand on what they take";
    /// A result that is missing.
    RESULT = "R113", User, "a returned value is not the logical one, is partial, or is returned by no stage";
    /// The logical program is another one.
    REWRITE = "R114", User, "the logical program that was sharded does not compute what the model computes";
}
