//! What readers asked of a configuration: for warnings, and for keys that nobody understood.

use crate::codes;
use crate::json::Member;
use crate::similar;
use shardc_ir::diag::{Diagnostic, Result, Span};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// What was asked of one object.
struct Asked<'a> {
    object: &'a BTreeMap<String, Member>,
    found: BTreeSet<&'static str>,
    absent: BTreeSet<&'static str>,
}

/// What was asked of all objects, and what the reader should know.
#[derive(Default)]
pub(crate) struct Log<'a> {
    asked: RefCell<BTreeMap<u32, Asked<'a>>>,
    notes: RefCell<Vec<Diagnostic>>,
}

impl<'a> Log<'a> {
    /// Records that `key` was asked of the object at `place`.
    pub(crate) fn record(
        &self,
        place: Span,
        object: &'a BTreeMap<String, Member>,
        key: &'static str,
        found: bool,
    ) {
        let mut asked = self.asked.borrow_mut();
        let entry = asked.entry(place.start).or_insert_with(|| Asked {
            object,
            found: BTreeSet::new(),
            absent: BTreeSet::new(),
        });
        if found {
            entry.found.insert(key)
        } else {
            entry.absent.insert(key)
        };
    }

    /// Whether `key` was asked of the object at `place`, and found.
    pub(crate) fn has_asked(&self, place: Span, key: &str) -> bool {
        self.asked.borrow().get(&place.start).is_some_and(|asked| asked.found.contains(key))
    }

    /// Keeps a warning, once.
    pub(crate) fn note(&self, warning: Diagnostic) {
        let mut notes = self.notes.borrow_mut();
        if !notes.contains(&warning) {
            notes.push(warning);
        }
    }

    /// The warnings so far, emptied.
    pub(crate) fn take_notes(&self) -> Vec<Diagnostic> {
        self.notes.take()
    }

    /// Fails where a key that nobody read looks like one that was looked for in vain.
    pub(crate) fn check_spelling(&self) -> Result<()> {
        for asked in self.asked.borrow().values() {
            let unread = asked.object.iter().filter(|(key, _)| !asked.found.contains(key.as_str()));
            for (key, member) in unread.take(1000) {
                let guess = asked.absent.iter().find(|absent| similar::same_key(key, absent));
                if let Some(guess) = guess {
                    return Err(misspelt(key, member, guess));
                }
            }
        }
        Ok(())
    }
}

fn misspelt(key: &str, member: &Member, guess: &str) -> Box<Diagnostic> {
    Box::new(
        Diagnostic::error(codes::MISSPELT_KEY, format!("unknown key `{key}`"))
            .at(member.key_span, "")
            .note(format!("`{guess}` is absent, and nothing reads `{key}`"))
            .help(format!("write `{guess}`, or remove the key")),
    )
}
