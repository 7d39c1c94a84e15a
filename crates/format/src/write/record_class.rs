//! Takes objects apart by the streamer infos of their classes.

use crate::cursor::VersionHeader;
use crate::error::{FormatError, Result};
use crate::member_kind::{MemberKind, Times};
use crate::number::Number;
use crate::scalar::Scalar;
use crate::streamer::{ClassInfo, Element};
use crate::tree::builtin;

use super::family::OwnerKind;
use super::recorder::Recorder;
use super::token::{KeptKind, Token};

/// Numbers that were read of an object and its base classes, which may count arrays.
type Counters = Vec<(String, i64)>;

impl Recorder<'_, '_> {
    /// Takes an object of this class apart.
    pub(super) fn object(&mut self, class_name: &str) -> Result<()> {
        self.class(class_name, &mut Counters::new())
    }

    fn class(&mut self, name: &str, counters: &mut Counters) -> Result<()> {
        match name {
            "TObject" => self.buffer.skip_tobject(),
            "TString" => self.buffer.cursor.string_bytes().map(|_| ()),
            "TDatime" => self.buffer.cursor.skip(4),
            "TList" | "THashList" | "TSortedList" => self.list(),
            "TObjArray" => self.pointer_array(),
            "TMap" => self.map(),
            "TObjString" => self.text_object(),
            "TClonesArray" => self.clones(),
            _ => match Number::of_array_class(name) {
                Some(number) => self.numbers(number.size()),
                None => self.deeper(|recorder| recorder.described(name, counters)),
            },
        }
    }

    fn numbers(&mut self, size: usize) -> Result<()> {
        let count = i64::from(self.buffer.cursor.i32()?);
        let count = self.buffer.cursor.checked_count(count, size)?;
        self.buffer.cursor.skip(count * size)
    }

    /// TList::Streamer: a TObject, a name, and pointers with an option each.
    fn list(&mut self) -> Result<()> {
        let header = self.begin()?;
        if header.version <= 3 {
            return Err(FormatError::unsupported(format!("TList version {}", header.version)));
        }
        self.buffer.skip_tobject()?;
        self.buffer.cursor.string_bytes()?;
        let count = i64::from(self.buffer.cursor.i32()?);
        for _ in 0..self.buffer.cursor.checked_count(count, 5)? {
            self.pointer()?;
            self.buffer.cursor.string_bytes()?;
        }
        self.end(header, false)
    }

    /// What TObjArray, TMap and TClonesArray begin with: since version 3 a TObject, since version 2 a name.
    fn collection_head(&mut self) -> Result<VersionHeader> {
        let header = self.begin()?;
        if header.version > 2 {
            self.buffer.skip_tobject()?;
        }
        if header.version > 1 {
            self.buffer.cursor.string_bytes()?;
        }
        Ok(header)
    }

    /// TObjArray::Streamer.
    fn pointer_array(&mut self) -> Result<()> {
        let header = self.collection_head()?;
        self.copy_up_to(self.position());
        let start = self.position();
        let count = i64::from(self.buffer.cursor.i32()?);
        let _lower_bound = self.buffer.cursor.i32()?;
        let head = start..self.position();
        self.skip_copying();
        let array = self.tokens.len();
        self.tokens.push(Token::Array { head, ends: Vec::new() });
        for _ in 0..self.buffer.cursor.checked_count(count, 4)? {
            self.pointer()?;
            self.copy_up_to(self.position());
            let end = self.tokens.len();
            if let Some(Token::Array { ends, .. }) = self.tokens.get_mut(array) {
                ends.push(end);
            }
        }
        self.end(header, false)
    }

    /// TObjString, which files often do not describe.
    fn text_object(&mut self) -> Result<()> {
        let header = self.begin()?;
        self.buffer.skip_tobject()?;
        self.buffer.cursor.string_bytes()?;
        self.end(header, false)
    }

    /// TMap::Streamer: pairs of pointers.
    fn map(&mut self) -> Result<()> {
        let header = self.collection_head()?;
        let count = i64::from(self.buffer.cursor.i32()?);
        for _ in 0..2 * self.buffer.cursor.checked_count(count, 8)? {
            self.pointer()?;
        }
        self.end(header, false)
    }

    /// TClonesArray::Streamer, as far as its head: only empty ones are read.
    fn clones(&mut self) -> Result<()> {
        let header = self.collection_head()?;
        self.buffer.cursor.string_bytes()?; // class and version
        let count = self.buffer.cursor.i32()?;
        let _lower_bound = self.buffer.cursor.i32()?;
        if count != 0 {
            return Err(FormatError::unsupported("a TClonesArray with objects in it"));
        }
        self.end(header, false)
    }

