//! Mapping of fields to named branches. Fields that only express structure (collection items, base classes) do not
//! become branches.
//!
//! ```
//! use branchline_format::ntuple::names::branches;
//! use branchline_format::ntuple::schema::{Field, Schema};
//!
//! let mut schema = Schema::default();
//! schema.fields.push(Field {
//!     name: "x".to_string(),
//!     type_name: "std::int32_t".to_string(),
//!     columns: vec![vec![0]],
//!     ..Field::default()
//! });
//! schema.top.push(0);
//!
//! let names: Vec<String> = branches(&schema).into_iter().map(|branch| branch.path).collect();
//! assert_eq!(names, ["x"]);
//! ```

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::schema::{Role, Schema};

/// Maximum nesting depth of fields. Deeper fields are assumed to form a cycle.
const DEPTH_MAX: usize = 64;
/// Maximum total length of paths, as a multiple of the total length of all names. Without a limit, long names that are
/// repeated in many paths would exhaust the memory.
const PATHS_FACTOR_MAX: usize = 64;
/// A name is not qualified with base classes if at least this number of members share it.
const SAME_NAMES_MAX: usize = 100;

/// A field that can be read by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Branch {
    /// Names of the enclosing fields and of the field, joined with dots.
    pub path: String,
    /// Name of the field.
    pub name: String,
    /// Index of the field.
    pub field: usize,
    /// Index of the parent branch.
    pub parent: Option<usize>,
}

/// All fields with a name. Each parent comes before its children.
pub fn branches(schema: &Schema) -> Vec<Branch> {
    let names: usize = schema.fields.iter().map(|field| field.name.len() + 1).sum();
    let mut walk = Walk { schema, branches: Vec::new(), room: names.saturating_mul(PATHS_FACTOR_MAX) };
    for (name, field) in top_names(schema) {
        walk.add(name, field, None, 0);
    }
    walk.branches
}

struct Walk<'a> {
    schema: &'a Schema,
    branches: Vec<Branch>,
    room: usize,
}

impl Walk<'_> {
    fn add(&mut self, name: String, field: usize, parent: Option<usize>, depth: usize) {
        let path = match parent {
            Some(parent) => format!("{}.{name}", self.branches[parent].path),
            None => name.clone(),
        };
        let Some(room) = self.room.checked_sub(path.len()).filter(|_| depth < DEPTH_MAX) else { return };
        self.room = room;
        let index = self.branches.len();
        self.branches.push(Branch { path, name, field, parent });
        self.add_below(field, index, depth + 1);
    }

    /// Add the nearest named descendants of a field, skipping fields without a name.
    fn add_below(&mut self, field: usize, parent: usize, depth: usize) {
        match self.schema.fields[field].role {
            _ if depth >= DEPTH_MAX => {}
            Role::Record => {
                for (name, member) in members_of(self.schema, field) {
                    self.add(name, member, Some(parent), depth);
                }
            }
            Role::Plain | Role::Collection => {
                for child in self.schema.fields[field].children.clone() {
                    self.add_below(child, parent, depth + 1);
                }
            }
            Role::Variant | Role::Streamer | Role::Unknown(_) => {}
        }
    }
}

/// Names and indexes of the top-level fields. Duplicate names get a number.
fn top_names(schema: &Schema) -> Vec<(String, usize)> {
    let mut times: HashMap<&str, usize> = HashMap::new();
    let named = |field: &usize| {
        let name = schema.fields[*field].name.as_str();
        let count = times.entry(name).or_default();
        *count += 1;
        (if *count == 1 { name.to_string() } else { format!("{name}#{count}") }, *field)
    };
    schema.top.iter().map(named).collect()
}

/// Prefix of the class names generated for records without a class.
const GENERATED: &str = "branchline::record_";

/// A unique class name for a record without a class, derived from the record's path.
pub fn generated_class_name(schema: &Schema, record: usize) -> String {
    let path = schema.path_of(record);
    let parts: Vec<&str> = path.split('.').filter(|part| *part != "_0").collect();
    let clean = parts.join("_").replace(|one: char| !one.is_ascii_alphanumeric(), "_");
    let numbered = (2..).map(|number| format!("{GENERATED}{clean}_{number}"));
    let mut names = std::iter::once(format!("{GENERATED}{clean}")).chain(numbered);
    let is_free = |name: &String| schema.fields.iter().all(|field| field.type_name != *name);
    names.find(is_free).unwrap_or_default()
}

