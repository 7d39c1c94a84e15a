//! Streamer infos compiled to the few steps that read what is wanted of a TTree, TBranch or TLeaf.

use std::collections::HashMap;
use std::rc::Rc;

use crate::error::{FormatError, Result};
use crate::member_kind::{MemberKind, Times};
use crate::number::Number;
use crate::scalar::Scalar;
use crate::streamer::{ClassInfo, ClassInfos, Element};

use super::builtin;
use super::members::{wanted, NumberField, Wanted};

/// One step of reading an object.
#[derive(Debug, Clone)]
pub enum Step {
    /// Bytes of members that are not wanted.
    Skip(usize),
    /// A string that is not wanted.
    SkipString,
    /// An object with a byte count that is not wanted.
    SkipObject,
    /// A TArray that is not wanted: bytes of a number.
    SkipNumbers(usize),
    /// A pointer whose object is not wanted.
    SkipPointer,
    /// A variable array that is not wanted: bytes of an element, and its counter.
    SkipArray(usize, NumberField),
    /// A TObject.
    TObject,
    /// A base class or member object with a version header of its own.
    Base(ClassId),
    /// A basic value of this type code.
    Value(Wanted, Number),
    /// A string.
    Text(Wanted),
    /// A variable array of this basic type with its count.
    Array(Wanted, Number, NumberField),
    /// A TObjArray.
    Pointers(Wanted),
    /// A pointer.
    Link(Wanted),
}

/// The steps of a class.
#[derive(Debug)]
pub struct Program {
    steps: Vec<Step>,
    /// Steps up to the last one that is wanted.
    wanted_count: usize,
}

impl Program {
    /// The steps to take; those after the last wanted one only where the object's end is not recorded.
    pub fn steps(&self, end_is_recorded: bool) -> &[Step] {
        if end_is_recorded {
            &self.steps[..self.wanted_count]
        } else {
            &self.steps
        }
    }
}

/// The place of a class in [`Programs`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClassId(usize);

/// Programs by class and version, compiled when first needed.
#[derive(Debug)]
pub struct Programs<'a> {
    infos: &'a ClassInfos,
    classes: Vec<Class>,
    by_name: HashMap<Rc<str>, ClassId>,
}

#[derive(Debug)]
struct Class {
    name: Rc<str>,
    /// A class has one version in a file, or few.
    programs: Vec<(i32, Rc<Program>)>,
}

impl<'a> Programs<'a> {
    /// Nothing compiled yet.
    pub fn new(infos: &'a ClassInfos) -> Self {
        Self { infos, classes: Vec::new(), by_name: HashMap::new() }
    }

    /// The number of a class.
    pub fn class(&mut self, name: &str) -> ClassId {
        if let Some(known) = self.by_name.get(name) {
            return *known;
        }
        let name: Rc<str> = name.into();
        let class = ClassId(self.classes.len());
        self.classes.push(Class { name: Rc::clone(&name), programs: Vec::new() });
        self.by_name.insert(name, class);
        class
    }

    /// The name of a class.
    pub fn name(&self, class: ClassId) -> &Rc<str> {
        &self.classes[class.0].name
    }

    /// The program of a class in this version; none if neither the file nor Branchline describes it.
    pub fn get(&mut self, class: ClassId, version: i32) -> Result<Option<Rc<Program>>> {
        let known = &self.classes[class.0].programs;
        if let Some((_, program)) = known.iter().find(|(of, _)| *of == version) {
            return Ok(Some(Rc::clone(program)));
        }
        let name = Rc::clone(self.name(class));
        let described = match version {
            // A foreign class has no version of its own; the file describes it once.
            ..=0 => self.infos.find(&name, version, 0),
            _ => self.infos.get(&name, version),
        };
        let Some(info) = described.or_else(|| builtin::alike_in_all_versions(&name)) else { return Ok(None) };
        let program = Rc::new(self.compile(info)?);
        self.classes[class.0].programs.push((version, Rc::clone(&program)));
        Ok(Some(program))
    }