    fn described(&mut self, name: &str, counters: &mut Counters) -> Result<()> {
        let header = self.begin()?;
        let version = i32::from(header.version);
        if matches!((name, version), ("TBranch", ..=5) | ("TTree", ..=4)) {
            return Err(FormatError::unsupported(format!("{name} version {version}, which ROOT before 4 wrote")));
        }
        if matches!((name, version), ("TBranch", ..=9)) {
            self.members(&builtin::legacy_branch(version), counters)?;
            return self.end(header, false).map_err(|error| error.in_object(format!("class {name}")));
        }
        let infos = self.infos;
        let mut checksum = 0;
        if version <= 0 && header.end.is_some() {
            // A foreign class has a checksum in place of a version; one that is declared with version 0 has none.
            checksum = self.buffer.cursor.clone().u32().unwrap_or(0);
            if infos.all(name).any(|info| info.checksum == checksum) || infos.get(name, 0).is_none() {
                self.buffer.cursor.skip(4)?;
            }
        }
        let found = match version {
            ..=0 => infos.find(name, version, checksum),
            _ => infos.get(name, version),
        };
        if let Some(info) = found {
            self.members(info, counters)?;
            return self.end(header, false).map_err(|error| error.in_object(format!("class {name}")));
        }
        let Some(info) = builtin::alike_in_all_versions(name).filter(|_| header.end.is_some()) else {
            let message = format!("class {name} version {version} is not described in the file");
            return Err(FormatError::unsupported(message));
        };
        self.members(info, counters)?;
        self.end(header, name.starts_with("TLeaf"))
    }

    fn members(&mut self, info: &ClassInfo, counters: &mut Counters) -> Result<()> {
        let names = self.kind().map_or(&[][..], OwnerKind::members);
        for element in &info.elements {
            let kept = self.owner.zip(names.iter().find(|name| **name == element.name));
            let named = |error: FormatError| error.in_object(format!("{}::{}", info.name, element.name));
            let kind = match element.kind() {
                MemberKind::OldSeeks => Some(KeptKind::Seeks(self.seek_type()?)),
                _ => kept_kind(element),
            };
            match (kept, kind) {
                (Some((owner, name)), Some(kind)) => {
                    let value = self.keep((owner, name, kind), |recorder| recorder.member(element, counters));
                    value.map_err(named)?;
                }
                _ => {
                    self.member(element, counters).map_err(named)?;
                }
            }
        }
        Ok(())
    }

    /// How the offsets that come next are stored.
    fn seek_type(&self) -> Result<Number> {
        Ok(if self.buffer.cursor.clone().u8()? == 2 { Number::I64 } else { Number::I32 })
    }

    /// Reads a member. Returns its value, if it is a number, or with what it refers to.
    fn member(&mut self, element: &Element, counters: &mut Counters) -> Result<i64> {
        let unknown = || FormatError::unsupported(format!("a member of type code {}", element.type_code));
        let type_name = element.type_name.trim_end_matches('*');
        match element.kind() {
            // Bases share the counters, and may be those of a branch.
            MemberKind::Base if element.name == "TObject" => self.buffer.skip_tobject()?,
            MemberKind::Base => self.class(&element.name, counters)?,
            MemberKind::CharStar => {
                let size = i64::from(self.buffer.cursor.i32()?);
                let size = self.buffer.cursor.checked_count(size, 1)?;
                self.buffer.cursor.skip(size)?;
            }
            MemberKind::Number(Scalar::Plain(number)) => return self.number(element, number, counters),
            MemberKind::Bits => return self.number(element, Number::U32, counters),
            MemberKind::Number(scalar) => self.buffer.cursor.skip(scalar.stored_size())?,
            MemberKind::FixedArray(scalar) => {
                self.buffer.cursor.skip(scalar.stored_size().saturating_mul(element.array_length))?;
            }
            MemberKind::CountedArray(scalar) => {
                let count = counter_of(element, counters).ok_or_else(unknown)?;
                if self.buffer.cursor.u8()? != 0 {
                    self.skip_numbers(count, scalar.stored_size())?;
                }
            }
            MemberKind::Object(Times::One) => self.apart(type_name)?,
            MemberKind::Object(Times::Array) => (0..element.array_length).try_for_each(|_| self.apart(type_name))?,
            MemberKind::Pointer(Times::One) => return self.pointer().map(|id| id as i64),
            MemberKind::Pointer(Times::Array) => {
                (0..element.array_length).try_for_each(|_| self.pointer().map(|_| ()))?;
            }
            MemberKind::Text(Times::One) => self.buffer.cursor.string_bytes().map(|_| ())?,
            MemberKind::TObject(Times::One) => self.buffer.skip_tobject()?,
            MemberKind::TNamed(Times::One) => self.class("TNamed", counters)?,
            MemberKind::Container => self.container(element)?,
            MemberKind::OldSeeks => {
                let size = self.seek_type()?.size();
                let count = counter_of(element, counters).ok_or_else(unknown)?;
                self.buffer.cursor.skip(1)?;
                self.skip_numbers(count, size)?;
            }
            MemberKind::Text(Times::Array) | MemberKind::TObject(Times::Array) => return Err(unknown()),
            MemberKind::TNamed(Times::Array) | MemberKind::ObjectArray => return Err(unknown()),
            MemberKind::NotStored | MemberKind::Unknown => return Err(unknown()),
        }
        Ok(0)
    }

