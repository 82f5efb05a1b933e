//! Suggests the closest known name for an unknown one.

/// Returns the name in `known` that is closest to `word`, ignoring case; `None` if all differ by more than a
/// third of the letters, or more than three.
pub(crate) fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let lower = |text: &str| text.to_lowercase().chars().collect::<Vec<char>>();
    let word = lower(word);
    let slips = (word.len() / 3).clamp(1, 3);
    let near = known.into_iter().map(|name| {
        let letters = lower(name);
        // Among equally close names, prefer those with the same first letter.
        (distance(&word, &letters), letters.first() != word.first(), name)
    });
    near.filter(|&(distance, ..)| distance <= slips && distance < word.len()).min().map(|(.., name)| name)
}

/// Returns the edit distance: insertions, deletions, replacements and swaps of neighbors.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn typos_get_a_suggestion_and_other_words_do_not() {
        let known = ["profiles", "parallelism", "podMaxBackoffSeconds", "podInitialBackoffSeconds"];
        for (word, meant) in [
            ("Profiles", Some("profiles")),
            ("profile", Some("profiles")),
            ("porfiles", Some("profiles")),
            ("podInitialBackofSecond", Some("podInitialBackoffSeconds")),
            ("paralellism", Some("parallelism")),
            ("extenders", None),
            ("p", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, known), meant, "{word}");
        }
    }
}
