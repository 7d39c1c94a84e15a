//! Emulates slow and unreliable storage systems, with wrappers around a store and with a proxy for any client.

mod delay_line;
mod draw;
mod fault_plan;
mod faulty;
mod proxy;
mod quantities;
mod shared_link;
mod throttle;
mod throttled;

pub use fault_plan::{FaultKind, FaultPlan};
pub use faulty::Faulty;
pub use proxy::{Proxy, ProxyCounts};
pub use throttle::Throttle;
pub use throttled::Throttled;