    fn number(&mut self, element: &Element, number: Number, counters: &mut Counters) -> Result<i64> {
        let value = number.read(&mut self.buffer.cursor)?;
        counters.push((element.name.clone(), value));
        Ok(value)
    }

    fn skip_numbers(&mut self, count: i64, size: usize) -> Result<()> {
        let count = self.buffer.cursor.checked_count(count, size)?;
        self.buffer.cursor.skip(count.saturating_mul(size))
    }

    /// Reads an object that is a member and not a base, so that its own members do not count as those around it.
    fn apart(&mut self, class_name: &str) -> Result<()> {
        match (self.kind(), class_name) {
            (Some(OwnerKind::Histogram), "TAxis") => self.axis(),
            (Some(OwnerKind::Grid), name) if name.starts_with("TNDArrayT<") => self.cells(name),
            _ => self.unowned(class_name),
        }
    }

    /// A container of the standard library. One whose elements may have pointers is kept where it is.
    fn container(&mut self, element: &Element) -> Result<()> {
        let is_plain = (1..=19).contains(&element.content_type) || element.content_type == 365;
        let is_plain = is_plain || has_only_numbers(&element.type_name);
        let header = self.begin()?;
        let Some(end) = header.end else {
            // A string that stands alone.
            if matches!(element.type_name.as_str(), "string" | "std::string") {
                return Err(FormatError::unsupported("a string with a header without its length"));
            }
            return Err(FormatError::unsupported(format!("a {} without its length", element.type_name)));
        };
        let is_empty = end
            .checked_sub(self.position() + 4)
            .is_some_and(|rest| rest == 0 && self.buffer.cursor.clone().i32().is_ok_and(|count| count == 0));
        if !is_plain && !is_empty {
            self.keep_in_place(end)?;
        }
        self.end(header, true)
    }
}

/// Whether a type is a string, or made of containers, numbers and strings only.
fn has_only_numbers(type_name: &str) -> bool {
    const KNOWN: [&str; 29] = [
        "vector",
        "list",
        "deque",
        "set",
        "multiset",
        "map",
        "multimap",
        "unordered_map",
        "unordered_set",
        "pair",
        "array",
        "bitset",
        "less",
        "allocator",
        "string",
        "bool",
        "char",
        "short",
        "int",
        "long",
        "unsigned",
        "signed",
        "float",
        "double",
        "Int_t",
        "Double_t",
        "Float_t",
        "Long64_t",
        "",
    ];
    let words = type_name.split(|letter: char| "<>, ".contains(letter)).map(|word| word.trim_start_matches("std::"));
    let mut words = words.filter(|word| !word.bytes().all(|letter| letter.is_ascii_digit()));
    words.all(|word| KNOWN.contains(&word))
}

/// The number that counts an array, if it was read before.
fn counter_of(element: &Element, counters: &Counters) -> Option<i64> {
    counters.iter().rev().find(|(name, _)| *name == element.count_name).map(|(_, count)| *count)
}

/// How a member that may be replaced is stored; none for kinds that are never replaced.
fn kept_kind(element: &Element) -> Option<KeptKind> {
    let counted = |class_name: &str| Number::of_array_class(class_name).map(KeptKind::Counted);
    Some(match element.kind() {
        MemberKind::Base if element.name == "TObject" => KeptKind::Other,
        MemberKind::TObject(Times::One) => KeptKind::Other,
        MemberKind::Base => return counted(&element.name),
        MemberKind::Number(Scalar::Plain(number)) => KeptKind::Number(number),
        MemberKind::Bits => KeptKind::Number(Number::U32),
        MemberKind::CountedArray(Scalar::Plain(number)) => KeptKind::Array(number),
        MemberKind::Object(Times::One) if element.type_name == "TObjArray" => KeptKind::Pointers,
        MemberKind::Object(Times::One) if element.type_name == "ROOT::TIOFeatures" => KeptKind::Other,
        MemberKind::Object(Times::One) => return counted(&element.type_name),
        MemberKind::Pointer(Times::One) if element.type_name == "THashList*" => KeptKind::Other,
        MemberKind::Pointer(Times::One) => KeptKind::Link,
        MemberKind::Container if element.type_name.starts_with("vector<") => {
            match MemberKind::of(element.content_type, None) {
                MemberKind::Number(Scalar::Plain(number)) => KeptKind::Vector(number),
                _ => return None,
            }
        }
        _ => return None,
    })
}
