//! Just enough of HTTP/1.1 to see where a message begins and ends. Bytes are passed on as they came.

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// A head longer than this is not passed on.
const HEAD_MAX: usize = 64 * 1024;
const BUFFER: usize = 256 * 1024;

/// How long a body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Length {
    Bytes(u64),
    Chunked,
    /// Until the connection ends.
    Open,
}

/// One side of a line.
pub(crate) struct Reader<R> {
    from: R,
    /// Read and not yet passed on.
    rest: Vec<u8>,
}

/// A head, as it came.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) bytes: Vec<u8>,
    lines: Vec<String>,
}

impl Head {
    fn new(bytes: Vec<u8>) -> Self {
        let lines = String::from_utf8_lossy(&bytes).split("\r\n").map(str::to_owned).collect();
        Self { bytes, lines }
    }

    pub(crate) fn first_line(&self) -> &str {
        self.lines.first().map_or("", String::as_str)
    }

    pub(crate) fn header(&self, wanted: &str) -> Option<&str> {
        let mut pairs = self.lines.iter().skip(1).filter_map(|line| line.split_once(':'));
        pairs.find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value.trim())
    }

    pub(crate) fn status(&self) -> u16 {
        self.first_line().split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or_default()
    }

    /// Whether the connection ends with this message.
    pub(crate) fn closes(&self) -> bool {
        self.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }

    fn is_chunked(&self) -> bool {
        self.header("transfer-encoding").is_some_and(|value| value.to_ascii_lowercase().contains("chunked"))
    }

    fn length(&self) -> Option<u64> {
        self.header("content-length")?.parse().ok()
    }

    /// Of the body behind a request's head.
    pub(crate) fn request_length(&self) -> Length {
        if self.is_chunked() { Length::Chunked } else { Length::Bytes(self.length().unwrap_or(0)) }
    }

    /// Of the body behind an answer's head.
    pub(crate) fn answer_length(&self, method: &str) -> Length {
        let bodiless = method == "HEAD" || matches!(self.status(), 100..=199 | 204 | 304);
        match (bodiless, self.is_chunked(), self.length()) {
            (true, ..) => Length::Bytes(0),
            (false, true, _) => Length::Chunked,
            (false, false, Some(length)) => Length::Bytes(length),
            (false, false, None) => Length::Open,
        }
    }

    /// The kind of a request, for counting: method and `comp`, or what it is about.
    pub(crate) fn kind(&self) -> String {
        let mut words = self.first_line().split(' ');
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let query = target.split_once('?').map_or("", |(_, query)| query);
        let get = |name: &str| {
            let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            pairs.find(|(key, _)| *key == name).map(|(_, value)| value.to_ascii_lowercase())
        };
        let about = match (get("comp"), get("restype")) {
            (Some(comp), _) if comp == "lease" => {
                format!("lease {}", self.header("x-ms-lease-action").unwrap_or_default())
            }
            (Some(comp), _) => comp,
            (None, Some(kind)) => kind,
            (None, None) if self.header("x-ms-copy-source").is_some() => "copy".to_owned(),
            (None, None) => "blob".to_owned(),
        };
        format!("{method} {about}")
    }
}

impl<R: AsyncRead + Unpin> Reader<R> {
    pub(crate) fn new(from: R) -> Self {
        Self { from, rest: Vec::new() }
    }

    /// The next head; nothing if the line ended.
    pub(crate) async fn head(&mut self) -> Option<Head> {
        loop {
            if let Some(end) = self.rest.windows(4).position(|four| four == b"\r\n\r\n") {
                let bytes = self.rest.drain(..end + 4).collect();
                return Some(Head::new(bytes));
            }
            if self.rest.len() > HEAD_MAX || !self.more().await {
                return None;
            }
        }
    }

    async fn more(&mut self) -> bool {
        self.rest.reserve(BUFFER);
        self.from.read_buf(&mut self.rest).await.is_ok_and(|count| count > 0)
    }

    /// Passes a body on; how many bytes it had. `None` if a line ended before its end.
    pub(crate) async fn pass(&mut self, length: Length, to: &mut (impl AsyncWrite + Unpin)) -> Option<u64> {
        match length {
            Length::Bytes(bytes) => self.pass_bytes(bytes, to).await,
            Length::Chunked => self.pass_chunks(to).await,
            Length::Open => {
                let mut passed = 0;
                loop {
                    passed += self.rest.len() as u64;
                    to.write_all(&self.rest).await.ok()?;
                    self.rest.clear();
                    if !self.more().await {
                        return Some(passed);
                    }
                }
            }
        }
    }

    async fn pass_bytes(&mut self, bytes: u64, to: &mut (impl AsyncWrite + Unpin)) -> Option<u64> {
        let mut left = bytes;
        while left > 0 {
            if self.rest.is_empty() && !self.more().await {
                return None;
            }
            let now = self.rest.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            to.write_all(&self.rest[..now]).await.ok()?;
            self.rest.drain(..now);
            left -= now as u64;
        }
        Some(bytes)
    }

    async fn pass_chunks(&mut self, to: &mut (impl AsyncWrite + Unpin)) -> Option<u64> {
        let mut passed = 0;
        loop {
            let end = loop {
                match self.rest.windows(2).position(|two| two == b"\r\n") {
                    Some(end) => break end + 2,
                    None if self.more().await => {}
                    None => return None,
                }
            };
            let line = String::from_utf8_lossy(&self.rest[..end]).into_owned();
            let size = u64::from_str_radix(line.trim().split(';').next()?, 16).ok()?;
            // The line, the chunk and its end; trailers are not sent by anybody here.
            passed += self.pass_bytes(end as u64 + size + 2, to).await?;
            if size == 0 {
                return Some(passed);
            }
        }
    }
}
