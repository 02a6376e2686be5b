//! Error codes of certificates as files.

crate::codes! {
    /// The text is no certificate.
    SYNTAX = "R001", User, "a certificate is not JSON of its schema, is cut short, or is not written as shardc writes it";
    /// Another version.
    VERSION = "R002", User, "a certificate has another version of the schema";
    /// A program was edited, or is another one.
    SOURCE = "R003", User, "a certificate and a program that it speaks of are not of one plan";
}
