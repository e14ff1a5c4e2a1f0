//! What the load generators share: a connection that sends prepared requests, and the loop that keeps many of them busy.
//!
//! No HTTP library, so that the server is the slower side.

use std::io;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// No answer may take longer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// One kept connection.
pub(crate) struct Line {
    pub(crate) stream: TcpStream,
    pub(crate) buffer: Vec<u8>,
    filled: usize,
}

/// What an answer's head says.
struct Head {
    status: u16,
    length: Length,
}

enum Length {
    Known(usize),
    Chunked,
}

impl Line {
    pub(crate) async fn open(address: &str) -> io::Result<Line> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Line { stream, buffer: vec![0; 256 << 10], filled: 0 })
    }

    /// Sends a request and reads its answer. Returns the length of the body; fails unless the status is as expected.
    pub(crate) async fn ask(&mut self, request: &[u8], expected: u16) -> io::Result<usize> {
        self.stream.write_all(request).await?;
        self.answer(expected, request.starts_with(b"HEAD")).await.map(|(length, _)| length)
    }

    /// Reads an answer; a body of up to one buffer is returned with it.
    pub(crate) async fn answer(&mut self, expected: u16, is_head: bool) -> io::Result<(usize, Vec<u8>)> {
        let (head, end) = self.head().await?;
        let mut kept = Vec::new();
        let length = match head.length {
            _ if is_head => self.drop_to(end),
            Length::Known(length) => self.body(end, length, &mut kept).await?,
            Length::Chunked => self.chunks(end, &mut kept).await?,
        };
        if head.status != expected {
            let text = String::from_utf8_lossy(&kept).into_owned();
            return Err(io::Error::other(format!("status {} instead of {expected}: {text}", head.status)));
        }
        Ok((length, kept))
    }

    async fn fill(&mut self) -> io::Result<()> {
        let read = tokio::time::timeout(PATIENCE, self.stream.read(&mut self.buffer[self.filled..]))
            .await
            .map_err(|_| io::Error::other("no answer"))??;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.filled += read;
        Ok(())
    }

    async fn head(&mut self) -> io::Result<(Head, usize)> {
        loop {
            let filled = &self.buffer[..self.filled];
            if let Some(end) = filled.windows(4).position(|window| window == b"\r\n\r\n") {
                return Ok((parse_head(&filled[..end])?, end + 4));
            }
            if self.filled == self.buffer.len() {
                return Err(io::Error::other("a head that does not end"));
            }
            self.fill().await?;
        }
    }

    /// Forgets what is before `end` of the buffer.
    fn drop_to(&mut self, end: usize) -> usize {
        self.buffer.copy_within(end..self.filled, 0);
        self.filled -= end;
        0
    }

    async fn body(&mut self, start: usize, length: usize, kept: &mut Vec<u8>) -> io::Result<usize> {
        self.drop_to(start);
        let mut missing = length;
        loop {
            let here = missing.min(self.filled);
            if kept.len() + here <= self.buffer.len() {
                kept.extend_from_slice(&self.buffer[..here]);
            }
            self.drop_to(here);
            missing -= here;
            if missing == 0 {
                return Ok(length);
            }
            self.fill().await?;
        }
    }

    async fn chunks(&mut self, start: usize, kept: &mut Vec<u8>) -> io::Result<usize> {
        self.drop_to(start);
        let mut total = 0;
        loop {
            let line = loop {
                if let Some(end) = self.buffer[..self.filled].windows(2).position(|window| window == b"\r\n")
                {
                    break String::from_utf8_lossy(&self.buffer[..end]).into_owned();
                }
                self.fill().await?;
            };
            let size = usize::from_str_radix(line.trim(), 16).map_err(io::Error::other)?;
            let mut chunk = Vec::new();
            self.body(line.len() + 2, size + 2, &mut chunk).await?;
            if size == 0 {
                return Ok(total);
            }
            chunk.truncate(size);
            kept.extend_from_slice(&chunk);
            total += size;
        }
    }
}

fn parse_head(bytes: &[u8]) -> io::Result<Head> {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|word| word.parse().ok());
    let mut length = Length::Known(0);
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        if name.eq_ignore_ascii_case("content-length") {
            length = Length::Known(value.trim().parse().map_err(io::Error::other)?);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            length = Length::Chunked;
        }
    }
    Ok(Head { status: status.ok_or_else(|| io::Error::other("no status"))?, length })
}

/// Runs `turn` on every connection again and again for the given time; returns the turns per second.
pub(crate) async fn repeat<F>(address: &str, connections: usize, seconds: f64, turn: F) -> io::Result<f64>
where
    F: AsyncFn(&mut Line, usize, usize) -> io::Result<()> + Copy + 'static,
{
    let mut lines = Vec::new();
    for _ in 0..connections {
        lines.push(Line::open(address).await?);
    }
    let start = Instant::now();
    let end = start + Duration::from_secs_f64(seconds);
    let local = tokio::task::LocalSet::new();
    let turns = local
        .run_until(async move {
            let tasks: Vec<_> = lines
                .into_iter()
                .enumerate()
                .map(|(connection, mut line)| {
                    tokio::task::spawn_local(async move {
                        let mut number = 0;
                        while Instant::now() < end {
                            turn(&mut line, connection, number).await?;
                            number += 1;
                        }
                        Ok::<usize, io::Error>(number)
                    })
                })
                .collect();
            let mut total = 0;
            for task in tasks {
                total += task.await.map_err(io::Error::other)??;
            }
            Ok::<usize, io::Error>(total)
        })
        .await?;
    Ok(turns as f64 / start.elapsed().as_secs_f64())
}
