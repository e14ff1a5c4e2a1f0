//! The little language of `x-ms-if-tags` and of Find Blobs by Tags: `"status" = 'done' AND "size" > '5'`.
//!
//! ```text
//! query   = and { OR and }
//! and     = term { AND term }
//! term    = ( query ) | name operator 'value'
//! name    = "text" | word | @container
//! operator= = | == | <> | != | > | >= | < | <=
//! ```

use std::collections::BTreeMap;

/// Longest query.
const MAX_LENGTH: usize = 8 * 1024;
/// Deepest nesting of parentheses.
const MAX_DEPTH: usize = 16;

/// A parsed query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TagQuery {
    /// Both hold.
    And(Box<TagQuery>, Box<TagQuery>),
    /// One holds.
    Or(Box<TagQuery>, Box<TagQuery>),
    /// A tag compares like this with a value.
    Compare {
        /// The tag's name; `@container` is the container's name.
        name: String,
        /// How.
        operator: Operator,
        /// With what.
        value: String,
    },
}

/// A comparison; values are compared as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `=`
    Equal,
    /// `<>`
    NotEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
}

impl TagQuery {
    /// Reads a query; the text says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if text.len() > MAX_LENGTH {
            return Err("the tag query is too long");
        }
        let tokens = tokens(text)?;
        let mut parser = Parser { tokens: &tokens, depth: 0 };
        let query = parser.either()?;
        if parser.tokens.is_empty() { Ok(query) } else { Err("something follows the end of the tag query") }
    }

    /// Whether a blob with these tags fulfils it. A tag that is not there compares with nothing.
    pub fn matches(&self, container: &str, tags: &BTreeMap<String, String>) -> bool {
        match self {
            Self::And(one, other) => one.matches(container, tags) && other.matches(container, tags),
            Self::Or(one, other) => one.matches(container, tags) || other.matches(container, tags),
            Self::Compare { name, operator, value } => {
                let found =
                    if name == "@container" { Some(container) } else { tags.get(name).map(String::as_str) };
                found.is_some_and(|found| operator.holds(found, value))
            }
        }
    }

    /// Names of the tags it asks about.
    pub fn names(&self) -> Vec<&str> {
        match self {
            Self::And(one, other) | Self::Or(one, other) => {
                let mut names = one.names();
                names.extend(other.names());
                names
            }
            Self::Compare { name, .. } => vec![name],
        }
    }
}

impl Operator {
    fn holds(self, found: &str, value: &str) -> bool {
        match self {
            Self::Equal => found == value,
            Self::NotEqual => found != value,
            Self::Greater => found > value,
            Self::GreaterOrEqual => found >= value,
            Self::Less => found < value,
            Self::LessOrEqual => found <= value,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Name(String),
    Value(String),
    Operator(Operator),
    And,
    Or,
    Open,
    Close,
}

fn tokens(text: &str) -> Result<Vec<Token>, &'static str> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let (token, length) = match first {
            '(' => (Token::Open, 1),
            ')' => (Token::Close, 1),
            '"' => quoted(rest, '"').map(|(name, length)| (Token::Name(name), length))?,
            '\'' => quoted(rest, '\'').map(|(value, length)| (Token::Value(value), length))?,
            '=' | '<' | '>' | '!' => operator(rest)?,
            c if is_word(c) => word(rest),
            _ => return Err("the tag query has a character that does not belong there"),
        };
        tokens.push(token);
        rest = rest[length..].trim_start();
    }
    Ok(tokens)
}

/// Text between quotes; a doubled quote stands for one.
fn quoted(rest: &str, quote: char) -> Result<(String, usize), &'static str> {
    let mut text = String::new();
    let mut chars = rest.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        if c != quote {
            text.push(c);
        } else if chars.next_if(|(_, next)| *next == quote).is_some() {
            text.push(quote);
        } else {
            return Ok((text, at + 1));
        }
    }
    Err("the tag query has a quote that does not end")
}

