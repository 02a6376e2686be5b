//! Attributes of operators as data, so that one printer and one parser serve every operator.

use crate::dim::Dim;
use crate::dtype::DType;
use crate::mesh::AxisRef;
use std::hash::{Hash, Hasher};

/// A float that can be hashed and compared exactly, by its bits.
#[derive(Clone, Copy, Debug)]
pub struct F64(pub f64);

impl PartialEq for F64 {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_bits() == other.0.to_bits()
    }
}

impl Eq for F64 {}

impl Hash for F64 {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.to_bits().hash(state);
    }
}

/// The value of one attribute.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AttrValue {
    /// `61`, `-1`.
    Int(i64),
    /// `1e-6`, `0.5`.
    Float(F64),
    /// `"bsh,hn->bsn"`.
    Str(String),
    /// `true`, `softmax`, `bf16`.
    Word(String),
    /// `@layer_moe`.
    Func(String),
    /// `%T`, `ceildiv(%T, 8)`; plain extents are [`AttrValue::Int`].
    Dim(Dim),
    /// `{"node", "gpu":(2)4}`.
    Axes(Vec<AxisRef>),
    /// `[…]`.
    List(Vec<AttrValue>),
}

/// A field that can stand in an attribute list.
pub trait AttrField: Sized {
    /// Whether the attribute may be absent.
    const OPTIONAL: bool = false;
    /// What a value looks like, for the reference.
    fn form() -> String;
    /// The value to print; `None` leaves the attribute out.
    fn to_value(&self) -> Option<AttrValue>;
    /// Reads a value; `None` where the attribute is absent. The error completes "`key` …".
    fn from_value(value: Option<&AttrValue>) -> Result<Self, String>;
}

/// An attribute, for the reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttrInfo {
    /// Name in the text.
    pub key: &'static str,
    /// What a value looks like.
    pub form: String,
    /// Whether it may be absent.
    pub optional: bool,
    /// What it means.
    pub doc: String,
}

/// The attributes of one operator.
pub trait Attrs: Sized {
    /// The keys, in printing order.
    const KEYS: &'static [&'static str];
    /// What the operators with these attributes compute.
    const DOC: &'static str;
    /// The attributes with their meaning, in printing order.
    fn reference() -> Vec<AttrInfo>;
    /// The attributes that are present, in printing order.
    fn to_list(&self) -> Vec<(&'static str, AttrValue)>;
    /// Reads the attributes; unknown keys are the caller's concern.
    fn from_list(get: &dyn Fn(&str) -> Option<AttrValue>) -> Result<Self, String>;
}

/// Declares the attribute struct of an operator together with its text form.
#[macro_export]
macro_rules! attrs {
    ($($(#[doc = $doc:literal])* pub struct $name:ident {
        $($(#[doc = $fdoc:literal])* pub $field:ident : $ty:ty = $key:literal,)*
    })*) => {$(
        $(#[doc = $doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub struct $name { $($(#[doc = $fdoc])* pub $field: $ty,)* }

        impl $crate::attr::Attrs for $name {
            const KEYS: &'static [&'static str] = &[$($key),*];
            const DOC: &'static str = concat!($($doc, "\n"),*);
            fn reference() -> Vec<$crate::attr::AttrInfo> {
                vec![$($crate::attr::AttrInfo {
                    key: $key,
                    form: <$ty as $crate::attr::AttrField>::form(),
                    optional: <$ty as $crate::attr::AttrField>::OPTIONAL,
                    doc: $crate::attr::unwrap_doc(concat!($($fdoc, "\n"),*)),
                },)*]
            }
            fn to_list(&self) -> Vec<(&'static str, $crate::attr::AttrValue)> {
                let fields = [$(($key, $crate::attr::AttrField::to_value(&self.$field))),*];
                fields.into_iter().filter_map(|(k, v): (_, Option<_>)| Some((k, v?))).collect()
            }
            fn from_list(
                get: &dyn Fn(&str) -> Option<$crate::attr::AttrValue>,
            ) -> Result<Self, String> {
                let _ = get;
                Ok($name { $(
                    $field: $crate::attr::AttrField::from_value(get($key).as_ref())
                        .map_err(|e| format!("attribute `{}` {e}", $key))?,
                )* })
            }
        }
    )*};
}

/// Declares an enumeration whose members are words in the text.
#[macro_export]
macro_rules! word_enum {
    ($($(#[$doc:meta])* pub enum $name:ident {
        $($(#[$vdoc:meta])* $variant:ident = $word:literal,)*
    })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[$vdoc])* $variant,)* }

        impl $name {
            /// Every member with its word.
            pub const WORDS: &'static [($name, &'static str)] = &[$(($name::$variant, $word)),*];

            /// The word in the text.
            pub fn word(self) -> &'static str {
                Self::WORDS[self as usize].1
            }
        }

        impl $crate::attr::AttrField for $name {
            fn form() -> String {
                let words = Self::WORDS.iter().map(|(_, word)| format!("`{word}`"));
                words.collect::<Vec<_>>().join(" or ")
            }
            fn to_value(&self) -> Option<$crate::attr::AttrValue> {
                Some($crate::attr::AttrValue::Word(self.word().to_string()))
            }
            fn from_value(value: Option<&$crate::attr::AttrValue>) -> Result<Self, String> {
                let words = || Self::WORDS.iter().map(|w| w.1).collect::<Vec<_>>().join(", ");
                match value {
                    Some($crate::attr::AttrValue::Word(w)) => Self::WORDS.iter()
                        .find(|(_, word)| word == w).map(|(member, _)| *member)
                        .ok_or_else(|| format!("is `{w}`, not one of {}", words())),
                    _ => Err(format!("must be one of {}", words())),
                }
            }
        }
    )*};
}

