//! Stop strings: found across tokens, text held back while it may become one.

/// Stop strings of one request.
const MAX_STOPS: usize = 64;
/// Bytes of one stop string.
const MAX_BYTES: usize = 4096;

/// Why stop strings are refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StopError {
    /// It would stop every answer before it begins.
    #[error("stop[{index}] is empty; expected at least one letter")]
    Empty {
        /// Place in the list.
        index: usize,
    },
    /// Longer than any sensible one.
    #[error("stop[{index}] has {found} bytes; expected at most {MAX_BYTES}")]
    TooLong {
        /// Place in the list.
        index: usize,
        /// Bytes of the stop string.
        found: usize,
    },
    /// More than a request may have.
    #[error("stop has {found} strings; expected at most {MAX_STOPS}")]
    TooMany {
        /// Strings in the list.
        found: usize,
    },
}

/// What a piece of text led to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StopStep {
    /// Text that is certain now: it is part of the answer whatever follows.
    pub text: String,
    /// Index of the stop string that this piece completes. The answer ends before it; nothing is held back.
    pub stop: Option<usize>,
}

/// Finds the stop string that is complete first, the longest of those that end in the same place. Which one wins does
/// not depend on how the text is cut into tokens or tokens into rounds, nor on the order of the list.
///
/// Feed the text of one token at a time: the token whose piece completes a stop string is the last one to be kept, so
/// state, text and counters agree. Each byte costs one step per stop string (Knuth, Morris, Pratt 1977).
#[derive(Clone, Debug)]
pub struct StopMatcher {
    patterns: Vec<Pattern>,
    /// The longest ending of the text that may still become a stop string.
    held: String,
    stopped: bool,
}

#[derive(Clone, Debug)]
struct Pattern {
    bytes: Box<[u8]>,
    /// `borders[k]`: length of the longest proper beginning of the first `k + 1` bytes that is also their ending.
    borders: Box<[usize]>,
    /// How much of the stop string the text ends with.
    matched: usize,
}

impl StopMatcher {
    /// A matcher at the start of an answer. With no stop strings, text passes through.
    pub fn new<S: AsRef<str>>(stops: &[S]) -> Result<Self, StopError> {
        if stops.len() > MAX_STOPS {
            return Err(StopError::TooMany { found: stops.len() });
        }
        let pattern = |(index, stop): (usize, &S)| match stop.as_ref() {
            "" => Err(StopError::Empty { index }),
            long if long.len() > MAX_BYTES => Err(StopError::TooLong { index, found: long.len() }),
            stop => Ok(Pattern::new(stop)),
        };
        let patterns = stops.iter().enumerate().map(pattern).collect::<Result<_, _>>()?;
        Ok(Self { patterns, held: String::new(), stopped: false })
    }

    /// Whether there is no stop string at all.
    pub fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// Takes the text of the next token. After a stop string was complete, further text is ignored.
    #[must_use]
    pub fn push(&mut self, piece: &str) -> StopStep {
        if self.stopped {
            return StopStep::default();
        }
        let before = self.held.len();
        self.held.push_str(piece);
        for (read, &byte) in piece.as_bytes().iter().enumerate() {
            if let Some((stop, length)) = self.advance(byte) {
                self.stopped = true;
                self.held.truncate(before + read + 1 - length);
                return StopStep { text: std::mem::take(&mut self.held), stop: Some(stop) };
            }
        }
        let open = self.patterns.iter().map(|pattern| pattern.matched).max().unwrap_or(0);
        let rest = self.held.split_off(self.held.len() - open);
        StopStep { text: std::mem::replace(&mut self.held, rest), stop: None }
    }

    /// Ends the text: what was held back did not become a stop string. Text that follows starts anew.
    #[must_use]
    pub fn finish(&mut self) -> String {
        for pattern in &mut self.patterns {
            pattern.matched = 0;
        }
        std::mem::take(&mut self.held)
    }

    /// Whether a stop string was complete.
    pub fn stopped(&self) -> bool {
        self.stopped
    }

    /// The longest stop string that ends with this byte: its index and its length.
    fn advance(&mut self, byte: u8) -> Option<(usize, usize)> {
        let mut longest = None;
        for (index, pattern) in self.patterns.iter_mut().enumerate() {
            let length = pattern.bytes.len();
            if pattern.advance(byte) && longest.is_none_or(|(_, best)| length > best) {
                longest = Some((index, length));
            }
        }
        longest
    }
}

impl Pattern {
    fn new(stop: &str) -> Self {
        let bytes: Box<[u8]> = stop.as_bytes().into();
        let mut borders = vec![0; bytes.len()];
        let mut border = 0;
        for end in 1..bytes.len() {
            while border > 0 && bytes[border] != bytes[end] {
                border = borders[border - 1];
            }
            border += usize::from(bytes[border] == bytes[end]);
            borders[end] = border;
        }
        Self { bytes, borders: borders.into(), matched: 0 }
    }