    fn compile(&mut self, info: &ClassInfo) -> Result<Program> {
        let mut steps: Vec<Step> = Vec::new();
        for element in &info.elements {
            let step = self.step(element).map_err(|error| error.in_object(format!("class {}", info.name)))?;
            match (steps.last_mut(), &step) {
                (Some(Step::Skip(before)), Step::Skip(more)) => *before = before.saturating_add(*more),
                _ => steps.push(step),
            }
        }
        let unwanted = |step: &&Step| {
            matches!(
                step,
                Step::Skip(_)
                    | Step::SkipString
                    | Step::SkipObject
                    | Step::SkipNumbers(_)
                    | Step::SkipPointer
                    | Step::SkipArray(..)
            )
        };
        let wanted_count = steps.len() - steps.iter().rev().take_while(unwanted).count();
        Ok(Program { steps, wanted_count })
    }

    fn step(&mut self, element: &Element) -> Result<Step> {
        let unknown =
            || FormatError::unsupported(format!("member {} of type code {}", element.name, element.type_code));
        let keep = wanted(&element.name);
        Ok(match element.kind() {
            MemberKind::Base if element.name == "TObject" => Step::TObject,
            MemberKind::Base => Step::Base(self.class(&element.name)),
            MemberKind::TObject(Times::One) => Step::TObject,
            MemberKind::TNamed(Times::One) => Step::Base(self.class("TNamed")),
            MemberKind::Number(Scalar::Plain(number)) if matches!(keep, Some(Wanted::Number(_))) => {
                Step::Value(keep.ok_or_else(unknown)?, number)
            }
            MemberKind::Number(scalar) => Step::Skip(scalar.stored_size()),
            MemberKind::Bits => Step::Skip(Number::U32.size()),
            MemberKind::FixedArray(scalar) => Step::Skip(scalar.stored_size().saturating_mul(element.array_length)),
            MemberKind::CountedArray(scalar) => {
                let Some(Wanted::Number(count)) = wanted(&element.count_name) else { return Err(unknown()) };
                match (keep, scalar) {
                    (Some(Wanted::Array(_)), Scalar::Plain(number)) => {
                        Step::Array(keep.ok_or_else(unknown)?, number, count)
                    }
                    _ => Step::SkipArray(scalar.stored_size(), count),
                }
            }
            MemberKind::Text(Times::One) => match keep {
                Some(Wanted::Text(_)) => Step::Text(keep.ok_or_else(unknown)?),
                _ => Step::SkipString,
            },
            MemberKind::Object(Times::One) => match keep {
                Some(Wanted::Pointers(_)) => Step::Pointers(keep.ok_or_else(unknown)?),
                _ if element.type_name == IO_FEATURES => Step::Base(self.class(IO_FEATURES)),
                _ => match Number::of_array_class(&element.type_name) {
                    Some(number) => Step::SkipNumbers(number.size()),
                    None => Step::SkipObject,
                },
            },
            MemberKind::Pointer(Times::One) => match keep {
                Some(Wanted::Link(_)) => Step::Link(keep.ok_or_else(unknown)?),
                _ => Step::SkipPointer,
            },
            MemberKind::Container => Step::SkipObject,
            MemberKind::Text(Times::Array) | MemberKind::TObject(Times::Array) => return Err(unknown()),
            MemberKind::TNamed(Times::Array) | MemberKind::Object(Times::Array) => return Err(unknown()),
            MemberKind::Pointer(Times::Array) | MemberKind::CharStar | MemberKind::ObjectArray => return Err(unknown()),
            MemberKind::NotStored | MemberKind::OldSeeks | MemberKind::Unknown => return Err(unknown()),
        })
    }
}

/// The class of TBranch::fIOFeatures, whose bits are wanted.
const IO_FEATURES: &str = "ROOT::TIOFeatures";
