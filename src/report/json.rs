use std::io;

use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter};

use super::{Ratios, RunReport};
use crate::base::integrity::JSON_CHECKSUM;

/// The layout of `report.json`.
#[derive(Serialize)]
struct Content<'a> {
    #[serde(flatten)]
    report: &'a RunReport,
    ratios: Ratios,
}

/// The content of `report.json`: the report, its [`Ratios`], and a checksum, with a newline at the end.
pub fn to_json(report: &RunReport) -> String {
    let mut bytes = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, Lines::default());
    let content = Content { report, ratios: Ratios::of(report) };
    content.serialize(&mut serializer).expect("plain values can be written to memory");
    bytes.push(b'\n');
    JSON_CHECKSUM.end(&String::from_utf8(bytes).expect("JSON is UTF-8"))
}

/// Indents objects but writes a list on one line, or a list of objects with one line per object. So the list of
/// all merge counts, which can have a hundred thousand entries, takes one line.
#[derive(Default)]
struct Lines {
    pretty: PrettyFormatter<'static>,
    lists: usize,
    objects_in_list: usize,
}

impl Formatter for Lines {
    fn begin_array<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.lists += 1;
        out.write_all(b"[")
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.lists -= 1;
        out.write_all(b"]")
    }

    fn begin_array_value<W: ?Sized + io::Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { out.write_all(b",") }
    }

    fn end_array_value<W: ?Sized + io::Write>(&mut self, _out: &mut W) -> io::Result<()> {
        Ok(())
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        if self.lists == 0 {
            return self.pretty.begin_object(out);
        }
        let outermost = self.objects_in_list == 0;
        self.objects_in_list += 1;
        out.write_all(if outermost { b"\n      {" } else { b"{" })
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        if self.lists == 0 {
            return self.pretty.end_object(out);
        }
        self.objects_in_list -= 1;
        out.write_all(b"}")
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        match (self.lists, first) {
            (0, _) => self.pretty.begin_object_key(out, first),
            (_, true) => Ok(()),
            (_, false) => out.write_all(b", "),
        }
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(b": ")
    }

    fn end_object_value<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        if self.lists == 0 { self.pretty.end_object_value(out) } else { Ok(()) }
    }
}
