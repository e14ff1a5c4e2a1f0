//! Aligned columns for people. The last column is never padded and never cut, so that paths can be copied.

use std::io::{self, Write};

/// Spaces before the first column, and between columns.
const INDENT: &str = "    ";
const GAP: &str = "  ";

/// Rows of `N` columns under a heading.
pub(super) struct Table<const N: usize> {
    heading: [&'static str; N],
    rows: Vec<[String; N]>,
}

impl<const N: usize> Table<N> {
    /// A table without rows.
    pub(super) fn new(heading: [&'static str; N]) -> Self {
        Self { heading, rows: Vec::new() }
    }

    /// One more row.
    pub(super) fn push(&mut self, row: [String; N]) {
        self.rows.push(row);
    }

    /// Writes heading and rows; a table without rows writes nothing.
    pub(super) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let mut widths = self.heading.map(width);
        for row in &self.rows {
            for (widest, cell) in widths.iter_mut().zip(row) {
                *widest = width(cell).max(*widest);
            }
        }
        write_row(out, &widths, &self.heading)?;
        self.rows.iter().try_for_each(|row| write_row(out, &widths, row))
    }
}

fn width(cell: &str) -> usize {
    cell.chars().count()
}

fn write_row<const N: usize>(
    out: &mut impl Write,
    widths: &[usize; N],
    cells: &[impl AsRef<str>; N],
) -> io::Result<()> {
    out.write_all(INDENT.as_bytes())?;
    for (column, cell) in cells.iter().enumerate() {
        let cell = cell.as_ref();
        if column + 1 == N {
            return writeln!(out, "{cell}");
        }
        write!(out, "{cell:<width$}{GAP}", width = widths[column])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(["ID", "USER", "PATH"]);
        let mut out = Vec::new();
        table.write(&mut out).unwrap();
        assert!(out.is_empty());
        table.push(["7".into(), "ännchen".into(), "a b".into()]);
        table.push(["12345".into(), "x".into(), String::new()]);
        table.write(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, "    ID     USER     PATH\n    7      ännchen  a b\n    12345  x        \n");
    }
}