/// The class name of a record; None if the record has no class or a generated class name.
pub(super) fn class_name(schema: &Schema, record: usize) -> Option<String> {
    let type_name = &schema.fields[record].type_name;
    (!type_name.is_empty() && !is_generated(type_name)).then(|| type_name.clone())
}

/// Whether `type_name` was generated for a record without a class.
pub fn is_generated(type_name: &str) -> bool {
    type_name.starts_with(GENERATED)
}

/// Whether the members of a record are named by position: `_0`, `_1`. This is the case for std::pair, std::tuple, and
/// records without a class whose member names are positions.
pub fn is_tuple(schema: &Schema, record: usize) -> bool {
    let field = &schema.fields[record];
    let is_one = ["std::pair<", "std::tuple<"].iter().any(|prefix| field.type_name.starts_with(prefix));
    let has_places = |is_place: &dyn Fn(usize, &str) -> bool| {
        field.children.iter().enumerate().all(|(place, child)| is_place(place, &schema.fields[*child].name))
    };
    match class_name(schema, record) {
        None => has_places(&|place, name| name == format!("_{place}")),
        Some(_) => is_one && has_places(&|_, name| is_place(name)),
    }
}

fn is_place(name: &str) -> bool {
    digits_behind(name, "_")
}

/// Whether `name` denotes a base class: `:_0`, `:_1`.
fn is_base(name: &str) -> bool {
    digits_behind(name, ":_")
}

fn digits_behind(name: &str, prefix: &str) -> bool {
    name.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
}

/// A member and its chain of base classes, outermost first.
struct Inherited<'a> {
    name: &'a str,
    field: usize,
    bases: Rc<Vec<&'a str>>,
}

/// Members of a record and its base classes, with unique names. Duplicate names are prefixed with as many of their base
/// classes as needed.
pub(super) fn members_of(schema: &Schema, record: usize) -> Vec<(String, usize)> {
    let mut inherited = Vec::new();
    collect(schema, record, &Rc::default(), &mut inherited);
    let mut by_name: HashMap<&str, Vec<&Inherited<'_>>> = HashMap::new();
    inherited.iter().for_each(|one| by_name.entry(one.name).or_default().push(one));
    let has_places = is_tuple(schema, record);
    let mut taken = HashSet::new();
    let mut members = Vec::with_capacity(inherited.len());
    for one in &inherited {
        let mut name = match by_name[one.name].as_slice() {
            same if (2..SAME_NAMES_MAX).contains(&same.len()) => qualified(one, same),
            _ if has_places => one.name[1..].to_string(),
            _ => one.name.to_string(),
        };
        if taken.contains(&name) {
            name = format!("{name}#{}", one.field);
        }
        taken.insert(name.clone());
        members.push((name, one.field));
    }
    members
}

fn collect<'a>(schema: &'a Schema, record: usize, bases: &Rc<Vec<&'a str>>, members: &mut Vec<Inherited<'a>>) {
    for child in &schema.fields[record].children {
        let field = &schema.fields[*child];
        if is_base(&field.name) && field.role == Role::Record && bases.len() < DEPTH_MAX {
            let mut longer = bases.to_vec();
            longer.push(&field.type_name);
            collect(schema, *child, &Rc::new(longer), members);
        } else {
            members.push(Inherited { name: &field.name, field: *child, bases: Rc::clone(bases) });
        }
    }
}

/// The member's name, prefixed with as few base classes as are needed to make the name unique.
fn qualified(one: &Inherited<'_>, same: &[&Inherited<'_>]) -> String {
    let others = || same.iter().filter(|other| other.field != one.field);
    let depth = one.bases.len();
    let is_unique = |count: &usize| others().all(|other| other.bases.get(..*count) != Some(&one.bases[..*count]));
    let needed = (0..=depth).find(is_unique).unwrap_or(depth);
    let mut name = one.bases[..needed].join("::");
    if needed > 0 {
        name.push_str("::");
    }
    name.push_str(one.name);
    name
}
