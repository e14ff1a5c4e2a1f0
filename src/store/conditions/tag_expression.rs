//! Expressions over tags: the `x-ms-if-tags` condition and the search by tags.
//!
//! ```text
//! expression  = conjunction { OR conjunction }
//! conjunction = term { AND term }
//! term        = "(" expression ")" | name operator value
//! name        = "quoted" | bare word | @container
//! operator    = = | <> | > | >= | < | <=
//! value       = 'quoted', with '' for a quote
//! ```
//!
//! A search knows neither OR, `<>` nor parentheses; a condition does not know `@container`. Values compare as text. A
//! blob that lacks the tag meets `<>` only.

use crate::store::tags::Tags;

/// Parentheses may be nested so deep.
const DEPTH_MAX: u32 = 16;

/// Comparisons in one expression.
const COMPARISONS_MAX: usize = 32;

/// The text is not such an expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the tag expression is not understood at character {at}: {reason}")]
pub struct InvalidTagExpression {
    /// Where, in bytes.
    pub at: usize,
    /// Why.
    pub reason: &'static str,
}

/// A parsed expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagExpression(Node);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Node {
    Any(Vec<Node>),
    All(Vec<Node>),
    Compare { name: Name, operator: Operator, value: String },
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Name {
    Tag(String),
    Container,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
}

/// Where an expression is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Condition,
    Search,
}

impl TagExpression {
    /// Reads the value of `x-ms-if-tags`.
    pub fn condition(text: &str) -> Result<Self, InvalidTagExpression> {
        Self::parse(text, Use::Condition)
    }

    /// Reads the `where` of a search.
    pub fn search(text: &str) -> Result<Self, InvalidTagExpression> {
        Self::parse(text, Use::Search)
    }

    fn parse(text: &str, used: Use) -> Result<Self, InvalidTagExpression> {
        let mut parser = Parser { text, at: 0, used, comparisons: 0 };
        let node = parser.any(0)?;
        parser.skip_space();
        if parser.at == text.len() { Ok(Self(node)) } else { Err(parser.error("something follows the end")) }
    }

    /// Whether these tags of a blob in this container meet it.
    pub fn holds(&self, container: &str, tags: &Tags) -> bool {
        self.0.holds(container, tags)
    }

    /// The container a search is limited to, if it names one.
    pub fn container(&self) -> Option<&str> {
        self.0.container()
    }
}

impl Node {
    fn holds(&self, container: &str, tags: &Tags) -> bool {
        match self {
            Node::Any(nodes) => nodes.iter().any(|node| node.holds(container, tags)),
            Node::All(nodes) => nodes.iter().all(|node| node.holds(container, tags)),
            Node::Compare { name, operator, value } => {
                let found = match name {
                    Name::Tag(name) => tags.get(name),
                    Name::Container => Some(container),
                };
                operator.holds(found, value)
            }
        }
    }

    fn container(&self) -> Option<&str> {
        match self {
            Node::Compare { name: Name::Container, operator: Operator::Equal, value } => Some(value),
            Node::All(nodes) => nodes.iter().find_map(Node::container),
            Node::Compare { .. } | Node::Any(_) => None,
        }
    }
}

impl std::fmt::Display for TagExpression {
    /// In the language it is read from.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::fmt::Display for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (nodes, word) = match self {
            Node::Compare { name, operator, value } => {
                match name {
                    Name::Tag(name) => write!(f, "\"{}\"", name.replace('"', "\"\""))?,
                    Name::Container => f.write_str("@container")?,
                }
                return write!(f, " {} '{}'", operator.sign(), value.replace('\'', "''"));
            }
            Node::Any(nodes) => (nodes, " OR "),
            Node::All(nodes) => (nodes, " AND "),
        };
        for (index, node) in nodes.iter().enumerate() {
            if index > 0 {
                f.write_str(word)?;
            }
            match node {
                Node::Any(_) | Node::All(_) => write!(f, "({node})")?,
                Node::Compare { .. } => node.fmt(f)?,
            }
        }
        Ok(())
    }
}

