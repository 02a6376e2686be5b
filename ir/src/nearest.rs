//! The known name closest to a mistyped one.

/// The candidate with the smallest edit distance to `word`, if it is close enough to be meant and
/// keeps some of it; people rarely mistype the first letter, so it decides ties.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word: String = word.chars().take(64).collect();
    let limit = (word.chars().count() / 3).max(2);
    let initial = word.chars().next();
    candidates
        .into_iter()
        .filter(|c| c.len() <= 4 * 64)
        .map(|c| (distance(&word, c), c.chars().next() != initial, c))
        .min_by_key(|(d, other_initial, _)| (*d, *other_initial))
        .filter(|(d, ..)| *d <= limit && *d < word.chars().count())
        .map(|(.., c)| c)
}

/// Levenshtein distance in characters.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_typo_and_rejects_the_stranger() {
        let names = ["softmax", "sigmoid", "silu"];
        assert_eq!(nearest("sofmax", names), Some("softmax"));
        assert_eq!(nearest("sliu", names), Some("silu"));
        assert_eq!(nearest("attention", names), None);
        assert_eq!(nearest("q", ["x", "y"]), None);
        assert_eq!(nearest("", []), None);
    }

    #[test]
    fn distance_is_a_metric_on_examples() {
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("same", "same"), 0);
    }
}