fn operator(rest: &str) -> Result<(Token, usize), &'static str> {
    let table = [
        ("<>", Operator::NotEqual),
        ("!=", Operator::NotEqual),
        (">=", Operator::GreaterOrEqual),
        ("<=", Operator::LessOrEqual),
        ("==", Operator::Equal),
        ("=", Operator::Equal),
        (">", Operator::Greater),
        ("<", Operator::Less),
    ];
    table
        .into_iter()
        .find(|(text, _)| rest.starts_with(text))
        .map(|(text, operator)| (Token::Operator(operator), text.len()))
        .ok_or("the tag query has an unknown comparison")
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '@'
}

fn word(rest: &str) -> (Token, usize) {
    let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
    let word = &rest[..length];
    let token = if word.eq_ignore_ascii_case("and") {
        Token::And
    } else if word.eq_ignore_ascii_case("or") {
        Token::Or
    } else {
        Token::Name(word.to_owned())
    };
    (token, length)
}

struct Parser<'t> {
    tokens: &'t [Token],
    depth: usize,
}

impl Parser<'_> {
    fn next_is(&mut self, wanted: &Token) -> bool {
        let found = self.tokens.first() == Some(wanted);
        if found {
            self.tokens = &self.tokens[1..];
        }
        found
    }

    fn either(&mut self) -> Result<TagQuery, &'static str> {
        let mut query = self.both()?;
        while self.next_is(&Token::Or) {
            query = TagQuery::Or(Box::new(query), Box::new(self.both()?));
        }
        Ok(query)
    }

    fn both(&mut self) -> Result<TagQuery, &'static str> {
        let mut query = self.term()?;
        while self.next_is(&Token::And) {
            query = TagQuery::And(Box::new(query), Box::new(self.term()?));
        }
        Ok(query)
    }

    fn term(&mut self) -> Result<TagQuery, &'static str> {
        if self.next_is(&Token::Open) {
            self.depth += 1;
            if self.depth > MAX_DEPTH {
                return Err("the tag query is nested too deeply");
            }
            let query = self.either()?;
            self.depth -= 1;
            return if self.next_is(&Token::Close) { Ok(query) } else { Err("a parenthesis is not closed") };
        }
        match self.tokens {
            [Token::Name(name), Token::Operator(operator), Token::Value(value), rest @ ..] => {
                self.tokens = rest;
                Ok(TagQuery::Compare { name: name.clone(), operator: *operator, value: value.clone() })
            }
            _ => Err("a comparison is a tag's name, an operator and a value in single quotes"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn holds(query: &str) -> bool {
        let tags = [("status", "done"), ("size", "5"), ("a b", "it's")];
        let tags = tags.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        TagQuery::parse(query).unwrap().matches("share", &tags)
    }

    #[test]
    fn comparisons_and_their_combination() {
        for yes in [
            "\"status\" = 'done'",
            "status='done' and size>='5'",
            "\"size\" > '4' AND \"size\" < '6'",
            "\"status\" = 'x' OR \"size\" <> '6'",
            "\"status\" = 'x' AND \"size\" = '5' OR \"status\" = 'done'",
            "(\"status\" = 'x' OR \"size\" = '5') AND @container = 'share'",
            "\"a b\" = 'it''s'",
        ] {
            assert!(holds(yes), "{yes}");
        }
        for no in [
            "\"status\" = 'Done'",
            "\"missing\" <> 'x'",
            "@container = 'other'",
            "\"status\" = 'done' AND (\"size\" = '4' OR \"size\" = '6')",
        ] {
            assert!(!holds(no), "{no}");
        }
    }

    #[test]
    fn bad_queries_are_refused() {
        let deep = format!("{}a='b'{}", "(".repeat(17), ")".repeat(17));
        let long = format!("a='{}'", "x".repeat(MAX_LENGTH));
        for bad in [
            "",
            "a",
            "a=b",
            "a='b",
            "'b'=a",
            "a='b' AND",
            "(a='b'",
            "a='b')",
            "a='b' c='d'",
            "a ~ 'b'",
            "a ! 'b'",
            &deep,
            &long,
        ] {
            assert!(TagQuery::parse(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_tag_query_is_read_or_refused(text in "[a-c@\"'()<>=! ANDOR]{0,60}") {
            let _ = TagQuery::parse(&text);
        }

        #[test]
        fn any_text_as_a_tag_query(text in ".{0,60}") {
            let _ = TagQuery::parse(&text);
        }
    }
}