impl Operator {
    fn sign(self) -> &'static str {
        match self {
            Operator::Equal => "=",
            Operator::NotEqual => "<>",
            Operator::Greater => ">",
            Operator::GreaterOrEqual => ">=",
            Operator::Less => "<",
            Operator::LessOrEqual => "<=",
        }
    }

    fn holds(self, found: Option<&str>, value: &str) -> bool {
        let Some(found) = found else { return self == Operator::NotEqual };
        match self {
            Operator::Equal => found == value,
            Operator::NotEqual => found != value,
            Operator::Greater => found > value,
            Operator::GreaterOrEqual => found >= value,
            Operator::Less => found < value,
            Operator::LessOrEqual => found <= value,
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    used: Use,
    comparisons: usize,
}

impl<'a> Parser<'a> {
    fn error(&self, reason: &'static str) -> InvalidTagExpression {
        InvalidTagExpression { at: self.at, reason }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip_space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    /// Takes a word if it comes next, whatever its case.
    fn word(&mut self, word: &str) -> bool {
        self.skip_space();
        let Some(next) = self.rest().get(..word.len()) else { return false };
        let ends = !self.rest()[word.len()..].starts_with(is_word);
        let found = next.eq_ignore_ascii_case(word) && ends;
        self.at += if found { word.len() } else { 0 };
        found
    }

    fn sign(&mut self, sign: &str) -> bool {
        self.skip_space();
        let found = self.rest().starts_with(sign);
        self.at += if found { sign.len() } else { 0 };
        found
    }

    fn any(&mut self, depth: u32) -> Result<Node, InvalidTagExpression> {
        let mut nodes = vec![self.all(depth)?];
        while self.word("or") {
            if self.used == Use::Search {
                return Err(self.error("a search knows no OR"));
            }
            nodes.push(self.all(depth)?);
        }
        Ok(single_or(nodes, Node::Any))
    }

    fn all(&mut self, depth: u32) -> Result<Node, InvalidTagExpression> {
        let mut nodes = vec![self.term(depth)?];
        while self.word("and") {
            nodes.push(self.term(depth)?);
        }
        Ok(single_or(nodes, Node::All))
    }

    fn term(&mut self, depth: u32) -> Result<Node, InvalidTagExpression> {
        if !self.sign("(") {
            return self.comparison();
        }
        if self.used == Use::Search {
            return Err(self.error("a search knows no parentheses"));
        }
        if depth == DEPTH_MAX {
            return Err(self.error("too many parentheses"));
        }
        let inner = self.any(depth + 1)?;
        if self.sign(")") { Ok(inner) } else { Err(self.error("a closing parenthesis is missing")) }
    }

    fn comparison(&mut self) -> Result<Node, InvalidTagExpression> {
        self.comparisons += 1;
        if self.comparisons > COMPARISONS_MAX {
            return Err(self.error("too many comparisons"));
        }
        let name = self.name()?;
        let operator = self.operator()?;
        self.skip_space();
        if !self.rest().starts_with('\'') {
            return Err(self.error("a value in single quotes is missing"));
        }
        let value = self.quoted('\'')?;
        Ok(Node::Compare { name, operator, value })
    }

    fn name(&mut self) -> Result<Name, InvalidTagExpression> {
        self.skip_space();
        if self.sign("@container") {
            return match self.used {
                Use::Search => Ok(Name::Container),
                Use::Condition => Err(self.error("a condition knows no @container")),
            };
        }
        if self.rest().starts_with('"') {
            return self.quoted('"').map(Name::Tag);
        }
        let length = self.rest().find(|c| !is_word(c)).unwrap_or(self.rest().len());
        if length == 0 {
            return Err(self.error("the name of a tag is missing"));
        }
        let name = self.rest()[..length].to_owned();
        self.at += length;
        Ok(Name::Tag(name))
    }

    fn operator(&mut self) -> Result<Operator, InvalidTagExpression> {
        let operators = [
            ("<>", Operator::NotEqual),
            (">=", Operator::GreaterOrEqual),
            ("<=", Operator::LessOrEqual),
            ("=", Operator::Equal),
            (">", Operator::Greater),
            ("<", Operator::Less),
        ];
        for (sign, operator) in operators {
            if self.sign(sign) {
                if self.used == Use::Search && operator == Operator::NotEqual {
                    return Err(self.error("a search knows no <>"));
                }
                return Ok(operator);
            }
        }
        Err(self.error("an operator is missing"))
    }

    /// Text in quotes, which are written twice inside.
    fn quoted(&mut self, quote: char) -> Result<String, InvalidTagExpression> {
        self.at += quote.len_utf8();
        let mut value = String::new();
        loop {
            let Some(end) = self.rest().find(quote) else {
                return Err(self.error("a closing quote is missing"));
            };
            value.push_str(&self.rest()[..end]);
            self.at += end + quote.len_utf8();
            if !self.rest().starts_with(quote) {
                return Ok(value);
            }
            value.push(quote);
            self.at += quote.len_utf8();
        }
    }
}

fn single_or(mut nodes: Vec<Node>, many: impl FnOnce(Vec<Node>) -> Node) -> Node {
    match nodes.pop() {
        Some(only) if nodes.is_empty() => only,
        Some(last) => {
            nodes.push(last);
            many(nodes)
        }
        None => many(nodes),
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(pairs: &[(&str, &str)]) -> Tags {
        Tags::new(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
            .unwrap()
    }

    #[test]
    fn conditions_compare_and_combine() {
        let blob = tags(&[("project", "x"), ("year", "2026"), ("a b", "c:d")]);
        let holds = |text: &str| TagExpression::condition(text).unwrap().holds("c", &blob);
        for yes in [
            "\"project\" = 'x'",
            "project='x' AND year >= '2026'",
            "project = 'y' OR year < '2027'",
            "project = 'x' and (year = '1' or year <> '2')",
            "missing <> 'v'",
            "\"a b\" = 'c:d' AND project <> 'it''s'",
            "year > '2025' AND year <= '2026'",
        ] {
            assert!(holds(yes), "{yes}");
        }
        for no in
            ["project = 'y'", "missing = ''", "missing > 'a'", "project = 'x' AND year = '1' OR year = '2'"]
        {
            assert!(!holds(no), "{no}");
        }
    }

    #[test]
    fn searches_know_the_container_and_less_else() {
        let search = TagExpression::search("@container = 'photos' AND \"k\" = 'v'").unwrap();
        assert_eq!(search.container(), Some("photos"));
        assert!(search.holds("photos", &tags(&[("k", "v")])));
        assert!(!search.holds("other", &tags(&[("k", "v")])));
        for bad in ["k = 'v' OR k = 'w'", "k <> 'v'", "(k = 'v')"] {
            assert!(TagExpression::search(bad).is_err(), "{bad}");
            assert!(TagExpression::condition(bad).is_ok(), "{bad}");
        }
        assert!(TagExpression::condition("@container = 'c'").is_err());
    }

    #[test]
    fn expressions_are_written_as_they_are_read() {
        for text in
            ["\"k\" = 'it''s'", "a = 'b' AND (c <> 'd' OR e >= 'f')", "(a = 'b' AND c = 'd') OR e < 'f'"]
        {
            let parsed = TagExpression::condition(text).unwrap();
            assert_eq!(TagExpression::condition(&parsed.to_string()), Ok(parsed), "{text}");
        }
        let search = TagExpression::search("@container = 'photos' AND k = 'v'").unwrap();
        assert_eq!(search.to_string(), "@container = 'photos' AND \"k\" = 'v'");
    }

    #[test]
    fn nonsense_is_refused() {
        let deep = format!("{}k='v'{}", "(".repeat(40), ")".repeat(40));
        let long = vec!["k='v'"; 40].join(" AND ");
        for bad in [
            "",
            "k",
            "k =",
            "k = v",
            "k = 'v",
            "= 'v'",
            "k = 'v' x",
            "k = 'v' AND",
            "k ! 'v'",
            "\"k",
            &deep,
            &long,
        ] {
            assert!(TagExpression::condition(bad).is_err(), "{bad}");
        }
    }
}
