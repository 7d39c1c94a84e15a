//! Fields as branches: which of them are named, and how. Fields that only carry structure (items of collections, base
//! classes) have no name of their own.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::schema::{Role, Schema};

/// Fields within fields deeper than this are taken for a circle.
const DEPTH_MAX: usize = 64;
/// Paths may take this many times the bytes of all names: long names repeated in many paths would fill memory.
const PATHS_FACTOR_MAX: usize = 64;
/// With more members of one name than this, their base classes are not searched for what makes names different.
const SAME_NAMES_MAX: usize = 100;

/// A field that can be read by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Branch {
    /// Names of the fields that lead here and its own, joined with dots.
    pub path: String,
    /// Its own name.
    pub name: String,
    /// Number of the field.
    pub field: usize,
    /// Index of the branch that it belongs to.
    pub parent: Option<usize>,
}

/// All fields with a name, a parent before its children.
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

    /// The named fields below one, which may be behind fields without a name.
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

/// Fields at the top; a name that is there twice gets a number behind it.
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

/// Where the classes are that a writer gives to records without one.
const GENERATED: &str = "branchline::record_";

/// A class name for a record without a class, which no other field has: it is made of the record's path.
pub fn generated_class_name(schema: &Schema, record: usize) -> String {
    let path = schema.path_of(record);
    let parts: Vec<&str> = path.split('.').filter(|part| *part != "_0").collect();
    let clean = parts.join("_").replace(|one: char| !one.is_ascii_alphanumeric(), "_");
    let numbered = (2..).map(|number| format!("{GENERATED}{clean}_{number}"));
    let mut names = std::iter::once(format!("{GENERATED}{clean}")).chain(numbered);
    let is_free = |name: &String| schema.fields.iter().all(|field| field.type_name != *name);
    names.find(is_free).unwrap_or_default()
}

/// The class of a record; None if it has none, or only a generated one.
pub(super) fn class_name(schema: &Schema, record: usize) -> Option<String> {
    let type_name = &schema.fields[record].type_name;
    (!type_name.is_empty() && !is_generated(type_name)).then(|| type_name.clone())
}

/// Whether a writer gave this class to a record without one.
pub fn is_generated(type_name: &str) -> bool {
    type_name.starts_with(GENERATED)
}

/// Whether the members of a record have places instead of names: `_0`, `_1`. Those of a pair or a tuple do, and those
/// of records without a class that hold what has no C++ type.
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

/// Whether it is that of a base class: `:_0`, `:_1`.
fn is_base(name: &str) -> bool {
    digits_behind(name, ":_")
}

fn digits_behind(name: &str, prefix: &str) -> bool {
    name.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
}

/// A member, and the base classes through which it comes, the outermost first.
struct Inherited<'a> {
    name: &'a str,
    field: usize,
    bases: Rc<Vec<&'a str>>,
}

/// Members of a record and of its base classes, with names that are all different: where two have the same, the base
/// classes through which they come are put in front, as many as are needed.
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

/// The name behind as few of its base classes as make it different from the others.
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
