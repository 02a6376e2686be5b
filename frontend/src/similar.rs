//! Likeness of names: for "did you mean" and for misspelt keys.

/// Keys of the configuration classes of `transformers` 4.57 and 5.24 for causal language models and
/// of the example configurations.
const KNOWN: &str = include_str!("known_keys.txt");

/// Edits (insert, delete, replace, swap of neighbours) between two names.
pub(crate) fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![(0..=b.len()).collect::<Vec<_>>()];
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let cost = usize::from(a[i - 1] != b[j - 1]);
            let edit = (rows[i - 1][j] + 1).min(row[j - 1] + 1).min(rows[i - 1][j - 1] + cost);
            let swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            row[j] = if swapped { edit.min(rows[i - 2][j - 2] + 1) } else { edit };
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

/// Whether the key `a` probably means `b`: few edits apart and not known for itself, or the same
/// words in another spelling (`n_kv_heads`, `num_key_value_heads`).
pub(crate) fn same_key(a: &str, b: &str) -> bool {
    if a == b || a.len() > 64 || a.len().abs_diff(b.len()) > 16 {
        return false;
    }
    let allowed = (a.len().min(b.len()) / 5).clamp(1, 3);
    let near = a.len().abs_diff(b.len()) <= allowed && distance(a, b) <= allowed;
    near && !is_known(a) || words(a) == words(b)
}

/// The words of a key in one spelling, sorted, without those that carry no meaning.
fn words(key: &str) -> Vec<String> {
    let lower = key.to_ascii_lowercase().replace('-', "_");
    let plain: Vec<&str> = lower.split('_').map(|word| word.trim_end_matches('s')).collect();
    let counts_layers = plain.contains(&"layer");
    let counts_heads = plain.contains(&"head") && !plain.contains(&"dim");
    let mut words: Vec<String> = plain
        .into_iter()
        .flat_map(|word| match word {
            "n" | "num" | "number" | "of" | "model" | "" => Vec::new(),
            "size" | "dim" if !lower.contains("head") => Vec::new(),
            "hidden" if counts_layers => Vec::new(),
            "attn" | "attention" if counts_heads => Vec::new(),
            "kv" => vec!["key", "value"],
            "d" | "embd" => vec!["hidden"],
            "ffn" | "mlp" | "inner" => vec!["intermediate"],
            other => vec![other],
        })
        .map(str::to_string)
        .collect();
    words.sort();
    words
}

/// Whether published configurations use this key, so that it is no misspelling of another.
pub(crate) fn is_known(key: &str) -> bool {
    KNOWN.split_ascii_whitespace().any(|known| known == key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_edits() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("head_dim", "haed_dim"), 1);
        assert_eq!(distance("", "abc"), 3);
    }

    #[test]
    fn knows_renamed_keys() {
        assert!(same_key("num_key_value_head", "num_key_value_heads"));
        assert!(same_key("n_kv_heads", "num_key_value_heads"));
        assert!(same_key("n_layers", "num_hidden_layers"));
        assert!(same_key("n_heads", "num_attention_heads"));
        assert!(same_key("d_model", "hidden_size"));
        assert!(!same_key("rope_scaling", "rope_theta"));
        assert!(!same_key("head_dim", "hidden_size"));
    }
}
