//! Parser for C++ type names in streamer infos and branches.

use crate::numbers::scalar::Scalar;

/// Maximum nesting depth of templates. Compilers do not accept more deeply nested templates.
const DEPTH_MAX: usize = 32;

/// Containers that are streamed as an element count followed by the elements.
const SEQUENCES: [&str; 8] =
    ["vector", "list", "deque", "multiset", "unordered_set", "unordered_multiset", "forward_list", "RVec"];
/// Containers of keys and values.
const MAPS: [&str; 4] = ["map", "multimap", "unordered_map", "unordered_multimap"];
/// Smart pointers and std::optional, which are streamed like pointers.
const OWNERS: [&str; 3] = ["unique_ptr", "shared_ptr", "optional"];

/// Parsed C++ type. Each variant has its own streamed form.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum CppType {
    /// A number.
    Number(Scalar),
    /// std::string.
    Text,
    /// TString. As a member, it has no header.
    RootText,
    /// A container with one element type, except std::set, maps and std::bitset.
    Sequence(Box<CppType>),
    /// std::set, which is streamed like a sequence.
    Set(Box<CppType>),
    /// A container of keys and values.
    Map(Box<CppType>, Box<CppType>),
    /// std::bitset.
    Bitset,
    /// std::pair.
    Pair(Box<CppType>, Box<CppType>),
    /// A pointer to an object of the named class.
    Pointer(String),
    /// Any other class.
    Class(String),
}

impl CppType {
    /// Parse a type name; None if the type is nested too deeply.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        parse_within(name, 0)
    }

    /// Whether the type is a container.
    pub(crate) fn is_container(&self) -> bool {
        matches!(self, Self::Sequence(_) | Self::Set(_) | Self::Map(..) | Self::Bitset)
    }

    /// The sequence type for a class that is itself a container. The element type is the class's first template
    /// argument.
    pub(crate) fn own_container(name: &str) -> Self {
        let inside = template(name).and_then(|(_, inside)| Arguments { rest: inside }.next());
        let content = inside.and_then(Self::parse).unwrap_or_else(|| Self::Class(format!("in {name}")));
        Self::Sequence(Box::new(content))
    }

    /// Human-readable name, such as `std::vector<float>`.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Number(scalar) => scalar.type_name().to_string(),
            Self::Text | Self::RootText => "std::string".to_string(),
            Self::Sequence(inner) => format!("std::vector<{}>", inner.name()),
            Self::Set(inner) => format!("std::set<{}>", inner.name()),
            Self::Map(key, value) => format!("std::map<{}, {}>", key.name(), value.name()),
            Self::Bitset => "std::vector<bool>".to_string(),
            Self::Pair(first, second) => format!("std::pair<{}, {}>", first.name(), second.name()),
            Self::Pointer(class_name) => format!("{class_name}*"),
            Self::Class(class_name) => class_name.clone(),
        }
    }

    /// Whether `name` is a `std::array`.
    pub(crate) fn is_std_array(name: &str) -> bool {
        template(name.strip_prefix("std::").unwrap_or(name)).is_some_and(|(outer, _)| outer == "array")
    }
}

fn parse_within(name: &str, depth: usize) -> Option<CppType> {
    if depth > DEPTH_MAX {
        return None;
    }
    let name = name.trim();
    let name = name.strip_prefix("const ").unwrap_or(name).trim();
    if let Some(pointed) = name.strip_suffix('*') {
        let pointed = pointed.trim();
        let pointed = pointed.strip_suffix("const").unwrap_or(pointed).trim();
        return Some(CppType::Pointer(pointed.to_string()));
    }
    if let Some(scalar) = Scalar::of_type_name(name) {
        return Some(CppType::Number(scalar));
    }
    let short = name.strip_prefix("std::").unwrap_or(name);
    let short = short.strip_prefix("ROOT::VecOps::").unwrap_or(short);
    match short {
        "string" | "basic_string<char>" => return Some(CppType::Text),
        "TString" => return Some(CppType::RootText),
        _ => {}
    }
    let Some((outer, inside)) = template(short) else { return Some(CppType::Class(name.to_string())) };
    let mut arguments = Arguments { rest: inside };
    let mut argument = || arguments.next().and_then(|one| parse_within(one, depth + 1)).map(Box::new);
    Some(match outer {
        "bitset" => CppType::Bitset,
        "pair" => CppType::Pair(argument()?, argument()?),
        "set" => CppType::Set(argument()?),
        outer if SEQUENCES.contains(&outer) => CppType::Sequence(argument()?),
        outer if MAPS.contains(&outer) => CppType::Map(argument()?, argument()?),
        outer if OWNERS.contains(&outer) => CppType::Pointer(arguments.next()?.trim().to_string()),
        _ => CppType::Class(name.to_string()),
    })
}

/// Split a template name into the part before `<` and the arguments.
fn template(name: &str) -> Option<(&str, &str)> {
    let (outer, rest) = name.split_once('<')?;
    Some((outer.trim(), rest.trim_end().strip_suffix('>')?))
}

/// Iterator over template arguments, split at top-level commas.
struct Arguments<'a> {
    rest: &'a str,
}

impl<'a> Iterator for Arguments<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        if self.rest.trim().is_empty() {
            return None;
        }
        let mut depth = 0i32;
        for (position, character) in self.rest.char_indices() {
            match character {
                '<' => depth += 1,
                '>' => depth -= 1,
                ',' if depth == 0 => {
                    let one = &self.rest[..position];
                    self.rest = &self.rest[position + 1..];
                    return Some(one);
                }
                _ => {}
            }
        }
        Some(std::mem::take(&mut self.rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numbers::number::Number;

    #[test]
    fn nested_containers_are_understood() {
        let item = CppType::parse("vector<vector<float>, std::allocator<vector<float> > >");
        let floats = CppType::Sequence(Box::new(CppType::Number(Scalar::Plain(Number::F32))));
        assert_eq!(item, Some(CppType::Sequence(Box::new(floats))));
    }

    #[test]
    fn sets_are_called_sets_and_multisets_are_not() {
        let name = |written: &str| CppType::parse(written).map(|found| found.name());
        assert_eq!(name("set<vector<int> >").as_deref(), Some("std::set<std::vector<int32_t>>"));
        assert_eq!(name("std::multiset<int>").as_deref(), Some("std::vector<int32_t>"));
    }

    #[test]
    fn maps_keep_their_two_types_apart() {
        let found = CppType::parse("std::map<std::string,std::pair<int,A<B,C> > >");
        let pair = CppType::Pair(
            Box::new(CppType::Number(Scalar::Plain(Number::I32))),
            Box::new(CppType::Class("A<B,C>".to_string())),
        );
        assert_eq!(found, Some(CppType::Map(Box::new(CppType::Text), Box::new(pair))));
    }

    #[test]
    fn pointers_and_their_owners_point_to_a_class() {
        let pointer = Some(CppType::Pointer("ns::Hit".to_string()));
        assert_eq!(CppType::parse("const ns::Hit*"), pointer);
        assert_eq!(CppType::parse("std::unique_ptr<ns::Hit>"), pointer);
    }

    #[test]
    fn containers_nested_beyond_sense_are_refused() {
        let depth = 100_000;
        let name = format!("{}int{}", "vector<".repeat(depth), ">".repeat(depth));
        assert_eq!(CppType::parse(&name), None);
    }
}