/// The text of a documentation comment on one line.
pub fn unwrap_doc(doc: &str) -> String {
    doc.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn expected<T>(what: &str, got: Option<&AttrValue>) -> Result<T, String> {
    match got {
        Some(_) => Err(format!("must be {what}")),
        None => Err(format!("is missing; it must be {what}")),
    }
}

impl AttrField for u64 {
    fn form() -> String {
        "whole number".to_string()
    }
    fn to_value(&self) -> Option<AttrValue> {
        Some(AttrValue::Int(i64::try_from(*self).unwrap_or(i64::MAX)))
    }
    fn from_value(value: Option<&AttrValue>) -> Result<Self, String> {
        match value {
            Some(AttrValue::Int(n)) if *n >= 0 => Ok(*n as u64),
            v => expected("a whole number", v),
        }
    }
}

impl AttrField for usize {
    fn form() -> String {
        "whole number".to_string()
    }
    fn to_value(&self) -> Option<AttrValue> {
        (*self as u64).to_value()
    }
    fn from_value(value: Option<&AttrValue>) -> Result<Self, String> {
        u64::from_value(value).map(|n| n as usize)
    }
}

impl AttrField for F64 {
    fn form() -> String {
        "number".to_string()
    }
    fn to_value(&self) -> Option<AttrValue> {
        Some(AttrValue::Float(*self))
    }
    fn from_value(value: Option<&AttrValue>) -> Result<Self, String> {
        match value {
            Some(AttrValue::Float(x)) => Ok(*x),
            Some(AttrValue::Int(n)) => Ok(F64(*n as f64)),
            v => expected("a number", v),
        }
    }
}

impl AttrField for bool {
    const OPTIONAL: bool = true;
    fn form() -> String {
        "`true`".to_string()
    }
    fn to_value(&self) -> Option<AttrValue> {
        self.then(|| AttrValue::Word("true".to_string()))
    }
    fn from_value(value: Option<&AttrValue>) -> Result<Self, String> {
        match value {
            None => Ok(false),
            Some(AttrValue::Word(w)) if w == "true" => Ok(true),
            Some(AttrValue::Word(w)) if w == "false" => Ok(false),
            v => expected("true or false", v),
        }
    }
}

impl AttrField for String {
    fn form() -> String {
        "string".to_string()
    }
    fn to_value(&self) -> Option<AttrValue> {
        Some(AttrValue::Str(self.clone()))
    }
    fn from_value(value: Option<&AttrValue>) -> Result<Self, String> {
        match value {
            Some(AttrValue::Str(s)) => Ok(s.clone()),
            v => expected("a string", v),
        }
    }
}

impl AttrField for DType {
    fn form() -> String {
        "element type".to_string()
    }
    fn to_value(&self) -> Option<AttrValue> {
        Some(AttrValue::Word(self.name().to_string()))
    }
    fn from_value(value: Option<&AttrValue>) -> Result<Self, String> {
        match value {
            Some(AttrValue::Word(w)) => {
                DType::from_name(w).ok_or_else(|| format!("is `{w}`, not an element type"))
            }
            v => expected("an element type", v),
        }
    }
}

impl AttrField for Dim {
    fn form() -> String {
        "extent".to_string()
    }
    fn to_value(&self) -> Option<AttrValue> {
        match self.parts() {
            (n, None, 1) => n.to_value(),
            _ => Some(AttrValue::Dim(*self)),
        }
    }
    fn from_value(value: Option<&AttrValue>) -> Result<Self, String> {
        match value {
            Some(AttrValue::Dim(d)) => Ok(*d),
            Some(AttrValue::Int(n)) if *n >= 0 => Ok(Dim::fixed(*n as u64)),
            v => expected("an extent", v),
        }
    }
}

/// A list of axes: `{"x", "y"}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct AxisList(pub Vec<AxisRef>);

impl AttrField for AxisList {
    fn form() -> String {
        "axes".to_string()
    }
    fn to_value(&self) -> Option<AttrValue> {
        Some(AttrValue::Axes(self.0.clone()))
    }
    fn from_value(value: Option<&AttrValue>) -> Result<Self, String> {
        match value {
            Some(AttrValue::Axes(a)) => Ok(AxisList(a.clone())),
            v => expected("a list of axes such as {\"gpu\"}", v),
        }
    }
}

impl<T: AttrField> AttrField for Option<T> {
    const OPTIONAL: bool = true;
    fn form() -> String {
        T::form()
    }
    fn to_value(&self) -> Option<AttrValue> {
        self.as_ref().and_then(AttrField::to_value)
    }
    fn from_value(value: Option<&AttrValue>) -> Result<Self, String> {
        value.map(|v| T::from_value(Some(v))).transpose()
    }
}

impl<T: AttrField> AttrField for Vec<T> {
    const OPTIONAL: bool = true;
    fn form() -> String {
        format!("list: {}, …", T::form())
    }
    fn to_value(&self) -> Option<AttrValue> {
        let items: Vec<_> = self.iter().filter_map(AttrField::to_value).collect();
        (!items.is_empty()).then_some(AttrValue::List(items))
    }
    fn from_value(value: Option<&AttrValue>) -> Result<Self, String> {
        match value {
            None => Ok(Vec::new()),
            Some(AttrValue::List(items)) => {
                items.iter().map(|item| T::from_value(Some(item))).collect()
            }
            v => expected("a list", v),
        }
    }
}
