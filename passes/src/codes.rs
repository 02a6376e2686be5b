//! Error codes of passes and search.

use shardc_ir::codes;

codes! {
    /// A pass needs something that earlier passes establish.
    PRECONDITION = "S101", User, "a pass was run on a program that lacks what it requires";
    /// A pass name is not in the registry.
    UNKNOWN_PASS = "S102", User, "no pass has that name";
    /// A pass produced a program that the verifier refuses.
    BROKEN_BY_PASS = "S103", Internal, "a pass broke the program";
    /// Layouts that no operator admits.
    NO_ASSIGNMENT = "S104", User, "the layouts around an operator fit none of its assignments";
    /// A pin names no value.
    PIN_MATCHES_NOTHING = "S105", User, "a pin matches no value of the program";
    /// A pin cannot be read.
    BAD_PIN = "S106", User, "a line of a pin file cannot be read";
    /// Degrees that do not fit the devices or the model.
    BAD_DEGREES = "S107", User, "parallel degrees do not fit the devices or the model";
    /// A pin fits no value that it names.
    PIN_OF_OTHER_RANK = "S108", User, "a pin has more or fewer dimensions than the values of its name";
    /// Two pins contradict each other.
    PINS_DISAGREE = "S109", User, "two pins give one value different layouts";
    /// A local program does what no launch plan can say.
    NOT_LAUNCHABLE = "S110", User, "a local program uses values in a way that no launch plan can say";
    /// The text of a schedule cannot be read.
    SCHEDULE_TEXT = "S120", User, "a schedule cannot be read";
    /// A schedule has a key, or a value, that no schedule has.
    SCHEDULE_KEY = "S121", User, "a key of a schedule is unknown, missing, or not what it should be";
    /// A schedule names what the program has not.
    SCHEDULE_NAME = "S122", User, "a schedule names a function, value, factor or axis that does not exist";
    /// A decision of a schedule is not legal.
    SCHEDULE_ILLEGAL = "S123", User, "a decision of a schedule is not legal";
    /// No plan fits.
    INFEASIBLE = "S201", Infeasible, "no plan satisfies the constraints";
    /// No such search.
    UNKNOWN_SEARCH = "S202", User, "no search has that name";
    /// A search that decides what the request fixes.
    NOT_KEPT = "S203", User, "a search does not keep layouts or stages that the request gives";
    /// A saved history that cannot be read.
    BAD_HISTORY = "S204", User, "a saved history cannot be read";
    /// A build without the policy.
    NO_POLICY = "S205", User, "this build has no search by a policy";
    /// The library of the policy network refuses.
    NETWORK = "S206", Internal, "the policy network fails";
    /// A certificate cannot be written.
    UNCERTAIN = "S401", Internal, "an instruction of a local program computes no part of a logical value";
    /// Classes of the e-graph that disagree.
    EGRAPH = "S301", Internal, "the e-graph holds terms that are not equal: a wrong rule";
    /// `extract` without a graph of the program.
    NOT_SATURATED = "S302", User, "`extract` was run on a program that `saturate` has not seen";
}
