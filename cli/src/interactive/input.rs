//! Several lines that make one message.

/// Opens and closes a message of several lines.
const FENCE: &str = "\"\"\"";

/// What was entered so far.
#[derive(Debug, Default)]
pub(super) struct Entry {
    text: String,
    fenced: bool,
}

impl Entry {
    /// Takes a line. Gives the message if it is complete.
    pub(super) fn line(&mut self, line: &str) -> Option<String> {
        if self.fenced {
            return match line.split_once(FENCE) {
                Some((last, _)) => {
                    self.text.push_str(last);
                    Some(self.take())
                }
                None => self.go_on(line),
            };
        }
        if self.text.is_empty()
            && let Some(rest) = line.trim_start().strip_prefix(FENCE)
        {
            if let Some((whole, _)) = rest.split_once(FENCE) {
                return Some(whole.to_owned());
            }
            self.fenced = true;
            // The line break after the fence is layout.
            return if rest.is_empty() { None } else { self.go_on(rest) };
        }
        if let Some(line) = line.strip_suffix('\\') {
            return self.go_on(line);
        }
        self.text.push_str(line);
        Some(self.take())
    }

    /// Whether a message was begun.
    pub(super) fn is_open(&self) -> bool {
        self.fenced || !self.text.is_empty()
    }

    fn go_on(&mut self, line: &str) -> Option<String> {
        self.text.push_str(line);
        self.text.push('\n');
        None
    }

    fn take(&mut self) -> String {
        let text = std::mem::take(self).text;
        // So is the one before the closing fence.
        text.strip_suffix('\n').map_or(text.clone(), str::to_owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The messages that lines make.
    fn messages(lines: &[&str]) -> Vec<String> {
        let mut entry = Entry::default();
        let messages = lines.iter().filter_map(|line| entry.line(line)).collect();
        assert!(!entry.is_open());
        messages
    }

    #[test]
    fn lines_become_messages() {
        assert_eq!(messages(&["a", "b"]), ["a", "b"]);
        assert_eq!(messages(&["a\\", "b\\", "c", "d"]), ["a\nb\nc", "d"]);
        assert_eq!(messages(&["\"\"\"", "a\\", "", "b", "\"\"\"", "c"]), ["a\\\n\nb", "c"]);
        assert_eq!(messages(&["\"\"\"a", "b\"\"\""]), ["a\nb"]);
        assert_eq!(messages(&["\"\"\"a\"\"\""]), ["a"]);
        assert_eq!(messages(&["\"\"\"", "\"\"\""]), [""]);
        assert_eq!(messages(&["\\", "a"]), ["\na"]);
    }

    #[test]
    fn an_unfinished_message_is_open() {
        let mut entry = Entry::default();
        assert_eq!(entry.line("\"\"\""), None);
        assert!(entry.is_open());
    }
}