    /// Whether the stop string is complete with this byte. It must not be called again after it was.
    fn advance(&mut self, byte: u8) -> bool {
        while self.matched > 0 && self.bytes[self.matched] != byte {
            self.matched = self.borders[self.matched - 1];
        }
        self.matched += usize::from(self.bytes[self.matched] == byte);
        self.matched == self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Feeds pieces one by one: the whole text, and the number of pieces used when a stop was complete.
    fn feed(stops: &[&str], pieces: &[&str]) -> (String, Option<usize>) {
        let mut matcher = StopMatcher::new(stops).unwrap();
        let mut text = String::new();
        for (nth, piece) in pieces.iter().enumerate() {
            let step = matcher.push(piece);
            text.push_str(&step.text);
            if step.stop.is_some() {
                return (text, Some(nth + 1));
            }
        }
        text.push_str(&matcher.finish());
        (text, None)
    }

    #[test]
    fn stops_early_in_a_wide_block() {
        let pieces = ["He", "llo ", "STOP", " and", " much", " more"];
        assert_eq!(feed(&["STOP"], &pieces), ("Hello ".into(), Some(3)));
    }

    #[test]
    fn first_in_the_text_wins_whatever_the_order_of_the_list() {
        let pieces = ["one", ", two", "; three"];
        assert_eq!(feed(&[";", ","], &pieces), ("one".into(), Some(2)));
        assert_eq!(feed(&[",", ";"], &pieces), ("one".into(), Some(2)));
    }

    #[test]
    fn spans_tokens() {
        assert_eq!(feed(&["###"], &["ab", "c#", "#", "#d"]), ("abc".into(), Some(4)));
    }

    #[test]
    fn held_text_comes_out_at_the_end() {
        assert_eq!(feed(&["END!!"], &["The ", "EN", "D"]), ("The END".into(), None));
    }

    #[test]
    fn false_start_before_the_true_one() {
        assert_eq!(feed(&["abc"], &["ab", "ab", "abc"]), ("abab".into(), Some(3)));
    }

    #[test]
    fn longest_of_those_that_end_together() {
        assert_eq!(feed(&["c", "bc"], &["abc"]), ("a".into(), Some(1)));
    }

    #[test]
    fn text_after_a_stop_is_ignored() {
        let mut matcher = StopMatcher::new(&["x"]).unwrap();
        assert_eq!(matcher.push("axb"), StopStep { text: "a".into(), stop: Some(0) });
        assert_eq!(matcher.push("c"), StopStep::default());
        assert_eq!(matcher.finish(), "");
        assert!(matcher.stopped());
    }

    #[test]
    fn only_what_may_become_a_stop_is_held() {
        let mut matcher = StopMatcher::new(&["abab!", "終"]).unwrap();
        assert_eq!(matcher.push("xaba").text, "x");
        assert_eq!(matcher.push("ba").text, "ab");
        assert_eq!(matcher.push("é").text, "abaé");
    }

    #[test]
    fn refusals() {
        let messages = [
            StopMatcher::new(&["a", ""]).unwrap_err(),
            StopMatcher::new(&["a".repeat(5000)]).unwrap_err(),
            StopMatcher::new(&["a"; 65]).unwrap_err(),
        ]
        .map(|error| error.to_string())
        .join("\n");
        insta::assert_snapshot!(messages, @r"
        stop[1] is empty; expected at least one letter
        stop[0] has 5000 bytes; expected at most 4096
        stop has 65 strings; expected at most 64
        ");
    }

    /// The first place where a stop ends, and the text before the longest stop that ends there.
    fn naive(stops: &[String], text: &str) -> Option<(usize, String)> {
        (1..=text.len()).find_map(|end| {
            let longest = stops
                .iter()
                .filter(|stop| text.as_bytes()[..end].ends_with(stop.as_bytes()))
                .map(String::len)
                .max()?;
            Some((end, text[..end - longest].to_owned()))
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn agrees_with_a_naive_search(
            stops in prop::collection::vec("[ab]{1,3}|[a終é]{1,3}", 0..5),
            pieces in prop::collection::vec("[ab終éx]{0,3}", 0..12),
        ) {
            let whole: String = pieces.concat();
            let mut matcher = StopMatcher::new(&stops).unwrap();
            let mut text = String::new();
            let mut fed = 0;
            let mut stopped = false;
            for piece in &pieces {
                let step = matcher.push(piece);
                fed += piece.len();
                text.push_str(&step.text);
                if step.stop.is_some() {
                    stopped = true;
                    break;
                }
                // Nothing certain is held back.
                let held = &whole[text.len()..fed];
                prop_assert!(held.is_empty() || stops.iter().any(|stop| stop.starts_with(held)));
            }
            if let Some((end, before)) = naive(&stops, &whole) {
                prop_assert!(stopped);
                prop_assert_eq!(text, before);
                // The token that completes the stop is the last one that was fed.
                let mut ends = pieces.iter().scan(0, |at, piece| {
                    *at += piece.len();
                    Some(*at)
                });
                prop_assert_eq!(fed, ends.find(|&at| at >= end).unwrap());
            } else {
                prop_assert!(!stopped);
                text.push_str(&matcher.finish());
                prop_assert_eq!(text, whole);
            }
        }
    }
}
