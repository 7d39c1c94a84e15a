//! Finds identical pages within a cluster, so that they are stored once, as in ROOT. For example, lists with the same
//! lengths have the same offsets, and therefore identical pages.

use std::collections::HashMap;

use branchline_format::ntuple::encoding::Encoding;
use xxhash_rust::xxh3::xxh3_64;

/// Number of bytes at each end of a page that are used to distinguish pages. Few pages differ only in between.
const SAMPLE_BYTES: usize = 256;
/// Maximum number of pages with the same samples with which a page is compared.
const COMPARED_COUNT_MAX: usize = 4;

/// A page to compare, as its index, its encoding and its elements.
type Page<'p> = (usize, &'p Encoding, &'p [u8]);

/// Returns, for each page, the index of the first page with the same elements and encoding. This may be the page
/// itself.
pub(crate) fn firsts_of<'p>(pages: impl Iterator<Item = (&'p Encoding, &'p [u8])>) -> Vec<usize> {
    let mut known: HashMap<(usize, u64), Vec<Page<'p>>> = HashMap::new();
    let first = |(number, (encoding, elements)): (usize, (&'p Encoding, &'p [u8]))| {
        let begin = elements.get(..SAMPLE_BYTES).unwrap_or(elements);
        let end = elements.last_chunk::<SAMPLE_BYTES>().map_or(elements, |end| end);
        let alike = known.entry((elements.len(), xxh3_64(begin) ^ xxh3_64(end).rotate_left(1))).or_default();
        let same = alike.iter().find(|(_, other, others)| *other == encoding && *others == elements);
        if let Some((first, _, _)) = same {
            return *first;
        }
        if alike.len() < COMPARED_COUNT_MAX {
            alike.push((number, encoding, elements));
        }
        number
    };
    pages.enumerate().map(first).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn pages_with_the_same_elements_and_encoding_have_one_first() {
        let [float, split] = [0x13, 0x18].map(|number| Encoding::new(number, 32, None).unwrap());
        let mut other = vec![1; 5000];
        other[2500] = 2;
        let (one, short) = (vec![1; 5000], vec![1; 40]);
        let pages =
            [(&float, &one), (&float, &other), (&split, &one), (&float, &one), (&float, &short), (&float, &short)];
        let firsts = firsts_of(pages.into_iter().map(|(encoding, elements)| (encoding, &**elements)));
        assert_eq!(firsts, [0, 1, 2, 0, 4, 4]);
    }

    #[test]
    fn a_page_is_compared_with_few_others() {
        let float = Encoding::new(0x13, 32, None).unwrap();
        let pages: Vec<Vec<u8>> = (0..=COMPARED_COUNT_MAX as u8)
            .chain([0, COMPARED_COUNT_MAX as u8])
            .map(|middle| [vec![7; SAMPLE_BYTES], vec![middle], vec![7; SAMPLE_BYTES]].concat())
            .collect();
        let firsts = firsts_of(pages.iter().map(|elements| (&float, &**elements)));
        assert_eq!(firsts, [0, 1, 2, 3, 4, 0, 6]);
    }
}
