//! Suggests the closest known name for an unknown one.

use strsim::osa_distance;

/// Returns the name in `known` that is closest to `word`, ignoring case; `None` if all differ by more than a
/// third of the letters, or more than three.
pub fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let word = word.to_lowercase();
    let letters = word.chars().count();
    let slips = (letters / 3).clamp(1, 3);
    let near = known.into_iter().map(|name| {
        let lower = name.to_lowercase();
        // Among equally close names, prefer those with the same first letter.
        (osa_distance(&word, &lower), lower.chars().next() != word.chars().next(), name)
    });
    near.filter(|&(distance, ..)| distance <= slips && distance < letters).min().map(|(.., name)| name)
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
