//! Addition of the weights of efficiencies. The histograms of an efficiency are added separately.

use super::addend::Addend;
use crate::write::object::numbers::Numbers;

impl Addend {
    /// Combine the weights like TEfficiency::operator+=.
    pub(crate) fn add_weight(&mut self, owner: usize, addend: &Addend) {
        let other = addend.number(owner, "fWeight");
        if let Some(Numbers::F64(weights)) = self.numbers.get_mut((owner, "fWeight")) {
            weights.iter_mut().for_each(|weight| *weight = *weight * other / (*weight + other));
        }
    }
}
