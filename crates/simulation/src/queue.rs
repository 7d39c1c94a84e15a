//! Priority queues of times, the earliest first.

use std::cmp::Ordering;

/// A time, or another number, with a total order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Time(pub(crate) f64);

impl PartialEq for Time {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Time {}

impl PartialOrd for Time {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Time {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// Reverses the order, because the standard heap is a max-heap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Later<T>(pub(crate) T);

impl<T: Ord> PartialOrd for Later<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T: Ord> Ord for Later<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.0.cmp(&self.0)
    }
}

/// An indexed heap with at most one time per item. The time of an item can be changed. Items are identified by number.
#[derive(Debug, Default)]
pub(crate) struct Timetable {
    heap: Vec<(Time, usize)>,
    /// Position of each item in the heap.
    places: Vec<Option<usize>>,
}

impl Timetable {
    /// Returns the earliest time with its item; the lowest number wins a tie.
    pub(crate) fn first(&self) -> Option<(Time, usize)> {
        self.heap.first().copied()
    }

    /// Sets or removes the time of an item.
    pub(crate) fn set(&mut self, number: usize, time: Option<Time>) {
        if number >= self.places.len() {
            self.places.resize(number + 1, None);
        }
        match (self.places[number], time) {
            (None, None) => {}
            (None, Some(time)) => {
                self.heap.push((time, number));
                self.places[number] = Some(self.heap.len() - 1);
                self.rises(self.heap.len() - 1);
            }
            (Some(place), Some(time)) => {
                self.heap[place].0 = time;
                let place = self.rises(place);
                self.sinks(place);
            }
            (Some(place), None) => {
                self.places[number] = None;
                self.heap.swap_remove(place);
                if let Some((_, moved)) = self.heap.get(place).copied() {
                    self.places[moved] = Some(place);
                    let place = self.rises(place);
                    self.sinks(place);
                }
            }
        }
    }

    fn rises(&mut self, mut place: usize) -> usize {
        while place > 0 && self.heap[place] < self.heap[(place - 1) / 2] {
            self.swap(place, (place - 1) / 2);
            place = (place - 1) / 2;
        }
        place
    }

    fn sinks(&mut self, mut place: usize) {
        loop {
            let children = [2 * place + 1, 2 * place + 2].into_iter().filter(|one| *one < self.heap.len());
            let Some(least) = children.min_by_key(|one| self.heap[*one]) else { return };
            if self.heap[place] <= self.heap[least] {
                return;
            }
            self.swap(place, least);
            place = least;
        }
    }

    fn swap(&mut self, one: usize, other: usize) {
        self.heap.swap(one, other);
        for place in [one, other] {
            self.places[self.heap[place].1] = Some(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_is_first_whatever_changes() {
        // After every random change, the first item must equal the result of a linear search.
        let (mut table, mut times, mut chance) = (Timetable::default(), [None; 20], 7_u64);
        for _ in 0..3000 {
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let number = (chance >> 33) as usize % times.len();
            let time = ((chance >> 40) % 4 > 0).then_some(Time(((chance >> 45) % 50) as f64));
            times[number] = time;
            table.set(number, time);
            let plain = times.iter().enumerate().filter_map(|(number, time)| time.map(|time| (time, number))).min();
            assert_eq!(table.first(), plain);
        }
    }
}
